"""The profiles of examples that join steps by themselves: one epoch of allocation, one step of Poisson sampling.

Each is one direction of a pair, so that adding and removing are composed apart (docs/theory/samplers.md).
"""

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from shoal.amplification.gaussian_clones import FARTHEST
from shoal.checks import SMALLEST_DELTA
from shoal.numerics.allocated_delta import allocated_delta, allocated_floor
from shoal.numerics.noise import gaussian_epsilon
from shoal.numerics.normal import gaussian_delta, quantile, upper_tail
from shoal.numerics.profile_grid import Brackets, DeltaGrid, Mesh, grid_of, remembered
from shoal.numerics.ramp_sums import LITTLE_NOISE
from shoal.pairs import gaussian_guess
from shoal.privacy_profile import UpperProfile
from shoal.rounding import slack
from shoal.searches import smallest_safe

_GOAL = 2e-3
_COSTLY_GOAL = 8e-3
"""How far apart the ends of a grid may be, where only the upper one is known: it is nearer than the other.

The second is for replacing in an allocation, where every knot takes long; ε grows by less than 1e-4 of itself.
"""
_GUESSED = 0.1
"""The same for a tilt that is a guess."""
_PAST = 1e-7
"""How far past the smallest safe ε the search looks, relatively."""
_ABOVE_FLOOR = 2.0
"""Where δ is bounded by less than so many times the floor, most of it is the floor."""
TINY = 16 * 5e-324
"""By how much a tail that is hardly a double may be too large."""
REVERSED = {"remove": "add", "add": "remove", "replace": "replace"}
"""The three directions, each with the one that exchanges the two worlds."""


