"""The pair of a given randomizer: what its likelihoods make of n reports.

With the blanket as the reference, this is an upper bound for every dataset (Lemma 5.3 of Balle, Bell, Gascón and
Nissim, arXiv 1903.02837); with the distribution of an input that all others hold, it is exactly what they get.
"""

import math
from dataclasses import dataclass

from shoal.evaluators.distribution import Distribution
from shoal.pairs.likelihoods import Likelihoods
from shoal.pairs.pair import gaussian_guess

__all__ = ["LikelihoodPair"]


@dataclass(frozen=True)
class LikelihoodPair:
    """The victim's report, from R₀ or R₁, among n − 1 reports from the reference distribution."""

    reports: int
    likelihoods: Likelihoods

    def advantage(self, epsilon: float) -> float:
        """Return δ(ε) of a single report, which no number of reports exceeds."""
        return self.likelihoods.advantage(epsilon)

    def guess(self, delta: float) -> tuple[float, float]:
        """Return roughly the ε at which δ(ε) = delta, and d log δ/dε there.

        The larger of two limits, as for clones: many reports, where the profile is Gaussian; and few that matter, where
        δ(ε) is that of a report alone, times the probability that nobody reports anything else than what speaks for the
        first input.
        """
        reach = self.likelihoods.reach
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
            tuple(values[place] / unit for place in order),
            tuple(probabilities[place] for place in order),
            -math.expm1(epsilon) / unit,
            zero=self.likelihoods.missing,
        )

    def unopposed(self, epsilon: float) -> tuple[float, float] | None:
        """Return δ(ε) from both sides, in closed form, where one negative W outweighs n positive ones; or nothing.

        Then ΣW is positive only if none is negative, and δ = a·(1 − p)ⁿ⁻¹ with a = E[W₊] and p = Pr(W < 0).
        """
        against = [
            math.exp(first) * math.expm1(epsilon + second - first)
            for first, second, _ in self.likelihoods.rows
            if first - second < epsilon
        ]
        values = self.likelihoods.values(epsilon)
        if not against or self.reports * max(values) * (1 + 1e-12) > min(against):
            return None
        kept = [probability for (first, second, probability) in self.likelihoods.rows if first - second >= epsilon]
        exponent = (self.reports - 1) * math.log(math.fsum((*kept, self.likelihoods.missing)))
        value = self.advantage(epsilon) * math.exp(exponent)
        slack = 2.0**-48 * (2 + abs(exponent) + self.reports)
        return (value * (1 - slack), value * (1 + slack)) if slack < 1e-6 else None

    def depth(self, epsilon: float) -> float:
        """Return roughly −log of E[(ΣW)₊] in units of the distribution, by Chernoff's bound; perhaps too large."""
        distribution = self.distribution(epsilon)
        pairs = [
            (value, probability)
            for value, probability in zip(distribution.values, distribution.probabilities, strict=True)
        ]

        def exponent(tilt: float) -> float:
            moment = (
                math.fsum(probability * math.exp(min(tilt * value, 700.0)) for value, probability in pairs)
                + distribution.missing
            )
            return self.reports * math.log(moment) - math.log(tilt)

        low, high = -6.0, 6.0
        for _ in range(24):
            third = (high - low) / 3
            if exponent(math.exp(low + third)) < exponent(math.exp(high - third)):
                high -= third
            else:
                low += third
        return max(0.0, -exponent(math.exp(0.5 * (low + high))))

    def unhidden(self, epsilon: float) -> float:
        """Return a lower bound of δ(ε) that is good where hardly anybody can hide the victim.

        E[(ΣW)₊] is at least the mean of ΣW on any event. Two events: exactly one W is positive; none is negative. With
        p = Pr(W > 0), a = E[W₊] and hence E[W₋] = a + e^ε − 1, the first gives
        δ ≥ (1 − p)ⁿ⁻²·((1 − p)·a − (n − 1)·p·E[W₋]), and with p = Pr(W < 0) the second gives δ ≥ (1 − p)ⁿ⁻¹·a.
        """
        alone, others = self.advantage(epsilon), self.reports - 1
        above = math.fsum(
            probability for first, second, probability in self.likelihoods.rows if first - second > epsilon
        )
        below = math.fsum(
            probability for first, second, probability in self.likelihoods.rows if first - second < epsilon
        )
        one = alone * (1 - self.reports * above) - others * above * (alone + math.expm1(epsilon))
        none = alone * max(0.0, 1 - others * below)
        return max(0.0, one, none) * (1 - 1e-13)
