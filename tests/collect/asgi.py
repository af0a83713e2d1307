"""Calls the applications of a service in this process, by hand: scope, receive and send, in one event loop."""

import asyncio
import hashlib
import json
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self, TypeVar

from starlette.types import ASGIApp, Message

from shoal.collect.connection import Answer, Connection
from shoal.collect.service import Service
from shoal.collect.shuffler import Shuffler
from shoal.collect.stores.sqlite import SqliteStore
from shoal.collect.tokens import TokenList
from shoal.errors import CollectError
from tests.collect.life import released
from tests.collect.world import World

_T = TypeVar("_T")
_PATIENCE = 60.0


async def called(
    app: ASGIApp,
    method: str,
    path: str,
    pieces: Iterable[bytes] = (),
    headers: Iterable[tuple[bytes, bytes]] = (),
    *,
    then: Callable[[], Coroutine[Any, Any, Message]] | None = None,
) -> Answer:
    """Return the answer of an application to one request, whose path is already decoded and whose body is in pieces.

    `then` is what happens after the pieces, if they are not all: the client goes silent, or away.
    """
    parts = list(pieces) or [b""]
    incoming: list[Message] = [
        {"type": "http.request", "body": part, "more_body": then is not None or place + 1 < len(parts)}
        for place, part in enumerate(parts)
    ]
    outgoing: list[Message] = []

    async def receive() -> Message:
        if incoming:
            return incoming.pop(0)
        if then is not None:
            return await then()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        outgoing.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "https",
        "path": path,
        "raw_path": path.encode("utf-8", "surrogateescape"),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"localhost"), *headers],
        "client": ("127.0.0.9", 40000),
        "server": ("127.0.0.1", 8440),
    }
    await app(scope, receive, send)
    assert outgoing and outgoing[0]["type"] == "http.response.start", outgoing
    assert all(message["type"] == "http.response.body" for message in outgoing[1:])
    assert len(outgoing) > 1 and not outgoing[-1].get("more_body")
    found = {name.decode().lower(): value.decode() for name, value in outgoing[0]["headers"]}
    return Answer(outgoing[0]["status"], found, b"".join(message.get("body", b"") for message in outgoing[1:]))


class Front:
    """A running service, and whoever asks it; a block that ends stops it."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._runner = asyncio.Runner()
        self.run(service.start())

    def run(self, what: Coroutine[Any, Any, _T]) -> _T:
        """Return what comes of it, in the loop of this service; nothing here takes as long as a minute."""
        return self._runner.run(asyncio.wait_for(what, _PATIENCE))

    def public(
        self, method: str, path: str, body: bytes = b"", token: str | None = None, headers: Sequence[Any] = ()
    ) -> Answer:
        """Return an answer from the listener for everybody."""
        return self.run(self.asked(method, path, body, token, headers))

    async def asked(
        self, method: str, path: str, body: bytes = b"", token: str | None = None, headers: Sequence[Any] = ()
    ) -> Answer:
        """Return an answer from the listener for everybody, inside the loop."""
        sent = [*headers] if token is None else [*headers, (b"authorization", b"Bearer " + token.encode())]
        return await called(self.service.public, method, path, [body], sent)

    def analyst(self, method: str, path: str, body: bytes = b"") -> Answer:
        """Return an answer from the analyst's listener."""
        return self.run(called(self.service.analyst, method, path, [body]))

    def tick(self) -> None:
        """Do whatever is due."""
        self.run(self.service.close())
        self.run(self.service.settle())

    def stop(self) -> None:
        """Stop the service, and end the loop."""
        self.run(self.service.stop())
        self._runner.close()

    def __enter__(self) -> Self:
        """Return the front itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the service."""
        self.stop()


class InProcess(Connection):
    """The analyst's connection to a service in this process."""

    def __init__(self, front: Front) -> None:
        self._front = front

    def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        most: int = 1 << 24,
    ) -> Answer:
        """Send a request and return the answer, whatever its status."""
        return self._front.analyst(method, path, body)

    def download(self, path: str, file: BinaryIO, size: int) -> None:
        """Write the body of an answer into a file."""
        answer = self.request("GET", path)
        if answer.status != 200:
            raise CollectError(answer.problem())
        assert len(answer.body) == size
        file.write(answer.body)

    def close(self) -> None:
        """Leave the service as it is."""


def made(
    world: World, folder: Path, clock: Callable[[], float], tokens: TokenList | None = None
) -> tuple[Front, Shuffler]:
    """Return a running service with a store in a file, and its shuffler."""
    folder.mkdir(parents=True, exist_ok=True)
    store = SqliteStore(folder / "reports.db", world.task, now=clock())
    shuffler = Shuffler(world.task, store, folder / "batches", world.shuffler_key, clock=clock)
    return Front(Service(shuffler, tokens)), shuffler


class Clock:
    """Time that stands still until it is moved."""

    now = 1_700_000_000.0

    def __call__(self) -> float:
        """Tell the time."""
        return self.now


def tokens(people: str = "", relays: str = "") -> TokenList:
    """Return the tokens in these words."""
    hashed = [frozenset(hashlib.sha256(word.encode()).digest() for word in words.split()) for words in (people, relays)]
    return TokenList(hashed[0] or None, hashed[1])


def root(world: World) -> str:
    return f"/v1/tasks/{world.task.id}"


def reports(world: World, number: int = 1) -> str:
    return f"{root(world)}/rounds/{number}/reports"


def refused(answer: Answer, status: int) -> dict[str, object]:
    """Return the problem that an answer tells, in the form that all problems have."""
    assert answer.status == status, (answer.status, answer.body)
    assert answer.headers["content-type"] == "application/problem+json"
    found: dict[str, object] = json.loads(answer.body)
    assert found["type"] == "about:blank" and found["status"] == status and found["title"]
    assert isinstance(found["detail"], str) and found["detail"].endswith(".")
    return found


def stored(shuffler: Shuffler, front: Front, clock: Clock, world: World) -> list[int]:
    """End the round, and return the values in what was released of it."""
    number = shuffler.current().number
    clock.now += 60
    front.tick()
    batch = front.analyst("GET", f"{root(world)}/rounds/{number}/batch")
    if batch.status != 200:
        return []
    return world.values(released(shuffler, number), number)
