"""Confidence intervals of frequencies: how many people may hold a category, given how many reports support it.

Reports say yes at one of two rates. Of n people, m say yes with probability p and the others with probability q < p.
The number of yeses is X = Bin(m, p) + Bin(n − m, q), and the probability of X ≥ x rises with m. So the m at which it
exceeds a level are those from some number on, and this number is a lower confidence limit. Where X has a large
variance, the Cornish-Fisher expansion is solved for m instead; designs of several blocks use both
(docs/theory/frequency.md, 4.3 to 4.5).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np

from shoal.arrays import Array, BoolArray, IntArray
from shoal.estimation.design import Moments

Limits = tuple[Array, Array]
Angles = tuple[Array, Array]

EXACT_BLOCKS_BELOW = 10.0
"""Where what is counted has a smaller variance, the limits come from exact tails."""
_STEP = 0.1
"""The share of the level that is for how many of the holders report in their block."""
EXACT_BELOW = 100.0
"""Where X has a smaller variance, its tails are summed exactly; else four cumulants give them (4.4 there)."""
_DROPPED = 34.0
"""The window of a sum leaves out less than 2·e⁻³⁴, by Bernstein's inequality."""
_SLACK = 1e-13
"""More than a tail can be off by: what is left out, and rounding."""
_PART = 1 << 20
_ROUNDS = 2
"""How often the equation is solved: with the normal quantile, and with that of the expansion at the solution."""
_STEPS = 60
_LEAST = 1e-11


def two_sided(confidence: float) -> float:
    """Return how many standard deviations an interval reaches to either side, if errors are normal.

    It is formed from what the confidence leaves, which is a double wherever the confidence is one below 1.
    """
    return -NormalDist().inv_cdf((1 - confidence) / 2)


def holders(support: Array, block: Array | None, reports: int, moments: Moments, *, confidence: float) -> Limits:
    """Return the fewest and the most people who may hold each category; each limit fails half as often as both."""
    level = (1 - confidence) / 2
    least = reports * moments.base

    def limits(counts: Array, total: Array) -> Limits:
        if block is not None and moments.overlap > 0:
            result = BlockCount(counts, total, reports, moments)
            return result.fewest(level), result.most(level)
        high = moments.own[0]
        low = moments.same[0]  # people who do not hold a category support it at one rate
        return fewest(counts, total, high, low, level), most(counts, total, high, low, level)

    total = np.full(1, float(reports)) if block is None or moments.overlap == 0 else block
    return _each_once(limits, support, total, lambda inside: np.rint(moments.overlap * inside + least))


def _each_once(
    limits: Callable[[Array, Array], Limits],
    support: Array,
    total: Array,
    centre: Callable[[Array], Array],
) -> Limits:
    """Return the limits of all categories, computed once for all that have the same counts.

    Most counts are near the centre, where nobody holds the category: these are marked in a table, with no need to sort.
    """
    blocks, which = _distinct(total)
    middle = centre(blocks)
    width = 4 * len(support) // len(blocks) + 64
    half = width // 2
    position = (support - middle[which]).astype(np.int64) + half
    near = (position >= 0) & (position < width)
    keys = np.where(near, which * width + position, half)
    seen = np.zeros(len(blocks) * width, np.bool_)
    seen[keys] = True
    row, column = np.divmod(np.flatnonzero(seen), width)
    counts = np.clip(column - half + middle[row], 0, blocks[row])
    ranks = np.cumsum(seen, dtype=np.int32) - 1
    rank = ranks[keys]
    some, many = (result[rank] for result in limits(counts, blocks[row]))
    far = np.flatnonzero(~near)
    if len(far):
        totals = np.broadcast_to(total, support.shape)
        some[far], many[far] = limits(support[far], totals[far])
    return some, many


def _distinct(numbers: Array) -> tuple[Array, IntArray]:
    """Return the distinct values of some integers, and the index of the value of each."""
    least = float(numbers.min())
    span = int(numbers.max() - least) + 1
    if span > 4 * len(numbers) + 1024:
        values, which = np.unique(numbers, return_inverse=True)
        return values, which
    positions = (numbers - least).astype(np.int64)
    seen = np.zeros(span, np.bool_)
    seen[positions] = True
    values = np.flatnonzero(seen).astype(np.float64) + least
    ranks = np.cumsum(seen, dtype=np.int64) - 1
    return values, ranks[positions]


