"""Helpers of dummies: drawn once a round, added all or none, and no round is released without those of all of them."""

import json
import re
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path

import pytest

from shoal.collect.connection import Connection
from shoal.collect.kinds.dummy_rounds import DummyRounds, proof_of, proven
from shoal.collect.round_state import State, record
from shoal.collect.sender import Helper
from shoal.collect.task import Task
from shoal.errors import CollectError, DamagedError, ParameterError, TryAgainError, WrongKeyError
from shoal.mechanisms import Covered, Dummies
from tests.collect.life import Life, Lives
from tests.collect.people import Puller, records_of
from tests.collect.running import Running, store_in, until
from tests.collect.small_server import Asked, Said, SmallServer, small_server
from tests.collect.world import World, make_dummies_world, make_helped_world

HOUR = 3600.0


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_helped_world(tmp_path / "world", helpers=2)


@pytest.fixture
def life(world: World, place: str, live: Lives) -> Life:
    """Lend a shuffler on either store."""
    return live(world, place)


def _sealed(life: Life, values: Sequence[int]) -> list[bytes]:
    """End the first round with reports of these values, and return the reports."""
    bodies = life.world.bundles(values)
    life.add(bodies)
    assert life.seal().state == State.SEALED
    return bodies


def _draw(world: World, number: int = 1) -> list[bytes]:
    return world.task.kind.drawn(world.task, number)


def test_a_round_is_released_only_with_the_dummies_of_all_helpers(life: Life, world: World) -> None:
    bodies, shuffler = _sealed(life, [0, 1, 2, 2]), life.shuffler
    before, draws = life.stored(), [_draw(world), _draw(world)]
    assert len(before) > len(bodies)  # the shuffler is one of three who add
    for helper, words in ((1, "of 2 of its 2 helpers"), (0, "of 1 of its 2 helpers")):
        shuffler.settle()
        for refused in (shuffler.release, shuffler.released):
            with pytest.raises(TryAgainError, match=f"waits for the dummies {words}; without all of them"):
                refused(1)
        assert not list(life.folder.glob("*.batch")) and shuffler.rounds()[0].state == State.SEALED
        assert shuffler.waiting_for(helper) == [1]
        life.mix(1, helper, draws[helper])
        assert shuffler.waiting_for(helper) == []
    found = life.released()
    assert sorted(found) == sorted([*before, *draws[0], *draws[1]])
    manifest = shuffler.released(1)[1]
    assert (manifest.reports, manifest.records) == (4, len(found))


def test_all_of_a_draw_is_added_or_none_and_no_second_one(life: Life, world: World) -> None:
    store, shuffler = life.store, life.shuffler
    _sealed(life, [0, 1])
    first, second = ([record(body) for body in _draw(world)] for _ in range(2))
    before = life.stored()
    store.mix(1, 0, first)
    after = life.stored()
    assert after == sorted([*before, *(each.body for each in first)])
    for again in (first, list(reversed(first))):
        store.mix(1, 0, again)
    for other in (second, first[:-1] + second[:1], [*first, *second]):
        with pytest.raises(CollectError, match="has other dummies of this helper already, and takes no second draw"):
            store.mix(1, 0, other)
    assert life.stored() == after and store.rounds()[0].messages == len(after)
    store.mix(1, 1, second)
    shuffler.settle()
    life.acknowledge()
    shuffler.settle()
    store.mix(1, 0, first)  # an answer that was lost for so long
    with pytest.raises(CollectError, match="no second draw"):
        life.mix(1, 0, _draw(world))


def test_a_helper_does_not_learn_whether_a_message_is_in_the_round(life: Life, world: World) -> None:
    """Dummies with a copy of a client's message are accepted as others are, and the copy is not added."""
    bodies = _sealed(life, [0, 1])
    before, draw = life.stored(), _draw(world)
    for _ in range(2):
        life.mix(1, 0, [*draw, bodies[0]])
    expected = sorted([*before, *draw])
    assert life.stored() == expected and life.store.rounds()[0].messages == len(expected)
    life.mix(1, 1, _draw(world))
    assert len(life.released()) == len(life.stored())


def test_other_rounds_take_none(place: str, live: Lives, tmp_path: Path) -> None:
    world = make_helped_world(tmp_path / "world", minimum=5, too_small="discard")
    life, dummies = live(world, place), _draw(world)
    with pytest.raises(TryAgainError, match="round 1 is open, and takes dummies once it has ended"):
        life.mix(1, 0, dummies)
    with pytest.raises(CollectError, match="there is no round 7"):
        life.mix(7, 0, dummies)
    life.add(world.bundles([0]))
    life.seal()
    with pytest.raises(CollectError, match="round 1 is over, and takes no dummies"):
        life.mix(1, 0, dummies)


