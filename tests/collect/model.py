"""A model of collection: what clients were told, and what must then be in each released round."""

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

from shoal.collect import failpoint
from shoal.collect.analyst import Analyst
from shoal.collect.batch import BatchFile, Manifest
from shoal.collect.connection import Answer
from shoal.collect.round_state import Round, State
from shoal.collect.service import Service
from shoal.collect.shuffler import Shuffler
from shoal.collect.store import Store
from shoal.collect.stores.sqlite import SqliteStore
from shoal.collect.tokens import TokenList
from shoal.mechanisms import RandomizedResponse
from tests.collect.asgi import Front, InProcess
from tests.collect.running import batches_in
from tests.collect.world import World, make_exact_world

MINIMUM = 3
WINDOW = 2
SECONDS = 60
BEGIN = 1_700_000_000.0
RELAY = "a relay's token"
TOKENS = TokenList(relays=frozenset([hashlib.sha256(RELAY.encode()).digest()]))
ORDER = list(State)


def worlds(folder: Path) -> dict[str, World]:
    """Return a world for each way in which a round that stays too small can end."""
    return {
        too_small: make_exact_world(
            folder / too_small,
            mechanism=RandomizedResponse(categories=8192, local_epsilon=40),
            minimum=MINIMUM,
            round_seconds=SECONDS,
            replay_rounds=WINDOW,
            too_small=too_small,
        )
        for too_small in ("extend", "discard")
    }


@contextmanager
def trouble(point: str | None) -> Iterator[None]:
    """Have the disk fail whenever this place is reached."""

    def watcher(reached: str) -> None:
        if reached == point:
            raise sqlite3.OperationalError("database or disk is full")

    with watched(watcher):
        yield


@contextmanager
def watched(watcher: Callable[[str], None]) -> Iterator[None]:
    """Tell somebody of each place that is reached."""
    failpoint.watch(watcher)
    try:
        yield
    finally:
        failpoint.watch(None)


