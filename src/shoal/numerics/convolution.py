"""δ(ε) of many rounds: the losses of the rounds add up.

The sum of lattice losses has, at a tilt θ and the N nodes s = θ + 2πik/(Nh), the transform Π φ(s)^T, φ being that of
one round; and κ(s) = Σ_{m ≥ 1} (1 − e^−mh)·e^−smh is known in closed form. So

    (1/N) · Σ_k  Π φ(s)^T · κ(s) · e^{−2πijk/N}      =      Σ_l  e^{θ(j + lN)h} · δ_{j + lN},

and every term on the right is non-negative: whatever θ and N are, this is an upper bound of e^{θjh}·δ_j. The tilt
makes it accurate relative to δ itself, however small that is. Rounding is charged node by node: φ comes from a fast
Fourier transform of positive numbers that sum to one. docs/theory/composition.md has the proofs.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.numerics.privacy_loss import Losses
from shoal.rounding import UNIT, down, up
from shoal.searches import lowest

__all__ = ["Convolution", "TiltedSum", "between", "crossing"]

_MOST_NODES, _ENOUGH = 1 << 22, 1 << 20
"""How many nodes there are at most; and where an alias that is no longer bounded hurts nobody."""
_CLEAR = 21.0
"""Aliases are to stay below exp(−21) of the whole; more of them would only make the upper end looser."""
_NEGLIGIBLE = -60.0
"""Nodes below exp(−60) of the largest are left out, and charged."""
_STEEPEST = 600.0
_STEEPER = (1.2, 1.6, 2.4, 4.0, 8.0)
"""How much steeper than the tilt are those that bound the aliases."""
_BELOW = 6.0
"""How many deviations below the mean of all losses an ε may be that is asked for."""
_APART = 16
"""Steps in search of ε are no longer than this part of it, unless shorter ones have failed."""
_MANY_NODES, _RESOLVED = 1 << 17, 5e-5
"""For more nodes than these the lattice is coarser, as long as ε grows by no more than about this part of itself."""
_BLOCK = 32
"""Phases of so many nodes come from those of the first of them."""


class TiltedSum(NamedTuple):
    """The transform of the sum of all losses at one tilt, ready for any grid point.

    Attributes
    ----------
    step, tilt, nodes : float, int
        h, θ and N.
    log_moment, slack : float
        Of the finite losses of all rounds, at θ, and how wrong it may be.
    infinite : float
        A bound of the probability that some round has infinite loss.
    positions, terms : numpy.ndarray
        The first k of each block of nodes that is kept, and the terms of these, a row for each block.
    margin : float
        A bound of everything that rounding and leaving out may change.
    above : tuple of tuple of (float, float)
        Pairs (τ, κ) with δ(x) ≤ exp(κ − τ·x) and τ > θ: what bounds the aliases on the far side.
    greatest : int
        The largest loss of all rounds together, on the grid.
    """

    step: float
    tilt: float
    nodes: int
    log_moment: float
    slack: float
    infinite: float
    positions: NDArray[np.int64]
    terms: NDArray[np.complex128]
    margin: float
    above: tuple[tuple[float, float], ...]
    greatest: int

    def upper(self, index: int) -> float:
        """Return an upper bound of δ at the grid point `index`."""
        return (self._at(index) + self.margin) * self._scale(index, 1.0) + self.infinite

    def lower(self, index: int) -> float:
        """Return a lower bound of δ at the grid point `index`."""
        value = self._at(index) - self.margin
        return max(0.0, value * self._scale(index, -1.0) - self._aliases(index)) if value > 0 else 0.0

    def _at(self, index: int) -> float:
        turns = self.positions * index % self.nodes
        phases = np.exp(-2j * math.pi / self.nodes * (np.arange(self.terms.shape[1]) * index % self.nodes))
        return float((np.exp(-2j * math.pi / self.nodes * turns) * (self.terms @ phases)).real.sum())

    def _scale(self, index: int, side: float) -> float:
        exponent = self.log_moment - self.tilt * index * self.step
        slack = self.slack + 32 * UNIT * (8 + abs(self.log_moment) + self.tilt * index * self.step)
        return math.exp(min(exponent + side * slack, 700.0))

    def _aliases(self, index: int) -> float:
        """Return a bound of the terms l ≠ 0, over e^{θjh}: geometric series with δ ≤ 1 below and Chernoff above."""
        period = self.nodes * self.step
        below = math.exp(-self.tilt * period) / -math.expm1(-self.tilt * period)
        if index + self.nodes >= self.greatest:
            return 1.001 * below
        beyond = math.inf
        for steeper, log_moment in self.above:
            exponent = log_moment - steeper * (index * self.step + period) + self.tilt * period
            beyond = min(beyond, math.exp(min(exponent, 700.0)) / -math.expm1((self.tilt - steeper) * period))
        return 1.001 * (below + beyond)


class Convolution:
    """The sum of the losses of many rounds; all of them on the same grid.

    Parameters
    ----------
    rounds : sequence of tuple of (Losses, int)
        The losses of a round, and how many such rounds there are.
    from_above : bool
        Whether only upper bounds are asked for, which a coarser lattice has, too.
    """

    def __init__(self, rounds: Sequence[tuple[Losses, int]], *, from_above: bool = False) -> None:
        self.rounds, self.from_above = tuple(rounds), from_above
        self.step = self.rounds[0][0].step
        self.times = sum(times for _, times in self.rounds)
        self.spread = math.sqrt(sum(times * losses.mean_square for losses, times in self.rounds)) + self.step
        self.mean = sum(times * losses.mean for losses, times in self.rounds)
        reach = self.step * (1 + max(losses.reach for losses, _ in self.rounds))
        self.greatest = sum(times * losses.reach for losses, times in self.rounds)
        self._steepest = _STEEPEST / reach
        self._last: tuple[float, TiltedSum, float] | None = None
        self._longest = math.inf
        # Some round is infinite: the mass of everything less that of the finite losses. The masses of a round may sum
        # to slightly more than one.
        excess = sum(times * max(0.0, losses.total - 1) for losses, times in self.rounds)
        shares = sum(times * losses.infinite for losses, times in self.rounds)
        self.infinite = shares * math.exp(excess) * (1 + 1e-12) if excess < 700 else math.inf

    def log_moment(self, tilt: float) -> float:
        """Return the logarithm of E[e^{θL}] over the finite losses of all rounds."""
        return sum(times * _tilted(losses, tilt)[0] for losses, times in self.rounds)

    def tilt_at_delta(self, delta: float) -> tuple[float, float]:
        """Return the tilt that is best where δ(ε) is near `delta`, and a rough ε there."""
        logarithm = -math.log(delta)

        def exponent(log_tilt: float) -> float:
            tilt = math.exp(log_tilt)
            return (self.log_moment(tilt) + logarithm - math.log1p(tilt)) / tilt

        log_tilt = self._valley(exponent)
        return math.exp(log_tilt), max(0.0, exponent(log_tilt))

    def tilt_at_epsilon(self, epsilon: float) -> tuple[float, float]:
        """Return the tilt that is best near `epsilon`, and a rough −log δ there."""

        def exponent(log_tilt: float) -> float:
            tilt = math.exp(log_tilt)
            return self.log_moment(tilt) - tilt * epsilon - log_tilt - math.log1p(tilt)

        log_tilt = self._valley(exponent)
        return math.exp(log_tilt), -exponent(log_tilt)

    def aimed_at_delta(self, delta: float) -> tuple[TiltedSum, float]:
        """Return a sum that is accurate where δ(ε) is near `delta`, and a rough ε there."""
        if self._last is None or self._last[0] != delta:
            tilt, guess = self.tilt_at_delta(delta)
            self._last = delta, self._aimed(tilt, -math.log(delta), guess), guess
        return self._last[1:]

    def aimed_at_epsilon(self, epsilon: float) -> TiltedSum:
        """Return a sum that is accurate near `epsilon`."""
        tilt, logarithm = self.tilt_at_epsilon(epsilon)
        return self._aimed(tilt, 5 + logarithm, epsilon)

    def followed(self, tilted: TiltedSum, steepness: float, epsilon: float) -> bool:
        """Return whether ε, where log δ falls so fast, is hardly larger on the lattice of this sum, or make it finer.

        Rare large losses let a tilt be gentler than that.
        """
        longest = self._longest_step(steepness, epsilon)
        if tilted.step == self.step or tilted.step <= 1.5 * longest:
            return True
        self._longest, self._last = longest, None
        return False

    def _longest_step(self, steepness: float, epsilon: float) -> float:
        """Return the step h that adds Th²/8 to the mean of all losses, and Th²/4 to their variance, or hardly less."""
        return math.sqrt(8 * _RESOLVED * max(epsilon, self.step) / ((1 + steepness) * self.times))

    def _halvings(self, tilt: float, nodes: int, epsilon: float) -> int:
        """Return how many times as long a step may be, in powers of two, where so many nodes are too many."""
        if not self.from_above or nodes <= _MANY_NODES:
            return 0
        longest = min(self._longest_step(tilt, epsilon), self._longest)
        return min(math.floor(math.log2(longest / self.step)), math.ceil(math.log2(nodes / _MANY_NODES)))

    def _coarsened(self, halvings: int) -> "Convolution":
        coarser = Convolution([(losses.coarsened(halvings), times) for losses, times in self.rounds], from_above=True)
        coarser._longest = self.step  # not once more
        return coarser

    def _valley(self, exponent: Callable[[float], float]) -> float:
        middle = math.log(3 / self.spread)
        highest = math.log(self._steepest)
        return lowest(exponent, min(middle, highest) - 8, min(middle + 8, highest), within=0.02)

    def _aimed(self, tilt: float, logarithm: float, epsilon: float) -> TiltedSum:
        """Transform with enough nodes that, near ε, where δ = exp(−logarithm), no alias counts."""
        period = max((max(logarithm, 1.0) + _CLEAR) / tilt, 9 * self.spread) / self.step
        most = _ENOUGH if self.from_above else _MOST_NODES
        nodes = min(1 << max(6, math.ceil(math.log2(period))), most)
        steeper = min(tilt + nodes * self.step / (2 * self.spread**2), self._steepest)
        tilts = [each for each in (steeper, *(tilt * more for more in _STEEPER)) if tilt < each <= self._steepest]
        above = tuple((each, self.log_moment(each)) for each in tilts)

        # Rare large losses make the guess too large, but ε is not much less than the mean.
        nearest = max(epsilon / 8, min(self.mean - _BELOW * self.spread, epsilon))

        def far() -> float:
            """Return the logarithm of a bound of the aliases on the far side."""
            reach = nodes * self.step
            return min((value - each * (nearest + reach) + tilt * reach for each, value in above), default=math.inf)

        # Rare losses that are large would come back as aliases.
        while nodes < most and nodes < self.greatest and far() > -logarithm - _CLEAR:
            nodes *= 2
        halvings = self._halvings(tilt, nodes, epsilon)
        if halvings > 0:
            return self._coarsened(halvings)._aimed(tilt, logarithm, epsilon)
        positions = np.arange(nodes // 2 + 1)
        log_moment, slack, dropped, product = 0.0, 0.0, 0.0, np.ones(len(positions), dtype=np.complex128)
        log_sizes, log_bounds = np.zeros(len(positions)), np.zeros(len(positions))
        with np.errstate(divide="ignore", under="ignore", invalid="ignore"):
            for losses, times in self.rounds:
                log_part, weights = _tilted(losses, tilt)
                reach = losses.reach
                log_moment += times * log_part
                slack += times * 16 * UNIT * (16 + abs(log_part) + 2 * tilt * losses.step * reach)
                folded = np.bincount(losses.signed % nodes, weights, nodes)
                values = np.conj(np.fft.rfft(folded))[positions]
                sizes = np.abs(values)
                # Each output passes log₂ N levels of butterflies; each weight has an exponential's error.
                error = 16 * UNIT * (math.log2(nodes) + 6 + tilt * losses.step * reach)
                log_sizes += times * np.log(sizes)
                log_bounds += times * np.log(sizes + error)
                # No factor exceeds one by more than its error: what is negligible now will stay so.
                kept = log_bounds > _NEGLIGIBLE
                dropped += float(np.exp(log_bounds[~kept]).sum())
                positions, values, product = positions[kept], values[kept], product[kept]
                log_sizes, log_bounds = log_sizes[kept], log_bounds[kept]
                product *= values**times if times < 64 else np.exp(times * np.log(values))
            product[~np.isfinite(product)] = 0.0
            bounds = np.exp(log_bounds)
            errors = bounds * -np.expm1(log_sizes - log_bounds)
            errors += bounds * 16 * UNIT * (4 * self.times + 8 * len(self.rounds) + 64 + np.abs(log_bounds))
        points = self.step * tilt + 2j * math.pi * positions / nodes
        kernel = np.exp(points) * math.expm1(self.step) / (np.expm1(points) * np.expm1(points + self.step)) / nodes
        largest = float(kernel[0].real)  # at the real node, since all its coefficients are positive
        kernel[(positions > 0) & (2 * positions < nodes)] *= 2  # a node and its conjugate
        terms = product * kernel
        margin = float((np.abs(kernel) * (errors + 256 * UNIT * bounds)).sum()) + 2 * largest * dropped
        margin *= 1.001 + 1e-9 * len(self.rounds)
        blocks, numbers = np.unique(positions // _BLOCK, return_inverse=True)
        table = np.zeros((len(blocks), _BLOCK), dtype=np.complex128)
        table[numbers, positions % _BLOCK] = terms
        return TiltedSum(
            self.step,
            tilt,
            nodes,
            log_moment,
            slack,
            self.infinite,
            _BLOCK * blocks,
            table,
            margin,
            above,
            self.greatest,
        )


def _tilted(losses: Losses, tilt: float) -> tuple[float, NDArray[np.float64]]:
    """Return log E[e^{θL}; L finite], and the tilted masses from the least loss to the greatest, summing to one."""
    exponents = losses.signed_logs + tilt * (losses.step * losses.signed)
    highest = float(exponents.max())
    weights = np.exp(exponents - highest)
    total = float(weights.sum())
    return highest + math.log(total), weights / total


def between(bound: Callable[[int], float], epsilon: float, step: float) -> float:
    """Return δ between two grid points: it is linear in e^ε there."""
    index = math.floor(epsilon / step)
    share = max(0.0, min(1.0, math.expm1(max(down(epsilon, roundings=4) - index * step, 0.0)) / math.expm1(step)))
    return up((1 - share) * bound(index) + share * bound(index + 1), roundings=8)


def crossing(bound: Callable[[int], float], delta: float, guess: float, step: float, *, tilt: float) -> float:
    """Return the ε where the bound, linear in e^ε between grid points, falls to δ.

    Its logarithm falls about as fast as the tilt says, so that few steps and secants lead to the two grid points next
    to it. Steps go from the guess into one direction, since a bound may say nothing far from what it is aimed at.
    """
    index, width = max(1, math.ceil(guess / step)), 1
    values = {index: bound(index)}
    side = -1 if values[index] <= delta else 1
    while (values[index] <= delta) == (side < 0):
        if index == 0:
            return 0.0
        if side > 0 and index * step > 2e3 + 10 * guess:
            return math.inf
        before, known = index, 0 < values[index] < math.inf
        move = abs(math.log(values[index] / delta)) / (tilt * step) if known else math.inf
        index = max(0, index + side * math.ceil(min(move + 1, max(index // _APART, width)) if known else width))
        values[index], width = bound(index), 2 * width
    low, high = (before, index) if side > 0 else (index, before)
    for tries in itertools.count(1):
        if high - low == 1:
            break
        above, below = values[low], values[high]
        middle = (low + high) // 2
        if tries % 4 and 0 < below < above < math.inf:
            # One of the two points next to where the secant crosses is a new end, and the other one next time.
            share = math.log(above / delta) / math.log(above / below)
            middle = min(max(low + math.ceil(share * (high - low)) - tries % 2, low + 1), high - 1)
        values[middle] = bound(middle)
        low, high = (low, middle) if values[middle] <= delta else (middle, high)
    above, below = values[low], values[high]
    share = (above - delta) / (above - below) if above < math.inf else 1.0
    return low * step + math.log1p(share * math.expm1(step))
