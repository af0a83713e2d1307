"""Claims about Laplace and Gaussian noise on a number in an interval: their blanket, in cells.

With values in [0, 1], 0 and 1 are the easiest to tell apart, and the blanket is ω = min(R₀, R₁) (Theorem B,
docs/theory/blanket.md). W falls with the noised value; it is the same for both directions, by symmetry.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist

from flint import arb

from shoal.assumptions import DESCRIBED, FIXED
from shoal.errors import ParameterError
from shoal.proofs.balls import Ball, Summand, ball, normal
from shoal.proofs.cells import Edge, celled
from shoal.proofs.claim import RoundClaim, count, double
from shoal.proofs.words import BLANKET

__all__ = ["GaussianClaim", "LaplaceClaim"]

_MOST_CELLS = 5_000
_WIDTH, _COARSE = 0.02, 0.04
"""Of a cell, in deviations of the noise: of one round, and of many."""
_LEFT_OUT = 1e-4
"""The part of δ that may be spent on reports beyond the last cell."""


@dataclass(frozen=True)
class LaplaceClaim(RoundClaim, name="laplace"):
    """Laplace noise of scale 1/ε₀ on values in [0, 1], in cells of equal width between the two."""

    reports: int
    local_epsilon: float
    cells: int

    def __post_init__(self) -> None:
        """Check the fields."""
        count(reports=self.reports)
        if not double(0.0, 700.0, local_epsilon=self.local_epsilon) > 0:
            raise ParameterError("local_epsilon must be greater than 0")
        count(2, _MOST_CELLS, cells=self.cells)

    theorem = BLANKET
    assumptions = (DESCRIBED, *FIXED)

    @property
    def subject(self) -> str:
        """The noise with its numbers."""
        cells = f"discretised upwards into {self.cells} cells"
        return f"{self.reports:,} shuffled reports of Laplace noise, local_epsilon={self.local_epsilon!r}, {cells}"

    def fitted(self, delta: float, *, coarse: bool = False) -> "LaplaceClaim":
        """Return the claim with as many cells as one round, or many, ask for."""
        cells = 2 * math.ceil(max(150.0, 80 * self.local_epsilon))
        return replace(self, cells=min(_MOST_CELLS, cells // 3 if coarse else cells))

    @cached_property
    def _edges(self) -> tuple[list[Edge], Ball]:
        """The edges from 1 down to 0; beyond either end W does not change any more."""
        local, half = ball(self.local_epsilon), 2 * ((self.cells + 1) // 2)
        edges = []
        middle = (-local / 2).exp() / 2
        for index in range(half, -1, -1):
            point = ball(index) / half
            first = (-local * point).exp() / 2  # of R₀ beyond the point
            second = 1 - (local * (point - 1)).exp() / 2
            if 2 * index >= half:
                ratio = (local * (2 * point - 1)).exp()
                edges.append(Edge(arb(1), ratio, first, second, first))
            else:
                ratio = (local * (1 - 2 * point)).exp()
                edges.append(Edge(ratio, arb(1), first, second, 2 * middle - (1 - second)))
        return edges, 2 * middle

    def summands(self, growth: Ball) -> list[Summand]:
        """Return W."""
        return [celled(*self._edges, growth)]


@dataclass(frozen=True)
class GaussianClaim(RoundClaim, name="gaussian"):
    """Normal noise on values in [0, 1], in cells of equal width out to `reach` deviations from the middle."""

    reports: int
    deviation: float
    cells: int
    reach: float

    theorem = BLANKET
    assumptions = (DESCRIBED, *FIXED)

    def __post_init__(self) -> None:
        """Check the fields."""
        count(reports=self.reports)
        double(0.01, 1e6, deviation=self.deviation)
        count(2, _MOST_CELLS, cells=self.cells)
        if not double(0.0, 200.0, reach=self.reach) > 0:
            raise ParameterError("reach must be greater than 0")

    @property
    def subject(self) -> str:
        """The noise with its numbers."""
        cells = f"discretised upwards into {self.cells} cells within {self.reach!r} deviations"
        return f"{self.reports:,} shuffled reports of Gaussian noise on [0, 1], deviation={self.deviation!r}, {cells}"

    @property
    def ceiling(self) -> float:
        """Infinite: there is no ε₀."""
        return math.inf

    def fitted(self, delta: float, *, coarse: bool = False) -> "GaussianClaim":
        """Return the claim with cells as one round, or many, and this δ ask for."""
        tail = -NormalDist().inv_cdf(min(max(_LEFT_OUT * delta, 1e-300), 0.4))
        reach = float(round(0.5 / self.deviation + tail, 6))
        cells = 2 * math.ceil(reach / (_COARSE if coarse else _WIDTH))
        return replace(self, cells=min(_MOST_CELLS, cells), reach=reach)

    @cached_property
    def _edges(self) -> tuple[list[Edge], Ball]:
        """The edges from the largest noised value down."""
        deviation, half = ball(self.deviation), (self.cells + 1) // 2
        edges = []
        inner = normal(-1 / (2 * deviation))
        for index in range(half, -half - 1, -1):
            offset = ball(self.reach) * index / half  # in deviations from 1/2
            first, second = normal(-1 / (2 * deviation) - offset), normal(1 / (2 * deviation) - offset)
            ratio = (offset / deviation).exp()
            if index >= 0:
                edges.append(Edge(arb(1), ratio, first, second, first))
            else:
                below = normal(offset - 1 / (2 * deviation))  # of R₁ below the point
                edges.append(Edge(1 / ratio, arb(1), first, second, 2 * inner - below))
        return edges, 2 * inner

    def summands(self, growth: Ball) -> list[Summand]:
        """Return W."""
        return [celled(*self._edges, growth)]
