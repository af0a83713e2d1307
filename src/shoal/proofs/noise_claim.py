"""Claims about Laplace and Gaussian noise on a number in an interval: their blanket, in cells.

With values in [0, 1], 0 and 1 are the easiest to tell apart, and the blanket is ω = min(R₀, R₁) (Theorem B,
docs/theory/blanket.md). W falls with the noised value; it is the same for both directions, by symmetry.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

from flint import arb

from shoal.assumptions import DESCRIBED, FIXED
from shoal.errors import ParameterError
from shoal.proofs.balls import Ball, Summand, ball, normal
from shoal.proofs.cells import MOST_CELLS, Edge, celled, cells_within, check_cells, edges_cost, tail_reach
from shoal.proofs.claim import RoundClaim, count, double
from shoal.statements import BLANKET

__all__ = ["GaussianClaim", "LaplaceClaim"]

# Of a cell, in standard deviations, for one round and for many: narrower cells take longer and lower ε.
_WIDTH, _COARSE = 0.02, 0.04
# Pairs of cells for Laplace noise: at least the first number, and the second one times ε₀.
_FEWEST, _PER_EPSILON = 150.0, 80.0


def _edge(index: int, ratio: Ball, first: Ball, second: Ball, rest: Ball) -> Edge:
    """Return the edge at which R₁ is `ratio` times R₀; `rest` is the part of ω before it where ω is R₁."""
    if index >= 0:  # ω is R₀
        return Edge(arb(1), ratio, first, second, first)
    return Edge(1 / ratio, arb(1), first, second, rest)


class _NoiseClaim(RoundClaim):
    """Noise whose W comes from cells along the noised value."""

    theorem = BLANKET
    assumptions = (DESCRIBED, *FIXED)
    _edges: tuple[list[Edge], Ball]

    def summands(self, growth: Ball) -> list[Summand]:
        """Return W."""
        edges, whole = self._edges
        return [celled(edges, whole, growth)]


@dataclass(frozen=True)
class LaplaceClaim(_NoiseClaim, name="laplace"):
    """Laplace noise of scale 1/ε₀ on values in [0, 1], in cells of equal width between the two."""

    reports: int
    local_epsilon: float
    cells: int

    def __post_init__(self) -> None:
        """Check the fields."""
        count(reports=self.reports)
        if not double(0.0, 700.0, local_epsilon=self.local_epsilon) > 0:
            raise ParameterError("local_epsilon must be greater than 0")
        count(2, MOST_CELLS, cells=self.cells)

    @property
    def subject(self) -> str:
        """The noise with its numbers."""
        cells = f"discretised upwards into {self.cells} cells"
        return f"{self.reports:,} shuffled reports of Laplace noise, local_epsilon={self.local_epsilon!r}, {cells}"

    def fitted(self, delta: float, *, coarse: bool = False) -> "LaplaceClaim":
        """Return the claim with the number of cells for one round, or for many."""
        cells = 2 * math.ceil(max(_FEWEST, _PER_EPSILON * self.local_epsilon))
        return replace(self, cells=min(MOST_CELLS, cells // 3 if coarse else cells))

    @cached_property
    def _edges(self) -> tuple[list[Edge], Ball]:  # type: ignore[override]
        """The edges from 1 down to 0; beyond either end W does not change any more."""
        edges_cost(self.cells)
        local = ball(self.local_epsilon)
        whole = (-local / 2).exp()
        half = (self.cells + 1) // 2
        edges = []
        for index in range(half, -half - 1, -1):
            offset = ball(index) / (2 * half)  # from 1/2
            beyond = (-local * (offset + ball(0.5))).exp() / 2
            before = (local * (offset - ball(0.5))).exp() / 2
            edges.append(_edge(index, (2 * local * offset).exp(), beyond, 1 - before, whole - before))
        return edges, whole


@dataclass(frozen=True)
class GaussianClaim(_NoiseClaim, name="gaussian"):
    """Normal noise on values in [0, 1], in cells of equal width out to `reach` deviations from the middle."""

    reports: int
    deviation: float
    cells: int
    reach: float

    ceiling = math.inf

    def __post_init__(self) -> None:
        """Check the fields."""
        count(reports=self.reports)
        double(0.01, 1e6, deviation=self.deviation)
        check_cells(self.cells, self.reach, 200.0)

    @property
    def subject(self) -> str:
        """The noise with its numbers."""
        cells = f"discretised upwards into {self.cells} cells within {self.reach!r} deviations"
        return f"{self.reports:,} shuffled reports of Gaussian noise on [0, 1], deviation={self.deviation!r}, {cells}"

    def fitted(self, delta: float, *, coarse: bool = False) -> "GaussianClaim":
        """Return the claim with the cells for one round, or for many, at this δ."""
        reach = float(round(0.5 / self.deviation + tail_reach(delta), 6))
        return replace(self, cells=cells_within(reach, _COARSE if coarse else _WIDTH), reach=reach)

    @cached_property
    def _edges(self) -> tuple[list[Edge], Ball]:  # type: ignore[override]
        """The edges from the largest noised value down."""
        edges_cost(self.cells)
        deviation = ball(self.deviation)
        middle = 1 / (2 * deviation)  # from either end, in deviations
        whole = 2 * normal(-middle)
        half = (self.cells + 1) // 2
        edges = []
        for index in range(half, -half - 1, -1):
            offset = ball(self.reach) * index / half  # in deviations from 1/2
            beyond = normal(-middle - offset)
            second = normal(middle - offset)
            before = normal(offset - middle)
            edges.append(_edge(index, (offset / deviation).exp(), beyond, second, whole - before))
        return edges, whole
