"""The PLD accountant: privacy-loss distributions of the rounds are convolved, which brackets the ε of T rounds."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.catalogue import register
from shoal.checks import SMALLEST_DELTA
from shoal.composition.composition_method import CompositionMethod, Round, total_local_epsilon
from shoal.errors import NoPairError, UnreachableError
from shoal.numerics.delta_grid import DeltaGrid, Mesh
from shoal.numerics.privacy_loss import short
from shoal.numerics.summed_losses import SummedLosses
from shoal.privacy_profile import Gridded, Profile, UpperProfile
from shoal.progress import progress
from shoal.rounding import slack

__all__ = ["LossProfile"]

_FINENESS = 120
"""Points of the lattice to a standard deviation of the loss; far fewer are knots."""
_GOAL = 1.5e-4
"""How far apart the logarithms of the moments of both ends may be, relatively."""
_TOLERANCE, _ROUGH = 1e-6, 1e-3
"""How much smoothing may add to δ, relatively, which widens the losses as much; and where only its size counts."""
_COSTLY_GOALS, _COSTLY_TOLERANCE = (0.02, 1e-3, 3e-4, 1e-4), 3e-5
"""The same for rounds each of whose knots takes long: while the tilt is a guess, for ε, and for its lower end"""
_WIDE, _WIDER = 9e-4, 3e-3
"""as long as the two ends are farther apart than this, relatively; the upper one is off by about a quarter of it."""
_NEAR, _NEARER, _MOST_TRIES = 1.4, 1.15, 6
"""How far a tilt may be from those that the knots are for, and from a guess; and how often others are added."""
_CLOSE = 1.06
"""How far, as a ratio, ε may be from where a single large loss is looked at closely."""
_LESS = 4.0
"""So much of −log δ has nothing to do with the tilt, roughly."""
_DEPTH = 40.0
"""Losses of probability below exp(−40) are infinite, unless δ asks for more."""
_DEEPEST = 690.0
_LEAST, _MOST = 1e-100, 600.0
"""Of ε₀: beyond, squares underflow or exponentials overflow."""
_MOST_NODES = 1 << 21


@dataclass(frozen=True)
class LossProfile:
    """The profile of all rounds together, from the sum of their privacy losses."""

    rounds: tuple[Round, ...]

    @property
    def ceiling(self) -> float:
        """The local ε₀ of everything together, above which no loss is."""
        return total_local_epsilon(self.rounds)

    def delta(self, epsilon: float) -> float:
        """Return δ(ε), rounded up."""
        if epsilon >= self.ceiling:
            return self.floor
        if self._extreme:
            return 1.0
        # What is left out has to be small against the answer: if it is not, look deeper.
        depth, variance = _DEPTH, _variance(self.rounds)
        logarithm = min(4 + 0.5 * max(epsilon - variance / 2, 0.0) ** 2 / max(variance, 1e-300), _DEEPEST)
        while True:
            aim = _Aim.at(self.rounds, logarithm, epsilon, depth)
            sums = _summed(self.rounds, aim)
            for tries in range(_MOST_TRIES):
                if any(map(_guessed, self.rounds)):
                    tilt = sums.steepness(epsilon, min(max(sums.delta(epsilon), SMALLEST_DELTA), 0.5))
                else:
                    tilt = sums.above.tilt_at_epsilon(epsilon)[0]
                better = aim.towards(tilt)
                if better == aim and aim.fineness > 1:
                    break
                better = better.settled(aim, last=tries == _MOST_TRIES - 1)
                aim, sums = better, _summed(self.rounds, better)
            answer = sums.delta(epsilon)
            if sums.above.infinite <= 1e-3 * answer or depth == _DEEPEST:
                return min(1.0, max(answer, SMALLEST_DELTA))
            depth = min(2 * depth, _DEEPEST)

    @property
    def floor(self) -> float:
        """What is left of δ from the ceiling on: the δ₀ of all rounds, or how likely an infinite loss is."""
        return min(
            1.0, math.fsum(part.times * part.profile.delta(part.local_epsilon) for part in self.rounds) * (1 + slack(8))
        )

    def epsilon(self, delta: float) -> float:
        """Return ε(δ), rounded up."""
        if self._only_local(delta):
            return self.capped(math.inf, delta)
        return self.capped(_answer(self.rounds, delta).epsilon, delta)

    def bracket(self, delta: float) -> tuple[float, float]:
        """Return ε(δ) rounded down and up; refuse if a round is known from above only."""
        for part in self.rounds:
            if _unbracketed(part):
                part.profile.bracket(delta)  # which says why there is none, and what to ask instead
        upper = self.epsilon(delta)
        if delta == 0 or upper == 0:
            return upper, upper
        delta = max(delta, SMALLEST_DELTA)
        if self._only_local(delta):
            return 0.0, upper
        return min(_least(self.rounds, delta), upper), upper

    def provable(self) -> None:
        """Return nothing: there is no proof in ball arithmetic of a composition."""

    def renyi(self, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return upper bounds of the Rényi divergence: those of the rounds, added up."""
        total = np.zeros_like(orders)
        for part in self.rounds:
            total += part.times * part.profile.renyi(orders)
        return total * (1 + slack(2) * (len(self.rounds) + 4))

    @property
    def _extreme(self) -> bool:
        """Whether no grid has enough digits for a round: then only the local guarantees are added up."""
        finite = (part.local_epsilon for part in self.rounds if 0 < part.local_epsilon < math.inf)
        return any(not _LEAST <= each <= _MOST for each in finite)

    def capped(self, epsilon: float, delta: float) -> float:
        """Return ε, or the local ε₀ of everything together if that is less and its δ₀ allows."""
        if delta >= self.floor:
            return min(epsilon, self.ceiling)
        if math.isinf(epsilon):
            raise UnreachableError(
                f"no ε is known at delta={delta:.6g}: what is left of δ at every ε, added up over all rounds, is "
                f"{self.floor:.6g} (the local_delta of each, or how likely its loss is infinite); use a larger delta"
            )
        return epsilon

    def _only_local(self, delta: float) -> bool:
        """Whether nothing but the local guarantees can be added up."""
        return delta < SMALLEST_DELTA or self.ceiling == 0 or self._extreme


