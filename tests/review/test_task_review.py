"""The review of a task: its numbers are those of the task, and why assumptions hold is said of each."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import shoal
from shoal.cli import main
from shoal.collect.kinds.heavy_hitter_rounds import HeavyHitterRounds
from shoal.digits import rounded_up
from shoal.review.task_review import task_review
from tests.collect.world import (
    World,
    make_covered_world,
    make_dummies_world,
    make_helped_world,
    make_hunt_world,
    make_world,
)

pytestmark = pytest.mark.slow


def test_a_task_is_reviewed_at_its_minimum_without_its_fakes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = make_world(tmp_path, question="Which of <these> & those?")
    task, review = world.task, task_review(world.task)
    text = json.dumps(review.to_dict(), ensure_ascii=False)
    curve = shoal.amplify(task.mechanism, reports=task.minimum - task.malicious)
    assert review.objection() == ""
    assert review.title == task.question
    for said in (task.id, rounded_up(curve.epsilon(task.delta)), f"at most {task.malicious:,} of them"):
        assert said in text, said
    assert "<these>" not in review.to_html()
    page = tmp_path / "review.html"
    assert main(["review", "--task", str(world.task_path), "--output", str(page)]) == 0
    assert page.read_text(encoding="utf-8") == review.to_html()
    assert main(["verify", str(page)]) == 0
    assert "and the title, “Which of <these> & those?”." in capsys.readouterr().out


def test_each_assumption_of_a_task_has_a_reason_and_a_consequence(tmp_path: Path) -> None:
    review = task_review(make_world(tmp_path).task, title="colours")
    items = review.to_dict()["sections"][2]["items"]
    assert review.title == "colours"
    assert [item["kind"] for item in items] == ["table"]  # and no field to fill in
    assert all(all(row) for row in items[0]["rows"])


@pytest.mark.parametrize("make", [make_covered_world, make_dummies_world])
def test_a_task_of_several_messages_says_that_nothing_remains(
    make: Callable[[Path], World], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the review, and wherever the task itself is shown; every assumption has its reason there too."""
    world = make(tmp_path)
    review = task_review(world.task)
    text = json.dumps(review.to_dict(), ensure_ascii=False)
    items = review.to_dict()["sections"][2]["items"]
    assert [item["kind"] for item in items] == ["table"]  # and no field to fill in
    assert "If shuffler and analyst work together, nothing remains: they see what each person said." in text
    assert "if shuffler and analyst collude, nothing remains" in text
    for verb in (["show"], ["verify", "--id", world.task.id]):
        assert main(["task", verb[0], str(world.task_path), *verb[1:]]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert "if shuffler and analyst collude, what remains is nothing" in shown


def test_the_review_of_a_search_is_of_all_its_rounds(tmp_path: Path) -> None:
    task = make_hunt_world(tmp_path).task
    plan, review = HeavyHitterRounds.plan_of(task), task_review(task)
    text = json.dumps(review.to_dict(), ensure_ascii=False)
    assert plan.rounds > 1
    assert f"ε = {rounded_up(plan.curve.epsilon(task.delta))} at δ" in text
    assert f"ε = {rounded_up(plan.of_round.epsilon(task.delta))} at δ" not in text
    assert f"in all rounds of one search ({plan.rounds})" in text and "several searches" in text
    assert f"typically off by {rounded_up(plan.error(task.minimum), 3)} people" in text
    assert f"projective geometry response of order {plan.order}" in text
    assert [item["kind"] for item in review.to_dict()["sections"][2]["items"]] == ["table"]


@pytest.mark.parametrize("parties", [1, 2])
def test_who_adds_dummies_is_said_by_the_task(tmp_path: Path, parties: int) -> None:
    """The helper alone, or the shuffler as well."""
    task = make_helped_world(tmp_path, parties=parties).task
    text = json.dumps(task_review(task).to_dict(), ensure_ascii=False)
    assert task.shuffler_adds == (parties == 2)
    assert ("the shuffler runs shoal's, which draws them" in text) == task.shuffler_adds
    assert "each helper of the task runs shoal's, which draws them" in text
    assert ("The shuffler and each helper runs Dummies(" in text) == task.shuffler_adds
    assert ("Each helper runs Dummies(" in text) != task.shuffler_adds