@dataclass(frozen=True, eq=False)
class BlockCount:
    """How often some categories are supported, in designs of several blocks.

    What is counted is Z, summed over the reports: [supports x] − κ·[in the block of x]. Its mean tells how many people
    hold x; its spread depends as well on how many are in the block.
    """

    # counts, total: For each category, the reports that support it, and those in its block
    counts: Array
    total: Array
    reports: int  # n
    moments: Moments  # how often a report does either

    def fewest(self, level: float) -> Array:
        """Return the fewest people who may hold each category, with a miss at most as likely as the level."""
        return self._limit(level, 1.0)

    def most(self, level: float) -> Array:
        """Return the most people who may hold each category."""
        return self._limit(level, -1.0)

    def _limit(self, level: float, side: float) -> Array:
        result, variance = self._expanded(level, side)
        exact = np.flatnonzero(variance < EXACT_BLOCKS_BELOW)
        if len(exact):
            result[exact] = self._within(level, side, exact)
        return result

    def _within(self, level: float, side: float, which: IntArray) -> Array:
        """Return limits from exact tails: of how many reports in the block are by holders, then of the holders.

        Reports in the block support the category at one rate if they are by somebody who holds it, and at one of two
        others if not. The higher of these counts for the fewest holders, the lower one for the most.
        """
        own, inside = self.moments.own
        same, _ = self.moments.same
        other, outside = self.moments.other
        rates = [same / inside]
        if outside > 0:
            rates.append(other / outside)
        limit = fewest if side > 0 else most
        rate = max(rates) if side > 0 else min(rates)
        by_holders = limit(self.counts[which], self.total[which], own / inside, rate, (1 - _STEP) * level)
        people = np.full(len(which), float(self.reports))
        return limit(by_holders, people, inside, 0.0, _STEP * level)

    @cached_property
    def _cumulants(self) -> list[Array]:
        """Those of Z for people who hold x, others in its block, and the rest."""
        kinds = (self.moments.own, self.moments.same, self.moments.other)
        return [self.moments.cumulants(each) for each in kinds]

    def _expanded(self, level: float, side: float) -> tuple[Array, Array]:
        """Return limits by the cumulants of what is counted, and its variance there.

        How many people are in the block is estimated. A block has at least those who hold x, and so a limit that is
        above the estimate is computed again for a block without any others.
        """
        own, same, other = self._cumulants
        people, doubt, lean = self._estimated
        normal = -NormalDist().inv_cdf(level)
        by_variance = (normal**2 + 1) / 8 * doubt
        by_covariance = normal / 2 * np.maximum(-side * lean, 0)
        wider = normal * (1 + by_variance + by_covariance)
        # Given the reports in the block, what is counted moves in steps of 1; a quantile may lie half of one beyond.
        gap = self._gap - side / 2
        scale = self.moments.scale
        most = float(self.reports)
        outside = (self.reports * other)[:, None]
        shared = np.multiply.outer(same - other, people) + outside
        position, variance = Sum(scale, shared, own - same, most).crossing(gap, wider, side)
        alone = np.flatnonzero(position > people)
        if len(alone):
            fixed = np.repeat(outside, len(alone), axis=1)
            beyond, _ = Sum(scale, fixed, own - other, most).crossing(gap[alone], normal, side)
            position[alone] = side * np.minimum(side * position[alone], side * beyond)
        limit = side * np.ceil(side * position)
        return np.clip(limit, 0, self.reports), variance

    @cached_property
    def _gap(self) -> Array:
        """What is counted, less its mean if nobody holds x."""
        return self.counts - self.moments.overlap * self.total - self.reports * self.moments.base

    @cached_property
    def _estimated(self) -> tuple[Array, Array, Array]:
        """How many people are in the block, and how uncertain this makes the variance of what is counted.

        The latter is the relative variance of that variance, and how far it goes along with what is counted: where a
        block looks small because a category looks rare, the most that may hold it would come out too few.
        """
        inside = self.moments.own[1]
        outside = self.moments.other[1]
        people = np.clip((self.total - self.reports * outside) / self.moments.inside, 0, self.reports)
        near = np.clip(self._gap / self.moments.scale, 0, people)
        own, same, other = (each[0] for each in self._cumulants)
        variance = near * (own - same) + people * (same - other) + self.reports * other
        variance = np.maximum(variance, 1.0)
        absent = people * (1 - inside)
        strange = (self.reports - people) * (1 - outside)
        spread = (absent * inside + strange * outside) / self.moments.inside**2
        common = near * ((1 - inside) * self.moments.scale) + (absent + strange) * self.moments.base
        change = (same - other) / variance
        doubt = spread * change * change
        lean = common * change / (np.sqrt(variance) * self.moments.inside)
        return people, doubt, lean


