"""The PLD accountant: ε and δ of many rounds from the sum of their privacy losses.

The loop (docs/design.md, "The composition loop"; docs/theory/composition.md, section 4.1):

1. a step, and a tilt as if the loss were Gaussian;
2. bounds of δ(ε) of each round at the knots that this tilt needs;
3. their losses, from above and from below, and the sum of the losses of all rounds;
4. the answer, and the slope of log δ there, which is the tilt of the next pass.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.catalogue import register
from shoal.checks import SMALLEST_DELTA
from shoal.composition.composition_method import CompositionMethod, Round, total_local_epsilon
from shoal.errors import NoPairError, UnreachableError
from shoal.numerics.convolution import SummedLosses
from shoal.numerics.profile_grid import DeltaGrid, Mesh, short
from shoal.privacy_profile import Gridded, Profile, UpperProfile
from shoal.progress import progress
from shoal.rounding import up

_FINENESS = 120
"""Points of the lattice per standard deviation of the loss; far fewer of them are knots."""
_MOST_NODES = 1 << 21
"""The most points of the lattice in nine standard deviations of the sum: memory, or accuracy."""
_GOAL = 1.5e-4
"""How close log E[e^θL] from above and from below are, relatively: more knots, or a wider ε."""
_COSTLY_GOAL = 2.0
"""How much larger the goal is for rounds whose δ is slow to compute: ε grows by less than 1e-4."""
_ROUGH_GOAL = 0.02
"""The same in the first pass, which only finds the tilt: it needs a tenth of the knots."""
_TOLERANCE = 1e-6
"""The relative error of δ at a knot: small against the goal."""
_COSTLY_TOLERANCE = 3e-5
"""The same for rounds whose δ is slow to compute."""
_NEAR = 1.4
"""The ratio of two tilts that need about the same knots."""
_WIDE = 9e-4
"""A wider bracket of ε, relatively, has its lower end computed from more knots."""
_FINER = 4.0
"""How much smaller the goal is then: the lower end loses about five times as much as the upper."""
_PASSES = 6
"""The most passes: two are enough unless a heavy tail hides the tilt from the first one."""
_OFFSET = 4.0
"""The part of −log δ that is not in the exponent of a Gaussian tail, roughly."""
_DEPTH = 40.0
"""Losses of probability below exp(−40) count as infinite, unless δ asks for more."""
_CLEAR = 14.0
"""Infinite losses have at most exp(−14) of δ: a smaller share of it, or fewer knots."""
_DEEPEST = 690.0
"""The largest depth: exp(−690) is still float64."""
_JUST_BELOW = 1e-9
"""How far below the largest loss a grid point is, relatively: more than rounding, less than digits."""
_LEAST = 1e-100
"""The smallest ε₀ that is not just added up: squares underflow below."""
_MOST = 600.0
"""The largest ε₀ that is not just added up: exponentials overflow above."""


@dataclass(frozen=True)
class LossProfile:
    """The profile of all rounds together, from the sum of their privacy losses."""

    rounds: tuple[Round, ...]

    @property
    def ceiling(self) -> float:
        """The local ε₀ of all rounds together, which is the largest loss."""
        return total_local_epsilon(self.rounds)

    @property
    def floor(self) -> float:
        """δ from the ceiling on: the sum of the δ₀, or the probability of an infinite loss."""
        rests = (part.times * part.profile.delta(part.local_epsilon) for part in self.rounds)
        return min(1.0, up(math.fsum(rests), roundings=8))

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded up."""
        if epsilon >= self.ceiling:
            return self.floor
        if self._extreme:
            return 1.0
        variance = _variance(self.rounds)
        log_delta = 0.5 * max(epsilon - variance / 2, 0.0) ** 2 / max(variance, 1e-300)

        def solve(sums: SummedLosses) -> tuple[float, float]:
            return epsilon, sums.above.delta(epsilon)

        answer = _composed(self.rounds, solve, min(log_delta + _OFFSET, _DEEPEST), _DEPTH)
        return min(1.0, max(answer.delta, SMALLEST_DELTA))

    def epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded up."""
        if self._only_local(delta):
            return self.capped(math.inf, delta)
        return self.capped(_answer(self.rounds, delta).epsilon, delta)

    def bracket(self, delta: float) -> tuple[float, float]:
        """Return ε(δ) rounded down and up; refuse if a round is known from above only."""
        for part in self.rounds:
            if isinstance(part.profile, UpperProfile) and not part.profile.bracketed:
                part.profile.bracket(delta)  # which says why there is none, and what to ask instead
        upper = self.epsilon(delta)
        if delta == 0 or upper == 0:
            return upper, upper
        delta = max(delta, SMALLEST_DELTA)
        if self._only_local(delta):
            return 0.0, upper
        return min(_least_epsilon(self.rounds, delta), upper), upper

    def provable(self) -> None:
        """Return nothing: a composition is proved from its rounds, by its curve."""

    def renyi(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return upper bounds of the Rényi divergence: those of the rounds, added up."""
        total = np.zeros_like(orders)
        for part in self.rounds:
            total += part.times * np.array(_known_renyi(part.profile, tuple(orders.tolist())))  # type: ignore[arg-type]
        return up(total, roundings=2 * (len(self.rounds) + 4))

    def capped(self, epsilon: float, delta: float) -> float:
        """Return ε, or the local ε₀ of all rounds if that is smaller and its δ₀ allows."""
        if delta >= self.floor:
            return min(epsilon, self.ceiling)
        if math.isinf(epsilon):
            raise UnreachableError(
                f"no ε is known at delta={delta:.6g}: what is left of δ at every ε, added up over all rounds, is "
                f"{self.floor:.6g} (the local_delta of each, or how likely its loss is infinite); use a larger delta"
            )
        return epsilon

    @property
    def _extreme(self) -> bool:
        """Whether no grid has enough digits for a round: then only the ε₀ are added up."""
        finite = (part.local_epsilon for part in self.rounds if 0 < part.local_epsilon < math.inf)
        return any(not _LEAST <= local_epsilon <= _MOST for local_epsilon in finite)

    def _only_local(self, delta: float) -> bool:
        """Return whether nothing but the ε₀ can be added up."""
        return delta < SMALLEST_DELTA or self.ceiling == 0 or self._extreme


