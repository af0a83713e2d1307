"""What the counts of a tree tell: how many people are below each edge of a leaf, and quantiles, with intervals."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shoal.charts.scale import Axis
from shoal.charts.shown import Shown
from shoal.charts.svg_chart import Chart
from shoal.checks import probability
from shoal.randomizers.bundled import quantiles
from shoal.randomizers.counts import Counts
from shoal.randomizers.dummies import Dummies
from shoal.randomizers.estimate import Estimate
from shoal.randomizers.level_estimate import Measured

if TYPE_CHECKING:
    from shoal.randomizers.quantile_tree import QuantileTree

__all__ = ["TreeEstimate"]

_SHOWN = (0.25, 0.5, 0.75)


@dataclass(frozen=True, eq=False, repr=False)
class TreeEstimate(Shown):
    """The distribution and quantiles of these people's values.

    Attributes
    ----------
    tree : QuantileTree
        Which node holds which values, and what hides them.
    counts : tuple of Counts
        As they were released, one for each depth.
    histograms : tuple of Estimate
        The share of people in each node of each depth.
    """

    tree: "QuantileTree"
    counts: tuple[Counts[Any], ...]
    histograms: tuple[Estimate, ...]

    @property
    def reports(self) -> int:
        """How many people there are, n."""
        return self.histograms[0].reports

    @property
    def confidence(self) -> float:
        """That of each interval by itself."""
        return self.histograms[0].confidence

    @cached_property
    def people_below(self) -> NDArray[np.float64]:
        """How many people are below each edge between two leaves: about, at least and at most, in three rows."""
        ranges, n = self.tree.ranges, self.reports
        about, seen = (np.where(ranges.rest, float(n), 0.0) for _ in range(2))
        for index, (protocol, counts, histogram) in enumerate(
            zip(self.tree.protocols, self.counts, self.histograms, strict=True)
        ):
            support, _ = protocol.supported(counts.values, n)
            starts, stops = ranges.starts[:, index], ranges.stops[:, index]
            shares, sums = (np.concatenate([[0.0], np.cumsum(each)]) for each in (histogram.frequencies, support))
            about += n * (shares[stops] - shares[starts])
            seen += sums[stops] - sums[starts]
        fewest, most = self._noise_limits
        return np.stack([about, np.clip(seen - most, 0, n), np.clip(seen - fewest, 0, n)])

    @cached_property
    def _noise_limits(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The quantiles of the noise of what is added up for each edge, exactly; the same sums have the same."""
        terms, level = self.tree.ranges.terms, (1 - self.confidence) / 2
        first = self.tree.protocols[0]
        if isinstance(first, Dummies) and all(first.noise_like(each) for each in self.tree.protocols):
            terms = np.abs(terms).sum(axis=1, keepdims=True)  # symmetric, and the same at all depths
        different, where = np.unique(terms, axis=0, return_inverse=True)
        limits = np.array([self._limits(tuple(row), level) for row in different.tolist()])
        return limits[where.ravel(), 0], limits[where.ravel(), 1]

    def _limits(self, terms: tuple[int, ...], level: float) -> tuple[int, int]:
        """Return the quantiles of the noise of so many nodes of each depth, those with a minus taken away."""
        start, masses = 0, np.ones(1)
        for protocol, counts, number in zip(self.tree.protocols, self.counts, terms, strict=False):
            first, each = protocol.noise_masses(counts, abs(number))
            start += first if number >= 0 else -(first + len(each) - 1)
            masses = np.convolve(masses, each if number >= 0 else each[::-1])
        low, high = quantiles(masses, level)
        return start + low, start + high

    @cached_property
    def _rising(self) -> NDArray[np.float64]:
        """About how many people are below each edge, the ends included, never falling."""
        about = np.concatenate([[0.0], self.people_below[0], [float(self.reports)]])
        rising = (np.maximum.accumulate(about) + np.minimum.accumulate(about[::-1])[::-1]) / 2
        return np.clip(rising, 0, self.reports)

    def quantile(self, share: float) -> Measured:
        """Return the least number that this share of the people do not exceed, with an interval of whole leaves.

        Parameters
        ----------
        share : float
            Such as 0.5 for the median.
        """
        wanted = probability(share=share, usual="0.25, 0.5 or 0.75") * self.reports
        _, least, most = self.people_below
        edges, last = self.tree.edges, self.tree.leaves - 1
        undecided = np.flatnonzero(most >= wanted)  # it is in no leaf before this one
        lower = float(edges[undecided[0] if len(undecided) else last])
        short = np.flatnonzero(least < wanted)  # and in none behind the next of these
        upper = float(edges[short[-1] + 2 if len(short) else 1])
        value = float(np.interp(wanted, self._rising, edges))
        return Measured(min(max(value, lower), upper), lower, upper)

    def columns(self) -> dict[str, Any]:
        """Return each edge between two leaves, and the share of people below it with an interval, as columns."""
        about, least, most = self.people_below / self.reports
        error = np.sqrt(self.tree.variance(reports=self.reports)) / self.reports
        names = ("edge", "below", "lower", "upper", "standard_error")
        return dict(zip(names, (self.tree.edges[1:-1], about, least, most, error), strict=True))

    def _columns(self) -> dict[str, Any]:
        return self.columns()

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, with the quartiles."""
        quartiles = {f"{share:g}": self.quantile(share)._asdict() for share in _SHOWN}
        for each in quartiles.values():
            del each["standard_error"]
        return {
            **self.tree.to_dict(),
            "reports": self.reports,
            "confidence": self.confidence,
            "quantiles": quartiles,
            "distribution": {name: column.tolist() for name, column in self.columns().items()},
        }

    def chart(self) -> Chart:
        """Return the share of people below each edge with its intervals, and the median."""
        columns, median = self.columns(), self.quantile(0.5)
        interval = f"{100 * self.confidence:g} % interval"
        chart = Chart(
            Axis("value", "linear", self.tree.lower, self.tree.upper),
            Axis("people below", "linear", 0.0, 1.0),
            f"{self.reports:,} reports, {self.tree.leaves:,} leaves",
            f"The median is {median.value:.6g}, its {interval} {median.lower:.6g} to {median.upper:.6g}.",
        )
        edges, lower, upper = (columns[name].tolist() for name in ("edge", "lower", "upper"))
        chart.band(edges, lower, upper, interval, "guarantee")
        chart.line(self.tree.edges.tolist(), (self._rising / self.reports).tolist(), "estimate", "guarantee")
        chart.mark(median.value, 0.5, f"median {median.value:.4g}")
        return chart

    def __repr__(self) -> str:
        """Show the median."""
        median = self.quantile(0.5)
        return (
            f"TreeEstimate(median {median.value:.4g} in [{median.lower:.6g}, {median.upper:.6g}], "
            f"{self.tree.leaves:,} leaves, {self.reports:,} reports)"
        )
