"""The pair of covers: one person's true message among uniformly random ones that others add.

Each of S slots holds, with probability r, a cover: one of M outputs, all equally likely. The victim's message is one of
the s outputs that support their category, so that only two counts matter: how many messages support x, and how many x′.
For k-ary responses, M = k and s = 1, the pair is what every two neighbouring datasets have, exactly; for other designs
no two exceed it (docs/theory/several-messages.md, Theorem V).
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shoal.errors import NoPairError, ParameterError
from shoal.numerics.summand import Summand
from shoal.pairs.clone_pair import CloneLike
from shoal.pairs.likelihoods import LikelihoodPair, Likelihoods
from shoal.rounding import slack
from shoal.searches import gaussian_guess, smallest_safe

if TYPE_CHECKING:
    from shoal.proofs.claim import Claim

MOST_SLOTS = 10**15


@dataclass(frozen=True)
class CoverPair(CloneLike):
    """A true message among the covers in S slots, each filled with probability r.

    With A and B the numbers of covers that say x and x′, δ(ε) = E(1 − e^ε·B/(A + 1))₊. With probability (1 − r·s/M)^S
    no cover supports x′, and the loss is infinite: δ never falls below that, ε(δ) is infinite for every smaller δ, and
    so is every Rényi divergence. All other losses are at most ln(S + 1).

    Parameters
    ----------
    slots : int
        S, those of honest people only.
    fill : float
        r, greater than 0 and at most 1.
    outputs, supporting, common : int
        M, s, and how many outputs support both of two categories; 0 is always safe.
    """

    slots: int
    fill: float
    outputs: int
    supporting: int = 1
    common: int = 0
    reports: int = field(init=False, repr=False, compare=False)
    local_epsilon: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the fields, and set n = S + 1 and ε₀ = ∞."""
        if not (isinstance(self.slots, int) and 0 <= self.slots <= MOST_SLOTS and 0 < self.fill <= 1):
            raise ParameterError(
                f"slots must be a whole number, and fill greater than 0 and at most 1; got {self.slots!r} and "
                f"{self.fill!r}",
                "slots",
            )
        if not 0 <= self.common < self.supporting <= self.outputs - self.supporting + self.common:
            raise ParameterError(
                f"no design has outputs={self.outputs}, supporting={self.supporting} and common={self.common}"
            )
        object.__setattr__(self, "fill", float(self.fill))
        object.__setattr__(self, "reports", self.slots + 1)
        object.__setattr__(self, "local_epsilon", math.inf)

    def _share(self, outputs: int) -> Fraction:
        """Return how likely a slot holds one of so many outputs."""
        return Fraction(self.fill) * Fraction(outputs, self.outputs)

    @cached_property
    def clone_probability(self) -> float:
        """How likely a slot holds a cover that supports one of the two categories alone."""
        return float(2 * self._share(self.supporting - self.common))

    @cached_property
    def other_probability(self) -> float:
        """How likely it does not."""
        return float(1 - 2 * self._share(self.supporting - self.common))

    @property
    def hides(self) -> bool:
        """Whether a cover that hides anything can be expected at all."""
        return self.slots * self.clone_probability >= 1e-12

    @cached_property
    def unhidden_bracket(self) -> tuple[float, float]:
        """The probability that nothing supports the other category, from both sides: no δ is less."""
        chance = self._share(self.supporting)
        if chance == 1:
            power = 0.0 if self.slots else 1.0
            return power, power
        logarithm = self.slots * math.log1p(-float(chance))
        wrong = slack(8) * (4 + abs(logarithm))
        value = math.exp(logarithm) * (1 - self.common / self.supporting)
        return value * max(0.0, 1 - wrong), min(1.0, value * (1 + wrong) + 5e-324)

    @cached_property
    def largest_loss(self) -> float:
        """Ln(S + 1), rounded up: no finite loss is greater."""
        return math.log(self.slots + 1) * (1 + slack(4)) + 1e-300

    def guess(self, delta: float) -> tuple[float, float]:
        """Return roughly the ε at which δ(ε) = delta, and d log δ/dε there."""
        start = self.distribution(0.0)
        hidden = max(delta - self.unhidden_bracket[1], 1e-3 * delta)
        guess, slope = gaussian_guess(start.scale * start.spread, hidden)
        return min(guess, 0.999 * self.largest_loss), slope

    def scale(self, epsilon: float) -> float:
        """Return the distance of the outer values of W, over n, which is (1 + e^ε)·M/(s·r·(S + 1))."""
        return (1 + math.exp(epsilon)) / float(self._share(self.supporting) * self.reports)

    def distribution(self, epsilon: float) -> Summand:
        """Return the distribution of W at ε, in units of its outer values' distance."""
        probability = self.clone_probability / 2
        half = math.tanh(epsilon / 2)
        share = 1 / (1 + math.exp(epsilon))
        values: tuple[float, ...] = (share, share - 1)
        probabilities: tuple[float, ...] = (probability, probability)
        if self.common:
            values = (*values, -half)
            probabilities = (*probabilities, float(self._share(self.common)))
        zero = float(1 - 2 * self._share(self.supporting) + self._share(self.common))
        mean = -half * float(self._share(self.supporting))
        return Summand(self.reports, self.scale(epsilon), values, probabilities, mean, zero)

    def shuffled(self, epsilon: float, tolerance: float | None) -> tuple[float, float]:
        """Return δ(ε) from both sides; rounding r·s/M has changed it a little."""
        lower, upper = super().shuffled(epsilon, tolerance)
        wrong = slack(2) * (64 - math.log(max(upper, 1e-300)))
        return lower * (1 - wrong), upper * (1 + wrong)

    def delta_bracket(self, epsilon: float, *, tolerance: float | None = None) -> tuple[float, float]:
        """Return a lower and an upper bound of δ(ε), for ε ≥ 0."""
        least, most = self.unhidden_bracket
        if epsilon >= self.largest_loss:
            return least, most
        lower, upper = super().delta_bracket(epsilon, tolerance=tolerance)
        return max(lower, least), upper

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded up; from ln(S + 1) on, the probability of an infinite loss."""
        return self.delta_bracket(epsilon)[1]

    def epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded up: infinite where an infinite loss is likelier than δ."""
        if delta < self.unhidden_bracket[1]:
            return math.inf
        start, slope = self.guess(delta)
        return smallest_safe(self.delta, delta, self.largest_loss, start, slope)

    def bracket(self, delta: float) -> tuple[float, float]:
        """Return ε(δ) rounded down and up."""
        if delta < self.unhidden_bracket[0]:
            return math.inf, math.inf
        if delta < self.unhidden_bracket[1]:  # closer to it than can be told
            return 0.0, math.inf
        return super().bracket(delta)

    def brackets(
        self, epsilons: NDArray[np.float64], tolerance: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return lower and upper bounds of δ at each of these ε; beyond ln(S + 1), that of an infinite loss."""
        return self.one_by_one(epsilons, tolerance)

    def renyi(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        """Refuse: it is infinite."""
        raise NoPairError(
            "the Rényi divergence of covers is infinite at every order: with probability "
            f"{self.unhidden_bracket[1]:.3g} no cover says the other category, and the loss is infinite; let people "
            "randomize as well (a response with a local_epsilon), or use epsilon and delta"
        )

    def provable(self) -> "Claim | None":
        """Return the claim of these covers."""
        from shoal.proofs.several_messages_claim import WHOLE, CoverClaim

        if type(self) is not CoverPair:
            return None
        return CoverClaim(self.slots, self.fill, self.outputs, self.supporting, self.common, WHOLE)


def covered_response(
    slots: int, fill: float, *, outputs: int, supporting: int, common: int, truth: Fraction
) -> LikelihoodPair:
    """Return the pair of a response that tells the truth with probability τ < 1, among covers in S slots.

    Relative to a slot that holds a uniform output with probability r, a report has the likelihood
    h/r on the outputs that support its category and l/r on the others, h = τ·M/s + 1 − τ and l = 1
    − τ (docs/theory/several-messages.md, Theorem V).
    """
    share = Fraction(supporting, outputs)
    rate = Fraction(fill)
    high = truth / share + 1 - truth
    low = 1 - truth
    if not low > 0:
        raise ParameterError("a response that always tells the truth is a CoverPair")
    first, second = (math.log(value / rate) for value in (high, low))
    one = rate * (share - Fraction(common, outputs))
    both = rate * Fraction(common, outputs)
    neither = rate - 2 * one - both
    rows = (
        (first, second, float(one)),
        (second, first, float(one)),
        (first, first, float(both)),
        (second, second, float(neither)),
    )
    return LikelihoodPair(slots + 1, Likelihoods(rows, complete=fill == 1, rest=float(1 - rate)))
