"""The dominating pair of Theorem 4.1, arXiv 2012.12803v3: a randomizer that is known to decompose."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from shoal.checks import SMALLEST_DELTA, positive
from shoal.errors import NoPairError, ParameterError
from shoal.numerics.summand import Summand
from shoal.pairs.likelihoods import Likelihoods
from shoal.pairs.pair import Pair
from shoal.pairs.registry import register
from shoal.searches import gaussian_guess

if TYPE_CHECKING:
    from shoal.proofs.claim import Claim

_ROUNDING = 1e-12
"""What rounding p and q may add to the largest possible ε₀: k-ary randomized response is at the limit."""


def largest_local_epsilon(blanket_probability: float, own_probability: float) -> float:
    """Return the largest ε₀ of a randomizer with this p and q, ln(1 + q/p − min(q/(1 − q), 2)).

    The proof is in docs/theory/closed-forms.md, section 6.
    """
    both = 2 / own_probability if own_probability > 2 / 3 else 1 / (1 - own_probability)
    return math.log1p(own_probability * (1 / blanket_probability - both))


@dataclass(frozen=True)
class DecompositionPair(Pair):
    """The pair of Theorem 4.1: the victim reports a symbol of their own with probability q, the common one otherwise.

    Everybody else reports each of the three symbols with probability p:
    (A, B, C, D) ~ Multinomial(n − 1; p, p, p, 1 − 3p), Γ ~ Bernoulli(q),
    P = (A + Γ, B, C + 1 − Γ) and Q = (A, B + Γ, C + 1 − Γ).
    """

    reports: int
    blanket_probability: float
    own_probability: float
    local_epsilon: float

    def __post_init__(self) -> None:
        """Check that the three symbols leave a probability for the rest, and that a randomizer can have this ε₀."""
        if not (0 < self.blanket_probability <= 1 / 3 and 0 < self.own_probability <= 1):
            raise ParameterError(
                "blanket_probability must be greater than 0 and at most 1/3, own_probability greater than 0 and at "
                f"most 1; got {self.blanket_probability!r} and {self.own_probability!r}",
                "blanket_probability",
            )
        largest = largest_local_epsilon(self.blanket_probability, self.own_probability)
        if not 0 <= self.local_epsilon <= largest * (1 + _ROUNDING):
            raise ParameterError(
                f"local_epsilon must be at least 0 and at most {largest:.6g} with "
                f"blanket_probability={self.blanket_probability!r} and own_probability={self.own_probability!r}, got "
                f"{self.local_epsilon!r}",
                "local_epsilon",
            )

    def advantage(self, epsilon: float) -> float:
        """Return δ(ε) of a single report: q, since a lone report shows which symbol it is."""
        return self.own_probability

    def guess(self, delta: float) -> tuple[float, float]:
        """Return roughly the ε at which δ(ε) = delta, and d log δ/dε there."""
        return gaussian_guess(self.own_probability * math.sqrt(2 / (self.blanket_probability * self.reports)), delta)

    def distribution(self, epsilon: float) -> Summand:
        """Return the distribution of W at ε: q/p, −e^ε·q/p and −(e^ε − 1)(1 − q)/p, each with probability p, else 0."""
        share = 1 / (1 + math.exp(epsilon))
        probability = self.blanket_probability
        own = self.own_probability
        half = math.tanh(epsilon / 2)
        scale = own * (1 + math.exp(epsilon)) / (probability * self.reports)
        drift = -half * (1 - own) / own
        mean = -half * probability / own
        return Summand(self.reports, scale, (share, share - 1, drift), (probability,) * 3, mean)

    def epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded up; often it is ε₀, of which this pair knows nothing, and far from any guess."""
        local = self.local_epsilon
        if delta >= SMALLEST_DELTA and local and self.delta(local * (1 - 1e-12)) > delta:
            return local
        return super().epsilon(delta)

    def renyi(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        """Refuse: some outputs are impossible in one world."""
        raise NoPairError(
            "the pair of Theorem 4.1 has infinite Rényi divergence (some outputs are impossible in one world); "
            'use bound="strong-clones"'
        )

    def provable(self) -> "Claim | None":
        """Return the claim of this decomposition."""
        from shoal.proofs.clone_claim import DecompositionClaim

        if type(self) is not DecompositionPair:
            return None
        return DecompositionClaim(self.reports, self.blanket_probability, self.own_probability, self.local_epsilon)


"""What rounding p and q may add to the largest possible ε₀: k-ary randomized response is at the limit."""


@register("decomposition", "known only by how it decomposes")
@dataclass(frozen=True, kw_only=True)
class Decomposition:
    """An ε₀-DP randomizer whose output distributions split into a part of their own and a common one.

    For every two inputs x⁰, x¹ there are distributions Q₀, Q₁(x⁰), Q₁(x¹) such that R(xᵇ) = q·Q₁(xᵇ) + (1 − q)·Q₀, and
    R(x) ≥ p·Q₁(x⁰) + p·Q₁(x¹) + p·Q₀ for *every* input x that another person may hold, x⁰ and x¹ included (Theorem 4.1,
    arXiv 2012.12803v3). If it holds for the other inputs only, the result is false: with two inputs there are none.

    The premise bounds likelihood ratios by e^ε₀ ≤ 1 + q/p − min(q/(1 − q), 2), and every smaller ratio is possible
    (docs/theory/closed-forms.md, section 6). A larger ε₀ means that p is too large for the randomizer, and is refused.

    Parameters
    ----------
    blanket_probability : float
        p, in (0, 1/3).
    own_probability : float
        q, in (0, 1].
    local_epsilon : float
        ε₀, at most `largest_local_epsilon`.

    Examples
    --------
    >>> known = Decomposition(blanket_probability=0.05, own_probability=0.4, local_epsilon=2.0)
    >>> round(known.largest_local_epsilon, 4)
    2.1203
    """

    blanket: ClassVar[tuple[Likelihoods, ...]] = ()
    homogeneous: ClassVar[tuple[Likelihoods, ...]] = ()
    """No likelihood of it is known."""

    blanket_probability: float
    own_probability: float
    local_epsilon: float

    def __post_init__(self) -> None:
        """Check the arguments."""
        for name in ("blanket_probability", "own_probability", "local_epsilon"):
            object.__setattr__(self, name, positive(**{name: getattr(self, name)}))
        if self.blanket_probability >= 1 / 3:
            raise ParameterError(
                f"blanket_probability must be below 1/3, got {self.blanket_probability!r}: a randomizer that reaches "
                "1/3 ignores its input",
                "blanket_probability",
            )
        if self.own_probability > 1:
            raise ParameterError(f"own_probability must be at most 1, got {self.own_probability!r}", "own_probability")
        largest = self.largest_local_epsilon
        if self.local_epsilon > largest * (1 + _ROUNDING):
            raise ParameterError(
                f"no randomizer with local_epsilon={self.local_epsilon!r} has "
                f"blanket_probability={self.blanket_probability!r} and own_probability={self.own_probability!r}: they "
                f"leave at most {largest:.6g}. The inequality with blanket_probability must hold for every input that "
                "another person may hold, the two that are compared included; use the smaller blanket_probability "
                f"with which it does, or local_epsilon={largest:.6g} if it does already"
            )

    @property
    def decomposition(self) -> "Decomposition":
        """It is all that is known."""
        return self

    @property
    def largest_local_epsilon(self) -> float:
        """The largest ε₀ that a randomizer with this p and q can have, ln(1 + q/p − min(q/(1 − q), 2))."""
        return largest_local_epsilon(self.blanket_probability, self.own_probability)
