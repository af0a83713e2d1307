"""The Rényi divergence of one-bit reports, as the largest over all datasets: n is small, or few bits are changed.

exp((α − 1)·D_α) is convex in the pair of distributions, as the hockey-stick divergence is, so that datasets whose
people all hold one of the two extreme inputs are the worst (docs/theory/one-bit.md). Without some of the people a
divergence only grows: they add something independent to both sides. That bounds many k at once.
"""

import math

import numpy as np
from numpy.typing import NDArray

from shoal.numerics.bit_ceilings import cell_ends
from shoal.numerics.renyi_list import moment_excess
from shoal.rounding import slack, up

__all__ = ["every_dataset", "rarely_changed"]

Array = NDArray[np.float64]
Counts = NDArray[np.int64]
Rows = tuple[tuple[float, float], tuple[float, float]]
"""The probabilities of a one and of a zero, of either extreme input."""

_FEW = 200
"""Of so few reports, every dataset is looked at."""
_STEEPEST, _LEAST = 500.0, 1e-290
"""Of αε₀, beyond which powers overflow; and of probabilities: below, underflow may have taken a part."""
_RARE, _STEEP, _LONGEST = 20.0, 250.0, 400
"""How many bits differ from what is usual, at most, (α − 1)ε₀, and how many are looked at."""
_LEFT_OUT = 16.0
"""What is left out is about exp(−16) of the whole."""
_RATIO, _PARTS, _CLOSE, _MOST = 2.0, 4, 3e-4, 3_000
"""Of ends of neighbouring cells of k; into how many parts they are divided, until none is above the largest value by
more than this, and how many there are in all, at most."""


def every_dataset(rows: Rows, reports: int, ceiling: float, order: float) -> float | None:
    """Return the largest D_α(F₀‖F₁) over k of the others with the high row, and both directions, if n is small.

    Every probability is a sum of positive products, and is off by `wrong`, relatively, or below the least double.
    """
    if reports > _FEW:
        return None
    others, wrong = reports - 1, slack(16 * reports + 64)
    with np.errstate(under="ignore"):
        tables = [_binomials(others, *row) for row in rows]
        sums = [np.convolve(tables[0][others - k, : others - k + 1], tables[1][k, : k + 1]) for k in range(reports)]
    padded = np.pad(np.array(sums), ((0, 0), (1, 1)))
    first, second = (np.maximum(padded[:, 1:] * zero + padded[:, :-1] * one, _LEAST) for one, zero in rows)
    logs = np.clip(np.log(first / second), -ceiling, ceiling)
    both = ((logs, second), (-logs, first))
    unseen = (order - 1) * ceiling + math.log(2 * reports * _LEAST)  # of outcomes that are hardly ever there
    if order * ceiling < _STEEPEST:
        excess = max(float(_excesses(ratios, weights, order, wrong).max()) for ratios, weights in both)
        return up(math.log1p(up(excess, roundings=64) + math.exp(unseen)) / (order - 1), roundings=16)
    total = -math.inf
    for ratios, weights in both:
        terms = np.log(weights) + order * (ratios + wrong) + wrong
        terms += slack(16) * (8 + np.abs(terms) + order * np.abs(ratios))
        total = max(total, float(np.logaddexp.reduce(terms, axis=1).max()) + slack(8 * reports + 64))
    return up(max(float(np.logaddexp(total, unseen)), 0.0) / (order - 1), roundings=64)


def _excesses(ratios: Array, weights: Array, order: float, wrong: float) -> Array:
    """Return Σ weight·(r^α − 1 − α(r − 1)) for each row of ln r, with what is wrong with r and the weights."""
    moved = np.abs(np.expm1(order * ratios) - np.expm1(ratios))
    each = (
        moment_excess(ratios, order) * (1 + 2 * wrong) + 2 * order * wrong * moved + order**2 * wrong**2 * (2 + moved)
    )
    return np.asarray((weights * each).sum(axis=1))


