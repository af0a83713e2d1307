"""The plan keeps its promise, and nobody finds a better mechanism by trying all of them."""

import json
import math
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

import shoal
from shoal.errors import ParameterError
from shoal.frequency.other_models import central_error, local_error
from shoal.randomizers import kinds, mechanism
from tests.oracles.every_design import best_design, inverted_delta

MECHANISMS = kinds("categories", within=("categories", "local_epsilon"))

Setting = tuple[int, int, float, float]

FORCED: list[Setting] = [
    (2, 100, 0.5, 1e-6),
    (10, 1_000, 0.2, 1e-6),
    (30, 1_000_000, 0.1, 1e-9),
    (300, 10_000_000, 0.05, 1e-6),
]
EXTREME: list[Setting] = [
    (2, 2, 1.0, 1e-6),
    (3, 2, 0.1, 1e-6),
    (1_000_000, 1_000_000_000, 0.1, 1e-6),
    (10, 1_000, 20.0, 1e-6),
    (2, 1_000, 1e-6, 1e-6),
    (5, 100_000, 0.05, 1e-15),
]


@lru_cache
def planned(categories: int, reports: int, epsilon: float, delta: float) -> shoal.Plan:
    return shoal.plan(categories=categories, reports=reports, epsilon=epsilon, delta=delta)


@pytest.mark.slow
@pytest.mark.parametrize("setting", FORCED)
def test_first_choice_is_as_good_as_brute_force(setting: Setting) -> None:
    categories, reports, epsilon, delta = setting
    _, least = best_design(categories=categories, reports=reports, epsilon=epsilon, delta=delta)
    assert planned(*setting).best.error <= 1.05 * least
    assert planned(*setting).best.error >= (1 - 1e-3) * least


