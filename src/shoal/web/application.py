"""The application: the questions under /api, the files of the page under everything else."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shoal.questions.question import names, question
from shoal.web.openapi import api_page, openapi
from shoal.web.page_files import page_files, sent
from shoal.web.reply import JSON, SVG, Reply, refusal
from shoal.web.worker_pool import WorkerPool

_HEADERS = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
_METHODS = ("GET", "HEAD", "POST")


class RequestGuard:
    """An application around another one, which lets in only who asks for this machine by its own name.

    A page from elsewhere may know the port, and a name of its own may lead here; then the Host is that name. What a
    browser says of where a request comes from (Origin, Sec-Fetch-Site) must not be another site, unless a person has
    followed a link to the page.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str]) -> None:
        self._app, self._hosts = app, frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        if scope["type"] != "http":
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        wrong = self._objection(scope["method"], scope["path"], Headers(scope=scope))
        if wrong is None:
            await self._app(scope, receive, with_headers)
            return
        status, message = wrong
        reply = refusal(status, message)
        headers = {"allow": ", ".join(_METHODS)} if status == 405 else None
        await Response(reply.body, reply.status, headers, reply.media_type)(scope, receive, with_headers)

    def _objection(self, method: str, path: str, headers: Headers) -> tuple[int, str] | None:
        """Return the status and the words with which a request is refused, or nothing."""
        hosts = [host.lower() for host in headers.getlist("host")]
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return 421, f"this server answers to {', '.join(sorted(self._hosts))} only"
        origins = headers.getlist("origin")
        if any(origin.lower() != f"http://{hosts[0]}" for origin in origins):
            return 403, "pages from elsewhere may not ask this server"
        foreign = headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
        if foreign and not _followed_link(method, path, headers):
            return 403, "pages from elsewhere may not ask this server"
        if method not in _METHODS:
            return 405, f"this server knows {', '.join(_METHODS)} only"
        return None


def _followed_link(method: str, path: str, headers: Headers) -> bool:
    """Tell whether a person goes to the page, in a window of its own; it has an answer in its link at most."""
    modes = headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")
    return method == "GET" and modes == ("navigate", "document") and not path.startswith("/api/")


MOST_BODY = 4 << 20
"""Bytes of a file that is handed over."""
_BODY_SECONDS = 10.0
_NO_STORE = {"cache-control": "no-store"}
_OWN_STYLE = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'"}
"""A chart as a file has its style sheet in itself, and nothing else."""


def application(pool: WorkerPool, hosts: Iterable[str]) -> ASGIApp:
    """Return the application."""
    found, document, asked = page_files(), openapi(), names()
    described = {"openapi.json": document.encode(), "api.html": api_page(document).encode()}

    async def ask(request: Request) -> Response:
        name = request.path_params["question"]
        if name not in asked:
            return _sent(refusal(404, f"there is no question {name[:60]!r}; there are {', '.join(asked)}"))
        if request.method == "POST" and question(name).handed_over is None:
            return _sent(refusal(405, f"{name} takes no file: ask by GET"), {"allow": "GET, HEAD"})
        texts = dict(request.query_params)
        if len(texts) != len(request.query_params.multi_items()):
            return _sent(refusal(400, "each parameter may be given once"))
        form = texts.pop("as", "facts")
        body = None
        if request.method == "POST":
            read = await _body(request)
            if isinstance(read, Reply):
                return _sent(read)
            body = read
        return _sent(await _unless_gone(request, pool.answer(name, texts, body, form)))

    async def file(request: Request) -> Response:
        path = request.path_params["path"] or "index.html"
        content = found.get(path)
        if content is None:
            return _sent(refusal(404, "there is no such page"))
        return sent(request, path, content)

    async def describe(request: Request) -> Response:
        path = "openapi.json" if request.url.path.endswith(".json") else "api.html"
        return sent(request, path, described[path])

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        pool.start()
        yield
        await pool.stop()

    routes = [
        Route("/api", describe),
        Route("/api/openapi.json", describe),
        Route("/api/{question}", ask, methods=["GET", "POST"]),
        Route("/{path:path}", file),
    ]
    return RequestGuard(Starlette(routes=routes, lifespan=lifespan), hosts)


def _sent(reply: Reply, headers: dict[str, str] | None = None) -> Response:
    own = _OWN_STYLE if reply.media_type == SVG else {}
    kind = reply.media_type if reply.media_type == JSON else f"{reply.media_type}; charset=utf-8"
    return Response(reply.body, reply.status, _NO_STORE | own | (headers or {}), kind)


async def _body(request: Request) -> str | Reply:
    """Return the text of the body, or what is wrong with it."""
    pieces, size = [], 0
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for piece in request.stream():
                pieces.append(piece)
                size += len(piece)
                if size > MOST_BODY:
                    return refusal(413, f"a file may have {MOST_BODY:,} bytes, and this one has more")
        return b"".join(pieces).decode("utf-8-sig")
    except TimeoutError:
        return refusal(408, f"the file did not come within {_BODY_SECONDS:g} seconds")
    except UnicodeDecodeError as error:
        return refusal(400, f"the file is no text in UTF-8: {error.reason} at byte {error.start:,}")
    except ClientDisconnect:
        return refusal(400, "the file was cut off")


async def _unless_gone(request: Request, answering: Coroutine[Any, Any, Reply]) -> Reply:
    """Return the reply, or end the work if whoever asked has gone."""
    work, gone = asyncio.create_task(answering), asyncio.create_task(_gone(request))
    try:
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        work.cancel()
        return refusal(503, "whoever asked has gone")
    finally:
        gone.cancel()
        if not work.done():
            work.cancel()


async def _gone(request: Request) -> None:
    """Return when the connection is closed by the other side."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