def upper_tail(counts: Array, people: Array, total: Array, high: float, low: float) -> Array:
    """Return the probability of at least `counts` yeses, if `people` of all have the higher rate, within 1e-13.

    The characteristic function is a product of two powers. A rate above one half is taken as one less the other, so
    that nothing large has to be exact but whole numbers.
    """
    rest = total - people
    groups = [(people, high), (rest, low)]
    variance = people * (high * (1 - high)) + rest * (low * (1 - low))
    most = float(variance.max(initial=0.0))
    reach = math.sqrt(2 * _DROPPED * most) + 2 * _DROPPED / 3
    size = 1 << max(6, math.ceil(math.log2(2 * reach + 4)))
    positions = np.arange(size // 2 + 1)
    angles = 2 * math.pi * positions / size
    waves = [_wave(rate, angles) for _, rate in groups]
    first = np.rint(people * high + rest * low) - size // 2
    result = np.empty(len(counts))
    step = max(1, _PART // size)
    for start in range(0, len(counts), step):
        part = slice(start, start + step)
        whole = -first[part]
        logs, turns = np.zeros((2, len(whole), len(positions)))
        for (number, rate), (size_log, turn) in zip(groups, waves, strict=True):
            logs += np.multiply.outer(number[part], size_log)
            turns += np.multiply.outer(number[part], turn)
            if rate > 0.5:
                whole = whole + number[part]
        turned = np.multiply.outer(whole.astype(np.int64), positions) % size
        turns += (2 * math.pi / size) * turned
        # numpy's transform has the other sign: the conjugate.
        masses = np.fft.irfft(np.exp(logs - 1j * turns), size)
        above = np.cumsum(masses[:, ::-1], axis=1)[:, ::-1]
        position = counts[part] - first[part]
        column = np.clip(position, 0, size - 1).astype(np.int64)
        tails = np.take_along_axis(above, column[:, None], axis=1)[:, 0]
        result[part] = np.where(position < size, tails, 0.0)
    return np.clip(result, 0, 1)


def _wave(rate: float, angles: Array) -> Angles:
    """Return the logarithm and the angle of the characteristic function of one yes, less its angle θ if it is likely.

    |1 + p(e^iθ − 1)|² = 1 − 4p(1 − p)·sin²(θ/2).
    """
    small = min(rate, 1 - rate)
    squares = np.sin(angles / 2) ** 2
    loss = np.maximum(-4 * small * (1 - small) * squares, -1.0)
    with np.errstate(divide="ignore"):  # a rate of one half has no part at the angle π
        logs = np.maximum(0.5 * np.log1p(loss), -1e3)
    turn = np.arctan2(small * np.sin(angles), 1 - 2 * small * squares)
    return logs, -turn if rate > 0.5 else turn


def fewest(counts: Array, total: Array, high: float, low: float, level: float) -> Array:
    """Return the fewest people who may have the higher rate if `counts` of `total` said yes.

    That is the smallest m with Pr(X ≥ x) > level, or else all of them; a miss is less likely than the level.
    """
    ours = _cumulants(high)
    theirs = _cumulants(low)
    sums = Sum(high - low, np.multiply.outer(theirs, total), ours - theirs, total)
    gap = counts - 0.5 - total * low
    position, variance = sums.crossing(gap, -NormalDist().inv_cdf(level))
    result = np.clip(np.ceil(position), 0, total)
    exact = np.flatnonzero((variance < EXACT_BELOW) & (counts > 0))
    if len(exact):
        result[exact] = _searched(result[exact], counts[exact], total[exact], (high, low), level)
    return result


def _cumulants(rate: float) -> Array:
    """Return the second, third and fourth cumulant of one answer."""
    spread = rate * (1 - rate)
    return np.array([spread, spread * (1 - 2 * rate), spread * (1 - 6 * spread)])


def most(counts: Array, total: Array, high: float, low: float, level: float) -> Array:
    """Return the most people who may have the higher rate: all but the fewest with the lower one, who say no."""
    return total - fewest(total - counts, total, 1 - low, 1 - high, level)


def _searched(guess: Array, counts: Array, total: Array, rates: tuple[float, float], level: float) -> Array:
    """Return the smallest number of people with a large enough tail, or all, by bisection from a guess."""

    def fine(position: Array, which: IntArray) -> BoolArray:
        tails = upper_tail(counts[which], position, total[which], *rates)
        return (tails > level - _SLACK) | (position >= total[which])

    below = np.full(len(guess), -1.0)  # too few
    above = total.copy()  # enough
    position = guess
    step = 1.0
    while len(open_ := np.flatnonzero(above - below > 1)):
        tried = position[open_]
        good = fine(tried, open_)
        above[open_[good]] = tried[good]
        below[open_[~good]] = tried[~good]
        # Steps that double lead out of the wrong side; once both sides are known, halves.
        following = np.where(good, tried - step, tried + step)
        middle = np.floor((above[open_] + below[open_]) / 2)
        between = (following > below[open_]) & (following < above[open_])
        position[open_] = np.where(between, following, middle)
        step *= 2
    return above


def quantile(normal: Array | float, variance: Array | float, third: Array, fourth: Array) -> Array:
    """Return a quantile in units of the standard deviation, from the cumulants and the normal one."""
    skewness = third / variance**1.5
    excess = fourth / (variance * variance)
    by_skewness = skewness * ((normal**2 - 1) / 6)
    by_square = skewness * skewness * ((2 * normal**3 - 5 * normal) / 36)
    by_excess = excess * ((normal**3 - 3 * normal) / 24)
    return np.asarray(normal + by_skewness - by_square + by_excess, np.float64)


@dataclass(frozen=True)
class Sum:
    """A sum over people, m of whom are of one kind."""

    scale: float  # what each of the m adds to the mean
    # fixed, slopes: The second, third and fourth cumulant at m = 0, and by how much they grow
    # with m
    fixed: Array
    slopes: Array
    total: Array | float  # the largest m

    def crossing(self, gap: Array, normal: Array | float, side: float = 1.0) -> tuple[Array, Array]:
        """Return the m at which what was counted is a quantile, and the variance there.

        `gap` is what was counted, less the mean at m = 0. `side` is 1 for the upper quantile and −1 for the lower one.
        """
        near = np.clip(gap / self.scale, 0, self.total)
        at_near = self.fixed[0] + self.slopes[0] * near
        factor = normal
        for _ in range(_ROUNDS):
            half = factor * (self.slopes[0] / (2 * self.scale))
            root = np.sqrt(np.maximum(half * half + at_near, 0))
            result = near + factor / self.scale * (half - side * root)
            inside = np.clip(result, 0, self.total)
            variance = self.fixed[0] + self.slopes[0] * inside
            third = self.fixed[1] + self.slopes[1] * inside
            fourth = self.fixed[2] + self.slopes[2] * inside
            # With a variance below 1 it is no more than a guess.
            factor = quantile(normal, np.maximum(variance, 1.0), side * third, fourth)
            factor = np.clip(factor, normal / 2, 2 * normal + 1)
        return result, variance


def least_share(count: int, total: int, level: float) -> float:
    """Return a lower limit of the mean probability, with a miss at most as likely as the level.

    It is that of Clopper and Pearson for equal probabilities, which are the worst for counts that exceed the mean by
    one and more (Hoeffding 1956; docs/theory/numbers.md, 4). The upper limit is 1 − least_share(total − count, …).
    """
    if count <= 1:  # a yes is at most as likely as the mean number of them
        return count * level / total
    return min(_equal(count, total, level), (count - 1) / total)


def _equal(count: int, total: int, level: float) -> float:
    """Return the probability at which this number of yeses, or more, are as likely as the level."""
    result = _expanded(count, total, level)
    if total * result * (1 - result) >= EXACT_BELOW:
        return result
    if level < _LEAST:  # below what a sum of doubles can tell
        return 0.0
    counts = np.array([count, count + 1.0])
    people = np.full(2, float(total))
    for _ in range(_STEPS):  # Newton on logarithms: the tail is log-concave, and its slope is x times a probability
        tail, beyond = np.maximum(upper_tail(counts, people, people, result, 0.0), 1e-14)
        slope = count * max(tail - beyond, 1e-3 * tail)
        step = math.log(tail / level) * tail / slope
        shrunk = result * math.exp(-min(max(step, -1.0), 1.0))
        result = min(shrunk, count / total)
        if abs(step) < 1e-11:
            break
    return result * (1 - 1e-9)


def _expanded(count: int, total: int, level: float) -> float:
    """Return the same by the expansion of Cornish and Fisher, iterated from the count."""
    normal = -NormalDist().inv_cdf(level)
    result = count / total
    for _ in range(_STEPS):
        variance = max(total * result * (1 - result), 1.0)
        third = variance * (1 - 2 * result)
        fourth = variance * (1 - 6 * result * (1 - result))
        factor = float(quantile(normal, variance, np.array(third), np.array(fourth)))
        mean = count - 0.5 - factor * math.sqrt(variance)
        result = min(max(mean / total, 0.01 * count / total), 1.0)
    return result
