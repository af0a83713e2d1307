"""The dominating pairs of the clones.

Everybody but the victim is, with some probability, a clone of the victim in one world or the other. The number of
clones is C ~ Bin(n − 1, p), half of them of each kind: A ~ Bin(C, 1/2). The victim adds Δ ~ Bernoulli(e^ε₀/(e^ε₀ +
1)):

    P = (A + Δ, C − A + 1 − Δ),    Q = (A + 1 − Δ, C − A + Δ).

The paper's pair has p = e^−ε₀ (Theorem 3.2); the stronger one has p = 2/(e^ε₀ + 1) (docs/theory/strong-clones.md).
"""

import math
from dataclasses import dataclass
from typing import Literal, Protocol

from shoal.checks import known
from shoal.errors import ParameterError
from shoal.evaluators.distribution import Distribution

__all__ = ["ClonePair", "DecompositionPair", "Family", "Pair", "RatioPair", "gaussian_guess"]

Family = Literal["clones", "strong-clones"]


class Pair(Protocol):
    """What the evaluators ask of a pair of distributions that depends on the number of reports."""

    @property
    def reports(self) -> int:
        """The number of reports, n."""

    def advantage(self, epsilon: float) -> float:
        """Return δ(ε) of a single report, which no number of reports exceeds."""

    def guess(self, delta: float) -> tuple[float, float]:
        """Return roughly the ε at which δ(ε) = delta, and d log δ/dε there."""

    def distribution(self, epsilon: float) -> Distribution:
        """Return the distribution of W at ε."""


def gaussian_guess(spread: float, delta: float) -> tuple[float, float]:
    """Return ε and d log δ/dε for δ(ε) = spread·(φ(t) − t·Φ(−t)), t = ε/spread, the limit of many reports."""
    if spread <= 0:
        return 0.0, -1.0
    target = max(delta / spread, 1e-320)
    if target >= 0.3989:
        return 0.0, -1 / spread
    steep, slope = math.sqrt(-2 * math.log(target)), -1.0
    for _ in range(8):
        tail = math.erfc(steep / math.sqrt(2)) / 2
        height = math.exp(-steep * steep / 2) / math.sqrt(2 * math.pi) - steep * tail
        if height <= 0 or tail <= 0:
            break
        slope = -tail / height
        move = (math.log(target) - math.log(height)) / slope
        steep = max(0.0, steep + move)
        if abs(move) < 1e-6:
            break
    return steep * spread, slope / spread


@dataclass(frozen=True)
class ClonePair:
    """The pair of n reports from ε₀-DP randomizers; `family` says how likely a clone is."""

    reports: int
    local_epsilon: float
    family: Family

    def __post_init__(self) -> None:
        """Check the family, from which the probability of a clone follows."""
        known(("clones", "strong-clones"), family=self.family)

    @property
    def clone_probability(self) -> float:
        """The probability p that one person is a clone."""
        small = math.exp(-self.local_epsilon)
        return small if self.family == "clones" else 2 * small / (1 + small)

    @property
    def other_probability(self) -> float:
        """1 − p, accurate also where p is close to one."""
        if self.family == "clones":
            return -math.expm1(-self.local_epsilon)
        return math.tanh(self.local_epsilon / 2)

    def advantage(self, epsilon: float) -> float:
        """Return δ(ε) of a single report, (e^ε₀ − e^ε)/(e^ε₀ + 1), which no number of reports exceeds."""
        return max(0.0, -math.expm1(epsilon - self.local_epsilon) / (1 + math.exp(-self.local_epsilon)))

    def threshold(self, epsilon: float) -> float:
        """Return the share β ≤ 1/2 of wrong clones below which the likelihood ratio exceeds e^ε."""
        falling = -math.expm1(epsilon - self.local_epsilon) / -math.expm1(-self.local_epsilon)
        return falling / (1 + math.exp(epsilon))

    def scale(self, epsilon: float) -> float:
        """Return the distance of the outer values of W, over n: δ(ε)/E[(βM − J)₊], M ~ Bin(n, p), J ~ Bin(M, 1/2)."""
        return 2 * (1 + math.exp(epsilon)) * math.tanh(self.local_epsilon / 2) / (self.clone_probability * self.reports)

    def guess(self, delta: float) -> tuple[float, float]:
        """Return roughly the ε at which δ(ε) = delta, and d log δ/dε there.

        The larger of two limits: many clones, where the profile is Gaussian; and few, where nothing but the event that
        every clone is of the right kind matters, of probability (1 − p/2)^(n − 1).
        """
        many, slope = 0.0, -1.0
        if self.clone_probability > 0:
            spread = 2 * math.tanh(self.local_epsilon / 2) / math.sqrt(self.clone_probability * self.reports)
            many, slope = gaussian_guess(spread, delta)
        log_right = math.log(delta) - (self.reports - 1) * math.log1p(-self.clone_probability / 2)
        if log_right >= 0:
            return many, slope
        loss = math.exp(log_right) * (1 + math.exp(-self.local_epsilon))
        few = self.local_epsilon + math.log1p(-loss) if loss < 1 else 0.0
        return (many, slope) if many > few else (few, -1 / max(math.expm1(self.local_epsilon - few), 1e-300))

    def distribution(self, epsilon: float) -> Distribution:
        """Return the distribution of W at ε: β and β − 1 for the two kinds of clones, 0 for everybody else."""
        probability = self.clone_probability
        share = self.threshold(epsilon)
        mean = -0.5 * probability * math.tanh(epsilon / 2) / math.tanh(self.local_epsilon / 2)
        return Distribution(
            self.reports, self.scale(epsilon), (share, share - 1), (probability / 2, probability / 2), mean
        )


