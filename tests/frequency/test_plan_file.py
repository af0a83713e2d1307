"""The file of a plan, read back: the same rounds, with every number as it was."""

import json

import pytest

import shoal
from shoal.errors import FormatError
from shoal.frequency.plan_file import PlannedRounds


def test_a_plan_comes_back_as_it_was() -> None:
    plan = shoal.plan(categories=4, reports=1_000, epsilon=0.5, delta=1e-6)
    rounds = PlannedRounds.from_json(json.dumps(plan.to_dict()), "plan.json")
    assert (rounds.mechanism, rounds.reports, rounds.rounds) == (plan.mechanism, 1_000, 1)
    assert (rounds.epsilon, rounds.delta) == (0.5, 1e-6)
    assert rounds.curve() == plan.best.curve
    assert rounds.curve(500).reports == 500


@pytest.mark.parametrize("changed", [{"times": 0}, {"reports": "many"}, {"epsilon": 0}, {"delta": 1}, {"schema": {}}])
def test_what_is_not_a_plan_is_refused(changed: dict[str, object]) -> None:
    mechanism = shoal.RandomizedResponse(categories=4, local_epsilon=1).to_dict()
    content = {"schema": mechanism, "reports": 100, "times": 2, "epsilon": 1.0, "delta": 1e-6}
    assert PlannedRounds.from_json(json.dumps(content), "plan.json").rounds == 2
    with pytest.raises(FormatError, match=r"plan\.json is not a plan, as `shoal plan --output` writes it"):
        PlannedRounds.from_json(json.dumps(content | changed), "plan.json")
