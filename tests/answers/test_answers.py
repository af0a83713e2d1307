"""No guarantee falls below what is proven, or becomes looser: part of the questions by default, all in exhaustive."""

import hashlib
import json
from pathlib import Path

import pytest

from tests.answers import answering
from tests.answers.answering import Row, append, asked, crossed, digest, read
from tests.answers.questions import WITHDRAWN, cases
from tests.exhaustive import EXHAUSTIVE

_ONE_IN = 1 if EXHAUSTIVE else 16
_ROWS, _DIGEST = 1_128, "0bc9cc8274d8d4b2547ef9c134f29ede185e0967ee2b43519b601224cd2ab962"
"""The number and the digest of the first rows: rows are appended, not changed."""


def _chosen() -> dict[str, list[str]]:
    """Return keys by family: those whose SHA-256 is a multiple of 16, the same in every run, and at least one."""
    families: dict[str, list[str]] = {}
    for case in cases():
        families.setdefault(case.family, []).append(case.key)
    return {
        family: [key for key in keys if _number(key) % _ONE_IN == 0] or [min(keys, key=_number)]
        for family, keys in families.items()
    }


def _number(key: str) -> int:
    return int.from_bytes(hashlib.sha256(key.encode()).digest())


@pytest.mark.slow
@pytest.mark.parametrize("family", _chosen())
def test_answers_stay_between_their_limits(family: str) -> None:
    rows = read()
    found = [line for key, answers in asked(_chosen()[family]) for line in crossed(key, rows[key], answers)]
    assert not found, "\n".join(found)


def test_rows_are_appended_and_never_changed() -> None:
    assert digest(_ROWS) == _DIGEST, "rows of answers.jsonl were changed; `python -m tests.answers` only appends"


def test_every_question_has_a_row_and_every_row_a_question() -> None:
    keys = {case.key for case in cases()}
    assert set(read()) - set(WITHDRAWN) == keys
    assert not keys & set(WITHDRAWN)


def test_a_row_that_is_there_is_not_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text("")
    monkeypatch.setattr(answering, "_PATH", path)
    append({"a/b": {"ε": Row(0.1, 0.2, "limit")}})
    with pytest.raises(ValueError, match="not changed"):
        append({"c": {}, "a/b": {"ε": Row(0.1, 0.3, "limit")}})
    assert [json.loads(line) for line in path.read_text().splitlines()] == [["a/b", {"ε": [0.1, 0.2, "limit"]}]]


@pytest.mark.parametrize(
    ("proof", "value", "said"),
    [("limit", 0.0999, "is below"), ("pair", 0.2001, "looser than"), ("bound", 0.2001, "is above")],
)
def test_an_answer_beyond_its_limits_is_told(proof: str, value: float, said: str) -> None:
    row = {"ε": Row(0.1, 0.2, proof)}
    assert crossed("key", row, {"ε": 0.15}) == crossed("key", row, {"ε": 0.1}) == crossed("key", row, {"ε": 0.2}) == []
    (line,) = crossed("key", row, {"ε": value})
    assert said in line
    (line,) = crossed("key", row, {})
    assert "no answer" in line


def test_limits_are_rounded_outwards() -> None:
    for value in (0.12345678, 1 / 3, 2 / 3, 1e-300, 5e7 / 3, 0.0, 1.0):
        assert answering._down(value) <= value <= answering._up(value) <= value * (1 + 1e-5)
        assert answering._down(value) >= value * (1 - 1e-5)
