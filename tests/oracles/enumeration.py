"""Real shuffled protocols on a handful of people, by listing every output.

A randomizer is a matrix: entry [x][y] is the probability that input x is reported as y. Entries may be floats or
fractions; sums of fractions are exact and sums of floats are rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import permutations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

Number = float | Fraction
Matrix = Sequence[Sequence[Number]]
Outputs = tuple[int, ...]
Distribution = dict[Outputs, Number]
Protocol = Mapping[Outputs, Matrix]
"""The randomizer that the next person runs, given the reports made so far."""


def shuffled_distribution(randomizer: Matrix, inputs: Sequence[int]) -> Distribution:
    """Return the distribution of the shuffled reports, a dictionary from sorted outputs to probability."""
    terms: dict[Outputs, list[Number]] = {}
    for outputs in product(range(len(randomizer[0])), repeat=len(inputs)):
        probability = math.prod(randomizer[x][y] for x, y in zip(inputs, outputs, strict=True))
        terms.setdefault(tuple(sorted(outputs)), []).append(probability)
    return {outputs: _total(probabilities) for outputs, probabilities in terms.items()}


def adaptive_distribution(protocol: Protocol, inputs: Sequence[int]) -> Distribution:
    """Return the distribution of the sequence of reports when people come in a uniformly random order.

    The person at position i runs the randomizer that the protocol gives for the i reports before.
    """
    terms: dict[Outputs, list[Number]] = {}
    orders = list(permutations(inputs))
    for outputs in product(range(len(protocol[()][0])), repeat=len(inputs)):
        randomizers = [protocol[outputs[:position]] for position in range(len(inputs))]
        terms[outputs] = [
            math.prod(matrix[x][y] for matrix, x, y in zip(randomizers, order, outputs, strict=True))
            for order in orders
        ]
    return {outputs: _total(probabilities) / len(orders) for outputs, probabilities in terms.items()}


def hockey_stick(distribution_p: Mapping[Any, Number], distribution_q: Mapping[Any, Number], epsilon: float) -> float:
    """Return the sum of (P - e^ε Q)₊ over all outcomes."""
    factor = math.exp(epsilon)
    return math.fsum(
        max(0.0, float(mass) - factor * float(distribution_q.get(key, 0))) for key, mass in distribution_p.items()
    )


def worst_local_delta(randomizer: Matrix, local_epsilon: float) -> float:
    """Return the smallest δ₀ for which the matrix is (ε₀, δ₀)-DP: the worst hockey-stick of two rows."""
    rows = [dict(enumerate(row)) for row in randomizer]
    return max((hockey_stick(p, q, local_epsilon) for p, q in permutations(rows, 2)), default=0.0)


def randomized_response(categories: int, local_epsilon: float) -> list[list[float]]:
    """Return the matrix of k-ary randomized response."""
    lie = 1 / (math.exp(local_epsilon) + categories - 1)
    truth = math.exp(local_epsilon) * lie
    return [[truth if x == y else lie for y in range(categories)] for x in range(categories)]


def random_randomizer(rng: np.random.Generator, inputs: int, outputs: int, local_epsilon: float) -> list[list[float]]:
    """Return a random ε₀-DP matrix: an extremal one of either kind, or a mixture of two, equally often."""
    kind = rng.integers(3)
    if kind == 0:
        return _rows(_extremal(rng, inputs, outputs, local_epsilon))
    if kind == 1:
        return _rows(_paired(rng, inputs, outputs, local_epsilon))
    share = rng.random()
    one = _extremal(rng, inputs, outputs, local_epsilon)
    two = _paired(rng, inputs, outputs, local_epsilon)
    return _rows(share * one + (1 - share) * two)


def random_approximate(
    rng: np.random.Generator, inputs: int, outputs: int, local_epsilon: float, local_delta: float
) -> list[list[float]]:
    """Return a random (ε₀, δ₀)-DP matrix, as a rule with no δ₀ to spare.

    A random ε₀-DP matrix is mixed with an arbitrary one, point masses half the time. The worst hockey-stick
    of two rows is convex in the share of the latter and 0 without it: bisection finds the largest allowed.
    """
    pure = np.array(random_randomizer(rng, inputs, outputs, local_epsilon))
    if rng.random() < 0.5:
        wild = np.eye(outputs)[rng.integers(outputs, size=inputs)]
    else:
        wild = rng.dirichlet(np.full(outputs, 0.5), size=inputs)
    low, high = 0.0, 1.0
    if worst_local_delta(wild.tolist(), local_epsilon) <= local_delta:
        low = 1.0
    for _ in range(60):
        share = (low + high) / 2
        if worst_local_delta(((1 - share) * pure + share * wild).tolist(), local_epsilon) <= local_delta:
            low = share
        else:
            high = share
    return _rows((1 - low) * pure + low * wild)


def random_adaptive(
    rng: np.random.Generator, reports: int, inputs: int, outputs: int, local_epsilon: float
) -> dict[Outputs, list[list[float]]]:
    """Return a protocol: a fresh random ε₀-DP matrix for every history of fewer than `reports` reports."""
    return {
        history: random_randomizer(rng, inputs, outputs, local_epsilon)
        for length in range(reports)
        for history in product(range(outputs), repeat=length)
    }


def _total(terms: Iterable[Number]) -> Number:
    """Return the sum, exact for fractions and rounded once for floats."""
    terms = list(terms)
    if any(isinstance(term, Fraction) for term in terms):
        return sum(terms, start=Fraction(0))
    return math.fsum(terms)


def _extremal(rng: np.random.Generator, inputs: int, outputs: int, local_epsilon: float) -> NDArray[np.float64]:
    """Return a random vertex of the ε₀-DP matrices, its columns multiples of vectors in {1, e^ε₀}^inputs."""
    columns = np.array(list(product((1.0, math.exp(local_epsilon)), repeat=inputs))).T
    return _arrange(rng, _vertex(rng, columns), outputs)


def _paired(rng: np.random.Generator, inputs: int, outputs: int, local_epsilon: float) -> NDArray[np.float64]:
    """Return a random vertex on few columns: random vectors in {1, e^ε₀}^inputs with their complements.

    A vector and its complement add up to a constant, so rows can always be made to sum to one.
    """
    ratio = math.exp(local_epsilon)
    low = rng.random((inputs, (outputs + 1) // 2)) < 0.5
    low[0], low[-1] = True, inputs == 1  # no constant vectors, unless there is one input
    half = np.where(rng.permuted(low, axis=0), 1.0, ratio)
    return _arrange(rng, _vertex(rng, np.hstack([half, 1 + ratio - half])), outputs)


def _vertex(rng: np.random.Generator, columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the columns weighted so that rows sum to one, at a vertex picked by a random objective.

    Constant columns reveal nothing and are left out, and costs go by a column's mass: otherwise most vertices
    would be a single constant column.
    """
    varied = columns[:, columns.max(axis=0) > columns.min(axis=0)]
    columns = varied if varied.size else columns
    ones = np.ones(len(columns))
    objective = rng.normal(size=(columns.shape[1],)) * columns.sum(axis=0)
    solution = linprog(objective, A_eq=columns, b_eq=ones, bounds=(0, None))
    if solution.x is None:
        raise RuntimeError(f"no vertex found: {solution.message}")
    support = columns[:, solution.x > 1e-9]
    weights = np.linalg.lstsq(support, ones, rcond=None)[0]  # the solver is good to 1e-7 only
    if weights.min() < 0 or abs(support @ weights - 1).max() > 1e-12:
        raise RuntimeError("the vertex found does not sum to one")
    weighted: NDArray[np.float64] = support * weights
    return weighted


def _arrange(rng: np.random.Generator, columns: NDArray[np.float64], outputs: int) -> NDArray[np.float64]:
    """Return exactly `outputs` columns in random order, surplus ones merged, missing ones zero."""
    while columns.shape[1] > outputs:
        columns = rng.permutation(columns, axis=1)
        columns = np.hstack([columns[:, 2:], columns[:, :1] + columns[:, 1:2]])
    padding = np.zeros((len(columns), outputs - columns.shape[1]))
    arranged: NDArray[np.float64] = rng.permutation(np.hstack([columns, padding]), axis=1)
    return arranged


def _rows(matrix: NDArray[np.float64]) -> list[list[float]]:
    """Return the matrix as lists, each row summing to one as nearly as floats can."""
    return [[float(entry) / math.fsum(row) for entry in row] for row in matrix]