class _Aim(NamedTuple):
    """Where the sum of the losses is to be accurate; rounded, so that similar questions have the same.

    Attributes
    ----------
    depth : float
        Losses of probability below exp(−depth) are infinite.
    tilts : tuple of float
        Those that matter, roughly.
    farthest : float
        Losses of a round beyond it are as good as infinite.
    height : float
        About −log δ, where tilts are guessed.
    rest : float
        The same for one round of all: ε times the tilt is about the sum of this and of log E[e^θL] over all rounds.
    reached : float
        About ε, where tilts are guessed: a single loss near it may be what makes the sum large.
    around : float
        The standard deviation of the losses of the other rounds, whose mean is half of its square.
    fineness : int
        Of rounds each of whose knots takes long: which goals their knots meet for the last tilt. For those before it,
        which were guesses, they meet the first one.
    """

    depth: float
    tilts: tuple[float, ...] = ()
    farthest: float = 0.0
    height: float = 0.0
    rest: float = 0.0
    reached: float = 0.0
    around: float = 0.0
    fineness: int = 2

    @classmethod
    def at(cls, rounds: tuple[Round, ...], logarithm: float, epsilon: float, depth: float) -> "_Aim":
        """Return the aim for δ(ε) = exp(−logarithm), if the loss were Gaussian, with the variance of these rounds."""
        variance, guessed = _variance(rounds), any(map(_guessed, rounds))
        start = cls(min(_DEEPEST, 20 * math.ceil(depth / 20)))
        if guessed:
            rest = math.ceil(logarithm) / sum(part.times for part in rounds)
            start = start._replace(height=math.ceil(logarithm), rest=rest, fineness=1)
        height = max(logarithm - _LESS, 1.0) if guessed else max(logarithm, 0.1)
        return start.towards(math.sqrt(2 * height / max(variance, 1e-300))).up_to(epsilon, variance)

    def towards(self, tilt: float) -> "_Aim":
        """Return the same for this tilt, too: itself, if that is close to one of its tilts, or to its last guess."""
        if self.fineness == 1:
            if self.tilts and max(tilt / self.tilts[-1], self.tilts[-1] / tilt) <= _NEARER:
                return self
            better = 2.0 ** (round(8 * math.log2(tilt)) / 8)
            return self._replace(tilts=(*(known for known in self.tilts if known != better), better))
        if any(max(tilt / known, known / tilt) <= _NEAR for known in self.tilts):
            return self
        return self._replace(tilts=(*self.tilts, 2.0 ** (round(2 * math.log2(tilt)) / 2)))

    def settled(self, before: "_Aim", *, last: bool) -> "_Aim":
        """Return the same with its last tilt no guess any more, if the one before it had the same, or at last."""
        return self._replace(fineness=max(self.fineness, 2)) if last or self.tilts == before.tilts else self

    def mesh(self, part: Round, step: float) -> Mesh:
        """Return how fine the grid of a round is."""
        if not _costly(part):
            return Mesh(step, part.local_epsilon, self.depth, _TOLERANCE, self.tilts, self.farthest, _GOAL)
        if not _guessed(part):
            goal = _COSTLY_GOALS[max(self.fineness, 2) - 1]
            return Mesh(step, part.local_epsilon, self.depth, _COSTLY_TOLERANCE, self.tilts, self.farthest, goal)
        *guesses, last = self.tilts
        *coarser, goal = _COSTLY_GOALS[: self.fineness]
        before = (*((tilt, _COSTLY_GOALS[0]) for tilt in guesses), *((last, each) for each in coarser))
        mesh = Mesh(step, part.local_epsilon, self.depth, _COSTLY_TOLERANCE, (last,), self.farthest, goal)
        middle, around = max(self.reached - self.around**2 / 2, 0.0), max(self.around, (_CLOSE - 1) * self.reached)
        single = (middle, around, self.reached)
        return mesh._replace(before=before, height=self.height, rest=self.rest, single=single)

    def up_to(self, epsilon: float, variance: float) -> "_Aim":
        """Return the same for this total loss, too, if the other rounds have a loss of −3 standard deviations."""
        farthest = epsilon + 3 * math.sqrt(variance)
        aim = self
        if self.fineness == 1 and not (self.reached / _CLOSE <= epsilon <= self.reached * _CLOSE):
            around = math.sqrt(variance * max(1 - self.rest / self.height, 0.0))
            aim = self._replace(reached=float(f"{epsilon:.2g}"), around=around)
        if farthest <= self.farthest:
            return aim
        return aim._replace(farthest=2.0 ** (math.ceil(4 * math.log2(max(farthest, 1e-300))) / 4))