def test_a_helper_alone_adds_all_of_them(place: str, live: Lives, tmp_path: Path) -> None:
    world = make_helped_world(tmp_path / "world", parties=1)
    assert not world.task.shuffler_adds
    life = live(world, place)
    bodies = sorted(_sealed(life, [0, 1, 1]))
    assert life.stored() == bodies
    draw = _draw(world)
    life.mix(1, 0, draw)
    assert life.stored() == sorted([*bodies, *draw])


def test_the_guarantee_names_who_adds(world: World, tmp_path: Path) -> None:
    several = world.task.kind.conditions(world.task)
    assert "of itself and 2 helpers, of whom one at least has drawn them once and forgotten how many" in several
    alone = make_helped_world(tmp_path / "alone", parties=1).task
    assert "those of the helper, who has drawn them once" in alone.kind.conditions(alone)


def test_a_proof_is_for_one_helper_task_round_and_body(world: World, tmp_path: Path) -> None:
    given = proof_of(world.helpers[1], world.task, 3, b"body")
    assert given == proof_of(world.helpers[1], world.task, 3, b"body")
    known = proven(given, world.task, 3)
    assert known is not None and known[0] == 1 and proven(given.replace("Helper", "helper"), world.task, 3) == known
    assert proven(given, world.task, 4) is None
    assert proven(given, replace(world.task, question="Another?"), 3) is None
    assert proven(proof_of(world.shuffler_key, world.task, 3, b"body"), world.task, 3) is None
    for place in (10, 80, 150):
        changed = given[:place] + ("0" if given[place] != "0" else "1") + given[place + 1 :]
        assert proven(changed, world.task, 3) is None
    for text in ("", "Bearer x", given[:-1], given + "0", given.upper()):
        assert proven(text, world.task, 3) is None


def test_a_task_names_a_key_for_every_helper(world: World, tmp_path: Path) -> None:
    task = world.task
    assert Task.from_bytes(task.to_bytes(), pinned=task.id) == task
    assert task.to_dict()["format"] == "shoal task 2" and b'"helper_keys":["' in task.to_bytes()
    assert make_dummies_world(tmp_path / "none").task.to_dict()["format"] == "shoal task 1"
    one, two = task.helper_keys
    for keys in ((), (one,), (one, one), (one, task.shuffler_key), (one, task.analyst_key), (one, two, bytes(32), one)):
        with pytest.raises(ParameterError, match="helper"):
            replace(task, kind=DummyRounds(keys))
    with pytest.raises(ParameterError, match="public key of 32 bytes"):
        replace(task, kind=DummyRounds((one, b"short")))
    with pytest.raises(ParameterError, match="does not fit rounds of the kind DummyRounds; it needs Bundles"):
        replace(task, mechanism=Covered(categories=3, slots=8, fill=0.75), delta=0.1, epsilon_limit=9.0, minimum=100)
    with pytest.raises(ParameterError, match="helper_keys must be 64 hexadecimal digits"):
        Task.from_bytes(task.to_bytes().replace(one.hex().encode(), b"xyz"))
    with pytest.raises(ParameterError, match="64 hexadecimal digits, got 7"):
        Task.from_bytes(task.to_bytes().replace(b'"%s"' % one.hex().encode(), b"7"))


def test_a_store_of_an_earlier_version_gets_the_column(place: str, tmp_path: Path) -> None:
    world = make_dummies_world(tmp_path / "world")
    store = store_in(place, world.task)
    with store._transaction() as database:
        database.execute("ALTER TABLE round DROP COLUMN helped")
    store.shut()
    again = store_in(place, world.task)
    assert again.current().helped == 0
    again.shut()


def test_a_sealed_round_that_lost_a_message_takes_no_dummies(world: World, live: Lives) -> None:
    """Counted again with them, the round would look whole."""
    life = live(world)
    _sealed(life, [0] * 9)
    with life.store._transaction() as database:
        database.execute("DELETE FROM report WHERE digest = (SELECT min(digest) FROM report)")
    before = life.stored()
    with pytest.raises(DamagedError, match=r"has \d+ of \d+ messages"):
        life.mix(1, 0, _draw(world))
    assert life.stored() == before and life.shuffler.trouble


@dataclass
class Door:
    """Plays the shuffler's door for helpers."""

    rounds: list[int] = field(default_factory=list)
    answers: list[Said] = field(default_factory=list)
    posts: list[Asked] = field(default_factory=list)

    def __call__(self, asked: Asked) -> Said:
        if asked.method == "GET":
            assert asked.path.endswith("/dummies")
            return Said(body=json.dumps({"rounds": self.rounds}).encode())
        self.posts.append(asked)
        said = self.answers.pop(0) if self.answers else Said(201)
        if said.status == 201:
            self.rounds = [one for one in self.rounds if f"/rounds/{one}/" not in asked.path]
        return said


