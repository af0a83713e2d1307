"""Axes: ends that show everything, and ticks that people can read."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.charts.scale import Axis, Scale
from shoal.digits import number_text
from shoal.errors import ParameterError


def _texts(low: float, high: float, scale: str = "linear", most: int = 6) -> list[str]:
    return [text for _, text in Scale.fitted(Axis("", scale, low, high), []).ticks(most)]


@pytest.mark.parametrize(
    ("low", "high", "scale", "texts"),
    [
        (0, 1, "linear", ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        (0, 365, "linear", ["0", "100", "200", "300"]),
        (-0.3, 0.3, "linear", ["−0.3", "−0.2", "−0.1", "0", "0.1", "0.2", "0.3"]),
        (1e3, 1e9, "log", ["1,000", "10,000", "10⁵", "10⁶", "10⁷", "10⁸", "10⁹"]),
        (1e-12, 1e-2, "log", ["10⁻¹²", "10⁻¹⁰", "10⁻⁸", "10⁻⁶", "10⁻⁴", "0.01"]),
        (0.02, 0.7, "log", ["0.02", "0.05", "0.1", "0.2", "0.5"]),
        (0.030, 0.036, "log", ["0.03", "0.031", "0.032", "0.033", "0.034", "0.035", "0.036"]),
        (0, 2e6, "linear", ["0", "5×10⁵", "10⁶", "1.5×10⁶", "2×10⁶"]),
    ],
)
def test_ticks(low: float, high: float, scale: str, texts: list[str]) -> None:
    most = 7 if scale == "log" or low < 0 else 5
    assert _texts(low, high, scale, most) == texts


_finite = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(_finite, max_size=5), st.sampled_from(["log", "linear"]), st.integers(1, 12), st.booleans())
def test_everything_is_shown_between_the_ends(values: list[float], scale: str, most: int, zero: bool) -> None:
    fitted = Scale.fitted(Axis("", scale), values, zero=zero).between(0.0, 100.0)
    assert math.isfinite(fitted.low)
    assert math.isfinite(fitted.high)
    assert fitted.low < fitted.high
    for value in values:
        if 1e-299 <= abs(value) <= 1e299 and (scale == "linear" or value > 0):
            assert -1e-6 <= fitted.at(value) <= 100 + 1e-6
    ticks = fitted.ticks(most)
    assert len(ticks) <= 2 * most + 4
    assert all(-1e-3 <= fitted.at(value) <= 100.001 for value, _ in ticks)
    assert len({text for _, text in ticks}) == len(ticks) or fitted.high - fitted.low < 1e-5 * abs(fitted.high)


@given(_finite)
def test_numbers_are_short(value: float) -> None:
    text = number_text(value)
    assert len(text) <= 15
    assert "-" not in text


def test_ends_that_leave_nothing() -> None:
    assert Scale.fitted(Axis("", low=5), [1, 2]).low == 5
    beyond = Scale.fitted(Axis("", "log", high=0.1), [1, 2])
    assert beyond.low < beyond.high == 0.1
    with pytest.raises(ParameterError, match="low end of an axis"):
        Axis("", low=2, high=1)
    with pytest.raises(ParameterError, match="above 0 on a log scale"):
        Axis("", "log", low=0)
    with pytest.raises(ParameterError, match="linear or log"):
        Axis("", "cubic")
