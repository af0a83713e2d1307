"""Personal tokens, of which each is good for one report a round, and those of relays, which may send many at once."""

import asyncio
import hashlib
import shutil
import signal
import ssl
from dataclasses import replace
from pathlib import Path

import pytest

from shoal.collect.connection import Answer, Connection
from shoal.collect.keys import make_analyst_keys, make_shuffler_keys
from shoal.collect.tokens import TokenList
from shoal.errors import CollectError
from tests.collect.asgi import Clock, made, refused, reports, root, stored, tokens
from tests.collect.running import Running, until
from tests.collect.world import World, make_exact_world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_exact_world(tmp_path_factory.mktemp("world"), minimum=3)


@pytest.fixture
def clock() -> Clock:
    return Clock()


class TestTokens:
    """Personal tokens and those of relays."""

    def test_one_report_a_token_and_round(self, world: World, tmp_path: Path, clock: Clock) -> None:
        front, shuffler = made(world, tmp_path, clock, tokens("ada bea cleo"))
        with front:
            for number, round_ in ((1, [11, 12, 13]), (2, [21, 22, 23])):
                first = world.sealed(round_, number)
                second = world.sealed([value + 5000 for value in round_], number)
                for body, other, token in zip(first, second, ("ada", "bea", "cleo"), strict=True):
                    for sent in (body, other, body, other):
                        assert front.public("POST", reports(world, number), sent, token).status == 201
                assert stored(shuffler, front, clock, world) == round_

    def test_two_at_once_are_one(self, world: World, tmp_path: Path, clock: Clock) -> None:
        front, shuffler = made(world, tmp_path, clock, tokens("ada bea cleo"))

        async def all_at_once() -> None:
            sent = list(zip(world.sealed(range(300)), ["ada", "bea", "cleo"] * 100, strict=True))
            while sent:  # on a slow machine these are too many at once
                answers = await asyncio.gather(*(front.asked("POST", reports(world), *one) for one in sent))
                assert {answer.status for answer in answers} <= {201, 503}
                sent = [one for one, answer in zip(sent, answers, strict=True) if answer.status == 503]

        with front:
            front.run(all_at_once())
            found = stored(shuffler, front, clock, world)
            assert sorted(value % 3 for value in found) == [0, 1, 2]

    @pytest.mark.slow
    @pytest.mark.parametrize("given", [None, b"", b"Bearer", b"Bearer ", b"Bearer eve", b"Basic ada", b"ada", b"\xff"])
    def test_others_are_refused(self, world: World, tmp_path: Path, clock: Clock, given: bytes | None) -> None:
        front, shuffler = made(world, tmp_path, clock, tokens("ada bea cleo"))
        with front:
            headers = [] if given is None else [(b"authorization", given)]
            answer = front.public("POST", reports(world), world.sealed([1])[0], headers=headers)
            told = refused(answer, 401)
            assert "Bearer" in str(told["detail"]) and "eve" not in str(told["detail"])
            assert front.public("GET", f"{root(world)}/round").status == 200
            assert shuffler._store._database.execute("SELECT count(*) FROM report").fetchone() == (0,)  # type: ignore[attr-defined]

    def test_a_token_for_a_round_that_is_over_is_told_the_open_one(
        self, world: World, tmp_path: Path, clock: Clock
    ) -> None:
        front, shuffler = made(world, tmp_path, clock, tokens("ada bea cleo"))
        with front:
            for body, token in zip(world.sealed([1, 2, 3]), ("ada", "bea", "cleo"), strict=True):
                assert front.public("POST", reports(world), body, token).status == 201
            clock.now += 60
            shuffler.close()
            for number in (1, 3):
                answer = front.public("POST", reports(world, number), world.sealed([4], number)[0], "ada")
                assert refused(answer, 409)["round"] == 2
            assert front.public("POST", reports(world, 2), world.sealed([4], 2)[0], "ada").status == 201

    def test_tags_are_hashed_anew_each_round_and_gone_after_it(
        self, world: World, tmp_path: Path, clock: Clock
    ) -> None:
        front, shuffler = made(world, tmp_path, clock, tokens("ada bea cleo"))
        database = shuffler._store._database  # type: ignore[attr-defined]
        with front:
            found = []
            for number in (1, 2):
                for body, token in zip(world.sealed([1, 2, 3], number), ("ada", "bea", "cleo"), strict=True):
                    assert front.public("POST", reports(world, number), body, token).status == 201
                tags = {tag for (tag,) in database.execute("SELECT tag FROM tag")}
                assert len(tags) == 3
                found.append(tags)
                assert stored(shuffler, front, clock, world) == [1, 2, 3]
                assert database.execute("SELECT count(*) FROM tag").fetchone() == (0,)
            assert not found[0] & found[1]
            assert all(one.token_key is None for one in shuffler.rounds()[:-1])

    def test_a_relay_sends_many_at_once(self, world: World, tmp_path: Path, clock: Clock) -> None:
        front, shuffler = made(world, tmp_path, clock, tokens("ada", "relay"))
        with front:
            bodies = world.sealed(range(100, 200))
            for _ in range(2):
                assert front.public("POST", reports(world), b"".join(bodies), "relay").status == 201
            assert front.public("POST", reports(world), world.sealed([7])[0], "relay").status == 201
            assert front.public("POST", reports(world), world.sealed([8])[0], "ada").status == 201
            refused(front.public("POST", reports(world), b"".join(bodies), "ada"), 413)
            refused(front.public("POST", reports(world), b"".join(bodies)[:-1], "relay"), 400)
            refused(front.public("POST", reports(world), b"", "relay"), 400)
            refused(front.public("POST", reports(world), bytes((1 << 24) + 64), "relay"), 413)
            assert stored(shuffler, front, clock, world) == [7, 8, *range(100, 200)]

    def test_relays_alone_ask_nobody_else_for_a_token(self, world: World, tmp_path: Path, clock: Clock) -> None:
        front, shuffler = made(world, tmp_path, clock, tokens(relays="relay"))
        with front:
            assert front.public("POST", reports(world), world.sealed([1])[0]).status == 201
            assert front.public("POST", reports(world), b"".join(world.sealed([2, 3])), "relay").status == 201
            refused(front.public("POST", reports(world), b"".join(world.sealed([4, 5]))), 413)
            assert stored(shuffler, front, clock, world) == [1, 2, 3]

    def test_a_relay_and_a_person_may_send_the_same_report_at_once(
        self, world: World, tmp_path: Path, clock: Clock
    ) -> None:
        front, shuffler = made(world, tmp_path, clock, tokens("ada", "relay"))
        bodies = world.sealed([1, 2, 3])

        async def both() -> list[Answer]:
            sent = [(bodies[0], "ada"), (b"".join(bodies), "relay"), (bodies[0], "ada")] * 20
            return await asyncio.gather(*(front.asked("POST", reports(world), *one) for one in sent))

        with front:
            assert {answer.status for answer in front.run(both())} == {201}
            assert stored(shuffler, front, clock, world) == [1, 2, 3]