class _Answer(NamedTuple):
    """ε and δ of all rounds, rounded up, with the sums of losses and the mesh behind them."""

    epsilon: float
    delta: float
    sums: SummedLosses
    mesh: Mesh


@lru_cache(maxsize=256)
def _answer(rounds: tuple[Round, ...], delta: float) -> _Answer:
    """Return ε(δ) of all rounds, which is infinite where infinite losses alone have this δ."""

    def solve(sums: SummedLosses) -> tuple[float, float]:
        return math.inf if sums.above.infinite >= delta else sums.above.epsilon(delta), delta

    log_delta = -math.log(delta)
    depth = log_delta + math.log(sum(part.times for part in rounds)) + _CLEAR
    return _composed(rounds, solve, log_delta, max(depth, _DEPTH))


@lru_cache(maxsize=256)
def _least_epsilon(rounds: tuple[Round, ...], delta: float) -> float:
    """Return ε(δ) of all rounds, rounded down; from more knots where it is far from the upper end."""
    answer = _answer(rounds, delta)
    least = answer.sums.below.least_epsilon(delta)
    if least < (1 - _WIDE) * answer.epsilon < math.inf:
        mesh = answer.mesh._replace(goal=answer.mesh.goal / _FINER)
        least = max(least, _summed(rounds, mesh).below.least_epsilon(delta))
    return least


def _composed(
    rounds: tuple[Round, ...],
    solve: Callable[[SummedLosses], tuple[float, float]],
    log_delta: float,
    depth: float,
) -> _Answer:
    """Return the ε and δ that `solve` gives for losses that are accurate there.

    `log_delta` is −log δ, roughly, and the grids end at exp(−`depth`) at first.
    Every pass is sound; the tilt decides about tightness alone.
    """
    step = _step(rounds)
    # The tilt of a Gaussian loss with the same variance.
    tilt = math.sqrt(2 * max(log_delta - _OFFSET, 1.0) / max(_variance(rounds), 1e-300))
    # θε of a Gaussian loss is twice −log δ, and a round needs its share of it.
    share = max(_spread(part.profile, part.local_epsilon) for part in rounds) ** 2 / max(_variance(rounds), 1e-300)  # type: ignore[arg-type]
    height = min(_even(log_delta * max(1.0, 2 * share)), _MOST)
    mesh = Mesh(step, math.inf, 0.0, _TOLERANCE, goal=_ROUGH_GOAL, height=height)
    infinite = math.inf
    for _ in range(_PASSES):
        mesh = mesh._replace(tilts=(_near_power(tilt),), depth=min(_coarse(depth), _DEEPEST))
        sums = _summed(rounds, mesh)
        epsilon, answer = solve(sums)
        if math.isinf(epsilon):
            break
        delta = min(max(answer, SMALLEST_DELTA), 0.5)
        slope = sums.above.steepness(epsilon, delta)
        # Infinite losses are to be negligible, if a deeper grid has fewer of them.
        deeper = math.exp(-_CLEAR / 2) * delta < sums.above.infinite < infinite
        if mesh.goal == _GOAL and not deeper and 1 / _NEAR <= slope / tilt <= _NEAR:
            break
        tilt = slope
        depth = 2 * depth if deeper else depth
        infinite = sums.above.infinite
        mesh = _focused(mesh, sums, epsilon, delta, tilt)
    return _Answer(epsilon, answer, sums, mesh)


