"""The paper's lemmas about two distributions, on thousands of random ones, in fractions: nothing is rounded."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from tests.oracles.lemmas import Row, binary_parts, excess, made_pure

LIKELIHOODS = [Fraction(3, 2), Fraction(3), Fraction(20)]


def distribution(size: int) -> list[Fraction]:
    weights = [random.choice((0, 1, 2, 5, 30)) for _ in range(size)]
    weights[random.randrange(size)] += 1
    return [Fraction(weight, sum(weights)) for weight in weights]


def between(share: Fraction, p: Row, q: Row) -> list[Fraction]:
    return [(1 - share) * a + share * b for a, b in zip(p, q, strict=True)]


def pure_pair(likelihood: Fraction) -> tuple[list[Fraction], list[Fraction]]:
    """Return two rows within e^±ε of each other everywhere: randomized response between two distributions."""
    parts, truth = (distribution(5), distribution(5)), likelihood / (likelihood + 1)
    return between(1 - truth, *parts), between(truth, *parts)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_lemma_2_3_advanced_joint_convexity(likelihood: Fraction) -> None:
    for _ in range(60):
        common, first, second = distribution(5), distribution(5), distribution(5)
        share = Fraction(random.randint(1, 9), 10)
        outer = 1 + share * (likelihood - 1)
        found = excess(between(share, common, first), between(share, common, second), outer)
        mixture = between(outer / likelihood, common, second)
        assert found == share * excess(first, mixture, likelihood)
        assert found <= share * max(excess(first, common, likelihood), excess(first, second, likelihood))


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_lemma_3_4_every_pair_is_binary_randomized_response(likelihood: Fraction) -> None:
    truth = likelihood / (likelihood + 1)
    for _ in range(60):
        rows = pure_pair(likelihood)
        parts = binary_parts(*rows, likelihood)
        for part in parts:
            assert min(part) >= 0
            assert sum(part) == 1
        assert between(1 - truth, *parts) == rows[0]
        assert between(truth, *parts) == rows[1]
    assert min(binary_parts([Fraction(1), Fraction(0)], [Fraction(0), Fraction(1)], likelihood)[0]) < 0


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_lemma_3_7_an_approximate_randomizer_is_near_a_pure_one(likelihood: Fraction) -> None:
    sides = set()
    for _ in range(40):
        row, reference = distribution(6), distribution(6)
        delta = max(excess(row, reference, likelihood), excess(reference, row, likelihood))
        made = made_pure(row, reference, likelihood)
        assert sum(made) == 1
        assert all(b / likelihood <= a <= likelihood * b for a, b in zip(made, reference, strict=True))
        assert excess(row, made) == excess(made, row) <= delta
        sides.add(excess(row, reference, likelihood) > excess(reference, row, likelihood) / likelihood)
    assert sides == {False, True}


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_lemma_c_1_what_is_near_private_is_nearly_private(likelihood: Fraction) -> None:
    for _ in range(60):
        close, other = pure_pair(likelihood)
        share = Fraction(1, random.randint(2, 50))
        p, q = between(share, close, distribution(5)), between(share, other, distribution(5))
        away = max(excess(p, close), excess(q, other))
        assert excess(p, q, likelihood) <= excess(close, other, likelihood) + (likelihood + 1) * away
