"""Claims about a run of noisy SGD in balls: plain, shuffled, by allocation and Poisson sampling.

Where a theorem holds for every ratio q, the witness is the q that won (docs/theory/sgd.md). Where examples join steps
by themselves (Theorem A), epochs, or steps, are composed direction by direction (docs/theory/samplers.md).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from shoal.assumptions import TRAINING, Assumption
from shoal.errors import ParameterError
from shoal.proofs.balls import ZERO, Ball, Summand, ball, normal
from shoal.proofs.balls import above as above_double
from shoal.proofs.cells import Edge, celled, check_cells, gaussian_divergence, gaussian_edges, normal_cells
from shoal.proofs.claim import LADDER, Claim, DominatingPair, Witness, choice, count, double, expect
from shoal.proofs.participation_pairs import FINENESS, AllocationPair, PoissonStepPair, few_steps
from shoal.proofs.rounds_claim import Composition, repeated

_BOUNDS = ("gaussian-clones", "representatives", "plain")
_CHOICES = {
    "noise": ("batch", "example"),
    "releases": ("every-step", "sums"),
    "adjacency": ("replace", "zero-out"),
    "sampling": ("permutation", "fixed-order"),
    "bound": _BOUNDS,
    "elements": ("", "examples", "representatives", "batches"),
}
# Of a cell, in standard deviations of the noise, for one epoch and for many: narrower cells take longer and lower ε.
_WIDTH, _COARSE = 0.012, 0.05
_STEEPEST = 600.0  # the largest logarithm of a ratio q: beyond it no bound is of use
_DIRECTIONS = {"replace": ("replace",), "zero-out": ("remove", "add"), "add-remove": ("remove", "add")}
# The same of an allocation: of two directions, where an example is replaced, and where there are few steps.
_DIRECTED, _REPLACED, _FEW = (0.006, 0.015), (0.006, 0.025), (0.012, 0.03)
_FINER = 0.01, 0.005, 0.0025  # finenesses that are tried last for few steps


@dataclass(frozen=True)
class GaussianClonesPair(DominatingPair):
    """The pair of Theorem G, without what that charges: n elements, the victim's at a or −b.

    The others are clones N(0, 1) with probability 1/q; a and b are `above` and `below` times
    √(numerator/denominator)/noise.
    """

    reports: int
    noise: float
    numerator: int
    denominator: int
    above: float
    below: float
    log_ratio: float
    cells: int
    reach: float

    def __post_init__(self) -> None:
        """Check what comes from a witness; the claim has checked the numbers of the run."""
        double(0.0, _STEEPEST, log_ratio=self.log_ratio)
        check_cells(self.cells, self.reach, 500.0)
        if not self.above + self.below > 0:
            raise ParameterError("the distances of the victim's reports must be greater than 0")

    ceiling = math.inf

    @cached_property
    def _directions(self) -> list[list[Edge]]:
        unit = (ball(self.numerator) / self.denominator).sqrt() / ball(self.noise)
        above = unit * ball(self.above)
        below = unit * ball(self.below)
        ways = [(above, below)] if self.above == self.below else [(above, below), (below, above)]
        ratio = ball(self.log_ratio).exp()
        return [gaussian_edges(a, b, ratio, self.cells, self.reach) for a, b in ways]

    def summands(self, growth: Ball) -> list[Summand]:
        """Return V in both directions, in cells."""
        clones = 1 / ball(self.log_ratio).exp()
        return [celled(edges, clones, growth) for edges in self._directions]


@dataclass(frozen=True)
class TrainingClaim(Claim, name="training"):
    """A run of noisy SGD, and the theorem that bounds it; the fields are those of `shoal.sgd.Run`."""

    examples: int
    batch_size: int
    noise_multiplier: float
    epochs: int
    noise: str
    releases: str
    adjacency: str
    sampling: str
    bound: str
    elements: str
    hint: float = field(default=1.0, repr=False, compare=False)
    shown: int = field(default=1, repr=False, compare=False)
    _known: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check that the fields are those of a run, and that the theorem is about its sampler."""
        count(1, 10**12, examples=self.examples)
        count(1, self.examples, batch_size=self.batch_size)
        double(1e-6, 1e12, noise_multiplier=self.noise_multiplier)
        count(1, 10**6, epochs=self.epochs)
        for name, choices in _CHOICES.items():
            choice(choices, **{name: getattr(self, name)})
        if (self.bound == "plain") != (self.elements == ""):
            raise ParameterError("the plain bound has no elements, and every other bound has some")
        if self.bound != "plain" and self.sampling != "permutation":
            raise ParameterError(f"{self.bound} needs a fresh permutation for every epoch")
        if self.elements in ("batches", "representatives") and not (self._sums_only and self.batch_size > 1):
            raise ParameterError("batches and representatives are elements where only sums of batches are seen")
        if (self.bound == "representatives") != (self.elements == "representatives"):
            raise ParameterError("representatives of every batch are elements of the bound of that name, and no other")

    @property
    def theorem(self) -> str:
        """Where the bound is proved."""
        return TRAINING[self.bound][0]

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What has to be true of the run."""
        return TRAINING[self.bound][1]

    @property
    def subject(self) -> str:
        """The run with its numbers."""
        parts = f"batches of {self.batch_size:,}, noise_multiplier={self.noise_multiplier!r} (noise {self.noise}, "
        parts += f"releases {self.releases})"
        how = f"{self.epochs:,} epochs, sampling {self.sampling}, adjacency {self.adjacency}"
        bound = f"{self.bound}{f' over {self.elements}' if self.elements else ''}"
        return f"noisy SGD on {self.examples:,} examples in {parts}, {how}, by {bound}"

    @property
    def _sums_only(self) -> bool:
        return self.noise == "batch" or self.releases == "sums"

    def _unit(self, shown: int) -> tuple[int, int]:
        """Return numerator and denominator of the square of clip norm/deviation, of an element, over 1/noise²."""
        if self.elements == "representatives":
            return shown, (1 if self.noise == "batch" else self.batch_size)
        if self.elements == "examples":
            return (self.batch_size, 1) if self.noise == "batch" else (1, 1)
        return (1, 1) if self.noise == "batch" else (1, self.batch_size)

    def _number(self, shown: int) -> int:
        """Return the number of elements."""
        steps = -(-self.examples // self.batch_size)
        if self.elements in ("representatives", "batches"):
            return steps * (shown if self.elements == "representatives" else 1)
        return steps * self.batch_size if self._sums_only else self.examples

    @property
    def _moved(self) -> float:
        """How far one example moves a sum, in units."""
        return 2.0 if self.adjacency == "replace" else 1.0

    def _distances(self) -> tuple[float, float, float]:
        """Return above, below and around of the elements, in units (`shoal.sgd.bounds.Elements`)."""
        if self.elements in ("examples", "representatives"):
            return 1.0, 0.0 if self.adjacency == "zero-out" else 1.0, 1.0
        return self._moved / 2, self._moved / 2, 2.0 * self.batch_size

    def upper(self, epsilon: float, witness: Witness) -> Ball:
        """Return a ball whose upper end is at least δ(ε)."""
        if self.bound == "plain":
            expect(witness, ())
            square = ball(self.epochs)  # one Gaussian mechanism per epoch
            if self.noise == "example" and self._sums_only:
                square = square / self.batch_size
            separation = self._moved * square.sqrt() / ball(self.noise_multiplier)
            return gaussian_divergence(separation, ball(epsilon))
        expect(witness, ("log_ratio", "log_near", "cells", "reach", "shown", "inner"))
        pair, factor, charge = self._charged(witness)
        rounds = repeated(pair, self.epochs, self._known)
        return factor * rounds.repeated(epsilon, witness["inner"]) + charge

    def _charged(self, witness: Witness) -> tuple[DominatingPair, Ball, Ball]:
        """Return the pair of one epoch at the ratio of the witness, a factor and a charge.

        δ of all epochs is at most factor·(that of the pair, composed) + charge.
        """
        log_ratio = double(0.0, _STEEPEST, log_ratio=witness["log_ratio"])
        double(0.0, _STEEPEST, log_near=witness["log_near"])  # a number of the format that no bound uses any more
        shown = count(1, self.batch_size, shown=witness["shown"])
        above, below, around = self._distances()
        numerator, denominator = self._unit(shown)
        unit = (ball(numerator) / denominator).sqrt() / ball(self.noise_multiplier)
        number, ratio = self._number(shown), ball(log_ratio).exp()
        distance, nearest = unit * ball(around), unit * ball(max(above, below))
        deficit = (gaussian_divergence(distance, ball(log_ratio)) / ratio).max(ZERO)
        raised = above_double(ball(log_ratio) + (1 + deficit).log())  # the pair has q·(1 + d), or more
        pair = GaussianClonesPair(
            number, self.noise_multiplier, numerator, denominator, above, below, raised, witness["cells"],
            witness["reach"],
        )  # fmt: skip
        point = distance / 2 + nearest - ball(log_ratio) / distance
        stray = normal(point) - ratio * (-nearest * distance).exp() * normal(point - distance)
        factor = (1 + deficit) ** ((number - 1) * self.epochs)
        return pair, factor, factor * self.epochs * stray.max(ZERO)  # (6.1)

    def attempts(self, epsilon: float, delta: float) -> Iterator[tuple[float, Witness]]:
        """Yield ever more of ε, at the ratio that won in floating point."""
        if self.bound == "plain":
            for more in LADDER[:2]:
                yield epsilon * (1 + more), {}
            return
        above, below, _ = self._distances()
        numerator, denominator = self._unit(self.shown)
        unit = math.sqrt(numerator / denominator) / self.noise_multiplier
        width = _WIDTH if self.epochs == 1 else _COARSE
        cells, reach = normal_cells(unit * max(above, below), delta / self.epochs, width)
        frame = {"log_ratio": self.hint, "log_near": 0.0, "cells": cells, "reach": reach, "shown": self.shown}
        if self.epochs == 1:
            for more in LADDER[-3:]:
                yield epsilon * (1 + more), frame | {"inner": {"fineness": 0.7 * math.sqrt(more)}}
            return
        pair, factor, charge = self._charged(frame)
        left = (delta - float(charge)) / float(factor)
        if left > 0:
            rounds = Composition(((pair, self.epochs),), self._known)
            for larger, inner in rounds.attempts(epsilon, left):
                yield larger, frame | {"inner": inner}


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
        choice(_DIRECTIONS, adjacency=self.adjacency)
        count(1, 10**12, steps=self.steps)
        double(1e-6, 1e12, noise_multiplier=self.noise_multiplier)
        PoissonStepPair(self.numerator, self.denominator, self.noise_multiplier, "replace")  # checks the rate
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
        return _DIRECTIONS[self.adjacency]

    @property
    def _times(self) -> int:
        return self.epochs if self.sampling == "allocation" else self.steps * self.epochs

    def _rounds(self, direction: str, cells: int, reach: float) -> Composition:
        """Return all rounds in one direction."""
        pair: DominatingPair
        if self.sampling == "allocation":
            pair = AllocationPair(self.steps, self.noise_multiplier, direction, cells, reach)
        else:
            pair = PoissonStepPair(self.numerator, self.denominator, self.noise_multiplier, direction)
        return repeated(pair, self._times, self._known)

    def upper(self, epsilon: float, witness: Witness) -> Ball:
        """Return a ball whose upper end is at least δ(ε): the larger of both directions."""
        expect(witness, ("cells", "reach", *self._directions))
        worst = ZERO
        for direction in self._directions:
            rounds = self._rounds(direction, witness["cells"], witness["reach"])
            worst = worst.max(rounds.repeated(epsilon, witness[direction]))
        return worst + ball(self.charged)

    def attempts(self, epsilon: float, delta: float) -> Iterator[tuple[float, Witness]]:
        """Yield ever more of ε; the direction that needs most of it decides."""
        few = few_steps(self.steps, self.noise_multiplier)
        widths = _FEW if few else _REPLACED if self.adjacency == "replace" else _DIRECTED
        width = widths[self._times > 1]
        cells, reach = normal_cells(1 / self.noise_multiplier, delta / self.epochs, width)
        frame: dict[str, Any] = {"cells": cells, "reach": reach}
        if self._times == 1:
            # From a millionth more of ε on; a long tail makes the sum wider than what decides.
            tried = [(more, 0.7 * math.sqrt(more) if few else FINENESS) for more in LADDER[4:]]
            if few:
                tried += [(LADDER[-1], fineness) for fineness in _FINER]
            for more, fineness in tried:
                yield epsilon * (1 + more), frame | {each: {"fineness": fineness} for each in self._directions}
            return
        first, *others = self._directions
        rounds = {each: self._rounds(each, cells, reach) for each in self._directions}
        for larger, inner in rounds[first].attempts(epsilon, delta - self.charged):
            rest = {each: rounds[each].retilted(larger, inner) for each in others}
            yield larger, frame | {first: inner} | rest
