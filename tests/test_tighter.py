"""docs/theory/tighter.md: Lemma K for random protocols, and why a kernel may not see the whole order."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from itertools import permutations, product

import numpy as np
import pytest

Row = Callable[[int, int, tuple[int, ...]], Sequence[Fraction]]
"""The distribution of a report of a person at a position, after a history; −1 and −2 are the victim in both worlds."""
Kernels = Mapping[int, Sequence[Fraction]]


def truth(row: Row, people: int, outputs: int, factor: Fraction) -> Fraction:
    """Return D of the two worlds, by listing all reports and all seatings."""
    total = Fraction(0)
    for reports in product(range(outputs), repeat=people):
        worlds = []
        for victim in (-1, -2):
            sums = [
                math.prod((row(who, i, reports[:i])[reports[i]] for i, who in enumerate(seats)), start=Fraction(1))
                for seats in permutations((victim, *range(people - 1)))
            ]
            worlds.append(sum(sums, Fraction(0)) / math.factorial(people))
        total += max(worlds[0] - factor * worlds[1], Fraction(0))
    return total


def right_side(
    row: Row, people: int, outputs: int, factor: Fraction, kernels: Callable[[tuple[int, ...]], Kernels]
) -> Fraction:
    """Return the bound of Lemma K, with the row of the person who is first in the order at position 0."""
    total, orders = Fraction(0), list(permutations(range(people - 1)))
    for order in orders:
        kappa = kernels(order)
        for reports in product(range(outputs), repeat=people):
            bases = [row((order[0], *order)[i], i, reports[:i])[reports[i]] for i in range(people)]
            rho, sums = [Fraction(1)], Fraction(0)
            for v in range(people):
                if v:
                    shares = [row(order[v - 1], u, reports[:u])[reports[u]] / bases[u] for u in range(v)]
                    rho.append(sum((kappa[v][u] * shares[u] * rho[u] for u in range(v)), Fraction(0)))
                one, two = (row(victim, v, reports[:v])[reports[v]] for victim in (-1, -2))
                sums += rho[v] * (one - factor * two) / bases[v]
            total += math.prod(bases, start=Fraction(1)) * max(sums, Fraction(0))
    return total / people / len(orders)


def random_row(rng: np.random.Generator, outputs: int, ratio: int) -> Row:
    """Return rows whose probabilities of an output are within a ratio at each position and history."""
    known: dict[tuple[int, int, tuple[int, ...]], list[Fraction]] = {}
    bases: dict[tuple[int, tuple[int, ...]], list[int]] = {}

    def row(who: int, position: int, history: tuple[int, ...]) -> list[Fraction]:
        base = bases.setdefault((position, history), rng.integers(1, 6, outputs).tolist())
        if (who, position, history) not in known:
            weights = [part * int(rng.integers(1, ratio + 1)) for part in base]
            known[who, position, history] = [Fraction(weight, sum(weights)) for weight in weights]
        return known[who, position, history]

    return row


def random_kernels(rng: np.random.Generator, people: int) -> Kernels:
    """Return random probability vectors on 0, …, v − 1."""
    result = {}
    for v in range(1, people):
        weights = rng.integers(0, 4, v) + np.eye(v, dtype=int)[0]
        result[v] = [Fraction(int(weight), int(weights.sum())) for weight in weights]
    return result


def blind(fixed: Kernels, order: tuple[int, ...]) -> Kernels:
    """Return the same kernels for every order."""
    return fixed


def seeing_later(fixed: Kernels, later: Mapping[int, Kernels], order: tuple[int, ...]) -> Kernels:
    """Return kernels in which κ_v depends on who comes next in the order."""
    people = len(order) + 1
    return {v: (later[order[v]][v] if v < people - 1 else fixed[v]) for v in range(1, people)}


@pytest.mark.slow
@pytest.mark.parametrize("people", [2, 3, 4])
def test_lemma_k_holds_for_adaptive_protocols(people: int) -> None:
    rng = np.random.default_rng(people)
    for _ in range(30 if people < 4 else 3):
        row = random_row(rng, 2, 3)
        fixed, later = random_kernels(rng, people), {who: random_kernels(rng, people) for who in range(people - 1)}
        factor = Fraction(int(rng.integers(20, 40)), 20)
        exact = truth(row, people, 2, factor)
        assert exact <= right_side(row, people, 2, factor, partial(blind, fixed))
        assert exact <= right_side(row, people, 2, factor, partial(seeing_later, fixed, later))


def test_equality_where_all_others_hold_the_same() -> None:
    rows = {-1: Fraction(3, 4), -2: Fraction(1, 3)}

    def row(who: int, position: int, history: tuple[int, ...]) -> list[Fraction]:
        one = rows.get(who, Fraction(1, 2))
        return [1 - one, one]

    kernels = random_kernels(np.random.default_rng(1), 4)
    factor = Fraction(11, 10)
    assert truth(row, 4, 2, factor) == right_side(row, 4, 2, factor, partial(blind, kernels)) > 0


def test_a_kernel_that_sees_the_whole_order_gives_less_than_the_truth() -> None:
    special = {(0, 0), (1, 1), (-2, 2)}  # A at position 0, B at 1, the victim of world 1 at 2

    def row(who: int, position: int, history: tuple[int, ...]) -> list[Fraction]:
        one = Fraction(2, 3) if (who, position) in special else Fraction(1, 3)
        return [1 - one, one]

    first, second = [Fraction(1), Fraction(0)], [Fraction(0), Fraction(1)]
    factor, at_zero = Fraction(5, 4), [Fraction(1)]

    def seeing(order: tuple[int, ...]) -> Kernels:
        return {1: at_zero, 2: first if order == (0, 1) else second}

    assert truth(row, 3, 2, factor) == Fraction(1, 216)
    assert right_side(row, 3, 2, factor, seeing) == 0
    for same in (first, second):
        assert right_side(row, 3, 2, factor, partial(blind, {1: at_zero, 2: same})) == Fraction(1, 108)
