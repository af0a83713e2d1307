"""δ(ε) of allocation: one epoch of t steps, of which an example joins one at random.

With X₀ = exp(aZ − a²/2), X₁ = exp(−bZ − b²/2), Z standard normal, and V = X₀ − e^ε·X₁,
δ(ε) = E[(V₁ + … + V_t)₊]/t (docs/theory/samplers.md, sections 2 and 5). All steps go upwards:
U = V + c is moved to a lattice with its mean kept; values above a level are jumps; and the sum is
taken apart by the number of jumps, so that a tilt need only serve the rest. With little noise,
closed forms (Lemma W) are often smaller.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.checks import SMALLEST_DELTA
from shoal.numerics.lattice import LARGEST_POSITION, LatticeMeasure, RampSums
from shoal.numerics.normal import (
    EXACT,
    OUTWEIGH,
    cell_masses,
    gaussian_delta,
    mean_kept,
    quantile,
    ratio_points,
    upper_tail,
)
from shoal.rounding import UNIT, slack

__all__ = ["LITTLE_NOISE", "allocated_delta", "allocated_floor"]

TAIL = 9.4
"""Beyond a + 9.4 the victim is given up: this costs Φ(−9.4) < 3e-21; more needs a wider lattice."""
LITTLE_NOISE = 2.5
"""From this a on one step outweighs many: Lemma W is asked, and any number of steps counts as few."""
_NO_JUMPS = 0.4
"""Up to this a there are no jumps, because one tilt serves all of V; more would need more nodes."""
_FEW = 64
"""Up to this many steps a sum is large because each V is near zero: the lattice is finest there."""
_RARELY = 0.01
"""The expected number of jumps among t: fewer need more nodes, more of them longer lists."""
_PER_JUMP = 0.006
"""Jumps are at powers of e^0.006a: δ grows by up to 1e-4 of itself; fewer jumps are faster."""
_GATHERED = 1.05
"""Sums of jumps are at powers of this ratio: δ grows by up to 1e-3 of itself; lists stay short."""
_MOST_JUMPS = 12
"""From this number of jumps on, a simpler bound is charged; so many are hardly ever expected."""
_LARGEST_LOG = 200.0
"""The logarithm of the largest X: beyond, rounding is all that is left, and squares may overflow."""
_SHARE = 1e-4
"""The part of δ that may be charged instead of being computed: less would take longer."""
_CLOSE = 1e-3
"""A closed form this close to a lower bound, relatively, cannot be improved by a lattice."""
_CELLS = 1000
"""Cells of the noise of the example's own step; twice as many change δ by less than 1e-3."""

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]


def allocated_delta(above: float, below: float, steps: int, epsilons: Array) -> Array:
    """Return upper bounds of δ at each ε ≥ 0 for a = above, b = below: equal, or one of them 0; steps ≥ 2."""
    separation = max(above, below)
    if above and below and steps == 2:  # exactly one Gaussian mechanism, of mean difference √2·a
        sigma = 1 / (math.sqrt(2) * separation) * (1 - slack(8))
        return np.array([gaussian_delta(sigma, epsilon) for epsilon in epsilons.tolist()])
    result = np.ones(len(epsilons))
    log_values = separation * (separation / 2 + TAIL) + epsilons * bool(above and below)
    asked = log_values <= _LARGEST_LOG
    if separation > LITTLE_NOISE:
        pairs = [little_noise(above, below, steps, epsilon) for epsilon in epsilons.tolist()]
        result = np.array([min(upper, 1.0) for upper, _ in pairs])
        asked &= np.array([upper > lower * (1 + _CLOSE) for upper, lower in pairs])
    if asked.any():
        lattice = lattice_delta(above, below, steps, epsilons[asked])
        result[asked] = np.minimum(result[asked], lattice)
    return np.maximum(result, SMALLEST_DELTA)  # a δ that underflows is not zero


def allocated_floor(above: float, below: float) -> float:
    """Return the least bound of δ for any ε: the victim's tail that is given up."""
    return upper_tail(max(above, below) + TAIL - above)