@dataclass(frozen=True)
class RatioPair(ClonePair):
    """The strong clones with two ratios: p = e^ε₀ between the victim's distributions, q between theirs and others'.

    A clone has the probability 2p/(q(p + 1)) (docs/theory/strong-clones.md, two ratios); `log_ratio` is ln q.
    """

    log_ratio: float

    @property
    def clone_probability(self) -> float:
        """The probability that one person is a clone."""
        return 2 * math.exp(-self.log_ratio) / (1 + math.exp(-self.local_epsilon))

    @property
    def other_probability(self) -> float:
        """The probability that one is not."""
        small, own = math.exp(-self.log_ratio), math.exp(-self.local_epsilon)
        return (-math.expm1(-self.log_ratio) + own - small) / (1 + own)


@dataclass(frozen=True)
class DecompositionPair:
    """The pair of Theorem 4.1: the victim reports a symbol of their own with probability q, the common one otherwise.

    Everybody else reports each of the three symbols with probability p:
    (A, B, C, D) ~ Multinomial(n − 1; p, p, p, 1 − 3p), Γ ~ Bernoulli(q),
    P = (A + Γ, B, C + 1 − Γ) and Q = (A, B + Γ, C + 1 − Γ).
    """

    reports: int
    blanket_probability: float
    own_probability: float

    def __post_init__(self) -> None:
        """Check that the three symbols leave a probability for the rest."""
        if not (0 < self.blanket_probability <= 1 / 3 and 0 < self.own_probability <= 1):
            raise ParameterError(
                "blanket_probability must be greater than 0 and at most 1/3, own_probability greater than 0 and at "
                f"most 1; got {self.blanket_probability!r} and {self.own_probability!r}"
            )

    def advantage(self, epsilon: float) -> float:
        """Return δ(ε) of a single report: q, since a lone report shows which symbol it is."""
        return self.own_probability

    def guess(self, delta: float) -> tuple[float, float]:
        """Return roughly the ε at which δ(ε) = delta, and d log δ/dε there."""
        return gaussian_guess(self.own_probability * math.sqrt(2 / (self.blanket_probability * self.reports)), delta)

    def distribution(self, epsilon: float) -> Distribution:
        """Return the distribution of W at ε: q/p, −e^ε·q/p and −(e^ε − 1)(1 − q)/p, each with probability p, else 0."""
        share = 1 / (1 + math.exp(epsilon))
        probability, own = self.blanket_probability, self.own_probability
        half = math.tanh(epsilon / 2)
        scale = own * (1 + math.exp(epsilon)) / (probability * self.reports)
        drift = -half * (1 - own) / own
        return Distribution(
            self.reports, scale, (share, share - 1, drift), (probability,) * 3, -half * probability / own
        )
