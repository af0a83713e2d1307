"""A budget is kept: by a filter whose order the first round fixes, even if rounds are chosen by earlier outputs."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.composition.budget import Budget, filter_order, filtered
from shoal.composition.composition_method import Round
from shoal.errors import BudgetError, LedgerError, ParameterError

CURVE = shoal.amplify(local_epsilon=1, reports=10_000)
FIRST: dict[str, Any] = {"epsilon": 0.5, "delta": 1e-6}
OTHERS: tuple[dict[str, Any], ...] = (
    {"epsilon": 0.4, "delta": 1e-6},
    {"epsilon": 5.0, "delta": 1e-6},
    {"epsilon": 0.5, "delta": 1e-7},
    {"epsilon": 0.5, "delta": 1e-5},
    {"epsilon": 0.5, "delta": 1e-6, "planned": True},
    {"epsilon": 2.0, "delta": 0},
)


def take(ledger: shoal.Ledger, **budget: Any) -> None:
    with ledger.budget(CURVE, **budget):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("other", OTHERS, ids=str)
def test_another_budget_is_refused(other: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    for ledger in (shoal.Ledger(), shoal.Ledger(path)):
        assert ledger.limit is None
        take(ledger, **FIRST)
        assert ledger.limit == Budget(0.5, 1e-6)
    assert json.loads(path.read_text())["budget"] == {"epsilon": 0.5, "delta": 1e-6, "planned": False}
    before = path.read_bytes()
    for again in (ledger, shoal.Ledger(path)):
        with pytest.raises(BudgetError) as refusal, again.budget(CURVE, **other):
            pytest.fail("the round ran")
        for part in ("epsilon=0.5 at delta=1e-06", str(Budget(**other)), "Nothing was recorded", "new ledger"):
            assert part in str(refusal.value)
        with pytest.raises(BudgetError, match="stored with its first round"):
            again.affords(CURVE, **other)
        assert path.read_bytes() == before
        assert again.affords(CURVE, **FIRST)
    take(shoal.Ledger(path), **FIRST)
    assert len(ledger) == 2


def test_the_order_of_the_filter_would_depend_on_the_budget() -> None:
    """What another budget would change: with an order chosen in view of the outputs the lemma says nothing."""
    orders = {filter_order(budget["epsilon"], budget["delta"] or 1e-300) for budget in OTHERS[:4]}
    assert len(orders | {filter_order(0.5, 1e-6)}) == 5


@pytest.mark.slow
def test_a_budget_that_was_refused_at_once_is_not_stored(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    for ledger in (shoal.Ledger(), shoal.Ledger(path)):
        with pytest.raises(BudgetError, match="over the budget"):
            take(ledger, epsilon=1e-6, delta=1e-6)
        assert ledger.limit is None
        assert not ledger.affords(CURVE, epsilon=1e-6, delta=1e-6)
        take(ledger, **FIRST)
        assert ledger.limit == Budget(0.5, 1e-6)


@pytest.mark.slow
def test_what_is_recorded_counts_and_changes_no_budget(tmp_path: Path) -> None:
    for ledger in (shoal.Ledger(), shoal.Ledger(tmp_path / "ledger.json")):
        ledger.record(CURVE, rounds=3)
        assert ledger.limit is None
        fit = next(times for times in range(1, 99) if not ledger.affords(CURVE, **FIRST, rounds=times)) - 1
        take(ledger, **FIRST, times=fit)
        with pytest.raises(BudgetError, match="over the budget"):
            take(ledger, **FIRST)
        ledger.record(CURVE, label="it happened all the same")
        assert ledger.limit == Budget(0.5, 1e-6)
        assert not ledger.affords(CURVE, **FIRST)
        assert ledger.to_dict()["budget"] == {"epsilon": 0.5, "delta": 1e-6, "planned": False}
        assert sum(entry.count for entry in ledger) == 3 + fit + 1


def test_pure_budgets_are_planned_either_way() -> None:
    ledger = shoal.Ledger()
    take(ledger, epsilon=2, delta=0)
    take(ledger, epsilon=2.0, delta=0.0, planned=True)
    assert ledger.limit == Budget(2, 0, planned=True)
    assert ledger.limit.planned


def test_a_budget_that_changes_under_an_open_ledger_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    ledger = shoal.Ledger(path)
    take(ledger, **FIRST)
    content = json.loads(path.read_text())
    for budget in (None, {**content["budget"], "epsilon": 5.0}):
        path.write_text(json.dumps(content | {"budget": budget}))
        with pytest.raises(LedgerError, match="or its budget"):
            take(ledger, epsilon=5.0, delta=1e-6)
        with pytest.raises(LedgerError, match="or its budget"):
            ledger.record(CURVE)
    assert shoal.Ledger(path).limit == Budget(5.0, 1e-6)


@pytest.mark.parametrize(("epsilon", "delta"), [(-1, 0.1), (1, 1), ("1", 0)])
def test_budgets_that_make_no_sense_are_refused(epsilon: Any, delta: Any) -> None:
    with pytest.raises(ParameterError):
        Budget(epsilon, delta)


Outcomes = tuple[tuple[Fraction, Fraction], ...]


def strong_pair(reports: int, local: Fraction) -> Outcomes:
    """Return the masses (P, Q) of all outcomes of the strong clones, exactly; `local` is e^ε₀."""
    clone, truth = 2 / (local + 1), local / (local + 1)
    distributions: dict[tuple[int, int], list[Fraction]] = defaultdict(lambda: [Fraction(0), Fraction(0)])
    for clones in range(reports):
        probability = math.comb(reports - 1, clones) * clone**clones * (1 - clone) ** (reports - 1 - clones)
        for ours in range(clones + 1):
            mass = probability * math.comb(clones, ours) / 2**clones
            for first, second, weight in ((1, 0, truth), (0, 1, 1 - truth)):
                distributions[ours + first, clones - ours + second][0] += mass * weight
                distributions[ours + second, clones - ours + first][1] += mass * weight
    assert sum(one for one, _ in distributions.values()) == sum(two for _, two in distributions.values()) == 1
    merged: dict[Fraction, Fraction] = defaultdict(Fraction)
    for one, two in distributions.values():
        merged[two / one] += one
    return tuple((one, one * ratio) for ratio, one in merged.items())


def hockey_stick(pair: Outcomes, growth: Fraction) -> Fraction:
    """Return Σ (P − λQ)₊."""
    return sum((max(one - growth * two, Fraction(0)) for one, two in pair), Fraction(0))


def test_losses_do_not_add_up_if_parameters_are_chosen() -> None:
    first, growth = strong_pair(1, Fraction(4, 3)), Fraction(3, 2)
    alone, crowd = strong_pair(1, Fraction(2)), strong_pair(10, Fraction(9, 2))
    # Their curves cross: after one outcome of the first round the one harms more, after the other the other.
    after = {two / one: (one, growth * two / one) for one, two in first}
    assert sorted(after) == [Fraction(3, 4), Fraction(4, 3)]
    harms = {ratio: (hockey_stick(alone, level), hockey_stick(crowd, level)) for ratio, (_, level) in after.items()}
    assert harms[Fraction(3, 4)][0] > harms[Fraction(3, 4)][1]
    assert harms[Fraction(4, 3)][0] < harms[Fraction(4, 3)][1]

    fixed = [sum(one * harms[ratio][which] for ratio, (one, _) in after.items()) for which in (0, 1)]
    chosen = sum(one * max(harms[ratio]) for ratio, (one, _) in after.items())
    assert [float(value) for value in fixed] == pytest.approx([0.1666667, 0.1652799], abs=1e-7)
    assert chosen > Fraction(6, 5) * max(fixed)

    # What the library says of the two fixed sequences is right, and no bound for the chooser.
    start = shoal.amplify(local_epsilon=math.log(4 / 3), reports=1)
    for value, reports, local in zip(fixed, (1, 10), (2.0, 4.5), strict=True):
        second = shoal.amplify(local_epsilon=math.log(local), reports=reports)
        said = shoal.compose([start, second]).delta(math.log(1.5))
        assert float(value) <= said * (1 + 1e-12)
        assert said <= float(value) * 1.01
        assert said < float(chosen)


def test_neither_does_the_optimal_theorem_hold_for_chosen_parameters() -> None:
    # The pairs that attain it: a coin of e^ε = 4/3, then one of e^ε = 2, or the truth with probability δ = 1/5.
    first, growth = strong_pair(1, Fraction(4, 3)), Fraction(3, 2)
    coin, truth = strong_pair(1, Fraction(2)), Fraction(1, 5)

    def told(level: Fraction) -> Fraction:
        return truth + (1 - truth) * max(1 - level, Fraction(0))

    harms = [(one, hockey_stick(coin, growth * two / one), told(growth * two / one)) for one, two in first]
    fixed = [sum(one * pair[which] for one, *pair in harms) for which in (0, 1)]
    assert fixed == [Fraction(1, 6), Fraction(1, 5)]
    assert sum(one * max(pair) for one, *pair in harms) == Fraction(53, 210) > max(fixed)


# Of each round: the number of reports and e^ε₀.
_KINDS = ((1, Fraction(2)), (4, Fraction(9, 2)), (2, Fraction(5, 4)))


def worst_chooser(budget: float, delta: float, rounds: int) -> tuple[float, int]:
    """Return the largest δ at ε = budget over all choosers whom the filter lets pass, and how far they get."""
    curves = [shoal.amplify(local_epsilon=math.log(local), reports=reports) for reports, local in _KINDS]
    pairs = [
        tuple((float(one), float(two / one)) for one, two in strong_pair(reports, local)) for reports, local in _KINDS
    ]

    @cache
    def allowed(counts: tuple[int, ...]) -> bool:
        parts = tuple(
            Round(c.profile, c.local_epsilon, number) for c, number in zip(curves, counts, strict=True) if number
        )
        return filtered(parts, epsilon=budget, delta=delta) <= budget

    longest = 0

    def worst(counts: tuple[int, ...], growth: float) -> float:
        nonlocal longest
        longest = max(longest, sum(counts))
        best = max(0.0, 1 - growth)
        if sum(counts) == rounds:
            return best
        for kind, pair in enumerate(pairs):
            after = tuple(number + (place == kind) for place, number in enumerate(counts))
            if allowed(after):
                best = max(best, math.fsum(one * worst(after, growth * ratio) for one, ratio in pair))
        return best

    return worst((0,) * len(_KINDS), math.exp(budget)), longest


@pytest.mark.parametrize(
    ("budget", "delta", "rounds"), [(0.8, 0.1, 4), (1.0, 0.2, 4), (1.5, 0.1, 4), (2.0, 0.1, 4), (2.0, 0.02, 5)]
)
def test_no_chooser_gets_past_the_filter(budget: float, delta: float, rounds: int) -> None:
    reached, longest = worst_chooser(budget, delta, rounds)
    assert longest == rounds
    assert 0.2 * delta < reached <= delta


@pytest.mark.slow
def test_the_order_depends_on_the_budget_alone() -> None:
    curve = shoal.amplify(local_epsilon=1, reports=1000)
    part = Round(curve.profile, curve.local_epsilon, 1)
    for epsilon, delta in ((0.3, 1e-6), (1.0, 1e-3)):
        assert filter_order(epsilon, delta) > 1
        costs = [filtered((part._replace(times=times),), epsilon=epsilon, delta=delta) for times in (1, 2, 5)]
        assert costs == sorted(costs)
        assert curve.epsilon(delta) <= costs[0]
