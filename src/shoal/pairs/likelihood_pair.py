"""The pair of a given randomizer: what its likelihoods make of n reports.

With the blanket as the reference, this is an upper bound for every dataset (Lemma 5.3 of Balle, Bell, Gascón and
Nissim, arXiv 1903.02837); with the distribution of an input that all others hold, it is exactly what they get.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.errors import NoPairError
from shoal.numerics.distribution import Distribution
from shoal.numerics.listed import windows
from shoal.numerics.outcomes import OutcomeList, outcome_list
from shoal.numerics.renyi_divergence import renyi_upper
from shoal.numerics.renyi_integral import Kinds
from shoal.pairs.likelihoods import Likelihoods
from shoal.pairs.pair import Pair, gaussian_guess
from shoal.rounding import slack, up

__all__ = ["LikelihoodPair"]

_FEW, _FEWER, _QUICK = 300, 40, 3e6
"""With as few reports, or where a list takes as few nanoseconds, points are faster one by one than sharing nodes;"""
_COARSE = 5e-6
"""with fewer still, where smoothing may add more than this to δ, relatively."""
_ROUGH = 2.0
"""Where a list of outcomes has ends with a larger ratio, it does not go far enough."""
_STEEPEST = 300.0
"""With a larger likelihood ratio than exp(this), nobody hides anybody: 10¹⁵ reports are far too few."""


@dataclass(frozen=True)
class LikelihoodPair(Pair, name="likelihood-pair"):
    """The victim's report, from R₀ or R₁, among n − 1 reports from the reference distribution; in this direction."""

    reports: int
    likelihoods: Likelihoods
    local_epsilon: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Keep the largest ln R₀/R₁."""
        object.__setattr__(self, "local_epsilon", self.likelihoods.reach)

    @property
    def hides(self) -> bool:
        """Whether the likelihood ratios are such that anybody can hide anybody."""
        return self.local_epsilon <= _STEEPEST

    def advantage(self, epsilon: float) -> float:
        """Return δ(ε) of a single report, which no number of reports exceeds."""
        return self.likelihoods.advantage(epsilon)

    def guess(self, delta: float) -> tuple[float, float]:
        """Return roughly the ε at which δ(ε) = delta, and d log δ/dε there.

        The larger of two limits, as for clones: many reports, where the profile is Gaussian; and few that matter, where
        δ(ε) is that of a report alone, times the probability that nobody reports anything else than what speaks for the
        first input.
        """
        reach = self.local_epsilon
        many, slope = 0.0, -1.0
        if reach < 300:
            distribution = self.distribution(0.0)
            many, slope = gaussian_guess(distribution.scale * distribution.spread, delta)
        kept = [probability for first, second, probability in self.likelihoods.rows if first > second]
        alone = self.advantage(0.0)
        if alone == 0:
            return many, slope
        log_kept = math.log(math.fsum((*kept, self.likelihoods.missing)))
        log_left = math.log(delta) - math.log(alone) - (self.reports - 1) * log_kept
        if log_left >= 0:
            return many, slope
        few = reach + math.log1p(math.exp(log_left) * math.expm1(-reach))
        return (many, slope) if many > few else (few, -1 / max(math.expm1(reach - few), 1e-300))

    def distribution(self, epsilon: float) -> Distribution:
        """Return the distribution of W at ε, its largest value first and its smallest one second."""
        values, probabilities = self.likelihoods.values(epsilon), self.likelihoods.probabilities
        order = sorted(range(len(values)), key=values.__getitem__)
        order = [order[-1], order[0], *order[1:-1]]
        unit = values[order[0]] - values[order[1]]
        return Distribution(
            self.reports,
            unit / self.reports,
            tuple(values[index] / unit for index in order),
            tuple(probabilities[index] for index in order),
            -math.expm1(epsilon) / unit,
            zero=self.likelihoods.missing,
        )

    def shuffled(self, epsilon: float, tolerance: float | None) -> tuple[float, float]:
        """Return δ(ε) from both sides: in closed form, listed, or or by inversion."""
        closed = self.unopposed(epsilon)
        if closed is not None:
            return closed
        return super().shuffled(epsilon, tolerance)

    def brackets(
        self, epsilons: NDArray[np.float64], tolerance: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return lower and upper bounds of δ at each of these ε: from one list of outcomes, if they are few."""
        outcomes = _outcomes(self.likelihoods, self.reports) if self.reports > 1 and self.hides else None
        if outcomes is None:
            return self._summed(epsilons, tolerance)
        lower, upper = outcomes.brackets(epsilons)
        alone = up(np.array([self.advantage(epsilon) for epsilon in epsilons.tolist()]), roundings=8)
        upper = np.minimum(upper, alone)
        rough = (upper > _ROUGH * lower) & (alone > 0)
        if np.any(rough):
            lower[rough], upper[rough] = self._summed(epsilons[rough], tolerance)
        return np.minimum(lower, upper), upper

    def _summed(
        self, epsilons: NDArray[np.float64], tolerance: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the same one by one, or with shared nodes, whichever is faster."""
        chosen = windows(self.distribution(float(epsilons[len(epsilons) // 2]))) if self.hides else None
        few = _FEW if tolerance < _COARSE else _FEWER
        if self.reports <= few or (chosen is not None and chosen.nanoseconds <= _QUICK):
            return self.one_by_one(epsilons, tolerance)
        return super().brackets(epsilons, tolerance)

    def unopposed(self, epsilon: float) -> tuple[float, float] | None:
        """Return δ(ε) from both sides, in closed form, where one negative W outweighs n positive ones; or nothing.

        Then ΣW is positive only if none is negative, and δ = a·(1 − p)ⁿ⁻¹ with a = E[W₊] and p = Pr(W < 0).
        """
        # By the sign of W itself: a difference of rounded logarithms may be on the other side of ε.
        values, probabilities = self.likelihoods.values(epsilon), self.likelihoods.probabilities
        against = [-value for value in values if value < 0]
        if not against or self.reports * max(values) * (1 + 1e-12) > min(against):
            return None
        kept = [probability for value, probability in zip(values, probabilities, strict=True) if value >= 0]
        exponent = (self.reports - 1) * math.log(math.fsum((*kept, self.likelihoods.missing)))
        value = self.advantage(epsilon) * math.exp(exponent)
        wrong = slack(32) * (2 + abs(exponent) + self.reports)
        return (value * (1 - wrong), value * (1 + wrong)) if wrong < 1e-6 else None

    def unhidden(self, epsilon: float) -> float:
        """Return a lower bound of δ(ε) that is good where hardly anybody can hide the victim.

        E[(ΣW)₊] is at least the mean of ΣW on any event. Two events: exactly one W is positive; none is negative. With
        p = Pr(W > 0), a = E[W₊] and hence E[W₋] = a + e^ε − 1, the first gives
        δ ≥ (1 − p)ⁿ⁻²·((1 − p)·a − (n − 1)·p·E[W₋]), and with p = Pr(W < 0) the second gives δ ≥ (1 − p)ⁿ⁻¹·a.
        """
        alone, others = self.advantage(epsilon), self.reports - 1
        signs, probabilities = self.likelihoods.signs(epsilon), self.likelihoods.probabilities
        above = math.fsum(each for sign, each in zip(signs, probabilities, strict=True) if sign > 0)
        below = math.fsum(each for sign, each in zip(signs, probabilities, strict=True) if sign < 0)
        one = alone * (1 - self.reports * above) - others * above * (alone + math.expm1(epsilon))
        none = alone * max(0.0, 1 - others * below)
        return max(0.0, one, none) * (1 - 1e-13)

    def renyi(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return upper bounds of the Rényi divergence at each order, where exchanging R₀ and R₁ changes nothing."""
        if not self.likelihoods.symmetric:
            raise NoPairError("no Rényi divergence of one direction alone; use a pair that is the same in both")
        return self.one_way(orders)

    def one_way(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return upper bounds of the Rényi divergence D_α(P‖Q) at each order, in this direction."""
        known = self.likelihoods
        apart = max((abs(first - second) for first, second, _ in known.rows), default=0.0)
        if apart == 0:
            return np.zeros_like(orders)
        if not apart < math.inf:
            raise NoPairError("the Rényi divergence is infinite: some reports are impossible for one of the two inputs")
        firsts, seconds, probabilities = np.array(known.rows).T
        kinds = Kinds(self.reports, firsts, seconds, probabilities, known.missing)
        return renyi_upper(kinds, apart, orders, symmetric=known.symmetric)

    def parameters(self) -> dict[str, Any]:
        """Return the arguments of the pair as plain values."""
        known = self.likelihoods
        rows = [list(row) for row in known.rows]
        return {"reports": self.reports, "rows": rows, "complete": known.complete, "rest": known.rest}

    @classmethod
    def of_parameters(cls, parameters: Mapping[str, Any]) -> "LikelihoodPair":
        """Return the pair with these arguments, as `parameters` gives them."""
        given = dict(parameters)
        reports, rows = given.pop("reports"), tuple((float(a), float(b), float(p)) for a, b, p in given.pop("rows"))
        return cls(reports, Likelihoods(rows, **given))


@lru_cache(maxsize=16)
def _outcomes(likelihoods: Likelihoods, reports: int) -> OutcomeList | None:
    """Return the list of all outcomes, if it is short; what neither input reports is a kind of its own."""
    firsts = (*(math.exp(first) for first, _, _ in likelihoods.rows), 0.0)
    seconds = (*(math.exp(second) for _, second, _ in likelihoods.rows), 0.0)
    return outcome_list(firsts, seconds, (*likelihoods.probabilities, likelihoods.missing), reports)