def lattice_delta(above: float, below: float, steps: int, epsilons: Array) -> Array:
    """Return upper bounds of δ at each ε by a lattice, where no square overflows."""
    if above and below:  # every ε has a lattice
        lattices = [_AllocatedSum(above, below, epsilon, steps) for epsilon in epsilons.tolist()]
        sums = np.array([lattice.at_constant() for lattice in lattices])
    elif above:  # ΣV = ΣU − t·(e^ε − 1), U = X₀ − 1
        sums = _remembered(above, below, steps).upper(steps * np.expm1(epsilons))
    else:  # ΣV = e^ε·(ΣU − x), U = 1 − X₁ and x = t·(1 − e^−ε), or U = −X₁ and x = −t·e^−ε
        shared = _remembered(above, below, steps)
        points = -np.exp(-epsilons) if shared.constant else -np.expm1(-epsilons)
        sums = shared.upper(steps * points) * np.exp(epsilons)
    return np.clip(sums / steps * (1 + 1e-12), SMALLEST_DELTA, 1.0)


def _value(point: float, ratio: tuple[float, float, float]) -> float:
    """Return V at Z = point, for a ratio (a, b, e^ε)."""
    above, below, exp_eps = ratio
    return math.exp(above * point - above**2 / 2) - exp_eps * math.exp(-below * point - below**2 / 2)


def _moved(values: Array, ratio: tuple[float, float, float], constant: float, lowest: float, highest: float) -> Array:
    """Return masses of U = V + constant at the values, with its mean kept if `lowest` ≤ Z ≤ `highest`.

    Below, U is raised. Above, V is given up: it is 0, or as much more as makes U one of the values.
    """
    points = np.clip(ratio_points(values - constant, ratio), lowest, highest)
    points[-1] = highest
    pmf = mean_kept(values, points, ratio, constant)
    first = float(points[0])
    pmf[int(np.searchsorted(values, _value(first, ratio) + constant))] += upper_tail(-first)
    given_up = int(np.searchsorted(values, constant))
    pmf[min(given_up, len(values) - 1)] += upper_tail(highest)
    return pmf


def _positions(step: float, last: int, bits: int, least: float, largest: float) -> IntArray:
    """Return positions from `least` to `largest`, or a little beyond, and zero.

    Up to `last` all are there; far out they are multiples of powers of two, as on coarser lattices.
    """
    side = _whole_side(last, bits)
    ends = (min(max(math.ceil(end / step), 1), LARGEST_POSITION) for end in (-least, largest))
    left, right = (side[: int(np.searchsorted(side, end)) + 1] for end in ends)
    return np.concatenate((-left[::-1], [0], right))


