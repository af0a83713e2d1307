"""HTTP whose heads are short and whose requests come in time: else anybody could hold memory and connections."""

from asyncio import Handle, Transport

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["BoundedProtocol"]

_MOST_HEAD = 1 << 16
_SECONDS = 30.0


class BoundedProtocol(HttpToolsProtocol):
    """A connection that is closed if the head of a request is longer, or all of it takes longer, than any client's."""

    _waiting: Handle | None = None
    _in_head = _in_request = False
    _size = 0

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Wait for the first request, but not for ever."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Read on, unless this head is too long."""
        super().data_received(data)
        if self._in_head:
            self._size += len(data)
            if self._size > _MOST_HEAD:
                self.transport.close()
        if self._in_request and self._waiting is None:
            self._wait()

    def on_message_begin(self) -> None:
        """Note that a head begins."""
        self._in_head = self._in_request = True
        self._size = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Note that it has ended."""
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Note that the body has, too."""
        self._in_request = False
        self._rest()
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._rest()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(_SECONDS, self.transport.close)

    def _rest(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