@pytest.mark.slow
@pytest.mark.parametrize("setting", FORCED[:2])
def test_brute_force_leaves_nothing_out_that_the_library_would_take(setting: Setting) -> None:
    _, reports, epsilon, delta = setting
    for choice in planned(*setting).choices:
        quick = inverted_delta(choice.mechanism, reports=reports, epsilon=epsilon)
        assert quick == pytest.approx(delta, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("setting", [*FORCED, *EXTREME])
def test_every_choice_has_the_guarantee(setting: Setting) -> None:
    _, reports, epsilon, delta = setting
    for choice in planned(*setting).choices:
        assert shoal.amplify(choice.mechanism, reports=reports).delta(epsilon) <= delta
        assert choice.epsilon <= epsilon and choice.delta == delta
        assert choice.curve.reports == reports and choice.curve.local_epsilon == choice.mechanism.local_epsilon


@pytest.mark.slow
@pytest.mark.parametrize("setting", [*FORCED, *EXTREME])
def test_errors_are_those_of_the_closed_form(setting: Setting) -> None:
    categories, reports, epsilon, _ = setting
    plan = planned(*setting)
    assert {type(choice.mechanism) for choice in plan.choices} == set(MECHANISMS.values()) - {shoal.Rappor}
    assert plan.mechanism is plan.best.mechanism is plan.choices[0].mechanism
    for choice in plan.choices:
        variances = choice.mechanism.variance(reports=reports)
        assert choice.error == pytest.approx(math.sqrt(variances.sum()), rel=1e-12)
        assert choice.category_error > 0 and choice.decoding_seconds >= 0
    least = min(choice.error for choice in plan.choices)
    close = [choice for choice in plan.choices if choice.error <= 1.03 * least]
    assert list(plan.choices[: len(close)]) == close
    assert [c.mechanism.bits_per_report for c in close] == sorted(c.mechanism.bits_per_report for c in close)
    rest = [choice.error for choice in plan.choices[len(close) :]]
    assert rest == sorted(rest)
    assert plan.central_error == central_error(
        categories=categories, reports=reports, epsilon=epsilon, delta=plan.delta
    )
    assert plan.local_error == local_error(categories=categories, reports=reports, epsilon=epsilon)
    assert plan.best.error <= plan.local_error * (1 + 1e-6)


@pytest.mark.slow
def test_error_of_a_rare_category() -> None:
    for choice in planned(*FORCED[1]).choices:
        last = np.zeros(10)
        last[:-1] = 1 / 9
        rare = math.sqrt(choice.mechanism.variance(last, reports=1_000)[-1])
        assert choice.category_error == pytest.approx(rare, rel=0.1)


@pytest.mark.slow
def test_the_same_question_has_the_same_plan() -> None:
    """Nothing in it comes from a clock."""
    first, second = (shoal.plan(categories=10, reports=1_000, epsilon=1) for _ in range(2))
    assert first is not second
    assert first.best.decoding_seconds > 0
    assert first == second
    assert first.to_dict() == second.to_dict()
    assert "seconds" not in json.dumps(first.to_dict())


@pytest.mark.slow
@pytest.mark.parametrize("setting", FORCED)
def test_schema_and_json(setting: Setting) -> None:
    plan = planned(*setting)
    facts = json.loads(json.dumps(plan.to_dict(), allow_nan=False))
    assert mechanism(facts["schema"]) == plan.mechanism
    assert facts["local_epsilon"] is None
    assert (facts["categories"], facts["reports"], facts["epsilon"], facts["delta"]) == setting
    for choice, told in zip(plan.choices, facts["choices"], strict=True):
        assert mechanism(told["schema"]) == choice.mechanism
        assert told["mechanism"] == choice.mechanism.name
        assert told["local_epsilon"] == choice.mechanism.local_epsilon
        assert told["bits_per_report"] == choice.mechanism.bits_per_report
        assert told["error"] == choice.error
    assert repr(plan.mechanism) in repr(plan)
    assert plan.mechanism.name in plan._repr_html_()


def test_winner_runs() -> None:
    plan = planned(*FORCED[1])
    values = np.repeat(np.arange(10), 100)
    found = plan.mechanism.randomize(values, simulation=shoal.Simulation(seed=11))
    estimate = plan.mechanism.estimate(plan.mechanism.aggregate(found))
    error = math.sqrt(np.square(estimate.frequencies - 0.1).sum())
    assert 0.2 * plan.best.error < error < 3 * plan.best.error


@pytest.mark.slow
def test_more_privacy_costs_more() -> None:
    usual = planned(30, 1_000_000, 0.1, 1e-9).best.error
    assert planned(30, 1_000_000, 0.05, 1e-9).best.error > usual
    assert planned(30, 1_000_000, 0.1, 1e-12).best.error > usual
    assert planned(30, 2_000_000, 0.1, 1e-9).best.error < usual


@pytest.mark.slow
def test_limit_of_the_local_epsilon() -> None:
    free = planned(10, 1_000, 0.2, 1e-6)
    bound = shoal.plan(categories=10, reports=1_000, epsilon=0.2, local_epsilon=0.5)
    assert bound.to_dict()["local_epsilon"] == 0.5
    assert bound.best.error > free.best.error
    for choice in bound.choices:
        assert choice.mechanism.local_epsilon <= 0.5
        assert choice.curve.delta(0.2) <= 1e-6


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"categories": 1}, "categories must be at least 2"),
        ({"categories": 2.5}, "categories must be a whole number"),
        ({"categories": 1 << 25}, "categories must be at least 2 and at most"),
        ({"categories": "ten"}, "categories must be a number"),
        ({"reports": 0}, "reports must be at least 1"),
        ({"reports": 1}, "reports must be at least 2, got 1: a report alone is hidden by nobody"),
        ({"reports": 10**16}, "reports must be at least 1"),
        ({"epsilon": 0}, "epsilon must be greater than 0"),
        ({"epsilon": -1}, "epsilon must be greater than 0"),
        ({"epsilon": math.nan}, "epsilon must be a number"),
        ({"epsilon": math.inf}, "epsilon must be finite"),
        ({"delta": 0}, "delta must be greater than 0"),
        ({"delta": 1}, "delta must be greater than 0 and less than 1"),
        ({"local_epsilon": 0}, "local_epsilon must be greater than 0"),
        ({"local_epsilon": math.inf}, "local_epsilon must be finite"),
    ],
)
def test_bad_input(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        shoal.plan(**{"categories": 10, "reports": 1_000, "epsilon": 1.0, "delta": 1e-6, **wrong})
