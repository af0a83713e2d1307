"""What a server lives through: nonsense, absurd questions, workers that die, and people who do not wait."""

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, given, settings

from tests.exhaustive import amount
from tests.web.page import Page, Response, running
from tests.web.requests_at_random import requests

pytestmark = pytest.mark.slow
_LIMIT = 2.0
_ABSURD = "/api/sgd?examples=1e6&batch_size=1&epsilon=1&epochs=1000"
"""A question that takes some 25 times the limit, so that no machine is fast enough to answer it."""


@pytest.fixture(scope="module")
def hasty() -> Iterator[Page]:
    """Return a server that ends every question after two seconds."""
    with running(most_seconds=_LIMIT) as server:
        yield server


@settings(max_examples=amount(20, 60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(request=requests())
def test_nonsense_is_answered_in_words(hasty: Page, request: tuple[str, list[tuple[str, str]], str | None]) -> None:
    name, pairs, body = request
    path = f"/api/{quote(name, safe='', errors='replace')}?{urlencode(pairs, errors='replace')}"
    data = None if body is None else body.encode(errors="replace")
    answer = hasty.send(path, method="GET" if data is None else "POST", body=data)
    assert answer.status in (200, 400, 404, 405, 503), (path, answer)
    if answer.headers["content-type"].startswith("application/json"):
        content = answer.json
        assert answer.status == 200 or {"error", "field"} <= content.keys()
        if answer.status == 400:
            assert content["error"].strip() and "Traceback" not in content["error"]
    assert hasty.process.poll() is None


def test_an_absurd_question_is_ended_and_the_server_lives(hasty: Page) -> None:
    _settled(hasty)
    before, began = hasty.workers(), time.monotonic()
    answer = hasty.send(_ABSURD)
    assert answer.status == 503
    assert "takes longer than 2 seconds" in answer.json["error"]
    assert time.monotonic() - began < 10
    assert hasty.lives()
    _until(lambda: len(hasty.workers()) == 2 and hasty.workers() != before)


def test_quick_questions_do_not_wait_for_slow_ones(hasty: Page) -> None:
    _settled(hasty)
    answers: list[Response] = []
    slow = [threading.Thread(target=lambda: answers.append(hasty.send(_ABSURD))) for _ in range(2)]
    for each in slow:
        each.start()
    time.sleep(0.3)
    assert hasty.lives()
    assert len(answers) < 2  # one worker is kept for sliders, and so the slow ones come one after the other
    for each in slow:
        each.join()
    assert [answer.status for answer in answers] == [503, 503]


def test_a_worker_that_is_killed_in_the_middle_is_replaced(hasty: Page) -> None:
    _settled(hasty)
    before, answers = hasty.workers(), list[Response]()
    asking = threading.Thread(target=lambda: answers.append(hasty.send(_ABSURD)))
    asking.start()
    time.sleep(0.3)
    for worker in before:
        os.kill(worker, signal.SIGKILL)
    asking.join()
    assert answers[0].status == 503
    assert "was ended from outside" in answers[0].json["error"]
    assert hasty.lives()
    _until(lambda: len(hasty.workers()) == 2)
    assert not set(before) & set(hasty.workers())


def test_two_hundred_who_do_not_wait(page: Page) -> None:
    """As sliders do: each request is given up when the next one comes."""
    assert page.lives()
    for index in range(200):
        with socket.create_connection(("127.0.0.1", page.port)) as line:
            path = f"/api/amplify?reports={10_000 + index}&local_epsilon=2"
            line.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{page.port}\r\n\r\n".encode())
    began = time.monotonic()
    assert page.ask("amplify", reports=54_321, local_epsilon=2).json["reports"] == 54_321
    assert time.monotonic() - began < 10
    workers = page.workers()
    assert len(workers) == 2


def test_many_at_once_are_answered_or_sent_away(page: Page) -> None:
    statuses: list[int] = []

    def ask(index: int) -> None:
        statuses.append(page.ask("amplify", reports=5000 + index, local_epsilon=1).status)

    asking = [threading.Thread(target=ask, args=(index,)) for index in range(100)]
    for each in asking:
        each.start()
    for each in asking:
        each.join()
    assert len(statuses) == 100
    assert set(statuses) <= {200, 503}
    assert statuses.count(200) >= 64
    assert page.lives()


def _settled(page: Page) -> None:
    """Wait until both workers are there and do nothing: they are ready then."""

    def idle() -> bool:
        before = _work(page)
        time.sleep(0.3)
        return len(before) == 2 and before == _work(page)

    _until(idle)


def _work(page: Page) -> dict[int, str]:
    """Return how long each worker has computed, of those that are still there."""
    work: dict[int, str] = {}
    for worker in page.workers():
        with suppress(FileNotFoundError, ProcessLookupError):
            work[worker] = Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[11]
    return work


def _until(condition: Callable[[], bool], seconds: float = 30) -> None:
    """Wait until something is true, but not for ever."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
