"""The row of a plan that is for comparison only: the fewest pairs of a flood, what it costs, and the reason."""

import math
from dataclasses import replace

import numpy as np
import pytest

import shoal
from shoal.evaluators.flood import Flood
from shoal.frequency.flood_comparison import FloodComparison, least_flood
from shoal.frequency.other_models import local_error
from shoal.frequency.plan import Plan


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "delta", "more_error", "pairs"),
    [
        (0.5, 1e-6, 1.05, 932), (0.5, 1e-6, 1.1, 536), (0.5, 1e-6, 1.2, 315), (0.5, 1e-6, 1.4, 193),
        (1.0, 1e-6, 1.05, 537), (1.0, 1e-6, 1.1, 305), (1.0, 1e-6, 1.2, 176), (1.0, 1e-6, 1.4, 106),
        (0.1, 1e-6, 1.1, 1990), (0.1, 1e-6, 1.4, 764), (0.5, 1e-10, 1.1, 1337), (0.5, 1e-10, 1.4, 447),
    ],
)  # fmt: skip
def test_the_fewest_pairs(epsilon: float, delta: float, more_error: float, pairs: float) -> None:
    flood = least_flood(epsilon, delta, more_error)
    assert flood.delta(epsilon) <= delta and flood.pairs == pytest.approx(pairs, rel=4e-3)
    fewer = Flood.of_mean(decay=flood.decay, shape=flood.shape, pairs=0.99 * flood.pairs)
    assert fewer.delta(epsilon) > delta
    central = 2 * math.exp(-epsilon / 2) / (1 - math.exp(-epsilon / 2)) ** 2
    assert flood.variance == pytest.approx(more_error**2 * central, rel=1e-9)


@pytest.mark.slow
def test_a_plan_shows_it_apart_from_its_choices_and_with_the_reason() -> None:
    made = shoal.plan(categories=100, reports=100_000, epsilon=0.5, delta=1e-6, messages=2, dummies=True)
    other = made.comparison
    assert isinstance(other, FloodComparison) and other.messages == pytest.approx(2.08, abs=0.005)
    assert other.error / made.central_error == pytest.approx(1.1, rel=3e-3)
    assert made.choices[0].error < other.error and made.choices[0].messages < other.messages
    facts = made.to_dict()["comparison"]
    assert facts["comparison_only"] is True and facts["delta"] <= 1e-6 and facts["influence"] > 700
    assert "bursts" in facts["reason"] and other.name not in [choice.mechanism.name for choice in made.choices]
    for other_question in ({"messages": 1}, {"times": 2}, {"local_epsilon": 4.0}):
        assert Plan(replace(made.question, **other_question), made.choices).comparison is None


@pytest.mark.slow
def test_its_error_and_its_messages_are_those_of_the_formulas() -> None:
    """Person by person, n = 10⁵, 60 runs of eight categories each: the error within 5 %, the added messages as well.

    480 counts with an excess of 3 have a mean square with a deviation of 10 %, so that the seed matters; it is fixed.
    Pairs cancel in every count, and are drawn for one category in each run.
    """
    n, k = 10**5, 8
    made = FloodComparison(least_flood(0.5, 1e-6), k, n, 0.5, 1e-6)
    flood, rng = made.flood, np.random.default_rng(23)
    signs, pairs = np.zeros((2, 60, k)), np.zeros(60)
    for run in range(60):
        for category in range(k):
            # numpy has the probability of stopping, 1 − a.
            signs[:, run, category] = [rng.negative_binomial(1 / n, 1 - flood.decay, n).sum() for _ in range(2)]
        pairs[run] = rng.negative_binomial(flood.shape / n, 1 - flood.growth, n).sum()
    assert math.sqrt(np.mean((signs[0] - signs[1]) ** 2)) / n == pytest.approx(made.category_error, rel=0.05)
    added = k * (2 * signs.mean() + 2 * pairs.mean()) / n
    assert added == pytest.approx(made.messages - 1, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(("reports", "epsilon"), [(2, 1), (1000, 2000), (1000, 1e-17)])
def test_plans_beyond_what_is_usual_say_something(reports: int, epsilon: float) -> None:
    made = shoal.plan(categories=10, messages=64, reports=reports, epsilon=epsilon)
    assert math.isfinite(made.to_dict()["local_error"])
    assert (made.comparison is not None) == (made.reports == 2)


def test_errors_without_a_shuffler_are_as_one_over_a_small_epsilon() -> None:
    made = {epsilon: local_error(categories=10, reports=1000, epsilon=epsilon) for epsilon in (1e-7, 1e-17)}
    assert made[1e-17] == pytest.approx(1e10 * made[1e-7], rel=1e-5)
