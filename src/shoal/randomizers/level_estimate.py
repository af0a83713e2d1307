"""What the counts of levels tell: the sum and the mean of numbers, their distribution and quantiles, with intervals."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.charts.scale import Axis
from shoal.charts.shown import Shown
from shoal.charts.svg_chart import Chart
from shoal.checks import probability
from shoal.digits import rounded_up
from shoal.randomizers.counts import Counts
from shoal.randomizers.estimate import Estimate
from shoal.randomizers.interval import two_sided

if TYPE_CHECKING:
    from shoal.randomizers.levels import Levels

__all__ = ["LevelEstimate", "Measured"]

_SHOWN = (0.25, 0.5, 0.75)

_SEEN = 0.015
"""An interval of a share that is not wider than this is under the line."""


class Measured(NamedTuple):
    """A number with its confidence interval, and its standard error where it has one."""

    value: float
    lower: float
    upper: float
    standard_error: float | None = None


@dataclass(frozen=True, eq=False, repr=False)
class LevelEstimate(Shown):
    """The sum, the mean, the distribution and quantiles of these people's values.

    Attributes
    ----------
    levels : Levels
        How values were rounded, and what hides them.
    counts : Counts
        As they were released.
    histogram : Estimate
        The share of people at each level.
    """

    levels: "Levels"
    counts: Counts[Any]
    histogram: Estimate

    @property
    def reports(self) -> int:
        """How many people there are, n."""
        return self.histogram.reports

    @property
    def confidence(self) -> float:
        """That of each interval by itself."""
        return self.histogram.confidence

    @cached_property
    def sum(self) -> Measured:
        """The sum of the values, unbiased; with the most that rounding adds, and tails of the noise beyond normal ones.

        Its quantile is z + κ(z³ − 3z)/24 standard errors, κ the excess, and half a step for the sum of whole numbers.
        """
        levels, n = self.levels, self.reports
        middle = levels.lower + (levels.upper - levels.lower) / 2
        total = n * (middle + float(levels.weights @ self.histogram.frequencies))
        noise, fourth = levels.protocol.weighted_cumulants(self.counts, levels.weights)
        variance = noise + levels.rounding_variance(n)
        error, normal = math.sqrt(variance), two_sided(self.confidence)
        beyond = max(0.0, fourth / variance**2 * (normal**3 - 3 * normal) / 24)
        reach = (normal + beyond) * error + (levels.upper - levels.lower) / (2 * levels.steps)
        return Measured(total, total - reach, total + reach, error)

    @property
    def mean(self) -> Measured:
        """The mean of the values: the sum, over n."""
        value, lower, upper, error = self.sum
        return Measured(value / self.reports, lower / self.reports, upper / self.reports, (error or 0) / self.reports)

    @cached_property
    def _people_below(self) -> NDArray[np.float64]:
        """How many people were rounded to each level or a lower one: about, at least and at most, in three rows.

        They are counted from the nearer end: n is known, and fewer levels have less noise.
        """
        protocol, n, last = self.levels.protocol, self.reports, self.levels.steps
        support, _ = protocol.supported(self.counts.values, n)
        result = np.full((3, last + 1), float(n))
        for index in range(last):
            fewer = min(index + 1, last - index)
            fewest, most = protocol.noise_limits(self.counts, (1 - self.confidence) / 2, fewer)
            part = slice(index + 1) if index + 1 <= last - index else slice(index + 1, None)
            seen, about = support[part].sum(), n * self.histogram.frequencies[part].sum()
            ends = about, seen - most, seen - fewest
            result[:, index] = ends if part.start is None else (n - about, n - ends[2], n - ends[1])
        result[1:] = np.clip(result[1:], 0, n)
        return result

    @cached_property
    def _distribution(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Points of the distribution, and about how many people are at or below each, never falling.

        A count has the mean of the distribution over the step behind its level, and stands at the middle of that.
        """
        values, about = self.levels.values, self._people_below[0][:-1]
        rising = (np.maximum.accumulate(about) + np.minimum.accumulate(about[::-1])[::-1]) / 2
        points = np.concatenate([values[:1], (values[:-1] + values[1:]) / 2, values[-1:]])
        return points, np.concatenate([[0.0], np.clip(rising, 0, self.reports), [self.reports]])

    def quantile(self, share: float) -> Measured:
        """Return the least number that this share of the people do not exceed, with an interval.

        Rounding moves nobody by a step or more: two steps are the least that an interval within the levels has. Each
        end is where the counts, looked at from that side, first do not decide; so no level is tested but one.

        Parameters
        ----------
        share : float
            Such as 0.5 for the median.
        """
        wanted = probability(share=share, usual="0.25, 0.5 or 0.75") * self.reports
        _, least, most = self._people_below
        values, last = self.levels.values, self.levels.steps
        undecided = np.flatnonzero(most >= wanted)[0]  # it is above every level before this one
        lower = values[max(undecided - 1, 0)]
        short = np.flatnonzero(least < wanted)  # and below the level behind the next of these
        upper = values[min(short[-1] + 2, last)] if len(short) else values[min(1, last)]
        points, below = self._distribution
        value = float(np.interp(wanted, below, points))
        return Measured(min(max(value, float(lower)), float(upper)), float(lower), float(upper))

    def columns(self) -> dict[str, Any]:
        """Return each level, the share of people at it, and at or below it with an interval, as columns."""
        about, least, most = self._people_below / self.reports
        return {
            "level": self.levels.values,
            "frequency": self.histogram.frequencies,
            "at_or_below": about,
            "lower": least,
            "upper": most,
        }

    def _columns(self) -> dict[str, Any]:
        return self.columns()

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, with the quartiles."""
        quartiles = {f"{share:g}": self.quantile(share)._asdict() for share in _SHOWN}
        for each in quartiles.values():
            del each["standard_error"]
        return {
            **self.levels.to_dict(),
            "reports": self.reports,
            "confidence": self.confidence,
            "sum": self.sum._asdict(),
            "mean": self.mean._asdict(),
            "quantiles": quartiles,
            "levels": {name: column.tolist() for name, column in self.columns().items()},
        }

    def chart(self, guarantee: str = "") -> Chart:
        """Return the share of people at or below each level with its intervals, and the median.

        Parameters
        ----------
        guarantee : str
            What holds for them, such as "ε = 0.5 at δ = 1e-06", for the title.
        """
        columns, median = self.columns(), self.quantile(0.5)
        interval = f"{100 * self.confidence:g} % interval"
        lower, upper = (columns[name][:-1].tolist() for name in ("lower", "upper"))
        widest = max((high - low for low, high in zip(lower, upper, strict=True)), default=0.0)
        seen = widest > _SEEN
        unseen = "" if seen else f"; {interval}s are narrower than the line, ± {rounded_up(widest / 2, 2)} at most"
        chart = Chart(
            Axis("value", "linear", self.levels.lower, self.levels.upper),
            Axis("share of people at or below", "linear", 0.0, 1.0),
            f"{self.reports:,} people" + (f", {guarantee}" if guarantee else ""),
            f"The mean is {self.mean.value:.6g}, the median {median.value:.6g}, its {interval} {median.lower:.6g} to "
            f"{median.upper:.6g}.",
            note=f"mean {self.mean.value:.6g} ± {self.mean.standard_error:.2g}{unseen}",
        )
        points, below = self._distribution
        chart.band(points[1:-1].tolist(), lower, upper, interval if seen else "", "guarantee")
        chart.line(points.tolist(), (below / self.reports).tolist(), "estimate", "guarantee")
        chart.mark(median.value, 0.5, f"median {median.value:.4g}")
        return chart

    def __repr__(self) -> str:
        """Show the sum, the mean and the median."""
        median = self.quantile(0.5)
        return (
            f"LevelEstimate(sum {self.sum.value:.6g} ± {self.sum.standard_error:.2g}, mean {self.mean.value:.6g} ± "
            f"{self.mean.standard_error:.2g}, median {median.value:.4g} in [{median.lower:.6g}, {median.upper:.6g}], "
            f"{self.reports:,} reports)"
        )
