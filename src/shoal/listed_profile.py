"""A guarantee that is known by numbers only: bounds of δ at some ε, with chords in e^ε between them."""

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.errors import NoPairError, ParameterError, UnreachableError
from shoal.numerics.profile_grid import DeltaGrid, Mesh, grid_of
from shoal.privacy_profile import UpperProfile
from shoal.rounding import down, up

__all__ = ["ListedProfile"]

_MOST_KNOTS = 20_000
_LARGEST = 600.0
"""Of ε: beyond, exponentials overflow."""


@dataclass(frozen=True)
class ListedProfile(UpperProfile):
    """Upper bounds of δ at ascending ε, from zero on; between two of them δ, convex in e^ε, is below their chord.

    Parameters
    ----------
    epsilons : tuple of float
        The knots, the first of them 0.
    deltas : tuple of float
        A bound of δ at each, which never grows. The last one holds for every larger ε, too.

    Examples
    --------
    >>> profile = ListedProfile((0.0, 1.0, 2.0), (0.4, 0.1, 0.0))
    >>> round(profile.delta(0.5), 4), profile.delta(3.0), round(profile.epsilon(0.05), 4)
    (0.2867, 0.0, 1.6201)
    """

    epsilons: tuple[float, ...]
    deltas: tuple[float, ...]

    no_bracket = (
        "nothing but upper bounds of δ is known of a central mechanism, and hence not an exact value to bracket"
    )
    no_renyi = (
        "a central mechanism that came as privacy losses has some of infinite size, and hence an infinite Rényi "
        "divergence; compose it by losses, in a ledger with planned=True"
    )

    def __post_init__(self) -> None:
        """Check the numbers."""
        epsilons, deltas = np.array(self.epsilons, dtype=np.float64), np.array(self.deltas, dtype=np.float64)
        if epsilons.ndim != 1 or epsilons.shape != deltas.shape or not 1 <= len(epsilons) <= _MOST_KNOTS:
            raise ParameterError(f"there must be as many deltas as epsilons, 1 to {_MOST_KNOTS:,}")
        if epsilons[0] != 0 or not (np.all(np.diff(epsilons) > 0) and epsilons[-1] <= _LARGEST):
            raise ParameterError(f"epsilons must ascend from 0 to at most {_LARGEST:g}", "epsilons")
        if not (np.all((deltas >= 0) & (deltas <= 1)) and np.all(np.diff(deltas) <= 0)):
            raise ParameterError("deltas must be from 0 to 1, and must not grow", "deltas")

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded up."""
        if epsilon >= self.epsilons[-1]:
            return self.deltas[-1]
        index = bisect_right(self.epsilons, epsilon) - 1
        before, after = self.epsilons[index : index + 2]
        high, low = self.deltas[index : index + 2]
        ratio = math.expm1(down(epsilon - before, roundings=4)) / math.expm1(after - before)
        share = max(0.0, down(ratio, roundings=8))
        return min(high, up((1 - share) * high + share * low, roundings=8))

    def epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded up."""
        if delta < self.deltas[-1]:
            raise UnreachableError(
                f"delta={delta:.6g} is below {self.deltas[-1]:.6g}, which this mechanism has at every epsilon "
                "(rounding and losses of infinite size); use a larger delta"
            )
        index = bisect_left(self.deltas, -delta, key=lambda each: -each)
        if index == 0:
            return 0.0
        before, after = self.epsilons[index - 1 : index + 1]
        high, low = self.deltas[index - 1 : index + 1]
        found = before + math.log1p((high - delta) / (high - low) * math.expm1(after - before))
        found = min(after, max(before, up(found, roundings=16)))
        while found < after and self.delta(found) > delta:
            found = min(after, up(found, roundings=64))
        return found

    def grid(self, mesh: Mesh) -> DeltaGrid:
        """Return upper bounds of δ on the grid; nothing is known from below."""

        def brackets(points: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
            return np.zeros(len(points)), np.array([self.delta(point) for point in points.tolist()])

        return grid_of(brackets, mesh)

    def provable(self) -> None:
        """Refuse: what another library has computed in floats cannot be computed again in balls."""
        raise NoPairError(
            "its privacy losses were computed by another library, in floating point, and came without the mechanism "
            "that they belong to; nothing here can compute them again in ball arithmetic"
        )
