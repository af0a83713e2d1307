"""The privacy blanket of Gaussian noise on [0, 1]: δ(ε) = E[(W₁ + … + Wₙ)₊]/n for a W with lognormal tails.

With l ≥ 1 the ratio of the two densities, W is l − e^ε where 0 is the likelier value and 1 − e^ε·l where 1 is, with
ω(l > t) = Φ(−1/(2σ) − σ·ln t); elsewhere, with probability 1 − γ, it is 0. Three steps, all of them upwards
(docs/theory/blanket.md):

* W is moved to a lattice, each value to the two nearest positions with its mean kept. Far out the positions lie farther
  apart. That E[(W − c)₊] is then at least the true one is checked at every position, and a factor makes it true.
* W is capped far out, at a cost to δ of E[(W − cap)₊].
* One tilt does not serve both the many small W and a single large one. So the sum is taken apart by the number of
  jumps, the W beyond a level: none, one, two, three; and a bound for more.
"""

import math

import numpy as np
from numpy.typing import NDArray

from shoal.checks import SMALLEST_DELTA
from shoal.losses.lattice import LatticeDistribution
from shoal.rounding import UNIT, up

__all__ = ["gaussian_blanket"]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(6)
_BULK = 12
"""How many standard deviations of W have the finest positions."""
_SPACING = 128
"""Farther out, positions are at most this part of their distance from zero apart."""
_SPARSE = 64
"""And this part for the jumps, of which there are hardly ever two."""
_STEEPEST = 12.0
"""A mean this many deviations below zero is out of reach of all but jumps; no finer step would help."""
_JUMPS = 3
_STEEP = 10.0
"""A jump is a W of more than this over the tilt,"""
_RARELY = (1e-2, 1e-5)
"""and one that so seldom happens among n; the second if the first leaves too much to a rough bound."""
_SHARES = (1.0, 0.75, 0.5, 0.25, 0.0)


