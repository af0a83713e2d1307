"""Errors on the wire: problem+json (RFC 9457), with a detail that says what to do."""

import json
import random
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

__all__ = ["problem"]


def problem(status: HTTPStatus, detail: str, *, retry_after: int | None = None, **members: Any) -> Response:
    """Return an answer that says what is wrong.

    Parameters
    ----------
    status : HTTPStatus
        Of HTTP.
    detail : str
        What is wrong and what to do, with nothing of the request in it.
    retry_after : int, optional
        After how many seconds to try again; up to twice as many are added at random, so that not all who were sent away
        together come back together.
    **members : object
        Further facts, for programs.
    """
    content = {"type": "about:blank", "title": status.phrase, "status": int(status), "detail": detail, **members}
    headers = {} if retry_after is None else {"Retry-After": str(random.randint(retry_after, 3 * retry_after))}
    return Response(
        json.dumps(content, ensure_ascii=False).encode(), status, headers, media_type="application/problem+json"
    )
