"""Reports that say yes at one of two rates: how many people have the higher one, by inverting exact tails.

Of n people, m say yes with probability p and the others with probability q < p. The number of yeses is
X = Bin(m, p) + Bin(n − m, q), and the probability of X ≥ x rises with m: the m at which it exceeds a level are those
from some number on, and this number is a lower confidence limit (docs/theory/frequency.md, 4.3).
"""

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from shoal.randomizers.expansion import Sum

__all__ = ["EXACT_BELOW", "fewest", "most", "upper_tail"]

Floats = NDArray[np.float64]
Angles = tuple[Floats, Floats]

EXACT_BELOW = 100.0
"""Where X has a smaller variance, its tails are summed exactly; else four cumulants give them (4.4 there)."""
_DROPPED = 34.0
"""What the window of a sum leaves out is below 2·e⁻³⁴, by Bernstein's inequality."""
_SLACK = 1e-13
"""More than a tail can be off by: what is left out, and rounding."""
_PART = 1 << 20


def upper_tail(counts: Floats, people: Floats, total: Floats, high: float, low: float) -> Floats:
    """Return the probability of at least `counts` yeses, if `people` of all have the higher rate, within 1e-13.

    The characteristic function is a product of two powers. A rate above one half is taken as one less the other, so
    that nothing large has to be exact but whole numbers.

    Examples
    --------
    >>> upper_tail(np.array([2.0]), np.array([1.0]), np.array([3.0]), 0.5, 0.25).round(12).tolist()
    [0.25]
    """
    groups = [(people, high), (total - people, low)]
    variance = people * (high * (1 - high)) + (total - people) * (low * (1 - low))
    reach = math.sqrt(2 * _DROPPED * float(variance.max(initial=0.0))) + 2 * _DROPPED / 3
    size = 1 << max(6, math.ceil(math.log2(2 * reach + 4)))
    positions = np.arange(size // 2 + 1)
    waves = [_wave(rate, 2 * math.pi * positions / size) for _, rate in groups]
    first = np.rint(people * high + (total - people) * low) - size // 2
    result = np.empty(len(counts))
    step = max(1, _PART // size)
    for start in range(0, len(counts), step):
        part = slice(start, start + step)
        whole = -first[part]
        logs, turns = np.zeros((2, len(whole), len(positions)))
        for (number, rate), (size_log, turn) in zip(groups, waves, strict=True):
            logs += np.multiply.outer(number[part], size_log)
            turns += np.multiply.outer(number[part], turn)
            whole = whole + number[part] if rate > 0.5 else whole
        turns += (2 * math.pi / size) * (np.multiply.outer(whole.astype(np.int64), positions) % size)
        # numpy's transform has the other sign: the conjugate.
        masses = np.fft.irfft(np.exp(logs - 1j * turns), size)
        above = np.cumsum(masses[:, ::-1], axis=1)[:, ::-1]
        position = counts[part] - first[part]
        tails = np.take_along_axis(above, np.clip(position, 0, size - 1).astype(np.int64)[:, None], axis=1)[:, 0]
        result[part] = np.where(position < size, tails, 0.0)
    return np.clip(result, 0, 1)


def _wave(rate: float, angles: Floats) -> Angles:
    """Return the logarithm and the angle of the characteristic function of one yes, less its angle θ if it is likely.

    |1 + p(e^iθ − 1)|² = 1 − 4p(1 − p)·sin²(θ/2).
    """
    small = min(rate, 1 - rate)
    squares = np.sin(angles / 2) ** 2
    with np.errstate(divide="ignore"):  # a rate of one half has no part at the angle π
        logs = np.maximum(0.5 * np.log1p(np.maximum(-4 * small * (1 - small) * squares, -1.0)), -1e3)
    turn = np.arctan2(small * np.sin(angles), 1 - 2 * small * squares)
    return logs, -turn if rate > 0.5 else turn


def fewest(counts: Floats, total: Floats, high: float, low: float, level: float) -> Floats:
    """Return the fewest people who may have the higher rate, with a miss less likely than the level.

    That is the smallest m with Pr(X ≥ x) > level; all of them, where there is none.

    Parameters
    ----------
    counts, total : Floats
        How many said yes, of how many.
    high, low : float
        The two rates.
    level : float
        Of the test, below one half.

    Examples
    --------
    >>> fewest(np.array([0.0, 40.0, 100.0]), np.full(3, 100.0), 0.9975, 0.0025, 0.025).tolist()
    [0.0, 39.0, 100.0]
    """
    ours, theirs = _cumulants(high), _cumulants(low)
    sums = Sum(high - low, np.multiply.outer(theirs, total), ours - theirs, total)
    position, variance = sums.crossing(counts - 0.5 - total * low, -NormalDist().inv_cdf(level))
    result = np.clip(np.ceil(position), 0, total)
    exact = np.flatnonzero((variance < EXACT_BELOW) & (counts > 0))
    if len(exact):
        result[exact] = _searched(result[exact], counts[exact], total[exact], (high, low), level)
    return result


def _cumulants(rate: float) -> Floats:
    """Return the second, third and fourth cumulant of one answer."""
    spread = rate * (1 - rate)
    return np.array([spread, spread * (1 - 2 * rate), spread * (1 - 6 * spread)])


def most(counts: Floats, total: Floats, high: float, low: float, level: float) -> Floats:
    """Return the most people who may have the higher rate: all but the fewest with the lower one, who say no."""
    return total - fewest(total - counts, total, 1 - low, 1 - high, level)


def _searched(guess: Floats, counts: Floats, total: Floats, rates: tuple[float, float], level: float) -> Floats:
    """Return the smallest number of people with a large enough tail, or all, by bisection from a guess."""

    def fine(position: Floats, which: NDArray[np.int64]) -> NDArray[np.bool_]:
        tails = upper_tail(counts[which], position, total[which], *rates)
        return (tails > level - _SLACK) | (position >= total[which])

    below, above = np.full(len(guess), -1.0), total.copy()  # the first is too few, the second is not
    position, step = guess, 1.0
    while len(open_ := np.flatnonzero(above - below > 1)):
        tried = position[open_]
        good = fine(tried, open_)
        above[open_[good]], below[open_[~good]] = tried[good], tried[~good]
        # Steps that double lead out of the wrong side; once both sides are known, halves.
        following = np.where(good, tried - step, tried + step)
        middle = np.floor((above[open_] + below[open_]) / 2)
        between = (following > below[open_]) & (following < above[open_])
        position[open_] = np.where(between, following, middle)
        step *= 2
    return above
