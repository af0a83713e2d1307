"""What a statistic of the sums of an epoch, between their sum and their maximum, says about the victim.

Sums are independent normal variables, given where the empty slots are, and the victim's has another mean. The statistic
is f(Z₁) + … + f(Z_t) modulo N for a step function f with whole values, which follows the likelihood ratio of one sum
where that is small, and its logarithm where it is large. Its distribution in both worlds is computed with a bound of
all rounding. Whatever f and N are, it is a function of what is seen, and so are those of all epochs together: what they
contradict, no guarantee can say. It does not depend on which sum is the victim's (docs/theory/samplers.md, section 6).
"""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.numerics.convolution import Convolution
from shoal.numerics.lattice import LatticeMeasure
from shoal.numerics.normal import cell_masses, upper_tail
from shoal.rounding import UNIT
from shoal.sgd.exceedance import Crowd

__all__ = ["Victim", "soft_limit"]

_CELLS, _TAIL = 8192, 9.5
"""Into how many cells the line is cut, and how far beyond all means."""
_TINY, _MOST_OFF = 1e-280, 0.01
"""More than what is too small for a double, and the largest relative error with which anything is claimed."""
_LINEAR, _FINENESS, _COPY = 8.0, 40.0, 8.0
"""Up to how many deviations of the sum f is linear; how many values a deviation has, and one of a single copy."""
_LOGS, _FEWER_LOGS, _LEAST_LOGS = 1 << 16, 1 << 14, 2.0
"""About how many values there are beyond, without empty slots and with; at least how many deviations a factor e has."""
_RARELY = 0.01
_LONGEST = 1 << 20
_NEGLIGIBLE = -48.0
"""Nodes below e to this power are left out, and charged; so are rare numbers of empty slots."""
_MOST_EMPTY, _MOST_IN_ONE, _MOST_BATCHES = 640, 48, 10**8
"""More empty slots, or more of them in one batch, would take long; more batches need more precision."""
_FARTHEST = 16.0
"""A victim that is farther from the others is seen in the maximum."""
_LOSSES, _MOST_LOSSES = 500.0, 1e5
"""Into how many parts a deviation of the loss of an epoch is divided; fewer for so many in all epochs together."""
_FAILED = 1e-3
"""The share of δ for the event that rests of losses add up to less than Hoeffding's inequality says."""

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]


class Victim(NamedTuple):
    """How much higher the victim's sum is than another full batch, in deviations of the noise.

    Attributes
    ----------
    one, other : float
        In one world, and in the other.
    absent : float
        The probability that the victim is in no sum, in both worlds; rounded up, if it is not exact.
    """

    one: float
    other: float
    absent: float = 0.0


class _Seen(NamedTuple):
    """The distribution of the statistic in both worlds; how wrong each mass may be: absolutely, and then relatively."""

    one: Array
    other: Array
    wrong: float
    close: float


def soft_limit(crowd: Crowd, victim: Victim, epochs: int, delta: float) -> float:
    """Return an ε that the statistics of independent epochs contradict at δ, in one direction or the other.

    Zero where there are too many empty slots, or too many sums for the precision of a double.

    Parameters
    ----------
    crowd : Crowd
        The sums of an epoch, and their empty slots.
    victim : Victim
        What tells the two worlds apart.
    epochs : int
        How many epochs there are.
    delta : float
        δ of the guarantee.
    """
    if crowd.empty == 0 or crowd.spacing == 0:
        crowd = replace(crowd, empty=0, spacing=0.0)
    if crowd.empty > _MOST_EMPTY or crowd.batches > _MOST_BATCHES or max(victim.one, -victim.other) > _FARTHEST:
        return 0.0
    if len(_counts(crowd)[0]) > _MOST_IN_ONE:
        return 0.0
    best = max(_contradicted(_Statistic(crowd, victim), epochs, delta))
    # The best test of one epoch weighs the other world with e^ε.
    return max(best, *_contradicted(_Statistic(crowd, victim, math.exp(min(best / epochs, 300.0))), epochs, delta))


def _contradicted(statistic: "_Statistic", epochs: int, delta: float) -> tuple[float, float]:
    """Return an ε that a statistic contradicts, in each direction."""
    seen = statistic.seen()
    if seen.close > _MOST_OFF:
        return 0.0, 0.0

    def limit(likely: Array, rare: Array) -> float:
        sure = np.maximum((likely - seen.wrong) * (1 - seen.close), 0.0)
        most = (np.maximum(rare, 0.0) + seen.wrong) * (1 + seen.close)
        kept = sure > 0
        return (_single if epochs == 1 else _many)(sure[kept], most[kept], epochs, delta)

    return limit(seen.one, seen.other), limit(seen.other, seen.one)


def _single(sure: Array, most: Array, _: int, delta: float) -> float:
    """Return the largest ln((P − δ)/Q) of all events, which are levels of the ratio."""
    order = np.argsort(most / sure, kind="stable")
    likely, rare = np.cumsum(sure[order]), np.cumsum(most[order])
    rounding = 4 * UNIT * len(order)
    best = float(((likely * (1 - rounding) - delta) / (rare * (1 + rounding))).max(initial=0.0))
    return max(0.0, math.log(best) - 8 * UNIT) if best > 1 else 0.0


