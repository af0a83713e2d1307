"""A tree of intervals: people say at every depth in which one their number lies, hidden by covers or dummies.

What is at or below a point is a sum of few counts, some of every depth, where a histogram of the leaves would add up
hundreds of them (docs/theory/several-messages.md, section 8).
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from shoal.arrays import Array, BoolArray, IntArray
from shoal.checks import Number, store, whole
from shoal.errors import ParameterError
from shoal.estimation.distribution_estimate import TreeEstimate
from shoal.mechanisms.bundled import Bundled, quantiles
from shoal.mechanisms.coins import Simulation
from shoal.mechanisms.covered import Covered
from shoal.mechanisms.dummies import Dummies
from shoal.mechanisms.mechanism import Counts, Reports
from shoal.mechanisms.number_range import NumberRange

_MOST_LEAVES = 1 << 20


class Ranges(NamedTuple):
    """Which counts add up to what is below each edge between two leaves."""

    rest: BoolArray  # whether they are taken from all people
    # starts, stops: A row for each edge, a column for each depth: nodes from `starts` up to
    # `stops` are added, or if `stops` is less taken away
    starts: IntArray
    stops: IntArray

    @property
    def terms(self) -> IntArray:
        """How many nodes are added, or taken away."""
        return self.stops - self.starts


@dataclass(frozen=True, kw_only=True)
class QuantileTree:
    """Numbers in an interval as leaves of a tree: each person says, at every depth, which node holds their number.

    Everything about privacy is that of its protocols, one for each depth and composed, with its certificates:
    ``shoal.compose([shoal.amplify(each, reports=…) for each in tree.protocols])``. One malicious person is in one
    leaf, with dummies, or in one and those of their slots.

    Parameters
    ----------
    protocols : tuple of Dummies or Covered
        One for each depth, the coarsest first; the categories of each are a multiple of those before. Messages are the
        nodes themselves. Depths may not share dummies or covers.
    lower, upper : float
        The interval of the numbers, which the leaves part evenly.

    Examples
    --------
    >>> from shoal.mechanisms import Dummies
    >>> depths = tuple(Dummies(categories=nodes, epsilon=0.25, limit=100) for nodes in (32, 1024))
    >>> tree = QuantileTree(protocols=depths, lower=0, upper=120)
    >>> coins = Simulation(seed=1)
    >>> reports = tree.randomize(np.linspace(0, 90, 30_000), simulation=coins)
    >>> estimate = tree.estimate(tree.released(tree.aggregate(reports), simulation=coins))
    >>> estimate
    TreeEstimate(median 45.03 in [44.7656, 45.3516], 1,024 leaves, 30,000 reports)
    """

    protocols: tuple[Bundled, ...]
    lower: float = 0.0
    upper: float = 1.0

    def __post_init__(self) -> None:
        """Check the arguments."""
        store(self, protocols=tuple(self.protocols), lower=self._range.lower, upper=self._range.upper)
        sizes = [1, *(getattr(each, "categories", 0) for each in self.protocols)]
        plain = all(isinstance(each, (Covered, Dummies)) for each in self.protocols)
        if not plain or any(getattr(each, "response", None) is not None for each in self.protocols):
            raise ParameterError(
                "protocols must be covers or dummies whose messages are the nodes, one for each depth, such as "
                "[Dummies(categories=32, epsilon=0.25, limit=90), Dummies(categories=1024, epsilon=0.25, limit=90)]",
                "protocols",
            )
        split = all(more > less and more % less == 0 for less, more in pairwise(sizes))
        if len(sizes) == 1 or not split or sizes[-1] > _MOST_LEAVES:
            raise ParameterError(
                f"every depth must have a multiple of the nodes before it, at most {_MOST_LEAVES:,}; got {sizes[1:]}"
            )

    @cached_property
    def _range(self) -> NumberRange:
        return NumberRange(self.lower, self.upper)

    @property
    def depth(self) -> int:
        """How many counts each person is in."""
        return len(self.protocols)

    @property
    def leaves(self) -> int:
        """How many leaves there are."""
        return self.protocols[-1].categories

    @cached_property
    def edges(self) -> Array:
        """The ends of all leaves, the lowest first: one more than leaves."""
        return np.linspace(self.lower, self.upper, self.leaves + 1)

    @property
    def messages(self) -> float:
        """How many messages a person sends on average, empty ones apart, and dummies as well."""
        return sum(each.messages_per_person for each in self.protocols)

    @property
    def influence(self) -> int:
        """By how many people one malicious person can move what is below a point, at every depth, from the truth."""
        return sum(each.bundle for each in self.protocols)

    def nodes(self, values: ArrayLike) -> list[IntArray]:
        """Return the node of each value at each depth; a number at an edge is above it, but for the last.

        Parameters
        ----------
        values : array_like
            Numbers in the interval; nothing is clipped.
        """
        leaves = np.searchsorted(self.edges, self._range.numbers(values), side="right") - 1
        leaves = np.minimum(leaves, self.leaves - 1).astype(np.int64)
        return [leaves // (self.leaves // each.categories) for each in self.protocols]

    def randomize(self, values: ArrayLike, *, simulation: Simulation | None = None) -> tuple[Reports, ...]:
        """Return the bundles of each depth, in the order of the values; every depth is shuffled by itself."""
        return tuple(
            protocol.randomize(nodes, simulation=simulation)
            for protocol, nodes in zip(self.protocols, self.nodes(values), strict=True)
        )

    def aggregate(self, reports: tuple[ArrayLike, ...]) -> tuple[Counts[Any], ...]:
        """Return the count state of each depth."""
        return tuple(protocol.aggregate(each) for protocol, each in zip(self.protocols, reports, strict=True))

    def released(self, counts: tuple[Counts[Any], ...], *, simulation: Simulation | None = None) -> tuple[Any, ...]:
        """Return what the analyst may see of these counts, with dummies if there are any: drawn now and only now."""
        return tuple(
            protocol.released(each, simulation=simulation)
            for protocol, each in zip(self.protocols, counts, strict=True)
        )

    def estimate(self, counts: tuple[Counts[Any], ...], *, confidence: float = 0.95) -> TreeEstimate:
        """Return the distribution and quantiles of these people's values, with intervals.

        Parameters
        ----------
        counts : tuple of Counts
            As `released` returns them.
        confidence : float
            Of each interval by itself.
        """
        several = {each.reports for each in counts}
        if len(several) != 1:
            raise ParameterError(f"every depth must have the same people, got {sorted(several)}")
        histograms = tuple(
            protocol.estimate(each, confidence=confidence)
            for protocol, each in zip(self.protocols, counts, strict=True)
        )
        return TreeEstimate(self, counts, histograms)

    @cached_property
    def ranges(self) -> Ranges:
        """For each edge between two leaves, the counts with the least noise that add up to what is below it.

        At every depth the edge lies in one node, and what is below that node is known, or what is below its end: both
        of the whole interval, since n is known. From either, the nodes between lead to either of the next depth.
        """
        points = np.arange(1, self.leaves)
        known = [np.zeros(len(points), np.int64), np.full(len(points), self.leaves)]
        costs = [np.zeros(len(points)), np.zeros(len(points))]
        paths: list[tuple[IntArray, ...]] = []
        for protocol in self.protocols:
            size = self.leaves // protocol.categories
            cost = float(protocol.variance(reports=1)[0])
            below = points // size * size
            ends = [below, below + np.where(below < points, size, 0)]
            choices = []
            following = []
            for end in ends:
                from_first = costs[0] + cost * (np.abs(end - known[0]) // size)
                from_second = costs[1] + cost * (np.abs(end - known[1]) // size)
                choices.append((from_second < from_first).astype(np.int64))
                following.append(np.minimum(from_first, from_second))
            paths.append((*choices, *(place // size for place in (*known, *ends))))
            costs = following
            known = ends
        starts = np.zeros((len(points), self.depth), np.int64)
        stops = np.zeros((len(points), self.depth), np.int64)
        state = np.zeros(len(points), np.int64)  # both ends are the edge itself at the last depth
        for index in reversed(range(self.depth)):
            first, second, low, high, left, right = paths[index]
            stops[:, index] = np.where(state, right, left)
            state = np.where(state, second, first)
            starts[:, index] = np.where(state, high, low)
        return Ranges(state == 1, starts, stops)

    def variance(self, *, reports: Number) -> Array:
        """Return the variance of how many of n people are estimated to be below each edge between two leaves."""
        n = whole(reports=reports)
        terms = np.abs(self.ranges.terms)
        total = np.zeros(len(terms))
        for protocol, number in zip(self.protocols, terms.T, strict=True):
            variance = float(protocol.variance(reports=n)[0]) * n * n * number
            if isinstance(
                protocol, Covered
            ):  # covers that say one of several nodes are binomial: no more than one each
                k = protocol.categories
                variance = variance * ((k - number) / (k - 1))
            total += variance
        return total

    def noise_limits(self, counts: tuple[Counts[Any], ...], level: float) -> tuple[IntArray, IntArray]:
        """Return quantiles of the noise of what is added up for each edge between two leaves, exactly.

        Edges with the same number of counts of each depth have the same quantiles.

        Parameters
        ----------
        counts : tuple of Counts
            As `released` returns them; how many messages were added is taken from them.
        level : float
            The probability that the noise is below the first quantile, and that it is above the second.
        """
        terms, first = self.ranges.terms, self.protocols[0]
        if isinstance(first, Dummies) and all(first.noise_like(each) for each in self.protocols):
            terms = np.abs(terms).sum(axis=1, keepdims=True)  # symmetric, and the same at all depths
        different, where = np.unique(terms, axis=0, return_inverse=True)
        limits = np.array([self._sum_limits(counts, tuple(row), level) for row in different.tolist()])
        return limits[where.ravel(), 0], limits[where.ravel(), 1]

    def _sum_limits(self, counts: tuple[Counts[Any], ...], terms: tuple[int, ...], level: float) -> tuple[int, int]:
        """Return the quantiles of the noise of `terms` nodes of each depth; negative numbers are subtracted."""
        start = 0
        masses = np.ones(1)
        for protocol, released, number in zip(self.protocols, counts, terms, strict=False):
            first, each = protocol.noise_masses(released, abs(number))
            if number < 0:
                first = -(first + len(each) - 1)
                each = each[::-1]
            start += first
            masses = np.convolve(masses, each)
        low, high = quantiles(masses, level)
        return start + low, start + high

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        protocols = [each.to_dict() for each in self.protocols]
        return {"lower": self.lower, "upper": self.upper, "leaves": self.leaves, "protocols": protocols}
