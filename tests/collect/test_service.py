"""Every answer of the two listeners, and every way in which a request is refused."""

import asyncio
import hashlib
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message

from shoal.collect import upload
from shoal.collect.batch import Manifest
from shoal.collect.connection import Answer
from shoal.collect.round_state import State
from shoal.collect.service import Service
from tests.collect.asgi import Clock, Front, called, made, refused, reports, root, stored, tokens
from tests.collect.world import World, make_exact_world

LENGTH = 64


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_exact_world(tmp_path_factory.mktemp("world"), minimum=3)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def front(world: World, tmp_path: Path, clock: Clock) -> Iterator[Front]:
    with made(world, tmp_path, clock)[0] as running:
        yield running


def test_task_is_served_in_its_canonical_form(world: World, front: Front) -> None:
    answer = front.public("GET", root(world))
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert hashlib.sha256(answer.body).hexdigest() == world.task.id


def test_open_round_is_told_without_a_count(world: World, front: Front, clock: Clock) -> None:
    before = front.public("GET", f"{root(world)}/round")
    assert json.loads(before.body) == {"round": 1, "closes": clock.now + 60}
    for body in world.sealed([1, 2, 3]):
        assert front.public("POST", reports(world), body).status == 201
    assert front.public("GET", f"{root(world)}/round") == before
    assert json.loads(front.analyst("GET", f"{root(world)}/rounds").body) == {"rounds": []}


@pytest.mark.slow
def test_a_report_is_accepted_with_an_empty_answer_whether_new_or_seen(
    world: World, tmp_path: Path, clock: Clock
) -> None:
    front, shuffler = made(world, tmp_path, clock)
    with front:
        bodies = world.sealed([7, 8, 9])
        answers = [front.public("POST", reports(world), body) for body in bodies * 3]
        assert answers == [Answer(201, {"content-length": "0"}, b"")] * 9
        assert stored(shuffler, front, clock, world) == [7, 8, 9]


def test_a_body_in_pieces_is_one_body(world: World, tmp_path: Path, clock: Clock) -> None:
    front, shuffler = made(world, tmp_path, clock)
    with front:
        for body in world.sealed([7, 8, 9]):
            pieces = [body[:1], b"", body[1:50], body[50:]]
            assert front.run(called(front.service.public, "POST", reports(world), pieces)).status == 201
        assert stored(shuffler, front, clock, world) == [7, 8, 9]


@pytest.mark.parametrize(
    ("length", "status"), [(0, 400), (1, 400), (LENGTH - 1, 400), (LENGTH + 1, 413), (2 * LENGTH, 413), (1 << 20, 413)]
)
def test_other_lengths_are_refused(world: World, front: Front, length: int, status: int) -> None:
    assert world.task.ciphertext_bytes == LENGTH
    detail = refused(front.public("POST", reports(world), bytes(length)), status)["detail"]
    assert f"{LENGTH} bytes" in str(detail)
    pieces = [b"x"] * min(length, 100)
    if length:
        answer = front.run(called(front.service.public, "POST", reports(world), pieces))
        assert refused(answer, 413 if len(pieces) > LENGTH else 400)


def test_a_late_report_is_told_the_next_round_before_the_service_has_ticked(
    world: World, tmp_path: Path, clock: Clock
) -> None:
    front, shuffler = made(world, tmp_path, clock)
    with front:
        for body in world.sealed([1, 2, 3]):
            assert front.public("POST", reports(world), body).status == 201
        clock.now += 60
        assert shuffler.close() is not None  # as another process may
        assert refused(front.public("POST", reports(world), world.sealed([4])[0]), 409)["round"] == 2
        assert front.public("GET", f"{root(world)}/round").member("round") == 2
        assert front.public("POST", reports(world, 2), world.sealed([4], 2)[0]).status == 201


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/healthz/", 404),  # and no redirect to whatever host the request names
        ("GET", "/v1/tasks/", 404),
        ("GET", "/v1/tasks/{other}", 404),
        ("GET", "/v1/tasks/{other}/round", 404),
        ("POST", "/v1/tasks/{other}/rounds/1/reports", 404),
        ("POST", "/v1/tasks/{task}/rounds/one/reports", 404),
        ("POST", "/v1/tasks/{task}/rounds/-1/reports", 404),
        ("POST", "/v1/tasks/{task}/rounds/1.0/reports", 404),
        ("POST", "/v1/tasks/{task}/rounds/" + "9" * 19 + "/reports", 404),  # more than a database can take
        ("POST", "/v1/tasks/{task}/rounds/" + "9" * 5000 + "/reports", 404),  # more than Python reads as a number
        ("GET", "/v1/tasks/{task}/rounds/1/reports", 405),
        ("PUT", "/v1/tasks/{task}/rounds/1/reports", 405),
        ("POST", "/v1/tasks/{task}", 405),
        ("DELETE", "/v1/tasks/{task}/round", 405),
        ("BREW", "/healthz", 405),
        # What is for the analyst alone.
        ("GET", "/v1/tasks/{task}/rounds", 404),
        ("GET", "/v1/tasks/{task}/rounds/1/manifest", 404),
        ("GET", "/v1/tasks/{task}/rounds/1/batch", 404),
        ("POST", "/v1/tasks/{task}/rounds/1/ack", 404),
    ],
)
def test_nothing_else_is_there_for_everybody(world: World, front: Front, method: str, path: str, status: int) -> None:
    address = path.replace("{task}", world.task.id).replace("{other}", "0" * 64)
    answer = front.public(method, address, world.sealed([1])[0])
    refused(answer, status)
    assert ("allow" in answer.headers) == (status == 405)
    assert front.public("GET", "/readyz").status == 200


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/tasks/{task}/rounds/1/manifest", 409),
        ("GET", "/v1/tasks/{task}/rounds/1/batch", 409),
        ("POST", "/v1/tasks/{task}/rounds/1/ack", 409),
        ("GET", "/v1/tasks/{task}/rounds/2/manifest", 409),
        ("GET", "/v1/tasks/{other}/rounds", 404),
        ("GET", "/v1/tasks/{other}/rounds/1/manifest", 404),
        ("GET", "/v1/tasks/{other}/rounds/1/batch", 404),
        ("POST", "/v1/tasks/{other}/rounds/1/ack", 404),
        ("POST", "/v1/tasks/{task}/rounds/1/batch", 405),
        ("GET", "/v1/tasks/{task}/rounds/1/ack", 405),
        ("GET", "/v1/tasks/{task}/rounds/" + "9" * 30 + "/batch", 404),
        ("POST", "/v1/tasks/{task}/rounds/1/reports", 404),  # nobody reports here
    ],
)
def test_nothing_is_there_for_the_analyst_before_a_release(
    world: World, front: Front, method: str, path: str, status: int
) -> None:
    for body in world.sealed([1, 2, 3]):
        assert front.public("POST", reports(world), body).status == 201
    address = path.replace("{task}", world.task.id).replace("{other}", "0" * 64)
    refused(front.analyst(method, address, b"0" * 64), status)


