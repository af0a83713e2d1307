"""δ(ε) of allocation: one epoch of t steps, of which an example joins one at random (docs/theory/samplers.md, 2 and 5).

With X₀ = exp(aZ − a²/2), X₁ = exp(−bZ − b²/2), Z standard normal, and W = (X₀ − 1) − e^ε·(X₁ − 1), whose mean is zero,
δ(ε) = E[(W₁ + … + W_t − t·(e^ε − 1))₊]/t. Where b = 0 or a = 0, W does not depend on ε but for a factor, and one
distribution serves the whole curve. All steps go upwards: W is moved to a lattice with its mean kept; what is larger
than a level is a jump, and the sum is taken apart by the number of jumps, so that a tilt need only serve the rest.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from shoal.checks import SMALLEST_DELTA
from shoal.numerics.allocated_lattice import LITTLE_NOISE, TAIL, Lattice, between, inverse, lattice_of
from shoal.numerics.little_noise_delta import little_noise_delta
from shoal.numerics.noise_ratio import gaussian_alone
from shoal.numerics.ramp import Ramps
from shoal.rounding import UNIT, slack

__all__ = ["allocated_delta", "allocated_floor"]

_OUTWEIGH = 1e-10
"""By so much a and b are enlarged, which outweighs what rounding does to the masses, as the lattice does."""
_SHARED, _EACH = (1.06, 1.15), (1.12, 1.3)
"""Two jumps together are at powers of the first, more at those of the second: where one distribution serves every ε,
and where not."""
_MOST_JUMPS = 12
_FARTHEST = 10.0
"""Beyond this a the lattice has lost its digits at every ε of interest, and is slow."""
_LARGEST = 330.0
"""Of the logarithm of X₀ and λX₁."""
_SHARE = 1e-4
"""What may be charged in place of being computed, of δ."""

Array = NDArray[np.float64]


def allocated_delta(above: float, below: float, steps: int, epsilons: Array) -> Array:
    """Return upper bounds of δ at each ε ≥ 0 for a = above, b = below: equal, or one of them 0; t = steps ≥ 2.

    With little noise these are the lesser of two bounds: at large ε the lattice loses its digits to rounding. It is
    not asked where squares of the largest values would overflow, nor beyond `_FARTHEST`.
    """
    separation = max(above, below)
    if above and below and steps == 2:  # exactly one Gaussian mechanism, of mean difference √2·a
        alone = 1 / (math.sqrt(2) * separation) * (1 - slack(8))
        return np.array([gaussian_alone(alone, epsilon) for epsilon in epsilons.tolist()])
    largest = separation * (separation / 2 + TAIL) + epsilons * bool(above and below)
    result, asked = np.ones(len(epsilons)), (largest <= _LARGEST) & (separation <= _FARTHEST)
    if separation > LITTLE_NOISE:
        result, close = little_noise_delta(above, below, steps, epsilons)
        asked &= ~close
    if asked.any():
        result[asked] = np.minimum(result[asked], _bounds(above, below, steps, epsilons[asked]))
    return result


def _bounds(above: float, below: float, steps: int, epsilons: Array) -> Array:
    """Return upper bounds of δ at each ε by a lattice, where no square overflows."""
    if above and below:
        each = [_Summed.of(above, below, epsilon, steps) for epsilon in epsilons.tolist()]
        points = np.where([summed.constant > 0 for summed in each], steps * np.expm1(epsilons), 0.0).reshape(-1, 1)
        values = np.array([float(summed.upper(x)[0]) for summed, x in zip(each, points, strict=True)])
    else:
        summed = _remembered(above, below, steps)
        if above:
            values = summed.upper(steps * np.expm1(epsilons))
        else:
            points = -np.exp(-epsilons) if summed.constant else -np.expm1(-epsilons)
            values = summed.upper(steps * points) * np.exp(epsilons)
    return np.clip(values / steps * (1 + 1e-12), SMALLEST_DELTA, 1.0)


def allocated_floor(above: float, below: float) -> float:
    """Return what a bound of δ has at least, however large ε is: the victim's tail that is given up."""
    return 0.5 * math.erfc((max(above, below) + TAIL - above) / math.sqrt(2))


