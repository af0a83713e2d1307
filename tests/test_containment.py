"""No bound is ever below the truth: brute force against everything that claims to be an upper bound."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

import shoal
from shoal.amplification.amplify import proven_bounds
from tests.oracles import enumeration, exact

Truth = Callable[[float], float]
"""The exact δ at ε of the worst of some protocols, in both directions."""

SHARES = (0.0, 0.03, 0.2, 0.4, 0.6, 0.8, 0.95, 0.999, 1.0)
NUMERICAL = {"tightest", "strong-clones", "clones"}


_OF_OTHERS = ("cheu", "one-bit", "covers", "dummies", "split-and-mix")
"""Bounds for two categories, and for several messages a person."""
BOUNDS = [bound for bound in proven_bounds() if bound not in _OF_OTHERS]


def contains(bound: float, truth: float) -> bool:
    """Tell whether a bound holds.

    A matrix of floats is ε₀-DP to about 1e-16 only, and the enumeration adds up hundreds of rounded products.
    The allowance is for these two, and for nothing in the library.
    """
    return truth <= bound * (1 + 1e-12) + 1e-15


def worst(pairs: Sequence[tuple[enumeration.Distribution, enumeration.Distribution]]) -> Truth:
    """Return the largest hockey-stick of the pairs as a function of ε."""

    def truth(epsilon: float) -> float:
        return max(
            enumeration.hockey_stick(*distributions, epsilon)
            for one, two in pairs
            for distributions in ((one, two), (two, one))
        )

    return truth


def shuffled(matrix: enumeration.Matrix, datasets: Sequence[tuple[int, ...]]) -> Truth:
    """Return the truth about a victim at 0 or 1 among any of these others, all running one randomizer."""
    return worst(
        [
            (
                enumeration.shuffled_distribution(matrix, (0, *others)),
                enumeration.shuffled_distribution(matrix, (1, *others)),
            )
            for others in datasets
        ]
    )


def adaptive(protocol: enumeration.Protocol, others: tuple[int, ...]) -> Truth:
    """Return the truth about a victim at 0 or 1 among these others, in an adaptive protocol."""
    return worst(
        [
            (
                enumeration.adaptive_distribution(protocol, (0, *others)),
                enumeration.adaptive_distribution(protocol, (1, *others)),
            )
        ]
    )


def check(
    truth: Truth,
    *,
    reports: int,
    local_epsilon: float,
    local_delta: float = 0.0,
    shares: Sequence[float] = SHARES,
    deltas: Sequence[float] = (),
) -> None:
    """Hold every bound for any randomizer against the truth: δ at these shares of ε₀, and ε at these δ."""
    curves = {}
    for bound in BOUNDS:
        if bound.startswith(("blanket", "decomposition")) or (local_delta and bound not in NUMERICAL):
            continue
        curves[bound] = shoal.amplify(
            local_epsilon=local_epsilon, local_delta=local_delta, reports=reports, bound=bound
        )
    for epsilon in (share * local_epsilon for share in shares):
        true_delta = truth(epsilon)
        held = set()
        for bound, curve in curves.items():
            try:
                delta = curve.delta(epsilon)
            except shoal.errors.RangeError:
                continue
            assert contains(delta, true_delta), (bound, reports, local_epsilon, epsilon, delta, true_delta)
            held.add(bound)
        assert held >= NUMERICAL
    for delta in deltas:
        for one in shoal.compare(local_epsilon=local_epsilon, local_delta=local_delta, reports=reports, delta=delta):
            if one.proven:
                assert contains(delta, truth(one.epsilon(delta))), (one.bound, reports, local_epsilon, delta)


def all_datasets(categories: int, others: int) -> list[tuple[int, ...]]:
    """Return what the others may hold, up to their order."""
    return list(combinations_with_replacement(range(categories), others))


# Randomized response, all datasets


@pytest.mark.slow
@pytest.mark.parametrize(("categories", "most_reports"), [(2, 6), (3, 6), (4, 5)], ids=str)
@pytest.mark.parametrize("local_epsilon", [0.05, 0.7, 2.0, 5.0])
def test_every_bound_contains_shuffled_randomized_response(
    categories: int, most_reports: int, local_epsilon: float
) -> None:
    matrix = enumeration.randomized_response(categories, local_epsilon)
    for reports in range(1, most_reports + 1):
        truth = shuffled(matrix, all_datasets(categories, reports - 1))
        check(truth, reports=reports, local_epsilon=local_epsilon, deltas=(0.1, 1e-3))


@pytest.mark.slow
def test_every_bound_contains_six_reports_of_four_symbols() -> None:
    truth = shuffled(enumeration.randomized_response(4, 1.0), all_datasets(4, 5))
    check(truth, reports=6, local_epsilon=1.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("categories", "reports", "local_epsilon"),
    [(2, 2, 1.0), (2, 6, 0.5), (3, 3, 1.0), (3, 6, 2.0), (4, 2, 2.0), (4, 4, 3.0)],
)
def test_bounds_for_randomized_response_contain_it(categories: int, reports: int, local_epsilon: float) -> None:
    randomizer = shoal.RandomizedResponse(categories=categories, local_epsilon=local_epsilon)
    truth = shuffled(enumeration.randomized_response(categories, local_epsilon), all_datasets(categories, reports - 1))
    curve = shoal.amplify(randomizer, reports=reports, bound="decomposition")
    for share in (0.0, 0.3, 0.8):
        assert contains(curve.delta(share * local_epsilon), truth(share * local_epsilon))


@pytest.mark.slow
@pytest.mark.parametrize(("categories", "reports", "local_epsilon"), [(2, 5, 0.5), (3, 6, 2.0)])
def test_all_that_compare_finds_for_randomized_response_contains_it(
    categories: int, reports: int, local_epsilon: float
) -> None:
    randomizer = shoal.RandomizedResponse(categories=categories, local_epsilon=local_epsilon)
    truth = shuffled(enumeration.randomized_response(categories, local_epsilon), all_datasets(categories, reports - 1))
    target = truth(0.3 * local_epsilon)
    compared = shoal.compare(randomizer, reports=reports, delta=target)
    curves = [shoal.amplify(randomizer, reports=reports), *(curve for curve in compared if curve.proven)]
    assert {curve.bound for curve in curves} >= {"decomposition", "strong-clones", "clones", "blanket"}
    for curve in curves:
        assert contains(target, truth(curve.epsilon(target)))


def test_bounds_for_randomized_response_contain_adaptive_use_of_it() -> None:
    """The symbol a person reports may depend on what was reported before."""
    rng = np.random.default_rng(11)
    categories, people, local_epsilon = 3, 3, 1.0
    response = enumeration.randomized_response(categories, local_epsilon)
    truths = []
    for _ in range(60):
        protocol = {
            history: [response[symbol] for symbol in rng.integers(categories, size=people + 1)]
            for length in range(people)
            for history in product(range(categories), repeat=length)
        }
        truths.append(adaptive(protocol, (2, 3)))
    randomizer = shoal.RandomizedResponse(categories=categories, local_epsilon=local_epsilon)
    curve = shoal.amplify(randomizer, reports=people, bound="decomposition")
    for epsilon in (0.0, 0.2, 0.5):
        largest = max(truth(epsilon) for truth in truths)
        assert largest > 0.01
        assert contains(curve.delta(epsilon), largest)


# Any randomizer


@pytest.mark.slow
def test_every_bound_contains_random_randomizers() -> None:
    rng = np.random.default_rng(12)
    for _ in range(150):
        reports, outputs = int(rng.integers(1, 6)), int(rng.integers(2, 5))
        local_epsilon = float(rng.uniform(0.1, 5))
        matrix = enumeration.random_randomizer(rng, reports + 1, outputs, local_epsilon)
        different = tuple(range(2, reports + 1))
        any_others = tuple(int(value) for value in rng.integers(reports + 1, size=reports - 1))
        truth = shuffled(matrix, [different, any_others])
        check(truth, reports=reports, local_epsilon=local_epsilon, deltas=(0.01,))


@pytest.mark.slow
def test_every_bound_contains_random_adaptive_protocols() -> None:
    rng = np.random.default_rng(13)
    for _ in range(80):
        reports = int(rng.integers(2, 4))
        local_epsilon = float(rng.uniform(0.1, 4))
        protocol = enumeration.random_adaptive(rng, reports, reports + 1, 3, local_epsilon)
        check(
            adaptive(protocol, tuple(range(2, reports + 1))),
            reports=reports,
            local_epsilon=local_epsilon,
            deltas=(0.01,),
        )


@pytest.mark.slow
def test_the_strong_pair_is_reached() -> None:
    """The bound cannot be made smaller: some shuffled randomizer has exactly its δ."""
    rng = np.random.default_rng(14)
    closest = 0.0
    for _ in range(100):
        reports, local_epsilon = int(rng.integers(2, 5)), float(rng.uniform(0.2, 4))
        matrix = enumeration.random_randomizer(rng, reports + 1, 4, local_epsilon)
        truth = shuffled(matrix, [tuple(range(2, reports + 1))])
        curve = shoal.amplify(local_epsilon=local_epsilon, reports=reports)
        for share in (0.2, 0.6, 0.9):
            closest = max(closest, truth(share * local_epsilon) / curve.delta(share * local_epsilon))
    assert 1 - 1e-9 < closest < 1 + 1e-12


# Randomizers that are only (ε₀, δ₀)-DP


def rounded_up(delta: float) -> float:
    """Return slightly more: the local δ₀ of a matrix of floats has an error of its own."""
    return math.nextafter(delta * (1 + 1e-12) + 1e-16, 1)


@pytest.mark.slow
def test_every_bound_contains_random_approximate_randomizers() -> None:
    rng = np.random.default_rng(15)
    for _ in range(80):
        reports, outputs = int(rng.integers(1, 5)), int(rng.integers(2, 5))
        local_epsilon, target = float(rng.uniform(0.1, 4)), float(10 ** rng.uniform(-6, -0.7))
        matrix = enumeration.random_approximate(rng, reports + 1, outputs, local_epsilon, target)
        check(
            shuffled(matrix, [tuple(range(2, reports + 1)), (0,) * (reports - 1), (1,) * (reports - 1)]),
            reports=reports,
            local_epsilon=local_epsilon,
            local_delta=rounded_up(enumeration.worst_local_delta(matrix, local_epsilon)),
            shares=(*SHARES, 1.2, 2.0),
        )


@pytest.mark.slow
def test_every_bound_contains_random_adaptive_approximate_protocols() -> None:
    rng = np.random.default_rng(16)
    for _ in range(25):
        reports = int(rng.integers(2, 4))
        local_epsilon, target = float(rng.uniform(0.1, 3)), float(10 ** rng.uniform(-5, -1))
        protocol = {
            history: enumeration.random_approximate(rng, reports + 1, 3, local_epsilon, target)
            for length in range(reports)
            for history in product(range(3), repeat=length)
        }
        local_delta = max(enumeration.worst_local_delta(matrix, local_epsilon) for matrix in protocol.values())
        check(
            adaptive(protocol, tuple(range(2, reports + 1))),
            reports=reports,
            local_epsilon=local_epsilon,
            local_delta=rounded_up(local_delta),
            shares=(*SHARES, 1.2, 2.0),
            deltas=(0.3, rounded_up(local_delta)),
        )


# Counterexamples to the pair with p = 1/(E + k − 1), which is no bound (arXiv 2208.04591, erratum)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reports", "categories", "local_epsilon", "epsilon", "true", "refuted"),
    [
        (3, 3, 1.0, 0.6, 0.0734890490, 0.0675784424),
        (3, 4, 1.0, 0.6, 0.0471528527, 0.0325104789),
        (4, 3, 1.0, 0.6, 0.0489129921, 0.0414508893),
        (4, 5, 2.0, 1.2, 0.1557475838, 0.1497071911),
        (1000, 10, 2.0, 0.3, 1.743e-7, 1.687e-7),
        (1000, 50, 4.0, 1.5, 4.64e-14, 2.15e-14),
        (100, 10, 1.0, 0.4, 1.8058e-11, 1.145e-11),
    ],
)
def test_no_bound_is_violated_by_the_counterexamples(
    *, reports: int, categories: int, local_epsilon: float, epsilon: float, true: float, refuted: float
) -> None:
    assert true > refuted
    randomizer = shoal.RandomizedResponse(categories=categories, local_epsilon=local_epsilon)
    held = 0
    for bound in BOUNDS:
        curve = shoal.amplify(randomizer, reports=reports, bound=bound)
        try:
            delta = curve.delta(epsilon)
        except shoal.errors.RangeError:
            continue
        assert delta >= true * (1 - 1e-9)
        held += 1
    assert held >= 4
    for one in shoal.compare(randomizer, reports=reports, delta=true):
        assert not one.proven or one.epsilon(true) >= epsilon * (1 - 1e-6)


# Many reports: real inputs, and the pairs behind the formulas


@pytest.mark.slow
@pytest.mark.parametrize(("reports", "local_epsilon"), [(50, 0.5), (300, 0.1), (300, 1.0), (1000, 2.0)])
def test_every_bound_contains_many_reports_of_two_symbols(reports: int, local_epsilon: float) -> None:
    def truth(epsilon: float) -> float:
        return max(float(side) for side in exact.two_rr_delta(reports, local_epsilon, epsilon, bits=120))

    shares = (0.0, 0.01, 0.05, 0.1, 0.2, 0.5)
    check(truth, reports=reports, local_epsilon=local_epsilon, shares=shares, deltas=(0.1, 1e-2, 1e-6))


@pytest.mark.slow
@pytest.mark.parametrize(("reports", "local_epsilon"), [(10, 1.0), (30, 0.5), (45, 3.0)])
def test_every_bound_contains_many_reports_of_three_symbols(reports: int, local_epsilon: float) -> None:
    def truth(epsilon: float) -> float:
        return float(exact.three_rr_delta(reports, local_epsilon, epsilon, bits=120))

    shares = (0.0, 0.05, 0.2, 0.5, 0.9)
    check(truth, reports=reports, local_epsilon=local_epsilon, shares=shares, deltas=(0.1, 1e-3))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bound", "clone_probability"),
    [
        ("clones-closed-form", "clones"),
        ("clones-sharp-form", "clones"),
        ("strong-clones-sharp-form", "strong"),
    ],
)
@pytest.mark.parametrize(("reports", "local_epsilon"), [(100, 0.02), (400, 0.5), (2000, 2.0), (20_000, 4.0)])
def test_formulas_contain_their_pair(
    bound: str, clone_probability: exact.CloneProbability, reports: int, local_epsilon: float
) -> None:
    curve = shoal.amplify(local_epsilon=local_epsilon, reports=reports, bound=bound)
    held = 0
    for delta in (0.3, 0.05, 1e-2, 1e-4, 1e-6, 1e-9):
        try:
            epsilon = curve.epsilon(delta)
        except shoal.errors.RangeError:
            continue
        held += 1
        if epsilon < local_epsilon:
            assert exact.pair_delta_window(reports, local_epsilon, epsilon, clone_probability) <= delta
            back = curve.delta(epsilon)
            assert exact.pair_delta_window(reports, local_epsilon, epsilon, clone_probability) <= back
    assert held > 0


# Lower bounds


@pytest.mark.slow
@pytest.mark.parametrize("reports", [1, 2, 3, 6, 12, 40])
@pytest.mark.parametrize("local_epsilon", [0.2, 1.0, 3.0])
def test_lower_bound_is_reached(reports: int, local_epsilon: float) -> None:
    lower = shoal.lower_bound(local_epsilon=local_epsilon, reports=reports)
    for share in (0.0, 0.3, 0.7):
        epsilon = share * local_epsilon
        sides = [exact.two_rr_worst(reports, local_epsilon, epsilon, bits=120)]
        sides.append(exact.three_rr_delta(reports, local_epsilon, epsilon, bits=120))
        largest = max(float(side) for side in sides)
        found = lower.delta(epsilon)
        assert found <= largest * (1 + 1e-15)
        if share < 0.5 and largest > 1e-6:
            assert found > 0.9 * largest


@pytest.mark.parametrize("categories", [2, 3, 4])
def test_lower_bound_of_categories_is_reached(categories: int) -> None:
    for reports, local_epsilon in ((2, 1.0), (4, 2.0), (5, 0.4)):
        matrix = enumeration.randomized_response(categories, local_epsilon)
        same = [(symbol,) * (reports - 1) for symbol in range(categories)]
        truth = shuffled(matrix, all_datasets(2, reports - 1) if categories == 2 else same)
        lower = shoal.lower_bound(local_epsilon=local_epsilon, reports=reports, categories=categories)
        for share in (0.0, 0.4, 0.7):
            found = lower.delta(share * local_epsilon)
            assert found > 0
            assert contains(truth(share * local_epsilon), found)
