"""A shuffler of bundles, or of dummies, that is killed: no bundle is half stored, and no dummy is drawn twice."""

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from shoal.collect import failpoint
from shoal.collect.batch import BatchFile
from shoal.collect.envelope import information, opened
from shoal.mechanisms import Dummies
from tests.collect.people import People, Puller, records_of
from tests.collect.running import Running, batches_in, until
from tests.collect.test_faults import HELPED, HUNTED, SEVERAL, kills_in
from tests.collect.world import World, make_covered_world, make_dummies_world

_HEAD = 100
_LATE = [
    point for point in failpoint.POINTS if point not in (*SEVERAL, *HELPED, *HUNTED, "after insert", "before commit")
]
BUNDLES = [
    *((point, times) for point in ("between messages", "after insert", "before commit") for times in (1, 2, 20)),
    *((point, 1) for point in _LATE),
]
DUMMIES = [
    ("before commit", 5),
    *(
        (point, times)
        for point in ("dummies drawn", "dummies stored", "after seal", "batch written")
        for times in (1, 2)
    ),
    *((point, 1) for point in _LATE[2:]),
]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Exception ignored in.*SSLSocket:pytest.PytestUnraisableExceptionWarning"),
]


def test_every_point_has_its_kills() -> None:
    assert {point for point, _ in BUNDLES} | {point for point, _ in DUMMIES} == set(failpoint.POINTS) - {
        *HELPED,
        *HUNTED,
    }


def _killed(world: World, place: str, folder: Path, kills: list[tuple[str, int]]) -> tuple[People, Puller, list[bytes]]:
    """Kill a shuffler under load at each point, and return who has sent, what was pulled, and what else was sent."""
    kills = kills_in(place, kills)
    shuffler = Running(world, place, folder / "batches", folder / "run")
    size = world.task.mechanism.bundle
    with shuffler.start(*kills[0]):
        people = People(shuffler, threads=8, bulk=size)
        puller = Puller(shuffler, folder / "pulled")
        shuffler.wait_killed()
        for point, times in kills[1:]:
            shuffler.start(point, times)
            shuffler.wait_killed()
        shuffler.start()
        people.finish()
        last = shuffler.round()
        fillers = [b"".join(world.junk(size)) for _ in range(2)]  # the last round must not stay too small
        for filler in fillers:
            assert shuffler.upload(last, filler).status in (201, 409)
        until(lambda: last in puller.acknowledged, "the last round")
        puller.stop()
        shuffler.stop()
    assert not puller.trouble
    assert people.statuses[0] > len(kills) // 2  # answers that were lost
    return people, puller, fillers


def _parts(bodies: list[bytes], length: int) -> list[list[bytes]]:
    return [[body[at : at + length] for at in range(0, len(body), length)] for body in bodies]


def test_bundles_are_stored_whole_or_not_at_all(place: str, tmp_path: Path) -> None:
    """Every bundle that was acknowledged is in one round, all of it; one that was given up is so, or nowhere."""
    world = make_covered_world(tmp_path, round_seconds=1)
    people, puller, fillers = _killed(world, place, tmp_path, BUNDLES)
    size, length = world.task.mechanism.bundle, world.task.ciphertext_bytes
    rounds = {record: number for number, batch in puller.pulled.items() for record in records_of(batch)}
    assert len(rounds) == sum(batch.manifest.records for batch in puller.pulled.values())  # each message once
    for batch in puller.pulled.values():
        assert batch.manifest.records == size * batch.manifest.reports
    found = 0
    for parts in _parts(people.acknowledged, length):
        assert len({rounds[part] for part in parts}) == 1  # and each is there
        found += size
    for parts in _parts([*people.given_up, *fillers], length):
        there = [rounds[part] for part in parts if part in rounds]
        assert len(there) in (0, size) and len(set(there)) <= 1
        found += len(there)
    assert found == len(rounds)
    # And which messages came together is not to be seen: neighbours in a batch are of one bundle as often as by chance.
    bundle_of = {part: place for place, parts in enumerate(_parts(people.acknowledged, length)) for part in parts}
    together = chances = 0
    for batch in puller.pulled.values():
        marks = [bundle_of.get(record, -1) for record in records_of(batch)]
        together += sum(one == other != -1 for one, other in pairwise(marks))
        chances += size - 1
    assert together < chances + 8 * chances**0.5 + 10


