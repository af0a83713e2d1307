"""What no bound can beat: a type of its own, so that nobody takes it for a guarantee."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from shoal.checks import Number, Numbers, each, non_negative, probability
from shoal.digits import rounded_down
from shoal.shown import ShownCurve

if TYPE_CHECKING:
    from shoal.charts import Chart

__all__ = ["LowerBound", "LowerProfile"]


class LowerProfile(Protocol):
    """What a lower bound asks of the pairs behind it."""

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded down."""

    def epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded down."""


@dataclass(frozen=True)
class LowerBound(ShownCurve):
    """What no bound can beat, because real inputs reach it; rounded *down*, and never a guarantee.

    Attributes
    ----------
    description : str
        The datasets that reach it.
    reports, local_epsilon : int, float
        n and ε₀.
    """

    description: str
    reports: int
    local_epsilon: float
    profile: LowerProfile

    @overload
    def epsilon(self, delta: Number) -> float: ...
    @overload
    def epsilon(self, delta: Numbers) -> NDArray[np.float64]: ...
    def epsilon(self, delta: Number | Numbers) -> float | NDArray[np.float64]:
        """Return an ε below which no guarantee with this δ is true; arrays broadcast."""
        return each(lambda value: self.profile.epsilon(probability(delta=value, zero=True)), delta)

    @overload
    def delta(self, epsilon: Number) -> float: ...
    @overload
    def delta(self, epsilon: Numbers) -> NDArray[np.float64]: ...
    def delta(self, epsilon: Number | Numbers) -> float | NDArray[np.float64]:
        """Return a δ below which no guarantee with this ε is true; arrays broadcast."""
        return each(lambda value: self.profile.delta(non_negative(epsilon=value)), epsilon)

    def _epsilon_or_nan(self, delta: float) -> float:
        return self.epsilon(delta)

    def _shown(self, epsilon: float) -> str:
        return f"≥ {rounded_down(epsilon)}"

    def _caption(self) -> str:
        return f"what no bound can beat: {self.description}"

    def chart(self, *, delta: float = 1e-6, points: int = 41) -> "Chart":
        """Return ε against δ, below which no guarantee is true."""
        return self._drawn(delta=delta, points=points)

    def __repr__(self) -> str:
        """Show the lower limit at δ = 1e-6."""
        limit = rounded_down(self.epsilon(1e-6))
        return f"LowerBound(ε ≥ {limit} at δ=1e-06, n={self.reports:,}, ε₀={self.local_epsilon:g})"
