"""No number changes: 1 case in 13 of the file of answers is asked again, the same ones in every run.

The cases are those whose key has a SHA-256 that is a multiple of 13, and one of each family at least.
`python -m tests.answers` asks all, in about three minutes.
"""

import hashlib

import pytest

from tests.answers.answering import answered, arithmetic, differences, read
from tests.answers.questions import Case, cases

_ONE_IN = 13


def _chosen() -> dict[str, list[Case]]:
    families: dict[str, list[Case]] = {}
    for case in cases():
        families.setdefault(case.family, []).append(case)
    return {
        family: [case for case in every if _digest(case) % _ONE_IN == 0] or [min(every, key=_digest)]
        for family, every in families.items()
    }


def _digest(case: Case) -> int:
    return int.from_bytes(hashlib.sha256(case.key.encode()).digest())


@pytest.mark.slow
@pytest.mark.parametrize("family", _chosen())
def test_answers_are_those_of_the_file(family: str) -> None:
    written, before = read()
    exact = written == arithmetic()
    now = dict(answered(_chosen()[family]))
    found = [str(line) for key in now for line in differences(key, before[key], now[key], exact=exact)]
    assert not found, "\n".join(found)


def test_every_question_has_its_answers() -> None:
    _, before = read()
    assert list(before) == [case.key for case in cases()]


def test_a_changed_last_bit_is_a_difference() -> None:
    before = {"ε": 0.1, "n": 3, "error": "!RangeError", "none": None, "nan": float("nan")}
    assert differences("key", before, dict(before), exact=True) == []
    for part, value in {"ε": 0.1 + 2**-56, "n": 3.0, "error": "!ParameterError", "none": 0, "nan": 0.0}.items():
        (found,) = differences("key", before, before | {part: value}, exact=True)
        assert found.part == part and repr(found.now) == repr(value)
    assert differences("key", before, before | {"ε": 0.1 + 2**-56}, exact=False) == []
    assert len(differences("key", before, before | {"ε": 0.100001}, exact=False)) == 1
    assert len(differences("key", before, {}, exact=False)) == len(before)
