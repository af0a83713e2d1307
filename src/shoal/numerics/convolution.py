"""δ(ε) of many rounds: privacy losses add up (docs/theory/composition.md, sections 2 and 5).

The losses lie on multiples of a step h. The sum over nodes of `lattice` with the hockey-stick
kernel is an upper bound of δ at every grid point, for every tilt θ and number of nodes N; less a
bound of the aliases it is a lower bound. This module chooses θ, N and the step, and searches for
the ε that belongs to a δ.
"""

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shoal.arrays import Array, IntArray
from shoal.numerics.lattice import (
    MOST_NODES,
    LatticeMeasure,
    NodeSum,
    clear_period,
    hockey_stick,
    node_sum,
)
from shoal.numerics.profile_grid import DeltaGrid, dominated, dominating
from shoal.rounding import LARGEST_POWER, down, up
from shoal.searches import lowest

_MANY_NODES = 1 << 17
"""For more nodes the lattice is made coarser, which is faster, as far as `_RESOLVED` allows."""
_RESOLVED = 5e-5
"""By how much ε may grow, relatively, on a coarser lattice: less would need more nodes."""
_BELOW = 6.0
"""How many standard deviations below the mean of all losses the ε in question may be, at most."""
_STRIDE = 16
"""Steps in search of ε are at most this part of it, as bounds are only good near their aim."""
_TABULATED = 32
"""If more than this part of the nodes is kept, a table is faster than a sum for each point."""
_MOVED = 0.02
"""The slope of log δ is taken between ε and (1 + this)·ε: nearer, rounding shows."""


@dataclass(frozen=True)
class TiltedSum:
    """Bounds of δ at grid points from one tilt.

    `infinite` bounds the probability that some round has infinite loss, and `greatest` is the
    largest loss of all rounds together, on the grid. `above` are pairs (τ, κ) with δ(x) ≤ exp(κ −
    τ·x) and τ > θ, which bound the aliases on the far side.
    """

    sums: NodeSum
    infinite: float
    above: tuple[tuple[float, float], ...]
    greatest: int

    @property
    def step(self) -> float:
        """The distance h of grid points."""
        return self.sums.step

    def upper(self, index: int) -> float:
        """Return an upper bound of δ at the grid point `index`."""
        at = np.array([index])
        (bound,) = self.sums.upper(at, self._at(at)).tolist()
        return float(bound) + self.infinite

    def lower(self, index: int) -> float:
        """Return a lower bound of δ at the grid point `index`."""
        at = np.array([index])
        (bound,) = self.sums.lower(at, self._at(at)).tolist()
        return max(0.0, float(bound) - self._aliases(index))

    def between(self, epsilon: float) -> float:
        """Return an upper bound of δ at any ε: between two grid points δ is linear in e^ε."""
        # λ = (e^{ε − jh} − 1)/(e^h − 1), rounded down: δ falls, so that less of λ is safe.
        index = math.floor(epsilon / self.step)
        past = max(down(epsilon, roundings=4) - index * self.step, 0.0)
        share = down(min(1.0, math.expm1(past) / math.expm1(self.step)), roundings=16)
        first = (1 - share) * self.upper(index)
        second = share * self.upper(index + 1)
        return up(first + second, roundings=8)

    def steepness(self, epsilon: float) -> float:
        """Return about −d log δ/dε at ε, which is the tilt of a sum without heavy tails."""
        index = max(0, math.floor(epsilon / self.step))
        move = math.ceil(_MOVED * (index + 1))
        near = self.upper(index)
        far = self.upper(index + move)
        if not near > far > 0:
            return self.sums.tilt
        return math.log(near / far) / (move * self.step)

    def _at(self, indices: IntArray) -> Array:
        if _TABULATED * len(self.sums.places) > self.sums.nodes:
            return self._table[indices % self.sums.nodes]
        return self.sums.sums(indices)

    @cached_property
    def _table(self) -> Array:
        return self.sums.table(1)

    def _aliases(self, index: int) -> float:
        """Return a bound of the terms l ≠ 0 of (9), over e^{θjh}."""
        tilt = self.sums.tilt
        period = self.sums.nodes * self.step
        # Below, δ ≤ 1: a geometric series.
        below = math.exp(-tilt * period) / -math.expm1(-tilt * period)
        if index + self.sums.nodes >= self.greatest:
            return 1.001 * below
        # Above, δ ≤ exp(κ − τx) (10): another one, for the best τ.
        beyond = math.inf
        for steeper, log_moment in self.above:
            exponent = log_moment - steeper * (index * self.step + period) + tilt * period
            first = math.exp(min(exponent, LARGEST_POWER))
            beyond = min(beyond, first / -math.expm1((tilt - steeper) * period))
        return 1.001 * (below + beyond)


