"""The claim about examples that join steps by themselves (Theorem A): allocation and Poisson sampling, in balls.

The claim is about a whole run, in both directions. Each direction of an epoch, or of a step, is a pair without a name,
whose exchanged pair is the other one; epochs, or steps, are composed direction by direction (docs/theory/samplers.md).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from flint import ctx

from shoal.assumptions import Assumption
from shoal.errors import ParameterError
from shoal.proofs.allocation_sums import AllocationSums
from shoal.proofs.balls import Ball, Summand, ball, normal, zero
from shoal.proofs.cells import (
    Edge,
    celled,
    cells_within,
    check_cells,
    gaussian_divergence,
    gaussian_edges,
    tail_reach,
)  # fmt: skip
from shoal.proofs.claim import LADDER, Claim, Witness, choice, count, double, expect
from shoal.proofs.dominating_pair import DominatingPair
from shoal.proofs.rounds_claim import Composition, repeated
from shoal.statements import TRAINING

__all__ = ["AllocationPair", "ParticipationClaim", "PoissonStepPair"]

_REVERSED = {"remove": "add", "add": "remove", "replace": "replace"}
_ADJACENCIES = {"replace": ("replace",), "zero-out": ("remove", "add"), "add-remove": ("remove", "add")}
# Of a cell, in standard deviations of the noise: for one round, for many, and for many if an example is replaced.
# Narrower cells take longer and lower ε.
_WIDTH, _COARSE, _COARSEST = 0.006, 0.015, 0.025
# How fine a lattice is. Where an example is replaced, every ε has a lattice of its own, and for many rounds it is
# coarser by the second number.
_FINENESS, _COARSER = 0.003, 1.7
_RATIOS = 1.008, 1.02  # of a large value to the one before, finer and coarser: more values take longer and lower ε
# The sum of this number of steps or fewer, or with less noise, is split by its largest term, which is slower.
_FEW, _LITTLE = 32, 0.3
# Widths of cells for such sums, for one round and for many, and the finenesses that are tried after the others.
_FEW_WIDTHS, _FINER = (0.012, 0.03), (0.01, 0.005, 0.0025)
_APART = 1.02, 1.03  # of a loss far out to the one before, with noise below 1: closer losses take longer and lower ε
_FARTHEST = 600.0  # at larger losses the steps count as known
_MOST_EXACT = 2**1000  # the largest numerator and denominator of a rate: longer integers would take unbounded time


class _DirectedPair(DominatingPair):
    """One direction of a round, whose exchanged pair is the other direction; `replace` is its own exchanged pair."""

    noise: float
    direction: str
    ceiling = math.inf

    def _check_noise(self) -> None:
        double(1e-6, 1e12, noise=self.noise)
        choice(_REVERSED, direction=self.direction)

    @property
    def reverse(self) -> "_DirectedPair | None":
        """The exchanged pair; none where that is the same."""
        if self.direction == "replace":
            return None
        return replace(self, direction=_REVERSED[self.direction])  # type: ignore[type-var]


@dataclass(frozen=True)
class AllocationPair(_DirectedPair):
    """One direction of one epoch: the victim joins one of `reports` steps, each with this noise on its sum."""

    reports: int
    noise: float
    direction: str
    cells: int
    reach: float

    def __post_init__(self) -> None:
        """Check the fields."""
        count(reports=self.reports)
        self._check_noise()
        check_cells(self.cells, self.reach, 1e7)

    @property
    def apart(self) -> float:
        """Of a loss far out to the one before: rare large losses decide, where there is little noise."""
        return super().apart if self.noise >= 1 else _APART[self.direction == "replace"]

    @cached_property
    def _edges(self) -> list[Edge]:
        unit = 1 / ball(self.noise)
        above = zero() if self.direction == "add" else unit
        below = zero() if self.direction == "remove" else unit
        return gaussian_edges(above, below, ball(1.0), self.cells, self.reach)

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

    def _sums(self, epsilon: float, fineness: float) -> tuple[AllocationSums, Ball]:
        """Return the sum of all steps at this ε, and what its cells cost."""
        key = (epsilon, fineness, ctx.prec)
        if key not in self._known:
            (summand,) = self.summands(ball(epsilon).exp())
            turns = self._known.setdefault(ctx.prec, {})
            once = self.direction == "replace"
            ratio = _RATIOS[once and fineness > _FINENESS]
            fine = fineness * (_COARSER if once and fineness > _FINENESS else 1)
            sums = AllocationSums(summand, self.reports, fineness=fine, ratio=ratio, many=not once, turns=turns)
            if once:  # no other ε has this sum
                return sums, summand.cost
            self._known[key] = sums, summand.cost
        return self._known[key]  # type: ignore[no-any-return]

    def at(self, epsilon: float, *, fineness: float) -> Ball:
        """Return a ball whose upper end is at least δ(ε), from this ε alone.

        With X − λ = (X − 1) − (λ − 1) and 1 − λX = λ·((1 − X) − (1 − 1/λ)), one sum serves the curve of either.
        """
        growth = ball(epsilon).exp()
        separation = (2 if self.direction == "replace" else 1) / ball(self.noise)
        best = gaussian_divergence(separation, ball(epsilon))  # the steps are known
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
class PoissonStepPair(_DirectedPair):
    """One direction of one step, which the victim joins with probability numerator/denominator."""

    numerator: int
    denominator: int
    noise: float
    direction: str

    def __post_init__(self) -> None:
        """Check the fields."""
        count(1, _MOST_EXACT, denominator=self.denominator)
        count(1, self.denominator, numerator=self.numerator)
        self._check_noise()

    def at(self, epsilon: float, *, fineness: float) -> Ball:
        """Return a ball that contains δ(ε)."""
        separation, growth = 1 / ball(self.noise), ball(epsilon).exp()
        rate = ball(self.numerator) / self.denominator
        if self.direction == "remove":  # p·E[(X − κ)₊]
            return rate * gaussian_divergence(separation, (1 + (growth - 1) / rate).log())
        if self.direction == "add":  # c·E[(1 − μX)₊]
            left = 1 - growth * (1 - rate)
            if left <= 0:
                return zero()
            if not left > 0:  # δ falls with ε, and here it is no more than what is left
                return left.upper()
            return left * gaussian_divergence(separation, (growth * rate / left).log())
        # What is summed up is positive beyond a point: off by η, this is too small by O(η²), the width of its ball.
        half = (1 - rate) * (growth - 1) / rate * (separation * separation / 2).exp() / 2
        point = (half + (half * half + growth).sqrt()).log() / separation
        value = normal(separation - point) - growth * normal(-separation - point)
        return rate * value - (1 - rate) * (growth - 1) * normal(-point)


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
        choice(("allocation", "poisson"), sampling=self.sampling)
        choice(_ADJACENCIES, adjacency=self.adjacency)
        count(1, 10**12, steps=self.steps)
        count(1, _MOST_EXACT, denominator=self.denominator)
        count(1, self.denominator, numerator=self.numerator)
        double(1e-6, 1e12, noise_multiplier=self.noise_multiplier)
        count(1, 10**6, epochs=self.epochs)
        double(0.0, 1.0, charged=self.charged)
        if self.sampling == "allocation" and (self.numerator, self.denominator) != (1, self.steps):
            raise ParameterError("an allocation joins each of its steps with probability 1/steps")

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
        overfull = f", delta of overfull batches {self.charged!r}" if self.charged else ""
        return f"noisy SGD, sampling {self.sampling}, {rate}{how}, adjacency {self.adjacency}{overfull}"

    @property
    def _directions(self) -> tuple[str, ...]:
        return _ADJACENCIES[self.adjacency]

    def _round(self, direction: str, cells: int, reach: float) -> tuple[DominatingPair, int]:
        """Return one direction of a round, and how many rounds there are."""
        if self.sampling == "allocation":
            epoch = AllocationPair(self.steps, self.noise_multiplier, direction, cells, reach)
            return self._known.setdefault(epoch, epoch), self.epochs
        step = PoissonStepPair(self.numerator, self.denominator, self.noise_multiplier, direction)
        return step, self.steps * self.epochs

    def _rounds(self, direction: str, cells: int, reach: float) -> Composition:
        return Composition((self._round(direction, cells, reach),), self._known)

    @property
    def _once(self) -> bool:
        return self._round("replace", 2, 1.0)[1] == 1

    def upper(self, epsilon: float, witness: Witness) -> Ball:
        """Return a ball whose upper end is at least δ(ε): the larger of both directions."""
        expect(witness, ("cells", "reach", *self._directions))
        cells, reach = witness["cells"], witness["reach"]
        worst = zero()
        for direction in self._directions:
            pair, times = self._round(direction, cells, reach)
            worst = worst.max(repeated(pair, times, epsilon, witness[direction], self._known))
        return worst + ball(self.charged)

    def attempts(self, epsilon: float, delta: float) -> Iterator[tuple[float, Witness]]:
        """Yield ever more of ε; the direction that needs most of it decides."""
        reach = float(round(1 / self.noise_multiplier + tail_reach(delta / self.epochs), 6))
        few = self.steps <= _FEW or self.noise_multiplier < _LITTLE
        if few:
            width = _FEW_WIDTHS[not self._once]
        elif self._once:
            width = _WIDTH
        else:
            width = _COARSEST if self.adjacency == "replace" else _COARSE
        frame: dict[str, Any] = {"cells": cells_within(reach, width), "reach": reach}
        if self._once:
            for more in LADDER[4:]:  # from a millionth on
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
