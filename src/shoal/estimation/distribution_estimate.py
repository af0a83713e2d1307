"""Estimates of numbers: their mean, their sum, their distribution and its quantiles, with confidence intervals.

`DistributionEstimate` is the common part of the estimates from levels and from trees. Means and sums without a
distribution have smaller classes.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from shoal.arrays import Array
from shoal.checks import probability
from shoal.estimation.estimate import Estimate
from shoal.estimation.interval import two_sided
from shoal.shown import Shown

if TYPE_CHECKING:
    from shoal.charts import Chart
    from shoal.mechanisms.levels import Levels
    from shoal.mechanisms.mean import MeanMechanism
    from shoal.mechanisms.mechanism import Counts
    from shoal.mechanisms.quantile_tree import QuantileTree
    from shoal.mechanisms.split_and_mix import SplitAndMix

_QUARTILES = (0.25, 0.5, 0.75)

_VISIBLE = 0.015
"""An interval of a share that is not wider than this is hidden by the line of the chart."""


class Measured(NamedTuple):
    """A number with its confidence interval, and its standard error where it has one."""

    value: float
    lower: float
    upper: float
    standard_error: float | None = None

    def __str__(self) -> str:
        """Show the number with its standard error."""
        return f"{self.value:.6g} ± {self.standard_error:.2g}"

    def per_report(self, reports: int) -> "Measured":
        """Return the mean of `reports` values whose sum this is."""
        return Measured(
            self.value / reports,
            self.lower / reports,
            self.upper / reports,
            (self.standard_error or 0) / reports,
        )


class DistributionEstimate(Shown):
    """The distribution and quantiles of values, from noisy counts of how many lie below each threshold."""

    # The categories and their values, and the protocols that hide them
    source: "Levels | QuantileTree"
    histograms: tuple[Estimate, ...]  # the share of people in each category of each count

    table_name: str
    """The key of the table in `to_dict`."""
    axis_name: str
    """The label of the axis that shows the share of people below a threshold."""

    @property
    def reports(self) -> int:
        """The number of people, n."""
        return self.histograms[0].reports

    @property
    def confidence(self) -> float:
        """The confidence of each interval alone."""
        return self.histograms[0].confidence

    @cached_property
    @abstractmethod
    def people_below(self) -> Array:
        """The number of people below each threshold: estimate, lower limit and upper limit, in three rows."""

    @cached_property
    @abstractmethod
    def distribution(self) -> tuple[Array, Array]:
        """Points of the distribution, and the estimated number of people below each, never falling."""

    @property
    @abstractmethod
    def ends(self) -> tuple[Array, Array]:
        """The lower ends of intervals of quantiles, by the first threshold that may have enough people below it.

        And the upper ends, by the first threshold that certainly has, and so have all that follow.
        """

    @abstractmethod
    def columns(self) -> dict[str, Any]:
        """Return the thresholds, and the share of people below each with an interval, as columns."""

    def quantile(self, share: float) -> Measured:
        """Return the least number that this share of the people do not exceed, with an interval.

        Each end of the interval is where the counts, looked at from that side, first do not decide. So only one
        threshold is tested on each side. The interval of levels has two steps or more, because rounding moves nobody by
        a whole step; that of a tree consists of whole leaves.

        Parameters
        ----------
        share : float
            Such as 0.5 for the median.
        """
        wanted = probability(share=share, usual="0.25, 0.5 or 0.75") * self.reports
        _, least, most = self.people_below
        lower_ends, upper_ends = self.ends
        undecided = np.flatnonzero(np.append(most >= wanted, True))[0]
        short = np.flatnonzero(least < wanted)
        lower = float(lower_ends[undecided])
        upper = float(upper_ends[short[-1] + 1 if len(short) else 0])
        points, below = self.distribution
        value = float(np.interp(wanted, below, points))
        return Measured(min(max(value, lower), upper), lower, upper)

    def _columns(self) -> dict[str, Any]:
        return self.columns()

    def _measured(self) -> dict[str, Any]:
        """Return the entries of `to_dict` that stand before the quantiles."""
        return {}

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, with the quartiles."""
        names = Measured._fields[:3]  # a quantile has no standard error
        quartiles = {share: dict(zip(names, self.quantile(share), strict=False)) for share in _QUARTILES}
        return {
            **self.source.to_dict(),
            "reports": self.reports,
            "confidence": self.confidence,
            **self._measured(),
            "quantiles": {f"{share:g}": quartile for share, quartile in quartiles.items()},
            self.table_name: {name: column.tolist() for name, column in self.columns().items()},
        }


