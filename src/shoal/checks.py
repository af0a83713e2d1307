"""Argument checks that name the argument: ``positive(local_epsilon=x)`` returns a float, or says what is wrong."""

import difflib
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from shoal.digits import advice
from shoal.errors import ParameterError

Number = float | np.floating[Any] | np.integer[Any]
"""What is taken for a number, of Python or of numpy; an int is a float to type checkers."""
Numbers = NDArray[Any] | Sequence[Number] | Sequence[Sequence[Number]]
"""What is taken for an array of them."""

MOST_REPORTS = 10**15
"""The largest number of reports: beyond it a double no longer tells neighbours apart everywhere."""

SMALLEST_DELTA = 1e-300
"""Below this, doubles lose accuracy; a computed δ that small is rounded up to it."""


def _one(arguments: dict[str, Any]) -> tuple[str, Any]:
    ((name, value),) = arguments.items()
    return name, value


def _number(name: str, value: Any) -> float:
    if isinstance(value, (bool, np.bool_, str, bytes)):
        raise ParameterError(
            f"{name} must be a number, got {value!r}{advice(value) if isinstance(value, str) else ''}", name
        )
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(f"{name} must be a number, got {value!r}", name) from None
    if math.isnan(number):
        raise ParameterError(f"{name} must be a number, got NaN", name)
    if math.isinf(number):
        raise ParameterError(f"{name} must be finite, got {value!r}", name)
    return number


def non_negative(**argument: Any) -> float:
    """Return the argument as a finite float ≥ 0."""
    name, value = _one(argument)
    number = _number(name, value)
    if number < 0:
        raise ParameterError(f"{name} must be at least 0, got {value!r}", name)
    return number


def positive(**argument: Any) -> float:
    """Return the argument as a finite float > 0."""
    name, value = _one(argument)
    number = _number(name, value)
    if number <= 0:
        raise ParameterError(f"{name} must be greater than 0, got {value!r}", name)
    return number


def probability(*, zero: bool = False, usual: str = "1e-6 to 1e-9", **argument: Any) -> float:
    """Return the argument as a float strictly between 0 and 1, or also 0 if `zero`; `usual` values are suggested."""
    name, value = _one(argument)
    number = _number(name, value)
    if not 0 <= number < 1 or (number == 0 and not zero):
        least = "at least 0" if zero else "greater than 0"
        raise ParameterError(f"{name} must be {least} and less than 1, got {value!r}; usual values are {usual}", name)
    return number


def whole(*, least: int = 1, most: int = MOST_REPORTS, **argument: Any) -> int:
    """Return the argument as an int between `least` and `most`; an integral float such as 1e6 will do."""
    name, value = _one(argument)
    number = _number(name, value)
    if number != math.floor(number):
        below = max(least, math.floor(number))
        raise ParameterError(
            f"{name} must be a whole number, got {value!r}; the nearest are {below} and {below + 1}", name
        )
    count = int(number) if isinstance(value, (float, np.floating)) else _index(name, value)
    if not least <= count <= most:
        shown = f"{count:,}" if abs(count) <= MOST_REPORTS else repr(value)  # 99999.0 is not what was typed
        raise ParameterError(f"{name} must be at least {least} and at most {most:,}, got {shown}", name)
    return count


def _index(name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        return int(_number(name, value))


def known(choices: tuple[str, ...], **argument: Any) -> str:
    """Return the argument if it is one of the choices; else, name the one that it is like."""
    name, value = _one(argument)
    if value not in choices:
        near = _meant(str(value).casefold().replace("_", "-").replace(" ", "-"), choices)
        hint = f"; did you mean {near}?" if near else ""
        raise ParameterError(f"{name} must be one of {', '.join(choices)}; got {value!r}{hint}", name)
    return str(value)


def store(instance: object, **values: object) -> None:
    """Set fields of a frozen dataclass, which only its own `__post_init__` may do."""
    for name, value in values.items():
        object.__setattr__(instance, name, value)


def check_fields(instance: object, check: Callable[..., object], *names: str, **limits: object) -> None:
    """Set fields of a frozen dataclass to what a check returns: ``check_fields(self, whole, "size", most=64)``."""
    for name in names:
        store(instance, **{name: check(**{name: getattr(instance, name)}, **limits)})


_ALSO_CALLED = {
    **dict.fromkeys(("rr", "krr", "k-rr", "grr"), "randomized-response"),
    **dict.fromkeys(("olh", "blh", "lh"), "local-hashing"),
    **dict.fromkeys(("oue", "sue", "ue"), "unary-encoding"),
    **{"hr": "hadamard-response", "rhr": "recursive-hadamard-response", "pgr": "projective-geometry-response"},
    **{"ss": "subset-selection", "pi-rappor": "private-independent-rappor"},
    **dict.fromkeys(("rdp", "moments"), "renyi"),
    **dict.fromkeys(("loss", "prv", "fft"), "pld"),
    **dict.fromkeys(("balls-and-bins", "bnb"), "allocation"),
    **dict.fromkeys(("shuffle", "shuffling"), "permutation"),
    **dict.fromkeys(("subsampling", "uniform"), "poisson"),
}
"""What the literature calls some of what shoal has."""


def _meant(value: str, choices: tuple[str, ...]) -> str | None:
    """Return the choice that somebody probably meant: by another name, by a typing error, or by a part of its name."""
    if _ALSO_CALLED.get(value) in choices:
        return _ALSO_CALLED[value]
    near = difflib.get_close_matches(value, choices, n=1)
    parts = [choice for choice in choices if len(value) > 3 and value in choice]
    return next(iter([*near, *sorted(parts, key=len)]), None)


@overload
def each(function: Callable[[float], float], values: Number) -> float: ...
@overload
def each(function: Callable[[float], float], values: Numbers) -> NDArray[np.float64]: ...
def each(function: Callable[[float], float], values: Number | Numbers) -> float | NDArray[np.float64]:
    """Apply a function of one float to a number, giving a number, or to every entry of an array, giving an array."""
    array = np.asarray(values)
    if array.ndim == 0:
        return function(values)  # type: ignore[arg-type]
    return np.array([function(value) for value in array.ravel()], dtype=np.float64).reshape(array.shape)