def test_a_round_goes_from_open_to_purged(world: World, tmp_path: Path, clock: Clock) -> None:
    front, shuffler = made(world, tmp_path, clock)

    def told() -> object:
        return json.loads(front.analyst("GET", f"{root(world)}/rounds").body)["rounds"]

    path = f"{root(world)}/rounds/1"
    with front:
        for body in world.sealed([3, 1, 2]):
            assert front.public("POST", reports(world), body).status == 201
        clock.now += 60
        shuffler.close()
        assert told() == [{"round": 1, "state": "sealed", "reports": 3, "discarded": False}]
        for ending in ("manifest", "batch"):
            refused(front.analyst("GET", f"{path}/{ending}"), 409)
        front.tick()
        assert told() == [{"round": 1, "state": "ready", "reports": 3, "discarded": False}]
        signed = front.analyst("GET", f"{path}/manifest")
        assert (signed.status, signed.headers["content-type"]) == (200, "application/json")
        manifest = Manifest.verified(signed.body, world.task, 1)
        batch = front.analyst("GET", f"{path}/batch")
        assert (batch.status, batch.headers["content-type"]) == (200, "application/octet-stream")
        assert batch.headers["content-length"] == str(len(batch.body))
        assert batch.body == shuffler.batch_path(1).read_bytes()
        for wrong in (b"", b"x", b"0" * 64, manifest.sha256.upper().encode(), b"\xff" * 64):
            refused(front.analyst("POST", f"{path}/ack", wrong), 409)
        refused(front.analyst("POST", f"{path}/ack", manifest.sha256.encode() + b"\n"), 400)
        assert told() == [{"round": 1, "state": "ready", "reports": 3, "discarded": False}]
        for _ in range(2):
            answer = front.analyst("POST", f"{path}/ack", manifest.sha256.encode())
            assert (answer.status, answer.body) == (204, b"")
        front.tick()
        assert told() == [{"round": 1, "state": "purged", "reports": 3, "discarded": False}]
        assert "deleted" in str(refused(front.analyst("GET", f"{path}/batch"), 409)["detail"])
        assert front.analyst("GET", f"{path}/manifest").body == signed.body
        assert front.analyst("POST", f"{path}/ack", manifest.sha256.encode()).status == 204
        assert shuffler.rounds()[0].state == State.PURGED


def test_a_discarded_round_is_told_without_its_count(tmp_path: Path, clock: Clock) -> None:
    world = make_exact_world(tmp_path / "world", minimum=3, too_small="discard")
    front, _ = made(world, tmp_path / "store", clock)
    with front:
        for body in world.sealed([3, 1]):
            assert front.public("POST", reports(world), body).status == 201
        clock.now += 60
        front.tick()
        (told,) = json.loads(front.analyst("GET", f"{root(world)}/rounds").body)["rounds"]
        assert told == {"round": 1, "state": "purged", "reports": None, "discarded": True}
        detail = refused(front.analyst("GET", f"{root(world)}/rounds/1/manifest"), 409)["detail"]
        assert "discarded" in str(detail)


