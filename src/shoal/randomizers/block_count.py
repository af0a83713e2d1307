"""How many people hold a category, from the reports that support it and those in its block."""

from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from shoal.randomizers import two_rates
from shoal.randomizers.design import Moments
from shoal.randomizers.expansion import Sum

__all__ = ["EXACT_BELOW", "BlockCount"]

Floats = NDArray[np.float64]

EXACT_BELOW = 10.0
"""Where what is counted has a smaller variance, the limits come from exact tails."""
_STEP = 0.1
"""The share of the level that is for how many of the holders report in their block."""


@dataclass(frozen=True, eq=False)
class BlockCount:
    """How often some categories are supported, in designs of several blocks.

    What is counted is Z, summed over the reports: [supports x] − κ·[in the block of x]. Its mean tells how many people
    hold x; its spread depends as well on how many are in the block.

    Attributes
    ----------
    counts, total : Floats
        For each category, the reports that support it, and those in its block.
    reports : int
        n.
    moments : Moments
        How often a report does either.
    """

    counts: Floats
    total: Floats
    reports: int
    moments: Moments

    def fewest(self, level: float) -> Floats:
        """Return the fewest people who may hold each category, with a miss at most as likely as the level."""
        return self._limit(level, 1.0)

    def most(self, level: float) -> Floats:
        """Return the most people who may hold each category."""
        return self._limit(level, -1.0)

    def _limit(self, level: float, side: float) -> Floats:
        result, variance = self._expanded(level, side)
        exact = np.flatnonzero(variance < EXACT_BELOW)
        if len(exact):
            result[exact] = self._within(level, side, exact)
        return result

    def _within(self, level: float, side: float, which: NDArray[np.int64]) -> Floats:
        """Return limits from exact tails: of how many reports in the block are by holders, then of the holders.

        Reports in the block support the category at one rate if they are by somebody who holds it, and at one of two
        others if not. The higher of these counts for the fewest holders, the lower one for the most.
        """
        (own, inside), (same, _), (other, outside) = self.moments.own, self.moments.same, self.moments.other
        rates = [same / inside, other / outside if outside > 0 else same / inside]
        limit, rate = (two_rates.fewest, max(rates)) if side > 0 else (two_rates.most, min(rates))
        counts, total = self.counts[which], self.total[which]
        by_holders = limit(counts, total, own / inside, rate, (1 - _STEP) * level)
        return limit(by_holders, np.full(len(which), float(self.reports)), inside, 0.0, _STEP * level)

    @cached_property
    def _cumulants(self) -> list[Floats]:
        """Those of Z for people who hold x, others in its block, and the rest."""
        return [self.moments.cumulants(each) for each in (self.moments.own, self.moments.same, self.moments.other)]

    def _expanded(self, level: float, side: float) -> tuple[Floats, Floats]:
        """Return limits by the cumulants of what is counted, and its variance there.

        How many people are in the block is estimated. A block has at least those who hold x, and so a limit that is
        above the estimate is computed again for a block without any others.
        """
        own, same, other = self._cumulants
        people, doubt, lean = self._estimated
        normal = -NormalDist().inv_cdf(level)
        wider = normal * (1 + (normal**2 + 1) / 8 * doubt + normal / 2 * np.maximum(-side * lean, 0))
        # Given the reports in the block, what is counted moves in steps of 1; a quantile may lie half of one beyond.
        gap = self._gap - side / 2
        shared = np.multiply.outer(same - other, people) + (self.reports * other)[:, None]
        scale, most = self.moments.scale, float(self.reports)
        position, variance = Sum(scale, shared, own - same, most).crossing(gap, wider, side)
        alone = np.flatnonzero(position > people)
        if len(alone):
            fixed = np.repeat((self.reports * other)[:, None], len(alone), axis=1)
            beyond, _ = Sum(scale, fixed, own - other, most).crossing(gap[alone], normal, side)
            position[alone] = side * np.minimum(side * position[alone], side * beyond)
        return np.clip(side * np.ceil(side * position), 0, self.reports), variance

    @cached_property
    def _gap(self) -> Floats:
        """What is counted, less its mean if nobody holds x."""
        return self.counts - self.moments.overlap * self.total - self.reports * self.moments.base

    @cached_property
    def _estimated(self) -> tuple[Floats, Floats, Floats]:
        """How many people are in the block, and how uncertain this makes the variance of what is counted.

        The latter is the relative variance of that variance, and how far it goes along with what is counted: where a
        block looks small because a category looks rare, the most that may hold it would come out too few.
        """
        inside, outside = self.moments.own[1], self.moments.other[1]
        people = np.clip((self.total - self.reports * outside) / self.moments.inside, 0, self.reports)
        near = np.clip(self._gap / self.moments.scale, 0, people)
        own, same, other = (each[0] for each in self._cumulants)
        variance = np.maximum(near * (own - same) + people * (same - other) + self.reports * other, 1.0)
        absent, strange = people * (1 - inside), (self.reports - people) * (1 - outside)
        spread = (absent * inside + strange * outside) / self.moments.inside**2
        common = near * ((1 - inside) * self.moments.scale) + (absent + strange) * self.moments.base
        change = (same - other) / variance
        return people, spread * change * change, common * change / (np.sqrt(variance) * self.moments.inside)
