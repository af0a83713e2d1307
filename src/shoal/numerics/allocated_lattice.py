"""Where the summands of an allocation are moved to: positions and jumps (docs/theory/samplers.md, 5).

U = X₀ − λX₁ + c with X₀ = exp(aZ − a²/2), X₁ = exp(−bZ − b²/2), Z standard normal. With c = λ − 1 the mean of U is
zero: of many steps none counts for itself. A sum of few is large because each of them is as it seldom is, so that zero
is put where X₀ = λX₁, or where X₁ = 0. Every choice is valid, but positions have to be where the sum is decided.
"""

import math
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["LITTLE_NOISE", "TAIL", "Lattice", "between", "inverse", "lattice_of"]

TAIL = 9.4
"""Beyond a + 9.4 the victim is given up, at a cost of Φ(−9.4) < 3e-21; far below, U is raised."""
LITTLE_NOISE = 2.5
"""From this a on, one step outweighs many others. The lattices for few steps then serve any number of steps: those for
many have a step in proportion to rare values of X₁, which is far too coarse for the usual ones that decide."""
_RARELY = 0.01
"""How many jumps are expected among t, at most."""
_GROWTH = (0.006, 0.009)
"""Jumps are at powers of e^0.006a, a fixed number of them; or of e^0.009a, where every ε has its own."""
_FEW_ROOTS = 4
"""No sum is large with a term that is so many deviations of a sum below zero."""
_LAST = 1 << 60
_EVENLY, _FINELY, _SPARSELY = 5, 7, 3
"""Far out there are 2⁵ positions to each power of two; or 2⁷, where all are small; or 2³, where no sum is large."""
_FEW, _FEW_ADDED = 64, 24
"""Up to how many steps a sum is large because each of them is as it seldom is, if one is replaced; if one is added."""
_LIGHT, _HEAVY, _CALM = 0.4, 2.0, 0.8
"""Up to this a there are no jumps: a tilt serves all of W. From the second on, few have the lattice of many where it is
fine enough, which takes less time; up to this ε/a it always is."""
_TYPICAL, _BULK, _HIGH = 32, 4, 16
"""Of few: how many positions there are to a typical size, up to how many, and from how many on U is a jump."""
_NEVER = 55.0
"""Nobody asks about sums that are less likely than e^−55."""

Array = NDArray[np.float64]


class Lattice(NamedTuple):
    """Positions of U in units of a step, and larger values, the jumps.

    Attributes
    ----------
    step : float
        The unit.
    positions : numpy.ndarray
        Ascending.
    jumps : numpy.ndarray
        Ascending, all above the positions.
    constant : float
        c.
    lowest : float
        The least Z that counts: what U has below is raised, or left out if no sum with it is positive.
    """

    step: float
    positions: NDArray[np.int64]
    jumps: Array
    constant: float
    lowest: float

    @property
    def levels(self) -> Array:
        """All values of U."""
        return np.concatenate((self.step * self.positions, self.jumps))


def lattice_of(above: float, below: float, growth: float, steps: int) -> Lattice:
    """Return the lattice for a = above, b = below, λ = growth."""
    little = max(above, below) > LITTLE_NOISE
    if min(above, below) > _LIGHT and (little or steps <= _FEW):
        few = _few_replaced(above, growth, steps)
        if above < _HEAVY:
            return few
        many = _many(above, below, growth, steps)
        fine = many.step < 16 * few.step or math.log(growth) < _CALM * above
        return many if fine else few
    if not above and below > _LIGHT and (little or steps <= _FEW_ADDED):
        return _few_added(below, steps)
    return _many(above, below, growth, steps)


def _many(above: float, below: float, growth: float, steps: int) -> Lattice:
    """Return positions around the mean, as many to a deviation as it takes."""
    highest = max(above, below) + TAIL
    least, largest = (_value(end, above, below, growth) for end in (-highest, highest))
    each = bool(above and below)
    level, deviation = _level(above, below, growth, steps, highest)
    fineness, bulk = _mesh(steps, above if each else math.inf, each=each)
    if max(above, below) <= _LIGHT:
        level = largest
    step = deviation / fineness
    far = math.ceil(math.log2(_FEW_ROOTS * math.sqrt(steps) * fineness)) if each else _LAST.bit_length()
    bits = _EVENLY if each else _FINELY
    left = _side(bulk * fineness, bits, far, -least / step)
    right = _side(bulk * fineness, bits, _LAST.bit_length(), min(level, largest) / step)
    positions = np.concatenate((-left[::-1], [0], right))
    return _with_jumps(
        Lattice(step, positions, np.zeros(0), growth - 1, -highest), largest, _GROWTH[each] * max(above, below)
    )


