"""Any request gets an answer: random paths, methods, headers and bodies, on both listeners."""

import hashlib
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from shoal.collect.batch import BatchFile
from shoal.collect.connection import Answer
from shoal.collect.tokens import TokenList
from tests.collect.asgi import called, made
from tests.collect.world import World, make_exact_world

METHODS = ["GET", "POST", "PUT", "HEAD", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "get", "", "X" * 300, "\n"]
_WORDS = "/ // v1 tasks round rounds reports manifest batch ack healthz readyz .. . 0 1 -1 2 1e3 0x1 %2e １ ü ' \" ;"
PIECES = [*_WORDS.split(), "9" * 18, "9" * 19, "9" * 5000, "\x00", "\udcff"]
HEADERS = [b"authorization", b"content-length", b"content-type", b"host", b"transfer-encoding", b"x-forwarded-for", b""]


def sound(answer: Answer, path: str) -> None:
    """Check that an answer is one: never trouble of the shuffler's own, and errors in words."""
    assert 200 <= answer.status < 300 or 400 <= answer.status < 500, (path, answer)
    if answer.status >= 400:
        assert answer.headers["content-type"] == "application/problem+json"
        told = json.loads(answer.body)
        assert told["status"] == answer.status and len(told["detail"]) > 20
        assert not any(word in answer.body for word in (b"Traceback", b"Error", b".py", b"sqlite", b"/tmp"))


def request_of(
    probability: random.Random, world: World, bodies: list[bytes]
) -> tuple[str, str, list[bytes], list[Any]]:
    """Return a request that may make sense."""
    task = probability.choice([world.task.id] * 8 + ["0" * 64, "", world.task.id.upper()])
    number = probability.choice(["1"] * 6 + ["0", "2", "9" * 18, "9" * 40])
    roots = [f"/v1/tasks/{task}", f"/v1/tasks/{task}/round", f"/v1/tasks/{task}/rounds", "/healthz", "/readyz"]
    ends = [f"/v1/tasks/{task}/rounds/{number}/{end}" for end in ("reports", "reports", "manifest", "batch", "ack")]
    path = probability.choice(roots + ends + ends)
    if probability.random() < 0.3:
        path = "/" + "/".join(probability.choice([*PIECES, task, number]) for _ in range(probability.randrange(8)))
    method = probability.choice(["POST"] * 6 + ["GET"] * 4 + METHODS)
    length = world.task.ciphertext_bytes
    body = probability.choice(
        [b"", b"x", probability.randbytes(length - 1), probability.randbytes(length + 1), b"0" * 64, *bodies]
    )
    pieces = [body[:5], body[5:]] if probability.random() < 0.2 else [body]
    names = [probability.choice(HEADERS) for _ in range(probability.randrange(4))]
    values = [b"", b"Bearer ", b"Bearer relay", b"Bearer eve", b"Basic x", b"\xff" * 10, b"-1", b"chunked", b"x" * 9000]
    return method, path, pieces, [(name, probability.choice(values)) for name in names]


@pytest.mark.slow
def test_any_request_is_answered(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    world = make_exact_world(tmp_path / "world")
    now = 1000.0
    tokens = TokenList(relays=frozenset([hashlib.sha256(b"relay").digest()]))
    front, shuffler = made(world, tmp_path / "store", lambda: now, tokens)
    probability = random.Random(20264)
    bodies = world.sealed(range(10))
    good: set[bytes] = set()
    with front:
        for _ in range(3000):
            method, path, pieces, headers = request_of(probability, world, [*bodies, b"".join(bodies)])
            answer = front.run(called(front.service.public, method, path, pieces, headers))
            sound(answer, path)
            if answer.status == 201:
                body, length = b"".join(pieces), world.task.ciphertext_bytes
                assert method == "POST" and path == f"/v1/tasks/{world.task.id}/rounds/1/reports"
                assert len(body) == length or (b"authorization", b"Bearer relay") in headers
                good |= {body[start : start + length] for start in range(0, len(body), length)}
            sound(front.run(called(front.service.analyst, method, path, pieces, headers)), path)
        assert good >= set(bodies)
        now += 60
        front.tick()
        _, manifest = shuffler.released(1)
        batch = BatchFile.checked(shuffler.batch_path(1), world.task, manifest)
        assert Counter(batch.records(0, manifest.reports)) == Counter(good)
    assert not caplog.records
