"""Whatever happens on the way, a released round is the reports that were acknowledged, each once.

A random sequence of uploads, replays, lost requests and answers, faults, restarts, releases and jumps of the clock runs
against the real parts, with a mechanism that does not lie and values that nobody else sends. A model keeps nothing but
what clients were told.
"""

import asyncio
import random
import sqlite3
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from shoal.collect import failpoint
from shoal.collect.analyst import Analyst
from shoal.collect.connection import Answer
from shoal.collect.round_state import State
from shoal.collect.store import Store
from shoal.collect.stores.postgres import PostgresStore
from shoal.errors import CollectError
from tests.collect.asgi import InProcess
from tests.collect.database import Cluster
from tests.collect.model import MINIMUM, RELAY, WINDOW, Model, trouble, watched, worlds
from tests.collect.world import World
from tests.exhaustive import amount

SMALL = st.integers(0, 5)
ANY = st.integers(0, 1000)


class Collection(Model):
    """What clients, the network, time and operators do to a model, in any order."""

    @rule(many=st.integers(1, 4), point=st.sampled_from([None, None, None, "after insert", "before commit"]))
    def upload(self, many: int, point: str | None) -> None:
        """People report, one after the other; those whose report was not stored, or not for this round, try again."""
        for _ in range(many):
            number = self.open_round()
            answer = self.post(number, self.report(number), point)
            if answer.status == 409:
                number = max(self.kept)
                answer = self.post(number, self.report(number), point)
            assert answer.status == (503 if point else 201), answer

    @rule(many=st.integers(1, 6), copies=st.integers(1, 3), stray=st.booleans())
    def upload_at_once(self, many: int, copies: int, stray: bool) -> None:
        """Send several reports at the same moment, some over and over, and some for a round that is not open."""
        number = max(self.kept)
        sent = [(number, self.report(number)) for _ in range(many)] * copies
        if stray:
            sent[1:1] = [(number + 1, self.report(number + 1)), (0, self.report(0))]

        async def all_of_them() -> list[Answer]:
            return await asyncio.gather(
                *(self.running.asked("POST", f"{self.root}/rounds/{to}/reports", body) for to, body in sent)
            )

        for (to, body), answer in zip(sent, self.running.run(all_of_them()), strict=True):
            self.note(to, body, answer)
            assert answer.status == (201 if to == number else 409)

    @rule(many=st.integers(1, 5), old=SMALL, point=st.sampled_from([None, None, "before commit"]))
    def relay(self, many: int, old: int, point: str | None) -> None:
        """Send many reports at once, one of them twice, and one that was sent before, as a relay may."""
        number = max(self.kept)
        bodies = [self.report(number) for _ in range(many)]
        bodies += [bodies[0], *list(self.said)[old : old + 1]]
        assert self.post(number, b"".join(bodies), point, RELAY).status == (503 if point else 201)

    @rule(which=ANY)
    def replay(self, which: int) -> None:
        """Somebody sends a report of whatever round, which was seen on the way, to the open one."""
        if self.said:
            assert self.post(max(self.kept), list(self.said)[which % len(self.said)]).status == 201

    @rule(back=st.integers(1, WINDOW + 1))
    def replay_round(self, back: int) -> None:
        """Send all of an earlier round again; within the window, nothing of it is kept."""
        number = max(self.kept)
        if bodies := list(self.kept.get(number - back, {})):
            assert self.post(number, b"".join(bodies), token=RELAY).status == 201

    @rule()
    def lose_request(self) -> None:
        self.pending.append(self.report(max(self.kept)))

    @rule()
    def lose_answer(self) -> None:
        number = max(self.kept)
        body = self.report(number)
        answer = self.running.public("POST", f"{self.root}/rounds/{number}/reports", body)
        assert answer.status == 201
        self.note(number, body, None)
        self.pending.append(body)

    @rule(turns=st.integers(0, 12))
    def vanish(self, turns: int) -> None:
        """Go away before the answer."""
        number = max(self.kept)
        body = self.report(number)

        async def cut_off() -> None:
            task = asyncio.create_task(self.running.asked("POST", f"{self.root}/rounds/{number}/reports", body))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

        self.running.run(cut_off())
        self.note(number, body, None)
        self.pending.append(body)

    @rule(which=ANY)
    def retry(self, which: int) -> None:
        """Send the same bytes again, without an answer to the first; if the round is over, give up."""
        if self.pending:
            body = self.pending.pop(which % len(self.pending))
            assert self.post(self.said[body][0], body).status in (201, 409)

    @rule(away=st.sampled_from([-2, -1, 1, 2, 10**17]))
    def upload_to_wrong_round(self, away: int) -> None:
        number = max(self.kept) + away
        if number >= 0:
            assert self.post(number, self.report(number)).status == 409

    @rule(length=st.sampled_from([0, 1, -1, 64]))
    def upload_junk(self, length: int) -> None:
        """Send what nobody can read: the shuffler can't tell it from a report, but for its length."""
        number, right = max(self.kept), self.world.task.ciphertext_bytes
        body = random.randbytes(right + length)
        if length:
            answer = self.running.public("POST", f"{self.root}/rounds/{number}/reports", body)
            assert answer.status == (413 if length > 0 else 400)
        else:
            self.said[body] = number, None
            assert self.post(number, body).status == 201

    # What time and operators do.

    @rule(seconds=st.sampled_from([1, 30, 59, 60, 61, 1000, -1, -45, -1000]))
    def move_clock(self, seconds: int) -> None:
        self.now += seconds

    @rule(forward=st.booleans(), point=st.sampled_from([None, None, None, *failpoint.POINTS]))
    def tick(self, forward: bool, point: str | None) -> None:
        if forward:
            self.now = max(self.now, self.closes)
        last = max(self.kept)
        due = self.now >= self.closes
        enough = sum(self.kept[last].values()) >= MINIMUM
        with trouble(point):
            self.running.tick()
        self.look()
        assert not due or not enough or last != max(self.kept)  # it is not kept back either
        if point is None:
            assert State.SEALED not in [one.state for one in self.seen.values()]
            assert State.ACKED not in [one.state for one in self.seen.values()]

    @rule(many=st.integers(MINIMUM - 1, MINIMUM + 1), back=st.integers(0, WINDOW + 1), purged=st.booleans())
    def whole_round(self, many: int, back: int, purged: bool) -> None:
        """Let all go well for once, but for a replay."""
        self.upload_at_once(many, 1, False)
        if back:
            self.replay_round(back)
        self.tick(True, None)
        if purged:
            self.pull(None, False)
            for number in self.analyst.pulled():
                self.check_counts(number)
            self.acknowledge(None, False, None)
            self.tick(False, None)

    @rule(forward=st.booleans())
    def close(self, forward: bool) -> None:
        """Another process ends the round; the one that serves does not know of it yet."""
        if forward:
            self.now = max(self.now, self.closes)
        other = self.another()
        other.close()
        other.shut()

    @rule(which=ANY, point=st.sampled_from([None, None, "batch written", "renamed"]))
    def release(self, which: int, point: str | None) -> None:
        number = 1 + which % (max(self.kept) + 1)
        sealed = number in self.seen and self.seen[number].state == State.SEALED
        with trouble(point):
            try:
                self.shuffler.release(number)
                assert sealed
            except sqlite3.OperationalError:
                assert sealed
            except CollectError:
                assert not sealed

    @rule()
    def release_twice_at_once(self) -> None:
        """Release a round in a second process while the first one has its batch written."""
        number = max(self.kept)
        self.upload_at_once(MINIMUM, 1, False)
        self.close(True)
        self.look()
        other = self.another()

        def watcher(point: str) -> None:
            if point == "batch written":
                failpoint.watch(None)
                other.release(number)
                self.look()

        with watched(watcher):
            self.shuffler.release(number)
        other.shut()

    @rule(which=st.none() | ANY, again=st.booleans())
    def pull(self, which: int | None, again: bool) -> None:
        number = None if which is None else 1 + which % (max(self.kept) + 1)
        ready = [one.number for one in self.seen.values() if one.state == State.READY]
        for _ in range(1 + again):
            new = [one for one in ready if one not in self.analyst.pulled()]
            try:
                pulled = self.analyst.pull(InProcess(self.running), number)
                assert pulled == [one for one in new if number in (None, one)]
            except CollectError:
                assert number is not None and number not in ready and number not in self.analyst.pulled()
            assert set(ready) >= set(new) and (number is not None or set(ready) <= set(self.analyst.pulled()))

    @rule(
        which=st.none() | ANY,
        again=st.booleans(),
        point=st.sampled_from([None, None, None, "before ack", "after ack"]),
    )
    def acknowledge(self, which: int | None, again: bool, point: str | None) -> None:
        """Tell the shuffler what is counted, and may be deleted; nothing else is."""
        number = None if which is None else 1 + which % (max(self.kept) + 1)
        ready = [one.number for one in self.seen.values() if one.state == State.READY]
        waiting = [one for one in ready if one in self.analyst.counted() and number in (None, one)]
        for _ in range(1 + again):
            with trouble(point):
                try:
                    assert self.analyst.acknowledge(InProcess(self.running), number) == waiting
                    assert point is None or not waiting
                    waiting = []
                except CollectError:
                    assert point is not None and waiting
                    waiting = waiting[point == "after ack" :]

    @rule(which=ANY)
    def purge(self, which: int) -> None:
        number = 1 + which % (max(self.kept) + 1)
        over = number in self.seen and self.seen[number].state in (State.ACKED, State.PURGED)
        try:
            self.shuffler.purge(number)
            assert over
        except CollectError:
            assert not over

    @rule(which=ANY)
    def count(self, which: int) -> None:
        """Count a round, maybe again."""
        numbers = self.analyst.pulled()
        if numbers:
            self.check_counts(numbers[which % len(numbers)])

    @rule(killed=st.booleans())
    def restart(self, killed: bool) -> None:
        if killed:
            self.kill()
        else:
            self.shut()
        self.start()
        self.analyst = Analyst(self.folder / "analyst", self.world.task)


