"""A randomizer known only by how it decomposes: the premise of Theorem 4.1."""

from dataclasses import dataclass

from shoal.checks import positive
from shoal.errors import ParameterError

__all__ = ["Decomposition"]


@dataclass(frozen=True, kw_only=True)
class Decomposition:
    """An ε₀-DP randomizer whose laws split into a part of their own and a common one.

    For every two inputs x⁰, x¹ there are laws Q₀, Q₁(x⁰), Q₁(x¹) such that R(xᵇ) = q·Q₁(xᵇ) + (1 − q)·Q₀, and every
    other input x has R(x) ≥ p·Q₁(x⁰) + p·Q₁(x¹) + p·Q₀ (Theorem 4.1, arXiv 2012.12803v3).

    Parameters
    ----------
    blanket_chance : p, in (0, 1/3].
    own_chance : q, in (0, 1].
    local_epsilon : ε₀.

    Examples
    --------
    >>> Decomposition(blanket_chance=0.1, own_chance=0.4, local_epsilon=2.0).own_chance
    0.4
    """

    blanket_chance: float
    own_chance: float
    local_epsilon: float

    def __post_init__(self) -> None:
        """Check the arguments."""
        for name, most in (("blanket_chance", 1 / 3), ("own_chance", 1.0)):
            value = positive(**{name: getattr(self, name)})
            if value > most:
                raise ParameterError(f"{name} must be at most {most:.4g}, got {value!r}")
            object.__setattr__(self, name, value)
        object.__setattr__(self, "local_epsilon", positive(local_epsilon=self.local_epsilon))
