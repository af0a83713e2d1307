"""How long reports wait when more come than can be stored: `python -m benchmarks.overload`.

400 connections are kept busy, and two relays send 50,000 reports at a time: once to the shuffler as it is, and once to
one without limits, which sends nobody away and stores a bulk in one piece, as it did before there were any.
"""

import os
import random
import selectors
import socket
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import Path

from benchmarks.visits import RELAY
from shoal.collect import service
from tests.collect.running import Running, post, run_process
from tests.collect.world import make_exact_world

__all__ = ["Load", "overload"]

_CONNECTIONS, _SECONDS, _BULK = 400, 10.0, 50_000
_HASTE = 10
"""How many times as soon as they are told those come back who are sent away: the run is short."""


@dataclass(frozen=True)
class Load:
    """What became of the reports.

    Attributes
    ----------
    waits : seconds for each single report that was stored.
    shed : how many times somebody was told to come later.
    bulks : how many bulks were stored.
    """

    waits: list[float]
    shed: int
    bulks: int

    @property
    def longest(self) -> float:
        """What 99 of 100 did not wait longer than."""
        return statistics.quantiles(self.waits, n=100)[98]


def _busy(running: Running, *, bulk: bool) -> Load:
    size = running.world.task.ciphertext_bytes
    head = post(running.world.task, 1, bytes(size))[:-size]
    over, bulks = threading.Event(), [0]

    def relay() -> None:
        with running.line() as line:
            while not over.is_set():
                body = os.urandom(_BULK * size)
                answer = line.ask(post(running.world.task, 1, body, {"Authorization": f"Bearer {RELAY}"}))
                bulks[0] += answer.status == 201
                over.wait(0 if answer.status == 201 else int(answer.headers["retry-after"]) / _HASTE)

    relays = [threading.Thread(target=relay) for _ in range(2 * bulk)]
    waits, shed, sent = [], 0, {}
    later: list[tuple[float, int, socket.socket]] = []
    with selectors.DefaultSelector() as selector:
        lines = [socket.create_connection(("127.0.0.1", running.port)) for _ in range(_CONNECTIONS)]
        for line in lines:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(line, selectors.EVENT_READ)
            heappush(later, (0.0, line.fileno(), line))
        for thread in relays:
            thread.start()
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end:
            while later and later[0][0] <= time.monotonic():
                line = heappop(later)[2]
                sent[line] = time.monotonic()
                line.sendall(head + os.urandom(size))
            for key, _ in selector.select(0.02):
                line = key.fileobj  # type: ignore[assignment]
                answer, now = line.recv(4096), time.monotonic()
                if answer.startswith(b"HTTP/1.1 201"):
                    waits.append(now - sent[line])
                    heappush(later, (now, line.fileno(), line))
                elif answer.startswith(b"HTTP/1.1 503"):
                    shed += 1
                    heappush(later, (now + random.uniform(5, 15) / _HASTE, line.fileno(), line))
        over.set()
        for line in lines:
            line.close()
    for thread in relays:
        thread.join()
    return Load(waits, shed, bulks[0])


def _measured(*, limits: bool, bulk: bool) -> Load:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        world = make_exact_world(folder, round_seconds=60 * 60 * 24)
        module = "tests.collect.running" if limits else "benchmarks.overload"
        places = (folder / "served.db", folder / "served", folder)
        with Running(world, *places, relays=[RELAY], module=module) as running:
            return _busy(running, bulk=bulk)


def overload() -> None:
    """Print how long reports wait under load, beside a shuffler without limits in the same run."""
    print(f"\n{_CONNECTIONS} busy connections for {_SECONDS:g} s: seconds that 99 of 100 stored reports do not exceed")
    print(f"{'':<44} {'p99':>7} {'must':>6} {'stored/s':>9} {'sent away':>9} {'bulks':>6} {'ratio':>6}")
    for bulk, name in ((False, "single reports alone"), (True, f"beside bulks of {_BULK:,}")):
        without, found = (_measured(limits=limits, bulk=bulk) for limits in (False, True))
        for one, label, must in ((without, f"{name}, no limits", ""), (found, f"{name}", "≤ 0.5")):
            rate = len(one.waits) / _SECONDS
            ratio = without.longest / one.longest
            print(
                f"{label:<44} {one.longest:>7.3f} {must:>6} {rate:>9,.0f} {one.shed:>9,} {one.bulks:>6} {ratio:>6.1f}"
            )


if __name__ == "__main__":
    if sys.argv[1:]:
        service._FEW = service._MOST = sys.maxsize
        service._LEAST_PART = service._MOST_PART = sys.maxsize
        run_process(Path(sys.argv[1]))
    else:
        overload()
