"""Helpers and shufflers that are killed: one draw of each helper is in a round, all of it, and never another."""

import signal
from collections import Counter
from pathlib import Path

import pytest

from shoal.collect.envelope import information, opened
from shoal.mechanisms import Dummies
from tests.collect.actors import Helping
from tests.collect.people import Puller, records_of
from tests.collect.running import Running, until
from tests.collect.test_faults import HELPED
from tests.collect.world import World, make_helped_world

BY_HELPER = ("helper drawn", "helper kept", "helper acknowledged")
BY_SHUFFLER = ("helper mixed", "mix committed")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Exception ignored in.*SSLSocket:pytest.PytestUnraisableExceptionWarning"),
]


def test_every_point_has_its_kills() -> None:
    assert {*BY_HELPER, *BY_SHUFFLER} == set(HELPED)


def _until_sealed(shuffler: Running) -> list[bytes]:
    """Return what the first round has from people, once it is sealed."""
    bodies = shuffler.world.bundles([0, 1, 2, 2, 2])
    stored = [body for body in bodies if shuffler.upload(1, body).status == 201]
    until(lambda: shuffler.round() > 1, "the seal")
    return stored


def _released(shuffler: Running, folder: Path) -> list[bytes]:
    puller = Puller(shuffler, folder)
    until(lambda: 1 in puller.acknowledged, "the release")
    puller.stop()
    shuffler.stop()
    assert not puller.trouble
    return records_of(puller.pulled[1])


def _check(world: World, released: list[bytes], bodies: list[bytes], sent: list[bytes]) -> None:
    """Find in what was released people, one draw of the shuffler, and the one draw that the helper had kept."""
    assert len(set(released)) == len(released) and {*bodies, *sent} < set(released)
    mechanism = world.task.mechanism
    assert isinstance(mechanism, Dummies)
    for draw in (sent, sorted(set(released) - {*bodies, *sent})):
        plain = opened(world.analyst_key, information(world.task, 1), draw)
        said = Counter(int(mechanism.from_bytes(each[2:3])[0]) for each in plain if each is not None)
        assert sum(said.values()) == len(draw)
        for category in range(mechanism.categories):  # a second draw would make it 54, none 0
            assert 0 < said[category] < 54


@pytest.mark.parametrize("point", BY_HELPER)
def test_a_helper_that_is_killed(usual_place: str, tmp_path: Path, point: str) -> None:
    """Before its dummies are on the disk it may draw again; from then on, and over any number of kills, it does not."""
    world = make_helped_world(tmp_path / "world", round_seconds=1)
    shuffler = Running(world, usual_place, tmp_path / "batches", tmp_path / "run")
    helping = Helping(shuffler, tmp_path / "state")
    with shuffler.start():
        bodies = _until_sealed(shuffler)
        for _ in range(1 if point == "helper kept" else 2):  # where it does not come twice
            assert helping.send(point) == -signal.SIGKILL
            kept = helping.dummies
            if point == "helper drawn":
                assert kept is None and shuffler.rounds()[1]["helpers_missing"] == 1
                continue
            assert kept is not None
            assert shuffler.rounds()[1]["helpers_missing"] == (point == "helper kept")
        if point == "helper drawn":
            assert helping.send("helper kept") == -signal.SIGKILL
            kept = helping.dummies
        assert helping.send() == 0 and helping.dummies is None
        assert helping.send() == 0
        released = _released(shuffler, tmp_path / "pulled")
    assert kept is not None
    _check(world, released, bodies, kept)


@pytest.mark.parametrize("point", BY_SHUFFLER)
def test_a_shuffler_that_is_killed(place: str, tmp_path: Path, point: str) -> None:
    """All dummies of a helper are in the round, or none; whichever it was, the next attempt sends the same ones."""
    world = make_helped_world(tmp_path / "world", round_seconds=1)
    shuffler = Running(world, place, tmp_path / "batches", tmp_path / "run")
    helping = Helping(shuffler, tmp_path / "state")
    draws = []
    with shuffler.start(point):
        bodies = _until_sealed(shuffler)
        for again in (point, None):
            assert helping.send() == 1
            shuffler.wait_killed()
            draws.append(helping.dummies)
            assert not list((tmp_path / "batches").glob("*"))
            shuffler.start(again)
            if point == "mix committed":
                break  # it was stored before the kill, and is stored once
        if point == "mix committed":
            shuffler.kill()
            shuffler.start()
        assert shuffler.rounds()[1]["helpers_missing"] == (point == "helper mixed")
        assert helping.send() == 0 and helping.dummies is None
        released = _released(shuffler, tmp_path / "pulled")
    sent = draws[0]
    assert sent is not None and all(draw == sent for draw in draws)
    _check(world, released, bodies, sent)