class _Answer(NamedTuple):
    """ε(δ), rounded up, the losses that it comes from, and what these were aimed at."""

    sums: SummedLosses
    epsilon: float
    aim: _Aim


@lru_cache(maxsize=256)
def _answer(rounds: tuple[Round, ...], delta: float) -> _Answer:
    """Return the answer; where the loss is not Gaussian, it shows for which tilts and losses there must be knots."""
    logarithm, variance = -math.log(delta), _variance(rounds)
    depth = max(_DEPTH, min(_DEEPEST, math.log(sum(part.times for part in rounds)) + logarithm + 14))
    aim = _Aim.at(rounds, logarithm, variance / 2 + math.sqrt(2 * variance * logarithm), depth)
    for tries in range(_MOST_TRIES + 1):
        sums = _summed(rounds, aim)
        if sums.above.infinite >= delta:
            return _Answer(sums, math.inf, aim)
        epsilon = sums.epsilon(delta)
        guessed = any(map(_guessed, rounds))
        tilt = sums.steepness(epsilon, delta) if guessed else sums.above.tilt_at_delta(delta)[0]
        better = aim.towards(tilt).up_to(epsilon, variance).settled(aim, last=tries == _MOST_TRIES - 2)
        if (
            better == aim
            and _narrowed(rounds)
            and not (sums.least_epsilon(delta) >= (1 - (_WIDER if guessed else _WIDE)) * epsilon)
        ):
            better = aim._replace(fineness=min(aim.fineness + 1, len(_COSTLY_GOALS)))
        if better == aim or tries == _MOST_TRIES:
            break
        aim = better
    return _Answer(sums, epsilon, aim)


