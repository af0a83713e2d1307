"""The plan keeps its promise, nobody finds a better mechanism by trying all of them, and its file is read back."""

import json
import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

import shoal
from shoal.calibration.target import ROOM, Target
from shoal.errors import FormatError, ParameterError
from shoal.mechanisms import kinds, mechanism_of
from shoal.mechanisms.dummies import decay_of
from shoal.pairs.discrete_laplace import DummyPair
from shoal.planning.error_curves import central_error, local_error
from shoal.planning.fit import _least_limit
from shoal.planning.plan import PlannedRounds
from tests.exhaustive import representative
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
@pytest.mark.parametrize("setting", representative(FORCED, 2))
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
        if choice.curve.bound == "blanket":
            assert quick == pytest.approx(delta, rel=0.1)
        else:  # of one bit, where the blanket is too large
            assert quick > delta


@pytest.mark.slow
@pytest.mark.parametrize("setting", [*FORCED, *EXTREME])
def test_every_choice_has_the_guarantee_and_the_error_of_the_closed_form(setting: Setting) -> None:
    categories, reports, epsilon, delta = setting
    plan = planned(*setting)
    for choice in plan.choices:
        assert shoal.amplify(choice.mechanism, reports=reports).delta(epsilon) <= delta
        assert choice.epsilon <= epsilon and choice.delta == delta
        assert choice.curve.reports == reports and choice.curve.local_epsilon == choice.mechanism.local_epsilon
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
    rest = [float(f"{choice.error:.6g}") for choice in plan.choices[len(close) :]]
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
@pytest.mark.parametrize("setting", FORCED)
def test_schema_and_json(setting: Setting) -> None:
    plan = planned(*setting)
    facts = json.loads(json.dumps(plan.to_dict(), allow_nan=False))
    assert mechanism_of(facts["schema"]) == plan.mechanism
    assert facts["local_epsilon"] is None
    assert (facts["categories"], facts["reports"], facts["epsilon"], facts["delta"]) == setting
    for choice, told in zip(plan.choices, facts["choices"], strict=True):
        assert mechanism_of(told["schema"]) == choice.mechanism
        assert told["mechanism"] == choice.mechanism.name
        assert told["local_epsilon"] == choice.mechanism.local_epsilon
        assert told["bits_per_report"] == choice.mechanism.bits_per_report
        assert told["error"] == choice.error
    assert repr(plan.mechanism) in repr(plan)
    assert plan.mechanism.name in plan._repr_html_()


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
        ({"epsilon": None}, "give the central guarantee that must hold"),
        ({"rounds": 0}, "rounds must be at least 1"),
        ({"rounds": 1.5}, "rounds must be a whole number"),
        ({"ledger": "telemetry.json"}, "ledger must be a Ledger"),
        ({"delta": 1}, "delta must be greater than 0 and less than 1"),
        ({"local_epsilon": 0}, "local_epsilon must be greater than 0"),
        ({"local_epsilon": math.inf}, "local_epsilon must be finite"),
    ],
)
def test_bad_input(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        shoal.plan(**{"categories": 10, "reports": 1_000, "epsilon": 1.0, "delta": 1e-6, **wrong})


@pytest.mark.slow
def test_many_rounds_keep_the_target_together() -> None:
    setting: dict[str, Any] = {"categories": 30, "reports": 100_000, "epsilon": 1, "rounds": 20}
    plan = shoal.plan(**setting)
    assert (plan.rounds, plan.epsilon, plan.delta) == (20, 1.0, 1e-6)

    def together(mechanism: Any, times: int = 20) -> float:
        return float(shoal.amplify(mechanism, reports=100_000).repeated(times).epsilon(1e-6))

    for choice in plan.choices:
        assert together(choice.mechanism) == choice.epsilon <= 1
        assert choice.epsilon >= 1 - 2 * ROOM
        assert choice.average_error == choice.error / math.sqrt(20)
        assert choice.average_category_error == choice.category_error / math.sqrt(20)
    best = plan.mechanism
    assert together(replace(best, local_epsilon=best.local_epsilon * (1 + 1e-6))) > 1 - ROOM
    assert together(best, 21) > 1
    alone = shoal.plan(**{**setting, "rounds": 1})
    assert alone.best.error < plan.best.error and alone.best.round_epsilon == alone.best.epsilon
    assert plan.best.round_epsilon == plan.best.curve.epsilon(1e-6)
    facts = json.loads(json.dumps(plan.to_dict(), allow_nan=False))
    assert (facts["rounds"], facts["spent"]) == (20, 0.0)
    assert facts["choices"][0]["average_error"] == plan.best.average_error
    assert "20 rounds" in repr(plan)
    assert plan == shoal.plan(**setting)  # nothing in it comes from a clock
    assert "seconds" not in facts["choices"][0]


@pytest.mark.slow
def test_a_year_of_daily_histograms() -> None:
    """Known from bisection by hand: ε₀ ≈ 3.423, ε = 0.0424 a day, an error of 0.0342 and ± 0.00228."""
    plan = shoal.plan(categories=200, reports=50_000, epsilon=1, rounds=365)
    assert plan.mechanism.name == "randomized-response"
    assert plan.mechanism.local_epsilon == pytest.approx(3.4231, rel=1e-4)
    assert plan.best.round_epsilon == pytest.approx(0.0424, rel=1e-3)
    assert plan.best.error == pytest.approx(0.0342, rel=2e-3)
    assert plan.best.category_error == pytest.approx(0.00228, rel=2e-3)
    assert 1 - 1e-5 <= plan.best.epsilon / (1 - ROOM) <= 1
    assert plan.note is None


@pytest.mark.slow
def test_what_is_left_of_a_ledger_is_the_target() -> None:
    ledger = shoal.Ledger()
    before = shoal.amplify(local_epsilon=2, reports=100_000)
    with ledger.budget(before, epsilon=0.5, delta=1e-7, rounds=20, planned=True):
        pass
    plan = shoal.plan(categories=10, reports=100_000, rounds=5, ledger=ledger)
    assert (plan.epsilon, plan.delta) == (0.5, 1e-7)
    assert plan.to_dict()["spent"] == ledger.spent(1e-7)
    budget: dict[str, Any] = {"epsilon": 0.5, "delta": 1e-7, "planned": True}
    for choice in plan.choices:
        assert ledger.affords(choice.curve, rounds=5, **budget)
    assert not ledger.affords(plan.best.curve, rounds=6, **budget)
    free = shoal.plan(categories=10, reports=100_000, rounds=5, epsilon=0.5, delta=1e-7)
    assert free.best.error < plan.best.error
    with pytest.raises(shoal.errors.BudgetError, match="asked for was delta=1e-06"):
        shoal.plan(categories=10, reports=100_000, delta=1e-6, ledger=ledger)


@pytest.mark.slow
def test_what_is_of_no_use_says_so() -> None:
    useless = shoal.plan(categories=100, reports=50, epsilon=0.5)
    assert useless.best.category_error > 0.01
    assert useless.note is not None
    assert useless.note.startswith("this says nothing about a single category: ± ")
    assert "1/100 = 0.01; about " in useless.note
    enough = useless.question.enough(useless.mechanism)
    assert enough is not None and enough > 50
    assert shoal.plan(categories=100, reports=2 * enough, epsilon=0.5).note is None
    assert useless.to_dict()["note"] == useless.note
    assert shoal.plan(categories=100, reports=100_000, epsilon=0.5).note is None


@pytest.mark.slow
def test_one_round_of_no_use_and_many_that_are() -> None:
    plan = shoal.plan(categories=50, reports=2_000, epsilon=0.5, rounds=30)
    assert plan.best.average_category_error <= 1 / 50 < plan.best.category_error
    assert plan.note is not None and plan.note.startswith("one round says nothing about a single category")
    assert "the average over all 30 rounds is good to ± " in plan.note


@pytest.mark.slow
@pytest.mark.parametrize("setting", FORCED)
def test_few_exact_values_are_enough(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    values = []
    exact = Target.excess

    def counted(self: Target, curve: shoal.PrivacyCurve, times: int = 1) -> float:
        values.append(type(curve.randomizer))
        return exact(self, curve, times)

    monkeypatch.setattr(Target, "excess", counted)
    categories, reports, epsilon, delta = setting
    plan = shoal.plan(categories=categories, reports=reports, epsilon=epsilon, delta=delta)
    for choice in plan.choices:
        assert 1 <= values.count(type(choice.mechanism)) <= 6
    assert len(values) <= 4 * len(plan.choices)


def test_a_curator_shares_the_budget_among_rounds() -> None:
    one = central_error(categories=10, reports=1_000, epsilon=1.0, delta=1e-6)
    two = central_error(categories=10, reports=1_000, epsilon=1.0, delta=1e-6, rounds=2)
    hundred = central_error(categories=10, reports=1_000, epsilon=1.0, delta=1e-6, rounds=100)
    many = central_error(categories=10, reports=1_000, epsilon=1.0, delta=1e-6, rounds=400)
    assert two == pytest.approx(2 * one, rel=1e-12)  # of pure noise, each round has a half
    assert many == pytest.approx(2 * hundred, rel=1e-12)  # of Gaussian noise, the variances add up


@pytest.mark.slow
def test_several_messages_reach_a_trusted_curator() -> None:
    """Dummies are within 2 % of a curator, covers within a factor of 2.1, and one message has 2.81."""
    setting: dict[str, Any] = {"categories": 100, "reports": 100_000, "epsilon": 0.5, "delta": 1e-6}
    made = shoal.plan(**setting, messages=2, dummies=True)
    ratios = {choice.mechanism.name: choice.error / made.central_error for choice in made.choices}
    assert ratios["dummies"] <= 1.02 and ratios["covered"] <= 2.1
    assert ratios["randomized-response"] == pytest.approx(2.81, abs=0.01)
    assert [choice.mechanism.name for choice in made.choices[:2]] == ["dummies", "covered"]
    assert all(shoal.amplify(choice.mechanism, reports=1e5).epsilon(1e-6) <= 0.5 for choice in made.choices)
    dummies, covers, single = made.choices[:3]
    assert dummies.frequent_error == pytest.approx(dummies.category_error)
    assert covers.frequent_error == pytest.approx(covers.category_error) and covers.category_error * 1e5 < 11.7
    assert single.frequent_error > 4 * single.category_error
    assert dummies.messages == pytest.approx(1.05) and covers.messages == pytest.approx(1.136, abs=1e-3)
    assert (dummies.sealed_bytes, covers.sealed_bytes, single.sealed_bytes) == (64, 128, 64)
    assert dummies.mechanism.influence == 1 and covers.mechanism.influence == 2 < 1.2 + single.mechanism.influence
    facts = json.loads(json.dumps(made.to_dict(), allow_nan=False))
    assert all(facts["choices"][place]["remains"].startswith("nothing") for place in (0, 1))
    assert facts["choices"][2]["remains"].startswith("ε₀ = 6.7")
    plain = shoal.plan(**setting)
    assert [choice.mechanism for choice in plain.choices] == [choice.mechanism for choice in made.choices[2:]]


@pytest.mark.slow
def test_covers_hash_where_categories_are_many() -> None:
    """Two messages a person do for any number of categories: a rare one has about √(2·136) people."""
    made = shoal.plan(categories=10**4, reports=10**5, epsilon=0.5, messages=2)
    (covers,) = [choice for choice in made.choices if choice.mechanism.name == "covered"]
    assert covers.mechanism.response is not None and 0.9 < covers.mechanism.fill <= 1  # type: ignore[attr-defined]
    assert covers.category_error * 1e5 == pytest.approx(16.6, abs=0.2)
    assert covers.mechanism.remains.startswith("ε₀ = ")


@pytest.mark.slow
def test_several_messages_share_a_budget_with_what_was_before() -> None:
    made = shoal.plan(categories=20, reports=20_000, epsilon=1, rounds=3, messages=2, dummies=True)
    for choice in made.choices:
        if choice.mechanism.name in ("covered", "dummies"):
            together = shoal.amplify(choice.mechanism, reports=20_000).repeated(3)
            assert 0.99 < together.epsilon(1e-6) <= 1
    limited = shoal.plan(categories=20, reports=20_000, epsilon=1, local_epsilon=3, messages=2, dummies=True)
    assert all(choice.mechanism.local_epsilon <= 3 for choice in limited.choices)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.5, 1e-6), (1.0, 1e-6), (0.009, 1e-9), (5, 0.3), (45, 1e-6), (79.9, 1e-12), (1e-3, 1e-6)]
)
def test_the_limit_of_dummies_is_the_least(epsilon: float, delta: float) -> None:
    """Whole numbers settle it: with one less, an infinite loss is too likely."""
    limit = _least_limit(epsilon, delta)
    assert limit is not None
    unhidden = [DummyPair(decay_of(epsilon), each).unhidden_bracket[1] for each in (limit, max(1, limit - 1))]
    assert unhidden[0] <= delta and (limit == 1 or unhidden[1] > delta)


