"""Rényi divergences of one-bit reports: of every dataset, if they can be listed, or of the largest δ at each ε.

exp((α − 1)·D_α) is convex in the pair of distributions, as the hockey-stick divergence is, so that datasets
of the two extreme inputs are the worst (docs/theory/one-bit.md, section 5). Without some of the others a
divergence only grows, because they add something independent to both sides. That bounds many k at once.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from shoal.numerics.bit_count import BitCount, cell_ends, log_ceiling
from shoal.numerics.renyi import ProfileIntegral, divergence, moment_excess
from shoal.rounding import slack, up

__all__ = ["bit_renyi"]

Array = NDArray[np.float64]
Counts = NDArray[np.int64]
Rows = tuple[tuple[float, float], tuple[float, float]]
"""The probabilities of a one and of a zero, of both extreme inputs."""

_FEW = 200
"""Up to this many reports, every dataset is listed; the integral would be up to 3 % larger."""
_STEEPEST = 500.0
"""The largest αε₀ at which powers do not overflow; beyond, sums are in logarithms."""
_LEAST = 1e-290
"""Smaller probabilities are replaced by this one, because a part of them may have underflowed."""
_RARE = 20.0
"""The largest mean number of bits that differ from the usual one: with more, lists are too long."""
_STEEP = 250.0
"""The largest (α − 1)ε₀ for rare bits: the lists grow with it."""
_LONGEST = 400
"""The largest number of rare bits that are listed."""
_LEFT_OUT = 16.0
"""About e^−16 of the whole is left out at the ends of lists."""
_RATIO = 2.0
"""The ratio of ends of neighbouring cells of k at the start."""
_PARTS = 4
"""The number of parts of a divided cell."""
_GAP = 3e-4
"""Cells are divided until none is above the largest value by more than this part: less takes more cells."""
_MOST_CELLS = 3_000
"""No cell is divided any more when there are this many."""


def every_dataset(rows: Rows, reports: int, ceiling: float, order: float) -> float | None:
    """Return the largest D_α over all k and both directions, or nothing if there are many reports."""
    if reports > _FEW:
        return None
    others = reports - 1
    counts = np.arange(reports)
    wrong = slack(64 * (reports + 8))
    first, second = _distributions(rows, (others - counts, counts), others)
    logs = np.clip(np.log(first / second), -ceiling, ceiling)
    both = ((logs, second), (-logs, first))
    # Outcomes whose probability underflows are charged as if they had the loss ε₀.
    unseen = (order - 1) * ceiling + math.log(4 * reports * _LEAST)
    if order * ceiling < _STEEPEST:
        excess = max(float(_excesses(*way, order, wrong).max()) for way in both)
        moment = up(excess, roundings=64) + math.exp(unseen)
        return up(math.log1p(moment) / (order - 1), roundings=16)
    total = unseen
    for ratios, weights in both:
        terms = np.log(weights) + order * (ratios + wrong) + wrong
        terms += slack(16) * (8 + np.abs(terms) + order * np.abs(ratios))
        largest = float(np.logaddexp.reduce(terms, axis=1).max())
        total = max(total, float(np.logaddexp(largest + slack(8 * reports + 64), unseen)))
    return up(max(total, 0.0) / (order - 1), roundings=64)


def rarely_changed(rows: Rows, reports: int, ceiling: float, order: float) -> float | None:
    """Return an upper bound of the largest D_α, or nothing if bits often differ from the more likely one.

    Cells of k are bounded by the people that all of their datasets have, and divided where that is too much.
    """
    others = reports - 1
    steep = (order - 1) * ceiling
    mean = others * max(min(row) for row in rows)
    if mean > _RARE or steep > _STEEP:
        return None
    # The number of rare bits beyond which Chernoff's bound is e^−depth.
    apart = (rows[1][0] - rows[0][0]) ** 2 / max(mean, 0.25)
    depth = steep + _LEFT_OUT - math.log(min(order * apart / 2, 1.0) * min(order - 1, 1.0))
    length = math.ceil(mean) + 1
    while length * math.log(length / max(mean, 1e-300)) - length + mean < depth:
        length += 1 + length // 8
    if length > _LONGEST:
        return None
    length = min(length, others)
    tails = 2 * math.exp(-depth) if length < others else 0.0
    beyond = tails * (math.exp(steep) + order - 1)
    beyond += 4 * (length + 1) * _LEAST * math.exp(steep)
    wrong = slack(64 * (length + 8) + 16 * mean)
    first, last = cell_ends(others, _RATIO)
    best = most = 0.0
    count = len(first)
    while len(first):
        bounds = _moments(_distributions(rows, (others - last, first), length), order, wrong)
        values = _moments(_distributions(rows, (others - first, first), length), order, wrong)
        best = max(best, float(values.max()))
        wide = np.log1p(bounds) > math.log1p(best) * (1 + _GAP)
        wide &= (last > first) & (count < _MOST_CELLS)
        most = max(most, float(np.where(wide, 0.0, bounds).max()))
        # Divide what is left into parts that are not empty.
        sizes = (last - first + 1)[wide, None]
        starts = first[wide, None] + sizes * np.arange(_PARTS) // _PARTS
        ends = first[wide, None] + sizes * np.arange(1, _PARTS + 1) // _PARTS
        kept = ends > starts
        first = starts[kept]
        last = ends[kept] - 1
        count += len(first)
    return up(math.log1p(up(most + beyond, roundings=64)) / (order - 1), roundings=16)


def _moments(pair: tuple[Array, Array], order: float, wrong: float) -> Array:
    """Return exp((α − 1)·D_α) − 1 for each row, the larger of both directions, rounded up."""
    first, second = pair
    logs = np.log(first / second)
    forward = _excesses(logs, second, order, wrong)
    return np.maximum(forward, _excesses(-logs, first, order, wrong))


def _excesses(ratios: Array, weights: Array, order: float, wrong: float) -> Array:
    """Return Σ weight·(r^α − 1 − α(r − 1)) for each row of ln r, with relative errors `wrong` charged."""
    moved = np.abs(np.expm1(order * ratios) - np.expm1(ratios))
    each = moment_excess(ratios, order) * (1 + 2 * wrong)
    each = each + 2 * order * wrong * moved + order**2 * wrong**2 * (2 + moved)
    return np.asarray((weights * each).sum(axis=1))


def _distributions(rows: Rows, people: tuple[Counts, Counts], length: int) -> tuple[Array, Array]:
    """Return the distributions of the number of ones, with the victim on each row (rows: numbers of people)."""
    low, high = (_counted(row, each, length) for row, each in zip(rows, people, strict=True))
    sums = np.zeros((len(low), 2 * length + 3))
    for column in range(length + 1):
        sums[:, column + 1 : column + length + 2] += high[:, column : column + 1] * low
    first, second = (np.maximum(sums[:, 1:] * zero + sums[:, :-1] * one, _LEAST) for one, zero in rows)
    return first, second


def _counted(row: tuple[float, float], people: Counts, length: int) -> Array:
    """Return the probabilities of the number of ones (columns), up to a shift, with at most `length` rare bits."""
    rare = min(row)
    usual = max(row)
    steps = np.arange(length)
    factors = np.maximum(people[:, None] - steps, 0) / (steps + 1) * (rare / usual)
    logs = people * (math.log1p(-rare) if rare < 0.5 else math.log(usual))
    ratios = np.concatenate((np.ones((len(people), 1)), np.cumprod(factors, axis=1)), axis=1)
    result = np.exp(logs)[:, None] * ratios
    return np.asarray(result if row[0] <= row[1] else result[:, ::-1])


class _BitIntegral(ProfileIntegral):
    """The integral of the largest δ over all datasets."""

    chorded = 4e-4
    smoothed = 1e-4

    def __init__(
        self, counts: Callable[[float], tuple[BitCount, ...]], spread: float, ceiling: float, order: float
    ) -> None:
        super().__init__(ceiling, (order - 1, -order))
        self._counts = counts
        self._spread = spread
        if order * spread > 1:
            self.chorded = 6e-4

    @property
    def spread(self) -> float:
        """Roughly the standard deviation of the loss."""
        return self._spread

    def rough(self, points: Array) -> Array:
        """Return roughly the logarithm of δ."""
        ways = [self._counts(point) for point in points.tolist()]
        return np.array([max((bits.likely for bits in each), default=-1e300) for each in ways])

    def close(self, knots: Array) -> Array:
        """Return logarithms of upper bounds of δ at each knot, from sums on a circle."""
        logs = [
            max((log_ceiling(bits, self.smoothed) for bits in self._counts(knot)), default=-math.inf)
            for knot in knots.tolist()
        ]
        return np.array(logs)


def bit_renyi(
    counts: Callable[[float], tuple[BitCount, ...]], rows: Rows, *, reports: int, ceiling: float, order: float
) -> float:
    """Return an upper bound of the largest D_α of n reports over all datasets, n > 1.

    Parameters
    ----------
    counts : callable
        The numbers of δ(ε) at ε: for zeros, and for ones if they are not the same.
    rows : tuple of (float, float)
        The probabilities of a one and of a zero, of both extreme inputs.
    reports : int
        n.
    ceiling, order : float
        ε₀ and α > 1.
    """
    listed = every_dataset(rows, reports, ceiling, order) or rarely_changed(rows, reports, ceiling, order)
    if listed is not None:
        return listed
    variance = max(reports * min(q * other for q, other in rows), 0.25)
    spread = min((rows[1][0] - rows[0][0]) / math.sqrt(variance), ceiling)
    return divergence([_BitIntegral(counts, spread, ceiling, order)], order)
