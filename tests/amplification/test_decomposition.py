"""Theorem 4.1: its premise, the parameters that are possible under it, and those that are refused."""

import json
import math
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog

import shoal
from shoal.pairs import DecompositionPair
from tests.oracles import enumeration, exact

WRONG = ((4.0, 1000, 1.691), (2.0, 1000, 0.323), (4.0, 10**5, 0.0847))
"""ε₀ and n of bits, where the inequality holds for all *other* inputs, as there are none; and an ε that is reached."""


@pytest.mark.slow
@pytest.mark.parametrize(("local_epsilon", "reports", "truth"), WRONG)
@pytest.mark.parametrize("blanket", [1 / 3, 0.333, 0.2])
def test_bits_with_a_blanket_for_other_inputs_only_are_refused(
    local_epsilon: float, reports: int, truth: float, blanket: float
) -> None:
    own = math.tanh(local_epsilon / 2)
    pair = DecompositionPair(reports, blanket, own, local_epsilon=0.1)  # the pair of the wrong premise
    bits = shoal.RandomizedResponse(categories=2, local_epsilon=local_epsilon)
    assert pair.delta_bracket(truth)[1] < 1e-6
    assert truth < shoal.lower_bound(bits, reports=reports).epsilon(1e-6)
    with pytest.raises(shoal.ParameterError, match="local_epsilon must be at least 0 and at most"):
        DecompositionPair(reports, blanket, own, local_epsilon)
    with pytest.raises(shoal.ParameterError, match=r"below 1/3|every input that another person may hold"):
        shoal.Decomposition(blanket_probability=blanket, own_probability=own, local_epsilon=local_epsilon)


@pytest.mark.parametrize("seed", range(20))
def test_the_largest_local_epsilon_is_that_of_a_linear_program(seed: int) -> None:
    random = np.random.default_rng(seed)
    p, q = float(random.uniform(0.001, 0.333)), float(random.uniform(0.01, 1))
    # Largest R₀ at one output with R₁ = 1, over densities (a, b, c) of the three parts.
    best = linprog([-q, 0, -(1 - q)], A_ub=[[p, p, p]], b_ub=[1], A_eq=[[0, q, 1 - q]], b_eq=[1])
    assert best.fun is not None
    largest = shoal.Decomposition(blanket_probability=p, own_probability=q, local_epsilon=1e-9).largest_local_epsilon
    assert math.exp(largest) == pytest.approx(-best.fun, rel=1e-9)
    for slack in (1e-9, 1e-3, 1.0):
        with pytest.raises(shoal.ParameterError, match="no randomizer"):
            shoal.Decomposition(blanket_probability=p, own_probability=q, local_epsilon=largest * (1 + slack))


def _bits(p: Fraction, q: Fraction) -> tuple[list[list[Fraction]], Fraction]:
    """Return a randomizer of bits with this p and q, and the largest likelihood ratio possible."""
    if q <= Fraction(2, 3):
        extreme = (1 / p - 1 / (1 - q), Fraction(0), 1 / (1 - q))
    else:
        extreme = (1 / p - 1 / q, 1 / q, Fraction(0))
    share = Fraction(1, 2)
    while True:
        a, b, c = (share * part for part in extreme)
        parts = [(a, b, 1 - a - b), (b, a, 1 - a - b), (c, c, 1 - 2 * c)]
        distributions = [[q * parts[bit][y] + (1 - q) * parts[2][y] for y in range(3)] for bit in (0, 1)]
        floor = [p * sum(part[y] for part in parts) for y in range(3)]
        if min(min(part) for part in parts) >= 0 and all(
            distributions[bit][y] >= floor[y] for bit, y in product((0, 1), range(3))
        ):
            return distributions, 1 + q / p - (min(q / (1 - q), Fraction(2)) if q < 1 else 2)
        share /= 2


