"""Pairs of distributions that dominate a round, and δ(ε) of them in balls: inner steps of a proof, without a name.

Claims are made of such pairs (docs/theory/certificates.md, sections 2 and 9).
"""

import math
from abc import ABC

from shoal.proofs.balls import Ball, Summand, ball, total, zero
from shoal.proofs.inversion import chernoff, gaussian, inverted, tilt_of
from shoal.proofs.listing import MOST_TERMS, counted, listed
from shoal.proofs.work import spend

__all__ = ["DominatingPair", "hidden", "mean_square"]

_SHORT_LIST = 3_000  # lists of this many counts are faster than any inversion, and exact
_NOTHING = 1e-304  # a smaller δ is not asked for, and need not be known better
_LONG_LIST = 60_000  # where W has two values, this many counts take less than half a second
_ROUGH = 0.3, 0.05  # this much is smoothed to tell which of many W have a δ that is far from the largest


def hidden(summand: Summand, copies: int, *, fineness: float, most_terms: int = MOST_TERMS) -> Ball:
    """Return a ball whose upper end is at least δ of n reports: listed, if that is short or fineness 0, or inverted.

    A report alone has no smaller δ, and where the sum says nothing, that is the answer.
    """
    spend(50 + len(summand.values))
    best = _alone(summand)  # one report alone is a bound for any number of them
    if copies > 1 and any(not value <= 0 for value in summand.values):
        # The size of the answer says how deep lists and counts must go.
        about = copies * best
        least = chernoff(summand, copies)
        if least.is_finite() and float(least.upper()) < float(about.upper()):
            about = least
        size = math.log(max(float(about.upper()), 1e-300))
        if about < _NOTHING:
            return min(best, about / copies) + summand.cost
        value = counted(summand, copies, size, most=_SHORT_LIST if fineness else _LONG_LIST)
        if fineness and not value.is_finite():
            value = listed(summand, copies, size, most_terms=_SHORT_LIST)
        if fineness and not value.is_finite():
            value = inverted(summand, copies, fineness=fineness)
        if not value.is_finite():
            value = listed(summand, copies, size, most_terms=most_terms)
        value = value / copies  # (2.1)
        best = min(best, value)
    return best + summand.cost


def _alone(summand: Summand) -> Ball:
    """Return E[W₊]."""
    return total([p * value.max(zero()) for value, p in zip(summand.values, summand.probabilities, strict=True)])


def mean_square(summand: Summand) -> float:
    """Return E[W²], about."""
    rows = zip(summand.values, summand.probabilities, strict=True)
    return sum(float(p) * min(abs(float(value)), 1e150) ** 2 for value, p in rows)


class DominatingPair(ABC):
    """Two distributions that dominate a round: δ(ε) ≤ E[(W₁ + … + Wₙ)₊]/n for each of some W, plus a charge.

    A pair is a step of a proof and not a statement about people. It may be one direction of a round, or lack what its
    theorem charges besides. So it has no name, theorem or sentence, and no certificate can be of it: what is claimed is
    a `Claim`, which accounts for the rest.

    Attributes
    ----------
    reports : int
        n.
    """

    reports: int
    local_epsilon: float

    @property
    def ceiling(self) -> float:
        """ε₀, from which on δ(ε) is at most δ₀; infinite if there is none."""
        return self.local_epsilon

    @property
    def floor(self) -> float:
        """δ₀."""
        return 0.0

    @property
    def apart(self) -> float:
        """Of a loss far out to the one before, where δ is slow to bound."""
        return 1.05

    @property
    def reverse(self) -> "DominatingPair | None":
        """The exchanged pair, where δ(ε) is that of one direction; none where it is that of both."""
        return None

    def summands(self, growth: Ball) -> list[Summand]:
        """Return W at e^ε for every pair of inputs and direction; none if `at` computes δ otherwise."""
        return []

    def charge(self, growth: Ball) -> Ball:
        """Return what δ₀ costs at e^ε."""
        return zero()

    def at(self, epsilon: float, *, fineness: float) -> Ball:
        """Return a ball whose upper end is at least δ(ε), from this ε alone."""
        if epsilon >= self.ceiling:
            return ball(self.floor)
        growth = ball(epsilon).exp()
        choices = self.summands(growth)
        if len(choices) == 1:
            return hidden(choices[0], self.reports, fineness=fineness) + self.charge(growth)
        spend(4 * sum(len(each.values) for each in choices))
        # One tilt for all of them: that of the widest, whose δ is about the largest.
        tilt = tilt_of(max(choices, key=mean_square), self.reports)
        rough = [
            min(chernoff(each, self.reports, tilt=tilt), gaussian(each, self.reports), _alone(each) * self.reports)
            / self.reports
            + each.cost
            for each in choices
        ]
        worst = zero()
        for index in sorted(range(len(choices)), key=lambda index: -float(rough[index].upper())):
            bound, each = rough[index], choices[index]
            # Ever better bounds, until one is at most the largest δ so far.
            for fine in (fineness,) if worst.is_zero() else (*(fine for fine in _ROUGH if fine > fineness), fineness):
                if bound <= worst:
                    break
                value = hidden(each, self.reports, fineness=fine, most_terms=MOST_TERMS // len(choices))
                bound = value if value < bound else bound
            worst = worst.max(bound)
        return worst + self.charge(growth)
