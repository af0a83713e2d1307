"""A shuffler in a process of its own, and raw connections to it: what the tests of faults run.

`python -m tests.collect.running setup.json` is the process.
"""

import hashlib
import json
import os
import resource
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from shoal.collect import failpoint
from shoal.collect.connection import Connection
from shoal.collect.high_water import FILE
from shoal.collect.keys import shuffler_key
from shoal.collect.server import Listeners, serve
from shoal.collect.service import Service
from shoal.collect.shuffler import Shuffler
from shoal.collect.store import Store
from shoal.collect.stores.sqlite import SqliteStore
from shoal.collect.task import Task
from shoal.collect.tokens import TokenFiles, TokenList
from tests.collect.world import World

PATIENCE = 300.0
"""Seconds after which something that should come does not come any more, on a slow machine either."""
EXCEPTION = "what-an-exception-says"
_ROOT = Path(__file__).resolve().parents[2]


def until(true: Callable[[], Any], what: str, seconds: float = PATIENCE) -> None:
    """Wait until something is true."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise AssertionError(f"after {seconds:g} s there is still not {what}")
        time.sleep(0.02)


def batches_in(folder: Path) -> list[Path]:
    """Return all files in the folder of a shuffler except the high-water mark and its lock."""
    return [path for path in folder.iterdir() if FILE not in path.name]


def store_in(place: str, task: Task) -> Store:
    """Return the store in a file, or in the database of a URL."""
    if "://" in place:
        from shoal.collect.stores.postgres import PostgresStore

        return PostgresStore(place, task, now=time.time())
    return SqliteStore(Path(place), task, now=time.time())


class Running:
    """A shuffler that runs, and can be killed and started again.

    `place` is the file of its store, or the URL of its database. `people` and `relays` are tokens; `token_file` has
    personal ones instead. It may open `files[0]` files, and `files[1]` if it asks for more. `module` is what is run.
    """

    def __init__(
        self,
        world: World,
        place: str | Path,
        batches: Path,
        folder: Path,
        *,
        people: Iterable[str] | None = None,
        relays: Iterable[str] = (),
        token_file: Path | None = None,
        tls: bool = False,
        files: tuple[int, int] | None = None,
        module: str = "tests.collect.running",
    ) -> None:
        self.world, self.place, self.batches = world, str(place), batches
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "log"
        self._setup, self._ports = folder / "setup.json", folder / "ports"
        self._tls, self._module = tls, module
        self._content: dict[str, Any] = {
            "task": str(world.task_path),
            "key": str(world.shuffler["private_key"]),
            "tls_certificate": str(world.shuffler["tls_certificate"]),
            "tls_key": str(world.shuffler["tls_key"]),
            "analyst_certificate": str(world.analyst["tls_certificate"]),
            "place": self.place,
            "batches": str(batches),
            "ports": str(self._ports),
            "people": None if people is None else [_hashed(token) for token in people],
            "relays": [_hashed(token) for token in relays],
            "token_file": None if token_file is None else str(token_file),
            "tls": tls,
            "files": files,
        }
        self.process: subprocess.Popen[bytes] | None = None
        self.port = self.analyst_port = 0

    def start(self, point: str | None = None, times: int = 1, *, fault: str = "kill") -> Self:
        """Start the process; at that point, the so many-th time, it is killed, or exceptions are raised, ten times."""
        assert self.process is None
        self._ports.unlink(missing_ok=True)
        self._setup.write_text(json.dumps(self._content | {"point": point, "times": times, "fault": fault}))
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", self._module, str(self._setup)],
                cwd=_ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        until(lambda: self._ports.exists() or not self.alive, "a shuffler that listens")
        if not self._ports.exists():
            if point is not None and self.process.returncode == -signal.SIGKILL:
                return self  # the first tick came there before the listeners did
            raise AssertionError(f"the shuffler ended at its start: {self.log.read_text()}")
        self.port, self.analyst_port = map(int, self._ports.read_text().split())
        return self

    @property
    def alive(self) -> bool:
        """Whether the process is there."""
        return self.process is not None and self.process.poll() is None

    def wait_killed(self) -> None:
        """Wait until the process was killed at its point."""
        assert self.process is not None
        assert self.process.wait(PATIENCE) == -signal.SIGKILL, self.log.read_text()
        self.process = None

    def kill(self) -> None:
        """Kill the process, if it is there."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        """Tell the process to end, which it must do by itself, whoever is connected."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE) == 0, self.log.read_text()
        self.process = None

    def line(self, source: str | None = None) -> "Line":
        """Return a raw connection to the public listener."""
        context = None
        if self._tls:
            context = ssl.create_default_context(cafile=self.world.shuffler["tls_certificate"])
        return Line(self.port, source, context)

    def upload(self, number: int, body: bytes, headers: Mapping[str, str] | None = None) -> "Answer":
        """Send reports once, and return the answer."""
        with self.line() as line:
            return line.ask(post(self.world.task, number, body, headers))

    def ask(self, path: str) -> "Answer":
        """Return what the public listener answers."""
        with self.line() as line:
            return line.ask(_head("GET", path, {}))

    def round(self) -> int:
        """Return which round is open."""
        return int(json.loads(self.ask(f"/v1/tasks/{self.world.task.id}/round").body)["round"])

    def closes(self) -> float:
        """Return when the open round closes."""
        return float(json.loads(self.ask(f"/v1/tasks/{self.world.task.id}/round").body)["closes"])

    def ready(self) -> bool:
        """Return whether the process says that all is well."""
        return self.ask("/readyz").status == 200

    def analyst(self, timeout: float = 30.0) -> Connection:
        """Return the analyst's connection, by mutual TLS."""
        world = self.world
        return Connection(
            f"https://127.0.0.1:{self.analyst_port}",
            ca=world.shuffler["tls_certificate"],
            certificate=world.analyst["tls_certificate"],
            key=world.analyst["tls_key"],
            timeout=timeout,
        )

    def rounds(self) -> dict[int, dict[str, Any]]:
        """Return what the analyst is told of the rounds that have ended."""
        with self.analyst() as connection:
            answer = connection.request("GET", f"/v1/tasks/{self.world.task.id}/rounds")
        assert answer.status == 200
        return {one["round"]: one for one in json.loads(answer.body)["rounds"]}

    def __enter__(self) -> Self:
        return self if self.process is not None else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


