"""Estimated frequencies with their errors."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.arrays import Array, BoolArray, IntArray
from shoal.errors import ParameterError
from shoal.shown import Shown, frame

if TYPE_CHECKING:
    from shoal.charts import Chart
    from shoal.mechanisms.categorical import Categorical

_MOST_BARS = 40
_ROUNDING = 1e-9
_UNBIASED = (
    "an unbiased estimate may be below 0 or above 1, outside its interval; in Python, projected() gives the nearest "
    "distribution"
)
_PROJECTED = "intervals are those of the unbiased estimates, and the nearest distribution may lie outside"


@dataclass(frozen=True, eq=False)
class Estimate(Shown):
    """The frequency of every category among the people who reported, with standard errors and confidence intervals.

    Attributes
    ----------
    mechanism : Categorical
        What each person ran.
    reports : int
        n.
    frequencies : numpy.ndarray
        Unbiased, so that some may be below 0; `projected` makes them a distribution.
    standard_errors : numpy.ndarray
        Of the frequencies.
    lower, upper : numpy.ndarray
        The confidence interval of each frequency by itself, between 0 and 1, for the people who reported.
    confidence : float
        Of the intervals.
    on_simplex : bool
        Whether the frequencies were projected.
    """

    mechanism: "Categorical"
    reports: int
    frequencies: Array
    standard_errors: Array
    lower: Array
    upper: Array
    confidence: float
    on_simplex: bool = False

    @classmethod
    def within(
        cls,
        mechanism: "Categorical",
        reports: int,
        frequencies: Array,
        standard_errors: Array,
        limits: tuple[Array, Array],
        *,
        confidence: float,
    ) -> "Estimate":
        """Return the estimate with these limits, moved outward to hold the frequencies, as far as those may be true.

        People are whole, so that limits may leave out an estimate between two numbers of them.
        """
        near = np.clip(frequencies, 0, 1)
        lower = np.minimum(limits[0], near)
        upper = np.maximum(limits[1], near)
        return cls(mechanism, reports, frequencies, standard_errors, lower, upper, confidence)

    def projected(self) -> "Estimate":
        """Return the nearest distribution: no frequency below 0, and their sum is 1.

        This is no longer unbiased, but never farther from the truth in the sum of squares. The errors are those of the
        estimate before.
        """
        ordered = np.sort(self.frequencies)[::-1]
        excess = (np.cumsum(ordered) - 1) / np.arange(1, len(ordered) + 1)
        shift = excess[np.flatnonzero(ordered > excess)[-1]]
        return replace(self, frequencies=np.maximum(self.frequencies - shift, 0), on_simplex=True)

    @property
    def outside(self) -> BoolArray:
        """Which frequencies are not in their intervals: an unbiased one only if it is below 0 or above 1."""
        return (self.frequencies < self.lower - _ROUNDING) | (self.frequencies > self.upper + _ROUNDING)

    @property
    def note(self) -> str | None:
        """Why some frequencies are outside their intervals, in a line; None if none is."""
        return (_PROJECTED if self.on_simplex else _UNBIASED) if self.outside.any() else None

    def top(self, count: int = 10) -> IntArray:
        """Return the numbers of the most frequent categories, the most frequent first."""
        return np.argsort(-self.frequencies, kind="stable")[:count]

    def columns(self, names: Sequence[Any] | None = None) -> dict[str, Any]:
        """Return the category, its estimate, standard error and interval, as columns."""
        if names is not None and len(names) != len(self.frequencies):
            raise ParameterError(f"names must be {len(self.frequencies)} names, got {len(names)}", "names")
        return {
            "category": list(names) if names is not None else list(range(len(self.frequencies))),
            "frequency": self.frequencies,
            "standard_error": self.standard_errors,
            "lower": self.lower,
            "upper": self.upper,
        }

    def to_frame(self, names: Sequence[Any] | None = None, *, kind: str = "pandas") -> Any:
        """Return a data frame with a row for each category.

        Parameters
        ----------
        names : sequence, optional
            Of the categories.
        kind : {"pandas", "polars", "arrow"}
            Whose: a pandas or polars DataFrame, or a pyarrow Table.
        """
        return frame(self.columns(names), kind)

    def to_dict(self, names: Sequence[Any] | None = None) -> dict[str, Any]:
        """Return everything as plain values."""
        columns = {key: np.asarray(column).tolist() for key, column in self.columns(names).items()}
        return {
            "mechanism": self.mechanism.to_dict(),
            "reports": self.reports,
            "confidence": self.confidence,
            "on_simplex": self.on_simplex,
            "outside_interval": int(np.count_nonzero(self.outside)),
            "note": self.note,
            **columns,
        }

    def _columns(self) -> dict[str, Any]:
        return self.columns()

    def chart(
        self,
        *,
        names: Sequence[Any] | None = None,
        truth: Array | None = None,
        most: int = _MOST_BARS,
        title: str | None = None,
    ) -> "Chart":
        """Return the most frequent categories as bars with their intervals; `plot` has the parameters."""
        return self._drawn(names=names, truth=truth, most=most, title=title)

    def _small_chart(self) -> "Chart":
        return self._drawn(most=20)

    def plot(
        self,
        axes: Any = None,
        *,
        names: Sequence[Any] | None = None,
        truth: Array | None = None,
        most: int = _MOST_BARS,
        title: str | None = None,
    ) -> Any:
        """Draw the most frequent categories with their intervals, and return the matplotlib axes.

        Parameters
        ----------
        axes : object
            Matplotlib axes to draw on; new ones if not given.
        names : sequence, optional
            Of the categories.
        truth : numpy.ndarray, optional
            The true frequencies, to be drawn next to the estimates.
        most : int
            How many categories to draw.
        title : str, optional
            Instead of the number of reports and the mechanism; from its second line on, it is in smaller letters.
        """
        return self.chart(names=names, truth=truth, most=most, title=title).plot(axes)

    def __repr__(self) -> str:
        """Show the size, and a typical error."""
        error = float(np.median(self.standard_errors))
        return f"Estimate({len(self.frequencies):,} categories, {self.reports:,} reports, typical error ±{error:.2g})"

    def _cells(self) -> dict[str, list[str]]:
        shown = self.top(len(self.frequencies))
        return {
            "category": [str(position) for position in shown],
            "frequency": [f"{self.frequencies[position]:.6f}" for position in shown],
            f"{100 * self.confidence:g} % interval": [
                f"{self.lower[position]:.6f} – {self.upper[position]:.6f}" for position in shown
            ],
        }

    def _caption(self) -> str:
        return f"{self!r}{f'; {self.note}' if self.outside[self.top(20)].any() else ''}"