def _many(sure: Array, most: Array, epochs: int, delta: float) -> float:
    """Return the ε of independent epochs: cells of about the same loss are taken together, and losses added up.

    A loss is a multiple of a step and a rest. The rests of all epochs are hardly ever below their mean by more than
    Hoeffding's inequality allows: but for a share of δ.
    """
    losses = np.log(sure / most)
    total = float(sure.sum())
    mean = float((sure * losses).sum()) / total if total else 0.0
    spread = math.sqrt(float((sure * (losses - mean) ** 2).sum()) / total) if total else 0.0
    if not spread or delta < _TINY:
        return 0.0
    step = spread / min(_LOSSES, max(16.0, _MOST_LOSSES / math.sqrt(epochs)))
    positions, inverse = np.unique(np.floor(losses / step + 0.5).astype(np.int64), return_inverse=True)
    masses, others = (np.asarray(np.bincount(inverse, each), dtype=np.float64) for each in (sure, most))
    rests = np.log(masses / others) - step * positions
    middle = float((masses * rests).sum()) / float(masses.sum())
    below = float(rests.max() - rests.min()) * math.sqrt(epochs * -math.log(_FAILED * delta) / 2)
    rounding = 64 * UNIT * epochs * (len(sure) + float(np.abs(losses).max()))
    masses = masses * (1 - 4 * UNIT * len(sure))
    parts = LatticeMeasure(step, positions, masses)
    least = Convolution([(parts, epochs)]).least_epsilon(delta * (1 + _FAILED))
    return max(0.0, least + epochs * middle - below - rounding)


