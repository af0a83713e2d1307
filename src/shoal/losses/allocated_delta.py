"""δ(ε) of allocation: one epoch of t steps, of which an example joins one at random (docs/theory/samplers.md, 2 and 5).

With X₀ = exp(aZ − a²/2), X₁ = exp(−bZ − b²/2), Z standard normal, and W = (X₀ − 1) − e^ε·(X₁ − 1), whose mean is zero,
δ(ε) = E[(W₁ + … + W_t − t·(e^ε − 1))₊]/t. Where b = 0 or a = 0, W does not depend on ε but for a factor, and one
distribution serves the whole curve. All steps go upwards: W is moved to a lattice with its mean kept; what is larger
than a level is a jump, and the sum is taken apart by the number of jumps, so that a tilt need only serve the rest.
"""

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from shoal.checks import SMALLEST_DELTA
from shoal.losses.ramp import Ramps
from shoal.rounding import UNIT

__all__ = ["allocated_delta", "allocated_floor"]

_SPACING, _SPARSE = 64, 8
"""Far out, positions lie farther apart: this part of their distance from zero; or this, where no sum is large."""
_OUTWEIGH = 1e-10
"""By so much a and b are enlarged, which outweighs what rounding does to the masses, as the lattice does."""
_TAIL = 9.4
"""Beyond a + 9.4 the victim is given up, at a cost of Φ(−9.4) < 3e-21; far below, W is raised."""
_RARELY = 0.01
"""How many jumps are expected among t, at most."""
_GROWTH, _COARSE, _COARSER = 1.015, (1.06, 1.12), (1.15, 1.3)
"""Jumps are at powers of this; two together, of the coarser one; more, of the coarsest: where one distribution serves
every ε or steps are few, and where not."""
_FEW_ROOTS = 4
"""No sum is large with a term that is so many deviations of a sum below zero."""
_LAST = 1 << 60
_CELLS = 2049
"""So many points has one of two steps."""
_LITTLE = 1.25
"""With a smaller a, few steps need no finer mesh than many."""
_FEW_STEPS = 64
"""Of so few steps two jumps together are what makes a sum large."""
_MOST_JUMPS = 12
_SHARE = 5e-5
"""What may be charged in place of being computed, of δ."""

Array = NDArray[np.float64]


def allocated_delta(above: float, below: float, steps: int, epsilons: Array) -> Array:
    """Return upper bounds of δ at each ε ≥ 0 for a = above, b = below: equal, or one of them 0."""
    if above == below and steps == 2:
        values = np.array([_of_two(above * (1 + _OUTWEIGH), epsilon) for epsilon in epsilons.tolist()])
    elif above and below:
        sums = [_Summed.of(above, below, epsilon, steps) for epsilon in epsilons.tolist()]
        points = (steps * np.expm1(epsilons)).reshape(-1, 1)
        values = np.array([float(each.upper(x)[0]) for each, x in zip(sums, points, strict=True)])
    elif above:
        values = _remembered(above, below, steps).upper(steps * np.expm1(epsilons))
    else:
        values = _remembered(above, below, steps).upper(-steps * np.expm1(-epsilons)) * np.exp(epsilons)
    return np.clip(values / steps * (1 + 1e-12), SMALLEST_DELTA, 1.0)


def allocated_floor(above: float, below: float) -> float:
    """Return what a bound of δ has at least, however large ε is: the victim's tail that is given up."""
    return 0.5 * math.erfc((max(above, below) + _TAIL - above) / math.sqrt(2))