class _Summed:
    """E[(U₁ + … + U_t − x)₊] for any x, from above; U is W, or W less a constant, on a lattice."""

    def __init__(self, lattice: Lattice, above: float, below: float, growth: float, steps: int) -> None:
        self.steps, self.constant = steps, lattice.constant
        # Where one distribution serves every ε, sums of jumps are finer.
        self.ratios = _EACH if above and below else _SHARED
        highest = max(above, below) + TAIL
        calm, levels = len(lattice.positions), lattice.levels
        points = np.clip(inverse(levels, above, below, growth, lattice.constant), lattice.lowest, highest)
        points[-1] = highest
        masses = between(points)
        means = between(points - above) - growth * between(points + below) + lattice.constant * masses
        rights = np.clip((means - levels[:-1] * masses) / np.diff(levels), 0.0, masses)
        heaps = np.zeros(len(levels))
        heaps[1:] += rights
        heaps[:-1] += masses - rights
        outside = 0.5 * math.erfc(highest / math.sqrt(2))
        if lattice.lowest == -highest or points[0] > lattice.lowest:  # or else no sum with what is lower counts
            heaps[0] += 0.5 * math.erfc(-float(points[0]) / math.sqrt(2))  # raised
        # Given up: X₀ − λX₁ is 0, or as much more as it takes to be a level.
        given = int(np.searchsorted(levels, lattice.constant))
        heaps[min(given, len(levels) - 1)] += outside
        kept = heaps[:calm] > 0
        self.ramps = Ramps(lattice.step, lattice.positions[kept], heaps[:calm][kept], steps)
        # What the mean of the masses may be off by, of all copies together.
        self.off = 16 * UNIT * steps * (1 + growth)
        lower = max(0.0, lattice.constant - float(levels[-1])) * outside
        self.cost = steps * (0.5 * math.erfc((highest - above) / math.sqrt(2)) + lower) * (1 + 1e-9)
        # How often U is a jump, and E[(X₀ − λX₁)₊] of jumps and of all others, as they are on the lattice.
        self.several = [(levels[calm:], heaps[calm:])]
        self.jump = float(heaps[calm:].sum()) * (1 + 1e-9)
        gains = heaps * np.maximum(levels - lattice.constant + 2 * self.off / steps, 0.0) * (1 + 1e-9)
        self.own, self.other = float(gains[calm:].sum()), float(gains[:calm].sum())

    @classmethod
    def of(cls, above: float, below: float, epsilon: float, steps: int) -> "_Summed":
        """Return the sum for these distances, slightly enlarged; ε counts where both are positive."""
        above, below, growth = above * (1 + _OUTWEIGH), below * (1 + _OUTWEIGH), math.exp(epsilon)
        return cls(lattice_of(above, below, growth, steps), above, below, growth, steps)

    def upper(self, points: Array) -> Array:
        """Return upper bounds of E[(U₁ + … + U_t − x)₊]."""
        points = (points - self.off - 8 * UNIT * np.abs(points)).reshape(-1, 1)
        values, masses = self.several[0]
        known = self.steps * (self.ramps.least(points - values, 1) @ masses)
        totals, chosen, expected = self.ramps.upper(points, 0, np.ones(1), known, _SHARE), 1.0, self.steps * self.jump
        for count in range(1, min(_MOST_JUMPS, self.steps) + 1):
            if not expected:
                break
            # So many jumps or more: (ΣU − x)₊ ≤ Σ(U − x/t)₊, and x/t is at least c.
            rest = self.steps * (self.own * _poisson(expected, count - 1) + self.other * _poisson(expected, count))
            if count == _MOST_JUMPS or np.all(rest <= _SHARE * totals):
                return np.asarray(totals + rest + self.cost)
            values, masses = self._jumps(count)
            chosen *= (self.steps - count + 1) / count
            sums = self.ramps.upper(points - values, count, chosen * masses, totals, _SHARE)
            totals = totals + sums * (1 + 1e-12)
        return np.asarray(totals + self.cost)

    def _jumps(self, count: int) -> tuple[Array, Array]:
        """Return the sum of so many jumps."""
        while len(self.several) < count:
            ratio = self.ratios[len(self.several) > 1]
            self.several.append(_together(self.several[-1], self.several[0], ratio))
        return self.several[count - 1]


@lru_cache(maxsize=16)
def _remembered(above: float, below: float, steps: int) -> _Summed:
    return _Summed.of(above, below, 0.0, steps)


def _poisson(expected: float, count: int) -> float:
    """Return a bound of the probability of at least `count` jumps among t."""
    return min(1.0, expected**count / math.factorial(count)) * (1 + 1e-9)


def _gathered(values: Array, masses: Array, ratio: float) -> tuple[Array, Array]:
    """Return the same measure on powers of a ratio, with its mean kept."""
    low, width = float(values.min()), math.log(ratio)
    count = max(1, math.ceil(math.log(float(values.max()) / low) / width + 1e-9))
    grid = low * np.exp(width * np.arange(count + 1.0))
    # An index that is off by rounding gives a share that is below zero or above one by as much: no mass is lost.
    index = np.clip((np.log(values / low) / width).astype(np.int64), 0, count - 1)
    share = np.clip((values - grid[index]) / (grid[index + 1] - grid[index]), 0.0, None)
    right = np.bincount(index + 1, masses * share, count + 1)
    left = np.bincount(index, masses * np.maximum(1 - share, 0.0), count + 1)
    return grid * (1 + 1e-12), np.asarray(left + right, dtype=np.float64)


def _together(first: tuple[Array, Array], second: tuple[Array, Array], ratio: float) -> tuple[Array, Array]:
    """Return the sum of two independent measures on powers of a ratio."""
    same = first is second
    first = _gathered(*first, ratio)
    second = first if same else _gathered(*second, ratio)
    sums = np.add.outer(first[0], second[0]).ravel()
    products = np.multiply.outer(first[1], second[1]).ravel()
    kept = products > 0  # what underflows is far less than what is added to the cost for its rounding
    kept[-1] = True
    return _gathered(sums[kept], products[kept], ratio)
