"""A randomizer known only by how it decomposes: the premise of Theorem 4.1."""

from dataclasses import dataclass
from typing import ClassVar

from shoal.checks import positive
from shoal.errors import ParameterError
from shoal.pairs.decomposition_pair import largest_local_epsilon
from shoal.pairs.likelihoods import Likelihoods
from shoal.randomizers.registry import register

__all__ = ["Decomposition"]

_ROUNDING = 1e-12
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
                parameter="blanket_probability",
            )
        if self.own_probability > 1:
            raise ParameterError(
                f"own_probability must be at most 1, got {self.own_probability!r}", parameter="own_probability"
            )
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