class _Summed:
    """E[(W₁ + … + W_t − x)₊] for any x, from above."""

    def __init__(self, above: float, below: float, growth: float, steps: int) -> None:
        self.steps = steps
        each = bool(above and below)
        rough = each and steps > _FEW_STEPS
        self.ratios = _COARSE[rough], _COARSER[rough]
        highest = max(above, below) + _TAIL
        level, deviation = _level(above, below, growth, steps, highest)
        fineness, bulk = _mesh(steps, above if each else math.inf, each=each)
        step = deviation / fineness
        largest = _value(highest, above, below, growth)
        ends = (math.floor(_value(-highest, above, below, growth) / step), math.ceil(min(level, largest) / step))
        few = math.ceil(math.log2(_FEW_ROOTS * math.sqrt(steps) * fineness))
        positions = _positions(*ends, bulk * fineness, few if each else _LAST.bit_length())
        jumps = np.zeros(0)
        first = float(step * positions[-1])
        if first < largest:
            count = math.ceil(math.log(largest / first) / math.log(_GROWTH))
            jumps = first * np.power(_GROWTH, np.arange(1.0, max(count, 1) + 1))
        levels = np.concatenate((step * positions, jumps))
        points = np.clip(_inverse(levels, above, below, growth), -highest, highest)
        points[0], points[-1] = -highest, highest
        masses = _between(points)
        means = _between(points - above) - growth * _between(points + below) + (growth - 1) * masses
        rights = np.clip((means - levels[:-1] * masses) / np.diff(levels), 0.0, masses)
        heaps = np.zeros(len(levels))
        heaps[1:] += rights
        heaps[:-1] += masses - rights
        outside = 0.5 * math.erfc(highest / math.sqrt(2))
        heaps[0] += outside  # raised
        heaps[min(int(np.searchsorted(levels, growth - 1)), len(positions) - 1)] += outside  # given up: X₀ − λX₁ is 0
        calm = heaps[: len(positions)]
        kept = calm > 0
        self.ramps = Ramps(step, positions[kept], calm[kept], steps)
        # What the mean of the masses may be off by, of all copies together.
        self.off = 16 * UNIT * steps * (1 + growth)
        self.cost = steps * 0.5 * math.erfc((highest - above) / math.sqrt(2)) * (1 + 1e-9)
        # How often W is a jump, and E[(W − (e^ε − 1))₊] of jumps and of all others, as they are on the lattice.
        self.values, self.often = levels[len(positions) :], heaps[len(positions) :]
        self.jump = float(self.often.sum()) * (1 + 1e-9)
        gains = heaps * np.maximum(levels - (growth - 1), 0.0) * (1 + 1e-9)
        self.own, self.other = float(gains[len(positions) :].sum()), float(gains[: len(positions)].sum())

    @classmethod
    def of(cls, above: float, below: float, epsilon: float, steps: int) -> "_Summed":
        """Return the sum for these distances, slightly enlarged; ε counts where both are positive."""
        return cls(above * (1 + _OUTWEIGH), below * (1 + _OUTWEIGH), math.exp(epsilon), steps)

    def upper(self, points: Array) -> Array:
        """Return upper bounds of E[(W₁ + … + W_t − x)₊]."""
        points = points - self.off - 8 * UNIT * np.abs(points)
        totals = self.ramps.upper(points, 0)
        values, masses, chosen, expected = self.values, self.often, 1.0, self.steps * self.jump
        for count in range(1, min(_MOST_JUMPS, self.steps) + 1):
            if not len(values):
                break
            # So many jumps or more: (ΣW − x)₊ ≤ Σ(W − x/t)₊, and x/t is at least e^ε − 1.
            rest = self.steps * (self.own * _poisson(expected, count - 1) + self.other * _poisson(expected, count))
            asked = np.flatnonzero(rest > _SHARE * totals)
            if count == _MOST_JUMPS or not len(asked):
                return np.asarray(totals + rest + self.cost)
            if count > 1:
                values, masses = _together((values, masses), (self.values, self.often), self.ratios[count > 2])
            chosen *= (self.steps - count + 1) / count
            # What is rough may be so little too large.
            weights = np.multiply.outer(1 / np.maximum(_SHARE * totals, 1e-200), np.minimum(chosen * masses, 1e50))
            sums = self.ramps.upper(np.subtract.outer(points, values), count, weights=weights)
            totals = totals + chosen * (sums @ masses) * (1 + 1e-12)
        return np.asarray(totals + self.cost)