@dataclass(frozen=True)
class _Directed(UpperProfile):
    """One direction of a pair.

    Attributes
    ----------
    separation : float
        a, how far an example moves a sum, in deviations of the noise.
    direction : str
        "remove", "add" or "replace".
    """

    separation: float
    direction: str

    no_bracket = "examples that join steps by themselves are known from above only; ask for epsilon"
    no_renyi = "examples that join steps by themselves are known by δ(ε) only; ask for epsilon"

    @property
    @abstractmethod
    def spread(self) -> float:
        """Roughly the standard deviation of the loss."""

    @abstractmethod
    def _deltas(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return δ at each ε, rounded up."""

    @property
    def goal(self) -> float:
        """How far apart the ends of a grid may be."""
        return _GOAL

    @property
    def floor(self) -> float:
        """Roughly what the bound of δ has at least, however large ε is."""
        return 0.0

    @property
    def alone(self) -> float:
        """How far an example can be seen to move everything: 2a if it is replaced."""
        return self.separation * (2 if self.direction == "replace" else 1)

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded up; never more than with an example whose steps are known."""
        return _remembered(self, epsilon)

    def deltas(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return δ at each ε, rounded up."""
        known = np.array([gaussian_delta(1 / self.alone, epsilon) for epsilon in epsilons.tolist()])
        known = np.maximum(known, SMALLEST_DELTA)
        asked = np.flatnonzero((epsilons <= FARTHEST) & (known > SMALLEST_DELTA))
        if len(asked):
            known[asked] = np.minimum(known[asked], np.maximum(self._deltas(epsilons[asked]), SMALLEST_DELTA))
        return np.asarray(known)

    def epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded up."""
        if delta < SMALLEST_DELTA or self.delta(FARTHEST) > delta:
            return math.inf
        start, slope = self.guess(delta)
        return smallest_safe(self.delta, delta, FARTHEST, start, slope, past=_PAST)

    def guess(self, delta: float) -> tuple[float, float]:
        """Return roughly the ε at which δ(ε) = delta, and d log δ/dε there."""
        return gaussian_guess(self.spread, delta)

    def grid(self, mesh: Mesh) -> DeltaGrid:
        """Return upper bounds of δ at points of the grid, of the exchanged pair too; a lower one is not known."""
        mesh = mesh._replace(goal=self._loosened(mesh.goal))
        forward = self._forward(mesh)
        if self.direction == "replace":  # exchanging the worlds changes nothing
            return forward
        return forward._replace(backward=replace(self, direction=REVERSED[self.direction])._forward(mesh))

    def _loosened(self, goal: float) -> float:
        """Return the goal that is met in place of this one."""
        return _GUESSED if goal > self.goal else self.goal

    def _forward(self, mesh: Mesh) -> DeltaGrid:
        """Return the grid of this direction alone, which ends near the floor.

        Beyond, the bound of δ stays where it is, as if rare losses were ever larger: infinite ones cost as much, and a
        sum of losses is transformed with far fewer nodes.
        """
        if self.floor:
            mesh = mesh._replace(depth=min(mesh.depth, -math.log(_ABOVE_FLOOR * self.floor)))
        return grid_of(_brackets(self), mesh)


@lru_cache(maxsize=16)
def _brackets(profile: _Directed) -> Brackets:
    """Return bounds of δ at some ε: none is computed twice, if those asked with it make no difference."""

    def brackets(epsilons: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return np.zeros(len(epsilons)), profile.deltas(epsilons)

    return remembered(brackets) if profile.direction == "replace" else brackets


@lru_cache(maxsize=1 << 14)
def _remembered(profile: _Directed, epsilon: float) -> float:
    return float(profile.deltas(np.array([epsilon]))[0])


@dataclass(frozen=True)
class Allocation(_Directed):
    """One epoch, in which an example joins one of t steps."""

    steps: int

    @property
    def goal(self) -> float:
        """How far apart the ends of a grid may be: more, where there is one distribution for every ε."""
        return _COSTLY_GOAL if self.direction == "replace" else _GOAL

    @property
    def costly(self) -> bool:
        """Whether every knot takes long."""
        return self.direction == "replace"

    @property
    def spread(self) -> float:
        """Roughly the standard deviation of the loss."""
        square = math.expm1(min(self.separation**2, 600.0))
        if self.direction == "replace":
            square = 2 * (square - math.expm1(-(self.separation**2)))
        return min(math.sqrt(square / self.steps), self.alone)

    @property
    def _common_spread(self) -> float:
        """Roughly the same without losses that hardly ever occur among t."""
        rare = math.sqrt(2 * math.log(self.steps)) - 2 * self.separation
        return self.spread * math.sqrt(max(upper_tail(-rare), 1e-9))

    @property
    def floor(self) -> float:
        """Roughly what the bound of δ has at least, however large ε is."""
        return allocated_floor(*self._distances)

    def guess(self, delta: float) -> tuple[float, float]:
        """Return roughly the ε at which δ(ε) = delta, and d log δ/dε there: many steps together, or a single one."""
        together = gaussian_guess(self._common_spread, delta)
        if self.steps == 1:
            return together
        known = gaussian_epsilon(1 / self.separation, delta)
        alone = math.log1p(math.expm1(min(known, 600.0)) / self.steps)
        slope = -(known / self.separation + self.separation / 2) / self.separation
        slope *= math.exp(alone + math.log(self.steps) - known)
        if self.direction == "replace":  # of few, the others are less than usual
            reach = (known / self.separation - self.separation / 2) * math.sqrt(self.steps / (self.steps - 1))
            few = self.separation * (reach + self.separation) - math.log(self.steps - 1)
            alone += max(few - alone, 0.0) / (1 + self.steps / 16)
            if self.separation > LITTLE_NOISE:  # the least noise of all others is about that usual among t
                least = quantile(1 - 1 / self.steps)
                alone = max(alone, self.separation * (reach + self.separation - least))
        return max(together, (alone, slope))

    def _deltas(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        return allocated_delta(*self._distances, self.steps, epsilons) if self.steps > 1 else np.ones(len(epsilons))

    @property
    def _distances(self) -> tuple[float, float]:
        """How far the example moves a sum in the one world and in the other."""
        above = 0.0 if self.direction == "add" else self.separation
        return above, 0.0 if self.direction == "remove" else self.separation


@dataclass(frozen=True)
class PoissonStep(_Directed):
    """One step, which an example joins by a coin of its own."""

    rate: float

    @property
    def spread(self) -> float:
        """Roughly the standard deviation of the loss."""
        return self.rate * math.sqrt(math.expm1(min(self.separation**2, 600.0)))

    def _deltas(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        delta = {"remove": self._remove, "add": self._add, "replace": self._replace}[self.direction]
        return np.array([delta(epsilon) for epsilon in epsilons.tolist()])

    def _remove(self, epsilon: float) -> float:
        """Return E[(1 − p + pX − λ)₊] = p·E[(X − κ)₊], κ = 1 + (λ − 1)/p."""
        ratio = math.expm1(epsilon) / self.rate * (1 - slack(8))
        log_ratio = math.log1p(ratio) * (1 - slack(4))
        return self.rate * gaussian_delta(1 / self.separation, log_ratio) * (1 + slack(8))

    def _add(self, epsilon: float) -> float:
        """Return E[(1 − λ(1 − p + pX))₊] = c·E[(1 − μX)₊], c = 1 − λ(1 − p), μ = λp/c."""
        less = math.expm1(epsilon)
        joined = math.exp(epsilon) * self.rate
        left = joined - less + slack(8) * (joined + less)
        if left <= 0:
            return 0.0
        log_ratio = max(math.log(joined / left) - slack(16), 0.0)
        return left * gaussian_delta(1 / self.separation, log_ratio) * (1 + slack(8))

    def _replace(self, epsilon: float) -> float:
        """Return E[((1 − p)(1 − λ) + p(X − λX′))₊]."""
        a = self.separation
        growth = math.exp(epsilon)
        # e^{aZ} = y, where y − λ/y = (1 − p)(λ − 1)/p·exp(a²/2): what is summed up is positive beyond.
        middle = (1 - self.rate) * math.expm1(epsilon) / self.rate
        sinh = math.log(middle / 2) + a * a / 2 - epsilon / 2 if middle > 0 else -math.inf
        middle_point = sinh + math.log(2) if sinh > 40 else math.asinh(math.exp(sinh))
        point = (middle_point + epsilon / 2) / a
        first = upper_tail(point - a)
        base = max(upper_tail(point) - TINY, 0.0)
        second = max(upper_tail(point + a) - TINY, 0.0)
        value = first - middle * base - growth * second
        wrong = slack(128) * (1 + epsilon + (abs(point) + a) ** 2)
        return self.rate * (max(value, 0.0) + wrong * first) * (1 + slack(8))