class _Statistic:
    """The statistic of one epoch, and its distribution."""

    def __init__(self, crowd: Crowd, victim: Victim, growth: float = 1.0) -> None:
        self.crowd, self.victim, self.growth = crowd, victim, growth
        self.odds = crowd.empty / (crowd.batches * crowd.size - crowd.empty)
        self.counts, self.left_out = _counts(crowd)
        self.weights, self.victims = (
            _binomial(size, self.odds, len(self.counts)) for size in (crowd.size, crowd.size - 1)
        )
        shifts = (0.0, victim.one, victim.other, crowd.spacing * min(2, len(self.counts) - 1))
        self.cuts = np.linspace(min(shifts) - _TAIL, max(shifts) + _TAIL, _CELLS)
        self.fineness = max(_FINENESS, _COPY * math.sqrt(crowd.batches))
        middles = (self.cuts[1:] + self.cuts[:-1]) / 2
        self.index = self._values(np.concatenate((self.cuts[:1], middles, self.cuts[-1:])))
        reach = 3 * _LINEAR * self.fineness + int(self.index.max() - self.index.min())
        self.period = min(1 << math.ceil(math.log2(reach)), _LONGEST)

    def _values(self, points: Array) -> NDArray[np.int64]:
        """Return f at each point; any choice is valid."""

        def ratio(weights: Array, shift: float) -> Array:
            shifts = shift + self.crowd.spacing * self.counts
            exponents = np.multiply.outer(points, shifts) - shifts**2 / 2
            return np.asarray(np.exp(np.minimum(exponents, 300.0)) @ weights)

        base = ratio(self.weights, 0.0)
        one, other = (ratio(self.victims, shift) / base for shift in (self.victim.one, self.victim.other))
        values = one - self.growth * other
        density = np.exp(-0.5 * points**2) * base
        density /= density.sum()
        heavy = np.argsort(-np.abs(values), kind="stable")
        calm = np.ones(len(points), dtype=np.bool_)
        calm[heavy[np.cumsum(density[heavy]) < _RARELY / self.crowd.batches]] = False
        middle = float((density * values)[calm].sum())
        square = float((density * (values - middle) ** 2)[calm].sum())
        sizes = np.abs(values) / math.sqrt(self.crowd.batches * square + 1e-300)
        logs = np.log(np.maximum(sizes / _LINEAR, 1.0))
        most = _FEWER_LOGS if self.crowd.empty else _LOGS
        slope = max(_LEAST_LOGS, most / self.fineness / (float(logs.max()) + 1e-3))
        return np.round(self.fineness * np.sign(values) * (np.minimum(sizes, _LINEAR) + slope * logs)).astype(np.int64)

    def _transform(self, shift: float) -> Complex:
        """Return the transform of the distribution of f(Z) for a normal Z with this mean."""
        return np.fft.rfft(np.bincount(self.index % self.period, _cell_masses(self.cuts - shift), self.period))

    def seen(self) -> _Seen:
        """Return the distribution in both worlds."""
        crowd, victim, copies = self.crowd, self.victim, self.crowd.batches - 1
        base = np.array([self._transform(crowd.spacing * count) for count in self.counts.tolist()])
        error = 16 * UNIT * (math.log2(self.period) + 6)
        bounds = self.weights @ np.abs(base) + 2 * error
        log_bounds = copies * np.log(bounds)
        kept = np.flatnonzero(log_bounds > _NEGLIGIBLE)
        left = math.exp(max(float(np.delete(log_bounds, kept).max(initial=-math.inf)), -700.0))
        base, bounds, log_bounds = base[:, kept], bounds[kept], log_bounds[kept]
        worlds = np.array([self._joined(shift, base, kept) for shift in (victim.one, victim.other)])
        # The coefficient of xᵉ, from values on a circle; that of the same without f is the probability of e slots.
        turns = 2 * math.pi / _turns(crowd.empty) * np.arange(_turns(crowd.empty))
        totals, share = np.zeros((2, len(kept)), dtype=np.complex128), 0.0
        for turn in turns.tolist():
            powers = np.exp(1j * turn * self.counts)
            part = np.exp(-1j * turn * crowd.empty) / len(turns)
            one = (self.weights * powers) @ base
            others = part * np.exp(copies * np.log(np.where(one == 0, 1e-300, one)))
            totals += others * ((self.victims * powers) @ worlds)
            everything = np.exp(copies * np.log((self.weights * powers).sum()))
            share += float((part * everything * (self.victims * powers).sum()).real)
        spectra = np.zeros((2, self.period // 2 + 1), dtype=np.complex128)
        spectra[:, kept] = totals / share
        one_world, other_world = (np.fft.irfft(spectrum, self.period) for spectrum in spectra)
        # Of the power of the transforms, of products and sums, and of the inverse transform: over the bound of a node.
        rounding = 64 * UNIT * (crowd.batches * (4 + len(self.counts)) + len(turns))
        wrong = -np.expm1(copies * np.log1p(-np.minimum(2 * error / bounds, 0.9))) + rounding + 8 * error
        off = 2.002 / share * (float((np.exp(log_bounds) * wrong).sum()) / self.period + left)
        off += self.left_out + _aliases(crowd.empty) / share + _TINY
        # A mass of f(Z) is off by a unit for each of its cells, if cuts are moved a little; with a shift, by more.
        reach = float(self.cuts[-1] - self.cuts[0]) + crowd.spacing * len(self.counts)
        shifted = 64 * UNIT * (4 + reach) * _CELLS / float(self.cuts[-1] - self.cuts[0])
        close = shifted * (2 + crowd.empty) + (_CELLS + 8 * len(self.counts) + 64) * UNIT * crowd.batches
        return _Seen(one_world, other_world, off, 2 * (close + rounding / share + self.left_out))

    def _joined(self, shift: float, base: Complex, kept: NDArray[np.int64]) -> Complex:
        """Return the transforms of the victim's batch for every number of empty slots; of another, if it is absent."""
        shifts = shift + self.crowd.spacing * self.counts
        there = np.array([self._transform(each)[kept] for each in shifts.tolist()])
        return np.asarray((1 - self.victim.absent) * there + self.victim.absent * base)


def _counts(crowd: Crowd) -> tuple[Array, float]:
    """Return the numbers of empty slots of a batch that are counted, and how likely it is at most that one has more.

    A batch holds some k + 1 of them with a probability of at most (b/(tb − 1))ᵏ⁺¹.
    """
    if crowd.empty == 0:
        return np.zeros(1), 0.0
    each = math.log(crowd.size / (crowd.batches * crowd.size - 1))
    for most in range(1, min(crowd.empty, crowd.size)):
        ways = math.lgamma(crowd.empty + 1) - math.lgamma(most + 2) - math.lgamma(crowd.empty - most)
        logarithm = math.log(crowd.batches) + ways + (most + 1) * each + 1e-6
        if logarithm < _NEGLIGIBLE:
            return np.arange(most + 1.0), math.exp(logarithm)
    return np.arange(min(crowd.empty, crowd.size) + 1.0), 0.0


def _binomial(size: int, odds: float, count: int) -> Array:
    """Return about the probabilities of the first numbers of successes; a common factor makes no difference."""
    weights = np.full(count, math.exp(-size * math.log1p(odds)))
    for index in range(1, count):
        weights[index] = weights[index - 1] * (max(size - index + 1, 0) * odds / index)
    return weights


def _turns(empty: int) -> int:
    """Return how many points of a circle tell the coefficient of xᵉ from later ones."""
    return empty + math.ceil(12 * math.sqrt(empty)) + 24 if empty else 1


def _aliases(empty: int) -> float:
    """Return a bound of the probability of e + `_turns` empty slots or more, if e are expected: Chernoff's."""
    if not empty:
        return 0.0
    ratio = 1 + _turns(empty) / empty
    return math.exp(empty * (ratio - 1 - ratio * math.log(ratio)))


def _cell_masses(cuts: Array) -> Array:
    """Return the mass of the standard normal distribution below, between and above the cuts, ascending."""
    first = upper_tail(-float(cuts[0]))
    last = upper_tail(float(cuts[-1]))
    return np.concatenate(([first], cell_masses(cuts), [last]))
