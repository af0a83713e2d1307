"""How fast reports are taken, released, opened and counted: `python -m benchmarks.collection`, `--full` for 10⁷."""

import json
import os
import resource
import selectors
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.visits import RELAY, handshakes, shuffler_process, spent, visits
from shoal.collect.counting import SealedRound
from shoal.collect.envelope import information, opened, plaintexts, seal
from shoal.collect.round_state import Record, record
from shoal.collect.shuffler import Shuffler
from shoal.collect.store import Store
from shoal.collect.stores.sqlite import SqliteStore
from shoal.errors import MissingExtraError
from tests.collect.database import programs, running_cluster
from tests.collect.running import Running, post
from tests.collect.world import World, make_world

__all__ = ["Rates", "collection", "measured"]

_ROOT = Path(__file__).parents[1]
_LINES = 64
_GROUP = 20_000
_LONG = 10**9
"""Seconds of a round that does not end while it is measured."""


@dataclass(frozen=True, kw_only=True)
class Rates:
    """What was measured; rates are per second of CPU where nothing else is said.

    Attributes
    ----------
    uploads : single reports on open connections without TLS, each acknowledged after its commit.
    visits : the same from people who come once: TLS handshake, which round is open, one report.
    handshakes : of TLS by OpenSSL alone, on the server's side: what any proxy pays at least for a new connection.
    bulk : reports in requests of a thousand.
    stored : reports put into SQLite in groups of 20,000, without HTTP, and
    stored_clock : per second of the clock, disk and all, while a round grows to 10⁶.
    postgres : the same per second of the clock, in groups of 1,000; None where there is no PostgreSQL.
    seal, open : of HPKE.
    count : reports opened, checked and counted by one process.
    two : how many times as fast two processes are by the clock, and
    two_cpu : by their CPU seconds, on cores that nobody else uses.
    syncs : fdatasync per second of the clock.
    million, million_cpu : seconds to permute, write and sign 10⁶ reports.
    peak : MB of memory that the process had at most, which stored and released them.
    disk : bytes of the database for each report of 64 bytes, and
    digest : what is left of them after the purge, for the replay window.
    sent, answered : bytes inside TCP that one visit takes, from and to the person.
    """

    uploads: float
    visits: float
    handshakes: float
    bulk: float
    stored: float
    stored_clock: float
    postgres: float | None
    seal: float
    open: float
    count: float
    two: float
    two_cpu: float
    syncs: float
    million: float
    million_cpu: float
    peak: float
    disk: float
    digest: float
    sent: int
    answered: int


@contextmanager
def _world(**changes: Any) -> Iterator[World]:
    with tempfile.TemporaryDirectory() as folder:
        yield make_world(Path(folder), **({"round_seconds": 60 * 60 * 24} | changes))


def _send(running: Running, requests: int, reports: int) -> None:
    """Send so many requests on a few connections, each as soon as the one before is answered."""
    size = running.world.task.ciphertext_bytes * reports
    head = post(running.world.task, 1, bytes(size), {"Authorization": f"Bearer {RELAY}"})[:-size]
    left, waiting = requests, 0
    with selectors.DefaultSelector() as selector:
        for _ in range(min(_LINES if reports == 1 else 8, requests)):
            line = socket.create_connection(("127.0.0.1", running.port))
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(line, selectors.EVENT_READ)
            line.sendall(head + os.urandom(size))
            left, waiting = left - 1, waiting + 1
        while waiting:
            for key, _ in selector.select():
                found = key.fileobj
                assert isinstance(found, socket.socket)
                answer = found.recv(4096)
                if not answer.startswith(b"HTTP/1.1 201"):
                    raise RuntimeError(f"not stored: {answer[:300]!r}")
                waiting -= 1
                if left:
                    found.sendall(head + os.urandom(size))
                    left, waiting = left - 1, waiting + 1
                else:
                    selector.unregister(found)
                    found.close()


def _uploads(requests: int, reports: int) -> float:
    with _world() as world, shuffler_process(world) as running:
        _send(running, 200, 1)
        return requests * reports / spent(running, lambda: _send(running, requests, reports))


def _paced(action: Callable[[], object], count: int) -> float:
    """Return how many a CPU second does."""
    start = time.process_time()
    action()
    return count / (time.process_time() - start)