def _of_two(separation: float, epsilon: float) -> float:
    """Return a bound of E[(V₁ + V₂)₊], V = X₀ − λX₁: the one is moved to points, the other has a closed form."""
    points, masses, means = _cells(separation)
    growth, log_scale = math.exp(epsilon), -(separation**2) / 2
    outside = 0.5 * math.erfc(float(points[-1]) / math.sqrt(2))
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        values = np.exp(separation * points + log_scale) - np.exp(epsilon - separation * points + log_scale)
        rights = (means[0] - growth * means[1] - values[:-1] * masses) / np.diff(values)
        rights = np.clip(rights, 0.0, masses)
        heaps = np.concatenate(([outside], rights, [outside]))  # raised, and at the end given up: V is 0 there
        heaps[:-2] += masses - rights
        # What the mean of the masses may be off by is added to V₁.
        values = np.append(values, 0.0) + 64 * UNIT * (1 + growth)
        # V₂ exceeds −v where y = e^{aZ} does: y − λ/y = −v·exp(a²/2).
        lifted = -0.5 * np.exp(separation**2 / 2) * values
        roots = np.hypot(lifted, math.sqrt(growth))
        ends = np.log(np.where(lifted >= 0, lifted + roots, growth / (roots - lifted))) / separation
        base, first, second = (_above(ends + shift) for shift in (0.0, -separation, separation))
        sizes = 256 * UNIT * (1 + epsilon + (np.abs(ends) + separation) ** 2) * (first + np.abs(values) * base + 1e-300)
        gains = np.maximum(values * base + first - growth * second, 0.0) + sizes
        cost = math.erfc((float(points[-1]) - separation) / math.sqrt(2))
        total = float((heaps * gains).sum() + cost) * (1 + 1e-9)
    return total if total < math.inf else math.inf


@lru_cache(maxsize=16)
def _cells(separation: float) -> tuple[Array, Array, tuple[Array, Array]]:
    """Return points of Z, the masses between them, and the means of X₀ and X₁ there."""
    highest = separation + _TAIL
    points = np.linspace(-highest, highest, _CELLS)
    return points, _between(points), (_between(points - separation), _between(points + separation))


def _above(points: Array) -> Array:
    return np.array(list(map(math.erfc, (points / math.sqrt(2)).tolist()))) / 2


@lru_cache(maxsize=16)
def _remembered(above: float, below: float, steps: int) -> _Summed:
    return _Summed.of(above, below, 0.0, steps)


def _poisson(expected: float, count: int) -> float:
    """Return a bound of the probability of at least `count` jumps among t."""
    return min(1.0, expected**count / math.factorial(count)) * (1 + 1e-9)


def _gathered(values: Array, masses: Array, ratio: float) -> tuple[Array, Array]:
    """Return the same measure on powers of a ratio, with its mean kept."""
    low = float(values.min())
    count = max(1, math.ceil(math.log(float(values.max()) / low) / math.log(ratio) + 1e-9))
    grid = low * np.power(ratio, np.arange(count + 1.0))
    index = np.clip(np.searchsorted(grid, values, side="right") - 1, 0, count - 1)
    share = np.clip((values - grid[index]) / (grid[index + 1] - grid[index]), 0.0, None)
    right = np.bincount(index + 1, masses * share, count + 1)
    left = np.bincount(index, masses * np.maximum(1 - share, 0.0), count + 1)
    return grid * (1 + 1e-12), np.asarray(left + right, dtype=np.float64)


def _together(first: tuple[Array, Array], second: tuple[Array, Array], ratio: float) -> tuple[Array, Array]:
    """Return the sum of two independent measures on powers of a ratio."""
    first, second = _gathered(*first, ratio), _gathered(*second, ratio)
    sums = np.add.outer(first[0], second[0]).ravel()
    products = np.multiply.outer(first[1], second[1]).ravel()
    kept = products > 0
    return _gathered(sums[kept], products[kept], ratio)


