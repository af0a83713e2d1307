"""The oracles against one another, against hand-made cases and against published numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx
from scipy.stats import binom

from tests.oracles import enumeration, exact, paper

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "clones.json").read_text(encoding="utf-8"))
DIGITS = 1e-27
"""Relative error allowed to golden values, which carry 29 digits."""


def near(value: Any, published: str) -> bool:
    """Tell whether a ball is narrow and agrees with a golden number."""
    with ctx.workprec(300):
        target = arb(published)
        return bool(abs(value - target) < DIGITS * abs(target))


def crosses(delta_at: Callable[[Any], Any], point: dict[str, Any]) -> bool:
    """Tell whether a decreasing curve passes through a golden point, to all digits of its epsilon."""
    with ctx.workprec(300):
        epsilon, slack = arb(point["eps"]), arb(DIGITS)
        return bool(delta_at(epsilon * (1 - slack)) > point["delta"] > delta_at(epsilon * (1 + slack)))


def middle(ball: Any) -> float:
    """Return the float nearest to the middle of a ball."""
    return float(ball.mid())


def shuffled_deltas(matrix: enumeration.Matrix, others: tuple[int, ...], epsilon: float) -> tuple[float, float]:
    """Return both hockey-sticks of the shuffled reports of a victim at 0 and one at 1 among the others."""
    zero = enumeration.shuffled_distribution(matrix, (0, *others))
    one = enumeration.shuffled_distribution(matrix, (1, *others))
    return enumeration.hockey_stick(zero, one, epsilon), enumeration.hockey_stick(one, zero, epsilon)


def ids(rows: list[dict[str, Any]]) -> list[str]:
    """Name a golden row by its parameters."""
    return [f"reports={row['n']},local_epsilon={row['eps0']}" for row in rows]


# Golden file


@pytest.mark.slow
@pytest.mark.parametrize("row", GOLDEN["clones"], ids=ids(GOLDEN["clones"]))
def test_pair_matches_golden(row: dict[str, Any]) -> None:
    delta_at = partial(exact.pair_delta_window, row["n"], row["eps0"], clone_probability="clones")
    for point in row["delta_of_eps"]:
        assert near(exact.pair_delta(row["n"], row["eps0"], point["eps"], "clones"), point["delta"])
        assert near(delta_at(point["eps"]), point["delta"])
    for point in row["eps_of_delta"]:
        assert crosses(delta_at, point)
    for order, divergence in row["rdp"].items():
        assert near(exact.pair_renyi(row["n"], row["eps0"], float(order), "clones"), divergence)


@pytest.mark.parametrize("row", GOLDEN["rr2"], ids=ids(GOLDEN["rr2"]))
def test_two_rr_matches_golden(row: dict[str, Any]) -> None:
    for side, name in enumerate(("01", "10")):

        def delta_at(epsilon: Any, side: int = side) -> Any:
            return exact.two_rr_delta(row["n"], row["eps0"], epsilon)[side]

        for point in row[name]["delta_of_eps"]:
            assert near(delta_at(point["eps"]), point["delta"])
        for point in row[name]["eps_of_delta"]:
            assert crosses(delta_at, point)


LARGE = [row for row in GOLDEN["clones_large"] if row["n"] * math.exp(-row["eps0"]) < 1e5]


@pytest.mark.slow
@pytest.mark.parametrize("row", LARGE, ids=ids(LARGE))
def test_window_matches_golden_at_many_reports(row: dict[str, Any]) -> None:
    for point in row["delta_of_eps"][-2:]:
        assert near(exact.pair_delta_window(row["n"], row["eps0"], point["eps"], "clones"), point["delta"])


@pytest.mark.slow
def test_window_matches_golden_epsilon_at_many_reports() -> None:
    row = next(row for row in LARGE if (row["n"], row["eps0"]) == (100_000, 4.0))
    delta_at = partial(exact.pair_delta_window, row["n"], row["eps0"], clone_probability="clones")
    for point in row["eps_of_delta"]:
        assert crosses(delta_at, point)


# Exact sums against each other


@pytest.mark.slow
@pytest.mark.parametrize("clone_probability", ["clones", "strong"])
@pytest.mark.parametrize("reports", [1, 2, 3, 60])
@pytest.mark.parametrize("local_epsilon", [0.1, 1.0, 3.0, 7.0])
def test_window_equals_full_sum(clone_probability: exact.CloneProbability, reports: int, local_epsilon: float) -> None:
    for share in (-0.9, -0.3, 0.0, 0.3, 0.9, 0.999):
        epsilon = share * local_epsilon
        full = exact.pair_delta(reports, local_epsilon, epsilon, clone_probability)
        window = exact.pair_delta_window(reports, local_epsilon, epsilon, clone_probability)
        assert full.overlaps(window)
        assert full.rel_accuracy_bits() > 200
        assert window.rel_accuracy_bits() > 200


@pytest.mark.slow
@pytest.mark.parametrize("clone_probability", ["clones", "strong"])
def test_narrow_window_still_contains_the_truth(clone_probability: exact.CloneProbability) -> None:
    for local_epsilon in (0.5, 2.0):
        full = exact.pair_delta(200, local_epsilon, 0.1, clone_probability)
        narrow = exact.pair_delta_window(200, local_epsilon, 0.1, clone_probability, deviations=2.0)
        assert narrow.contains(full)
        assert float(narrow.rad()) > 1e-8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("local_epsilon", "epsilon", "clone_probability"), [(4.0, 0.5, "clones"), (1.0, 0.042, "strong")]
)
def test_window_is_sharp_at_tiny_delta(
    local_epsilon: float, epsilon: float, clone_probability: exact.CloneProbability
) -> None:
    delta = exact.pair_delta_window(100_000, local_epsilon, epsilon, clone_probability)
    assert 1e-32 < middle(delta) < 1e-27
    assert delta.rel_accuracy_bits() > 130
    wider = exact.pair_delta_window(100_000, local_epsilon, epsilon, clone_probability, deviations=23.0, bits=360)
    assert delta.overlaps(wider)


def test_one_report_is_randomized_response() -> None:
    local_epsilon, epsilon = 1.5, 0.4
    with ctx.workprec(300):
        ratio, factor = arb(local_epsilon).exp(), arb(epsilon).exp()
        two = (ratio - factor) / (ratio + 1)
        three = (ratio - factor) / (ratio + 2)
        renyi = ((ratio**3 + ratio**-2) / (ratio + 1)).log() / 2
    assert exact.pair_delta(1, local_epsilon, epsilon, "clones").overlaps(two)
    assert exact.pair_delta_window(1, local_epsilon, epsilon, "strong").overlaps(two)
    assert all(side.overlaps(two) for side in exact.two_rr_delta(1, local_epsilon, epsilon))
    assert exact.three_rr_delta(1, local_epsilon, epsilon).overlaps(three)
    assert exact.decomposition_delta(1, 0.25, 0.625, epsilon).overlaps(arb(0.625))
    assert exact.pair_renyi(1, local_epsilon, 3.0, "strong").overlaps(renyi)


def test_renyi_at_one_is_the_limit() -> None:
    below, at, above = (exact.pair_renyi(20, 1.0, order, "strong") for order in (1 - 1e-9, 1.0, 1 + 1e-9))
    assert below < at < above
    assert above - below < 1e-8


@pytest.mark.parametrize("clone_probability", ["clones", "strong"])
def test_decomposition_is_the_pair_after_randomized_response(
    clone_probability: exact.CloneProbability,
) -> None:
    """D_e of the pair is (E-1)/(E+e') times D_e' of (A+1, C-A) against (A, C-A+1), e = (Ee'+1)/(E+e')."""
    local_epsilon, inner_epsilon, reports = 1.25, 0.375, 14
    with ctx.workprec(300):
        ratio, inner = arb(local_epsilon).exp(), arb(inner_epsilon).exp()
        probability = 1 / (2 * ratio) if clone_probability == "clones" else 1 / (ratio + 1)
        epsilon = ((ratio * inner + 1) / (ratio + inner)).log()
        certain = exact.decomposition_delta(reports, probability, 1.0, inner_epsilon)
        expected = (ratio - 1) / (ratio + inner) * certain
    assert exact.pair_delta(reports, local_epsilon, epsilon, clone_probability).overlaps(expected)


# Exact sums against enumeration of a protocol that draws the very same pair


def test_pair_is_a_protocol() -> None:
    local_epsilon, epsilon = 1.0, 0.35
    truth = math.exp(local_epsilon) / (math.exp(local_epsilon) + 1)
    probabilities: dict[exact.CloneProbability, float] = {
        "clones": math.exp(-local_epsilon),
        "strong": 2 - 2 * truth,
    }
    for clone_probability, probability in probabilities.items():
        matrix = [[truth, 1 - truth, 0], [1 - truth, truth, 0], [probability / 2, probability / 2, 1 - probability]]
        for others in range(5):
            expected = middle(exact.pair_delta(others + 1, local_epsilon, epsilon, clone_probability))
            found = shuffled_deltas(matrix, (2,) * others, epsilon)
            assert found == pytest.approx((expected, expected), rel=1e-13)


def test_decomposition_is_a_protocol() -> None:
    p, q, epsilon = Fraction(3, 16), Fraction(5, 8), 0.25
    matrix: enumeration.Matrix = [[q, 0, 1 - q, 0], [0, q, 1 - q, 0], [p, p, p, 1 - 3 * p]]
    for others in range(5):
        assert sum(enumeration.shuffled_distribution(matrix, (0,) + (2,) * others).values()) == 1
        expected = middle(exact.decomposition_delta(others + 1, float(p), float(q), epsilon))
        found = shuffled_deltas(matrix, (2,) * others, epsilon)
        assert found == pytest.approx((expected, expected), rel=1e-13)


@pytest.mark.parametrize("local_epsilon", [0.3, 2.0])
def test_randomized_response_is_enumerated(local_epsilon: float) -> None:
    epsilon = 0.4 * local_epsilon
    for reports in (2, 3, 5):
        two = enumeration.randomized_response(2, local_epsilon)
        expected = tuple(map(middle, exact.two_rr_delta(reports, local_epsilon, epsilon)))
        assert shuffled_deltas(two, (0,) * (reports - 1), epsilon) == pytest.approx(expected, rel=1e-13)
        three = enumeration.randomized_response(3, local_epsilon)
        expected = (middle(exact.three_rr_delta(reports, local_epsilon, epsilon)),) * 2
        assert shuffled_deltas(three, (2,) * (reports - 1), epsilon) == pytest.approx(expected, rel=1e-13)


# Counterexamples to the pair with p = 1/(E+k-1), whose proof has an erratum (arXiv 2208.04591)


@pytest.mark.parametrize(
    ("categories", "local_epsilon", "epsilon", "others", "deltas"),
    [
        (3, 1.0, 0.6, (1, 2), (0.0734890490, 0.0675784424)),
        (4, 1.0, 0.6, (1, 3), (0.0471528527, 0.0325104789)),
        (3, 1.0, 0.6, (1, 2, 2), (0.0489129921, 0.0414508893)),
        (5, 2.0, 1.2, (4, 4, 4), (0.1557475838, 0.1497071911)),
    ],
)
def test_counterexamples_to_the_smaller_pair(
    categories: int,
    local_epsilon: float,
    epsilon: float,
    others: tuple[int, ...],
    deltas: tuple[float, float],
) -> None:
    truth, claimed = deltas
    _, delta = shuffled_deltas(enumeration.randomized_response(categories, local_epsilon), others, epsilon)
    assert delta == pytest.approx(truth, abs=6e-11)

    ratio = math.exp(local_epsilon)
    p = 1 / (ratio + categories - 1)
    smaller = [[ratio * p, p, 1 - ratio * p - p], [p, ratio * p, 1 - ratio * p - p], [p, p, 1 - 2 * p]]
    found = shuffled_deltas(smaller, (2,) * len(others), epsilon)
    assert found == pytest.approx((claimed, claimed), abs=6e-11)

    assert claimed < delta <= middle(exact.pair_delta(len(others) + 1, local_epsilon, epsilon, "strong"))


# Randomizers and protocols made at random


@pytest.mark.slow
def test_random_randomizers_are_private_and_varied() -> None:
    rng = np.random.default_rng(1)
    tight = 0
    for _ in range(150):
        inputs, outputs = int(rng.integers(2, 5)), int(rng.integers(1, 6))
        local_epsilon = float(rng.uniform(0.2, 4))
        matrix = enumeration.random_randomizer(rng, inputs, outputs, local_epsilon)
        assert np.shape(matrix) == (inputs, outputs)
        assert np.min(matrix) >= 0
        assert [math.fsum(row) for row in matrix] == pytest.approx([1] * inputs, abs=1e-15)
        for column in zip(*matrix, strict=True):
            assert max(column) <= min(column) * math.exp(local_epsilon) * (1 + 1e-13)
        assert enumeration.worst_local_delta(matrix, local_epsilon) < 1e-14
        tight += enumeration.worst_local_delta(matrix, 0.95 * local_epsilon) > 1e-6
    assert tight > 75


def test_two_in_three_random_randomizers_are_extremal() -> None:
    """Columns of a vertex are multiples of vectors in {1, e^ε₀}^inputs, and at most `inputs` many."""
    rng = np.random.default_rng(5)
    extremal = 0
    for _ in range(90):
        columns = np.array(enumeration.random_randomizer(rng, 4, 5, 1.0)).T
        columns = columns[columns.max(axis=1) > 0]
        ratios = np.log(columns / columns.min(axis=1, keepdims=True))
        assert ratios.max() > 0.01
        extremal += len(columns) <= 4 and bool(np.all(np.minimum(ratios, abs(ratios - 1)) < 1e-12))
    assert 45 <= extremal <= 75


def test_random_approximate_randomizers_use_their_delta() -> None:
    rng = np.random.default_rng(2)
    spent = 0
    for _ in range(40):
        local_delta = float(10 ** rng.uniform(-6, -1))
        local_epsilon = float(rng.uniform(0.2, 3))
        matrix = enumeration.random_approximate(rng, 3, 4, local_epsilon, local_delta)
        assert np.min(matrix) >= 0
        assert [math.fsum(row) for row in matrix] == pytest.approx([1] * 3, abs=1e-15)
        worst = enumeration.worst_local_delta(matrix, local_epsilon)
        assert worst <= local_delta * (1 + 1e-9)
        spent += worst > 0.999 * local_delta
    assert spent > 20


def test_adaptive_distribution_of_one_fixed_matrix_is_the_shuffled_distribution() -> None:
    matrix = [[Fraction(part, 12) for part in row] for row in ((6, 4, 2), (3, 3, 6))]
    protocol = {history: matrix for length in range(3) for history in product(range(3), repeat=length)}
    sequences = enumeration.adaptive_distribution(protocol, (0, 1, 1))
    shuffled = enumeration.shuffled_distribution(matrix, (0, 1, 1))
    assert sum(sequences.values()) == 1
    for outputs, mass in shuffled.items():
        assert mass == sum(probability for key, probability in sequences.items() if tuple(sorted(key)) == outputs)


def test_adaptive_distribution_follows_its_history() -> None:
    tell: list[list[float]] = [[1.0, 0.0], [0.0, 1.0]]
    flip: list[list[float]] = [[0.0, 1.0], [1.0, 0.0]]
    distribution = enumeration.adaptive_distribution({(): tell, (0,): tell, (1,): flip}, (0, 1))
    assert distribution == {(0, 0): 0.0, (0, 1): 0.5, (1, 0): 0.0, (1, 1): 0.5}


@pytest.mark.slow
def test_strong_pair_dominates_shuffled_randomizers() -> None:
    rng = np.random.default_rng(3)
    for _ in range(60):
        reports = int(rng.integers(2, 5))
        local_epsilon = float(rng.uniform(0.2, 4))
        matrix = enumeration.random_randomizer(rng, reports + 1, 4, local_epsilon)
        others = tuple(range(2, reports + 1))
        for share in (0.0, 0.2, 0.5, 0.8, 0.95):
            epsilon = share * local_epsilon
            strong = middle(exact.pair_delta(reports, local_epsilon, epsilon, "strong", bits=100))
            clones = middle(exact.pair_delta(reports, local_epsilon, epsilon, "clones", bits=100))
            assert max(shuffled_deltas(matrix, others, epsilon)) <= strong + 1e-14
            assert strong <= clones + 1e-14


@pytest.mark.slow
def test_strong_pair_dominates_adaptive_protocols() -> None:
    rng = np.random.default_rng(4)
    for _ in range(25):
        reports = int(rng.integers(2, 4))
        local_epsilon = float(rng.uniform(0.2, 4))
        protocol = enumeration.random_adaptive(rng, reports, reports + 1, 3, local_epsilon)
        others = tuple(range(2, reports + 1))
        distribution_p = enumeration.adaptive_distribution(protocol, (0, *others))
        distribution_q = enumeration.adaptive_distribution(protocol, (1, *others))
        assert math.fsum(distribution_p.values()) == pytest.approx(1, abs=1e-14)
        for share in (0.0, 0.2, 0.5, 0.8, 0.95):
            epsilon = share * local_epsilon
            bound = middle(exact.pair_delta(reports, local_epsilon, epsilon, "strong", bits=100))
            assert enumeration.hockey_stick(distribution_p, distribution_q, epsilon) <= bound + 1e-14


@pytest.mark.parametrize("categories", [3, 4])
def test_decomposition_dominates_randomized_response(categories: int) -> None:
    """Theorem 4.1 with the corollary's p and q bounds every dataset of three people."""
    local_epsilon, epsilon = 1.0, 0.3
    ratio = math.exp(local_epsilon)
    q = (ratio - 1) / (ratio + categories - 1)
    p = categories / ((categories + 1) * (ratio + categories - 1))
    bound = middle(exact.decomposition_delta(3, p, q, epsilon))
    matrix = enumeration.randomized_response(categories, local_epsilon)
    for one in range(categories):
        for two in range(one, categories):
            assert 0 < max(shuffled_deltas(matrix, (one, two), epsilon)) <= bound


# The paper's algorithms


@pytest.mark.slow
@pytest.mark.parametrize(("reports", "local_epsilon"), [(10, 2.0), (100, 0.1), (100, 1.0), (300, 3.0)])
def test_partial_integral_adds_up_to_the_pair(reports: int, local_epsilon: float) -> None:
    masses = binom.pmf(range(reports), reports - 1, math.exp(-local_epsilon))
    for share in (0.0, 0.3, 0.8):
        epsilon = share * local_epsilon
        expected = middle(exact.pair_delta_window(reports, local_epsilon, epsilon, "clones"))
        for direction in ("+", "-"):
            parts = [paper.partial_integral(c, epsilon, local_epsilon, direction) for c in range(reports)]
            assert math.fsum(masses * np.array(parts)) == pytest.approx(expected, rel=1e-12, abs=1e-15)


@pytest.mark.slow
def test_clones_delta_is_above_the_truth_and_honours_its_cap() -> None:
    for reports, local_epsilon, epsilon in ((1000, 1.0, 0.1), (1000, 3.0, 0.8), (50, 1.0, 0.5), (7, 2, 1)):
        truth = middle(exact.pair_delta_window(reports, local_epsilon, epsilon, "clones"))
        for step in (10, 100, 5000):
            bound = paper.clones_delta(reports, local_epsilon, 1.0, step, epsilon)
            assert bound >= truth * (1 - 1e-12)
        assert truth <= paper.clones_delta(reports, local_epsilon, 1.0, 1, epsilon) * (1 + 1e-12) <= 2.01 * truth
        assert paper.clones_delta(reports, local_epsilon, truth / 2, 1, epsilon) == truth / 2


@pytest.mark.slow
@pytest.mark.parametrize(("reports", "local_epsilon"), [(10, 2.0), (100, 1.0), (1000, 0.1), (1000, 1.0), (10_000, 4.0)])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-10])
def test_clones_epsilon_is_above_the_truth(reports: int, local_epsilon: float, delta: float) -> None:
    epsilon = paper.clones_epsilon(reports, local_epsilon, delta)
    assert 0 < epsilon <= local_epsilon
    assert exact.pair_delta_window(reports, local_epsilon, epsilon, "clones") < delta


