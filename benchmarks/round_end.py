"""Waiting times of reports while a round ends: `python -m benchmarks.round_end`.

Eight connections send one report after the other over the end of a round: with 97,200 dummies on average (a task allows
100,000), on SQLite and on PostgreSQL, and on PostgreSQL while another session keeps a read transaction open, as
`pg_dump` does.
"""

import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shoal.mechanisms import Dummies
from tests.collect.database import programs, running_cluster
from tests.collect.running import Running, post, until
from tests.collect.world import World, make_dummies_world, make_exact_world

__all__ = ["round_end"]

_CONNECTIONS, _PAUSE = 8, 0.02
_ROUND = 4
"""Seconds: long enough for some hundreds of reports before the end, which are waits of a quiet shuffler."""
_AFTER = 3.0
"""Seconds of reports after the end."""
_READING = 10.0
"""Seconds for which the read transaction stays open."""
_MOST_WAIT = 1.0
"""Seconds that 99 of 100 reports must not exceed."""


def _waits(running: Running, seconds: float) -> list[float]:
    """Return how long each report waited for its answer, from now until so long after the end of round 1."""
    task, waits, over = running.world.task, [], threading.Event()

    def send() -> None:
        number = 1
        with running.line() as line:
            while not over.is_set():
                begun = time.monotonic()
                answer = line.ask(post(task, number, os.urandom(task.ciphertext_bytes)))
                waits.append(time.monotonic() - begun)
                if answer.status == 409:
                    number = json.loads(answer.body)["round"]
                time.sleep(_PAUSE)

    threads = [threading.Thread(target=send) for _ in range(_CONNECTIONS)]
    for thread in threads:
        thread.start()
    until(lambda: running.round() > 1, "the end of the round")
    time.sleep(seconds)
    over.set()
    for thread in threads:
        thread.join()
    return waits


@contextmanager
def _read_transaction(url: str, world: World) -> Iterator[None]:
    """Keep a transaction open that has read all tables of the task, as a dump does."""
    import psycopg

    with psycopg.connect(url) as reader:
        schema = f"shoal_{world.task.id[:56]}"
        names = reader.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (schema,)).fetchall()
        for (name,) in names:
            reader.execute(f"LOCK TABLE {schema}.{name} IN ACCESS SHARE MODE".encode())
        yield


def _measured(url: str | None, *, dummies: bool, reading: bool) -> list[float]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        large = Dummies(categories=3600, epsilon=1, limit=27)
        world = (
            make_dummies_world(folder, mechanism=large, round_seconds=_ROUND)
            if dummies
            else make_exact_world(folder, round_seconds=_ROUND)
        )
        with Running(world, url or folder / "served.db", folder / "served", folder) as running:
            if not reading:
                return _waits(running, _AFTER)
            assert url is not None
            over = threading.Event()

            def read() -> None:
                with _read_transaction(url, world):
                    over.wait(_READING)

            reader = threading.Thread(target=read)
            reader.start()
            waits = _waits(running, _READING - _ROUND)
            over.set()
            reader.join()
            return waits


def _print(label: str, waits: list[float]) -> None:
    ordered = sorted(waits)
    p99 = statistics.quantiles(ordered, n=100)[98]
    print(f"{label:<52} {len(waits):>8,} {p99:>7.2f} {f'≤ {_MOST_WAIT:g}':>6} {ordered[-1]:>8.2f}", flush=True)


def round_end() -> None:
    """Print how long reports wait over the end of a round."""
    print("\nReports over the end of a round: how many were answered, and the seconds that they waited")
    print(f"{'':<52} {'answers':>8} {'p99':>7} {'must':>6} {'longest':>8}")
    _print("97,200 dummies, SQLite", _measured(None, dummies=True, reading=False))
    if programs() is None:
        print("PostgreSQL is not installed", file=sys.stderr)
        return
    with running_cluster() as cluster:
        _print("97,200 dummies, PostgreSQL", _measured(cluster.url, dummies=True, reading=False))
        _print("read transaction of 10 s, PostgreSQL", _measured(cluster.url, dummies=False, reading=True))
        _print("the same, with 97,200 dummies", _measured(cluster.url, dummies=True, reading=True))


if __name__ == "__main__":
    round_end()