class Model(RuleBasedStateMachine):
    """Rounds of one task, and what its clients know of them.

    `kept` has, for each round, the reports that are in it for sure, as their senders were told so (True), and those of
    which nobody was told (False): these may be in it, once.
    """

    names = count()
    window_is_exact = True
    """Whether a report is forgotten as soon as the window is over, and not only some time after that."""

    def __init__(self, folder: Path, made: dict[str, World]) -> None:
        super().__init__()
        self.folder = folder / str(next(self.names))
        self.folder.mkdir()
        self.made = made
        self.now = BEGIN
        self.kept: dict[int, dict[bytes, bool]] = {1: {}}
        self.said: dict[bytes, tuple[int, int | None]] = {}
        self.pending: list[bytes] = []
        self.seen: dict[int, Round] = {}
        self.released: dict[int, list[bytes]] = {}
        self.closes = BEGIN + SECONDS
        self.front: Front | None = None

    def open_store(self) -> Store:
        """Open the store as a process does that starts."""
        return SqliteStore(self.folder / "reports.db", self.world.task, now=self.now)

    def kill(self) -> None:
        """Leave the files as a process does that is killed: those of the log, with nothing tidied up."""
        there = self.folder.with_name(f"{self.folder.name}k")
        there.mkdir()
        for path in self.folder.iterdir():
            if path.is_dir():
                shutil.copytree(path, there / path.name)
            elif not path.name.endswith("-shm"):
                with suppress(FileNotFoundError):  # a file that a store renames at this moment has either name
                    shutil.copy(path, there / path.name)
        self.shut()
        shutil.rmtree(self.folder)
        self.folder = there

    def start(self) -> None:
        """Start the process."""
        self.shuffler = self.another()
        self.front = Front(Service(self.shuffler, TOKENS))

    def another(self) -> Shuffler:
        """Return a shuffler of another process."""
        folder = self.folder / "batches"
        return Shuffler(self.world.task, self.open_store(), folder, self.world.shuffler_key, clock=lambda: self.now)

    def shut(self) -> None:
        """End the process in order."""
        if self.front is not None:
            self.front.stop()
            self.front = None

    @property
    def running(self) -> Front:
        """The process."""
        assert self.front is not None
        return self.front

    @initialize(too_small=st.sampled_from(["extend", "discard"]))
    def begin(self, too_small: str) -> None:
        self.world = self.made[too_small]
        self.root = f"/v1/tasks/{self.world.task.id}"
        self.start()
        self.analyst = Analyst(self.folder / "analyst", self.world.task)

    # What clients do.

    def open_round(self) -> int:
        """Return what a client is told of the open round: which it is, when it ends, and nothing else."""
        answer = self.running.public("GET", f"{self.root}/round")
        assert answer.status == 200 and set(json.loads(answer.body)) == {"round", "closes"}
        number = answer.member("round")
        assert isinstance(number, int)
        return number

    def report(self, number: int) -> bytes:
        """Return a report with a value that nobody else has sent."""
        value = len(self.said)
        (body,) = self.world.sealed(self.world.task.mechanism.randomize([value]), number)
        self.said[body] = number, value
        return body

    def post(self, number: int, body: bytes, point: str | None = None, token: str | None = None) -> Answer:
        """Send a report, or many, and note what the answer says."""
        with trouble(point):
            answer = self.running.public("POST", f"{self.root}/rounds/{number}/reports", body, token)
        self.note(number, body, answer)
        return answer

    def note(self, number: int, body: bytes, answer: Answer | None) -> None:
        """Note what was answered; None if the answer was lost."""
        if answer is not None and answer.status == 409:
            assert answer.member("round") == max(self.kept) != number
            return
        assert number == max(self.kept), f"round {number} is not open, and got {answer}"
        assert answer is None or (answer.status in (201, 503))
        assert answer is None or answer.status == 503 or answer.body == b""
        length = self.world.task.ciphertext_bytes
        for start in range(0, len(body), length):
            one = body[start : start + length]
            before = [self.kept[earlier].get(one) for earlier in range(max(1, number - WINDOW), number)]
            if True not in before:
                long_ago = any(one in self.kept[earlier] for earlier in range(1, number - WINDOW))
                unsure = False in before or (long_ago and not self.window_is_exact)
                sure = answer is not None and answer.status == 201 and not unsure
                self.kept[number][one] = sure or self.kept[number].get(one, False)

    # What must hold after each of these.

    @invariant()
    def look(self) -> None:
        """Compare the rounds with what they were before, and released batches with what clients know."""
        if self.front is None:
            return
        rounds = self.shuffler.rounds()
        assert [one.number for one in rounds] == list(range(1, len(rounds) + 1))
        assert [one.number for one in rounds if one.state == State.OPEN] == [len(rounds)]
        for one in rounds:
            if one.number in self.seen:
                self.compare(self.seen[one.number], one)
            else:
                assert self.now < one.closes <= max(self.closes, self.now) + SECONDS
                self.kept.setdefault(one.number, {})
            self.seen[one.number] = one
        self.closes = rounds[-1].closes
        told = self.running.analyst("GET", f"{self.root}/rounds")
        assert [(each["round"], each["state"], each["reports"]) for each in _list(told)] == [
            (one.number, one.state, one.reports) for one in rounds[:-1]
        ]

    @invariant()
    def look_at_files(self) -> None:
        """Check that there are batches of those rounds that are ready, and nothing else that holds reports."""
        if self.front is None:
            return
        rounds = self.shuffler.rounds()
        ready = {self.shuffler.batch_path(one.number) for one in rounds if one.state in (State.READY, State.ACKED)}
        early = {f"round-{one.number}" for one in rounds if one.state != State.PURGED}
        found = set(batches_in(self.folder / "batches"))
        assert ready <= found
        assert {path.name.split(".")[0] for path in found - ready} <= early, "only strays of a release that failed"

    def compare(self, before: Round, after: Round) -> None:
        """Check the way of a round, and what was released of it."""
        number = after.number
        sure = sum(self.kept[number].values())
        assert ORDER.index(before.state) <= ORDER.index(after.state)
        if after.state == State.OPEN:
            assert after.reports is None and after.manifest is None
            assert after.closes <= max(before.closes, self.now + SECONDS)
            if after.closes > before.closes:  # extended, as it was too small when its time had come
                assert self.now >= before.closes and sure < MINIMUM and self.world.task.too_small == "extend"
            return
        if before.state == State.OPEN:
            assert self.now >= before.closes, "it has ended before its time"
            assert after.discarded == (after.state == State.PURGED)
            if after.discarded:
                assert sure < MINIMUM and self.world.task.too_small == "discard"
        if after.discarded:
            assert after.reports is None and after.manifest is None and number not in self.released
            return
        assert after.reports is not None and after.reports >= MINIMUM and sure <= after.reports
        assert (after.manifest is None) == (after.state == State.SEALED)
        assert after.state not in (State.ACKED, State.PURGED) or number in self.analyst.counted()
        if before.manifest is not None:
            assert after.manifest == before.manifest, "it was released twice"
        if after.state in (State.READY, State.ACKED):
            self.check_batch(number)
        elif after.state == State.PURGED:
            assert not self.shuffler.batch_path(number).exists()

    def check_batch(self, number: int) -> None:
        """Check that a released batch is signed, that it is what was acknowledged, and that it stays so."""
        data, _ = self.shuffler.released(number)
        manifest = Manifest.verified(data, self.world.task, number)
        batch = BatchFile.checked(self.shuffler.batch_path(number), self.world.task, manifest)
        records = list(batch.records(0, manifest.reports))
        assert self.released.setdefault(number, records) == records
        assert len(records) == len(set(records)) >= MINIMUM
        kept = self.kept[number]
        assert {body for body, sure in kept.items() if sure} <= set(records) <= set(kept)
        self.kept[number] = dict.fromkeys(records, True)  # now all know

    def check_counts(self, number: int) -> None:
        """Check that the analyst counts what was acknowledged, and each once."""
        tally = self.analyst.count(number, self.world.analyst_key, processes=1)
        said = [self.said[body] for body in self.released[number]]
        values = [value for sealed_for, value in said if value is not None and sealed_for == number]
        assert (tally.received, tally.valid) == (len(said), len(values))
        assert (tally.malformed, tally.duplicate) == (0, 0)
        assert np.flatnonzero(tally.counts.values).tolist() == sorted(values)
        assert tally.counts.values.max(initial=0) <= 1

    def teardown(self) -> None:
        """End all rounds, hand them over, and count them."""
        if self.front is None:
            return
        try:
            for _ in range(2):
                self.now = self.closes
                self.running.tick()
                self.look()
            self.analyst.pull(InProcess(self.running))
            self.look()
            assert self.analyst.pulled() == sorted(self.released)
            for number in self.released:
                self.check_counts(number)
                assert self.analyst.count(number, self.world.analyst_key, processes=1).new is False
            assert self.analyst.counted() == sorted(self.released)
            self.analyst.acknowledge(InProcess(self.running))
            self.look()
            assert not any(one.state == State.READY for one in self.seen.values())
        finally:
            self.shut()


def _list(answer: Answer) -> Sequence[dict[str, object]]:
    found = answer.member("rounds")
    assert answer.status == 200 and isinstance(found, list)
    return found
