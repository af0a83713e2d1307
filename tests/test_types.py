"""No public signature says Any; what mypy learns of those of the accountant is in `tests/typed_use.py`."""

import inspect
from typing import Any, get_overloads

import pytest

import shoal
from shoal.curve import Comparison
from shoal.files.encode import encode
from shoal.lower_limit import LowerBound

_ANSWERS = [shoal.amplify, shoal.compare, shoal.lower_bound, shoal.compose, shoal.calibrate, shoal.explain]
_DATA = [
    shoal.plan,
    shoal.plan_quantiles,
    shoal.plan_sum,
    shoal.heavy_hitters,
    shoal.plan_heavy_hitters,
    shoal.audit,
    encode,
]
_MECHANISMS = [
    each
    for each in (getattr(shoal, name) for name in dir(shoal))
    if inspect.isclass(each) and each.__module__.startswith("shoal.mechanisms.")
]
_RUN = [
    function
    for kind in _MECHANISMS
    for name, function in inspect.getmembers(kind, inspect.isfunction)
    if not name.startswith("_") and function.__module__.startswith("shoal.")
]
_METHODS = [
    getattr(kind, name)
    for kind in (shoal.PrivacyCurve, Comparison, LowerBound)
    for name in ("epsilon", "delta", "renyi")
    if hasattr(kind, name)
]


@pytest.mark.parametrize(
    "function", [*_ANSWERS, *_METHODS, *_DATA, *dict.fromkeys(_RUN)], ids=lambda function: function.__qualname__
)
def test_no_public_signature_says_any(function: Any) -> None:
    hints = inspect.get_annotations(function)
    assert set(inspect.signature(function).parameters) - {"self", "cls"} <= set(hints)
    for each in (function, *get_overloads(function)):
        assert not {Any, "Any"} & set(inspect.get_annotations(each).values())
    assert len(get_overloads(function)) == (2 if function in _METHODS else 0)
