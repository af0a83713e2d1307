"""A ledger keeps the budget of its first round, since the order of its filter must be fixed before the first round."""

import json
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.composition.budget import Budget, filter_order
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
        ledger.record(CURVE, times=3)
        assert ledger.limit is None
        fit = next(times for times in range(1, 99) if not ledger.affords(CURVE, **FIRST, times=times)) - 1
        take(ledger, **FIRST, times=fit)
        with pytest.raises(BudgetError, match="over the budget"):
            take(ledger, **FIRST)
        ledger.record(CURVE, label="it happened all the same")
        assert ledger.limit == Budget(0.5, 1e-6)
        assert not ledger.affords(CURVE, **FIRST)
        assert ledger.to_dict()["budget"] == {"epsilon": 0.5, "delta": 1e-6, "planned": False}
        assert sum(entry.times for entry in ledger) == 3 + fit + 1


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