@dataclass(frozen=True, eq=False, repr=False)
class LevelEstimate(DistributionEstimate):
    """The sum, the mean, the distribution and quantiles of these people's values, from the counts of levels."""

    source: "Levels"  # the levels to which values were rounded, and the protocol that hides them
    counts: "Counts[Any]"  # the counts as they were released
    histogram: Estimate  # the share of people at each level

    table_name = "levels"
    axis_name = "share of people at or below"

    @property
    def histograms(self) -> tuple[Estimate, ...]:  # type: ignore[override]
        """The share of people at each level."""
        return (self.histogram,)

    @cached_property
    def sum(self) -> Measured:
        """The sum of the values, unbiased; with the most that rounding adds, and tails of the noise beyond normal ones.

        Its quantile is z + κ(z³ − 3z)/24 standard errors, κ the excess, and half a step for the sum of integers.
        """
        levels, n = self.source, self.reports
        middle = levels.lower + (levels.upper - levels.lower) / 2
        total = n * (middle + float(levels.weights @ self.histogram.frequencies))
        noise, fourth = levels.protocol.weighted_cumulants(self.counts, levels.weights)
        variance = noise + levels.rounding_variance(n)
        error = math.sqrt(variance)
        half_step = (levels.upper - levels.lower) / (2 * levels.steps)
        reach = _quantile_above(self.confidence, fourth / variance**2) * error + half_step
        return Measured(total, total - reach, total + reach, error)

    @property
    def mean(self) -> Measured:
        """The mean of the values: the sum, over n."""
        return self.sum.per_report(self.reports)

    @cached_property
    def people_below(self) -> Array:
        """The number of people who were rounded to each level or a lower one: estimate and limits, in three rows.

        They are counted from the nearer end: n is known, and fewer levels have less noise.
        """
        protocol, n, last = self.source.protocol, self.reports, self.source.steps
        support, _ = protocol.supported(self.counts.values, n)
        result = np.full((3, last + 1), float(n))
        for index in range(last):
            fewer = min(index + 1, last - index)
            fewest, most = protocol.noise_limits(self.counts, (1 - self.confidence) / 2, fewer)
            from_below = index + 1 <= last - index
            part = slice(index + 1) if from_below else slice(index + 1, None)
            seen = support[part].sum()
            about = n * self.histogram.frequencies[part].sum()
            if from_below:
                result[:, index] = about, seen - most, seen - fewest
            else:
                result[:, index] = n - about, n - (seen - fewest), n - (seen - most)
        result[1:] = np.clip(result[1:], 0, n)
        return result

    @cached_property
    def distribution(self) -> tuple[Array, Array]:
        """Points of the distribution, and the estimated number of people at or below each, never falling.

        A count has the mean of the distribution over the step behind its level, and stands at the middle of that.
        """
        values = self.source.values
        rising = _rising(self.people_below[0][:-1])
        below = np.clip(rising, 0, self.reports)
        middles = (values[:-1] + values[1:]) / 2
        points = np.concatenate([values[:1], middles, values[-1:]])
        return points, np.concatenate([[0.0], below, [self.reports]])

    @property
    def ends(self) -> tuple[Array, Array]:
        """One level below the first that may have enough people, and one above the first that certainly has."""
        values = self.source.values
        lower = np.concatenate([values[:1], values])
        upper = np.concatenate([values[1:], values[-1:], values[-1:]])
        return lower, upper

    def columns(self) -> dict[str, Any]:
        """Return each level, the share of people at it, and at or below it with an interval, as columns."""
        about, least, most = self.people_below / self.reports
        return {
            "level": self.source.values,
            "frequency": self.histogram.frequencies,
            "at_or_below": about,
            "lower": least,
            "upper": most,
        }

    def _measured(self) -> dict[str, Any]:
        return {"sum": self.sum._asdict(), "mean": self.mean._asdict()}

    def chart(self, guarantee: str = "") -> "Chart":
        """Return the share of people at or below each level with its intervals, and the median.

        Parameters
        ----------
        guarantee : str
            What holds for them, such as "ε = 0.5 at δ = 1e-06", for the title.
        """
        return self._drawn(guarantee=guarantee)

    def __repr__(self) -> str:
        """Show the sum, the mean and the median."""
        median = self.quantile(0.5)
        return (
            f"LevelEstimate(sum {self.sum}, mean {self.mean}, "
            f"median {median.value:.4g} in [{median.lower:.6g}, {median.upper:.6g}], {self.reports:,} reports)"
        )


