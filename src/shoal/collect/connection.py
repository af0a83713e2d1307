"""A connection to the shuffler: HTTP/1.1 that is kept alive, always over TLS unless it stays on this machine."""

import errno
import http.client
import ipaddress
import json
import os
import re
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self
from urllib.parse import SplitResult, urlsplit

from shoal.errors import (
    CollectError,
    DamagedError,
    FormatError,
    ParameterError,
    ShoalError,
    StorageError,
    TryAgainError,
    WrongKeyError,
)

_LARGEST_ANSWER = 1 << 24
"""The most bytes of an answer other than a task: a signed list of prefixes. A batch is downloaded, not answered."""
_WHOLE = 10
"""A whole exchange may last this many times as long as one silence, so that no server can hold a client for ever."""
_SLOWEST = 1 << 14
"""Bytes per second below which a download is given up."""
_AT_ONCE = 1 << 20
_MOST_TOLD = 500
_LAST_PORT = 65535
_PORT = re.compile(r":([0-9]+)$")
_DEAD = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError, ssl.SSLEOFError)
_ASKED = re.compile("CERTIFICATE_REQUIRED|UNKNOWN_CA|BAD_CERTIFICATE|HANDSHAKE_FAILURE|ACCESS_DENIED")
"""Reasons, as OpenSSL names them, for which a server hangs up on a client without the right certificate."""