@pytest.mark.slow
def test_clones_epsilon_comes_close_when_refined() -> None:
    epsilon = paper.clones_epsilon(1000, 1.0, 1e-6, step=4, iterations=12)
    assert 0.182412 <= epsilon < 1.05 * 0.182412


@pytest.mark.parametrize(("reports", "local_epsilon"), [(10, 1.0), (100, 2.0), (1000, 0.5)])
def test_two_rr_of_the_paper_is_exact(reports: int, local_epsilon: float) -> None:
    for share in (0.0, 0.1, 0.4):
        epsilon = share * local_epsilon
        expected = max(map(middle, exact.two_rr_delta(reports, local_epsilon, epsilon, bits=120)))
        assert paper.two_rr_delta(reports, local_epsilon, epsilon) == pytest.approx(expected, rel=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reports", "local_epsilon", "epsilon"),
    [(1000, 1.0, 0.126614), (10_000, 4.0, 0.314643)],
)
def test_two_rr_lower_epsilon(reports: int, local_epsilon: float, epsilon: float) -> None:
    lower = paper.two_rr_lower_epsilon(reports, local_epsilon, 1e-6, iterations=30)
    assert lower == pytest.approx(epsilon, abs=6e-7)
    assert max(exact.two_rr_delta(reports, local_epsilon, lower * (1 - 1e-9), bits=120)) > 1e-6
    assert max(exact.two_rr_delta(reports, local_epsilon, lower * (1 + 1e-6), bits=120)) < 1e-6


def test_bounds_refuse_what_they_cannot_do() -> None:
    with pytest.raises(ValueError, match="clone_probability"):
        exact.pair_delta(3, 1.0, 0.1, "stronger")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="epsilon"):
        exact.pair_delta_window(3, 1.0, -1.5, "strong")
    with pytest.raises(ValueError, match="1/3"):
        exact.decomposition_delta(3, 0.4, 0.5, 0.1)
    assert exact.pair_delta_window(3, 1.0, 1.0, "strong") == 0
