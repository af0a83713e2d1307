"""Answers on the wire: problem+json (RFC 9457), whose detail says what to do, and documents for many readers."""

import json
import random
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

_PIECE = 1 << 16
"""Bytes that are handed to a connection at once; it takes more when those before have gone."""
_MOST_AT_ONCE = 256
"""Readers of a document of more than one piece; a connection buffers up to about 256 KiB for each."""


def problem(status: HTTPStatus, detail: str, *, retry_after: int | None = None, **members: Any) -> Response:
    """Return an answer that says what is wrong, with nothing of the request in `detail`; `members` are for programs.

    `retry_after` is in seconds; up to twice as many are added at random, so that not all who were sent away
    together come back together.
    """
    content = {"type": "about:blank", "title": status.phrase, "status": int(status), "detail": detail, **members}
    headers = {} if retry_after is None else {"Retry-After": str(random.randint(retry_after, 3 * retry_after))}
    return Response(
        json.dumps(content, ensure_ascii=False).encode(), status, headers, media_type="application/problem+json"
    )


class Document:
    """Bytes that do not change, as an application; `shed` makes the answer if too many read them already."""

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
