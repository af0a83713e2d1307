"""Pairs that dominate a part of a run of noisy SGD: an epoch of an allocation, a Poisson step, and Theorem G.

None of them has a name that a certificate could use. Pairs of one direction have the other one as their exchanged pair.
What is charged next to a pair is in the claims (docs/theory/samplers.md, docs/theory/sgd.md).
"""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from flint import ctx

from shoal.errors import ParameterError
from shoal.proofs.allocation_sums import AllocationSums
from shoal.proofs.balls import Ball, Summand, ball, normal, zero
from shoal.proofs.cells import Edge, celled, check_cells, gaussian_divergence, gaussian_edges
from shoal.proofs.claim import DominatingPair, choice, count, double

__all__ = [
    "FINENESS", "STEEPEST", "AllocationPair", "GaussianClonesPair", "PoissonStepPair", "few_steps",
]  # fmt: skip

_REVERSED = {"remove": "add", "add": "remove", "replace": "replace"}
FINENESS = 0.003
"""How fine the lattice of one round is: a finer one takes longer and lowers ε."""
# Where an example is replaced, every ε has a lattice of its own, and for many rounds it is coarser by this number.
_COARSER = 1.7
_RATIOS = 1.008, 1.02  # of a large value to the one before, finer and coarser: more values take longer and lower ε
# The sum of this number of steps or fewer, or with less noise, is split by its largest term, which is slower.
_FEW, _LITTLE = 32, 0.3
_APART = 1.02, 1.03  # of a loss far out to the one before, with noise below 1: closer losses take longer and lower ε
_FARTHEST = 600.0  # at larger losses the steps count as known
_MOST_EXACT = 2**1000  # the largest numerator and denominator of a rate: longer integers would take unbounded time
STEEPEST = 600.0
"""The largest logarithm of a ratio q: beyond it no bound is of use."""


def few_steps(steps: int, noise: float) -> bool:
    """Return whether the sum of an epoch is split by its largest term, instead of on a lattice."""
    return steps <= _FEW or noise < _LITTLE


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
    _known: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

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

    def _sums(self, epsilon: float, fineness: float) -> tuple[AllocationSums, Ball]:
        """Return the sum of all steps at this ε, and what its cells cost."""
        key = (epsilon, fineness, ctx.prec)
        if key not in self._known:
            (summand,) = self.summands(ball(epsilon).exp())
            turns = self._known.setdefault(ctx.prec, {})
            once = self.direction == "replace"
            coarse = once and fineness > FINENESS
            fine = fineness * (_COARSER if coarse else 1)
            ratio = _RATIOS[coarse]
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
        if few_steps(self.reports, self.noise):
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
        double(0.0, STEEPEST, log_ratio=self.log_ratio)
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
