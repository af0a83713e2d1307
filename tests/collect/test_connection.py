"""The connection to a real TLS server on loopback: it is kept, it verifies, and it never does without."""

import errno
import io
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shoal.collect.connection import Answer, Connection
from shoal.collect.keys import make_analyst_keys, make_shuffler_keys
from shoal.errors import (
    CollectError,
    DamagedError,
    FormatError,
    ParameterError,
    StorageError,
    TryAgainError,
    WrongKeyError,
)
from tests.collect.small_server import Asked, Said, SmallServer, small_server

Keys = dict[str, Path]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return make_shuffler_keys(tmp_path_factory.mktemp("keys"), ["127.0.0.1"])


@pytest.fixture(scope="module")
def analyst(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return make_analyst_keys(tmp_path_factory.mktemp("analyst"))


def echo(asked: Asked) -> Said:
    return Said(body=asked.method.encode() + b" " + asked.path.encode() + b" " + asked.body)


@contextmanager
def served(answer: Callable[[Asked], Said], keys: Keys) -> Iterator[tuple[SmallServer, Connection]]:
    """Serve by TLS, and connect."""
    with (
        small_server(answer, keys) as server,
        Connection(f"https://127.0.0.1:{server.port}", keys["tls_certificate"]) as to,
    ):
        yield server, to


@pytest.fixture
def silent() -> Iterator[int]:
    """Give the port of somebody who listens and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_one_connection_serves_many_requests(keys: Keys) -> None:
    with served(echo, keys) as (server, to):
        for number in range(5):
            answer = to.request("POST", f"/v1/{number}", b"body")
            assert (answer.status, answer.body) == (200, f"POST /v1/{number} body".encode())
        file = io.BytesIO()
        to.download("/v1/batch", file, 14)
        assert file.getvalue() == b"GET /v1/batch "
    assert len({asked.connection for asked in server.asked}) == 1
    assert set(server.asked[0].headers) == {"host", "accept-encoding", "content-length"}  # nothing tells whose it is


def test_a_connection_that_was_closed_is_made_again(keys: Keys) -> None:
    def once(asked: Asked) -> Said:
        return Said(body=b"fine", lost=asked.path == "/lost" and [a.path for a in server.asked].count("/lost") == 1)

    with served(once, keys) as (server, to):
        assert to.request("GET", "/first").body == b"fine"
        assert to.request("GET", "/lost").body == b"fine"
        assert [asked.path for asked in server.asked] == ["/first", "/lost", "/lost"]
        server.answer = lambda _: Said(lost=True)
        with pytest.raises(CollectError, match="hung up without an answer; try again"):
            to.request("GET", "/gone")
        assert len(server.asked) == 5  # once more, and not for ever


@pytest.mark.parametrize(
    ("tls", "begun"),
    [
        (True, b"HTTP/1.1 200 OK\r\nX-Long: "),
        (False, b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"),
        (True, b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\nConnection: close\r\n\r\n"),
        (False, b"HTTP/1.0 200 OK\r\n\r\n"),
    ],
    ids=["head", "body", "last-answer", "old-http"],
)
def test_a_server_that_drips_is_given_up(keys: Keys, tls: bool, begun: bytes) -> None:
    """A byte now and then breaks no limit of silence, but the whole exchange has a limit, too."""
    with small_server(lambda _: Said(drips=begun), keys if tls else None) as server:
        url = f"{'https' if tls else 'http'}://127.0.0.1:{server.port}"
        with Connection(url, keys["tls_certificate"] if tls else None, timeout=0.2) as to:
            start = time.monotonic()
            with pytest.raises(TryAgainError, match="took longer than 2 seconds"):
                to.request("GET", "/")
            assert time.monotonic() - start < 6
            server.answer = echo
            assert to.request("GET", "/").status == 200  # by another connection


@pytest.mark.parametrize("path", ["", "/shuffler", "/shuffler/"])
def test_a_path_in_the_address_is_kept(keys: Keys, path: str) -> None:
    with (
        small_server(echo, keys) as server,
        Connection(f"https://127.0.0.1:{server.port}{path}", keys["tls_certificate"]) as to,
    ):
        assert to.request("GET", "/v1").body == f"GET {path.rstrip('/')}/v1 ".encode()


def test_another_certificate_is_refused_and_nothing_is_sent(keys: Keys, tmp_path: Path) -> None:
    other = make_shuffler_keys(tmp_path, ["127.0.0.1"])
    with small_server(echo, keys) as server:
        for ca in (other["tls_certificate"], None):
            with pytest.raises(CollectError, match=r"does not prove that it is the shuffler.*Nothing was sent.*--ca"):
                Connection(f"https://127.0.0.1:{server.port}", ca).request("GET", "/")
        with pytest.raises(CollectError, match="does not prove"):  # the certificate is for 127.0.0.1 alone
            Connection(f"https://localhost:{server.port}", keys["tls_certificate"]).request("GET", "/")
    assert server.asked == []


def test_a_server_without_tls_is_refused(keys: Keys) -> None:
    with small_server(echo, None) as server:
        with pytest.raises(CollectError, match="no TLS with"):
            Connection(f"https://127.0.0.1:{server.port}", keys["tls_certificate"]).request("GET", "/")
        assert server.asked == []
        with Connection(f"http://127.0.0.1:{server.port}") as to:
            assert to.request("GET", "/").status == 200


def test_plain_http_to_a_tls_server_says_so(keys: Keys) -> None:
    with small_server(echo, keys) as server, pytest.raises(TryAgainError, match="may speak https://"):
        Connection(f"http://127.0.0.1:{server.port}").request("GET", "/")
    assert server.asked == []


def test_mutual_tls(keys: Keys, analyst: Keys, tmp_path: Path) -> None:
    other = make_analyst_keys(tmp_path)
    with small_server(echo, keys, client=analyst["tls_certificate"]) as server:
        url, ca = f"https://127.0.0.1:{server.port}", keys["tls_certificate"]
        with Connection(url, ca, analyst["tls_certificate"], analyst["tls_key"]) as to:
            assert to.request("GET", "/").status == 200
        for pair, told in (
            ((None, None), "reports go to the other port"),
            ((other["tls_certificate"], other["tls_key"]), "check --certificate and --certificate-key"),
        ):
            with pytest.raises(CollectError, match=f"lets in the analyst's certificate alone: {told}"):
                Connection(url, ca, *pair).request("GET", "/")
    assert len(server.asked) == 1


def test_a_shuffler_that_ends_meanwhile_is_not_a_wrong_certificate(keys: Keys, analyst: Keys) -> None:
    """The analyst is told to try again, and not to look for another certificate."""
    with small_server(echo, keys, client=analyst["tls_certificate"]) as server:

        def end(_: Asked) -> Said:
            server.stop_listening()
            return Said(lost=True)

        server.answer = end
        url = f"https://127.0.0.1:{server.port}"
        pair = analyst["tls_certificate"], analyst["tls_key"]
        with pytest.raises(TryAgainError, match="cannot reach"):
            Connection(url, keys["tls_certificate"], *pair).request("GET", "/")


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://shuffler.example.org", "not encrypted"),
        ("http://10.0.0.1:80", "not encrypted"),
        ("http://127.0.0.1.example.org", "not encrypted"),
        ("http://localhost.example.org", "not encrypted"),
        ("ftp://127.0.0.1", "must look like"),
        ("shuffler.example.org", "must look like"),
        ("https://", "must look like"),
        ("https://somebody@127.0.0.1", "must look like"),
        ("https://127.0.0.1:99999", "ports end at 65535"),
        ("https://127.0.0.1/?task=1", "must look like"),
        ("https://127.0.0.1/\r\nX: y", "must look like"),
    ],
)
def test_addresses_that_are_refused(url: str, told: str) -> None:
    with pytest.raises(ParameterError, match=told):
        Connection(url)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://127.9.9.9:1", "http://[::1]:1", "http://localhost:1"])
def test_plain_http_stays_on_this_machine(url: str) -> None:
    Connection(url)
    with pytest.raises(ParameterError, match="certificates are for https"):
        Connection(url, ca=Path("ca.crt"))


def test_files_that_are_no_certificates(keys: Keys, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="there is no certificate file"):
        Connection("https://127.0.0.1", tmp_path / "none.crt")
    with pytest.raises(FormatError, match="holds no certificate"):
        Connection("https://127.0.0.1", keys["public_key"])
    with pytest.raises(ParameterError, match="give both or neither"):
        Connection("https://127.0.0.1", None, keys["tls_certificate"])
    with pytest.raises(WrongKeyError, match="no certificate with its private key"):
        Connection("https://127.0.0.1", None, keys["tls_certificate"], keys["private_key"])


def test_nobody_there(silent: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(TryAgainError, match=r"cannot reach .*: Connection refused; check the address"):
        Connection(f"http://127.0.0.1:{port}").request("GET", "/")
    with pytest.raises(CollectError, match="keeps silent"):
        Connection(f"http://127.0.0.1:{silent}", timeout=0.2).request("GET", "/")


def test_a_download_that_breaks_off(keys: Keys) -> None:
    def cut(_: Asked) -> Said:
        return Said(body=b"half", length=8)

    with served(cut, keys) as (server, to):
        with pytest.raises(CollectError, match="broke off"):
            to.download("/batch", io.BytesIO(), 8)
        with pytest.raises(CollectError, match="broke off"):
            to.request("GET", "/manifest")
        server.answer = lambda _: Said(409, json.dumps({"detail": "round 2 is not ready"}).encode())
        with pytest.raises(CollectError, match="does not hand over /batch: round 2 is not ready"):
            to.download("/batch", io.BytesIO(), 8)


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 3, 5, 1 << 30])
def test_a_download_of_another_size(keys: Keys, size: int) -> None:
    with served(lambda _: Said(body=b"four"), keys) as (_, to):
        file = io.BytesIO()
        with pytest.raises(DamagedError, match=f"sends 4 bytes for /batch, and {size:,} were signed"):
            to.download("/batch", file, size)
        assert len(file.getvalue()) <= size
        assert to.request("GET", "/again").body == b"four"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_a_disk_that_is_full_is_not_the_network(keys: Keys) -> None:
    with (
        served(lambda _: Said(body=b"four"), keys) as (_, to),
        open("/dev/full", "wb", buffering=0) as full,
        pytest.raises(StorageError, match="No space left on device") as caught,
    ):
        to.download("/batch", full, 4)
    assert caught.value.errno == errno.ENOSPC


def test_problems_are_told_in_one_line() -> None:
    assert Answer(503, {}, b'{"detail": "the disk is full"}').problem() == "the disk is full"
    assert Answer(503, {}, b'{"title": "Busy"}').problem() == "Busy"
    assert Answer(503, {}, b'{"detail": "a\\u001b[31m\\nb"}').problem() == "a [31m b"
    assert Answer(502, {}, b"<html>").problem() == "status 502 Bad Gateway"
    assert Answer(502, {}, b"[" * 100_000).problem() == "status 502 Bad Gateway"
    assert len(Answer(400, {}, json.dumps({"detail": "x" * 10_000}).encode()).problem()) == 500


SERVER = ("starlette", "uvicorn", "uvloop", "psycopg", "pyspark")


@pytest.mark.slow
def test_the_client_and_the_analyst_load_no_server() -> None:
    names = "Analyst, Connection, Sender, Task, analyst_key, fetch_task"
    script = f"import sys; from shoal.collect import {names}; print([n for n in {SERVER!r} if n in sys.modules])"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.slow
def test_the_shuffler_loads_no_charts_and_no_planner() -> None:
    script = "import sys, shoal.collect.server, shoal.collect.shuffler; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    loaded = set(result.stdout.split())
    assert "shoal.collect.shuffler" in loaded
    assert not [name for name in loaded if name.startswith("shoal.charts")]
    planning = {name for name in loaded if name.startswith("shoal.planning.")}
    assert planning == {"shoal.planning.coded_strings"}, planning  # which reads strings, and plans nothing


@pytest.mark.slow
def test_importing_shoal_loads_no_collection() -> None:
    script = "import sys, shoal; print([name for name in sys.modules if name.startswith('shoal.collect')])"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    assert result.stdout.strip() == "[]"