def test_the_hash_of_nothing_lets_nobody_in(world: World, tmp_path: Path, clock: Clock) -> None:
    """Such a line is easily made by mistake, and every request without a token would fit."""
    nothing = frozenset([hashlib.sha256(b"").digest()])
    front, shuffler = made(world, tmp_path, clock, TokenList(nothing, nothing))
    with front:
        for headers in ([], [(b"authorization", b"Bearer ")]):
            refused(front.public("POST", reports(world), world.sealed([1])[0], headers=headers), 401)
        assert shuffler._store._database.execute("SELECT count(*) FROM report").fetchone() == (0,)  # type: ignore[attr-defined]


def _presented(shuffler: Running) -> str:
    return ssl.get_server_certificate(("127.0.0.1", shuffler.port))


def _answers(shuffler: Running, world: World) -> bool:
    """Return whether the analyst's listener accepts the certificate of this world's analyst."""
    analyst = world.analyst
    own = world.shuffler["tls_certificate"]
    url = f"https://127.0.0.1:{shuffler.analyst_port}"
    try:
        with Connection(url, own, analyst["tls_certificate"], analyst["tls_key"]) as connection:
            return connection.request("GET", f"/v1/tasks/{world.task.id}/rounds").status == 200
    except CollectError:
        return False


@pytest.mark.slow
def test_certificates_are_read_again(tmp_path: Path) -> None:
    """A renewed certificate is used without a restart; a damaged file leaves the one before in use."""
    world = make_exact_world(tmp_path / "world")
    renewed = make_shuffler_keys(tmp_path / "renewed", ["localhost", "127.0.0.1"])
    other = replace(world, analyst=make_analyst_keys(tmp_path / "other"))
    before = world.shuffler["tls_certificate"].read_text()
    store = tmp_path / "reports.db"
    with Running(world, store, tmp_path / "batches", tmp_path / "run", tls=True) as shuffler:
        assert _presented(shuffler).split() == before.split()
        assert _answers(shuffler, world) and not _answers(shuffler, other)
        for name in ("tls_certificate", "tls_key"):
            shutil.copy(renewed[name], world.shuffler[name])
        shutil.copy(other.analyst["tls_certificate"], world.analyst["tls_certificate"])
        until(lambda: _answers(shuffler, other), "the new certificate of the analyst")
        assert _presented(shuffler).split() == renewed["tls_certificate"].read_text().split()
        world.shuffler["tls_key"].write_text("damaged")
        until(lambda: "the previous ones stay in use" in shuffler.log.read_text(), "a line about it")
        assert _presented(shuffler).split() == renewed["tls_certificate"].read_text().split()
        assert shuffler.process is not None
        shuffler.process.send_signal(signal.SIGHUP)
        until(lambda: shuffler.log.read_text().count("stay in use") >= 1, "an answer to SIGHUP")
        assert shuffler.round() == 1
        shuffler.stop()
