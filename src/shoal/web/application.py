"""The application: the questions under /api, the files of the page under everything else."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from shoal.questions.question import names, question
from shoal.web.openapi import api_page, openapi
from shoal.web.page_files import page_files, sent
from shoal.web.reply import JSON, SVG, Reply, refusal
from shoal.web.request_guard import RequestGuard
from shoal.web.worker_pool import WorkerPool

__all__ = ["MOST_BODY", "application"]

MOST_BODY = 4 << 20
"""Bytes of a file that is handed over."""
_BODY_SECONDS = 10.0
_NO_STORE = {"cache-control": "no-store"}
_OWN_STYLE = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'"}
"""A chart as a file has its style sheet in itself, and nothing else."""


def application(pool: WorkerPool, hosts: Iterable[str]) -> ASGIApp:
    """Return the application.

    Parameters
    ----------
    pool : WorkerPool
        Who answers; it is started and stopped with the application.
    hosts : iterable of str
        What may stand in Host, with the port.
    """
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
