"""How likely it is that some sum of an epoch exceeds a level: from both sides, empty slots counted.

All examples but the victim's pull a sum down by the same length a. A batch with k empty slots lies k·a above a full
one, and how many each batch has is as random as the permutation. Given where the empty slots are, the sums are
independent normal variables. So the probabilities are a sum over all placements, a coefficient of a power of a
polynomial (docs/theory/sgd.md, section 7). Its terms are all positive, so rounding stays small next to each of them.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.rounding import UNIT

__all__ = ["Crowd", "Exceeding", "above"]

_TINY = 1e-300
"""Smaller numbers lose digits: an upper bound is raised by a few of these."""
_MOST_EMPTY = 640
"""More would take long, and (1 + odds)⁻ᵇ would be too small for a double."""
_NEGLIGIBLE = 1e-290
_MOST_ERROR = 0.05

Floats = NDArray[np.float64]


class Exceeding(NamedTuple):
    """The probabilities, from both sides, that no sum of an epoch exceeds the level, and that some sum does."""

    none_low: float
    none_high: float
    some_low: float
    some_high: float


def above(point: float) -> float:
    """Return about the probability that a standard normal variable exceeds the point."""
    return 0.5 * math.erfc(point / math.sqrt(2))


def _error(reach: float) -> float:
    """Return the largest relative error of `above` at a difference of two numbers of at most this size.

    The point has an error of a few units of the reach, and the logarithm of `above` a slope of at most 1 + |point|.
    """
    return 16 * UNIT * (1 + reach) ** 2


@dataclass(frozen=True)
class Crowd:
    """The sums of an epoch, in standard deviations of their noise, above that of a full batch without the victim.

    Attributes
    ----------
    batches : int
        m.
    size : int
        b, the slots of a batch.
    empty : int
        How many slots of the m·b are empty, less than b.
    spacing : float
        How much higher a sum is for each empty slot.
    """

    batches: int
    size: int
    empty: int
    spacing: float

    def exceeding(self, level: float, *victims: float) -> tuple[Exceeding, ...] | None:
        """Return how likely it is that a sum exceeds the level ≥ 0, for each height of the victim's among full batches.

        None where the empty slots are too many to count them, or the batches for the precision of a double.
        """
        if self.empty == 0 or self.spacing == 0:
            error = 4 * _error(2 * level + 2 * max(map(abs, victims)))
            return tuple(self._alike(level, victim, error) for victim in victims) if error < _MOST_ERROR else None
        return self._placed(level, victims) if self.empty <= _MOST_EMPTY else None

    def _alike(self, level: float, victim: float, error: float) -> Exceeding:
        """All other sums have the same mean."""
        logarithm = (self.batches - 1) * _log_below(level) + _log_below(level - victim)
        least, most = logarithm * (1 + error), logarithm * (1 - error)
        tiny = _TINY * (self.batches + 1)
        return Exceeding(
            none_low=math.exp(least) * (1 - 4 * UNIT) if least > -690 else 0.0,
            none_high=min(1.0, math.exp(most) * (1 + 4 * UNIT) + tiny),
            some_low=-math.expm1(most) * (1 - 4 * UNIT),
            some_high=min(1.0, -math.expm1(least) * (1 + 4 * UNIT) + tiny),
        )

    def _placed(self, level: float, victims: tuple[float, ...]) -> tuple[Exceeding, ...] | None:
        """Sum over the placements of the empty slots."""
        most, left_out = self._most_in_a_batch()
        reach = 2 * level + max(map(abs, victims)) + (most + 1) * self.spacing
        error = self.batches * (_error(reach) + (4 * most + self.empty + 16) * UNIT)
        if error > _MOST_ERROR:
            return None
        odds = self.empty / (self.batches * self.size - self.empty)
        first = math.exp(-self.size * math.log1p(odds))  # the same for all, so that it cancels
        heights = np.asarray(level - self.spacing * np.arange(most + 1), np.float64)
        others = _Split.of(_weights(self.size, odds, most, first), heights)
        crowd = others.power(self.batches - 1, self.empty)
        weights = _weights(self.size - 1, odds, most, first)
        exceeding = []
        for victim in victims:
            whole = crowd.times(_Split.of(weights, heights - victim), self.empty)
            none, some = float(whole.none[self.empty]), float(whole.some[self.empty])
            # All that was too small for a double adds up to less than 1e-290 of the whole.
            shares = none / (none + some), some / (none + some)
            low, high = math.exp(-3 * error) * (1 - left_out), math.exp(3 * error)
            ends = [(max(0.0, share * low - 1e-290), min(1.0, share * high + left_out + 1e-290)) for share in shares]
            exceeding.append(Exceeding(*ends[0], *ends[1]))
        return tuple(exceeding)

    def _most_in_a_batch(self) -> tuple[int, float]:
        """Return a number of empty slots, and how likely it is at most that some batch has more of them.

        A batch holds some k + 1 of them with a probability of at most (b/(mb − 1))ᵏ⁺¹.
        """
        one = math.log(self.size) - math.log(self.batches * self.size - 1)
        for most in range(1, min(self.empty, self.size)):
            more = most + 1
            ways = math.lgamma(self.empty + 1) - math.lgamma(more + 1) - math.lgamma(self.empty - more + 1)
            logarithm = math.log(self.batches) + ways + more * one
            if logarithm + 1e-6 < math.log(_NEGLIGIBLE):
                return most, math.exp(logarithm + 1e-6)
        return self.empty, 0.0


class _Split(NamedTuple):
    """Weights by the number of empty slots: where no sum exceeds the level, and where some sum does."""

    none: Floats
    some: Floats

    @classmethod
    def of(cls, weights: Floats, heights: Floats) -> "_Split":
        """Return the weights of one batch, where the level lies so much higher than the mean of its sum."""
        exceeds = np.array([above(height) for height in heights.tolist()])
        stays = np.array([above(-height) for height in heights.tolist()])
        return cls(weights * stays, weights * exceeds)

    def times(self, other: "_Split", most: int) -> "_Split":
        """Return the weights of both together, up to this many empty slots; all terms are positive."""
        none = np.convolve(self.none, other.none)[: most + 1]
        some = np.convolve(self.some, other.none + other.some) + np.convolve(self.none, other.some)
        return _Split(none, some[: most + 1])

    def power(self, times: int, most: int) -> "_Split":
        """Return the weights of this many batches."""
        power, square = None, self
        while True:
            if times & 1:
                power = square if power is None else power.times(square, most)
            times >>= 1
            if not times:
                assert power is not None, "there is at least one other batch"
                return power
            square = square.times(square, most)


def _weights(size: int, odds: float, most: int, first: float) -> Floats:
    """Return C(size, k)·oddsᵏ times `first` for k up to `most`."""
    weights = np.full(most + 1, first)
    for index in range(1, most + 1):
        weights[index] = weights[index - 1] * ((size - index + 1) * odds / index) if index <= size else 0.0
    return weights


def _log_below(point: float) -> float:
    """Return the logarithm of the probability that a standard normal variable is below the point."""
    return math.log1p(-above(point)) if point > 0 else math.log(max(above(-point), _TINY))