@lru_cache(maxsize=16)
def _whole_side(last: int, bits: int) -> IntArray:
    """Return the positions of one side: with `bits` binary digits after the first, from `last` on."""
    side = list(range(1, last + 1))
    while side[-1] < LARGEST_POSITION:
        gap = 1 << max(side[-1].bit_length() - 1 - bits, 0)
        side.append((side[-1] // gap + 1) * gap)
    return np.array(side)


class _Lattice(NamedTuple):
    """Positions for U = V + constant if Z > `lowest`: multiples of a step, and then jumps up to the largest."""

    step: float
    positions: IntArray
    largest: float
    constant: float
    lowest: float


def _lattice(ratio: tuple[float, float, float], steps: int) -> _Lattice:
    """Return a lattice that is fine where the sum is decided; every choice is valid."""
    above, below, exp_eps = ratio
    separation = max(above, below)
    highest = separation + TAIL
    few = separation > _NO_JUMPS and (separation > LITTLE_NOISE or steps <= _FEW)
    if few and not above:
        return _few_added(separation, steps)
    if few and below:
        # Each V is about as large as the sum, so that the lattice is fine around zero.
        constant = 0.0
        fineness = 64 if separation < 2 else 32
        last = 8 * fineness
        step = _typical(separation, exp_eps, steps) / fineness
        level = max(_value(-quantile(_RARELY / steps), ratio), 16 * fineness * step)
    else:
        # The sum is as large as its standard deviation: the lattice is fine around the mean.
        constant = exp_eps - 1
        fineness = 64 if steps > _FEW else 192
        last = 512 if steps > _FEW else 3072
        level, deviation = _level(ratio, steps)
        step = deviation / fineness
    least = _value(-highest, ratio) + constant
    largest = _value(highest, ratio) + constant
    if separation <= _NO_JUMPS:
        level = largest
    # A lattice that serves every ε may take longer than that of a single one.
    bits = 5 if above and below else 7
    positions = _positions(step, last, bits, least, min(level, largest))
    return _Lattice(step, positions, largest, constant, -highest)


def _few_added(separation: float, steps: int) -> _Lattice:
    """Return a lattice of −X₁ up to zero: all of them are small, and one above t is of no use."""
    # A sum counts if it is below t·e^−ε, which is less likely than e^−55 for a smaller typical X₁.
    rarely = quantile(math.exp(-55.0 / steps))
    step = math.exp(min(separation * rarely - separation**2 / 2, 0.0)) / steps / 32
    largest = 1.01 * steps
    bits = 7 + max(0, math.ceil(-math.log2(separation)))
    positions = _positions(step, 128, bits, -largest, 0.0)
    lowest = -(math.log(largest) + separation**2 / 2) / separation
    return _Lattice(step, positions[:-1], 0.0, -1.0, max(lowest, -separation - TAIL))


def _typical(separation: float, exp_eps: float, steps: int) -> float:
    """Return about the size of each −V where the sum of few is positive and as likely as possible."""
    middle = math.log(exp_eps) / (2 * separation)
    point = ((steps - 2) * middle - math.log(steps - 1) / separation) / steps
    shape = math.sinh(max(separation * point, 0.5))
    return 2 * math.sqrt(exp_eps) * math.exp(-(separation**2) / 2) * shape


def _level(ratio: tuple[float, float, float], steps: int) -> tuple[float, float]:
    """Return from where on V + e^ε − 1 is a jump, and the standard deviation of what is not."""
    above, below, exp_eps = ratio
    highest = max(above, below) + TAIL
    z = np.linspace(-highest, highest, 800)
    w = np.expm1(above * z - above**2 / 2) - exp_eps * np.expm1(-below * z - below**2 / 2)
    density = np.exp(-0.5 * z**2) * (z[1] - z[0]) / math.sqrt(2 * math.pi)
    start = min(-quantile(min(_RARELY / steps, 0.4)), highest)
    level = _value(start, ratio) + exp_eps - 1
    deviation = level
    for _ in range(2):
        # The tilt of the sum also serves values that are below its deviation.
        bulk = np.abs(w) <= level
        deviation = math.sqrt(float((density * w**2)[bulk].sum()) + 1e-300)
        level = max(level, math.sqrt(steps) * deviation)
    return level, deviation


class _AllocatedSum:
    """Upper bounds of E[(U₁ + … + U_t − x)₊] for any x."""

    def __init__(self, above: float, below: float, epsilon: float, steps: int) -> None:
        ratio = (above * (1 + OUTWEIGH), below * (1 + OUTWEIGH), math.exp(epsilon))
        at = _lattice(ratio, steps)
        self.steps = steps
        self.constant = at.constant
        separation = max(ratio[:2])
        highest = separation + TAIL
        bulk = len(at.positions)
        values = np.asarray(at.step * at.positions, dtype=np.float64)
        first = float(values[-1])
        if first < at.largest:
            count = max(math.ceil(math.log(at.largest / first) / (_PER_JUMP * separation)), 1)
            jumps = first * np.exp(_PER_JUMP * separation * np.arange(1.0, count + 1))
            values = np.concatenate((values, jumps))
        pmf = _moved(values, ratio, at.constant, at.lowest, highest)
        # What the victim loses above, and how much less V is than 0 where it is given up.
        lowered = max(0.0, at.constant - float(values[-1])) * upper_tail(highest)
        self.cost = steps * (upper_tail(highest - ratio[0]) + lowered) * (1 + 1e-9)
        # The mean of all copies together may be wrong by this.
        self.abs_error = 16 * UNIT * steps * (1 + ratio[2])
        kept = pmf[:bulk] > 0
        measure = LatticeMeasure(at.step, at.positions[kept], np.log(pmf[:bulk][kept]))
        self.ramps = RampSums(measure, steps)
        self.jumps = [(values[bulk:], pmf[bulk:])]
        self.expected = steps * float(pmf[bulk:].sum()) * (1 + 1e-9)
        # E[V₊] of jumps and of all others.
        gains = pmf * np.maximum(values - at.constant + 2 * self.abs_error / steps, 0.0) * (1 + 1e-9)
        self.gain_of_jumps = float(gains[bulk:].sum())
        self.gain_of_others = float(gains[:bulk].sum())

    def upper(self, points: Array) -> Array:
        """Return upper bounds of E[(U₁ + … + U_t − x)₊] at each x ≥ tc."""
        points = (points - self.abs_error - 8 * UNIT * np.abs(points)).reshape(-1, 1)
        # About one jump alone, so that no more digits are computed than that leaves visible.
        values, masses = self.jumps[0]
        known = self.steps * (self.ramps.least(points - values, self.steps - 1) @ masses)
        totals = self._ramp(points, self.steps, np.ones(1), known)
        # The sum over the number k of jumps: R_{t−k} at x less their sum, in (t choose k) ways.
        ways = 1.0
        for count in range(1, min(_MOST_JUMPS, self.steps) + 1):
            if not self.expected:
                break
            rest = self._rest(count)
            if count == _MOST_JUMPS or np.all(rest <= _SHARE * totals):
                totals = totals + rest
                break
            values, masses = self._jumps(count)
            ways *= (self.steps - count + 1) / count
            sums = self._ramp(points - values, self.steps - count, ways * masses, totals)
            totals = totals + sums * (1 + 1e-12)
        return np.asarray(totals + self.cost)

    def _ramp(self, points: Array, copies: int, masses: Array, known: Array) -> Array:
        """Return the masses of the columns times E[(U₁ + … − x)₊], where some of the sum is known."""
        least = known + self.ramps.least(points, copies) @ masses
        allowed = (_SHARE * least + 1e-250) / len(masses)
        with np.errstate(over="ignore"):
            errors = np.multiply.outer(allowed, 1 / np.maximum(masses, 1e-300))
        bounds = self.ramps.upper(points.ravel(), copies, errors.ravel())
        return np.asarray(bounds.reshape(points.shape) @ masses)

    def at_constant(self) -> float:
        """Return an upper bound of E[(V₁ + … + V_t)₊]."""
        return float(self.upper(np.array([self.steps * self.constant]))[0])

    def _rest(self, count: int) -> float:
        """Return a bound for this many jumps or more: (ΣU − x)₊ ≤ Σ(U − x/t)₊, and x/t ≥ c."""

        def likely(jumps: int) -> float:
            return min(1.0, self.expected**jumps / math.factorial(jumps)) * (1 + 1e-9)

        own = self.gain_of_jumps * likely(count - 1)
        return self.steps * (own + self.gain_of_others * likely(count))

    def _jumps(self, count: int) -> tuple[Array, Array]:
        """Return the sums of this many jumps, and their masses."""
        while len(self.jumps) < count:
            before, before_masses = _gathered(*self.jumps[-1])
            one, one_masses = _gathered(*self.jumps[0])
            sums = np.add.outer(before, one).ravel()
            products = np.multiply.outer(before_masses, one_masses).ravel()
            kept = products > 0  # what underflows is far less than what is added for rounding
            kept[-1] = True
            self.jumps.append(_gathered(sums[kept], products[kept]))
        return self.jumps[count - 1]


def _gathered(values: Array, masses: Array) -> tuple[Array, Array]:
    """Return the same measure on powers of a ratio, with its mean kept."""
    low = float(values.min())
    width = math.log(_GATHERED)
    count = max(1, math.ceil(math.log(float(values.max()) / low) / width + 1e-9))
    grid = low * np.exp(width * np.arange(count + 1.0))
    # An index that is wrong by rounding gives a share that is below 0 or above 1 by as much.
    index = np.clip((np.log(values / low) / width).astype(np.int64), 0, count - 1)
    share = np.maximum((values - grid[index]) / (grid[index + 1] - grid[index]), 0.0)
    right = np.bincount(index + 1, masses * share, count + 1)
    left = np.bincount(index, masses * np.maximum(1 - share, 0.0), count + 1)
    return grid * (1 + 1e-12), np.asarray(left + right, dtype=np.float64)


@lru_cache(maxsize=16)
def _remembered(above: float, below: float, steps: int) -> _AllocatedSum:
    return _AllocatedSum(above, below, 0.0, steps)


def little_noise(above: float, below: float, steps: int, epsilon: float) -> tuple[float, float]:
    """Return an upper bound of δ(ε) by Lemma W, and a lower bound, or 0 where none is known."""
    separation = max(above, below)
    log_steps = math.log(steps)
    if not above:  # G(ε − ln t)^t
        point = epsilon - log_steps - slack(8) * (epsilon + log_steps)
        return _single(separation, point) ** steps * (1 + slack(64)), 0.0
    if below:  # E[G(ε − ln(Y + s))^(t − 1)] + τ
        about = _mixed(separation, steps, epsilon, -math.inf)
        log_sum, error, charge = _others(separation, steps, about)
        return _mixed(separation, steps, epsilon, log_sum + error) + charge, 0.0
    level = log_steps + epsilon  # G(ln(tλ − s)) + τ, and G(ln(tλ)) is a lower bound
    least = _single(separation, level)
    log_sum, error, charge = _others(separation, steps, least)
    log_part = log_sum - level + error + slack(16) * (1 + level)
    part = math.exp(min(log_part, 0.0))
    if part >= 1:
        return 1.0, least
    point = level + math.log1p(-part) - slack(16) * (1 + level)
    return _single(separation, point) + charge, least


def _others(separation: float, steps: int, about: float) -> tuple[float, float, float]:
    """Return ln s for s = (t − 1)·K, K = exp(aν − a²/2), its error, and τ = (t − 1)·Φ(−ν).

    The X of all other steps exceed s with a probability of at most τ. Every ν is valid; it is chosen for τ
    to be a small part of δ, which is `about` this.
    """
    rare = min(max(_SHARE * about / (steps - 1), 1e-300), 0.5)
    reach = -quantile(rare)
    charge = (steps - 1) * upper_tail(reach) * (1 + 1e-12)
    log_count = math.log(steps - 1)
    log_sum = log_count + separation * reach - separation**2 / 2
    size = log_count + separation * reach + separation**2 / 2
    return log_sum, slack(16) * size, charge


def _mixed(separation: float, steps: int, epsilon: float, log_others: float) -> float:
    """Return an upper bound of E[G(ε − ln(Y + s))^(t − 1)], with s = exp(log_others)."""
    cells, masses, shares = _cells(separation)
    logs = np.logaddexp(cells, log_others)
    # G falls, so its argument is rounded down.
    points = epsilon - logs - slack(32) * (epsilon + np.abs(cells) + separation**2 + np.abs(logs))
    values = np.array([_single(separation, point) for point in points.tolist()]) ** (steps - 1)
    # The values rise with Y and are convex in 1/Y: in every cell they are at most their chord.
    inside = masses @ (values[:-1] + shares * np.maximum(np.diff(values), 0.0))
    return float(inside + upper_tail(TAIL) * (values[0] + 1)) * (1 + 1e-9)


@lru_cache(maxsize=16)
def _cells(separation: float) -> tuple[Array, Array, Array]:
    """Return ln Y = aN + a²/2 at the ends of cells of the noise N, their masses, and shares of upper ends.

    The share of a cell that goes to its upper end keeps the mean of 1/Y, and is rounded up.
    """
    points = np.linspace(-TAIL, TAIL, _CELLS + 1)
    masses = cell_masses(points)
    # 1/Y = exp(−aN − a²/2) has the mean Φ(u + a) − Φ(l + a) in a cell from l to u, here over 1/Y at l.
    with np.errstate(over="ignore", invalid="ignore"):
        at_lower = np.exp(separation * points[:-1] + separation**2 / 2)
        means = cell_masses(points + separation) / masses * at_lower
        shares = (1 - means) / -np.expm1(-separation * np.diff(points)) + 1e-9
    # Where a tail may be subnormal, all of the cell counts as its upper end.
    shares = np.where(points[1:] + separation < EXACT, np.clip(shares, 0.0, 1.0), 1.0)
    return separation * points + separation**2 / 2, masses, shares


def _single(separation: float, point: float) -> float:
    """Return G(point) = E(1 − e^point·X)₊, rounded up: G(−y) = 1 − e^−y + e^−y·G(y)."""
    size = abs(point)
    known = gaussian_delta(1 / separation, size)
    if point >= 0:
        return known
    return min(1.0, (-math.expm1(-size) + math.exp(-size) * known) * (1 + 8 * UNIT))