def _envelopes(world: World, count: int) -> tuple[float, float, list[bytes]]:
    """Return how many reports a CPU second seals, and opens, and sealed ones."""
    task, info = world.task, information(world.task, 1)
    texts = plaintexts(task, task.mechanism.randomize([place % 4 for place in range(count)]))
    sealed: list[bytes] = []
    sealing = _paced(lambda: sealed.extend(seal(task, 1, text) for text in texts), count)
    return sealing, _paced(lambda: opened(world.analyst_key, info, sealed), count), sealed


def _shard(arguments: tuple[SealedRound, bytes, bytes]) -> tuple[int, float]:
    sealed, key, records = arguments
    start = time.process_time()
    valid = sealed.count(key, records).valid
    return valid, time.process_time() - start


def _counting(world: World, sealed: list[bytes], copies: int) -> tuple[float, float, float]:
    """Return how many reports one process counts in a CPU second, and how much faster two are: clock and CPU."""
    part = (
        SealedRound.of(world.task, 1, world.task.mechanism),
        world.analyst_key.private_bytes_raw(),
        b"".join(sealed),
    )
    spans, rates = [], []
    for processes in (1, 2):
        with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
            small = (part[0], part[1], part[2][: 64 * 500])
            list(pool.map(_shard, [small] * 2 * processes))  # each has started and read the task
            start = time.perf_counter()
            found = list(pool.map(_shard, [part] * copies))
            spans.append(time.perf_counter() - start)
            assert sum(valid for valid, _ in found) == copies * len(sealed)
            rates.append(copies * len(sealed) / sum(spent for _, spent in found))
    return rates[0], spans[0] / spans[1], 2 * rates[1] / rates[0]


def _syncs(folder: Path, times: int) -> float:
    with (folder / "synced").open("wb", buffering=0) as file:
        start = time.perf_counter()
        for _ in range(times):
            file.write(bytes(4096))
            os.fdatasync(file.fileno())
        return times / (time.perf_counter() - start)


def _groups(count: int, size: int) -> Iterator[list[Record]]:
    for start in range(0, count, size):
        yield [record(os.urandom(64)) for _ in range(min(size, count - start))]


def _postgres(count: int) -> float | None:
    """Return how many reports a second PostgreSQL takes from one connection, on this disk."""
    if programs() is None:
        return None
    try:
        from shoal.collect.stores.postgres import PostgresStore
    except ImportError:
        return None
    with _world() as world, running_cluster() as cluster:
        try:
            store: Store = PostgresStore(cluster.socket_url, world.task, now=time.time())
        except MissingExtraError:
            return None
        groups = list(_groups(count, 1000))
        start = time.perf_counter()
        for group in groups:
            store.add(1, group)
        span = time.perf_counter() - start
        store.shut()
        return count / span


def _released(count: int) -> dict[str, float]:
    """Store and release so many reports in a process of its own, and return what that took."""
    command = [sys.executable, "-m", "benchmarks.collection", "release", str(count)]
    found: dict[str, float] = json.loads(subprocess.run(command, capture_output=True, check=True, cwd=_ROOT).stdout)
    return found


