"""A document that anybody may ask for, sent piece by piece, so that slow readers do not hold copies of it."""

from collections.abc import Callable

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

__all__ = ["Document"]

_PIECE = 1 << 16
"""Bytes that are handed to a connection at once; it takes more when those before have gone."""
_MOST_AT_ONCE = 256
"""Readers of a document of more than one piece; a connection buffers up to about 256 KiB for each."""


class Document:
    """Bytes that do not change, as an application that answers with them.

    Parameters
    ----------
    data : bytes
        The bytes.
    media_type : str
        What they are.
    shed : callable
        Returns what to answer if too many read already.
    """

    def __init__(self, data: bytes, media_type: str, shed: Callable[[], Response]) -> None:
        self._data, self._shed = data, shed
        self._headers = [(b"content-length", b"%d" % len(data)), (b"content-type", media_type.encode())]
        self._readers = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the document, or its head alone if that is asked for, at the pace of the reader."""
        long = len(self._data) > _PIECE and scope["method"] != "HEAD"
        if long and self._readers >= _MOST_AT_ONCE:
            await self._shed()(scope, receive, send)
            return
        self._readers += long
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self._headers})
            for start in range(0, len(self._data) if long else 0, _PIECE):
                piece = self._data[start : start + _PIECE]
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"" if long else self._data})
        finally:
            self._readers -= long
