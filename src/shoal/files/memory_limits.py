"""What fits into memory: how many reports at once, and which mechanisms a file may ask for."""

from typing import Any

from shoal.errors import ParameterError
from shoal.mechanisms import Categorical

_AT_ONCE = 1 << 21
_MOST_CELLS = 1 << 25
"""256 MiB of counts, and an estimate needs many times as much: what a few bytes of a header may ask for."""


def records_at_once(length: int) -> int:
    """Return how many records of this many bytes to hold in memory at once."""
    return max(1, min(1 << 20, _AT_ONCE // length))


def categorical(given: Any) -> Categorical:
    """Return a mechanism if it is one for categories, and its counts fit into memory."""
    if not isinstance(given, Categorical):
        raise ParameterError(f"{given!r} is for numbers, not for categories; files hold reports of categories")
    if max(given.cells, given.categories) > _MOST_CELLS:
        raise ParameterError(
            f"{given!r} needs {float(max(given.cells, given.categories)):.3g} counts, and files are for at most "
            f"{_MOST_CELLS:,}; take fewer categories, or a mechanism with fewer outputs"
        )
    return given