def test_dummies_are_drawn_once(place: str, tmp_path: Path) -> None:
    """Every round has all its reports once, and one draw of dummies, of which no category has more than 2t."""
    world = make_dummies_world(tmp_path, round_seconds=1)
    people, puller, fillers = _killed(world, place, tmp_path, DUMMIES)
    mechanism = world.task.mechanism
    assert isinstance(mechanism, Dummies)
    sent = set(people.acknowledged) | set(people.given_up) | set(fillers)
    released: Counter[bytes] = Counter()
    numbers = []
    for number, batch in puller.pulled.items():
        records = records_of(batch)
        released.update(records)
        dummies = [record for record in records if record not in sent]
        assert len(records) - len(dummies) == batch.manifest.reports
        plain = opened(world.analyst_key, information(world.task, number), dummies)
        said = Counter(int(mechanism.from_bytes(each[2:3])[0]) for each in plain if each is not None)
        assert sum(said.values()) == len(dummies)  # nobody has sent what can be opened
        assert max(said.values(), default=0) <= 2 * mechanism.limit
        numbers += [said[category] for category in range(mechanism.categories)]
    assert max(released.values()) == 1
    assert not set(people.acknowledged) - set(released)
    # A round with two draws has 54 of a category in the mean, and one with none has 0.
    assert len(numbers) >= 12 and all(count > 0 for count in numbers)
    assert abs(sum(numbers) / len(numbers) - mechanism.limit) < 8 * 2.8 / len(numbers) ** 0.5


@pytest.mark.parametrize("point", ["batch written", "renamed"])
def test_all_attempts_at_a_release_have_the_same_messages(usual_place: str, tmp_path: Path, point: str) -> None:
    """What both had in common would otherwise be the messages of people."""
    world = make_dummies_world(tmp_path, round_seconds=1)
    batches = tmp_path / "batches"
    shuffler = Running(world, usual_place, batches, tmp_path / "run")
    with shuffler.start(point):
        for body in world.bundles([0, 1, 2, 2, 2]):
            assert shuffler.upload(1, body).status in (201, 409)
        shuffler.wait_killed()
        (left,) = [path for path in batches_in(batches) if path.is_file()]
        first, length = left.read_bytes()[_HEAD:], world.task.ciphertext_bytes
        shuffler.start(point)
        shuffler.wait_killed()
        others = [path.read_bytes()[_HEAD:] for path in batches_in(batches) if path.is_file() and path != left]
        shuffler.start()
        puller = Puller(shuffler, tmp_path / "pulled")
        until(lambda: 1 in puller.acknowledged, "the release")
        puller.stop()
        shuffler.stop()
    last = b"".join(records_of(puller.pulled[1]))
    assert len(others) == 1
    draws = [sorted(_parts([data], length)[0]) for data in (first, *others, last)]
    assert draws[0] == draws[1] == draws[2]
    assert first != others[0] != last  # in another order each
    assert len(draws[0]) > puller.pulled[1].manifest.reports


def test_a_draw_that_was_not_committed_is_forgotten(place: str, tmp_path: Path) -> None:
    """Killed before the commit, the round is still open for the next process, which draws for the first time."""
    world = make_dummies_world(tmp_path, round_seconds=1)
    shuffler = Running(world, place, tmp_path / "batches", tmp_path / "run")
    with shuffler.start("dummies stored"):
        bodies = world.bundles([0] * 5)
        for body in bodies:
            assert shuffler.upload(1, body).status == 201
        shuffler.wait_killed()
        assert not batches_in(tmp_path / "batches")
        shuffler.start("after seal")
        shuffler.wait_killed()
        shuffler.start()
        puller = Puller(shuffler, tmp_path / "pulled")
        until(lambda: 1 in puller.acknowledged, "the release")
        puller.stop()
        shuffler.stop()
    batch: BatchFile = puller.pulled[1]
    assert batch.manifest.reports == 5 and set(bodies) < set(records_of(batch))
    assert batch.manifest.records - 5 <= 162