def _value(point: float, above: float, below: float, growth: float) -> float:
    """Return W at Z = point."""
    return math.expm1(above * point - above**2 / 2) - growth * math.expm1(-below * point - below**2 / 2)


def _level(above: float, below: float, growth: float, steps: int, highest: float) -> tuple[float, float]:
    """Return from where on W is a jump, and the deviation of what is not; any choice is valid."""
    z = np.linspace(-highest, highest, 800)
    w = np.expm1(above * z - above**2 / 2) - growth * np.expm1(-below * z - below**2 / 2)
    density = np.exp(-0.5 * z**2) * (z[1] - z[0]) / math.sqrt(2 * math.pi)
    start = -NormalDist().inv_cdf(min(_RARELY / steps, 0.4))
    level = _value(min(start, highest), above, below, growth)
    for _ in range(2):
        calm = np.abs(w) <= level
        deviation = math.sqrt(float((density * w**2)[calm].sum()) + 1e-300)
        level = max(level, math.sqrt(steps) * deviation)
    return level, deviation


def _mesh(steps: int, separation: float, *, each: bool) -> tuple[int, int]:
    """Return how many positions there are to a deviation of W, and up to how many deviations.

    A sum of few is large because one of them is, and small because each of them is. Where every ε has a distribution of
    its own, positions are farther apart: δ grows by some 1e-4 of itself.
    """
    if steps > 64:
        return (48 if each else 64), 8
    if steps > 16 or separation < _LITTLE:
        return (96, 12) if each else (128, 16)
    return (128, 16) if each else (256, 24)


def _positions(lowest: int, highest: int, last: int, far: int) -> NDArray[np.int64]:
    """Return the positions from the lowest to the highest, with zero, farther apart beyond the last and below −2^far.

    There is none far beyond 2⁶⁰: what is lower is raised, and what is higher is a jump.
    """
    left, right = _side(last, far), _side(last, _LAST.bit_length())
    left = left[: int(np.searchsorted(left, min(max(-lowest, 1), _LAST))) + 1]
    right = right[: int(np.searchsorted(right, min(max(highest, 1), _LAST))) + 1]
    return np.concatenate((-left[::-1], [0], right))


@lru_cache(maxsize=8)
def _side(last: int, far: int) -> NDArray[np.int64]:
    """Return the positions of one side, as far as there are any."""
    side = list(range(1, last + 1))
    while side[-1] < _LAST:
        side.append(side[-1] + 1 + side[-1] // (_SPACING if side[-1] < 1 << far else _SPARSE))
    return np.array(side)


def _inverse(levels: Array, above: float, below: float, growth: float) -> Array:
    """Return the Z at which W has each value, where there is one."""
    with np.errstate(divide="ignore", invalid="ignore"):
        if below == 0:
            points = (np.log1p(np.maximum(levels, -1.0)) + above**2 / 2) / above
        elif above == 0:
            points = -(np.log1p(np.maximum(-levels / growth, -1.0)) + below**2 / 2) / below
        else:  # a = b: y − e^ε/y = (w + 1 − e^ε)·exp(a²/2) for y = exp(aZ)
            lifted = (levels + (1 - growth)) * math.exp(above**2 / 2) / 2
            roots = np.sqrt(lifted**2 + growth)
            points = np.log(np.where(lifted >= 0, lifted + roots, growth / (roots - lifted))) / above
    return np.asarray(np.nan_to_num(points, nan=0.0, posinf=1e300, neginf=-1e300))


def _between(points: Array) -> Array:
    """Return the mass of the standard normal distribution between each two neighbouring points, ascending."""
    tails = np.array(list(map(math.erfc, (np.abs(points) / math.sqrt(2)).tolist()))) / 2
    right = points > 0
    falls = np.where(right[:-1], -np.diff(tails), np.diff(tails))
    return np.where(right[1:] & ~right[:-1], 1 - tails[1:] - tails[:-1], falls)
