"""Who may ask: whoever uses this machine by its own name, and no page from elsewhere; and what every answer carries."""

from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shoal.web.reply import refusal

__all__ = ["RequestGuard"]

_HEADERS = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
_METHODS = ("GET", "HEAD", "POST")


class RequestGuard:
    """An application around another one, which lets in only who asks for this machine by its own name.

    A page from elsewhere may know the port, and a name of its own may lead here; then the Host is that name. What a
    browser says of where a request comes from (Origin, Sec-Fetch-Site) must not be another site, unless a person has
    followed a link to the page.

    Parameters
    ----------
    app : ASGIApp
        What is guarded.
    hosts : iterable of str
        What may stand in Host, with the port.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str]) -> None:
        self._app, self._hosts = app, frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        if scope["type"] != "http":
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        wrong = self._objection(scope["method"], scope["path"], Headers(scope=scope))
        if wrong is None:
            await self._app(scope, receive, with_headers)
            return
        status, message = wrong
        reply = refusal(status, message)
        headers = {"allow": ", ".join(_METHODS)} if status == 405 else None
        await Response(reply.body, reply.status, headers, reply.media_type)(scope, receive, with_headers)

    def _objection(self, method: str, path: str, headers: Headers) -> tuple[int, str] | None:
        """Return the status and the words with which a request is refused, or nothing."""
        hosts = [host.lower() for host in headers.getlist("host")]
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return 421, f"this server answers to {', '.join(sorted(self._hosts))} only"
        origins = headers.getlist("origin")
        if any(origin.lower() != f"http://{hosts[0]}" for origin in origins):
            return 403, "pages from elsewhere may not ask this server"
        foreign = headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
        if foreign and not _followed_link(method, path, headers):
            return 403, "pages from elsewhere may not ask this server"
        if method not in _METHODS:
            return 405, f"this server knows {', '.join(_METHODS)} only"
        return None


def _followed_link(method: str, path: str, headers: Headers) -> bool:
    """Tell whether a person goes to the page, in a window of its own; it has an answer in its link at most."""
    modes = headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")
    return method == "GET" and modes == ("navigate", "document") and not path.startswith("/api/")