@dataclass(frozen=True, eq=False, repr=False)
class TreeEstimate(DistributionEstimate):
    """The distribution and quantiles of these people's values, from the counts of a tree."""

    source: "QuantileTree"  # the nodes and their values, and the protocols that hide them
    counts: "tuple[Counts[Any], ...]"  # the counts as they were released, one for each depth
    histograms: tuple[Estimate, ...]  # the share of people in each node of each depth

    table_name = "distribution"
    axis_name = "people below"

    @cached_property
    def people_below(self) -> Array:
        """The number of people below each edge between two leaves: estimate, lower and upper limit, in three rows."""
        ranges, n = self.source.ranges, self.reports
        about = np.where(ranges.rest, float(n), 0.0)
        seen = about.copy()
        depths = zip(self.source.protocols, self.counts, self.histograms, strict=True)
        for index, (protocol, counts, histogram) in enumerate(depths):
            support, _ = protocol.supported(counts.values, n)
            starts, stops = ranges.starts[:, index], ranges.stops[:, index]
            shares = np.concatenate([[0.0], np.cumsum(histogram.frequencies)])
            sums = np.concatenate([[0.0], np.cumsum(support)])
            about += n * (shares[stops] - shares[starts])
            seen += sums[stops] - sums[starts]
        fewest, most = self.source.noise_limits(self.counts, (1 - self.confidence) / 2)
        lower = np.clip(seen - most, 0, n)
        upper = np.clip(seen - fewest, 0, n)
        return np.stack([about, lower, upper])

    @cached_property
    def distribution(self) -> tuple[Array, Array]:
        """All edges of leaves, and the estimated number of people below each, never falling."""
        about = np.concatenate([[0.0], self.people_below[0], [float(self.reports)]])
        return self.source.edges, np.clip(_rising(about), 0, self.reports)

    @property
    def ends(self) -> tuple[Array, Array]:
        """The lower and the upper ends of the leaves."""
        return self.source.edges[:-1], self.source.edges[1:]

    def columns(self) -> dict[str, Any]:
        """Return each edge between two leaves, and the share of people below it with an interval, as columns."""
        about, least, most = self.people_below / self.reports
        error = np.sqrt(self.source.variance(reports=self.reports)) / self.reports
        return {
            "edge": self.source.edges[1:-1],
            "below": about,
            "lower": least,
            "upper": most,
            "standard_error": error,
        }

    def __repr__(self) -> str:
        """Show the median."""
        median = self.quantile(0.5)
        return (
            f"TreeEstimate(median {median.value:.4g} in [{median.lower:.6g}, {median.upper:.6g}], "
            f"{self.source.leaves:,} leaves, {self.reports:,} reports)"
        )