def _above(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probability that a standard normal variable exceeds each point; within 4 units."""
    return np.array([0.5 * math.erfc(point / math.sqrt(2)) for point in points.tolist()])


def _gaussian_spread(deviation: float) -> float:
    """Return the standard deviation of W at ε = 0, or a thousand if it is more."""
    above = _above(np.array([-1.5, -0.5, 0.5]) / deviation)
    # E[(l − 1)²] on one half: e^{1/σ²}·Φ(3/(2σ)) − 2Φ(1/(2σ)) + Φ(−1/(2σ)).
    half = math.exp(min(1 / deviation**2, 60.0)) * above[0] - 2 * above[1] + above[2]
    return math.sqrt(min(max(2 * half, 0.1 / deviation**2), 1e6))


def gaussian_blanket(deviation: float, reports: int, epsilon: float, *, fineness: float = 1.0) -> float:
    """Return an upper bound of δ(ε) for n shuffled reports; a `fineness` below one is faster and looser."""
    distribution, cap_cost, spread = _distribution(deviation, reports, epsilon, fineness)
    best = math.inf
    for rarely in _RARELY:
        value, rest = _by_jumps(distribution, reports, epsilon, spread, rarely)
        best = min(best, value)
        if rest <= 1e-5 * value:
            break
    return max((best + cap_cost) * (1 + 1e-11), SMALLEST_DELTA)


def _by_jumps(
    distribution: LatticeDistribution, reports: int, epsilon: float, spread: float, rarely: float
) -> tuple[float, float]:
    """Return E[(S)₊]/n from above, and how much of it is only a bound for many jumps."""
    copies = float(reports)
    root = spread * math.sqrt(copies)
    steepness = math.expm1(epsilon) * math.sqrt(copies) / spread  # how many deviations the mean lies below zero
    values, beyond = distribution.step * distribution.positions, np.cumsum(distribution.masses[::-1])[::-1] * copies
    level = max(_STEEP * root / (steepness + 2), float(values[np.argmax(beyond <= rarely)]))
    cut = int(np.searchsorted(values, level, side="right"))
    usual = LatticeDistribution(distribution.step, distribution.positions[:cut], distribution.masses[:cut])
    jumps = _sparser(LatticeDistribution(distribution.step, distribution.positions[cut:], distribution.masses[cut:]))

    # One tilt for every part of the way that a jump may save.
    transforms = []
    highest = min(steepness, 1.5 * _STEEP * root / level)
    for share in _SHARES if len(jumps.positions) else (1.0,):
        steep = share * highest
        tilt = 0.5 * (steep + math.sqrt(steep**2 + 8)) / root
        period = max((min(0.5 * steepness**2, 700.0) + 31) / tilt, 9 * root + 2 * level)
        transforms.append(usual.transform(tilt, period, max(1, reports - _JUMPS)))

    def excess(count: int, shifts: NDArray[np.int64]) -> NDArray[np.float64]:
        if count == 0:
            return np.asarray(-distribution.step * shifts)
        best = usual.roughly(count, shifts, tuple(-spread * 4.0**power for power in range(8)))
        for transform in transforms:
            best = np.fmin(best, transform.power(count).upper(shifts))
        return best

    total, ways, summed = float(excess(reports, np.zeros(1, dtype=np.int64))[0]), 1.0, jumps
    if not len(jumps.positions):
        return total / copies, 0.0
    for number in range(1, min(_JUMPS, reports) + 1):
        ways *= (copies - number + 1) / number
        total += ways * float((summed.masses * excess(reports - number, -summed.positions)).sum()) * (1 + 1e-12)
        # Masses too small for a double are lost; there are not many, and each is below 1e-323.
        total += ways * 1e-315 * float(summed.positions[-1]) * distribution.step
        if number < min(_JUMPS, reports):
            summed = _added(summed, jumps)
            if not len(summed.positions):
                break
    # More jumps than that: E[ΣW₊] on that event.
    often = copies * float(jumps.masses.sum()) * (1 + 1e-12)
    small = float((usual.masses * np.maximum(values[:cut], 0.0)).sum())
    large = float((jumps.masses * jumps.positions).sum()) * distribution.step
    more = often**_JUMPS / math.factorial(_JUMPS) * (large + small * often / (_JUMPS + 1))
    return total / copies + more, more


def _distribution(
    deviation: float, reports: int, epsilon: float, fineness: float
) -> tuple[LatticeDistribution, float, float]:
    """Return W on a lattice, what capping it adds to δ, and its standard deviation where it is not a jump."""
    growth = math.exp(epsilon)
    rough = min(_gaussian_spread(deviation), 2 * reports**0.25)  # few reports are about the bulk, not about the spread
    steepness = min(math.expm1(epsilon) * math.sqrt(reports) / rough, _STEEPEST)
    # Moving values adds at most step²/4 to the variance, on average step²/6; δ grows by half of that times steepness².
    step = rough * 0.02 / (2 + steepness) / fineness
    cap = _cap(deviation, growth)
    inner = _ladder(_BULK * rough, cap, step)
    outer = _ladder(_BULK * rough, cap * growth, step)
    positions = np.concatenate((-outer[::-1], [0], inner)).astype(np.int64)
    edges = np.asarray(positions * step, dtype=np.float64)
    masses = np.zeros(len(positions))
    top = 1 - growth  # where the two halves meet
    for half in (1, -1):
        lower = np.clip(edges[:-1], top, None) if half == 1 else np.clip(edges[:-1], None, top)
        upper = np.clip(edges[1:], top, None) if half == 1 else np.clip(edges[1:], None, top)
        middles, widths = (lower + upper) / 2, (upper - lower) / 2
        points = middles + np.multiply.outer(_NODES, widths)
        ratios = points + growth if half == 1 else (1 - points) / growth
        ratios = np.maximum(ratios, 1.0)
        densities = np.exp(-0.5 * (0.5 / deviation + deviation * np.log(ratios)) ** 2) / math.sqrt(2 * math.pi)
        densities *= deviation / ratios / (1.0 if half == 1 else growth)
        weights = _WEIGHTS[:, None] * widths * densities
        within = weights.sum(axis=0)
        right = (weights * (points - edges[:-1])).sum(axis=0) / np.diff(edges)
        masses[1:] += right
        masses[:-1] += np.maximum(within - right, 0.0)
    beyond = _tails(deviation, np.array([edges[-1] + growth, (1 - edges[0]) / growth]))[0]
    masses[-1] += beyond[0]
    masses[0] += beyond[1]
    masses[np.searchsorted(positions, 0)] += up(math.erf(0.5 / deviation / math.sqrt(2)), roundings=4)
    masses = _raised(masses, edges, deviation, growth)
    kept = masses > 0
    distribution = LatticeDistribution(step, positions[kept], masses[kept])
    bulk = np.abs(distribution.positions * step) <= _BULK * rough
    values = distribution.positions[bulk] * step
    spread = max(math.sqrt(float((distribution.masses[bulk] * values**2).sum())), 0.1 * rough)
    _, cost = _ends(deviation, growth, edges[-1:])
    return distribution, float(cost[0]) * (1 + 1e-9), spread


def _cap(deviation: float, growth: float) -> float:
    """Return a W beyond which hardly anything is, even against a tiny δ."""
    return math.exp(min(600.0, (0.5 / deviation + 12.5) / deviation)) + growth


def _ladder(fine: float, far: float, step: float) -> NDArray[np.int64]:
    """Return ascending multiples of the step, all of them up to `fine`, then ever sparser ones up to `far`."""
    positions = [np.arange(1, math.ceil(fine / step) + 1, dtype=np.int64)]
    last = int(positions[0][-1])
    limit = min(far / step, 2.0**60)
    while last < limit:
        gap = max(1, last // _SPACING)
        positions.append(last + gap * np.arange(1, _SPACING + 1, dtype=np.int64))
        last = int(positions[-1][-1])
    return np.concatenate(positions)


def _tails(deviation: float, ratios: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return ω(l > t) on one half, and the probability that the likelier value gives such an l."""
    logs = deviation * np.log(np.maximum(ratios, 1.0))
    return _above(0.5 / deviation + logs), _above(logs - 0.5 / deviation)


def _ends(
    deviation: float, growth: float, edges: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return upper bounds of E[(c − W)₊] for c ≤ 1 − e^ε and of E[(W − c)₊] for c ≥ 1 − e^ε, within their halves."""
    mass, mean = _tails(deviation, edges + growth)
    logs = np.log(np.maximum(edges + growth, 1.0))
    slack = 64 * UNIT * (1 + (0.5 / deviation + deviation * logs) ** 2)
    above = np.maximum(mean - (edges + growth) * mass, 0.0) + slack * mean
    mass, mean = _tails(deviation, (1 - edges) / growth)
    logs = np.log(np.maximum((1 - edges) / growth, 1.0))
    slack = 64 * UNIT * (1 + (0.5 / deviation + deviation * logs) ** 2)
    below = np.maximum(growth * mean - (1 - edges) * mass, 0.0) + slack * growth * mean
    return below, above


def _raised(
    masses: NDArray[np.float64], edges: NDArray[np.float64], deviation: float, growth: float
) -> NDArray[np.float64]:
    """Return the masses times factors ≥ 1 so that E[(W − c)₊] is at least the true one at every position c."""
    below, above = _ends(deviation, growth, edges)
    zero = up(math.erf(0.5 / deviation / math.sqrt(2)), roundings=4)
    top = 1 - growth
    # To the right of 1 − e^ε: the upper half alone, and the atom at zero. To the left: E[W] − c + E[(c − W)₊].
    wanted = np.where(edges >= top, above + zero * np.maximum(-edges, 0.0), up(top - edges, roundings=4) + below)
    tails = np.cumsum(masses[::-1])[::-1]
    reached = np.cumsum((np.diff(edges) * tails[1:])[::-1])[::-1]
    # E[(W − c)₊] rests on the masses beyond c: let each have the largest factor that any c before it needs.
    factors = np.maximum.accumulate(np.append(wanted[:-1] / np.maximum(reached, 1e-320), 1.0).clip(1.0, None))
    raised = masses * factors
    return raised * max(1.0, 1 / float(raised.sum())) * (1 + (len(edges) + 64) * UNIT)


def _added(one: LatticeDistribution, other: LatticeDistribution) -> LatticeDistribution:
    """Return the distribution of a sum, on sparse positions."""
    sums = np.add.outer(one.positions, other.positions).ravel()
    products = np.multiply.outer(one.masses, other.masses).ravel()
    return _sparser(LatticeDistribution(one.step, sums, products * (1 + 1e-13)))


def _sparser(distribution: LatticeDistribution) -> LatticeDistribution:
    """Return the distribution on sparse positions: each value moved to the two nearest, its mean kept."""
    if not len(distribution.positions):
        return distribution
    positions, last = [int(distribution.positions.min())], int(distribution.positions.max())
    while positions[-1] < last or len(positions) < 2:
        positions.append(positions[-1] + max(1, positions[-1] // _SPARSE))
    ladder = np.array(positions, dtype=np.int64)
    slots = np.clip(np.searchsorted(ladder, distribution.positions, side="right") - 1, 0, len(ladder) - 2)
    shares = (distribution.positions - ladder[slots]) / (ladder[slots + 1] - ladder[slots])
    masses = np.bincount(slots, distribution.masses * (1 - shares), len(ladder))
    masses = np.asarray(masses + np.bincount(slots + 1, distribution.masses * shares, len(ladder)), dtype=np.float64)
    kept = masses > 0
    return LatticeDistribution(
        distribution.step, ladder[kept], np.asarray(masses[kept] * (1 + 1e-13), dtype=np.float64)
    )
