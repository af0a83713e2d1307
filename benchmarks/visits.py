"""People who come once: a TLS handshake, the question which round is open, one report, and never again."""

import os
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shoal.collect.connection import Connection
from tests.collect.running import Running, post
from tests.collect.world import World

__all__ = ["RELAY", "handshakes", "shuffler_process", "spent", "visits"]

RELAY = "relay"
"""The token with which bulk is sent."""


def _cpu(process: int) -> float:
    """Return the CPU seconds that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def shuffler_process(world: World, *, tls: bool = False) -> Iterator[Running]:
    """Lend a shuffler that runs on SQLite in a process of its own."""
    folder = world.folder
    with Running(world, folder / "served.db", folder / "served", folder, relays=[RELAY], tls=tls) as running:
        yield running


def spent(running: Running, action: Callable[[], object]) -> float:
    """Return the CPU seconds that the shuffler spends on what we do to it."""
    assert running.process is not None
    before = _cpu(running.process.pid)
    action()
    return _cpu(running.process.pid) - before


def visits(world: World, people: int) -> tuple[float, int, int]:
    """Return how many people a CPU second of the shuffler serves, and how many bytes each sends and gets."""
    task, certificate = world.task, world.shuffler["tls_certificate"]
    with shuffler_process(world, tls=True) as running:

        def visit(_: int) -> None:
            with Connection(f"https://127.0.0.1:{running.port}", ca=certificate) as connection:
                connection.request("GET", f"/v1/tasks/{task.id}/round")
                path = f"/v1/tasks/{task.id}/rounds/1/reports"
                assert connection.request("POST", path, os.urandom(task.ciphertext_bytes)).status == 201

        with ThreadPoolExecutor(16) as pool:
            list(pool.map(visit, range(100)))
            seconds = spent(running, lambda: list(pool.map(visit, range(people))))
        return people / seconds, *_bytes(running)


def _bytes(running: Running) -> tuple[int, int]:
    """Return the bytes that one visit sends and gets, TLS and all, counted on their way."""
    task, counted = running.world.task, [0, 0]
    context = ssl.create_default_context(cafile=running.world.shuffler["tls_certificate"])
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with socket.create_connection(("127.0.0.1", running.port)) as line:

        def flush() -> None:
            data = outgoing.read()
            counted[0] += len(data)
            line.sendall(data)

        def pumped(action: Callable[[], Any]) -> None:
            while True:
                try:
                    action()
                    return
                except ssl.SSLWantReadError:
                    flush()
                    data = line.recv(1 << 16)
                    counted[1] += len(data)
                    incoming.write(data)

        pumped(tls.do_handshake)
        for request in (
            f"GET /v1/tasks/{task.id}/round HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept-Encoding: identity\r\n\r\n".encode(),
            post(task, 1, os.urandom(task.ciphertext_bytes), {"Content-Type": "application/octet-stream"}),
        ):
            tls.write(request)
            flush()
            pumped(lambda: tls.read(4096))
    return counted[0], counted[1]


def handshakes(world: World, count: int) -> float:
    """Return how many handshakes a CPU second does on the server's side, in memory, both sides by OpenSSL."""
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(world.shuffler["tls_certificate"], world.shuffler["tls_key"])
    client = ssl.create_default_context(cafile=world.shuffler["tls_certificate"])
    seconds = 0.0
    for _ in range(count):
        there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        ours = server.wrap_bio(there, back, server_side=True)
        theirs = client.wrap_bio(back, there, server_hostname="127.0.0.1")
        _step(theirs)
        start = time.process_time()
        _step(ours)
        seconds += time.process_time() - start
        _step(theirs)
        start = time.process_time()
        ours.do_handshake()
        seconds += time.process_time() - start
    return count / seconds


def _step(side: ssl.SSLObject) -> None:
    """Go on with a handshake until it waits for the other side."""
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return
