"""Who sent a report is written down nowhere, and after the purge nothing of the report is left either."""

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from shoal.collect.connection import Connection
from shoal.collect.keys import make_analyst_keys, shuffler_key
from shoal.collect.round_state import State, record
from shoal.collect.shuffler import Shuffler
from shoal.collect.stores.sqlite import SqliteStore
from shoal.collect.task import Task
from shoal.errors import CollectError
from shoal.mechanisms import UnaryEncoding
from shoal.shuffling import shuffled_records
from tests.collect.running import EXCEPTION, Line, Running, batches_in, post, store_in, until
from tests.collect.world import World, make_exact_world, make_world

HOUR = 3600
ROOT = Path(__file__).resolve().parents[2]
SOURCE = "127.0.0.9"
AGENT, TOKEN, STRANGER, HEADER, QUERY, COOKIE, BODY, PATH = (
    f"canary-{name}-{place * 7919:05d}"
    for place, name in enumerate(("agent", "token", "stranger", "header", "query", "cookie", "body", "path"), 1)
)
# The address as text, as a number, and as the bytes that sockets know it by, with enough around them that random bytes
# do not look like it: in 10 MB that happens once in 10^7 times.
ADDRESS = re.compile(
    rb"127\.0\.0\.9|7f000009|2130706441|\x02\x00..\x7f\x00\x00\x09|\x00\x00\xff\xff\x7f\x00\x00\x09", re.DOTALL
)
WORDS = [word.encode() for word in (AGENT, TOKEN, STRANGER, HEADER, QUERY, COOKIE, BODY, PATH, EXCEPTION)]


def _found(data: bytes) -> list[bytes]:
    """Return the canaries in these bytes."""
    return [word for word in WORDS if word.lower() in data.lower()] + ADDRESS.findall(data)