def test_no_dummies_where_too_many_would_be_needed() -> None:
    assert _least_limit(1e-9, 1e-6) is None
    assert _least_limit(1e-25, 1e-6) is None


@pytest.mark.parametrize(("reports", "epsilon"), [(2, 1), (1000, 2000), (1000, 1e-17)])
def test_the_local_error_is_finite_for_extreme_plans(reports: int, epsilon: float) -> None:
    made = shoal.plan(categories=10, messages=64, reports=reports, epsilon=epsilon)
    assert math.isfinite(made.to_dict()["local_error"])


def test_the_local_error_is_inversely_proportional_to_a_small_epsilon() -> None:
    made = {epsilon: local_error(categories=10, reports=1000, epsilon=epsilon) for epsilon in (1e-7, 1e-17)}
    assert made[1e-17] == pytest.approx(1e10 * made[1e-7], rel=1e-5)


def test_a_plan_comes_back_as_it_was() -> None:
    plan = shoal.plan(categories=4, reports=1_000, epsilon=0.5, delta=1e-6)
    rounds = PlannedRounds.from_json(json.dumps(plan.to_dict()), "plan.json")
    assert (rounds.mechanism, rounds.reports, rounds.rounds) == (plan.mechanism, 1_000, 1)
    assert (rounds.epsilon, rounds.delta) == (0.5, 1e-6)
    assert rounds.curve() == plan.best.curve
    assert rounds.curve(500).reports == 500


@pytest.mark.parametrize("changed", [{"rounds": 0}, {"reports": "many"}, {"epsilon": 0}, {"delta": 1}, {"schema": {}}])
def test_what_is_not_a_plan_is_refused(changed: dict[str, object]) -> None:
    mechanism = shoal.RandomizedResponse(categories=4, local_epsilon=1).to_dict()
    content = {"schema": mechanism, "reports": 100, "rounds": 2, "epsilon": 1.0, "delta": 1e-6}
    assert PlannedRounds.from_json(json.dumps(content), "plan.json").rounds == 2
    with pytest.raises(FormatError, match=r"plan\.json is not a plan, as `shoal plan --output` writes it"):
        PlannedRounds.from_json(json.dumps(content | changed), "plan.json")
