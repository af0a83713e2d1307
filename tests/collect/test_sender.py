"""One report a round, whatever is lost, repeated or claimed on the way."""

import json
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from shoal.collect.connection import Answer, Connection
from shoal.collect.envelope import information, opened
from shoal.collect.sender import Sender, fetch_task
from shoal.errors import CollectError, DamagedError, ForgedError, ParameterError, TryAgainError
from shoal.files.names import Names
from shoal.mechanisms.randomized_response import RandomizedResponse
from tests.collect.small_server import Asked, Said, SmallServer, small_server
from tests.collect.world import World, make_exact_world, make_world


@dataclass
class Rounds:
    """Plays the shuffler's front: tells the open round, and what becomes of the next posts."""

    world: World
    number: int = 1
    next_posts: list[Said] = field(default_factory=list)
    moves: int = 0
    posts: list[Asked] = field(default_factory=list)

    def __call__(self, asked: Asked) -> Said:
        root = f"/v1/tasks/{self.world.task.id}"
        if asked.path == f"{root}/round":
            return Said(body=json.dumps({"round": self.number, "closes": 2e9}).encode())
        if asked.path == root:
            return Said(body=self.world.task_path.read_bytes())
        assert asked.method == "POST"
        self.posts.append(asked)
        if self.moves:
            self.moves -= 1
            self.number += 1
        if asked.path != f"{root}/rounds/{self.number}/reports":
            return Said(409, json.dumps({"detail": "closed", "round": self.number}).encode())
        return self.next_posts.pop(0) if self.next_posts else Said(201)

    def values(self) -> list[int]:
        """Return what was posted, as the analyst reads it."""
        found = []
        for asked in self.posts:
            number = int(asked.path.split("/")[5])
            (plain,) = opened(self.world.analyst_key, information(self.world.task, number), [asked.body])
            assert plain is not None
            found.append(int(self.world.task.mechanism.from_bytes(plain[2:4])[0]))
        return found


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_exact_world(tmp_path_factory.mktemp("world"))


@pytest.fixture
def rounds(world: World) -> Rounds:
    return Rounds(world)


@pytest.fixture
def server(rounds: Rounds, world: World) -> Iterator[SmallServer]:
    with small_server(rounds, world.shuffler) as running:
        yield running


Client = Callable[..., Sender]


@pytest.fixture
def client(server: SmallServer, world: World) -> Iterator[Client]:
    """Return a function that makes a client, each with a connection of its own, which remembers in a folder or not."""
    with ExitStack() as stack:

        def made(state: Path | None = None, now: float = 1e9, token: str | None = None) -> Sender:
            ca = world.shuffler["tls_certificate"]
            to = stack.enter_context(Connection(f"https://127.0.0.1:{server.port}", ca, timeout=10))
            return Sender(world.task, to, state, token, clock=lambda: now)

        yield made


def test_a_report_arrives_sealed(client: Client, world: World, rounds: Rounds, tmp_path: Path) -> None:
    receipt = client(tmp_path / "state", token="t0k3n").send(4711)
    assert (receipt.round, receipt.new, receipt.closes) == (1, True, 2e9)
    assert rounds.values() == [4711]
    assert len(rounds.posts[0].body) == world.task.ciphertext_bytes
    assert rounds.posts[0].headers["authorization"] == "Bearer t0k3n"
    assert set(rounds.posts[0].headers) == {
        "host",
        "accept-encoding",
        "authorization",
        "content-length",
        "content-type",
    }


@pytest.mark.parametrize("lasting", [True, False])
def test_a_round_has_one_report(client: Client, rounds: Rounds, tmp_path: Path, lasting: bool) -> None:
    state = tmp_path if lasting else None
    first = client(state)
    again = client(state) if lasting else first
    sent = first.send("7")
    seen = again.send("8")
    assert (sent.new, seen.new, seen.sha256) == (True, False, sent.sha256)
    assert rounds.values() == [7]
    rounds.number = 2
    assert again.send("9").new
    assert rounds.values() == [7, 9]


@pytest.mark.slow
@pytest.mark.parametrize("trouble", [Said(503, headers={"Retry-After": "5"}), Said(lost=True), Said(502, b"<html>")])
def test_what_may_have_arrived_is_sent_again_to_the_byte(
    client: Client, rounds: Rounds, tmp_path: Path, trouble: Said
) -> None:
    rounds.next_posts = [trouble, trouble]
    with pytest.raises(CollectError, match=r"repeat the same command|try again"):
        client(tmp_path).send(7)
    kept = tmp_path / "report.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    rounds.next_posts = []
    assert client(tmp_path).send(8).new  # another process, and the person has thought again
    assert len({asked.body for asked in rounds.posts}) == 1
    assert set(rounds.values()) == {7}


