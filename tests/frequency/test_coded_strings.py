"""Strings become numbers and come back: by their first bytes, by a hash, or as numbers."""

import hashlib

import numpy as np
import pytest

import shoal
from shoal.frequency.coded_strings import CodedStrings


def test_first_bytes_are_kept_in_order_and_come_back() -> None:
    coded = CodedStrings(48, "bytes")
    strings = ["", "a", "ab", "abcdef", "häuser", "~~~~~~"]
    numbers = coded.numbers(strings)
    assert numbers.tolist() == [int.from_bytes(each.encode()[:6].ljust(6, b"\0"), "big") for each in strings]
    assert coded.labels(numbers) == ["", "a", "ab", "abcdef", "häuse", "~~~~~~"]
    assert coded.numbers([each.encode() for each in strings]).tolist() == numbers.tolist()
    assert coded.numbers(["abcdefg"]).tolist() == coded.numbers(["abcdef"]).tolist()
    assert CodedStrings(64).numbers(["\x7f" * 9]).tolist() == [int.from_bytes(b"\x7f" * 8, "big")]
    assert CodedStrings(24).labels(CodedStrings(24).numbers(["aaä"])) == ["aa\\xc3"]  # cut within a letter


def test_hashes_come_back_where_their_strings_are_named() -> None:
    long = "https://example.org/a/very/long/path"
    coded = CodedStrings(48, "hash", [long])
    numbers = coded.numbers([long, "another"])
    digest = hashlib.sha256(b"another").hexdigest()[:12]
    assert f"{int(numbers[1]):012x}" == digest
    assert coded.labels(numbers) == [long, digest]


def test_numbers_are_kept() -> None:
    coded = CodedStrings(64, "numbers")
    most = np.array([0, 2**64 - 1], np.uint64)
    assert coded.labels(coded.numbers(most)) == ["0", str(2**64 - 1)]


@pytest.mark.parametrize(
    ("code", "values", "told"),
    [
        ("bytes", ["a\0b"], "zero byte"),
        ("bytes", [1], 'code="numbers"'),
        ("numbers", ["a"], 'code="bytes"'),
        ("numbers", [-1], "from 0 to"),
        ("numbers", [1 << 24], "from 0 to"),
        ("numbers", [], "whole numbers"),
        ("text", ["a"], "code must be"),
    ],
)
def test_what_is_no_string_is_refused(code: str, values: list[object], told: str) -> None:
    with pytest.raises(shoal.ParameterError, match=told):
        CodedStrings(24, code).numbers(values)


def test_names_are_for_hashes_only() -> None:
    with pytest.raises(shoal.ParameterError, match="hash"):
        CodedStrings(24, "bytes", ["a"])