@pytest.mark.parametrize("pieces", [[], [b"x"], [b"x" * 10, b"x"]])
def test_a_client_that_goes_silent_is_not_waited_for(
    world: World, front: Front, monkeypatch: pytest.MonkeyPatch, pieces: list[bytes]
) -> None:
    monkeypatch.setattr(upload, "_BODY_SECONDS", 0.05)

    async def forever() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    refused(front.run(called(front.service.public, "POST", reports(world), pieces, then=forever)), 408)


def test_a_client_that_goes_away_leaves_nothing(world: World, tmp_path: Path, clock: Clock) -> None:
    front, shuffler = made(world, tmp_path, clock)

    async def gone() -> Message:
        return {"type": "http.disconnect"}

    with front:
        for body in world.sealed([1, 2, 3]):
            front.run(called(front.service.public, "POST", reports(world), [body[:-1]], then=gone))
        assert stored(shuffler, front, clock, world) == []


@contextmanager
def locked(path: Path, connections: list[sqlite3.Connection]) -> Iterator[None]:
    """Have another process write, and not end."""
    for database in connections:
        database.execute("PRAGMA busy_timeout = 20")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@contextmanager
def full(path: Path, connections: list[sqlite3.Connection]) -> Iterator[None]:
    """Let the database grow no more."""
    for database in connections:
        database.execute("PRAGMA max_page_count = 1")  # which is as many as there are
    yield
    for database in connections:
        database.execute("PRAGMA max_page_count = 1000000000")


@pytest.mark.slow
@pytest.mark.parametrize("trouble", [locked, full])
def test_a_store_that_fails_is_told_with_the_time_to_try_again(
    world: World, tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture, trouble: Any
) -> None:
    relays = tokens(relays="relay")
    front, shuffler = made(world, tmp_path, clock, relays)
    bodies = world.sealed(range(1000, 1200))  # more than a page holds
    with front:
        assert front.public("POST", reports(world), bodies[0]).status == 201
        with trouble(tmp_path / "reports.db", shuffler._store._connections.all):  # type: ignore[attr-defined]
            for _ in range(10):  # fewer leave no line in the log
                answer = front.public("POST", reports(world), b"".join(bodies), "relay")
                assert refused(answer, 503)["title"] == "Service Unavailable"
                assert int(answer.headers["retry-after"]) > 0
            answer = front.public("GET", "/readyz")
            refused(answer, 503)
            assert int(answer.headers["retry-after"]) > 0
            assert front.public("GET", "/healthz").status == 200
        assert front.public("POST", reports(world), b"".join(bodies), "relay").status == 201
        assert front.public("GET", "/readyz").status == 200
        assert stored(shuffler, front, clock, world) == list(range(1000, 1200))
    kind = {locked: "StoreUnavailableError", full: "StorageError"}[trouble]
    assert kind in caplog.text and trouble.__name__ in caplog.text
    assert not any(record.exc_info for record in caplog.records)


@pytest.mark.parametrize("content", [b"", b"this is no database, but a secret" * 100])
def test_an_error_that_nobody_foresaw_is_a_problem_without_a_trace(
    world: World, front: Front, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    tmp_path = front.service._shuffler._store._path.parent  # type: ignore[attr-defined]
    front.run(front.service.keep(front.service._shuffler.shut))
    for path in tmp_path.glob("reports.db*"):
        path.unlink()
    (tmp_path / "reports.db").write_bytes(content)
    for answer in (
        front.analyst("GET", f"{root(world)}/rounds"),
        front.analyst("GET", f"{root(world)}/rounds/1/manifest"),
        front.analyst("POST", f"{root(world)}/rounds/1/ack", b"0" * 64),
    ):
        told = refused(answer, 503)
        assert int(answer.headers["retry-after"]) > 0
        assert "Traceback" not in str(told) and "sqlite" not in str(told) and str(tmp_path) not in str(told)
    other_round = reports(world).replace("/rounds/1/", "/rounds/9/")
    refused(front.public("POST", other_round, world.sealed([1])[0]), 503)
    front.tick()
    assert ("DamagedError" if content else "StoreUnavailableError") in caplog.text
    assert "secret" not in caplog.text and "Traceback" not in caplog.text


def test_before_the_start_nothing_is_accepted(world: World, tmp_path: Path, clock: Clock) -> None:
    front, shuffler = made(world, tmp_path, clock)
    with front:
        early = Service(shuffler)
        answer = front.run(called(early.public, "POST", reports(world), world.sealed([1])))
        refused(answer, 503)
        assert "retry-after" in answer.headers
        early._keeper.shutdown()


def test_an_upload_that_is_cut_off_is_not_taken(world: World, tmp_path: Path, clock: Clock) -> None:
    """Three whole reports of ten have come when the relay goes away: they are not what it wanted to send."""
    front, shuffler = made(world, tmp_path, clock, tokens("", relays="relay"))
    sent = b"".join(world.sealed(range(3)))

    async def gone() -> Message:
        return {"type": "http.disconnect"}

    with front:
        headers = [(b"authorization", b"Bearer relay")]
        front.run(called(front.service.public, "POST", reports(world), [sent], headers, then=gone))
        assert shuffler._store._database.execute("SELECT count(*) FROM report").fetchone() == (0,)  # type: ignore[attr-defined]