def _binomials(trials: int, one: float, zero: float) -> Array:
    """Return the probabilities of each count (columns) among 0, …, m bits (rows): Pascal's triangle, weighted."""
    result = np.zeros((trials + 1, trials + 1))
    result[0, 0] = 1.0
    for row in range(1, trials + 1):
        result[row, : row + 1] = zero * result[row - 1, : row + 1]
        result[row, 1 : row + 1] += one * result[row - 1, :row]
    return result


def rarely_changed(rows: Rows, reports: int, ceiling: float, order: float) -> float | None:
    """Return an upper bound of the same, close to it, if bits rarely differ from the more likely one.

    Cells of k are bounded by the people that all of their datasets have, and divided where that is too much.
    """
    others, steep = reports - 1, (order - 1) * ceiling
    mean = others * max(min(row) for row in rows)
    if mean > _RARE or steep > _STEEP:
        return None
    apart = (rows[1][0] - rows[0][0]) ** 2 / max(mean, 0.25)
    depth = steep + _LEFT_OUT - math.log(min(order * apart / 2, 1.0) * min(order - 1, 1.0))
    length = math.ceil(mean) + 1
    while length * math.log(length / max(mean, 1e-300)) - length + mean < depth:
        length += 1 + length // 8
    if length > _LONGEST:
        return None
    length = min(length, others)
    tails = 2 * math.exp(-depth) if length < others else 0.0
    beyond = tails * (math.exp(steep) + order - 1) + 4 * (length + 1) * _LEAST * math.exp(steep)
    wrong = slack(64 * (length + 8) + 16 * mean)
    first, last = cell_ends(others, _RATIO)
    best = most = 0.0
    count = len(first)
    while len(first):
        bounds = _largest(rows, (others - last, first), length, order, wrong)
        best = max(best, float(_largest(rows, (others - first, first), length, order, wrong).max()))
        wide = (np.log1p(bounds) > math.log1p(best) * (1 + _CLOSE)) & (last > first) & (count < _MOST)
        most = max(most, float(np.where(wide, 0.0, bounds).max()))
        sizes, parts = (last - first + 1)[wide, None], np.arange(_PARTS)
        starts, ends = (first[wide, None] + sizes * each // _PARTS for each in (parts, parts + 1))
        kept = ends > starts
        first, last = starts[kept], ends[kept] - 1
        count += len(first)
    return up(math.log1p(up(most + beyond, roundings=64)) / (order - 1), roundings=16)


def _largest(rows: Rows, people: tuple[Counts, Counts], length: int, order: float, wrong: float) -> Array:
    """Return exp((α − 1)·D_α) − 1 with so many others of either kind, the larger of both directions, rounded up."""
    low, high = (_counted(row, each, length) for row, each in zip(rows, people, strict=True))
    sums = np.zeros((len(low), 2 * length + 3))
    for column in range(length + 1):
        sums[:, column + 1 : column + length + 2] += high[:, column : column + 1] * low
    first, second = (np.maximum(sums[:, 1:] * zero + sums[:, :-1] * one, _LEAST) for one, zero in rows)
    logs = np.log(first / second)
    both = (_excesses(logs, second, order, wrong), _excesses(-logs, first, order, wrong))
    return np.asarray(np.maximum(*both))


def _counted(row: tuple[float, float], people: Counts, length: int) -> Array:
    """Return the probabilities of the number of ones (columns), up to a shift, if few of the bits are the rarer one."""
    rare, usual = min(row), max(row)
    steps = np.arange(length)
    factors = np.maximum(people[:, None] - steps, 0) / (steps + 1) * (rare / usual)
    logs = people * (math.log1p(-rare) if rare < 0.5 else math.log(usual))
    result = np.exp(logs)[:, None] * np.concatenate((np.ones((len(people), 1)), np.cumprod(factors, axis=1)), axis=1)
    return np.asarray(result if row[0] <= row[1] else result[:, ::-1])