class Convolution:
    """The sum of the losses of many rounds, each with its multiplicity; all of them on the same grid.

    With `from_above` only upper bounds are asked for, which a coarser lattice has, too.
    """

    def __init__(
        self,
        rounds: Iterable[tuple[LatticeMeasure, int]],
        *,
        from_above: bool = False,
    ) -> None:
        self.rounds = tuple(rounds)
        self.from_above = from_above
        self.step = self.rounds[0][0].step
        self.times = sum(times for _, times in self.rounds)
        squares = sum(times * losses.mean_square for losses, times in self.rounds)
        self.spread = math.sqrt(squares) + self.step
        self.mean = sum(times * losses.mean for losses, times in self.rounds)
        self.greatest = sum(times * losses.reach for losses, times in self.rounds)
        # No exponential of a tilt times a loss overflows.
        reach = 1 + max(losses.reach for losses, _ in self.rounds)
        self._steepest = LARGEST_POWER / (self.step * reach)
        self._longest = math.inf
        self._last: tuple[float, TiltedSum, float] | None = None
        # (7): some round is infinite. The masses of a round may sum to slightly more than one.
        excess = sum(times * max(0.0, losses.total - 1) for losses, times in self.rounds)
        shares = sum(times * losses.infinite for losses, times in self.rounds)
        self.infinite = math.inf
        if excess < LARGEST_POWER:
            self.infinite = shares * math.exp(excess) * (1 + 1e-12)

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded up; it may be more than 1."""
        tilted = self.aimed_at_epsilon(epsilon)
        if not self._followed(tilted, epsilon):
            return self.delta(epsilon)
        return tilted.between(epsilon)

    def epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded up."""
        tilted, guess = self.aimed_at_delta(delta)
        tilt = tilted.sums.tilt
        epsilon = crossing(tilted.upper, delta, guess, tilted.step, tilt=tilt)
        if math.isfinite(epsilon) and not self._followed(tilted, epsilon):
            return self.epsilon(delta)
        # (4.1) of docs/theory/numerics.md: two functions within 4 units each, and four roundings.
        return up(epsilon, roundings=16)

    def least_epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded down; zero where no lower bound of δ is known."""
        if self.greatest == 0:
            return 0.0
        tilted, guess = self.aimed_at_delta(delta)
        tilt = tilted.sums.tilt
        epsilon = crossing(tilted.lower, delta, guess, tilted.step, tilt=tilt)
        return down(epsilon, roundings=16) if math.isfinite(epsilon) else 0.0

    def steepness(self, epsilon: float, delta: float) -> float:
        """Return about −d log δ/dε at ε = ε(δ)."""
        return self.aimed_at_delta(delta)[0].steepness(epsilon)

    def log_moment(self, tilt: float) -> float:
        """Return the logarithm of E[e^{θL}] over the finite losses of all rounds."""
        return sum(times * losses.log_moment(tilt) for losses, times in self.rounds)

    def tilt_at_delta(self, delta: float) -> tuple[float, float]:
        """Return the tilt that is best where δ(ε) is near `delta`, and a rough ε there."""

        def epsilon(log_tilt: float) -> float:
            # (10): δ(ε) is at most about φ(θ)·e^−θε/(1 + θ), solved for ε.
            tilt = math.exp(log_tilt)
            log_bound = self.log_moment(tilt) - math.log1p(tilt)
            return (log_bound - math.log(delta)) / tilt

        log_tilt = self._least(epsilon)
        return math.exp(log_tilt), max(0.0, epsilon(log_tilt))

    def tilt_at_epsilon(self, epsilon: float) -> tuple[float, float]:
        """Return the tilt that is best near `epsilon`, and a rough −log δ there."""

        def log_delta(log_tilt: float) -> float:
            # The first node of (9): φ(θ)·κ(θ)·e^−θε, κ(θ) = 1/(θ(1 + θ)) for short steps.
            tilt = math.exp(log_tilt)
            log_kernel = -log_tilt - math.log1p(tilt)
            return self.log_moment(tilt) - tilt * epsilon + log_kernel

        log_tilt = self._least(log_delta)
        return math.exp(log_tilt), -log_delta(log_tilt)

    def _least(self, exponent: Callable[[float], float]) -> float:
        """Return the logarithm of the tilt at which the exponent is least, roughly."""
        # Losses are nearly normal as a rule: δ near 1e-2 has a tilt of some three over the spread.
        middle = math.log(3 / self.spread)
        highest = math.log(self._steepest)
        low = min(middle, highest) - 8
        return lowest(exponent, low, min(middle + 8, highest), within=0.02)

    def aimed_at_delta(self, delta: float) -> tuple[TiltedSum, float]:
        """Return a sum that is accurate where δ(ε) is near `delta`, and a rough ε there."""
        if self._last is None or self._last[0] != delta:
            tilt, guess = self.tilt_at_delta(delta)
            tilted = self._aimed(tilt, -math.log(delta), guess)
            self._last = delta, tilted, guess
        return self._last[1:]

    def aimed_at_epsilon(self, epsilon: float) -> TiltedSum:
        """Return a sum that is accurate near `epsilon`."""
        tilt, minus_log_delta = self.tilt_at_epsilon(epsilon)
        return self._aimed(tilt, 5 + minus_log_delta, epsilon)

    def _followed(self, tilted: TiltedSum, epsilon: float) -> bool:
        """Return whether ε is barely larger on the lattice of this sum; if not, the next is finer.

        Rare large losses let a tilt be less than −d log δ/dε.
        """
        if tilted.step == self.step:
            return True
        longest = self._longest_step(tilted.steepness(epsilon), epsilon)
        if tilted.step <= 1.5 * longest:
            return True
        self._longest = longest
        self._last = None
        return False

    def _longest_step(self, steepness: float, epsilon: float) -> float:
        """Return the step h with Th²/8·(1 + steepness) = `_RESOLVED`·ε, the growth of ε."""
        growth = _RESOLVED * max(epsilon, self.step)
        return math.sqrt(8 * growth / ((1 + steepness) * self.times))

    def _aimed(self, tilt: float, minus_log_delta: float, epsilon: float) -> TiltedSum:
        """Return the sum with enough nodes that no alias counts near ε, where δ is about this."""
        ratios = 1 + 0.1 * 2.0 ** np.arange(8)
        tilts = np.minimum(tilt * ratios, self._steepest).tolist()
        above = tuple((t, self.log_moment(t)) for t in tilts if t > tilt)
        # Rare large losses make the guess too large, but ε is not much less than the mean.
        nearest = max(epsilon / 8, min(self.mean - _BELOW * self.spread, epsilon))
        log_delta = min(-minus_log_delta, -1.0)
        below, beyond = clear_period(tilt, (log_delta, log_delta), nearest, above)
        # Nothing is above the largest loss.
        period = max(below, min(beyond, self.greatest * self.step))
        octaves = max(6, math.ceil(math.log2(period / self.step)))
        nodes = min(1 << octaves, MOST_NODES)
        longest = min(self._longest_step(tilt, epsilon), self._longest)
        allowed = math.floor(math.log2(longest / self.step))
        halvings = min(allowed, math.ceil(math.log2(nodes / _MANY_NODES)))
        if self.from_above and halvings > 0:
            coarser = [(_coarsened(losses, halvings), times) for losses, times in self.rounds]
            return Convolution(coarser)._aimed(tilt, minus_log_delta, epsilon)
        sums = node_sum(self.rounds, tilt, nodes, hockey_stick(self.step))
        return TiltedSum(sums, self.infinite, above, self.greatest)


def _coarsened(losses: LatticeMeasure, halvings: int) -> LatticeMeasure:
    """Return losses on a lattice with 2^halvings times the step, with at least the same H.

    A mass goes to the two points next to it with the mean of e^−L kept (section 5, a coarser
    lattice): H(t) is the mean of (1 − t·e^−L)₊, which is convex in e^−L.
    """
    width = losses.step * (1 << halvings)
    past = losses.positions - ((losses.positions >> halvings) << halvings)
    distances = losses.step * past
    whole = math.expm1(-width)
    right = np.expm1(-distances) / whole
    left = np.exp(-distances) * np.expm1(distances - width) / whole
    return losses.split(halvings, losses.masses * left, losses.masses * right, roundings=32)


@dataclass(frozen=True, eq=False)
class SummedLosses:
    """A sum of losses that is at least that of all rounds, each with its multiplicity, and one that is at most that."""

    rounds: tuple[tuple[DeltaGrid, int], ...]

    @cached_property
    def above(self) -> Convolution:
        """The sum from above."""
        losses = [(dominating(grid), times) for grid, times in self.rounds]
        return Convolution(losses, from_above=True)

    @cached_property
    def below(self) -> Convolution:
        """The sum from below, which only a bracket needs."""
        return Convolution([(dominated(grid), times) for grid, times in self.rounds])


def crossing(
    bound: Callable[[int], float],
    delta: float,
    guess: float,
    step: float,
    *,
    tilt: float,
) -> float:
    """Return the ε where the bound, linear in e^ε between grid points, falls to δ.

    The logarithm of the bound falls about as fast as the tilt says, so that few steps and secants
    lead to the two grid points next to ε. Steps go from the guess into one direction, since bounds
    are useless far from their aim.
    """
    # Where the bound exceeds δ, and where it does not, if that is known.
    low = -1
    high = math.inf
    above = math.inf
    below = 0.0
    index = max(1, math.ceil(guess / step))
    for tries in itertools.count():
        value = bound(index)
        if value <= delta:
            high = index
            below = value
        else:
            low = index
            above = value
        if high == 0:
            return 0.0
        if high - low == 1 and low >= 0:
            break
        if low < 0 or high == math.inf:
            if index * step > 2e3 + 10 * guess and low >= 0:
                return math.inf
            move = 1 << tries
            if 0 < value < math.inf:
                predicted = abs(math.log(value / delta)) / (tilt * step) + 1
                move = math.ceil(min(predicted, max(index // _STRIDE, move)))
            index = max(0, index - move) if low < 0 else index + move
        else:
            index = (low + int(high)) // 2
            if tries % 4 and 0 < below < above < math.inf:
                # A point next to the secant's crossing is a new end; next time, the other one.
                share = math.log(above / delta) / math.log(above / below)
                secant = low + math.ceil(share * (high - low)) - tries % 2
                index = min(max(secant, low + 1), int(high) - 1)
    # Linear in e^ε between the two grid points.
    share = (above - delta) / (above - below) if above < math.inf else 1.0
    return low * step + math.log1p(share * math.expm1(step))