@pytest.fixture
def door() -> Door:
    return Door()


@pytest.fixture
def server(door: Door, world: World) -> Iterator[SmallServer]:
    with small_server(door, world.shuffler) as running:
        yield running


@pytest.fixture
def helper(server: SmallServer, world: World, tmp_path: Path) -> Iterator[Helper]:
    with Connection(f"https://127.0.0.1:{server.port}", world.shuffler["tls_certificate"]) as connection:
        yield Helper(world.task, connection, tmp_path / "state", world.helpers[0])


def _left(tmp_path: Path) -> str | None:
    """Return the dummies that the state folder holds."""
    data: dict[str, str | None] = json.loads((tmp_path / "state" / "dummies.json").read_text())
    return data["dummies"]


def test_what_is_sent_is_on_the_disk_before_and_deleted_after(
    helper: Helper, server: SmallServer, door: Door, world: World, tmp_path: Path
) -> None:
    door.rounds, kept = [2, 1], []
    answers = Door.__call__

    def look(asked: Asked) -> Said:
        if asked.method == "POST":
            kept.append(_left(tmp_path))
        return answers(door, asked)

    server.answer = look
    assert helper.send() == [1, 2]
    assert kept == [asked.body.hex() for asked in door.posts] and _left(tmp_path) is None
    assert [asked.path.split("/")[5] for asked in door.posts] == ["1", "2"]
    assert stat.S_IMODE((tmp_path / "state" / "dummies.json").stat().st_mode) == 0o600
    mechanism = world.task.mechanism
    assert isinstance(mechanism, Dummies)
    for number, asked in enumerate(door.posts, start=1):
        assert proven(asked.headers["authorization"], world.task, number) is not None
        parts = world.cut(asked.body)
        assert parts == sorted(set(parts))
        said = Counter(world.values(parts, number))
        assert sum(said.values()) == len(parts) and max(said.values()) <= 2 * mechanism.limit


def test_the_same_bytes_are_sent_until_they_are_acknowledged(helper: Helper, door: Door, tmp_path: Path) -> None:
    door.rounds = [1]
    door.answers = [Said(503, headers={"Retry-After": "5"}), Said(lost=True), Said(409, b"{}", {"Retry-After": "5"})]
    for _ in range(2):  # a request on a connection that was lost is sent once more at once
        with pytest.raises(TryAgainError):
            helper.send()
        assert _left(tmp_path) is not None
    assert helper.send() == [1] and _left(tmp_path) is None
    assert len(door.posts) == 4 and len({(asked.body, asked.headers["authorization"]) for asked in door.posts}) == 1
    assert helper.send() == [] and len(door.posts) == 4


def test_no_second_draw_for_a_round_however_it_is_asked_for(helper: Helper, door: Door) -> None:
    door.rounds = [3]
    assert helper.send() == [3]
    door.rounds = [2, 3, 4]
    with pytest.raises(CollectError, match="asks for dummies of round 2, and they were drawn before; no second draw"):
        helper.send()
    assert [asked.path.split("/")[5] for asked in door.posts] == ["3", "4"]  # the others go on


def test_dummies_that_are_refused_for_good_are_deleted(helper: Helper, door: Door, tmp_path: Path) -> None:
    door.rounds, door.answers = [1], [Said(409, b'{"detail": "Round 1 has other dummies of this helper."}')]
    with pytest.raises(CollectError, match="refuses: Round 1 has other dummies"):
        helper.send()
    assert _left(tmp_path) is None
    with pytest.raises(CollectError, match="no second draw"):
        helper.send()
    assert len(door.posts) == 1


def test_a_damaged_or_foreign_state_sends_nothing(helper: Helper, door: Door, world: World, tmp_path: Path) -> None:
    door.rounds = [1]
    helper.send()
    path, door.rounds = tmp_path / "state" / "dummies.json", [2]
    other = Helper(world.task, helper.connection, tmp_path / "state", world.helpers[1])
    with pytest.raises(DamagedError, match="belongs to another task or key"):
        other.send()
    for data in (b"", path.read_bytes()[:-3], path.read_bytes().replace(b"null", b'"xyz"')):
        path.write_bytes(data)
        with pytest.raises(DamagedError, match=r"nobody knows for which rounds dummies were drawn. Nothing was sent"):
            helper.send()
    assert len(door.posts) == 1
    with pytest.raises(WrongKeyError):
        Helper(world.task, helper.connection, tmp_path / "other", world.shuffler_key)