def _pages(path: Path) -> int:
    """Return the bytes of a database that are in use."""
    with closing(sqlite3.connect(path)) as database:
        used, free, size = (
            database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
    return int((used - free) * size)


def _release(count: int) -> None:
    with _world() as world:
        now, path = 0.0, world.folder / "store.db"
        store = SqliteStore(path, world.task, now=now)
        shuffler = Shuffler(world.task, store, world.folder / "batches", world.shuffler_key, clock=lambda: now)
        spans, clock = [], 0.0
        for group in _groups(count, _GROUP):
            start, began = time.process_time(), time.perf_counter()
            shuffler.accept(1, group)
            spans.append(time.process_time() - start)
            clock += time.perf_counter() - began
        tenth = max(1, len(spans) // 10)
        now = float(_LONG)
        shuffler.close()
        start, made = time.perf_counter(), time.process_time()
        shuffler.release(1)
        found = {
            "seconds": time.perf_counter() - start,
            "cpu": time.process_time() - made,
            "stored": count / sum(spans),
            "stored_clock": count / clock,
            "stored_last": tenth * _GROUP / sum(spans[-tenth:]),
            "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "batch": float(shuffler.batch_path(1).stat().st_size),
        }
        found["disk"] = _pages(path) / count
        shuffler.acknowledge(1, shuffler.released(1)[1].sha256)
        start = time.perf_counter()
        shuffler.purge(1)
        found["purge"] = time.perf_counter() - start
        found["digest"] = _pages(path) / count
        shuffler.shut()
        print(json.dumps(found))


def measured() -> Rates:
    """Measure everything, in about a minute."""
    single = _uploads(20_000, 1)
    with _world() as world:
        people, sent, answered = visits(world, 1000)
        handshaken = handshakes(world, 1000)
        sealing, opening, sealed = _envelopes(world, 5000)
        count, two, two_cpu = _counting(world, sealed, 24)
        syncs = _syncs(world.folder, 300)
    million = _released(10**6)
    return Rates(
        uploads=single,
        visits=people,
        handshakes=handshaken,
        bulk=_uploads(300, 1000),
        stored=million["stored"],
        stored_clock=million["stored_clock"],
        postgres=_postgres(100_000),
        seal=sealing,
        open=opening,
        count=count,
        two=two,
        two_cpu=two_cpu,
        syncs=syncs,
        million=million["seconds"],
        million_cpu=million["cpu"],
        peak=million["peak"],
        disk=million["disk"],
        digest=million["digest"],
        sent=sent,
        answered=answered,
    )


def _row(name: str, found: float, must: float | None = None, *, least: bool = True) -> None:
    limit = "" if must is None else f"{'≥' if least else '≤'} {must:,g}"
    ratio = "" if must is None else f"{found / must:.2f}"
    print(
        f"{name:<66} {found:>10,.4g} {limit:>9} {ratio:>6}"
        if found < 1000
        else f"{name:<66} {found:>10,.0f} {limit:>9} {ratio:>6}"
    )


def collection(*, full: bool = False) -> Rates:
    """Print how fast collection is, beside what it must be.

    Parameters
    ----------
    full : whether 10⁷ reports are stored and released as well, which takes about ten minutes.
    """
    rates = measured()
    print("\nCollection, reports of 64 bytes, SQLite (per CPU second unless it says otherwise)")
    print(f"{'':<66} {'found':>10} {'must':>9} {'ratio':>6}")
    _row("single uploads, connections kept, acknowledged after commit", rates.uploads, 5000)
    _row("people who come once: TLS handshake, round, report", rates.visits)
    _row("  times as dear as on an open connection", rates.uploads / rates.visits)
    _row("TLS handshakes of OpenSSL alone, the server's side", rates.handshakes)
    _row("bulk uploads, a thousand reports a request", rates.bulk, 50_000)
    _row("stored in groups of 20,000, without HTTP", rates.stored)
    _row("  by the clock, while a round grows to 10⁶", rates.stored_clock)
    if rates.postgres is None:
        print("PostgreSQL is not here, and was not measured")
    else:
        _row("PostgreSQL, groups of 1,000, one connection, per second", rates.postgres)
    _row("fdatasync, per second", rates.syncs)
    _row("HPKE seal", rates.seal)
    _row("HPKE open", rates.open)
    _row("open, check and count, one process", rates.count, 12_000)
    _row("two processes, times as fast by the clock", rates.two, 1.7)
    _row("  by their CPU seconds", rates.two_cpu)
    _row("permute and release 10⁶, seconds", rates.million, 5, least=False)
    _row("  of which CPU seconds", rates.million_cpu)
    _row("  peak memory, MB", rates.peak)
    _row("  bytes of database a report", rates.disk)
    _row("  bytes of database a report, once purged", rates.digest)
    _row("bytes that a person sends in one visit, TLS and all", float(rates.sent))
    _row("bytes that a person gets", float(rates.answered))
    if full:
        ten = _released(10**7)
        _row("10⁷: stored per CPU second, all", ten["stored"])
        _row("10⁷: stored per CPU second, the last tenth", ten["stored_last"])
        _row("10⁷: stored per second of the clock, all", ten["stored_clock"])
        _row("10⁷: permute and release on disk, seconds", ten["seconds"])
        _row("10⁷: peak memory, MB", ten["peak"], 1024, least=False)
        _row("10⁷: bytes of database a report", ten["disk"])
        _row("10⁷: purge, seconds", ten["purge"])
    return rates


if __name__ == "__main__":
    if sys.argv[1:2] == ["release"]:
        _release(int(sys.argv[2]))
    else:
        collection(full="--full" in sys.argv[1:])
