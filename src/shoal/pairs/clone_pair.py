"""The dominating pair of the clones.

Everybody but the victim is, with some probability, a clone of the victim in one world or the other. The number of
clones is C ~ Bin(n − 1, p), half of them of each kind: A ~ Bin(C, 1/2). The victim adds Δ ~ Bernoulli(e^ε₀/(e^ε₀ +
1)):

    P = (A + Δ, C − A + 1 − Δ),    Q = (A + 1 − Δ, C − A + Δ).

The paper's pair has p = e^−ε₀ (Theorem 3.2); the stronger one has p = 2/(e^ε₀ + 1) (docs/theory/strong-clones.md).
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.checks import SMALLEST_DELTA, known
from shoal.errors import ParameterError
from shoal.numerics.summand import Summand
from shoal.pairs.likelihoods import LikelihoodPair, response
from shoal.pairs.pair import UNHIDDEN, Pair
from shoal.searches import gaussian_guess

if TYPE_CHECKING:
    from shoal.proofs.claim import Claim

Family = Literal["clones", "strong-clones"]
"""Which pair of the clones: that of the paper (Theorem 3.2), or the stronger one (Theorem S)."""


class _Theorem(NamedTuple):
    """The probability p of a clone and 1 − p, of ε₀, and the multiple of δ₀ that it costs, of n, ε₀ and ε."""

    probability: Callable[[float], float]
    other: Callable[[float], float]
    charge: Callable[[int, float, float], float]


_THEOREMS: dict[str, _Theorem] = {
    "clones": _Theorem(
        probability=lambda local: math.exp(-local),
        other=lambda local: -math.expm1(-local),
        charge=lambda reports, local, central: (
            (math.exp(min(central, 700.0)) + 1) * (1 + math.exp(-local) / 2) * reports
        ),
    ),
    "strong-clones": _Theorem(
        probability=lambda local: 2 * math.exp(-local) / (1 + math.exp(-local)),
        other=lambda local: math.tanh(local / 2),
        charge=lambda reports, local, central: (reports - 1) * 2 * (math.exp(-local) + math.exp(central - local)) + 1,
    ),
}


class CloneLike(Pair):
    """Any pair in which each other report is, with some probability, a clone of the victim's, of one of two kinds."""

    @property
    @abstractmethod
    def clone_probability(self) -> float:
        """The probability p that one person is a clone."""

    @property
    @abstractmethod
    def other_probability(self) -> float:
        """1 − p, accurate also where p is close to one."""

    @property
    def hides(self) -> bool:
        """True if a clone can be expected at all; if not, one report is the answer."""
        return (self.reports - 1) * self.clone_probability >= UNHIDDEN and self.local_epsilon > SMALLEST_DELTA

    def advantage(self, epsilon: float) -> float:
        """Return δ(ε) of a single report, (e^ε₀ − e^ε)/(e^ε₀ + 1), which no number of reports exceeds."""
        return max(0.0, -math.expm1(epsilon - self.local_epsilon) / (1 + math.exp(-self.local_epsilon)))

    def threshold(self, epsilon: float) -> float:
        """Return the share β ≤ 1/2 of wrong clones below which the likelihood ratio exceeds e^ε."""
        falling = -math.expm1(epsilon - self.local_epsilon) / -math.expm1(-self.local_epsilon)
        return falling / (1 + math.exp(epsilon))

    def scale(self, epsilon: float) -> float:
        """Return the distance of the outer values of W, over n: δ(ε)/E[(βM − J)₊], M ~ Bin(n, p), J ~ Bin(M, 1/2)."""
        distance = 2 * (1 + math.exp(epsilon)) * math.tanh(self.local_epsilon / 2)
        return distance / (self.clone_probability * self.reports)

    def guess(self, delta: float) -> tuple[float, float]:
        """Return roughly the ε at which δ(ε) = delta, and d log δ/dε there.

        The larger of two limits: many clones, where the profile is Gaussian; and few, where nothing but the event that
        every clone is of the right kind matters, of probability (1 − p/2)^(n − 1).
        """
        many = 0.0
        slope = -1.0
        if self.clone_probability > 0:
            spread = 2 * math.tanh(self.local_epsilon / 2) / math.sqrt(self.clone_probability * self.reports)
            many, slope = gaussian_guess(spread, delta)
        every = (self.reports - 1) * math.log1p(-self.clone_probability / 2)
        log_right = math.log(delta) - every
        if log_right >= 0:
            return many, slope
        loss = math.exp(log_right) * (1 + math.exp(-self.local_epsilon))
        few = self.local_epsilon + math.log1p(-loss) if loss < 1 else 0.0
        if many > few:
            return many, slope
        return few, -1 / max(math.expm1(self.local_epsilon - few), 1e-300)

    def distribution(self, epsilon: float) -> Summand:
        """Return the distribution of W at ε: β and β − 1 for the two kinds of clones, 0 for everybody else."""
        probability = self.clone_probability
        share = self.threshold(epsilon)
        mean = -0.5 * probability * math.tanh(epsilon / 2) / math.tanh(self.local_epsilon / 2)
        values = (share, share - 1)
        probabilities = (probability / 2, probability / 2)
        return Summand(self.reports, self.scale(epsilon), values, probabilities, mean)

    def renyi(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return upper bounds of the Rényi divergence at each order."""
        local = self.local_epsilon
        if local == 0 or self.clone_probability == 0:
            return np.full_like(orders, local)
        if self.reports == 1 or not self.hides:
            return LikelihoodPair(1, response(2, local).blanket[0]).renyi(orders)
        return super().renyi(orders)


@dataclass(frozen=True)
class ClonePair(CloneLike):
    """The pair of n reports from ε₀-DP randomizers; `family` says how likely a clone is."""

    reports: int
    local_epsilon: float
    family: Family

    def __post_init__(self) -> None:
        """Check the family, from which the probability of a clone follows."""
        known(tuple(_THEOREMS), family=self.family)

    def __str__(self) -> str:
        """Return the pair in a few words, with all its numbers."""
        return f"{self.family}, {self.reports:,} reports, local_epsilon={self.local_epsilon!r}"

    @property
    def clone_probability(self) -> float:
        """The probability p that one person is a clone."""
        return _THEOREMS[self.family].probability(self.local_epsilon)

    @property
    def other_probability(self) -> float:
        """1 − p, accurate also where p is close to one."""
        return _THEOREMS[self.family].other(self.local_epsilon)

    def provable(self) -> "Claim | None":
        """Return the claim of these clones."""
        from shoal.proofs.clone_claim import CloneClaim

        if type(self) is not ClonePair:
            return None
        return CloneClaim(self.reports, float(self.local_epsilon), 0.0, self.family)

    def charge(self, epsilon: float) -> float:
        """Return what δ₀ costs at ε: the paper's theorem for the clones, the sharper one for the strong clones."""
        return _THEOREMS[self.family].charge(self.reports, self.local_epsilon, epsilon)


@dataclass(frozen=True)
class RatioPair(CloneLike):
    """The strong clones with two ratios: p = e^ε₀ between the victim's distributions, q between theirs and others'.

    A clone has the probability 2p/(q(p + 1)) (docs/theory/strong-clones.md, two ratios); `log_ratio` is ln q.
    """

    reports: int
    local_epsilon: float
    log_ratio: float

    def __post_init__(self) -> None:
        """Check that q is at least p: otherwise a clone would have a probability above one."""
        if not isinstance(self.log_ratio, float) or not 0 <= self.local_epsilon <= self.log_ratio < math.inf:
            raise ParameterError(
                f"local_epsilon must be at least 0 and at most log_ratio, a float; got {self.local_epsilon!r} and "
                f"{self.log_ratio!r}",
                "local_epsilon",
            )

    @property
    def clone_probability(self) -> float:
        """The probability that one person is a clone."""
        return 2 * math.exp(-self.log_ratio) / (1 + math.exp(-self.local_epsilon))

    @property
    def other_probability(self) -> float:
        """The probability that one is not."""
        small = math.exp(-self.log_ratio)
        own = math.exp(-self.local_epsilon)
        return (-math.expm1(-self.log_ratio) + own - small) / (1 + own)

    def provable(self) -> "Claim | None":
        """Return the claim of these clones."""
        from shoal.proofs.clone_claim import RatioClaim

        if type(self) is not RatioPair:
            return None
        return RatioClaim(self.reports, float(self.local_epsilon), self.log_ratio)
