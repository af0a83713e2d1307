"""The file of answers: between which two numbers each answer must stay, for good.

`answers.jsonl` has one row for each case: its key and, for each question, `at_least`, `at_most` and the
proof of the end that no true answer crosses (`questions.py`). A guarantee may become tighter, but not
fall below `at_least`, and it may become looser by the allowed growth over the answer that was given when
the row was written. For a lower bound, `at_most` is the proven end, and it may become looser downwards.

Rows are appended, and never changed: `test_answers.py` holds their digest.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import NamedTuple

import shoal
from tests.answers.questions import Case, Question, cases

_PATH = Path(__file__).with_name("answers.jsonl")
_GROWTH = {"ε": 1e-3, "ρ": 1e-3, "δ": 0.05}
"""The allowed growth of an answer, relative to the reference.

Evaluators, searches and lattices promise ε within 0.1 % of their theorem's value, and `certify` proves
within as much; a finer or coarser lattice moves answers within that. δ falls by up to fifty times its
relative change for a relative change of ε, hence 5 %.
"""
_LEAST = {"ε": 1e-12, "ρ": 1e-12, "δ": 1e-299}
"""Growth that does not matter, where the reference is zero or nearly so."""


class Row(NamedTuple):
    """The two limits of an answer, and the proof of the limit that no true answer crosses."""

    at_least: float
    at_most: float
    proof: str


Rows = dict[str, Row]


@cache
def _by_key() -> dict[str, Case]:
    every = cases()
    found = {case.key: case for case in every}
    assert len(found) == len(every), "two cases have the same key"
    return found


def _each(key: str) -> Iterator[tuple[Question, float]]:
    """Yield each question of a case that has an answer: an error of shoal is none."""
    try:
        questions = _by_key()[key].questions()
    except shoal.ShoalError:
        return
    for question in questions:
        try:
            value = float(question.value())
        except shoal.ShoalError:
            continue
        if math.isfinite(value):
            yield question, value


def answers_of(key: str) -> dict[str, float]:
    """Return the answers of a case by name."""
    return {question.name: value for question, value in _each(key)}


def rows_of(key: str) -> Rows:
    """Return the row for a case, from its answers of now and from the proven ends."""
    return {question.name: _row(question, value) for question, value in _each(key)}


def _row(question: Question, value: float) -> Row:
    end, proof = question.end()
    kind = question.name.removeprefix("at least ")[0]
    kind = kind if kind in _GROWTH else "ε"
    if question.lower:
        assert value <= end, f"{question.name} is {value}, above the proven {end}"
        return Row(_down(value * (1 - _GROWTH[kind])), _up(end), proof)
    assert value >= end, f"{question.name} is {value}, below the proven {end}"
    return Row(_down(end), _up(value * (1 + _GROWTH[kind]) + _LEAST[kind]), proof)


def _down(value: float) -> float:
    """Return seven digits, rounded down."""
    nearest = float(f"{value:.6e}")
    return nearest if nearest <= value else float(f"{value - abs(value) * 1e-6:.6e}")


def _up(value: float) -> float:
    """Return seven digits, rounded up."""
    return -_down(-value)


def asked(keys: Iterable[str], processes: int = 1) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the key and the answers of each case, in order; in several processes, if wanted."""
    every = list(keys)
    if processes == 1:
        yield from ((key, answers_of(key)) for key in every)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from zip(every, pool.map(answers_of, every, chunksize=4), strict=True)


def crossed(key: str, rows: Rows, answers: dict[str, float]) -> list[str]:
    """Return a line for each answer that is missing or not where its row says."""
    lines = []
    for name, row in rows.items():
        value = answers.get(name)
        if value is None:
            lines.append(f"{key} [{name}]: no answer, where there was one")
        elif value < row.at_least:
            what = "below" if row.proof in ("limit", "pair") else "looser than"
            lines.append(f"{key} [{name}]: {value!r} is {what} {row.at_least!r} ({row.proof})")
        elif value > row.at_most:
            what = "above" if row.proof == "bound" else "looser than"
            lines.append(f"{key} [{name}]: {value!r} is {what} {row.at_most!r} ({row.proof})")
    return lines


def read() -> dict[str, Rows]:
    """Return all rows by key."""
    lines = _PATH.read_text(encoding="utf-8").splitlines()
    return {key: {name: Row(*row) for name, row in rows.items()} for key, rows in map(json.loads, lines)}


def append(new: dict[str, Rows]) -> None:
    """Append the rows of cases that have none; a row that is there is not changed."""
    if there := sorted(set(new) & set(read())):
        raise ValueError(f"{there[0]} has a row, which is not changed: withdraw it (WITHDRAWN in questions.py)")
    lines = [json.dumps(line, ensure_ascii=False, separators=(",", ":")) for line in new.items()]
    with _PATH.open("a", encoding="utf-8") as file:
        file.write("".join(f"{line}\n" for line in lines))


def digest(count: int) -> str:
    """Return the SHA-256 of the first rows of the file."""
    lines = _PATH.read_text(encoding="utf-8").splitlines(keepends=True)
    return hashlib.sha256("".join(lines[:count]).encode()).hexdigest()