class Answer:
    """What came back on a raw connection."""

    def __init__(self, head: bytes, body: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        self.status = int(first.split(" ")[1])
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        self.body = body


class Line:
    """A raw connection that is kept alive, to the byte."""

    def __init__(self, port: int, source: str | None = None, context: ssl.SSLContext | None = None) -> None:
        place = None if source is None else (source, 0)
        self._socket: socket.socket = socket.create_connection(("127.0.0.1", port), PATIENCE, source_address=place)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is not None:
            self._socket = context.wrap_socket(self._socket, server_hostname="127.0.0.1")
        self._rest = b""

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self._socket.sendall(data)

    def answer(self) -> Answer:
        """Return the next answer."""
        while b"\r\n\r\n" not in self._rest:
            self._more()
        head, _, self._rest = self._rest.partition(b"\r\n\r\n")
        length = int(Answer(head, b"").headers.get("content-length", "0"))
        while len(self._rest) < length:
            self._more()
        body, self._rest = self._rest[:length], self._rest[length:]
        return Answer(head, body)

    def ask(self, data: bytes) -> Answer:
        """Send a request and return the answer."""
        self.send(data)
        return self.answer()

    def _more(self) -> None:
        data = self._socket.recv(1 << 16)
        if not data:
            raise ConnectionResetError
        self._rest += data

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _head(method: str, path: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()


def post(task: Task, number: int, body: bytes, headers: Mapping[str, str] | None = None, query: str = "") -> bytes:
    """Return the request that sends reports."""
    path = f"/v1/tasks/{task.id}/rounds/{number}/reports{query}"
    return _head("POST", path, {"Content-Length": str(len(body)), **(headers or {})}) + body


def _hashed(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _fault(point: str, times: int, fault: str) -> Callable[[str], None]:
    left = times

    def watcher(reached: str) -> None:
        nonlocal left
        left -= reached == point
        if reached == point and fault == "raise" and -10 < left <= 0:
            raise RuntimeError(EXCEPTION)
        if reached == point and fault == "kill" and left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return watcher


def run_process(setup: Path) -> None:
    """Be the process that is set up in this file."""
    content = json.loads(setup.read_text())
    task = Task.read(Path(content["task"]))
    if content["point"] is not None:
        failpoint.watch(_fault(content["point"], content["times"], content["fault"]))
    shuffler = Shuffler(
        task, store_in(content["place"], task), Path(content["batches"]), shuffler_key(Path(content["key"]))
    )
    if content["files"] is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, tuple(content["files"]))
    people, files = content["people"], None
    tokens = TokenList(
        people=None if people is None else frozenset(map(bytes.fromhex, people)),
        relays=frozenset(map(bytes.fromhex, content["relays"])),
    )
    if content["token_file"] is not None:
        files = TokenFiles(Path(content["token_file"]), None)
        tokens = files.read()
    listeners = Listeners(
        port=0,
        analyst_port=0,
        tls_certificate=Path(content["tls_certificate"]),
        tls_key=Path(content["tls_key"]),
        analyst_certificate=Path(content["analyst_certificate"]),
        behind_proxy=not content["tls"],
    )

    def ready(port: int, analyst_port: int) -> None:
        ports = Path(content["ports"])
        aside = ports.with_suffix(".part")
        aside.write_text(f"{port} {analyst_port}")
        aside.rename(ports)

    serve(Service(shuffler, tokens), listeners, ready=ready, tokens=files)


if __name__ == "__main__":
    run_process(Path(sys.argv[1]))
