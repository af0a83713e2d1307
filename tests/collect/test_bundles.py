"""A bundle is stored message by message, all of it or nothing, once; people are counted, and never messages."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from shoal.collect.analyst import Analyst
from shoal.collect.batch import Manifest
from shoal.collect.connection import Connection
from shoal.collect.round_state import record
from shoal.collect.sender import Sender
from shoal.collect.shuffler import Shuffler
from shoal.collect.stores.sqlite import SqliteStore
from shoal.errors import CollectError, FormatError, TryAgainError, WithheldError
from shoal.mechanisms import Covered
from tests.collect.asgi import Clock, Front, InProcess, made, refused, reports, root, tokens
from tests.collect.life import Life, Lives, released
from tests.collect.running import store_in
from tests.collect.small_server import Asked, Said, small_server
from tests.collect.test_sender import Rounds
from tests.collect.world import World, make_covered_world, make_world

HOUR = 3600.0


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_covered_world(tmp_path / "world", minimum=3)


def _stored(life: Life, groups: list[list[bytes]]) -> list[bytes]:
    """Return all messages that are released of bundles that came in these groups, or none if there are too few."""
    for group in groups:
        life.add(group)
    life.now = HOUR
    if life.shuffler.close() is None:
        return []
    found = life.released()
    manifest = life.shuffler.released(1)[1]
    assert manifest.records == life.world.task.mechanism.bundle * manifest.reports
    return found


@pytest.fixture
def life(world: World, place: str, live: Lives) -> Life:
    """Lend a shuffler on either store."""
    return live(world, place)


def _messages(world: World, bodies: list[bytes]) -> Counter[bytes]:
    return Counter(world.cut(b"".join(bodies)))


def _junk(world: World, count: int) -> list[bytes]:
    return [b"".join(world.junk(world.task.mechanism.bundle)) for _ in range(count)]


def test_repeats_count_once(life: Life, world: World) -> None:
    bodies = _junk(world, 5)
    groups = [bodies[:3], bodies, [bodies[4], bodies[4]], bodies[:1]]
    assert Counter(_stored(life, groups)) == _messages(world, bodies)


def test_a_bundle_with_a_message_that_was_seen_is_dropped_whole(life: Life, world: World) -> None:
    """Else its other messages would be there without it, and the number of people would not be known."""
    length, bodies = world.task.ciphertext_bytes, _junk(world, 4)
    mixed = bodies[0][:length] + _junk(world, 1)[0][length:]
    twice = b"".join([bodies[1][:length]] * world.task.mechanism.bundle)
    fresh = _junk(world, 1)[0]
    doubled = fresh[:length] + fresh[:-length]
    groups = [bodies, [mixed], [twice, doubled], [mixed, *bodies]]
    assert Counter(_stored(life, groups)) == _messages(world, bodies)


def test_a_repeated_bundle_is_as_much_work_as_a_new_one(world: World, tmp_path: Path) -> None:
    """The time of an answer does not tell whether a bundle was seen before: rows are looked up and written as well."""
    store = store_in(str(tmp_path / "reports.db"), world.task)
    assert isinstance(store, SqliteStore)
    first, second = _junk(world, 2)
    changed, looked_up = [], []
    for body in (first, second, first):
        statements: list[str] = []
        store._database.set_trace_callback(statements.append)
        before = store._database.total_changes
        store.add(1, [record(body)])
        changed.append(store._database.total_changes - before)
        looked_up.append(sum(statement.startswith("SELECT 1 FROM report") for statement in statements))
    store.shut()
    bundle = world.task.mechanism.bundle
    assert looked_up == [bundle] * 3
    assert changed[0] == changed[1] >= bundle and changed[2] == changed[0] + bundle  # inserted, and deleted again


def test_overlapping_bundles_of_one_group_do_not_both_count(life: Life, world: World) -> None:
    length, bodies = world.task.ciphertext_bytes, _junk(world, 4)
    mixed = bodies[0][:length] + _junk(world, 1)[0][length:]
    found = Counter(_stored(life, [[mixed, *bodies]]))
    assert found in (_messages(world, bodies), _messages(world, [mixed, *bodies[1:]]))


def test_the_minimum_is_of_people(life: Life, world: World) -> None:
    """Two people have 18 messages, and three are asked for."""
    assert _stored(life, [_junk(world, 2)]) == []


def test_released_is_a_permutation_of_messages(life: Life, world: World) -> None:
    """Two messages of a bundle are next to each other as seldom as any two; by bundles they would be 1,600 times."""
    bodies = _junk(world, 200)
    found = _stored(life, [bodies])
    owner = {message: place for place, body in enumerate(bodies) for message in world.cut(body)}
    marks = np.array([owner[message] for message in found])
    assert (marks[1:] == marks[:-1]).sum() < 45  # 8 in the mean


@pytest.fixture
def front(world: World, tmp_path: Path) -> Iterator[tuple[Front, Shuffler, Clock]]:
    clock = Clock()
    front, shuffler = made(world, tmp_path, clock, tokens(relays="relay"))
    with front:
        yield front, shuffler, clock


def test_only_bundles_of_the_right_size_are_taken(world: World, front: tuple[Front, Shuffler, Clock]) -> None:
    length, body = world.task.ciphertext_bytes, _junk(world, 1)[0]
    post = front[0].public
    assert "9 messages of 64 bytes" in str(refused(post("POST", reports(world), body + body[:length]), 413)["detail"])
    assert "9 messages of 64 bytes" in str(refused(post("POST", reports(world), body[:-length]), 400)["detail"])
    assert refused(post("POST", reports(world), body[:length]), 400)
    assert refused(post("POST", reports(world), body[: length // 2]), 400)
    assert refused(post("POST", reports(world), body + body[:length], token="relay"), 400)
    assert post("POST", reports(world), body).status == 201
    assert post("POST", reports(world), body).status == 201


def test_a_relay_is_told_how_many_bundles_are_stored(world: World, front: tuple[Front, Shuffler, Clock]) -> None:
    service, shuffler, clock = front
    bodies = _junk(world, 7)
    assert service.public("POST", reports(world), b"".join(bodies[:5]), token="relay").status == 201
    clock.now += 60
    service.tick()
    assert refused(service.public("POST", reports(world), b"".join(bodies), token="relay"), 409)["stored"] == 5
    listed = json.loads(service.analyst("GET", f"{root(world)}/rounds").body)["rounds"]
    assert listed == [{"round": 1, "state": "ready", "reports": 5, "discarded": False, "messages": 45}]
    assert Counter(released(shuffler)) == _messages(world, bodies[:5])


def test_a_token_counts_one_bundle(world: World, tmp_path: Path) -> None:
    clock = Clock()
    front, shuffler = made(world, tmp_path, clock, tokens(people="a b c"))
    with front:
        bodies = dict(zip("aabc", _junk(world, 4), strict=False))
        for token, body in bodies.items():
            assert front.public("POST", reports(world), body, token).status == 201
            assert front.public("POST", reports(world), _junk(world, 1)[0], token).status == 201
        clock.now += 60
        front.tick()
        assert [one.reports for one in shuffler.rounds()] == [3, None]
        assert Counter(released(shuffler)) == _messages(world, list(bodies.values()))


def _counted(world: World, folder: Path, bodies: list[bytes]) -> Analyst:
    """Return an analyst who has counted a round of these bundles."""
    clock = Clock()
    front, _ = made(world, folder, clock, tokens(relays="relay"))
    with front:
        assert front.public("POST", reports(world), b"".join(bodies), token="relay").status == 201
        clock.now += 60
        front.tick()
        analyst = Analyst(folder / "work", world.task)
        assert analyst.pull(InProcess(front)) == [1]
    analyst.count(1, world.analyst_key, 1)
    return analyst


@pytest.mark.slow
def test_the_analyst_drops_empty_messages_and_estimates(tmp_path: Path) -> None:
    mechanism = Covered(categories=3, slots=2, fill=0.25)
    world = make_world(tmp_path / "world", mechanism=mechanism, minimum=1000)
    values = np.repeat([0, 1, 2], [600, 400, 200])
    junk = _junk(world, 2)
    length = world.task.ciphertext_bytes
    bodies = world.bundles(values)
    half = bodies[0][: 2 * length] + world.junk(1)[0]  # one of three messages can't be opened
    result = _counted(world, tmp_path, [half, *bodies[1:], *junk]).result(1)
    assert (result.received, result.tally.undecryptable, result.invalid, result.valid) == (1202, 7, 7, 1195)
    assert result.accounted == 1185
    assert result.epsilon == world.task.central(1195).epsilon(world.task.delta) <= 1
    expected = np.bincount(values) / 1202
    assert np.all(np.abs(result.estimate.frequencies - expected) < 6 * result.estimate.standard_errors + 4 / 1202)
    assert "If shuffler and analyst collude, what remains is nothing" in result.holds
    assert "ε₀" not in result.holds
    assert json.loads(json.dumps(result.to_dict(), allow_nan=False))["local_epsilon"] is None


@pytest.mark.slow
def test_a_flood_of_empty_bundles_is_counted_and_not_published(tmp_path: Path) -> None:
    """Nobody has a report then; the counts are stored, can be read, and say so."""
    mechanism = Covered(categories=3, slots=2, fill=0.25)
    world = make_world(tmp_path / "world", mechanism=mechanism, minimum=1000)
    empty = world.sealed(np.full(3 * 900, mechanism.null))
    silent = [b"".join(empty[at : at + 3]) for at in range(0, len(empty), 3)]
    analyst = _counted(world, tmp_path, [*world.bundles([0] * 100), *silent])
    with pytest.raises(WithheldError, match="the task allows no fewer than 1,000"):
        analyst.result(1)


def test_the_manifest_signs_people_and_messages(world: World, front: tuple[Front, Shuffler, Clock]) -> None:
    service, shuffler, clock = front
    assert service.public("POST", reports(world), b"".join(_junk(world, 4)), token="relay").status == 201
    clock.now += 60
    service.tick()
    data, manifest = shuffler.released(1)
    stated = json.loads(data)
    assert (stated["format"], stated["reports"], stated["messages"]) == ("shoal manifest 2", 4, 36)
    with pytest.raises(CollectError, match="5 people make 36 messages"):
        Manifest.verified(replace(manifest, reports=5).signed(world.shuffler_key), world.task, 1)
    with pytest.raises(CollectError, match="4 people make 37 messages"):
        Manifest.verified(replace(manifest, messages=37).signed(world.shuffler_key), world.task, 1)
    with pytest.raises(CollectError, match="no fewer than 3"):
        Manifest.verified(replace(manifest, reports=2, messages=18).signed(world.shuffler_key), world.task, 1)
    with pytest.raises(FormatError):
        Manifest.verified(replace(manifest, messages=None).signed(world.shuffler_key), world.task, 1)


@pytest.mark.slow
def test_a_client_keeps_its_bundle_before_it_sends_it(world: World, tmp_path: Path) -> None:
    """All messages are sealed before the first attempt, lie on the disk then, and are the same at every attempt."""
    rounds, state = Rounds(world, next_posts=[Said(503), Said(500)]), tmp_path / "state"
    kept = []

    def watched(asked: Asked) -> Said:
        if asked.method == "POST":
            kept.append(bytes.fromhex(json.loads((state / "report.json").read_text())["report"]))
        return rounds(asked)

    with (
        small_server(watched, world.shuffler) as server,
        Connection(f"https://127.0.0.1:{server.port}", world.shuffler["tls_certificate"], timeout=10) as connection,
    ):
        for _ in range(2):
            with pytest.raises(TryAgainError):
                Sender(world.task, connection, state).send(1)
        assert Sender(world.task, connection, state).send(0).new
        assert not Sender(world.task, connection, state).send(1).new
    sent = [asked.body for asked in rounds.posts]
    assert len(sent) == 3 and len(set(sent)) == 1 and kept == sent
    parts = world.cut(sent[0])
    assert len(world.opened(parts)) == 9 and parts == sorted(parts)  # the place of a message says nothing