def model_settings(examples: int) -> settings:
    """Return how long to search: the same sequences each time, so that a failure is found again."""
    return settings(
        max_examples=examples,
        stateful_step_count=40,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


@pytest.mark.slow
def test_a_released_round_is_what_was_acknowledged(tmp_path: Path) -> None:
    made = worlds(tmp_path)
    run_state_machine_as_test(
        lambda: Collection(tmp_path, made),  # type: ignore[arg-type]  # whatever makes one is fine
        settings=model_settings(amount(15, 80)),
    )


class InPostgres(Collection):
    """The same with a database server; there, a process that is killed leaves nothing behind but its connections."""

    window_is_exact = False

    def __init__(self, folder: Path, made: dict[str, World], url: str) -> None:
        super().__init__(folder, made)
        self.url = url

    def open_store(self) -> Store:
        """Connect to the server."""
        return PostgresStore(self.url, self.world.task, now=self.now)

    def kill(self) -> None:
        """End the process."""
        self.shut()

    def teardown(self) -> None:
        """End all rounds, and forget the task."""
        import psycopg

        try:
            super().teardown()
        finally:
            if hasattr(self, "world"):
                with psycopg.connect(self.url, autocommit=True) as database:
                    database.execute(f"DROP SCHEMA IF EXISTS shoal_{self.world.task.id[:56]} CASCADE".encode())


@pytest.mark.slow
def test_a_released_round_is_what_was_acknowledged_in_postgres(tmp_path: Path, cluster: Cluster) -> None:
    made = worlds(tmp_path)
    run_state_machine_as_test(
        lambda: InPostgres(tmp_path, made, cluster.socket_url),  # type: ignore[arg-type]
        settings=model_settings(amount(6, 40)),
    )