def test_a_shuffler_that_makes_no_sense(helper: Helper, server: SmallServer) -> None:
    for body in (b"{}", b'{"rounds": [0]}', b'{"rounds": ["1"]}', b'{"rounds": [1000000000000000000]}', b"x"):
        server.answer = lambda _, body=body: Said(body=body)  # type: ignore[misc]
        with pytest.raises(CollectError, match="does not say which rounds wait"):
            helper.send()
    server.answer = lambda _: Said(401, b'{"detail": "no"}')
    with pytest.raises(CollectError, match="refuses: no"):
        helper.send()


def test_draws_differ_and_nothing_of_them_is_kept(
    world: World, helper: Helper, door: Door, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither in the folder nor in a log; and a draw that a killed process has left half written is deleted."""
    (tmp_path / "state").mkdir()
    left = tmp_path / "state" / ".dummies.json.0a1b2c.part"
    left.write_bytes(b"half")
    door.rounds = [1, 2, 3, 4]
    helper.send()
    assert not left.exists() and not caplog.records
    assert {path.name for path in (tmp_path / "state").iterdir()} == {"dummies.json", "lock"}
    bodies = [asked.body for asked in door.posts]
    assert not any(set(world.cut(one)) & set(world.cut(other)) for one, other in combinations(bodies, 2))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Exception ignored in.*SSLSocket:pytest.PytestUnraisableExceptionWarning")
def test_a_real_shuffler_waits_for_them_and_says_so(place: str, tmp_path: Path) -> None:
    world = make_helped_world(tmp_path / "world", helpers=2, round_seconds=1)
    running = Running(world, place, tmp_path / "batches", tmp_path / "run", tls=True)
    mechanism = world.task.mechanism
    assert isinstance(mechanism, Dummies)
    with running:
        bodies = [body for body in world.bundles([0, 1, 2, 2, 2]) if running.upload(1, body).status == 201]
        until(lambda: running.round() > 1, "the seal")
        url = f"https://127.0.0.1:{running.port}"
        with Connection(url, world.shuffler["tls_certificate"]) as connection:
            _check_refusals(world, connection)
            helpers = [Helper(world.task, connection, tmp_path / f"h{i}", key) for i, key in enumerate(world.helpers)]
            assert helpers[0].send() == [1] and helpers[0].send() == []
            told = running.rounds()[1]
            assert (told["state"], told["reports"], told["helpers_missing"]) == ("sealed", len(bodies), 1)
            with running.analyst() as analyst:
                answer = analyst.request("GET", f"/v1/tasks/{world.task.id}/rounds/1/manifest")
            assert answer.status == 409 and "retry-after" in answer.headers
            assert "waits for the dummies of 1 of its 2 helpers" in answer.problem()
            assert helpers[1].send() == [1]
        puller = Puller(running, tmp_path / "pulled")
        until(lambda: 1 in puller.acknowledged, "the release")
        puller.stop()
        running.stop()
    assert not puller.trouble
    records = records_of(puller.pulled[1])
    assert set(bodies) < set(records) and len(set(records)) == len(records)
    said = Counter(world.values(each for each in records if each not in bodies))
    assert sum(said.values()) == len(records) - len(bodies)
    for category in range(3):  # three draws of mean 27 and standard deviation 2.8: others are 1e-8
        assert abs(said[category] - 81) < 40
    assert not re.search("dumm|categor|digest", running.log.read_text())


def _check_refusals(world: World, connection: Connection) -> None:
    """Ask as whoever is no helper would, and send what no helper may."""
    task, key = world.task, world.helpers[0]
    path, draw = f"/v1/tasks/{task.id}/rounds/1/dummies", _draw(world)
    body = b"".join(draw)

    def sent(body: bytes, proof: str, path: str = path) -> int:
        return connection.request("POST", path, body, {"Authorization": proof}).status

    assert connection.request("GET", f"/v1/tasks/{task.id}/dummies").status == 401
    assert connection.request("POST", path, body).status == 401
    assert sent(body, proof_of(world.shuffler_key, task, 1, body)) == 401
    assert sent(body, proof_of(key, task, 2, body)) == 401
    assert sent(body[:-64], proof_of(key, task, 1, body)) == 400
    for wrong in (body[:-1], b"".join(reversed(draw)), body + draw[-1]):
        assert sent(wrong, proof_of(key, task, 1, wrong)) == 400
    long = bytes(2 * 27 * 3 * 64 + 64)
    assert sent(long, proof_of(key, task, 1, long)) == 413
    assert sent(body, proof_of(key, task, 1, body), path.replace(task.id, "0" * 64)) == 404
    assert sent(body, proof_of(key, task, 9, body), path.replace("rounds/1", "rounds/9")) == 409
