"""What a bound answers: δ at ε and ε at δ, as plain floats that are already on the safe side."""

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from shoal.errors import NoPairError
from shoal.numerics.profile_grid import DeltaGrid, Mesh

if TYPE_CHECKING:
    from shoal.proofs.claim import Claim

__all__ = ["Bracket", "Gridded", "Profile", "UpperProfile"]


class Bracket(NamedTuple):
    """Two numbers around an exact one."""

    lower: float
    upper: float


class Profile(Protocol):
    """What a curve asks of a bound."""

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded up."""

    def epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded up."""

    def bracket(self, delta: float) -> tuple[float, float]:
        """Return ε(δ) of the pair, rounded down and up."""

    def renyi(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return Rényi divergences, rounded up."""

    def provable(self) -> "Claim | None":
        """Return what a certificate claims, or nothing if the profile alone has no proof in ball arithmetic."""


@runtime_checkable
class Gridded(Protocol):
    """A profile with bounds of δ(ε) at the knots of a grid.

    If its attribute `costly` is true, they are slow to compute, and fewer of them are asked for.
    """

    def grid(self, mesh: Mesh) -> DeltaGrid:
        """Return lower and upper bounds of δ at the knots of the grid."""


class UpperProfile:
    """A profile that bounds δ(ε) from above and has no exact pair: it refuses what only a pair answers.

    `no_bracket` and `no_renyi` are the refusals, in which `{self…}` stands for what the profile knows; `numerical` is
    the bound that has a pair. One that knows lower bounds of δ(ε) nevertheless says that it is `bracketed`.
    """

    bracketed: bool = False
    numerical: str = "strong-clones"
    no_bracket = 'a closed form has no pair, and hence not an exact value to bracket; use bound="{self.numerical}"'
    no_renyi = 'a closed form has no pair, and hence not a Rényi divergence; use bound="{self.numerical}"'

    def provable(self) -> "Claim | None":
        """Return nothing: there is no proof in ball arithmetic."""
        return None

    def bracket(self, delta: float) -> tuple[float, float]:
        """Refuse, with what to ask instead."""
        raise NoPairError(self.no_bracket.format(self=self))

    def renyi(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        """Refuse, with what to ask instead."""
        raise NoPairError(self.no_renyi.format(self=self))