@lru_cache(maxsize=256)
def _least(rounds: tuple[Round, ...], delta: float) -> float:
    """Return ε(δ), rounded down: with more knots, where they take long, as long as the two ends are far apart."""
    answer = _answer(rounds, delta)
    least, aim = answer.sums.least_epsilon(delta), answer.aim
    while _narrowed(rounds) and aim.fineness < len(_COSTLY_GOALS) and not least >= (1 - _WIDE) * answer.epsilon:
        aim = aim._replace(fineness=aim.fineness + 1)
        least = max(least, _summed(rounds, aim).least_epsilon(delta))
    return least


@lru_cache(maxsize=8)
def _summed(rounds: tuple[Round, ...], aim: _Aim) -> SummedLosses:
    """Return the losses of all rounds, added up."""
    step = _step(rounds)
    shown = progress(rounds, total=len(rounds), label="rounds") if len(rounds) > 1 else rounds
    return SummedLosses.of(
        (_grid(part.profile, aim.mesh(part, step)), part.times)  # type: ignore[arg-type]
        for part in shown
    )


def _costly(part: Round) -> bool:
    return bool(getattr(part.profile, "costly", False))


def _guessed(part: Round) -> bool:
    return bool(getattr(part.profile, "guessed", False))


def _narrowed(rounds: tuple[Round, ...]) -> bool:
    """Whether more knots, where they take long, bring the two ends of ε closer: not if a round has no lower end."""
    return any(map(_costly, rounds)) and not any(map(_unbracketed, rounds))


def _unbracketed(part: Round) -> bool:
    return isinstance(part.profile, UpperProfile) and not part.profile.bracketed


@lru_cache(maxsize=4096)  # profiles are frozen, hence hashable
def _grid(profile: Profile, mesh: Mesh) -> DeltaGrid:
    if not isinstance(profile, Gridded):
        raise NoPairError("a formula has no privacy losses to add up")
    return profile.grid(mesh)


@lru_cache(maxsize=4096)
def _spread(profile: Profile, local_epsilon: float) -> float:
    """Return roughly the standard deviation of the loss of a round, from δ(0)."""
    if local_epsilon == 0:
        return 0.0
    if math.isfinite(local_epsilon):  # a grid of one point needs little accuracy
        distance = float(_grid(profile, Mesh(local_epsilon, local_epsilon, _DEPTH, _ROUGH)).upper[0])  # type: ignore[arg-type]
    else:
        distance = profile.delta(0.0)
    distance = min(distance, 0.999)
    return float(min(math.sqrt(2 * math.pi) * distance / (1 - distance) ** 0.25, local_epsilon))


def _variance(rounds: tuple[Round, ...]) -> float:
    """Return roughly the variance of the loss of all rounds."""
    return math.fsum(part.times * _spread(part.profile, part.local_epsilon) ** 2 for part in rounds)  # type: ignore[arg-type]


def _step(rounds: tuple[Round, ...]) -> float:
    """Return the step of the lattice: it adds step²/6 to the variance of each round's loss."""
    times = sum(part.times for part in rounds)
    total = math.sqrt(_variance(rounds))
    step = max(total / math.sqrt(times) / _FINENESS, 9 * total / _MOST_NODES, 1e-300)
    # Where all rounds have the same ε₀, let a grid point lie just below it, since the pair may have a mass there.
    largest = max(part.local_epsilon for part in rounds)
    return short(largest / math.ceil(largest / step) if math.isfinite(largest) else step)


register(
    CompositionMethod(
        name="loss",
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