@dataclass(frozen=True)
class Answer:
    """What came back: a status, headers with their names in small letters, and a body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def member(self, name: str) -> object:
        """Return a member of a JSON body, or None if there is none."""
        with suppress(ValueError, RecursionError):
            content = json.loads(self.body)
            return content.get(name) if isinstance(content, dict) else None
        return None

    def problem(self) -> str:
        """Return what is wrong in the words of the other side, fit to be printed."""
        detail = self.member("detail") or self.member("title")
        if not isinstance(detail, str):
            return f"status {self.status} {http.client.responses.get(self.status, '')}".strip()
        return "".join(letter if letter.isprintable() else " " for letter in detail[:_MOST_TOLD]).rstrip(". ")


class Connection:
    """Requests to one server, one after the other; each thread needs one of its own.

    A certificate that does not verify ends everything; there is no way to go on without. A request on a connection that
    the server has closed in the meantime is sent once more, on a new one: whatever this protocol asks can be asked
    twice.

    Parameters
    ----------
    url : str
        Such as https://shuffler.example.org:8440; ``http://`` is for this machine only.
    ca : Path, optional
        A file of certificates that are trusted, such as the shuffler's own shuffler-tls.crt, and no others; if not
        given, those that the system trusts.
    certificate : Path, optional
        The analyst's certificate, where the server asks for one.
    key : Path, optional
        Its private key.
    timeout : float
        The number of seconds that the server may keep silent. A whole request may take ten times as long.
    """

    def __init__(
        self,
        url: str,
        ca: Path | None = None,
        certificate: Path | None = None,
        key: Path | None = None,
        timeout: float = 30.0,
    ) -> None:
        parts = _parsed(url)
        self.url = url.rstrip("/")
        self._prefix = parts.path.rstrip("/")
        self._certified = certificate is not None
        self._timeout = timeout
        self._socket: socket.socket | None = None
        host = parts.hostname or ""
        self._http: http.client.HTTPConnection
        if parts.scheme == "https":
            context = _context(ca, certificate, key)
            self._http = http.client.HTTPSConnection(host, parts.port, timeout=timeout, context=context)
        else:
            if not _stays_here(host):
                raise ParameterError(
                    f"{url} is not encrypted, and {host} is another machine: whoever listens would learn who reports, "
                    "and when. Use https://"
                )
            if ca or certificate or key:
                raise ParameterError(f"certificates are for https://, and {url} is not")
            self._http = http.client.HTTPConnection(host, parts.port, timeout=timeout)

    def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        most: int = _LARGEST_ANSWER,
    ) -> Answer:
        """Send a request and return the answer, whatever its status.

        Parameters
        ----------
        method : str
            GET or POST.
        path : str
            From the root of the protocol, such as /v1/tasks/….
        body : bytes
            What to send.
        headers : dict, optional
            To send besides the usual ones.
        most : int
            The most bytes that the answer may have.
        """
        limit = _WHOLE * self._timeout + len(body) / _SLOWEST
        with self._explained(), self._response(method, path, body, headers or {}, limit) as response:
            content = response.read(most + 1)
            if len(content) > most:
                raise CollectError(f"{self.url} answers with more than {most:,} bytes; it is not a shuffler")
            _check_end(response)
            return _answer(response, content)

    def download(self, path: str, file: BinaryIO, size: int) -> None:
        """Write the body of an answer into a file, piece by piece; no more is read than it should have.

        Parameters
        ----------
        path : str
            From the root of the protocol.
        file : BinaryIO
            To write into.
        size : int
            How many bytes the body has; if it has more or fewer, `DamagedError` is raised.
        """
        limit = _WHOLE * self._timeout + size / _SLOWEST
        with self._explained(), self._response("GET", path, b"", {}, limit) as response:
            if response.status != http.client.OK:
                answer = _answer(response, response.read(_AT_ONCE))
                raise CollectError(f"{self.url} does not hand over {path}: {answer.problem()}")
            left, stated = size, response.length
            while left and (part := response.read(min(left, _AT_ONCE))):
                left -= len(part)
                try:
                    file.write(part)
                except OSError as error:
                    raise StorageError(f"cannot keep what {self.url} sends: {error.strerror}", error) from error
            more = bool(response.read(1)) if not left else False
            if more or (left and stated is not None and stated < size):
                sent = f"{stated:,}" if stated is not None else "more" if more else f"{size - left:,}"
                raise DamagedError(
                    f"{self.url} sends {sent} bytes for {path}, and {size:,} were signed: it is not the batch that the "
                    "manifest states; nothing was kept"
                )
            _check_end(response)

    def close(self) -> None:
        """End the connection; the next request makes a new one."""
        self._http.close()

    def __enter__(self) -> Self:
        """Return the connection itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the connection."""
        self.close()

    @contextmanager
    def _response(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str], limit: float
    ) -> Iterator[http.client.HTTPResponse]:
        """Send a request and lend its response, for at most `limit` seconds in all."""
        expired = threading.Event()
        timer = threading.Timer(limit, self._cut, [expired])
        timer.daemon = True
        timer.start()
        try:
            # A second attempt tells a server that has just ended, which then cannot be reached, from one that does
            # not accept the certificate, which hangs up again.
            twice = self._http.sock is not None or self._certified
            try:
                response = self._sent(method, path, body, headers)
            except _DEAD:
                if not twice or expired.is_set():
                    raise
                self._http.close()
                response = self._sent(method, path, body, headers)
            yield response
            if not response.isclosed():
                self._http.close()  # something was left unread, and the next answer would begin with it
        finally:
            timer.cancel()
            if expired.is_set():  # whatever came of it: an error, or an answer that ends where it was cut off
                raise TryAgainError(f"{self.url} took longer than {limit:,.0f} seconds; try again later")

    def _cut(self, expired: threading.Event) -> None:
        """End the connection from another thread; the one that waits for it then sees that it is closed."""
        expired.set()
        if self._socket is not None:
            with suppress(OSError):
                # Below TLS, whose own shutdown waits for the server.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def _sent(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> http.client.HTTPResponse:
        if self._http.sock is None:
            self._http.connect()
        # `_http` lets go of its socket once it has read a head that says that the connection ends with the answer.
        self._socket = self._http.sock
        self._http.request(method, self._prefix + path, body or None, dict(headers))
        return self._http.getresponse()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn all trouble on the way into one line that says what to do."""
        try:
            yield
        except BaseException as error:
            self._http.close()  # whatever happened, the next request must not read what is left of this one
            problem = _trouble(self.url, error, self._certified)
            if problem is None:
                raise
            raise problem from error