@dataclass(frozen=True, repr=False)
class MixEstimate(Shown):
    """The sum and the mean of these people's values, if no client is malicious."""

    mechanism: "SplitAndMix"  # the mechanism that each person ran
    steps: int  # the sum, in steps from the lower end
    reports: int  # reports, confidence: n, and that of the intervals
    confidence: float

    @cached_property
    def sum(self) -> Measured:
        """The sum, unbiased. Its quantile has the tails of n/H geometric differences, from above, as for levels."""
        made, n = self.mechanism, self.reports
        step = (made.upper - made.lower) / made.steps
        value = n * made.lower + self.steps * step
        variance = made.variance(reports=n)
        noise = variance - n / 4 * step**2
        error = math.sqrt(variance)
        # A difference of two negative binomial numbers of shape s has the excess 3/s, and 1/variance in steps.
        excess = (3 * made.honest / n + step**2 / noise) * (noise / variance) ** 2
        reach = _quantile_above(self.confidence, excess) * error + step / 2
        return Measured(value, value - reach, value + reach, error)

    @property
    def mean(self) -> Measured:
        """The mean of the values: the sum, over n."""
        return self.sum.per_report(self.reports)

    def _columns(self) -> dict[str, list[Any]]:
        rows = [self.sum, self.mean]
        columns = {name: [getattr(row, name) for row in rows] for name in Measured._fields}
        return {"quantity": ["sum", "mean"], **columns}

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, with the warning."""
        return {
            "mechanism": self.mechanism.to_dict(),
            "reports": self.reports,
            "confidence": self.confidence,
            "sum": self.sum._asdict(),
            "mean": self.mean._asdict(),
            "warning": self.mechanism.warning,
        }

    def __repr__(self) -> str:
        """Show the sum and the mean, and the warning."""
        return (
            f"MixEstimate(sum {self.sum}, mean {self.mean}, {self.reports:,} reports; "
            "one malicious client can move it anywhere)"
        )


@dataclass(frozen=True, repr=False)
class MeanEstimate(Shown):
    """The mean of the values, as the reports tell it."""

    mean: float  # mean, standard_error: The estimate, and its standard deviation given the people
    standard_error: float
    lower: float  # lower, upper: The ends of its confidence interval
    upper: float
    reports: int  # reports, confidence: n, and the probability that the interval covers the mean
    confidence: float
    mechanism: "MeanMechanism"  # the mechanism that each person ran

    def to_dict(self) -> dict[str, Any]:
        """Return all of it in plain values, for JSON."""
        result = {field.name: getattr(self, field.name) for field in fields(self)}
        return result | {"mechanism": self.mechanism.to_dict()}

    def _columns(self) -> dict[str, list[Any]]:
        names = ("mean", "standard_error", "lower", "upper", "reports", "confidence")
        return {name: [getattr(self, name)] for name in names}

    @property
    def _measured(self) -> Measured:
        return Measured(self.mean, self.lower, self.upper, self.standard_error)

    def __repr__(self) -> str:
        """Show the mean with its interval."""
        return (
            f"MeanEstimate({self.mean:.6g} ± {self.standard_error:.2g}, {self.confidence:.4g} in "
            f"[{self.lower:.6g}, {self.upper:.6g}], {self.reports:,} reports, {self.mechanism!r})"
        )


def _quantile_above(confidence: float, excess: float) -> float:
    """Return the two-sided quantile of noise with this excess kurtosis, in standard errors; at least the normal one."""
    normal = two_sided(confidence)
    return normal + max(0.0, excess * (normal**3 - 3 * normal) / 24)


def _rising(about: Array) -> Array:
    """Return the mean of the least sequence above and the largest one below that never fall."""
    above = np.maximum.accumulate(about)
    below = np.minimum.accumulate(about[::-1])[::-1]
    return np.asarray((above + below) / 2)
