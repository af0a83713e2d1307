"""The running shuffler: two listeners and a clock in one process."""

import asyncio
import logging
import os
import signal
import socket
import ssl
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from shoal.collect.log import LOGGER, Log, facts_of, handler
from shoal.collect.service import Service
from shoal.collect.tokens import TokenFiles, WatchedFiles
from shoal.errors import MissingExtraError, ParameterError, ShoalError

_MOST_CONNECTIONS, _FEW_CONNECTIONS, _LEAST_CONNECTIONS = 20_000, 10_000, 64
"""How many are wanted, how few are worth a warning, and with how few there is no use in starting."""
ANALYST_CONNECTIONS = 32
_RESERVE = 2 * ANALYST_CONNECTIONS + 200 + 56
"""For the analyst, each of whose connections reads a batch; for the buckets of a release; and for the store."""


_TICK = 0.5
_LOOK = 2.0
"""Seconds after which the files of tokens and certificates are looked at again."""
_GRACE = 3
"""Seconds that requests get to end when the process is to end."""
_BACKLOG = 2048
_LATE = 0.01
"""Seconds after the turn of a minute, since a timer may be a millisecond early."""


def check_system() -> None:
    """Refuse a system on which the shuffler cannot keep its promises: Windows lacks its signals and limits."""
    if sys.platform == "win32":
        raise ParameterError(
            "the shuffler runs on Linux and macOS, and not on Windows; run it there, in a container, or in the Windows "
            "Subsystem for Linux. People can report from Windows, and every number can be asked for there"
        )


def public_connections(log: Log) -> int:
    """Raise the limit on open files as far as it goes, and return how many of them may be connections of strangers."""
    import resource

    wanted = _MOST_CONNECTIONS + _RESERVE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    if soft != unlimited and soft < wanted:
        soft = wanted if hard == unlimited else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    room = _MOST_CONNECTIONS if soft == unlimited else min(_MOST_CONNECTIONS, soft - _RESERVE)
    if room < _LEAST_CONNECTIONS:
        raise ParameterError(
            f"no more than {soft:,} files may be open here, and the shuffler needs {_RESERVE + _LEAST_CONNECTIONS:,} "
            f"at least; raise the hard limit to {wanted:,} (`ulimit -Hn`, or LimitNOFILE= of systemd)"
        )
    if room < _FEW_CONNECTIONS:
        log.tell(
            logging.WARNING,
            "few-files",
            files=soft,
            connections=room,
            detail=f"the hard limit on open files allows no more connections; {wanted} is enough (LimitNOFILE=)",
        )
    return room


@dataclass(frozen=True, kw_only=True)
class Listeners:
    """Where the shuffler listens.

    Attributes
    ----------
    host : str
        The address for both.
    port : int
        For everybody; 0 takes a free one.
    analyst_port : int
        For the analyst, by mutual TLS; 0 takes a free one.
    tls_certificate, tls_key : Path
        By which the shuffler is known.
    analyst_certificate : Path
        The only one that the analyst's listener lets in.
    behind_proxy : bool
        Whether a proxy on this machine ends TLS for everybody; then the public listener has none, and must be on a
        loopback address.
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

    def contexts(self) -> tuple[ssl.SSLContext | None, ssl.SSLContext]:
        """Return the TLS contexts of the public and of the analyst's listener, from the files as they are now."""
        try:
            public, private = (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) for _ in range(2))
            for context in (public, private):
                context.load_cert_chain(self.tls_certificate, self.tls_key)
            private.load_verify_locations(self.analyst_certificate)
            private.verify_mode = ssl.CERT_REQUIRED
        except (ssl.SSLError, OSError) as error:
            raise ParameterError(
                f"the certificates and keys for TLS do not work: {error}; `shoal keygen` makes some"
            ) from None
        return None if self.behind_proxy else public, private


