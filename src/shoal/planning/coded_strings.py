"""Strings as whole numbers of up to 64 bits: their first bytes, or a hash; and back."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.arrays import WordArray
from shoal.checks import known, whole
from shoal.errors import ParameterError

Strings = Sequence[str] | Sequence[bytes] | Sequence[int] | NDArray[Any]
"""One string or integer of each person."""

CODES = ("bytes", "hash", "numbers")
"""How values become numbers: their first bytes, a hash of them, or they are numbers already."""

MOST_BITS = 64
"""Of a string, or of its hash, that count."""


@dataclass(frozen=True)
class CodedStrings:
    """How strings become numbers, the same for all people.

    Parameters
    ----------
    bits : int
        How many bits a number has, up to 64; a multiple of 8.
    code : {"bytes", "hash", "numbers"}
        "bytes" takes the first bytes of a string in UTF-8, and what is longer is cut: prefixes are found. "hash" takes
        the first bytes of its SHA-256: long strings are told apart, and come back if they are among `names`.
        "numbers" are whole numbers of so many bits.
    names : iterable of str, optional
        Strings that a hash may come from, from a public source.

    Examples
    --------
    >>> coded = CodedStrings(24, "bytes")
    >>> [hex(number) for number in coded.numbers(["abc", "a", "abcd"])]
    ['0x616263', '0x610000', '0x616263']
    >>> coded.labels([0x616263, 0x610000])
    ['abc', 'a']
    """

    bits: int
    code: str = "bytes"
    names: Iterable[str] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        """Check the code, and hash the names."""
        known(CODES, code=self.code)
        if whole(bits=self.bits, least=8, most=MOST_BITS) % 8:
            raise ParameterError(
                f"bits must be a multiple of 8, got {self.bits}: whole bytes of a string are counted", "bits"
            )
        if self.names and self.code != "hash":
            raise ParameterError('names are for code="hash": other codes come back by themselves')
        object.__setattr__(self, "names", {self._hashed(name.encode()): name for name in self.names})

    def numbers(self, values: Strings) -> WordArray:
        """Return the number of each value."""
        if self.code == "numbers":
            return self._checked(values)
        strings = [_encoded(value) for value in values]
        if self.code == "hash":
            return np.fromiter(map(self._hashed, strings), np.uint64, len(strings))
        width = self.bits // 8
        cut = [string[:width] for string in strings]
        if any(b"\0" in string for string in cut):
            raise ParameterError('a string holds a zero byte, which ends it here; use code="hash"')
        table = np.array(cut, f"S{width}").view(np.uint8).reshape(-1, width)
        result = np.zeros(len(strings), np.uint64)
        for column in table.T:
            result = (result << np.uint64(8)) | column
        return result

    def labels(self, numbers: Sequence[int] | WordArray) -> list[str]:
        """Return what these numbers stand for: text, the name of a hash or its digits, or the number itself."""
        if self.code == "numbers":
            return [str(int(number)) for number in numbers]
        if self.code == "hash":
            assert isinstance(self.names, dict)
            return [self.names.get(int(each), f"{int(each):0{self.bits // 4}x}") for each in numbers]
        width = self.bits // 8
        return [_text(int(number).to_bytes(width, "big").rstrip(b"\0")) for number in numbers]

    def _hashed(self, string: bytes) -> int:
        return int.from_bytes(hashlib.sha256(string).digest()[: self.bits // 8], "big")

    def _checked(self, values: Strings) -> WordArray:
        given = np.asarray(values)
        if given.ndim != 1 or given.dtype.kind not in "iu" or not len(given):
            raise ParameterError(
                f"values must be a list of whole numbers, got {given.dtype} of shape {given.shape}; for strings, "
                'code="bytes" or "hash"',
                "values",
            )
        if int(given.min()) < 0 or int(given.max()) >> self.bits:
            raise ParameterError(f"values must be from 0 to 2**{self.bits} − 1, and one of them is not", "values")
        return given.astype(np.uint64)


def _encoded(value: object) -> bytes:
    if isinstance(value, str):
        return value.encode(errors="surrogateescape")
    if isinstance(value, bytes):
        return value
    raise ParameterError(
        f'values must be strings or bytes, got {type(value).__name__}; for whole numbers, code="numbers"', "values"
    )


def _text(string: bytes) -> str:
    """Return a string that may end within a letter."""
    return string.decode(errors="backslashreplace")
