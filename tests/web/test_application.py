"""A real server: every question answers what the command line prints, and nobody else is let in."""

import json
import math
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

import shoal
from shoal.questions.copied_code import code_of
from shoal.questions.curve import curve
from shoal.questions.plan import plan
from shoal.questions.question import names, question
from shoal.web.application import MOST_BODY
from shoal.web.page_files import TYPES, page_files
from tests.cli.commands import run
from tests.web.page import Page, running

pytestmark = pytest.mark.slow
EXAMPLES = {name: question(name).example for name in names() if question(name).example}
_TABLE = "reports,local_epsilon,rounds\n1000,1,3\n2000,0.5,2\n"


def _ledger(path: Path) -> str:
    book = shoal.Ledger(path)
    with book.budget(shoal.amplify(local_epsilon=1, reports=1000), epsilon=2, delta=1e-6, label="<monday>"):
        pass
    return path.read_text()


@pytest.mark.parametrize("name", sorted(name for name in EXAMPLES if not question(name).verb))
def test_an_answer_is_what_the_command_line_prints(name: str, page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    texts = dict(parse_qsl(EXAMPLES[name]))
    answer = page.ask(name, **texts)
    assert answer.status == 200
    words = [word for key, value in texts.items() for word in (f"--{key.replace('_', '-')}", value)]
    command = f"explain {texts['name']}" if name == "explain" else " ".join([name, *words])
    status, out, _ = run(capsys, f"{command} --json")
    expected = json.loads(out)
    if name == "plan":
        assert expected.pop("output") is None  # the file that the command wrote
    assert (status, answer.json) == (0, expected)


def test_files_are_handed_over(page: Page, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rounds.csv").write_text(_TABLE)
    composed = json.loads(run(capsys, f"compose --table {tmp_path / 'rounds.csv'} --epsilon 1 --json")[1])
    assert page.ask("compose", body=_TABLE, epsilon=1).json == composed
    text = _ledger(tmp_path / "ledger.json")
    shown = json.loads(run(capsys, f"ledger show {tmp_path / 'ledger.json'} --json")[1])
    assert page.ask("ledger", body=text).json == shown
    assert page.ask("rounds", body=text).json["budget"]["epsilon"] == 2
    left = json.loads(run(capsys, f"calibrate --ledger {tmp_path / 'ledger.json'} --reports 1000 --json")[1])
    assert page.ask("calibrate", body=text, reports=1000).json == left
    proof = page.ask("amplify", reports=100, local_epsilon=1, as_="certificate").body.decode()
    (tmp_path / "proof.json").write_text(proof)
    checked = json.loads(run(capsys, f"verify {tmp_path / 'proof.json'} --json")[1])
    assert page.ask("verify", body=proof).json == checked
    assert checked["proved"] is True
    assert page.ask("verify", body="{}").json["proved"] is False


def test_every_question_has_code_to_copy(page: Page) -> None:
    for name, example in EXAMPLES.items():
        texts = dict(parse_qsl(example))
        asked = question(name)
        assert page.ask(name, **texts, as_="code").json == code_of(asked, asked.read(texts))


def test_charts_are_files_or_parts_of_the_page(page: Page) -> None:
    for name in ("amplify", "attack", "compare", "curve", "plan", "rounds", "sgd"):
        texts = dict(parse_qsl(EXAMPLES[name]))
        whole = page.ask(name, **texts, as_="svg")
        assert whole.status == 200 and b"<style>" in whole.body
        assert whole.headers["content-type"].startswith("image/svg+xml")
        assert "style-src 'unsafe-inline'" in whole.headers["content-security-policy"]
    part = page.ask("amplify", reports=1000, local_epsilon=1, as_="inline")
    assert part.body.startswith(b"<svg") and b"<style>" not in part.body
    refused = page.ask("explain", as_="svg")
    assert (refused.status, refused.json["field"]) == (400, None)
    assert page.send("/charts.css").headers["content-type"].startswith("text/css")


def test_no_curve_is_cut_off() -> None:
    for local in (0.01, 1.0, 12.0):
        asked: dict[str, Any] = {"reports": 10_000, "local_epsilon": local, "points": 5, "limit": True}
        answer = curve(**asked)
        assert curve.chart is not None
        _, heights = curve.chart(answer, asked).scales()
        drawn = [
            point[name] for point in answer.facts["points"] for name in ("epsilon", "best_possible") if point[name]
        ]
        assert heights.low < min(drawn) and max(*drawn, local) < heights.high
    assert heights.low == 1e-4  # where nothing has to be below, the axis stays where it was


def test_an_example_shows_all_categories_or_says_which_are_left_out() -> None:
    for categories, some, note in (
        (24, ("1", "24"), ""),
        (1000, ("1", "2", "22", "…", "1,000"), "977 categories in between are left out."),
    ):
        asked: dict[str, Any] = {"categories": categories, "reports": 20_000, "epsilon": 0.5}
        assert plan.chart is not None
        chart = plan.chart(plan(**asked), asked)
        assert set(some) <= set(chart.names) and chart.note == note
        shares = chart.columns[0].values
        assert sum(map(math.isnan, shares)) == bool(note) and len(shares) == min(categories, 24)


def test_wrong_input_names_its_field(page: Page) -> None:
    for texts, field, words in (
        ({"reports": "0,5", "local_epsilon": 1}, "reports", "a comma is not a decimal point"),
        ({"reports": 100}, "local_epsilon", "this needs local_epsilon"),
        ({"reports": 0, "local_epsilon": 1}, "reports", "at least 1"),
        ({"reports": 10, "local_epsilon": "nan"}, "local_epsilon", "NaN"),
        ({"reports": 10, "local_epsilon": 1, "bound": "strong-clone"}, "bound", "did you mean strong-clones"),
        ({"reports": 10, "local_epsilon": 1, "as_": "poem"}, None, "as must be one of"),
        ({"reports": 10, "local_epsilon": 1, "people": 3}, None, "parameter must be one of"),
    ):
        answer = page.ask("amplify", **texts)
        assert answer.status == 400
        assert (answer.json["field"], words in answer.json["error"]) == (field, True), answer.json
    twice = page.send("/api/amplify?reports=1&reports=2&local_epsilon=1")
    assert (twice.status, twice.json["error"]) == (400, "each parameter may be given once")
    assert page.ask("nothing").status == 404


def test_numbers_that_are_infinite_are_null(page: Page) -> None:
    answer = page.ask("rounds", reports=1000, randomizer="gaussian", sigma=5, rounds=2)
    assert answer.status == 200
    assert answer.json["kinds"][0]["local_epsilon"] is None


def test_the_document_describes_every_question(page: Page) -> None:
    document = page.send("/api/openapi.json").json
    assert document["openapi"].startswith("3.1")
    assert set(document["paths"]) == {f"/api/{name}" for name in names()}
    for name, query in EXAMPLES.items():
        known = {each["name"] for each in document["paths"][f"/api/{name}"]["get"]["parameters"]}
        assert set(dict(parse_qsl(query))) <= known
    shown = page.send("/api")
    assert shown.headers["content-type"].startswith("text/html")
    assert b"<script" not in shown.body
    assert all(f'id="{name}"'.encode() in shown.body for name in names())


def test_every_file_of_the_page_has_its_type_and_its_tag(page: Page) -> None:
    for path, content in page_files().items():
        first = page.send(f"/{path}")
        assert (first.status, first.body) == (200, content)
        assert first.headers["content-type"] == TYPES[path.rpartition(".")[2]]
        again = page.send(f"/{path}", headers={"If-None-Match": first.headers["etag"]})
        assert (again.status, again.body) == (304, b"")
    assert page.send("/").body == page_files()["index.html"]


@pytest.mark.parametrize("path", ["/", "/api", "/api/amplify", "/api/amplify?reports=10&local_epsilon=1", "/nowhere"])
def test_every_answer_says_what_a_browser_may_do(page: Page, path: str) -> None:
    headers = page.send(path, headers={"Origin": f"http://127.0.0.1:{page.port}"}).headers
    assert headers["content-security-policy"].startswith("default-src 'self'")
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert not any(name.startswith("access-control") for name in headers)
    assert "server" not in headers


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1", "localhost", "127.0.0.1:1", "127.0.0.1:{port}.evil.example", "evil.example:{port}",
     "", "127.0.0.1:{port}@evil.example", "2130706433:{port}", "127.1:{port}", "0.0.0.0:{port}"],
)  # fmt: skip
def test_other_names_of_this_machine_are_refused(page: Page, host: str) -> None:
    answer = page.send("/api/amplify?reports=10&local_epsilon=1", headers={"Host": host.format(port=page.port)})
    assert answer.status == 421
    assert b"epsilon" not in answer.body


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST:{port}", "[::1]:{port}"])
def test_its_own_names_are_let_in(page: Page, host: str) -> None:
    assert page.send("/", headers={"Host": host.format(port=page.port)}).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "https://127.0.0.1:{port}"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_pages_from_elsewhere_may_not_ask(page: Page, headers: dict[str, str]) -> None:
    sent = {name: value.format(port=page.port) for name, value in headers.items()}
    assert page.send("/api/amplify?reports=10&local_epsilon=1", headers=sent).status == 403
    assert page.send("/api/verify", method="POST", body=b"{}", headers=sent).status == 403


