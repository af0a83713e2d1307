"""What split and mix guarantees: discrete Laplace noise on a sum, and how far messages are from telling it alone."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shoal.numerics.profile_grid import DeltaGrid, Mesh, grid_of
from shoal.pairs.dummy_pair import DECAYS
from shoal.privacy_profile import UpperProfile
from shoal.proofs.balls import above, ball, precision
from shoal.proofs.several_messages_claim import excess_above
from shoal.rounding import slack, up
from shoal.searches import bisect_safe

if TYPE_CHECKING:
    from shoal.proofs.several_messages_claim import MixClaim

__all__ = ["MixProfile", "distance_above"]

_BITS = 192
_LARGEST = 700.0
"""From here on e^ε is not formed in doubles."""


@dataclass(frozen=True)
class MixProfile(UpperProfile):
    """The δ(ε) of discrete Laplace noise on a sum that one person moves by Δ, and (1 + e^ε)·η.

    Parameters
    ----------
    honest : int
        H, how many people are certainly honest.
    messages, modulus : int
        m and q.
    decay : int
        2⁶⁴·a of the noise of the sum of H people.
    steps : int
        Δ.
    """

    honest: int
    messages: int
    modulus: int
    decay: int
    steps: int

    no_bracket = "of split and mix nothing but an upper bound is known, and hence not an exact value to bracket"
    no_renyi = (
        "the Rényi divergence of split and mix may be infinite: with a small probability, messages tell more than the "
        "sum; use epsilon and delta"
    )

    @cached_property
    def limit(self) -> float:
        """The largest loss of the noise, Δ·ln(1/a), rounded up: from there on nothing but the failure is left."""
        with precision(_BITS):
            return above(-self.steps * (ball(self.decay) / DECAYS).log())

    @cached_property
    def distance(self) -> float:
        """The η that what is seen of H people is from their sum alone, in total variation, rounded up."""
        return distance_above(self.honest, self.messages, self.modulus)

    @cached_property
    def failure(self) -> float:
        """The δ that remains at every ε, (1 + e^limit)·η, rounded up."""
        return min(1.0, self._told(self.limit))

    def _told(self, epsilon: float) -> float:
        """Return (1 + e^ε)·η, rounded up; infinite where e^ε is no double: η is above 10⁻¹⁶³, and it is above 1."""
        return up((1 + math.exp(epsilon)) * self.distance, roundings=16) if epsilon < _LARGEST else math.inf

    def _of_noise(self, epsilon: float) -> float:
        """Return δ(ε) of the noise: 1 − (a^(m + 1) + e^ε·a^(Δ − m))/(1 + a) at the m where it is largest."""
        rate = self.limit / self.steps
        middle = math.floor((self.steps - 1 - epsilon / rate) / 2)
        decay = self.decay / DECAYS
        return max(
            (-math.expm1(-(m + 1) * rate) - decay * math.expm1(epsilon - (self.steps - m - 1) * rate)) / (1 + decay)
            for m in range(max(-1, middle - 1), min(self.steps, middle + 2) + 1)
        )

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded up."""
        if epsilon >= self.limit:
            return self.failure
        total = up(max(0.0, self._of_noise(epsilon)) + self._told(epsilon), roundings=8)
        return min(1.0, total + slack(16) * (1 + self.limit))

    def epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded up: infinite where the failure is likelier than δ."""
        if delta < self.failure:
            return math.inf
        if self.delta(0.0) <= delta:
            return 0.0
        return bisect_safe(lambda point: self.delta(point) <= delta, unsafe=0.0, good=self.limit, relative=1e-13)

    def grid(self, mesh: Mesh) -> DeltaGrid:
        """Return upper bounds of δ on the grid; nothing is known from below."""

        def brackets(points: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
            return np.zeros(len(points)), np.array([self.delta(point) for point in points.tolist()])

        return grid_of(brackets, mesh._replace(ceiling=min(mesh.ceiling, max(self.limit, mesh.step))))

    def provable(self) -> "MixClaim | None":
        """Return what a certificate claims; a subclass has other numbers, and no claim."""
        from shoal.proofs.several_messages_claim import MixClaim

        if type(self) is not MixProfile:
            return None
        return MixClaim(self.honest, self.messages, self.modulus, self.decay, self.steps)


def distance_above(people: int, messages: int, modulus: int) -> float:
    """Return ½·√(e − 1), rounded up: how far messages of so many people are from telling their sum alone."""
    return min(1.0, up(math.sqrt(excess_above(people, messages, modulus)) / 2, roundings=8))
