"""Signed messages in a flood of cancelling pairs: δ(ε) from both sides, for comparison only.

A category has U = c + Z₊ + F messages "+1" and V = Z₋ + F messages "−1", Z₊ and Z₋ geometric, F negative binomial, and
U − V estimates c. The noise (u, v) has the probability a^|u − v|·g(min(u, v)), and so the privacy loss of one person is
a sum of two independent ones, each a list of atoms (docs/theory/several-messages.md, Theorem F).
"""

import math
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.errors import ParameterError
from shoal.rounding import slack

__all__ = ["Flood"]

_TAIL = 1e-26
"""Numbers of pairs beyond which there is less than this are left out, and charged as infinite losses."""
_MOST_PAIRS = 1 << 20
_LEAST = 1e-280
"""The probability of no pair at all must be larger than this, as all others are computed from it."""
_DIGITS = 40
"""With so many digits, a million multiplications leave more than a double has."""

Array = NDArray[np.float64]


class _Atoms(NamedTuple):
    """How likely each loss is in this world and in the other, and how likely what is left out is in this one."""

    here: Array
    there: Array
    missing: float


@dataclass(frozen=True)
class Flood:
    """The noise of one category, and what one person's loss is under it: equal for all datasets and categories.

    Parameters
    ----------
    decay : float
        a of the geometric noise, Pr(Z = z) = (1 − a)·a^z.
    shape, growth : float
        r and p of the pairs, Pr(F = f) ∝ C(f + r − 1, f)·p^f.

    Examples
    --------
    >>> flood = Flood.of_mean(decay=math.exp(-0.2), shape=20, pairs=500)
    >>> f"{flood.delta(0.5):.7e}"
    '2.9483028e-09'
    """

    decay: float
    shape: float
    growth: float

    def __post_init__(self) -> None:
        """Check the numbers."""
        if not (0 < self.decay < 1 and 0 < self.growth < 1 and 0 < self.shape < math.inf):
            raise ParameterError(f"decay and growth must be between 0 and 1, and shape positive; got {self!r}")
        if self.shape * math.log1p(-self.growth) < math.log(_LEAST):
            raise ParameterError(f"shape={self.shape:g} is too large for so many pairs; use a smaller one")

    @classmethod
    def of_mean(cls, *, decay: float, shape: float, pairs: float) -> "Flood":
        """Return the flood with so many pairs of a category on average."""
        return cls(decay, shape, pairs / (pairs + shape))

    @property
    def pairs(self) -> float:
        """The mean number of pairs of a category."""
        return self.shape * self.growth / (1 - self.growth)

    @property
    def messages(self) -> float:
        """The mean number of messages of a category, beside those of people."""
        return 2 * self.pairs + 2 * self.decay / (1 - self.decay)

    @property
    def variance(self) -> float:
        """The variance of an estimated count, that of a difference of two geometric numbers."""
        return 2 * self.decay / (1 - self.decay) ** 2

    @cached_property
    def _size(self) -> int:
        """How many numbers of pairs are listed: until the rest is negligible, by a geometric series."""
        size, logarithm, block = 1, self.shape * math.log1p(-self.growth), 256
        while size < _MOST_PAIRS:
            counts = np.arange(size - 1, size - 1 + block, dtype=np.float64)
            logarithm += float(np.log(self.growth * (counts + self.shape) / (counts + 1)).sum())
            size += block
            after = self._falling(size - 1)
            if after < 1 and logarithm + math.log(after / (1 - after)) < math.log(_TAIL):
                # What g remembers of smaller numbers has to fade, too.
                return size + math.ceil(math.log(_TAIL) / (2 * math.log(self.decay))) + 1
        raise ParameterError(f"a flood of {self.pairs:,.0f} pairs a category is too large to be listed")

    def _falling(self, count: int) -> float:
        """Return the most that Pr(F = f + 1)/Pr(F = f) is from this f on: it goes to p, from above or from below."""
        return max(self.growth, self.growth * (count + self.shape) / (count + 1))

    @cached_property
    def _levels(self) -> tuple[Array, float]:
        """The levels g at 0, 1, …, to the nearest double, and the sum of g beyond them, rounded up."""
        exactly = Context(prec=_DIGITS)
        growth, shape, decay = Decimal(self.growth), Decimal(self.shape), Decimal(self.decay)
        likely = exactly.power(exactly.subtract(1, growth), shape)
        square, own = exactly.multiply(decay, decay), exactly.power(exactly.subtract(1, decay), 2)
        levels = [exactly.multiply(own, likely)]
        for count in range(self._size - 1):
            step = exactly.multiply(growth, exactly.add(shape, count))
            likely = exactly.divide(exactly.multiply(likely, step), count + 1)
            levels.append(exactly.fma(square, levels[-1], exactly.multiply(own, likely)))
        after = self._falling(len(levels) - 1)
        beyond = float(likely) * after / (1 - after)
        rest = float(square) * float(levels[-1]) + float(own) * beyond
        return np.array([float(each) for each in levels]), rest / (1 - self.decay**2) * (1 + slack(64))

    @cached_property
    def _roughly(self) -> tuple[Array, float]:
        """The same in floating point, where a guess will do."""
        counts = np.arange(self._size - 1, dtype=np.float64)
        ratios = self.growth * (counts + self.shape) / (counts + 1)
        first = math.exp(self.shape * math.log1p(-self.growth))
        own = ((1 - self.decay) ** 2 * first * np.concatenate([[1.0], np.cumprod(ratios)])).tolist()
        square = self.decay**2
        return np.array(list(accumulate(own, lambda before, new: square * before + new))), 0.0

    def _gaining(self, levels: Array, rest: float) -> _Atoms:
        """Return the losses of the category that the person has in this world."""
        a, scale = self.decay, 1 / (1 - self.decay)
        here = np.concatenate([[1 / (1 + a)], a * scale * levels[:-1]])
        there = np.concatenate([[a / (1 + a)], scale * levels[1:]])
        return _Atoms(here, there, a * scale * (rest + float(levels[-1])))

    def _losing(self, levels: Array, rest: float) -> _Atoms:
        """Return those of the category that the person has in the other world; where u = 0, it is told."""
        a, scale = self.decay, 1 / (1 - self.decay)
        here = np.concatenate([[a / (1 + a)], scale * levels])
        there = np.concatenate([[1 / (1 + a), 0.0], a * scale * levels[:-1]])
        return _Atoms(here, there, scale * rest)

    def delta_bracket(self, epsilon: float) -> tuple[float, float]:
        """Return a lower and an upper bound of δ(ε), for ε ≥ 0."""
        return self._summed(epsilon, self._levels)

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded up."""
        return self.delta_bracket(epsilon)[1]

    def guess(self, epsilon: float) -> float:
        """Return about δ(ε), ten times as fast."""
        return self._summed(epsilon, self._roughly)[1]

    def _summed(self, epsilon: float, known: tuple[Array, float]) -> tuple[float, float]:
        """Return Σ(p − λq)₊ over all pairs of atoms, by sums of the second list that is sorted by its ratios."""
        factor, one, two = math.exp(epsilon), self._gaining(*known), self._losing(*known)
        with np.errstate(divide="ignore"):
            ratios = np.where(two.there > 0, two.here / two.there, np.inf)
            least = np.where(one.here > 0, factor * one.there / one.here, np.inf)
        order = np.argsort(-ratios, kind="stable")
        here, there = (np.concatenate([[0.0], np.cumsum(part[order])]) for part in (two.here, two.there))
        # What is so close to the line that rounding decides is taken, and what it may take away is charged.
        near = slack(64)
        taken, clear = (
            np.searchsorted(-ratios[order], -least * (1 - sign * near), side="right") for sign in (1.0, -1.0)
        )
        first, second = float(one.here @ here[taken]), factor * float(one.there @ there[taken])
        between = float(one.here @ (here[taken] - here[clear]))
        # Eight roundings of a mass, and as many of a sum as it has terms, twice: of the second list and of the first.
        doubt = slack(2 * len(order) + 64) * (first + second) + 4 * near * max(0.0, between)
        missing = (one.missing + two.missing) * (1 + slack(64))
        return max(0.0, first - second - doubt), min(1.0, max(0.0, first - second) + doubt + missing)

    def burst(self, people: int, risk: float) -> int:
        """Return how many pairs a person's share must be allowed to have, so that none of all people's is cut.

        Each of n people adds NB(r/n, p) pairs of a category; one of the shares is larger with probability `risk` or
        less.
        """
        shape = self.shape / people
        enough = math.log(risk) - math.log(people)
        logarithm, count = shape * math.log1p(-self.growth) + math.log(shape * self.growth), 1
        while True:  # Pr(K ≥ k), by a geometric series from where the probabilities fall
            after = max(self.growth, self.growth * (count + shape) / (count + 1))
            if after < 1 and logarithm <= enough + math.log1p(-after):
                return count - 1
            logarithm += math.log(self.growth * (count + shape) / (count + 1))
            count += 1
