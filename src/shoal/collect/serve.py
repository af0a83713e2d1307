"""The running shuffler: two listeners and a clock in one process."""

import asyncio
import logging
import os
import signal
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from shoal.collect.service import Service
from shoal.errors import MissingExtraError, ParameterError

__all__ = ["Listeners", "serve"]

_TICK = 0.5
_GRACE = 3
"""Seconds that requests get to end when the process is told to."""
_MOST_CONNECTIONS = 20_000
_BACKLOG = 2048


@dataclass(frozen=True, kw_only=True)
class Listeners:
    """Where the shuffler listens.

    Attributes
    ----------
    host : the address for both.
    port : for everybody; 0 takes a free one.
    analyst_port : for the analyst, by mutual TLS; 0 takes a free one.
    tls_certificate, tls_key : by which the shuffler is known.
    analyst_certificate : the only one that the analyst's listener lets in.
    behind_proxy : whether a proxy on this machine ends TLS for everybody; then the public listener has none, and must
        be on a loopback address.
    """

    host: str = "127.0.0.1"
    port: int = 8440
    analyst_port: int = 8441
    tls_certificate: Path
    tls_key: Path
    analyst_certificate: Path
    behind_proxy: bool = False

    def __post_init__(self) -> None:
        """Refuse to listen without TLS where others can hear."""
        if self.behind_proxy and not _loopback(self.host):
            raise ParameterError(
                f"behind a proxy the shuffler listens without TLS, and {self.host} can be reached from elsewhere; "
                "listen on 127.0.0.1, where the proxy is"
            )
        for path in (self.tls_certificate, self.tls_key, self.analyst_certificate):
            if not path.is_file():
                raise ParameterError(f"there is no file {path}; `shoal keygen` makes keys and certificates for TLS")
        if self.analyst_certificate.read_bytes().count(b"-----BEGIN CERTIFICATE-----") != 1:
            raise ParameterError(
                f"{self.analyst_certificate} must hold one certificate, the analyst's, and no authority's: whoever it "
                "lets in can pull"
            )


def _loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def serve(service: Service, listeners: Listeners, *, ready: Callable[[int, int], None] | None = None) -> None:
    """Serve until a signal says to end, and then end within a few seconds.

    Parameters
    ----------
    service : what to serve.
    listeners : where.
    ready : is called with the two ports, which both listen.
    """
    try:
        import uvicorn
        import uvloop

        from shoal.collect.bounded import BoundedProtocol
    except ImportError:
        raise MissingExtraError('the shuffler needs uvicorn and uvloop: pip install "shoal-dp[collect]"') from None
    logging.getLogger("shoal.shuffler").setLevel(logging.WARNING)

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield  # the two of them are told together

    common: dict[str, Any] = {
        "host": listeners.host,
        "http": BoundedProtocol,
        "ws": "none",
        "lifespan": "off",
        "access_log": False,  # it would hold addresses
        "log_level": "warning",
        "proxy_headers": False,
        "server_header": False,
        "date_header": False,
        "limit_concurrency": _MOST_CONNECTIONS,
        "timeout_graceful_shutdown": _GRACE,
    }
    identity: dict[str, Any] = {"ssl_certfile": listeners.tls_certificate, "ssl_keyfile": listeners.tls_key}
    mutual: dict[str, Any] = {"ssl_ca_certs": str(listeners.analyst_certificate), "ssl_cert_reqs": ssl.CERT_REQUIRED}
    try:
        servers = [
            Server(
                uvicorn.Config(
                    service.public, port=listeners.port, **common, **({} if listeners.behind_proxy else identity)
                )
            ),
            Server(uvicorn.Config(service.analyst, port=listeners.analyst_port, **common, **identity, **mutual)),
        ]
        for server in servers:
            server.config.load()
    except (ssl.SSLError, OSError) as error:
        raise ParameterError(
            f"the certificates and keys for TLS do not work: {error}; `shoal keygen` makes some"
        ) from None

    watchdog = threading.Timer(_GRACE + 1.5, os._exit, [0])
    watchdog.daemon = True

    async def run() -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, _stop, servers, watchdog)
        async with _running(service):
            if ready is not None:
                ready(sockets[0].getsockname()[1], sockets[1].getsockname()[1])
            await asyncio.gather(*(server.serve([each]) for server, each in zip(servers, sockets, strict=True)))

    with ExitStack() as stack:
        sockets = [
            stack.enter_context(_listening(listeners.host, port)) for port in (listeners.port, listeners.analyst_port)
        ]
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run())
        watchdog.cancel()


def _listening(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=_BACKLOG
        )
    except (OSError, OverflowError) as error:
        raise ParameterError(f"cannot listen on {host}, port {port}: {error}; choose another port or address") from None


def _stop(servers: list[Any], watchdog: threading.Timer) -> None:
    # A release of many reports may go on for longer. It is cut off: a crash there loses nothing either.
    if not watchdog.is_alive():
        watchdog.start()
    for server in servers:
        server.should_exit = True


@asynccontextmanager
async def _running(service: Service) -> AsyncIterator[None]:
    await service.start()
    clocks = [asyncio.create_task(_again(act)) for act in (service.close, service.settle)]
    try:
        yield
    finally:
        for clock in clocks:
            clock.cancel()
        await service.stop()


async def _again(act: Callable[[], Awaitable[None]]) -> None:
    while True:
        await act()
        await asyncio.sleep(_TICK)