def _loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def serve(
    service: Service,
    listeners: Listeners,
    *,
    ready: Callable[[int, int], None] | None = None,
    tokens: TokenFiles | None = None,
) -> None:
    """Serve until a signal says to end, and then end within a few seconds.

    Parameters
    ----------
    service : Service
        What to serve.
    listeners : Listeners
        Where.
    ready : callable, optional
        Is called with the two ports, which both listen.
    tokens : TokenFiles, optional
        The files of the tokens of those who may send. They and the certificates are read again when they change, and
        at SIGHUP.
    """
    check_system()
    try:
        import uvloop
        from uvicorn import Config

        from shoal.collect.listener import Listener
    except ImportError:
        raise MissingExtraError('the shuffler needs uvicorn and uvloop: pip install "shoal-dp[collect]"') from None
    common: dict[str, Any] = {
        "ws": "none",
        "lifespan": "off",
        "access_log": False,  # it would hold addresses
        "log_config": None,
        "proxy_headers": False,
        "server_header": False,
        "date_header": False,
    }
    public, private = Config(service.public, **common), Config(service.analyst, **common)
    public.load()
    private.load()
    certificates = WatchedFiles((listeners.tls_certificate, listeners.tls_key, listeners.analyst_certificate))
    contexts = listeners.contexts()

    watchdog = threading.Timer(_GRACE + 1.5, os._exit, [0])
    watchdog.daemon = True

    async def run() -> None:
        loop, ending = asyncio.get_running_loop(), asyncio.Event()
        loop.set_exception_handler(partial(_unforeseen, service.log))
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, ending.set)
        doors = [
            Listener(public, sockets[0], room, service.log, tls=contexts[0]),
            Listener(private, sockets[1], ANALYST_CONNECTIONS, service.log, tls=contexts[1], known=True),
        ]

        def renew() -> None:
            doors[0].tls, doors[1].tls = replace(listeners).contexts()

        reloads = [_Reload("certificates", certificates, renew)]
        if tokens is not None:
            reloads.append(_Reload("tokens", tokens.files, lambda: service.admit(tokens.read())))
        async with _running(service, reloads):
            for door in doors:
                door.start()
            if ready is not None:
                ready(sockets[0].getsockname()[1], sockets[1].getsockname()[1])
            await ending.wait()
            # A release of many reports may go on for longer. It is cut off: a crash there loses nothing either.
            watchdog.start()
            await asyncio.gather(*(door.stop(_GRACE) for door in doors))

    with _logging(service.log), ExitStack() as stack:
        room = public_connections(service.log)
        sockets = [
            stack.enter_context(_listening(listeners.host, port)) for port in (listeners.port, listeners.analyst_port)
        ]
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run())
        watchdog.cancel()


@contextmanager
def _logging(log: Log) -> Iterator[None]:
    """Write the log on standard error in this block, and of what libraries log only that they did."""
    handlers = {logging.getLogger(name): one for name, one in handler(log).items()}
    before = [(logger, logger.level, logger.propagate) for logger in handlers]
    for logger, one in handlers.items():
        logger.addHandler(one)
        logger.setLevel(logging.INFO if logger is LOGGER else logging.WARNING)
        logger.propagate = False
    try:
        yield
    finally:
        for logger, level, propagate in before:
            logger.removeHandler(handlers[logger])
            logger.setLevel(level)
            logger.propagate = propagate


def _unforeseen(log: Log, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    log.count(logging.ERROR, "loop", **(facts_of(error) if error is not None else {}))


def _listening(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=_BACKLOG
        )
    except (OSError, OverflowError) as error:
        raise ParameterError(f"cannot listen on {host}, port {port}: {error}; choose another port or address") from None


@dataclass(frozen=True)
class _Reload:
    """Files that are read again when they change and at SIGHUP; `read` applies them all, or raises `ShoalError`."""

    event: str
    files: WatchedFiles
    read: Callable[[], None]


@asynccontextmanager
async def _running(service: Service, reloads: Sequence[_Reload]) -> AsyncIterator[None]:
    await service.start()
    wanted = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, wanted.set)
    clocks = [asyncio.create_task(_again(act)) for act in (service.close, service.settle)]
    clocks.append(asyncio.create_task(_each_minute(service.log.flush)))
    clocks.append(asyncio.create_task(_reloading(service.log, reloads, wanted)))
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


async def _each_minute(act: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(60 - time.time() % 60 + _LATE)
        act()


async def _reloading(log: Log, reloads: Sequence[_Reload], wanted: asyncio.Event) -> None:
    """Read files again when they change or when `wanted` is set. Files that cannot be used change nothing."""
    while True:
        with suppress(TimeoutError):
            await asyncio.wait_for(wanted.wait(), _LOOK)
        asked = wanted.is_set()
        wanted.clear()
        for each in reloads:
            if not asked and not each.files.changed:
                continue
            each.files.note()
            try:
                await asyncio.get_running_loop().run_in_executor(None, each.read)
            except ShoalError as error:
                log.tell(logging.ERROR, each.event, detail=f"the previous ones stay in use: {error}")
            else:
                log.tell(logging.INFO, each.event, detail="the files were read again")