@pytest.mark.parametrize("q", [Fraction(1, 10), Fraction(1, 2), Fraction(2, 3), Fraction(9, 10), Fraction(1)])
@pytest.mark.parametrize("p", [Fraction(1, 100), Fraction(1, 8), Fraction(3, 10)])
def test_every_limit_is_reached_by_a_randomizer_of_bits_and_the_pair_covers_it(p: Fraction, q: Fraction) -> None:
    distributions, largest = _bits(p, q)
    ratios = [one / other for one, other in zip(*distributions, strict=True) if other]
    assert max(ratios) == largest == 1 / min(ratios)
    known = shoal.Decomposition(
        blanket_probability=float(p), own_probability=float(q), local_epsilon=math.log(largest) * (1 - 1e-12)
    )
    assert known.largest_local_epsilon == pytest.approx(math.log(largest), rel=1e-12)
    floats = [[float(probability) for probability in distribution] for distribution in distributions]
    for others, epsilon in product(((0, 0), (0, 1), (1, 1)), (0.0, 0.5, 1.5)):
        shuffled = [enumeration.shuffled_distribution(floats, (victim, *others)) for victim in (0, 1)]
        truth = max(
            enumeration.hockey_stick(shuffled[0], shuffled[1], epsilon),
            enumeration.hockey_stick(shuffled[1], shuffled[0], epsilon),
        )
        assert truth <= float(exact.decomposition_delta(3, float(p), float(q), epsilon).upper()) * (1 + 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("local_epsilon", [1e-9, 1e-3, 0.5, 1, 4, 20, 40])
@pytest.mark.parametrize("categories", [2, 3, 10, 1000, 10**6])
def test_randomized_response_has_possible_parameters(categories: int, local_epsilon: float) -> None:
    known = shoal.RandomizedResponse(categories=categories, local_epsilon=local_epsilon).decomposition
    if known.own_probability <= 2 / 3:
        assert known.largest_local_epsilon == pytest.approx(known.local_epsilon, rel=1e-12)  # at the limit
    else:
        assert known.largest_local_epsilon > known.local_epsilon
    one_bit = shoal.OneBitMean(local_epsilon=local_epsilon)
    assert shoal.amplify(one_bit, reports=100, bound="decomposition").epsilon(1e-3) <= local_epsilon


def test_the_premise_is_stated_for_every_input() -> None:
    for text in (
        shoal.Decomposition.__doc__ or "",
        shoal.explain("decomposition").statement,
        *(
            " ".join(map(str, shoal.explain(name).assumptions))
            for name in ("decomposition", "decomposition-closed-form")
        ),
    ):
        assert "x⁰ and x¹ included" in " ".join(text.split())


def test_a_ledger_with_an_impossible_decomposition_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    known = shoal.Decomposition(blanket_probability=0.01, own_probability=0.9, local_epsilon=4)
    shoal.Ledger(path).record(shoal.amplify(known, reports=1000, bound="decomposition"))
    content = json.loads(path.read_text())
    content["entries"][0]["rounds"][0]["randomizer"]["blanket_probability"] = 0.3
    path.write_text(json.dumps(content))
    with pytest.raises(shoal.errors.LedgerError, match="no randomizer"):
        shoal.Ledger(path)


@pytest.mark.parametrize(("blanket", "own", "local"), [(0.05, 0.4, 2.0), (0.01, 0.9, 3.0), (0.2, 0.3, 0.7)])
@pytest.mark.parametrize("reports", [1, 100, 10_000])
def test_the_default_is_the_least_of_all(blanket: float, own: float, local: float, reports: int) -> None:
    """Also where δ of another bound leaps to zero at its own ε, which is larger."""
    randomizer = shoal.Decomposition(local_epsilon=local, blanket_probability=blanket, own_probability=own)
    curves = [
        shoal.amplify(randomizer, reports=reports, bound=bound)
        for bound in ("decomposition", "strong-clones", "swap-chains")
    ]
    answer = shoal.amplify(randomizer, reports=reports).epsilon(1e-6)
    assert answer == pytest.approx(min(curve.epsilon(1e-6) for curve in curves), rel=1e-9)
