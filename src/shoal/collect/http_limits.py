"""HTTP of which everything is short and comes in time: else anybody could hold memory and connections."""

import asyncio
from asyncio import Handle, Transport
from collections.abc import Callable
from http import HTTPStatus
from typing import Protocol

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from shoal.collect.problem import problem

__all__ = ["BoundedProtocol", "Door"]

_MOST_BYTES, _MOST_FIELDS = 1 << 13, 64
"""Of a request without its body: the head, trailers and what frames chunks."""
_MOST_AHEAD = 8
"""Requests that are sent before the one before them is answered."""
_PIECE, _BODY_PIECE = 1 << 12, 1 << 16
"""Bytes that are parsed at once, so that what is too long is noticed soon; in a body it is looked for less often."""
_MOST_UNSENT = 1 << 16
"""Bytes of answers that wait to be sent, beyond which no more are taken; over TLS it would be half a megabyte."""
_SECONDS = 30.0
"""In which a request must have come, and an answer gone."""
_LINGER = 2.0
"""Seconds in which the rest of a request may come that is answered already: a client that sends does not read yet."""
_REST_OF_BODY, _REST = 1 << 25, 1 << 20
"""Bytes of it, if it is the body of a request, or of what is none."""
_TOO_LONG = f"The head of a request, with trailers, has at most {_MOST_BYTES} bytes and {_MOST_FIELDS} fields."
_NO_HTTP = "This is no request of HTTP/1.1."


class Door(Protocol):
    """Where connections come in, and what it wants to know of each."""

    def busy(self, connection: "BoundedProtocol") -> None:
        """Note that somebody waits for an answer of ours."""

    def idle(self, connection: "BoundedProtocol") -> None:
        """Note that they have it, and we wait for them."""

    def left(self, connection: "BoundedProtocol") -> None:
        """Note that a connection is over."""

    def refused(self) -> None:
        """Note that something came that is no request."""


class _TooLongError(Exception):
    """A part of a request that is longer than any client's."""


class BoundedProtocol(HttpToolsProtocol):
    """A connection that is closed if a request is longer, or takes longer, than any client's."""

    door: Door | None = None
    beginning: "asyncio.Task[None] | None" = None
    """What is under way before there is a transport: the handshake of TLS."""
    _waiting: Handle | None = None
    _stuck: Handle | None = None
    _in_head = _in_request = _over = False
    _beside = _body = _fields = _fed = _unread = 0

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Wait for the first request, but not for ever."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=_MOST_UNSENT)
        self._wait(_SECONDS, transport.close)

    def data_received(self, data: bytes) -> None:
        """Read on, piece by piece, unless this request is too long or none."""
        self._unset_keepalive_if_required()
        in_body = self._in_request and not self._in_head
        if self._over or (in_body and self.cycle.response_complete):
            self._unread += len(data)
            if self._unread > (_REST if self._over else _REST_OF_BODY):
                self.transport.abort()
                return
        start = 0
        while start < len(data) and not self._over:
            end = start + (_BODY_PIECE if self._in_request and not self._in_head else _PIECE)
            self._feed(data[start:end] if start or end < len(data) else data)
            start = end
        if self._over:
            return
        answering = not self._in_request and self.cycle is not None and not self.cycle.response_complete
        if not answering and self._waiting is None and self.timeout_keep_alive_task is None:
            self._wait(_SECONDS, self.transport.close)

    def _feed(self, piece: bytes) -> None:
        self._fed = len(piece)
        self._beside += len(piece)
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            self._over = True  # the answer is all that they get: whatever follows is not HTTP
            self.cycle.keep_alive = False
        except httptools.HttpParserError as error:
            long = isinstance(error.__context__, _TooLongError)
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE if long else HTTPStatus.BAD_REQUEST)
        else:
            if self._beside > _MOST_BYTES + self._body:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def _refuse(self, status: HTTPStatus) -> None:
        """Say what is wrong, take nothing more, and end the connection as soon as they can have read it."""
        self._over = True
        self._rest()
        if self.door is not None:
            self.door.refused()
        cycle, ahead = self.cycle, bool(self.pipeline)
        if cycle is not None and not cycle.response_complete:
            ahead = ahead or cycle.response_started
            cycle.disconnected = True  # nothing is answered after this, or stored of what was half sent
            cycle.message_event.set()
        if ahead:
            self.transport.abort()
            return
        answer = problem(status, _NO_HTTP if status == HTTPStatus.BAD_REQUEST else _TOO_LONG)
        lines = [f"HTTP/1.1 {status.value} {status.phrase}".encode(), b"connection: close"]
        lines += [name + b": " + value for name, value in answer.raw_headers]
        self.transport.write(b"\r\n".join([*lines, b"", bytes(answer.body)]))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._wait(_LINGER, self.transport.abort)

    def on_message_begin(self) -> None:
        """Note that a head begins."""
        self._in_head = self._in_request = True
        self._beside, self._body, self._fields, self._unread = self._fed, 0, 0, 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a field; one that follows the body is not kept."""
        self._fields += 1
        if self._fields > _MOST_FIELDS:
            raise _TooLongError
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Note that the head has ended."""
        self._in_head = False
        if len(self.pipeline) >= _MOST_AHEAD:
            raise _TooLongError
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Count the body apart from what is around it."""
        self._beside -= len(body)
        self._fed -= len(body)
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that all of a request has come."""
        self._in_request = False
        self._rest()
        super().on_message_complete()
        if self.door is not None and not self.cycle.response_complete:
            self.door.busy(self)

    def on_response_complete(self) -> None:
        """Wait for the next request; not for long for the rest of one that is answered already."""
        super().on_response_complete()
        if self._in_request and not self.pipeline and not self.transport.is_closing():
            self._rest()
            self._wait(_LINGER, self.transport.abort)
        if self.door is not None:
            self.door.idle(self)

    def pause_writing(self) -> None:
        """Wait until they have read, but not for ever."""
        super().pause_writing()
        if self._stuck is None:
            self._stuck = self.loop.call_later(_SECONDS, self.transport.abort)
        if self.door is not None:
            self.door.idle(self)

    def resume_writing(self) -> None:
        """Go on."""
        self._unstick()
        super().resume_writing()
        if self.door is not None and self.cycle is not None and not self.cycle.response_complete:
            self.door.busy(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._rest()
        self._unstick()
        super().connection_lost(exc)
        if self.door is not None:
            self.door.left(self)

    def _wait(self, seconds: float, end: Callable[[], None]) -> None:
        self._waiting = self.loop.call_later(seconds, end)

    def _rest(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _unstick(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None
