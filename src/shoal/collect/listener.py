"""A port and all connections to it, counted from the first packet on, so that files are left for everything else."""

import asyncio
import logging
import socket
import ssl
from functools import partial
from typing import Any

from uvicorn import Config
from uvicorn.server import ServerState

from shoal.collect.http_limits import BoundedProtocol
from shoal.collect.log import Log, facts_of

__all__ = ["Listener"]

_HANDSHAKE, _SHUTDOWN = 10.0, 2.0
"""Seconds for the first and the last words of TLS."""
_AT_ONCE = 64
"""Connections that are taken before others are served again."""
_UNSENT = 1 << 16
"""Bytes that the system keeps of answers to a stranger (Linux doubles it); by itself it would keep megabytes."""
_PAUSE = 1.0
_FAREWELL = 0.5


class Listener:
    """Takes connections up to a number; beyond it, whoever has kept us waiting for longest has to go.

    Parameters
    ----------
    config : Config
        The configuration of the application, loaded and without TLS.
    listening : socket.socket
        The socket.
    most : int
        How many connections there may be, those before their handshake included.
    log : Log
        Where trouble is logged.
    tls : ssl.SSLContext or None
        The TLS context of new connections; None for a listener behind a proxy. It may be replaced at any time.
    known : bool
        Whether those who have finished the handshake are known, and nobody has to go for a stranger.
    """

    def __init__(
        self,
        config: Config,
        listening: socket.socket,
        most: int,
        log: Log,
        *,
        tls: ssl.SSLContext | None,
        known: bool = False,
    ) -> None:
        self._config, self._socket, self._most, self._log, self._known = config, listening, most, log, known
        self.tls = tls
        self._state = ServerState()
        self._open: set[BoundedProtocol] = set()
        self._waiting: dict[BoundedProtocol, None] = {}
        self._reading = False
        self._loop: asyncio.AbstractEventLoop

    def start(self) -> None:
        """Take connections, in the loop that runs."""
        self._loop = asyncio.get_running_loop()
        self._socket.setblocking(False)
        if not self._known:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _UNSENT)  # connections inherit it
        self._read()

    def _read(self) -> None:
        if not self._reading and self._socket.fileno() >= 0:
            self._reading = True
            self._loop.add_reader(self._socket, self._accept)

    def _pause(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._socket)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            if len(self._open) >= self._most and not self._make_room():
                self._pause()  # until somebody leaves
                return
            try:
                line, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._log.count(logging.ERROR, "accept", **facts_of(error))
                self._pause()
                self._loop.call_later(_PAUSE, self._read)
                return
            self._admit(line)

    def _make_room(self) -> bool:
        """End the connection that has kept us waiting for longest, and return whether there is one."""
        oldest = next(iter(self._waiting), None)
        if oldest is None:
            return False
        self._log.count(logging.WARNING, "crowded", connections=self._most)
        self.left(oldest)
        if oldest.beginning is not None:
            oldest.beginning.cancel()
        else:
            oldest.transport.abort()
        return True

    def _admit(self, line: socket.socket) -> None:
        connection = BoundedProtocol(self._config, self._state, {}, self._loop)
        connection.door = self
        self._open.add(connection)
        self._waiting[connection] = None
        limits = {"ssl_handshake_timeout": _HANDSHAKE, "ssl_shutdown_timeout": _SHUTDOWN}
        tls: dict[str, Any] = {} if self.tls is None else {"ssl": self.tls, **limits}
        begun = self._loop.connect_accepted_socket(lambda: connection, line, **tls)
        connection.beginning = self._loop.create_task(begun)  # type: ignore[arg-type]
        connection.beginning.add_done_callback(partial(self._begun, connection, line))

    def _begun(self, connection: BoundedProtocol, line: socket.socket, begun: "asyncio.Task[None]") -> None:
        connection.beginning = None
        error = None if begun.cancelled() else begun.exception()
        if error is not None:
            self._log.count(logging.WARNING, "handshake")
        if begun.cancelled() or error is not None:
            line.close()
            self.left(connection)
        elif self._known:
            self._waiting.pop(connection, None)

    def busy(self, connection: BoundedProtocol) -> None:
        """Note that somebody waits for an answer of ours: they need not go."""
        self._waiting.pop(connection, None)

    def idle(self, connection: BoundedProtocol) -> None:
        """Note that they have it, and we wait for them, from now on."""
        if not self._known and connection in self._open:
            self._waiting.pop(connection, None)
            self._waiting[connection] = None
        if not self._reading:
            self._read()

    def left(self, connection: BoundedProtocol) -> None:
        """Note that a connection is over."""
        self._open.discard(connection)
        self._waiting.pop(connection, None)
        if not self._reading:
            self._read()

    def refused(self) -> None:
        """Note that something came that is no request."""
        self._log.count(logging.WARNING, "no-request")

    async def stop(self, seconds: float) -> None:
        """Take no more connections, answer what was asked, for so long, and end all."""
        self._pause()
        self._socket.close()
        for connection in list(self._open):
            if connection.beginning is not None:
                connection.beginning.cancel()
            else:
                connection.shutdown()
        begun = self._loop.time()
        while self._open and self._loop.time() < begun + seconds:
            await asyncio.sleep(0.05)
            if self._loop.time() > begun + _FAREWELL:
                self._abort(answered=True)
        self._abort(answered=False)
        await asyncio.sleep(0)

    def _abort(self, *, answered: bool) -> None:
        """End connections, or only those that wait for nothing but the other side's last word of TLS."""
        for one in list(self._open):
            if one.beginning is None and (not answered or one.cycle is None or one.cycle.response_complete):
                one.transport.abort()