def test_a_busy_shuffler_is_asked_again_after_the_time_it_gives(
    client: Client, server: SmallServer, rounds: Rounds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same bytes, later each time, until a minute has passed in all."""
    waits: list[float] = []
    real = time.sleep

    def waited(seconds: float) -> None:
        """Threads of other tests go on sleeping."""
        if threading.current_thread() is threading.main_thread():
            waits.append(seconds)
        else:
            real(seconds)

    monkeypatch.setattr("shoal.collect.sender.PATIENCE", 60.0)
    monkeypatch.setattr(time, "sleep", waited)
    busy = Said(503, headers={"Retry-After": "5"})
    rounds.next_posts = [busy, busy]
    assert client(tmp_path / "patient").send(7).new
    assert waits[0] == 5 and 10 <= waits[1] <= 15
    assert len({asked.body for asked in rounds.posts}) == 1
    waits.clear()
    rounds.next_posts = [busy] * 20
    with pytest.raises(TryAgainError, match="In 5 seconds, repeat the same command"):
        client(tmp_path / "given-up").send(7)
    assert 1 < len(waits) < 5 and sum(waits) <= 60
    waits.clear()
    rounds.next_posts = [Said(503, headers={"Retry-After": "0"})] * 200  # a server that means "at once", for ever
    with pytest.raises(TryAgainError):
        client(tmp_path / "at-once").send(7)
    assert 1 < len(waits) < 10 and 0 < sum(waits) <= 60
    waits.clear()
    rounds.next_posts = [Said(503)]
    with pytest.raises(TryAgainError):
        client(tmp_path / "no-time-given").send(7)
    assert not waits


def test_a_clock_that_was_ahead_does_not_lock_a_client_out(
    client: Client, world: World, rounds: Rounds, tmp_path: Path
) -> None:
    """After the clock is set right, rounds are accepted at the pace of the task again, and no faster."""
    ahead, right, seconds = 2e9, 1e9, world.task.round_seconds
    client(tmp_path, ahead).send(1)
    rounds.number = 2
    assert client(tmp_path, right).send(2).new
    rounds.number = 4
    with pytest.raises(CollectError, match="by the length of a round"):
        client(tmp_path, right).send(3)
    assert client(tmp_path, right + 2 * seconds).send(4).new


def test_the_report_is_kept_before_it_is_sent(
    client: Client, server: SmallServer, rounds: Rounds, tmp_path: Path
) -> None:
    def look(asked: Asked) -> Said:
        if asked.method == "POST":
            seen.append(json.loads((tmp_path / "report.json").read_bytes()))
        return rounds(asked)

    seen: list[dict[str, object]] = []
    server.answer = look
    client(tmp_path).send(7)
    assert [(kept["sent"], kept["report"]) for kept in seen] == [(False, rounds.posts[0].body.hex())]


def test_a_round_that_closed_meanwhile_gets_a_new_report(client: Client, rounds: Rounds, tmp_path: Path) -> None:
    rounds.moves = 1
    receipt = client(tmp_path).send(7)
    assert (receipt.round, receipt.new) == (2, True)
    assert rounds.values() == [7, 7]
    assert [asked.path.split("/")[5] for asked in rounds.posts] == ["1", "2"]


@pytest.mark.slow
def test_a_shuffler_that_hurries_gets_nothing(client: Client, rounds: Rounds, tmp_path: Path) -> None:
    """Rounds last 60 seconds, so that one person makes at most two reports at once, and then one a minute."""
    rounds.moves = 100
    with pytest.raises(CollectError, match=r"round 3 is open.*can't be"):
        client(tmp_path).send(7)
    assert len(rounds.posts) == 2
    rounds.moves, rounds.number = 0, 3
    with pytest.raises(CollectError, match="can't be"):
        client(tmp_path, now=1e9 + 58).send(7)
    assert client(tmp_path, now=1e9 + 60).send(7).new
    rounds.number = 2
    with pytest.raises(CollectError, match="can't be"):
        client(tmp_path, now=2e9).send(7)
    rounds.number = 1000
    assert client(tmp_path, now=2e9).send(7).new


def test_without_a_folder_the_pace_is_kept_too(client: Client, rounds: Rounds) -> None:
    person = client()
    for number in (1, 2):
        rounds.number = number
        assert person.send(7).new
    rounds.number = 3
    with pytest.raises(CollectError, match="can't be"):
        person.send(7)


@pytest.mark.slow
@pytest.mark.parametrize("content", ["", "{}", "[]", '{"round": 1}', "junk", "[" * 100_000])
def test_a_damaged_state_sends_nothing(client: Client, rounds: Rounds, tmp_path: Path, content: str) -> None:
    (tmp_path / "report.json").write_text(content)
    with pytest.raises(DamagedError, match="damaged"):
        client(tmp_path).send(7)
    assert rounds.posts == []


def test_the_state_of_another_task_sends_nothing(client: Client, tmp_path: Path) -> None:
    client(tmp_path).send(7)
    kept = json.loads((tmp_path / "report.json").read_bytes())
    (tmp_path / "report.json").write_text(json.dumps(kept | {"task": "0" * 64}))
    with pytest.raises(DamagedError, match="belongs to another task"):
        client(tmp_path).send(7)


@pytest.mark.parametrize("value", [-1, 65536, "x", "", "1.0", "٣", " 1", True])
def test_values_that_are_no_category(client: Client, server: SmallServer, tmp_path: Path, value: str | int) -> None:
    with pytest.raises(ParameterError, match="none of the categories; they are the whole numbers from 0 to 65,535"):
        client(tmp_path).send(value)
    assert server.asked == []


@pytest.mark.slow
def test_names(client: Client, world: World) -> None:
    named = Names(65536, tuple(f"n{place}" for place in range(65536)))
    person = client()
    person.task = replace(world.task, names=named)
    with pytest.raises(ParameterError, match=r"'7' is none of the categories; they are n0, n1, .* and 65,528 more"):
        person.send("7")


@pytest.mark.slow
def test_answers_that_make_no_sense(client: Client, server: SmallServer, rounds: Rounds, tmp_path: Path) -> None:
    for body in (
        b"",
        b"{}",
        b'{"round": "1", "closes": 1}',
        b'{"round": -1, "closes": 1}',
        b'{"round": true, "closes": 1}',
    ):
        server.answer = lambda _, body=body: Said(body=body)  # type: ignore[misc]
        with pytest.raises(CollectError, match="does not say which round is open"):
            client(tmp_path).send(7)
    assert not (tmp_path / "report.json").exists()
    server.answer = lambda _: Said(404, b'{"detail": "no such task"}')
    with pytest.raises(CollectError, match="refuses: no such task"):
        client(tmp_path).send(7)
    server.answer = rounds
    rounds.next_posts = [Said(401, b'{"detail": "unknown token"}')]
    with pytest.raises(CollectError, match=r"unknown token. Give the file that holds yours as --token-file"):
        client(tmp_path).send(7)


@pytest.mark.parametrize("token", ["", "two words", "line\r\nX: y", "é", "x" * 1001])
def test_tokens_that_are_none(client: Client, token: str) -> None:
    with pytest.raises(ParameterError, match="token"):
        client(token=token)


def test_the_task_is_checked_before_it_is_read(client: Client, world: World, server: SmallServer) -> None:
    connection = client().connection
    assert fetch_task(connection, world.task.id) == world.task
    data = world.task.to_bytes()
    server.answer = lambda _: Said(body=data.replace(b"Which", b"Witch"))
    with pytest.raises(ForgedError, match="not the task that was pinned"):
        fetch_task(connection, world.task.id)
    server.answer = lambda _: Said(404, b'{"detail": "no such task"}')
    with pytest.raises(CollectError, match="refuses: no such task"):
        fetch_task(connection, world.task.id)
    with pytest.raises(ParameterError, match="64 hexadecimal digits"):
        fetch_task(connection, "../../round")


@pytest.mark.slow
def test_many_processes_make_one_report(world: World, server: SmallServer, rounds: Rounds, tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from shoal.collect.task import Task;"
        "from shoal.collect.connection import Connection; from shoal.collect.sender import Sender;"
        "task, url, ca, state, value = sys.argv[1:];"
        "print(Sender(Task.read(Path(task)), Connection(url, Path(ca)), Path(state)).send(value).new)"
    )
    ca = world.shuffler["tls_certificate"]
    running = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                script,
                world.task_path,
                f"https://127.0.0.1:{server.port}",
                ca,
                tmp_path,
                str(value),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        for value in range(4)
    ]
    assert sorted(process.communicate(timeout=60)[0].strip() for process in running) == ["False"] * 3 + ["True"]
    assert len(rounds.posts) == 1


class Greedy:
    """A shuffler that opens, with the analyst, what it gets, and says twice that the round is over."""

    url = "https://greedy.example"

    def __init__(self, world: World) -> None:
        self.world, self.round = world, 5
        self.read: list[bytes | None] = []

    def request(self, method: str, path: str, body: bytes = b"", headers: object = None) -> Answer:
        if method == "GET":
            return Answer(200, {}, b'{"round": %d, "closes": 0}' % self.round)
        self.read += opened(self.world.analyst_key, information(self.world.task, self.round), [body])
        if len(self.read) % 3:
            self.round += 1
            return Answer(409, {}, b"{}")
        return Answer(201, {}, b"")


def test_a_refused_report_is_not_drawn_again(tmp_path: Path) -> None:
    """With 1,000 categories and nearly only noise, three draws would all agree by chance with probability 1e-6."""
    world = make_world(tmp_path, mechanism=RandomizedResponse(categories=1000, local_epsilon=0.1), round_seconds=1)
    greedy = Greedy(world)
    times = iter(range(0, 1000, 100))
    Sender(world.task, greedy, None, clock=lambda: next(times)).send(7)  # type: ignore[arg-type]
    assert len(greedy.read) == 3 and None not in greedy.read
    assert len(set(greedy.read)) == 1
