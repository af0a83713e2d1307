"""Axes of a chart: linear, logarithmic or one of names, with ticks that people can read."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shoal.digits import number_text
from shoal.errors import ParameterError

_HUGE, _TINY = 1e300, 1e-300


@dataclass(frozen=True)
class Axis:
    """What is drawn along a direction: its label, its scale, and its ends if they are fixed.

    Attributes
    ----------
    label : str
        In words, with its unit.
    scale : {"linear", "log"}
        How values are spaced; with names, how bars are numbered does not matter.
    low, high : float, optional
        The ends; what is not given is fitted to what is drawn.
    names : tuple of str
        Of the bars, for an axis that has bars along it instead of numbers.
    ticks : tuple of (float, str)
        Ticks with texts of their own, such as days; chosen if there are none.
    """

    label: str
    scale: str = "linear"
    low: float | None = None
    high: float | None = None
    names: tuple[str, ...] = ()
    ticks: tuple[tuple[float, str], ...] = ()

    def __post_init__(self) -> None:
        """Refuse ends that are none."""
        ends = [end for end in (self.low, self.high) if end is not None]
        if self.scale not in ("linear", "log"):
            raise ParameterError(f"scale must be linear or log, got {self.scale!r}", "scale")
        if not all(math.isfinite(end) for end in ends) or (self.scale == "log" and not all(end > 0 for end in ends)):
            raise ParameterError(f"the ends of an axis must be finite, and above 0 on a log scale, got {ends!r}")
        if len(ends) == 2 and not ends[0] < ends[1]:
            raise ParameterError(f"the low end of an axis must be below the high one, got {ends!r}")


@dataclass(frozen=True)
class Scale:
    """An axis with both ends, which turns values into pixels."""

    axis: Axis
    low: float
    high: float
    start: float
    end: float

    @classmethod
    def fitted(cls, axis: Axis, values: Iterable[float], *, zero: bool = False) -> "Scale":
        """Return the scale of an axis that shows these values, and zero if it is to be there."""
        if axis.names:
            return cls(axis, -0.5, len(axis.names) - 0.5, 0.0, 1.0)
        shown = [min(max(value, -_HUGE), _HUGE) for value in values if math.isfinite(value)]
        if axis.scale == "log":
            low, high = _log_range([max(value, _TINY) for value in shown if value > 0])
        else:
            low, high = _linear_range([*shown, 0.0] if zero else shown)
        low, high = low if axis.low is None else axis.low, high if axis.high is None else axis.high
        if not low < high:  # one end is fixed, and everything is beyond it
            low, high = (low, low * 10) if axis.scale == "log" else (low, low + max(1.0, abs(low)))
            if axis.high is not None:
                high = axis.high
                low = high / 10 if axis.scale == "log" else high - max(1.0, abs(high))
        return cls(axis, low, high, 0.0, 1.0)

    def between(self, start: float, end: float) -> "Scale":
        """Return the same scale, from this pixel to that."""
        return Scale(self.axis, self.low, self.high, start, end)

    @property
    def logarithmic(self) -> bool:
        """Whether it is a log scale."""
        return self.axis.scale == "log" and not self.axis.names

    def at(self, value: float) -> float:
        """Return the pixel of a value; NaN where it has none."""
        if not math.isfinite(value) or (self.logarithmic and value <= 0):
            return math.nan
        if self.logarithmic:
            part = (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        else:
            part = (value / 2 - self.low / 2) / (self.high / 2 - self.low / 2)
        return self.start + part * (self.end - self.start)

    def ticks(self, most: int) -> list[tuple[float, str]]:
        """Return at most about this many ticks between the ends, with their texts."""
        if self.axis.names:
            return list(enumerate(self.axis.names))
        if self.axis.ticks:
            inside = [tick for tick in self.axis.ticks if self.low <= tick[0] <= self.high]
            return inside[:: max(1, math.ceil(len(inside) / max(most, 1)))]
        values = _log_ticks(self.low, self.high, most) if self.logarithmic else _ticks(self.low, self.high, most)
        return [(value, number_text(value)) for value in values]


def _linear_range(values: Sequence[float]) -> tuple[float, float]:
    if not values:
        return 0.0, 1.0
    low, high = min(values), max(values)
    if low == high:
        low, high = (low - abs(low) / 2, high + abs(high) / 2) if low else (0.0, 1.0)
    if 0 <= low <= 0.25 * high:  # so near to zero that zero belongs to the picture
        low = 0.0
    room = 0.1 * (high / 2 - low / 2)
    return (low if low == 0 else low - room, high if high == 0 else high + room)


def _log_range(values: Sequence[float]) -> tuple[float, float]:
    if not values:
        return 0.1, 1.0
    low, high = math.log10(min(values)), math.log10(max(values))
    room = max(0.04 * (high - low), 0.05)
    if high - low < 0.3:
        room = 0.25
    return 10 ** max(low - room, -305.0), 10 ** min(high + room, 305.0)


def _ticks(low: float, high: float, most: int) -> list[float]:
    """Return multiples of 1, 2 or 5 times a power of ten."""
    rough = (high / 2 - low / 2) * 2 / max(most, 1)
    if not rough > 0 or not math.isfinite(rough):
        return []
    power = 10.0 ** math.floor(math.log10(rough))
    step = next((factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9)), 10 * power)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    if last - first > 2 * most + 2:  # numbers whose digits are not enough for these ends
        return []
    digits = max(0, -math.floor(math.log10(step))) if step < 1 else 0
    return [round(index * step, min(digits + 1, 300)) + 0.0 for index in range(first, last + 1)]


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    """Return powers of ten, if there are enough of them; else also twice and five times them, or multiples."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    if last - first >= 2:
        every = math.ceil((last - first + 1) / max(most, 1))
        every = next(step for step in (1, 2, 3, 4, 6, 8, 10, 12, 15, 20, 25, 30, 50, 100, 700) if step >= every)
        return [10.0**power for power in range(first, last + 1) if power % every == 0]
    finer = [
        factor * 10.0**power
        for power in range(first - 1, last + 1)
        for factor in (1, 2, 5)
        if low * (1 - 1e-9) <= factor * 10.0**power <= high * (1 + 1e-9)
    ]
    return finer if 2 <= len(finer) <= most + 2 else _ticks(low, high, most)
