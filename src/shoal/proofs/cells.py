"""A continuous W, discretised upwards into cells: a finite distribution whose masses are balls from closed forms.

Along a line W rises. The mass of a cell is put at its two ends with its mean kept, which is larger in convex order.
What lies before the first edge is raised to it. What lies beyond the last one is put there, and δ is charged
E[(W − cap)₊] (docs/theory/certificates.md, section 5; docs/theory/blanket.md, Lemmas 3 and 5). The Gaussian mechanism,
whose masses and divergence several claims use, is here as well.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

from flint import arb

from shoal.errors import ParameterError
from shoal.proofs.balls import Ball, Summand, ball, normal
from shoal.proofs.claim import count, double
from shoal.proofs.work import keep, spend

MOST_CELLS = 5_000
"""More cells cost time, and lower ε by less than a hundred-thousandth."""
_LEFT_OUT = 1e-4  # the part of δ that may be spent on noise beyond the last cell: a smaller part takes more cells


class Edge(NamedTuple):
    """An edge of cells: the densities of R₀ and R₁ relative to ω, and how much of R₀, R₁ and ω lies before it.

    There W = first − e^ε·second.
    """

    first: Ball
    second: Ball
    mass_first: Ball
    mass_second: Ball
    mass: Ball


def check_cells(cells: Any, reach: Any, farthest: float) -> None:
    """Refuse a number of cells, or a reach in standard deviations, that is outside of its range."""
    count(2, MOST_CELLS, cells=cells)
    if not double(0.0, farthest, reach=reach) > 0:
        raise ParameterError("reach must be greater than 0")


def edges_cost(cells: int) -> None:
    """Announce what the edges of cells cost: three normal distribution functions each, and five balls that are kept."""
    spend(20 * cells)
    keep(5 * cells)


def normal_cells(middle: float, delta: float, width: float) -> tuple[int, float]:
    """Return an even number of cells of about this width, and how far they reach, in deviations.

    They end where a normal variable at a distance of `middle` is with a small part of δ.
    """
    tail = -NormalDist().inv_cdf(min(max(_LEFT_OUT * delta, 1e-300), 0.4))
    reach = float(round(middle + tail, 6))
    return min(MOST_CELLS, 2 * math.ceil(reach / width)), reach


def celled(edges: Sequence[Edge], whole: Ball, growth: Ball) -> Summand:
    """Return W at e^ε from cells between edges along which it rises; `whole` is the mass of the reference ω."""
    spend(3 * len(edges))
    values = [edge.first - growth * edge.second for edge in edges]
    probabilities = [arb(0)] * len(edges)
    probabilities[0] += edges[0].mass
    for index in range(len(edges) - 1):
        left = edges[index]
        right = edges[index + 1]
        mass = right.mass - left.mass
        mean = right.mass_first - left.mass_first - growth * (right.mass_second - left.mass_second)
        # (5.1)
        ahead = (mean - values[index] * mass) / (values[index + 1] - values[index])
        probabilities[index + 1] += ahead
        probabilities[index] += mass - ahead
    last = edges[-1]
    tail = whole - last.mass
    probabilities[-1] += tail
    # (5.2)
    cost = (1 - last.mass_first) - growth * (1 - last.mass_second) - values[-1] * tail
    return Summand(tuple(values), tuple(probabilities), cost.max(arb(0)))


def gaussian_edges(above: Ball, below: Ball, ratio: Ball, cells: int, reach: float) -> list[Edge]:
    """Return the edges of W = q·(e^{aZ − a²/2} − e^ε·e^{−bZ − b²/2}), Z ~ N(0, 1), with probability 1/q.

    Here a = above, b = below and q = ratio; W rises with Z. The cells reach from −reach to reach.
    """
    edges_cost(cells)
    edges = []
    for index in range(cells + 1):
        point = ball(reach) * (2 * index - cells) / cells
        first = ratio * (above * point - above * above / 2).exp()
        second = ratio * (-below * point - below * below / 2).exp()
        edges.append(Edge(first, second, normal(point - above), normal(point + below), normal(point) / ratio))
    return edges


def gaussian_divergence(separation: Ball, log_ratio: Ball) -> Ball:
    """Return D_q of N(0, 1) and N(s, 1), s = separation, at q = e^log_ratio: δ of the Gaussian mechanism."""
    half = separation / 2
    shift = log_ratio / separation
    return normal(half - shift) - log_ratio.exp() * normal(-half - shift)