def _parsed(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        digits = _PORT.search(parts.netloc)
        if digits is not None and (len(digits[1].lstrip("0")) > 5 or int(digits[1]) > _LAST_PORT):
            raise ParameterError(f"the port in {url} is too large; ports end at {_LAST_PORT}")
        port_is_fine = parts.port != 0
    except ParameterError:
        raise
    except ValueError:
        parts, port_is_fine = urlsplit(""), False
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or not port_is_fine
        or parts.username is not None
        or parts.query
        or parts.fragment
        or not (url.isascii() and url.isprintable() and " " not in url)
    ):
        raise ParameterError(f"the address must look like https://shuffler.example.org:8440, got {url!r}")
    return parts


def _stays_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _context(ca: Path | None, certificate: Path | None, key: Path | None) -> ssl.SSLContext:
    if (certificate is None) != (key is None):
        raise ParameterError("a certificate needs its private key, and the key its certificate: give both or neither")
    if ca is not None and not ca.is_file():
        message = f"there is no certificate file {ca}; give the shuffler's, as its operator handed it over"
        raise StorageError(message, FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(ca)))
    try:
        context = ssl.create_default_context(cafile=ca)
    except (OSError, ValueError):
        raise FormatError(f"{ca} holds no certificate; give the shuffler's, such as shuffler-tls.crt") from None
    if certificate is not None and key is not None:
        try:
            context.load_cert_chain(certificate, key)
        except (OSError, ValueError):
            raise WrongKeyError(
                f"{certificate} and {key} are no certificate with its private key; `shoal keygen analyst` makes both"
            ) from None
    return context


def _check_end(response: http.client.HTTPResponse) -> None:
    """Notice a body that ends too early, about which `read` keeps silent if it is given a size."""
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)


def _answer(response: http.client.HTTPResponse, body: bytes) -> Answer:
    return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, body)


def _trouble(url: str, error: BaseException, certified: bool) -> CollectError | None:
    """Return what to say about an error on the way, or None if it is of another kind. Analysts are `certified`."""
    if isinstance(error, ShoalError):
        return None
    own = (
        "The analyst's address lets in the analyst's certificate alone: check --certificate and --certificate-key"
        if certified
        else "If this is the analyst's port, it lets in the analyst's certificate alone: reports go to the other port, "
        "usually 8440"
    )
    if isinstance(error, ssl.SSLCertVerificationError):
        return CollectError(
            f"{url} does not prove that it is the shuffler: {error.verify_message}. Nothing was sent. Get the right "
            "certificate from whoever runs it, and give it as --ca"
        )
    if isinstance(error, (*_DEAD, http.client.BadStatusLine)) and url.startswith("http://"):
        return TryAgainError(f"{url} hung up without an answer; it may speak https://, else try again")
    if isinstance(error, _DEAD):
        kind = CollectError if certified else TryAgainError
        return kind(f"{url} hung up without an answer; try again. {own}")
    if isinstance(error, ssl.SSLError):
        why = (error.reason or str(error)).replace("_", " ").lower()
        if _ASKED.search(error.reason or ""):
            return CollectError(f"{url} does not accept this client: {why}. {own}")
        return CollectError(f"no TLS with {url}: {why}. Check the address and the port; it must be a TLS server")
    if isinstance(error, TimeoutError):
        return TryAgainError(f"{url} keeps silent; try again, or ask whoever runs it")
    if isinstance(error, http.client.HTTPException):
        return TryAgainError(
            f"{url} broke off, or does not speak HTTP ({error!r:.100}); try again, and check the address"
        )
    if isinstance(error, OSError) and error.filename is None:
        why = error.strerror or str(error)
        return TryAgainError(f"cannot reach {url}: {why}; check the address, and that the shuffler runs")
    return None
