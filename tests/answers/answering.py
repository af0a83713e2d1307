"""The file of answers, and how answers are compared with it: bit for bit where the arithmetic is the same.

The first line of the file is a digest of what numpy and the C library make of a few functions. Vector units and
versions differ in the last bit of an exponential, and so do sums after it. Where the digest is the same, every answer
must be the same in every bit. Where it is another, decimals may differ by 1e-6 of themselves, and nothing else may.
"""

import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.answers.questions import Answers, Case, cases

__all__ = ["Difference", "answered", "arithmetic", "differences", "read", "write"]

_PATH = Path(__file__).with_name("answers.jsonl")
_ELSEWHERE = 1e-6


class Difference(NamedTuple):
    """An answer that is not what the file says."""

    key: str
    part: str
    before: Any
    now: Any

    def __str__(self) -> str:
        """Show both values, all digits of them."""
        return f"{self.key} [{self.part}]: {self.before!r} before, {self.now!r} now"


def arithmetic() -> str:
    """Return a digest of the last bits of this machine's elementary functions, transforms and products."""
    points = np.linspace(0.01, 9.7, 4099)
    square = points[:4096].reshape(64, 64)
    arrays = [np.exp(points), np.exp(-points), np.log(points), np.log1p(points), np.expm1(points), np.tanh(points)]
    arrays += [np.fft.rfft(points[:4096]).view(np.float64), square @ square.T, np.sqrt(points), points**0.7]
    plain = [function(x) for function in (math.exp, math.log, math.erfc, math.lgamma) for x in points.tolist()]
    return hashlib.sha256(b"".join(each.tobytes() for each in (*arrays, np.array(plain)))).hexdigest()[:16]


def answered(asked: Iterable[Case], processes: int = 1) -> Iterator[tuple[str, Answers]]:
    """Yield the key and the answers of each case, in order; in several processes, if wanted."""
    keys = [case.key for case in asked]
    if processes == 1:
        yield from map(_answer, keys)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(_answer, keys, chunksize=4)


@cache
def _by_key() -> dict[str, Case]:
    every = cases()
    found = {case.key: case for case in every}
    assert len(found) == len(every), "two cases have the same key"
    return found


def _answer(key: str) -> tuple[str, Answers]:
    return key, _by_key()[key].answers()


def read() -> tuple[str, dict[str, Answers]]:
    """Return the digest of the arithmetic under which the file was written, and all answers by key."""
    first, *lines = _PATH.read_text(encoding="utf-8").splitlines()
    return json.loads(first)["arithmetic"], dict(json.loads(line) for line in lines)


def write(answers: dict[str, Answers]) -> None:
    """Write the file anew; decimals as the shortest digits that give the same double."""
    lines = [json.dumps({"arithmetic": arithmetic()})]
    lines += [json.dumps(line, ensure_ascii=False, separators=(",", ":")) for line in answers.items()]
    part = _PATH.with_suffix(".part")
    part.write_text("\n".join(lines) + "\n", encoding="utf-8")
    os.replace(part, _PATH)


def differences(key: str, before: Answers, now: Answers, *, exact: bool) -> list[Difference]:
    """Return every answer of the file that is not given now; an answer to a new question is no difference."""
    missing = "no answer"
    return [
        Difference(key, part, value, now.get(part, missing))
        for part, value in before.items()
        if not _same(value, now.get(part, missing), exact=exact)
    ]


def _same(before: Any, now: Any, *, exact: bool) -> bool:
    if not exact and isinstance(before, float) and isinstance(now, float) and math.isfinite(before):
        return math.isclose(before, now, rel_tol=_ELSEWHERE, abs_tol=1e-12)
    return type(before) is type(now) and repr(before) == repr(now)  # all bits, the sign of zero included; NaN is NaN