def test_a_link_from_elsewhere_leads_to_the_page_but_to_no_question(page: Page) -> None:
    followed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert page.send("/", headers=followed).status == 200
    assert page.send("/api/amplify?reports=10&local_epsilon=1", headers=followed).status == 403
    assert page.send("/", headers=followed | {"Sec-Fetch-Dest": "iframe"}).status == 403
    assert page.send("/", headers=followed | {"Sec-Fetch-Mode": "no-cors"}).status == 403


def test_two_hosts_and_no_host_are_refused(page: Page) -> None:
    for lines in (f"Host: 127.0.0.1:{page.port}\r\nHost: evil.example\r\n", ""):
        with socket.create_connection(("127.0.0.1", page.port), timeout=10) as line:
            line.sendall(f"GET / HTTP/1.1\r\n{lines}Connection: close\r\n\r\n".encode())
            assert line.recv(100).split()[1] in (b"400", b"421")


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "BREW"])
def test_other_methods_are_refused(page: Page, method: str) -> None:
    assert page.send("/api/amplify?reports=10&local_epsilon=1", method=method).status == 405


def test_a_question_without_a_file_takes_none(page: Page) -> None:
    assert page.ask("amplify", body="x", reports=10, local_epsilon=1).status == 405
    assert page.send("/", method="POST", body=b"x").status == 405