def _few_replaced(separation: float, growth: float, steps: int) -> Lattice:
    """Return positions around zero: one V = X₀ − λX₁ is large, and all others are less negative than usual."""
    highest = separation + TAIL
    least, largest = (_value(end, separation, separation, growth) - (growth - 1) for end in (-highest, highest))
    finely = _TYPICAL if separation >= _HEAVY else 2 * _TYPICAL
    step = _typical(separation, growth, steps) / finely
    start = -NormalDist().inv_cdf(_RARELY / steps)
    level = max(_value(start, separation, separation, growth) - (growth - 1), _HIGH * finely * step)
    left, right = (
        _side(_BULK * finely, _EVENLY, _LAST.bit_length(), end / step) for end in (-least, min(level, largest))
    )
    positions = np.concatenate((-left[::-1], [0], right))
    return _with_jumps(Lattice(step, positions, np.zeros(0), 0.0, -highest), largest, _GROWTH[1] * separation)


def _few_added(separation: float, steps: int) -> Lattice:
    """Return positions of −X₁ up to zero: all of them are small, and one that is above t is of no use."""
    # The sum is below te^−ε if each X₁ is, at most.
    rarely = NormalDist().inv_cdf(math.exp(-_NEVER / steps))
    step = math.exp(min(separation * rarely - separation**2 / 2, 0.0)) / steps / _TYPICAL
    largest = 1.01 * steps
    bits = _FINELY + max(0, math.ceil(-math.log2(separation)))
    left = _side(_BULK * _TYPICAL, bits, _LAST.bit_length(), largest / step)
    lowest = -(math.log(largest) + separation**2 / 2) / separation
    return Lattice(step, np.append(-left[::-1], 0), np.zeros(0), -1.0, max(lowest, -separation - TAIL))


def _with_jumps(lattice: Lattice, largest: float, growth: float) -> Lattice:
    """Return the same with jumps from its last position up to the largest value."""
    first = float(lattice.step * lattice.positions[-1])
    if first >= largest:
        return lattice
    count = max(1, math.ceil(math.log(largest / first) / growth))
    return lattice._replace(jumps=first * np.exp(growth * np.arange(1.0, count + 1)))


def _typical(separation: float, growth: float, steps: int) -> float:
    """Return about the size of each −V where the sum of few is positive: the exponents of all Z are least there."""
    middle = math.log(growth) / (2 * separation)
    point = ((steps - 2) * middle - math.log(steps - 1) / separation) / steps
    return 2 * math.sqrt(growth) * math.exp(-(separation**2) / 2) * math.sinh(max(separation * point, 0.5))


def _value(point: float, above: float, below: float, growth: float) -> float:
    """Return W at Z = point."""
    return math.expm1(above * point - above**2 / 2) - growth * math.expm1(-below * point - below**2 / 2)


def _level(above: float, below: float, growth: float, steps: int, highest: float) -> tuple[float, float]:
    """Return from where on W is a jump, and the deviation of what is not."""
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

    Where every ε has a distribution of its own, positions are farther apart: δ grows by some 1e-4 of itself.
    """
    if steps > 64:
        return (24 if separation >= 1.25 else 48) if each else 64, 8
    if steps > 16 or separation < 1.25:
        return (96, 12) if each else (128, 16)
    return (128, 16) if each else (256, 24)


def _side(last: int, bits: int, far: int, end: float) -> NDArray[np.int64]:
    """Return the positions of one side up to the first one at the end or beyond it, but not far beyond 2⁶⁰.

    There is none there: what is lower is raised, and what is higher is a jump.
    """
    side = _whole_side(last, bits, far)
    return side[: int(np.searchsorted(side, min(max(math.ceil(end), 1), _LAST))) + 1]


@lru_cache(maxsize=16)
def _whole_side(last: int, bits: int, far: int) -> NDArray[np.int64]:
    """Return the positions of one side: far out, multiples of powers of two, which coarser lattices have, too."""
    side = list(range(1, last + 1))
    while side[-1] < _LAST:
        gap = 1 << max(side[-1].bit_length() - 1 - (bits if side[-1] < 1 << far else _SPARSELY), 0)
        side.append((side[-1] // gap + 1) * gap)
    return np.array(side)


def inverse(levels: Array, above: float, below: float, growth: float, constant: float) -> Array:
    """Return the Z at which U has each value, where there is one."""
    with np.errstate(divide="ignore", invalid="ignore"):
        if below == 0:
            points = (np.log1p(np.maximum(levels, -1.0)) + above**2 / 2) / above
        elif above == 0:  # X₁ = 1 + c − U, with λ = 1
            points = -(np.log(np.maximum((1 + constant) - levels, 0.0)) + below**2 / 2) / below
        else:  # a = b: y − e^ε/y = (U − c)·exp(a²/2) for y = exp(aZ)
            lifted = (levels - constant) * math.exp(above**2 / 2) / 2
            roots = np.hypot(lifted, math.sqrt(growth))
            points = np.log(np.where(lifted >= 0, lifted + roots, growth / (roots - lifted))) / above
    return np.asarray(np.nan_to_num(points, nan=0.0, posinf=1e300, neginf=-1e300))


def between(points: Array) -> Array:
    """Return the mass of the standard normal distribution between each two neighbouring points, ascending."""
    tails = np.array(list(map(math.erfc, (np.abs(points) / math.sqrt(2)).tolist()))) / 2
    right = points > 0
    falls = np.where(right[:-1], -np.diff(tails), np.diff(tails))
    return np.where(right[1:] & ~right[:-1], 1 - tails[1:] - tails[:-1], falls)
