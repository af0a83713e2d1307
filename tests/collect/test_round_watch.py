"""The life of each round is in the log, and a round that waits too long is named by /readyz and the log."""

import json
import logging
from pathlib import Path

import pytest

from tests.collect.asgi import Clock, Front, made, reports, root
from tests.collect.world import World, make_exact_world, make_helped_world


def _lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    lines = [record.getMessage() for record in caplog.records if record.name == "shoal.shuffler"]
    caplog.clear()
    return lines


def _send(front: Front, world: World, number: int, count: int) -> None:
    for body in world.junk(count):
        assert front.public("POST", reports(world, number), body).status == 201


def _waiting(front: Front) -> list[dict[str, object]]:
    answer = front.public("GET", "/readyz")
    assert answer.status == 200
    waiting: list[dict[str, object]] = json.loads(answer.body)["waiting"]
    return waiting


def test_each_change_of_a_round_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    world = make_exact_world(tmp_path / "world", minimum=2, round_seconds=60)
    clock = Clock()
    front, shuffler = made(world, tmp_path / "store", clock)
    with front, caplog.at_level(logging.INFO, "shoal.shuffler"):
        front.tick()
        assert _lines(caplog) == []
        clock.now += 60
        front.tick()
        assert _lines(caplog) == ["event=round-extended round=1"]
        _send(front, world, 1, 3)
        clock.now += 60
        front.tick()
        assert _lines(caplog) == ["event=round-ready round=1"]  # sealed and released between two looks
        assert _waiting(front) == []
        clock.now += 61
        front.tick()
        assert "event=round-waiting round=1 for=analyst" in _lines(caplog)
        assert _waiting(front) == [{"round": 1, "for": "analyst"}]
        manifest = shuffler.released(1)[1]
        path = f"{root(world)}/rounds/1/ack"
        assert front.analyst("POST", path, manifest.sha256.encode()).status == 204
        front.tick()
        assert _lines(caplog) == ["event=round-purged round=1"]
        assert _waiting(front) == []


def test_a_round_that_waits_for_its_helpers_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    world = make_helped_world(tmp_path / "world", round_seconds=60)
    clock = Clock()
    front, _ = made(world, tmp_path / "store", clock)
    with front, caplog.at_level(logging.INFO, "shoal.shuffler"):
        front.tick()
        _send(front, world, 1, world.task.minimum)
        clock.now += 60
        front.tick()
        (sealed,) = _lines(caplog)
        assert sealed.startswith(f"event=round-sealed round=1 reports={world.task.minimum} messages=")
        assert _waiting(front) == []
        clock.now += 61
        front.tick()
        assert "event=round-waiting round=1 for=helpers" in _lines(caplog)
        assert _waiting(front) == [{"round": 1, "for": "helpers"}]
