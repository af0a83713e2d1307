"""The running page: a port on this machine, the application, and the browser that is opened on it."""

import asyncio
import logging
import socket
import webbrowser
from collections.abc import Callable
from contextlib import ExitStack, suppress

from shoal.errors import MissingExtraError, ParameterError

_HOST = "127.0.0.1"
_NAMES = ("127.0.0.1", "localhost", "[::1]")
_MOST_CONNECTIONS = 256
_TICK = 0.01
_MOST_HEAD = 1 << 14
"""Bytes of the head of a request, the address included."""


def serve_page(
    *, port: int = 0, most_seconds: float | None = None, ready: Callable[[str], object] = webbrowser.open
) -> None:
    """Serve the page on this machine alone, until Ctrl-C or a signal says to end; port 0 takes a free one.

    `ready` is called with the address as soon as it listens. Each question has its own limit on time, and
    `most_seconds` if that is less.
    """
    try:
        from uvicorn import Config, Server

        from shoal.web.application import application
        from shoal.web.worker_pool import WorkerPool
    except ImportError:
        raise MissingExtraError('the page needs starlette and uvicorn: pip install "shoal-dp[web]"') from None
    with ExitStack() as stack:
        sockets = [stack.enter_context(each) for each in _listening(port)]
        port = sockets[0].getsockname()[1]
        app = application(WorkerPool(most_seconds=most_seconds), [f"{name}:{port}" for name in _NAMES])
        config = Config(
            app,
            http="h11",
            ws="none",
            lifespan="on",
            access_log=False,
            log_level="error",
            server_header=False,
            date_header=False,
            proxy_headers=False,
            limit_concurrency=_MOST_CONNECTIONS,
            h11_max_incomplete_event_size=_MOST_HEAD,
            timeout_graceful_shutdown=0,
        )
        server = Server(config)
        # What is under way at the end is cut off, and uvicorn would say so.
        logging.getLogger("uvicorn.error").addFilter(lambda _: not server.should_exit)

        async def run() -> None:
            serving = asyncio.create_task(server.serve(sockets))
            while not server.started and not serving.done():
                await asyncio.sleep(_TICK)
            if server.started:
                ready(f"http://{_HOST}:{port}/")
            await serving

        with suppress(KeyboardInterrupt):  # which is how one ends it
            asyncio.run(run())


def _listening(port: int) -> list[socket.socket]:
    """Return sockets for both addresses of this machine, with the same port; the second is left out if it is taken."""
    try:
        first = socket.create_server((_HOST, port))
    except (OSError, OverflowError) as error:
        raise ParameterError(
            f"cannot listen on port {port}: {error}; choose another port, or 0 for a free one"
        ) from None
    sockets = [first]
    with suppress(OSError):
        sockets.append(socket.create_server(("::1", first.getsockname()[1]), family=socket.AF_INET6))
    for each in sockets:  # connections inherit it; else an answer's head and body would come 40 ms apart
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sockets