def _focused(mesh: Mesh, sums: SummedLosses, epsilon: float, delta: float, tilt: float) -> Mesh:
    """Return the mesh with the limits of moments that belong to this answer (6b, 6c)."""
    moments = [(losses.log_moment(tilt), times) for losses, times in sums.above.rounds]
    total = math.fsum(times * moment for moment, times in moments)
    others = total - max(moment for moment, _ in moments)
    height = max(-math.log(delta), tilt * epsilon - others)
    log_moment = max(tilt * epsilon + math.log(delta), 0.0) + _OFFSET
    return mesh._replace(
        goal=_GOAL,
        height=min(_even(height), _MOST),
        log_moment=min(_near_power(log_moment), _MOST),
    )


def _coarse(logarithm: float) -> float:
    """Return the logarithm rounded up, so that similar questions have the same mesh."""
    return 10.0 * math.ceil(logarithm / 10)


def _even(logarithm: float) -> float:
    """Return the logarithm rounded up, but less: e to this power multiplies the number of knots."""
    return 2.0 * math.ceil(logarithm / 2)


def _near_power(value: float) -> float:
    """Return the nearest power of √2, so that similar questions have the same mesh."""
    return math.exp2(round(2 * math.log2(value)) / 2)


@lru_cache(maxsize=8)
def _summed(rounds: tuple[Round, ...], mesh: Mesh) -> SummedLosses:
    """Return the losses of all rounds, added up."""
    shown = progress(rounds, total=len(rounds), label="rounds") if len(rounds) > 1 else rounds
    return SummedLosses(tuple((_grid(part, mesh), part.times) for part in shown))


def _grid(part: Round, mesh: Mesh) -> DeltaGrid:
    """Return bounds of δ of one round."""
    mesh = mesh._replace(ceiling=part.local_epsilon, log_moment=mesh.log_moment / part.times)
    if getattr(part.profile, "costly", False):
        mesh = mesh._replace(goal=_COSTLY_GOAL * mesh.goal, tolerance=_COSTLY_TOLERANCE)
    return _known_grid(part.profile, mesh)  # type: ignore[arg-type]


@lru_cache(maxsize=4096)  # profiles are frozen, hence hashable
def _known_grid(profile: Profile, mesh: Mesh) -> DeltaGrid:
    if not isinstance(profile, Gridded):
        raise NoPairError("a formula has no privacy losses to add up")
    return profile.grid(mesh)


@lru_cache(maxsize=4096)
def _known_renyi(profile: Profile, orders: tuple[float, ...]) -> tuple[float, ...]:
    """Return upper bounds of the Rényi divergences of one round, which a ledger asks for again and again."""
    return tuple(profile.renyi(np.array(orders)).tolist())


@lru_cache(maxsize=4096)
def _spread(profile: Profile, local_epsilon: float) -> float:
    """Return roughly the standard deviation of the loss of a round, from δ(0)."""
    if local_epsilon == 0:
        return 0.0
    distance = min(profile.delta(0.0), 0.999)
    spread = math.sqrt(2 * math.pi) * distance / math.sqrt(math.sqrt(1 - distance))
    return min(spread, local_epsilon)


def _variance(rounds: tuple[Round, ...]) -> float:
    """Return roughly the variance of the loss of all rounds."""
    return math.fsum(
        part.times * _spread(part.profile, part.local_epsilon) ** 2  # type: ignore[arg-type]
        for part in rounds
    )


def _step(rounds: tuple[Round, ...]) -> float:
    """Return the step h of the lattice, which adds h²/6 to the variance of each round's loss."""
    times = sum(part.times for part in rounds)
    total = math.sqrt(_variance(rounds))
    step = max(total / math.sqrt(times) / _FINENESS, 9 * total / _MOST_NODES, 1e-300)
    largest = max(part.local_epsilon for part in rounds)
    if math.isfinite(largest):
        # A grid point just below the largest loss, where the pair may have a mass: at the loss itself
        # δ is zero, and the losses from below would lose the mass.
        step = largest / math.ceil(largest / step) * (1 - _JUST_BELOW)
    return short(step)


register(
    CompositionMethod(
        name="pld",
        statement=(
            "Let μᵣ be a distribution of losses with δᵣ(ε) ≤ E[(1 − e^(ε − L))₊], L ~ μᵣ, for every ε and in both "
            "directions. Then all rounds together have δ(ε) ≤ E[(1 − e^(ε − L₁ − … − L_T))₊] for independent Lᵣ ~ μᵣ. "
            "Each δᵣ(ε) is bounded on a grid, from above and from below, and the sum is computed with all rounding "
            "charged."
        ),
        citation=(
            "the sum of the privacy losses of all rounds, discretised and rounded to the safe side "
            "(docs/theory/composition.md)"
        ),
        make=LossProfile,
        adds_losses=True,
        preference=1,
        proof="docs/theory/composition.md, sections 1 to 6",
    )
)
