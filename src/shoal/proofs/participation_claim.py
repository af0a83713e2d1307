"""Claims about examples that join steps by themselves (Theorem A): allocation and Poisson sampling, in balls.

Each direction of a pair is a claim of one round, whose exchanged pair is the other one; epochs, or steps, are composed
direction by direction (docs/theory/samplers.md).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any

from flint import ctx

from shoal.assumptions import Assumption
from shoal.errors import ParameterError
from shoal.proofs.balls import Ball, Summand, ball, normal, zero
from shoal.proofs.cells import Edge, celled
from shoal.proofs.claim import Claim, RoundClaim, Witness, count, double, expect
from shoal.proofs.jump_sums import JumpSums
from shoal.proofs.rounds_claim import RoundsClaim
from shoal.proofs.words import TRAINING

__all__ = ["AllocationClaim", "ParticipationClaim", "PoissonStepClaim"]

_REVERSED = {"remove": "add", "add": "remove", "replace": "replace"}
_ADJACENCIES = {"replace": ("replace",), "zero-out": ("remove", "add"), "add-remove": ("remove", "add")}
_LADDER = (1e-6, 1e-5, 1e-4, 3e-4, 1e-3)
_WIDTH, _COARSE, _COARSEST = 0.006, 0.015, 0.025
"""Of a cell, in deviations of the noise: of one round, of many, and of many if an example is replaced."""
_FINENESS, _COARSER = 0.003, 1.7
"""How fine a lattice is; where an example is replaced, every ε has one of its own, and of many rounds it is coarser."""
_RATIOS = 1.008, 1.02
"""Of a large value to the one before, finer and coarser."""
_FEW, _LITTLE = 32, 0.3
"""The sum of so few steps, or with so little noise, is looked at by its largest term, with wider cells."""
_FEW_WIDTHS, _FINER = (0.012, 0.03), (0.01, 0.005, 0.0025)
_APART = 1.02, 1.03
_LEFT_OUT = 1e-4
_MOST_CELLS = 5_000
_FARTHEST = 600.0
"""Nobody asks about larger losses."""
_MOST_EXACT = 2**1000


def _known_direction(direction: str) -> None:
    if direction not in _REVERSED:
        raise ParameterError(f"direction must be one of {', '.join(_REVERSED)}; got {direction!r:.40}")


@dataclass(frozen=True)
class AllocationClaim(RoundClaim, name="allocation"):
    """One direction of one epoch: the victim joins one of `reports` steps, each with this noise on its sum."""

    reports: int
    noise: float
    direction: str
    cells: int
    reach: float

    def __post_init__(self) -> None:
        """Check the fields."""
        count(reports=self.reports)
        double(1e-6, 1e12, noise=self.noise)
        _known_direction(self.direction)
        count(2, _MOST_CELLS, cells=self.cells)
        if not double(0.0, 1e7, reach=self.reach) > 0:
            raise ParameterError("reach must be greater than 0")

    theorem, assumptions = TRAINING["allocation"]
    ceiling = math.inf

    @property
    def apart(self) -> float:
        """Of a loss far out to the one before: rare large losses decide, where there is little noise."""
        return super().apart if self.noise >= 1 else _APART[self.direction == "replace"]

    @property
    def subject(self) -> str:
        """The epoch with its numbers."""
        return f"one of {self.reports:,} steps with noise {self.noise!r}, {self.direction}"

    @property
    def reverse(self) -> "AllocationClaim | None":
        """The exchanged pair; none where that is the same."""
        return None if self.direction == "replace" else replace(self, direction=_REVERSED[self.direction])

    @cached_property
    def _edges(self) -> list[Edge]:
        # e^{aZ − a²/2} − e^ε·e^{−bZ − b²/2} rises with Z ~ N(0, 1).
        unit = 1 / ball(self.noise)
        above = zero() if self.direction == "add" else unit
        below = zero() if self.direction == "remove" else unit
        edges = []
        for index in range(self.cells + 1):
            point = ball(self.reach) * (2 * index - self.cells) / self.cells
            first, second = (above * point - above * above / 2).exp(), (-below * point - below * below / 2).exp()
            edges.append(Edge(first, second, normal(point - above), normal(point + below), normal(point)))
        return edges

    def summands(self, growth: Ball) -> list[Summand]:
        """Return what is added up over steps, in cells."""
        return [celled(self._edges, ball(1.0), growth)]

    @property
    def _few(self) -> bool:
        return self.reports <= _FEW or self.noise < _LITTLE

    @cached_property
    def _known(self) -> dict[Any, Any]:
        """Sums, and what they have in common."""
        return {}

    def _sums(self, epsilon: float, fineness: float) -> tuple[JumpSums, Ball]:
        """Return the sum of all steps at this ε, and what its cells cost."""
        key = (epsilon, fineness, ctx.prec)
        if key not in self._known:
            (summand,) = self.summands(ball(epsilon).exp())
            turns = self._known.setdefault(ctx.prec, {})
            once = self.direction == "replace"
            ratio = _RATIOS[once and fineness > _FINENESS]
            fine = fineness * (_COARSER if once and fineness > _FINENESS else 1)
            sums = JumpSums(summand, self.reports, fineness=fine, ratio=ratio, many=not once, turns=turns)
            self._known[key] = sums, summand.cost
        return self._known[key]  # type: ignore[no-any-return]

    def at(self, epsilon: float, *, fineness: float) -> Ball:
        """Return a ball whose upper end is at least δ(ε), from this ε alone.

        With X − λ = (X − 1) − (λ − 1) and 1 − λX = λ·((1 − X) − (1 − 1/λ)), one sum serves the curve of either.
        """
        growth = ball(epsilon).exp()
        separation = (2 if self.direction == "replace" else 1) / ball(self.noise)
        best = _divergence(separation, ball(epsilon))  # the steps are known
        if self.reports == 1 or epsilon > _FARTHEST:
            return best
        if self._few:
            return min(best, super().at(epsilon, fineness=fineness))
        sums, cost = self._sums(epsilon if self.direction == "replace" else 0.0, fineness)
        if self.direction == "replace":
            value = sums.upper(zero()) / self.reports + cost
        elif self.direction == "remove":
            value = sums.upper(self.reports * (growth - 1)) / self.reports + cost
        else:
            value = growth * (sums.upper(self.reports * (1 - 1 / growth)) / self.reports + cost)
        return value if value < best else best


@dataclass(frozen=True)
class PoissonStepClaim(RoundClaim, name="poisson-step"):
    """One direction of one step, which the victim joins with probability numerator/denominator."""

    numerator: int
    denominator: int
    noise: float
    direction: str

    def __post_init__(self) -> None:
        """Check the fields."""
        count(1, _MOST_EXACT, denominator=self.denominator)
        count(1, self.denominator, numerator=self.numerator)
        double(1e-6, 1e12, noise=self.noise)
        _known_direction(self.direction)

    theorem, assumptions = TRAINING["poisson"]
    ceiling = math.inf

    @property
    def subject(self) -> str:
        """The step with its numbers."""
        rate = f"{self.numerator}/{self.denominator}"
        return f"a step that is joined with probability {rate}, noise {self.noise!r}, {self.direction}"

    @property
    def reverse(self) -> "PoissonStepClaim | None":
        """The exchanged pair; none where that is the same."""
        return None if self.direction == "replace" else replace(self, direction=_REVERSED[self.direction])

    def summands(self, growth: Ball) -> list[Summand]:
        """Return nothing: there is a closed form."""
        return []

    def at(self, epsilon: float, *, fineness: float) -> Ball:
        """Return a ball that contains δ(ε)."""
        separation, growth = 1 / ball(self.noise), ball(epsilon).exp()
        rate = ball(self.numerator) / self.denominator
        if self.direction == "remove":  # p·E[(X − κ)₊]
            return rate * _divergence(separation, (1 + (growth - 1) / rate).log())
        if self.direction == "add":  # c·E[(1 − μX)₊]
            left = 1 - growth * (1 - rate)
            if left <= 0:
                return zero()
            if not left > 0:  # δ falls with ε, and here it is no more than what is left
                return left.upper()
            return left * _divergence(separation, (growth * rate / left).log())
        # What is summed up is positive beyond a point: off by η, this is too small by O(η²), the width of its ball.
        half = (1 - rate) * (growth - 1) / rate * (separation * separation / 2).exp() / 2
        point = (half + (half * half + growth).sqrt()).log() / separation
        value = normal(separation - point) - growth * normal(-separation - point)
        return rate * value - (1 - rate) * (growth - 1) * normal(-point)


def _divergence(separation: Ball, log_ratio: Ball) -> Ball:
    half, shift = separation / 2, log_ratio / separation
    return normal(half - shift) - log_ratio.exp() * normal(-half - shift)


@dataclass(frozen=True)
class ParticipationClaim(Claim, name="participation"):
    """A run of noisy SGD in which examples join steps by themselves.

    `charged` is what of δ is spent on batches that are larger than the margin for rounding allows.
    """

    sampling: str
    steps: int
    numerator: int
    denominator: int
    noise_multiplier: float
    epochs: int
    adjacency: str
    charged: float
    _known: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the fields."""
        if self.sampling not in ("allocation", "poisson"):
            raise ParameterError(f"sampling must be allocation or poisson; got {self.sampling!r:.40}")
        if self.adjacency not in _ADJACENCIES:
            raise ParameterError(f"adjacency must be one of {', '.join(_ADJACENCIES)}; got {self.adjacency!r:.40}")
        count(1, 10**12, steps=self.steps)
        count(1, _MOST_EXACT, denominator=self.denominator)
        count(1, self.denominator, numerator=self.numerator)
        double(1e-6, 1e12, noise_multiplier=self.noise_multiplier)
        count(1, 10**6, epochs=self.epochs)
        double(0.0, 1.0, charged=self.charged)
        if self.sampling == "allocation" and (self.numerator, self.denominator) != (1, self.steps):
            raise ParameterError("an allocation joins each of its steps with probability 1/steps")

    def to_dict(self) -> dict[str, Any]:
        """Return the run as plain values."""
        return {name: value for name, value in super().to_dict().items() if name != "_known"}

    @property
    def theorem(self) -> str:
        """Where the bound is proved."""
        return TRAINING[self.sampling][0]

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What has to be true of the run."""
        return TRAINING[self.sampling][1]

    @property
    def subject(self) -> str:
        """The run with its numbers."""
        rate = f"rate {self.numerator}/{self.denominator}, " if self.sampling == "poisson" else ""
        epochs = "1 epoch" if self.epochs == 1 else f"{self.epochs:,} epochs"
        how = f"{epochs} of {self.steps:,} steps, noise_multiplier={self.noise_multiplier!r}"
        return f"noisy SGD, sampling {self.sampling}, {rate}{how}, adjacency {self.adjacency}"

    @property
    def _directions(self) -> tuple[str, ...]:
        return _ADJACENCIES[self.adjacency]

    def _round(self, direction: str, cells: int, reach: float) -> tuple[RoundClaim, int]:
        """Return one direction of a round, and how many rounds there are."""
        if self.sampling == "allocation":
            epoch = AllocationClaim(self.steps, self.noise_multiplier, direction, cells, reach)
            return self._known.setdefault(epoch, epoch), self.epochs
        step = PoissonStepClaim(self.numerator, self.denominator, self.noise_multiplier, direction)
        return step, self.steps * self.epochs

    def _rounds(self, direction: str, cells: int, reach: float) -> RoundsClaim:
        return RoundsClaim((self._round(direction, cells, reach),), self._known)

    @property
    def _once(self) -> bool:
        return self._round("replace", 2, 1.0)[1] == 1

    def upper(self, epsilon: float, witness: Witness) -> Ball:
        """Return a ball whose upper end is at least δ(ε): the larger of both directions."""
        expect(witness, ("cells", "reach", *self._directions))
        cells, reach = witness["cells"], witness["reach"]
        worst = zero()
        for direction in self._directions:
            inner = witness[direction]
            if self._once:
                expect(inner, ("fineness",))
                fineness = double(0.0, 1.0, fineness=inner["fineness"])
                value = self._round(direction, cells, reach)[0].at(epsilon, fineness=fineness)
            else:
                value = self._rounds(direction, cells, reach).upper(epsilon, inner)
            worst = worst.max(value)
        return worst + ball(self.charged)

    def attempts(self, epsilon: float, delta: float) -> Iterator[tuple[float, Witness]]:
        """Yield ever more of ε; the direction that needs most of it decides."""
        tail = -NormalDist().inv_cdf(min(max(_LEFT_OUT * delta / self.epochs, 1e-300), 0.4))
        reach = float(round(1 / self.noise_multiplier + tail, 6))
        few = self.steps <= _FEW or self.noise_multiplier < _LITTLE
        width = _WIDTH if self._once else _COARSEST if self.adjacency == "replace" else _COARSE
        width = _FEW_WIDTHS[not self._once] if few else width
        frame: dict[str, Any] = {"cells": min(_MOST_CELLS, 2 * math.ceil(reach / width)), "reach": reach}
        if self._once:
            for more in _LADDER:
                yield epsilon * (1 + more), frame | self._alike(0.7 * math.sqrt(more) if few else _FINENESS)
            for fineness in _FINER if few else ():  # a long tail makes the sum wider than what decides
                yield epsilon * (1 + more), frame | self._alike(fineness)
            return
        left = delta - self.charged
        first, *others = self._directions
        for larger, inner in self._rounds(first, frame["cells"], reach).attempts(epsilon, left):
            rest = {each: self._rounds(each, frame["cells"], reach).retilted(larger, inner) for each in others}
            yield larger, frame | {first: inner} | rest

    def _alike(self, fineness: float) -> dict[str, Any]:
        return {direction: {"fineness": fineness} for direction in self._directions}