@pytest.mark.parametrize(
    "path",
    ["/../pyproject.toml", "/..%2f..%2fpage_server.py", "/%2e%2e/application.py", "/static/../../reply.py",
     "//etc/passwd", "/etc/passwd", "/..\\..\\reply.py", "/%00", "/index.html%00.js",
     "/./../worker.py", "/api/../../worker.py"],
)  # fmt: skip
def test_no_path_leads_out_of_the_folder(page: Page, path: str) -> None:
    answer = page.send(path)
    assert answer.status == 404
    assert b"import" not in answer.body and b"root:" not in answer.body


def test_large_files_are_refused_and_text_must_be_text(page: Page) -> None:
    assert page.send("/api/verify", method="POST", body=b"x" * (MOST_BODY + 1)).status == 413
    assert page.send("/api/verify", method="POST", body=b"x" * MOST_BODY).json["proved"] is False
    assert page.send("/api/verify", method="POST", body=b"\xff\xfe").status == 400
    assert page.send("/api/verify", method="POST").json["proved"] is False
    assert page.send(f"/api/amplify?reports={'9' * 60_000}").status in (400, 414, 431)
    assert page.lives()


def test_slow_clients_keep_nobody_waiting(page: Page) -> None:
    slow = [socket.create_connection(("127.0.0.1", page.port), timeout=10) for _ in range(40)]
    try:
        for line in slow[:20]:
            line.sendall(b"GET / HTTP/1.1\r\nHost: ")
        for line in slow[20:]:
            line.sendall(f"POST /api/verify HTTP/1.1\r\nHost: 127.0.0.1:{page.port}\r\n".encode())
            line.sendall(b"Content-Length: 100\r\n\r\n{")
        assert page.lives()
    finally:
        for line in slow:
            line.close()


def test_ctrl_c_ends_it_within_a_second() -> None:
    with running() as server:
        assert server.lives()
        workers = server.workers()
        lines = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(2)]  # one waits for nothing
        long = "/api/sgd?examples=1e7&batch_size=1&noise_multiplier=0.3&epochs=1000&poisson=true"
        lines[1].sendall(f"GET {long} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode())
        time.sleep(0.3)
        began = time.monotonic()
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(10) == 0
        assert time.monotonic() - began < 1 + _load()
        for line in lines:
            line.close()
        assert len(workers) == 2
        assert not any(Path(f"/proc/{worker}").exists() for worker in workers)


def test_workers_end_with_their_server() -> None:
    with running() as server:
        assert server.lives()
        workers = server.workers()
        server.process.kill()
        server.process.wait()
        end = time.monotonic() + 20
        while any(_runs(worker) for worker in workers):
            assert time.monotonic() < end
            time.sleep(0.05)


def _runs(process: int) -> bool:
    """Tell whether a process is there and has not ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _load() -> float:
    """Return how long this machine takes to start and end a process now: others use it too."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "import shoal.questions.question"], check=True)
    return time.monotonic() - began


def test_a_port_that_is_taken_is_refused(page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, error = run(capsys, f"web --no-open --port {page.port}")
    assert status == 2
    assert "cannot listen on port" in error and "0 for a free one" in error
