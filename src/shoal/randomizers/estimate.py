"""Estimated frequencies with their errors."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shoal.errors import MissingExtraError, ParameterError

if TYPE_CHECKING:
    from shoal.randomizers.categorical import Categorical

__all__ = ["Estimate", "axes_for", "frame"]

Floats = NDArray[np.float64]

_MOST_BARS = 40
_ROOM = 1.12
"""Above the bars, for the legend."""
_ROUNDING = 1e-9
_UNBIASED = (
    "an unbiased estimate may be below 0 or above 1, outside its interval; projected(), or `shoal estimate --project`, "
    "gives the nearest distribution"
)
_SHORT = {False: "unbiased: some bars are below 0 or above 1", True: "intervals of the unbiased estimates"}
_PROJECTED = "intervals are those of the unbiased estimates, and the nearest distribution may lie outside"


@dataclass(frozen=True, eq=False)
class Estimate:
    """The frequency of every category among the people who reported, with standard errors and confidence intervals.

    Attributes
    ----------
    mechanism : Categorical
        What each person ran.
    reports : int
        n.
    frequencies : Floats
        Unbiased, so that some may be below 0; `projected` makes them a distribution.
    standard_errors : Floats
        Of the frequencies.
    lower, upper : Floats
        The confidence interval of each frequency by itself, between 0 and 1, for the people who reported.
    confidence : float
        Of the intervals.
    on_simplex : bool
        Whether the frequencies were projected.
    """

    mechanism: "Categorical"
    reports: int
    frequencies: Floats
    standard_errors: Floats
    lower: Floats
    upper: Floats
    confidence: float
    on_simplex: bool = False

    @classmethod
    def within(
        cls,
        mechanism: "Categorical",
        reports: int,
        frequencies: Floats,
        standard_errors: Floats,
        limits: tuple[Floats, Floats],
        *,
        confidence: float,
    ) -> "Estimate":
        """Return the estimate with these limits, moved outward to hold the frequencies, as far as those may be true.

        People are whole, so that limits may leave out an estimate between two numbers of them.
        """
        near = np.clip(frequencies, 0, 1)
        lower, upper = np.minimum(limits[0], near), np.maximum(limits[1], near)
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
    def outside(self) -> NDArray[np.bool_]:
        """Which frequencies are not in their intervals: an unbiased one only if it is below 0 or above 1."""
        return (self.frequencies < self.lower - _ROUNDING) | (self.frequencies > self.upper + _ROUNDING)

    @property
    def note(self) -> str | None:
        """Why some frequencies are outside their intervals, in a line; None if none is."""
        return (_PROJECTED if self.on_simplex else _UNBIASED) if self.outside.any() else None

    def top(self, count: int = 10) -> NDArray[np.int64]:
        """Return the numbers of the most frequent categories, the most frequent first."""
        return np.argsort(-self.frequencies, kind="stable")[:count]

    def columns(self, names: Sequence[str] | None = None) -> dict[str, Any]:
        """Return the category, its estimate, standard error and interval, as columns."""
        if names is not None and len(names) != len(self.frequencies):
            raise ParameterError(f"names must be {len(self.frequencies)} names, got {len(names)}")
        return {
            "category": list(names) if names is not None else list(range(len(self.frequencies))),
            "frequency": self.frequencies,
            "standard_error": self.standard_errors,
            "lower": self.lower,
            "upper": self.upper,
        }

    def to_frame(self, names: Sequence[str] | None = None) -> Any:
        """Return a pandas data frame with a row for each category."""
        return frame(self.columns(names))

    def to_dict(self, names: Sequence[str] | None = None) -> dict[str, Any]:
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

    def plot(
        self,
        axes: Any = None,
        *,
        names: Sequence[str] | None = None,
        truth: Floats | None = None,
        most: int = _MOST_BARS,
        title: str | None = None,
    ) -> Any:
        """Draw the most frequent categories with their intervals, and return the matplotlib axes.

        Parameters
        ----------
        axes : object
            Matplotlib axes to draw on; new ones if not given.
        names : sequence of str, optional
            Of the categories.
        truth : Floats, optional
            The true frequencies, to be drawn next to the estimates.
        most : int
            How many categories to draw.
        title : str, optional
            Instead of the number of reports and the mechanism.
        """
        shown = self.top(most)
        axes = axes_for(axes, (max(5.0, 0.28 * len(shown) + 2), 4.2))
        positions = np.arange(len(shown))
        axes.bar(positions, self.frequencies[shown], color="#9ecae1", label="estimate", width=0.75)
        middle, reach = (self.lower + self.upper)[shown] / 2, (self.upper - self.lower)[shown] / 2
        interval = {"fmt": "none", "ecolor": "#0b3d91", "elinewidth": 1.2, "capsize": 3}
        axes.errorbar(positions, middle, reach, label=f"{100 * self.confidence:g} % interval", **interval)
        if truth is not None:
            axes.plot(positions, np.asarray(truth)[shown], "_", color="#d55e00", markersize=9, mew=2, label="truth")
        labels = [str(names[position]) if names is not None else str(position) for position in shown]
        long = len(labels) > 12 or max(map(len, labels)) > 5
        turned = {"rotation": 60, "ha": "right"} if long else {}
        axes.set_xticks(positions, labels, fontsize=8, parse_math=False, **turned)  # a $ is a $
        axes.set_ylabel("frequency")
        bottom = min(0.0, float(self.frequencies[shown].min()))
        axes.set_ylim(bottom * _ROOM, axes.get_ylim()[1] * _ROOM)
        if bottom < 0:
            axes.axhline(0, color="black", linewidth=0.8)
        axes.margins(x=0.01)
        words = [f"{self.reports:,} reports", type(self.mechanism).__name__] if title is None else [title]
        if len(shown) < len(self.frequencies):
            words.append(f"the top {len(shown)} of {len(self.frequencies):,}")
        heading = (", " if title is None else "\n").join(words)
        if self.outside[shown].any():
            heading += f"\n{_SHORT[self.on_simplex]}"
        axes.set_title(heading, fontsize=10, parse_math=False)
        axes.legend(frameon=False, fontsize=9, loc="upper right", ncols=3)
        axes.spines[["top", "right"]].set_visible(False)
        return axes

    def __repr__(self) -> str:
        """Show the size, and a typical error."""
        error = float(np.median(self.standard_errors))
        return f"Estimate({len(self.frequencies):,} categories, {self.reports:,} reports, typical error ±{error:.2g})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{position}</td><td>{self.frequencies[position]:.6f}</td>"
            f"<td>{self.lower[position]:.6f} – {self.upper[position]:.6f}</td></tr>"
            for position in self.top(20)
        )
        note = f"<caption>{self.note}</caption>" if self.outside[self.top(20)].any() else ""
        head = f"<tr><th>category</th><th>frequency</th><th>{100 * self.confidence:g} % interval</th></tr>"
        return f"<table>{note}{head}{rows}</table>"


def frame(columns: dict[str, Any]) -> Any:
    """Return a pandas data frame."""
    try:
        import pandas as pd
    except ImportError:
        raise MissingExtraError('a frame needs pandas: pip install "shoal-dp[files]"; to_dict needs nothing') from None
    return pd.DataFrame(columns)


def axes_for(axes: Any, size: tuple[float, float]) -> Any:
    """Return the axes to draw on: new ones of this size, in inches, if none are given."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError('drawing needs matplotlib: pip install "shoal-dp[plot]"') from None
    if axes is None:
        return Figure(figsize=size, layout="constrained").add_subplot()
    if not hasattr(axes, "plot"):
        raise ParameterError(f"axes must be matplotlib axes, got {axes!r}; to save: plot().figure.savefig('file.png')")
    return axes
