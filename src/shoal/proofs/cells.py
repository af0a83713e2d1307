"""A continuous W, discretised upwards into cells: a finite distribution whose masses are balls from closed forms.

Along a line W rises. The mass of a cell is put at its two ends with its mean kept, which is larger in convex order.
What lies before the first edge is raised to it. What lies beyond the last one is put there, and δ is charged
E[(W − cap)₊] (docs/theory/blanket.md, Lemmas 3 and 5).
"""

from collections.abc import Sequence
from typing import NamedTuple

from flint import arb

from shoal.proofs.balls import Ball, Summand
from shoal.proofs.work import keep, spend

__all__ = ["Edge", "celled", "edges_cost"]


class Edge(NamedTuple):
    """An edge of cells.

    Attributes
    ----------
    first, second : Ball
        The densities of R₀ and R₁ there, relative to the reference ω: W = first − e^ε·second.
    mass_first, mass_second, mass : Ball
        How much of R₀, R₁ and ω lies before it.
    """

    first: Ball
    second: Ball
    mass_first: Ball
    mass_second: Ball
    mass: Ball


def edges_cost(cells: int) -> None:
    """Announce what the edges of cells cost: three normal distribution functions each, and five balls that are kept."""
    spend(20 * cells)
    keep(5 * cells)


def celled(edges: Sequence[Edge], whole: Ball, growth: Ball) -> Summand:
    """Return W at e^ε from cells between edges along which it rises; `whole` is the mass of the reference ω."""
    spend(3 * len(edges))
    values = [edge.first - growth * edge.second for edge in edges]
    probabilities = [arb(0)] * len(edges)
    probabilities[0] += edges[0].mass
    for index in range(len(edges) - 1):
        left, right = edges[index], edges[index + 1]
        mass = right.mass - left.mass
        mean = right.mass_first - left.mass_first - growth * (right.mass_second - left.mass_second)
        ahead = (mean - values[index] * mass) / (values[index + 1] - values[index])
        probabilities[index + 1] += ahead
        probabilities[index] += mass - ahead
    last, tail = edges[-1], whole - edges[-1].mass
    probabilities[-1] += tail
    cost = (1 - last.mass_first) - growth * (1 - last.mass_second) - values[-1] * tail
    return Summand(tuple(values), tuple(probabilities), cost.max(arb(0)))