def _kept(folder: Path) -> dict[str, bytes]:
    """Return all files in a folder and below."""
    return {path.name: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_canaries_are_found_where_they_are() -> None:
    for word in WORDS:
        assert _found(b"\x00" + word.upper() + b"\xff") == [word]
    with socket.socket() as line:
        line.bind((SOURCE, 0))
        packed = b"\x02\x00" + line.getsockname()[1].to_bytes(2, "big") + socket.inet_aton(SOURCE)
    for form in (packed, b"('127.0.0.9', 4711)", b"\0" * 10 + b"\xff\xff" + socket.inet_aton(SOURCE)):
        assert _found(b"\xee" + form)


def _headers(token: str = TOKEN) -> dict[str, str]:
    return {
        "User-Agent": AGENT,
        "Authorization": f"Bearer {token}",
        "X-Canary": HEADER,
        "X-Forwarded-For": SOURCE,
        "Cookie": COOKIE,
    }


def _statuses(shuffler: Running, number: int) -> list[int]:
    """Send all kinds of requests that fail, from the canary's address, and return the answers' statuses."""
    task, junk = shuffler.world.task, shuffler.world.junk(1)[0]
    good = post(task, number, junk, _headers())
    requests = [
        post(task, number, junk, _headers(STRANGER)),
        post(task, number, BODY.encode(), _headers()),
        post(task, number, BODY.encode() * 1000, _headers()),
        post(task, number + 7, junk, _headers()),
        post(task, 10**30, junk, _headers()),
        good.replace(task.id.encode(), PATH.encode()),
        good.replace(b"/v1/", f"/{PATH}/".encode()),
        good.replace(b"POST", b"DELETE"),
        good.replace(b"POST ", f"{PATH} ".encode()),
        good.replace(b"HTTP/1.1", b"HTTP/9"),
        good.replace(b"Content-Length: ", b"Content-Length: x"),
        good.replace(b"Host", b"Transfer-Encoding: chunked\r\nHost"),
        good.replace(b"Cookie", f"Expect: {HEADER}\r\nUpgrade: {HEADER}\r\nConnection: upgrade\r\nCookie".encode()),
        good.replace(b"X-Canary: ", b"X-Canary: " + b"x" * 200_000),
        good.replace(b"X-Canary: ", b"".join(b"%s-%d: a\r\n" % (HEADER.encode(), place) for place in range(99))),
        *[f"{BODY} {PATH}\r\n\r\n".encode()] * 15,  # so many that they are told of
        AGENT.encode() + b"\r\n\r\n",
    ]
    found = []
    for request in requests:
        with shuffler.line(SOURCE) as line, suppress(OSError):
            found.append(line.ask(request).status)
    with shuffler.line(SOURCE) as line:  # somebody who hangs up in the middle
        line.send(good[:-20])
    with Line(shuffler.port, SOURCE) as line, suppress(OSError):  # and somebody without TLS
        line.ask(good)
    return found


def _as_analyst(shuffler: Running, folder: Path) -> None:
    """Ask the analyst's listener from the canary's address: as the analyst, as somebody else, and as nobody."""
    world = shuffler.world
    root = f"/v1/tasks/{world.task.id}/rounds"
    with shuffler.analyst() as connection:
        connection._http.source_address = (SOURCE, 0)  # type: ignore[attr-defined]
        for path in (root, f"{root}/1/manifest", f"{root}/1/batch", f"{root}/99/batch", f"/{PATH}"):
            assert connection.request("GET", f"{path}?{QUERY}", headers=_headers()).status in (200, 404, 409)
        for body in (BODY.encode(), BODY.encode() * 100):
            assert connection.request("POST", f"{root}/1/ack", body, _headers()).status in (400, 409)
    other = make_analyst_keys(folder)
    with Connection(
        f"https://127.0.0.1:{shuffler.analyst_port}",
        ca=world.shuffler["tls_certificate"],
        certificate=other["tls_certificate"],
        key=other["tls_key"],
    ) as connection:
        connection._http.source_address = (SOURCE, 0)  # type: ignore[attr-defined]
        with pytest.raises(CollectError):
            connection.request("GET", root, headers=_headers())
    context = ssl.create_default_context(cafile=world.shuffler["tls_certificate"])
    with suppress(OSError), Line(shuffler.analyst_port, SOURCE, context) as line:
        line.ask(f"GET {root} HTTP/1.1\r\nHost: {PATH}\r\nUser-Agent: {AGENT}\r\n\r\n".encode())
        raise AssertionError("somebody without a certificate was let in")


@pytest.mark.slow
def test_nothing_tells_who_sent(tmp_path: Path) -> None:
    """Neither logs nor database nor release hold address, agent, token, header, query or what an exception said."""
    world = make_exact_world(tmp_path, round_seconds=2, minimum=20)
    kept = tmp_path / "kept"
    kept.mkdir()
    shuffler = Running(
        world, kept / "reports.db", kept / "batches", kept, people=[TOKEN], relays=["relay"], tls=True
    ).start("before commit", 2, fault="raise")
    begun = time.time()
    with shuffler:
        with shuffler.line(SOURCE) as line:
            first = post(world.task, 1, world.junk(1)[0], _headers(), query=f"?{QUERY}")
            assert [line.ask(first).status for _ in range(12)] == [201, *[503] * 10, 201]
        statuses = _statuses(shuffler, 1)
        assert set(statuses) >= {400, 401, 404, 405, 409, 413}
        open_round = _kept(kept)
        fillers = b"".join(world.junk(30))
        assert shuffler.upload(1, fillers, {"Authorization": "Bearer relay"}).status == 201
        until(lambda: shuffler.rounds().get(1, {}).get("state") == "ready", "a release")
        _as_analyst(shuffler, tmp_path / "other-keys")
        with shuffler.analyst() as connection:
            manifest = connection.request("GET", f"/v1/tasks/{world.task.id}/rounds/1/manifest").body
        released = _kept(kept)
        shuffler.stop()
    for files in (open_round, released, _kept(kept), {"manifest": manifest}):
        for name, data in files.items():
            assert not _found(data), (name, _found(data))
    assert {
        "log",
        "reports.db",
        "reports.db-wal",
        "reports.db-shm",
    } <= set(released)
    assert any(name.startswith("round-1.") for name in released)
    lines = _kept(kept)["log"].splitlines()
    assert any(b"event=store error=RuntimeError" in line for line in lines)  # told of, without its words
    caused = [line for line in released["log"].splitlines() if b" event=round-" not in line]
    assert not caused or time.time() // 60 > begun // 60  # and not when it came
    assert all(line.startswith(b"time=") and b" level=" in line and b" event=" in line for line in lines)
    assert len(lines) < 10
    assert any(len(data) > 1000 for data in open_round.values())


def _pieces_left(bodies: Iterable[bytes], files: dict[str, bytes]) -> int:
    """Return how many pieces of 8 bytes of these ciphertexts are in the files, at any place.

    What is left of 15 bytes or more has such a piece. Random bytes look like one with probability
    places × pieces / 2^64.
    """
    pieces = np.unique(np.frombuffer(b"".join(bodies), np.uint64))
    beginnings = np.zeros(1 << 24, bool)  # most places are ruled out by three bytes
    beginnings[pieces >> np.uint64(40)] = True
    found = 0
    for data in files.values():
        for start in range(8):
            words = np.frombuffer(data[start : len(data) - (len(data) - start) % 8], np.uint64)
            words = words[beginnings[words >> np.uint64(40)]]
            found += int((pieces[np.minimum(np.searchsorted(pieces, words), len(pieces) - 1)] == words).sum())
    return found


def _bytes(files: dict[str, bytes]) -> int:
    return sum(map(len, files.values()))


@pytest.mark.slow
def test_purged_round_leaves_nothing(tmp_path: Path) -> None:
    """Of 20,000 reports no piece is left in the running process's files; a false alarm has probability 1e-6."""
    world = make_exact_world(tmp_path, round_seconds=1, minimum=20_000)
    bodies = world.junk(20_000)
    relay = {"Authorization": "Bearer relay"}
    kept = tmp_path / "kept"
    kept.mkdir()
    with Running(world, kept / "reports.db", kept / "batches", tmp_path / "run", relays=["relay"]) as shuffler:
        for start in range(0, 20_000, 4000):
            assert shuffler.upload(1, b"".join(bodies[start : start + 4000]), relay).status == 201
        until(lambda: shuffler.rounds().get(1, {}).get("state") == "ready", "a release")
        before = _pieces_left(bodies, _kept(kept))
        with shuffler.analyst() as connection:
            root = f"/v1/tasks/{world.task.id}/rounds/1"
            assert connection.request("POST", f"{root}/ack", _sha256(connection, root)).status == 204
        until(lambda: shuffler.rounds()[1]["state"] == "purged", "a purge")
        until(lambda: not _pieces_left(bodies, _kept(kept)), "a log without reports")
        assert before >= 2 * 160_000  # in the database and in the batch
        assert _bytes(_kept(kept)) * 160_000 / 2**64 < 1e-6
        shuffler.stop()
    assert _pieces_left(bodies, _kept(kept)) == 0


def _sha256(connection: Connection, root: str) -> bytes:
    return str(json.loads(connection.request("GET", f"{root}/manifest").body)["sha256"]).encode()


def _killed_in_the_middle(*arguments: str) -> None:
    """Release round 1 in this process by way of buckets, and be killed after the first of them."""
    task_path, key, place, folder = arguments
    task = Task.read(Path(task_path))

    def permute(
        blocks: Iterator[NDArray[np.uint8]], total: int, length: int, beside: Path, stack: ExitStack
    ) -> Iterator[bytes]:
        yield next(shuffled_records(blocks, total, length, beside, stack, bucket_records=100))
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shoal.collect.shuffler.shuffled_records", permute)
        Shuffler(task, store_in(place, task), Path(folder), shuffler_key(Path(key))).release(1)


@pytest.mark.slow
def test_killed_release_leaves_nothing(tmp_path: Path) -> None:
    """The buckets of a release that was killed are gone after the purge."""
    world = make_exact_world(tmp_path, round_seconds=HOUR)
    place, folder = str(tmp_path / "reports.db"), tmp_path / "batches"
    later = time.time() + 2 * HOUR
    shuffler = Shuffler(world.task, store_in(place, world.task), folder, world.shuffler_key, clock=lambda: later)
    shuffler.accept(1, [record(body) for body in world.junk(1000)])
    shuffler.close()
    arguments = [world.task_path, world.shuffler["private_key"], place, folder]
    command = [sys.executable, "-m", "tests.collect.test_canaries", *map(str, arguments)]
    assert subprocess.run(command, cwd=ROOT, timeout=60, check=False).returncode == -signal.SIGKILL
    assert len(batches_in(folder)) == 2  # a file that was begun, and a folder of buckets
    shuffler.release(1)
    shuffler.acknowledge(1, shuffler.released(1)[1].sha256)
    shuffler.purge(1)
    assert not batches_in(folder)
    shuffler.shut()


@pytest.mark.slow
@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("too_small", ["extend", "discard"])
def test_nothing_is_left_of_a_round(too_small: str, large: bool, tmp_path: Path) -> None:
    """Discarded or purged, and whether a report is small or needs a page of its own; others come in meanwhile."""
    world = _world_with(tmp_path, large, too_small)
    count = 300 if large else 20_000
    bodies, others = world.junk(count), world.junk(count)
    now = time.time()
    kept = tmp_path / "kept"
    kept.mkdir()
    store = SqliteStore(kept / "reports.db", world.task, now=now)
    shuffler = Shuffler(world.task, store, kept / "batches", world.shuffler_key, clock=lambda: now)
    step = count // 20
    for start in range(0, count, step):
        shuffler.accept(1, [record(body) for body in bodies[start : start + step]])
    now += 2 * HOUR
    ended = shuffler.close()
    assert ended is not None
    for start in range(0, count, step):
        shuffler.accept(2, [record(body) for body in others[start : start + step]])
    if ended.state == State.SEALED:
        assert too_small == "extend"
        shuffler.release(1)
        shuffler.acknowledge(1, shuffler.released(1)[1].sha256)
        assert _pieces_left(bodies, _kept(kept)) > count
        shuffler.purge(1)
    assert shuffler.rounds()[0].state == State.PURGED
    assert _pieces_left(bodies, _kept(kept)) == 0
    assert _pieces_left(others, _kept(kept)) > 0.9 * len(others[0]) // 8 * count
    shuffler.shut()
    assert _pieces_left(bodies, _kept(kept)) == 0


def _world_with(folder: Path, large: bool, too_small: str) -> World:
    minimum = 2 if too_small == "extend" else 50_000
    if not large:
        return make_exact_world(folder, round_seconds=HOUR, too_small=too_small, minimum=minimum)
    return make_world(
        folder,
        mechanism=UnaryEncoding(categories=50_000, local_epsilon=1),
        epsilon_limit=2.0,
        malicious=0,
        round_seconds=HOUR,
        too_small=too_small,
        minimum=minimum,
    )


if __name__ == "__main__":
    _killed_in_the_middle(*sys.argv[1:])
