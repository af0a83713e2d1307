"""No public signature of the accountant says Any; what mypy learns of them is in `tests/typed_use.py`."""

import inspect
from typing import Any, get_overloads, get_type_hints

import pytest

import shoal
from shoal.curve import Comparison
from shoal.lower_limit import LowerBound

_FUNCTIONS = [shoal.amplify, shoal.compare, shoal.lower_bound, shoal.compose, shoal.calibrate, shoal.explain]
_METHODS = [
    getattr(kind, name)
    for kind in (shoal.PrivacyCurve, Comparison, LowerBound)
    for name in ("epsilon", "delta", "renyi")
    if hasattr(kind, name)
]


@pytest.mark.parametrize("function", [*_FUNCTIONS, *_METHODS], ids=lambda function: function.__qualname__)
def test_no_public_signature_says_any(function: Any) -> None:
    hints = get_type_hints(function)
    assert set(inspect.signature(function).parameters) - {"self"} <= set(hints)
    for each in (function, *get_overloads(function)):
        assert Any not in get_type_hints(each).values()
    assert len(get_overloads(function)) == (2 if function in _METHODS else 0)
