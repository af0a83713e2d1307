"""The analyst: a round is pulled whole or not at all, counted once, and published only where its task allows it."""

import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

import shoal
from shoal import processes
from shoal.collect.analyst import Analyst
from shoal.collect.connection import Connection
from shoal.collect.counting import Job, ShardCounts, spans_of
from shoal.collect.envelope import seal
from shoal.collect.result import Result, Tally
from shoal.collect.task import Task
from shoal.errors import CollectError, DamagedError, ForgedError, ParameterError, WithheldError, WrongKeyError
from shoal.files.names import Names
from shoal.mechanisms import Counts, RandomizedResponse, Simulation, kinds
from tests.collect.running import PATIENCE, until
from tests.collect.small_server import Asked, Said, small_server
from tests.collect.world import World, make_exact_world, make_world

MECHANISMS = kinds("categories", within=("categories", "local_epsilon"))

SPAWN = multiprocessing.get_context("spawn")


@dataclass
class Shelf:
    """What a shuffler has released: manifests and batches by round, and which were acknowledged."""

    world: World
    rounds: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)
    acknowledged: list[tuple[int, bytes]] = field(default_factory=list)
    downloads: int = 0

    def put(self, records: list[bytes], number: int = 1) -> None:
        """Release a round."""
        path = self.world.folder / "released"
        manifest = self.world.release(path, records, number)
        self.rounds[number] = manifest, path.read_bytes()

    def answer(self, asked: Asked) -> Said:
        """Answer as the shuffler's listener for the analyst does."""
        root, place = f"/v1/tasks/{self.world.task.id}/rounds", asked.path.split("/")
        if asked.path == root:
            acknowledged = {number for number, _ in self.acknowledged}
            told = [
                {"round": number, "state": "acked" if number in acknowledged else "ready", "reports": 1}
                for number in self.rounds
            ]
            return Said(body=json.dumps({"rounds": [*told, {"round": 99, "state": "sealed", "reports": 1}]}).encode())
        number = int(place[5])
        if number not in self.rounds:
            return Said(409, json.dumps({"detail": "there is no such round"}).encode())
        if place[6] == "ack":
            self.acknowledged.append((number, asked.body))
            return Said(204)
        self.downloads += place[6] == "batch"
        return Said(body=self.rounds[number][place[6] == "batch"])

    @contextmanager
    def connection(self, answer: Callable[[Asked], Said] | None = None) -> Iterator[Connection]:
        """Serve over mutual TLS, as the shuffler does, and connect."""
        keys, own = self.world.shuffler, self.world.analyst
        with (
            small_server(answer or self.answer, keys, own["tls_certificate"]) as server,
            Connection(
                f"https://localhost:{server.port}", keys["tls_certificate"], own["tls_certificate"], own["tls_key"]
            ) as connection,
        ):
            yield connection


def pulled(world: World, folder: Path, records: list[bytes], number: int = 1) -> Analyst:
    """Return an analyst who has pulled a round with these records."""
    shelf, analyst = Shelf(world), Analyst(folder, world.task)
    shelf.put(records, number)
    with shelf.connection() as connection:
        analyst.pull(connection, number)
    return analyst


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_exact_world(tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "analyst"


@pytest.mark.slow
def test_pull_checks_and_keeps_and_what_is_counted_is_acknowledged(world: World, folder: Path) -> None:
    shelf, analyst = Shelf(world), Analyst(folder, world.task)
    shelf.put(world.sealed([1, 2, 3], 1), 1)
    shelf.put(world.sealed([4, 5], 2), 2)
    hashes = {number: json.loads(manifest)["sha256"].encode() for number, (manifest, _) in shelf.rounds.items()}
    with shelf.connection() as connection:
        assert analyst.pull(connection) == [1, 2]
        assert analyst.pulled() == [1, 2] and analyst.counted() == []
        assert analyst.pull(connection) == []  # both are here
        assert analyst.pull(connection, 2) == []
        assert analyst.acknowledge(connection) == [] and shelf.acknowledged == []
        assert analyst.count(1, world.analyst_key).valid == 3
        assert analyst.acknowledge(connection, 2) == []
        assert analyst.acknowledge(connection) == [1]
        assert analyst.count(2, world.analyst_key).valid == 2
        for path in (folder / "batches").iterdir():
            path.unlink()  # as whoever runs it should, once all is counted
        assert analyst.pull(connection) == []
        assert analyst.acknowledge(connection) == [2]
        assert analyst.acknowledge(connection) == []
    assert shelf.downloads == 2
    assert shelf.acknowledged == [(1, hashes[1]), (2, hashes[2])]
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.rglob("*"))


@pytest.mark.slow
@pytest.mark.parametrize("deleted", [True, False])
def test_another_batch_of_a_round_that_is_counted_is_not_acknowledged(
    world: World, folder: Path, deleted: bool
) -> None:
    """A shuffler that begins again in an empty folder has a round 1 that nobody has counted."""
    first, again, analyst = Shelf(world), Shelf(world), Analyst(folder, world.task)
    first.put(world.sealed([1, 2, 3]))
    with first.connection() as connection:
        assert analyst.pull(connection) == [1]
        assert analyst.count(1, world.analyst_key, 1).valid == 3
        if deleted:
            for path in (folder / "batches").iterdir():
                path.unlink()
        assert analyst.acknowledge(connection) == [1]
    again.put(world.sealed([4, 5, 6, 7]))
    again.put(world.sealed([8, 9], 2), 2)
    with again.connection() as connection:
        for act in (analyst.acknowledge, analyst.pull):
            for number in (None, 1):
                with pytest.raises(CollectError, match=r"another batch of round 1 .* neither fetched nor acknowledged"):
                    act(connection, number)
        assert again.acknowledged == [] and again.downloads == 1
        assert analyst.count(2, world.analyst_key, 1).valid == 2  # it was pulled all the same
        with pytest.raises(CollectError, match="another batch of round 1"):
            analyst.acknowledge(connection)
        assert [number for number, _ in again.acknowledged] == [2]
    assert analyst.result(1).valid == 3


@pytest.mark.slow
@pytest.mark.parametrize("place", [20, 60, 70, -1])
def test_a_changed_batch_is_not_kept(world: World, folder: Path, place: int) -> None:
    shelf, analyst = Shelf(world), Analyst(folder, world.task)
    shelf.put(world.sealed([1, 2, 3]))
    right = shelf.rounds[1]
    wrong = bytearray(right[1])
    wrong[place] ^= 1
    with shelf.connection() as connection:
        for body in (bytes(wrong), right[1][:-1], right[1] + b"\0", b""):
            shelf.rounds[1] = right[0], body
            with pytest.raises(DamagedError, match="not the batch that"):
                analyst.pull(connection)
            assert analyst.pulled() == [] and not list((folder / "batches").iterdir())
        assert shelf.acknowledged == []
        shelf.rounds[1] = right
        assert analyst.pull(connection) == [1]
    assert analyst.count(1, world.analyst_key).valid == 3


def test_no_more_is_downloaded_than_was_signed(world: World, folder: Path) -> None:
    """A manifest of three reports, and a shuffler that sends until the disk is full."""
    shelf, analyst = Shelf(world), Analyst(folder, world.task)
    shelf.put(world.sealed([1, 2, 3]))
    _, batch = shelf.rounds[1]
    most = 0

    def fill(asked: Asked) -> Said:
        if not asked.path.endswith("/batch"):
            return shelf.answer(asked)
        return Said(body=batch + bytes(1 << 26))

    with shelf.connection(fill) as connection:
        over = threading.Event()

        def watch() -> None:
            nonlocal most
            while not over.wait(0.001):
                for path in (folder / "batches").glob(".*"):
                    with suppress(FileNotFoundError):
                        most = max(most, path.stat().st_size)

        watcher = threading.Thread(target=watch)
        watcher.start()
        with pytest.raises(DamagedError, match=f"and {len(batch)} were signed"):
            analyst.pull(connection)
        over.set()
        watcher.join()
    assert most <= len(batch) and not list((folder / "batches").iterdir())


def test_a_manifest_of_somebody_else_is_refused(world: World, folder: Path) -> None:
    analyst, shelf = Analyst(folder, world.task), Shelf(replace(world, shuffler_key=Ed25519PrivateKey.generate()))
    shelf.put(world.sealed([1, 2, 3]))
    with shelf.connection() as connection, pytest.raises(ForgedError, match="not signed by the shuffler"):
        analyst.pull(connection)
    assert shelf.acknowledged == [] and shelf.downloads == 0


def test_two_batches_of_one_round_are_refused(world: World, folder: Path) -> None:
    shelf, analyst = Shelf(world), Analyst(folder, world.task)
    shelf.put(world.sealed([1, 2, 3]))
    with shelf.connection() as connection:
        analyst.pull(connection, 1)
        shelf.put(world.sealed([1, 2, 3]))
        with pytest.raises(CollectError, match="two different batches"):
            analyst.pull(connection, 1)
    assert analyst.count(1, world.analyst_key).valid == 3


@pytest.mark.slow
def test_a_pull_that_was_cut_short_goes_on(world: World, folder: Path) -> None:
    """The batch is there without its manifest, or only in part: both are fetched again."""
    shelf, analyst = Shelf(world), Analyst(folder, world.task)
    shelf.put(world.sealed([1, 2, 3]))
    batch, manifest = folder / "batches" / "1.batch", folder / "batches" / "1.manifest"
    with shelf.connection() as connection:
        batch.write_bytes(b"half")
        with pytest.raises(CollectError, match="not pulled yet"):
            analyst.count(1, world.analyst_key)
        analyst.pull(connection, 1)
        batch.write_bytes(batch.read_bytes()[:-1])
        with pytest.raises(DamagedError, match="pull the round again"):
            analyst.count(1, world.analyst_key)
        assert analyst.pull(connection) == [1]  # which works, since the shuffler still has it
        manifest.unlink()
        assert analyst.pull(connection) == [1]
        manifest.write_bytes(manifest.read_bytes().replace(b'"round":1', b'"round":2'))
        with pytest.raises(ForgedError):
            analyst.count(1, world.analyst_key)
        assert analyst.pull(connection) == [1]
    assert shelf.downloads == 4 and shelf.acknowledged == []
    assert analyst.count(1, world.analyst_key).valid == 3


def test_what_the_shuffler_refuses_is_told(world: World, folder: Path) -> None:
    shelf, analyst = Shelf(world), Analyst(folder, world.task)
    with shelf.connection() as connection, pytest.raises(CollectError, match="there is no such round"):
        analyst.pull(connection, 7)
    for nonsense in (b"", b"[]", b'{"rounds": 3}', b'{"rounds": [{"state": "ready"}]}', b"[" * 100_000):
        with (
            small_server(lambda _, body=nonsense: Said(body=body), None) as server,  # type: ignore[misc]
            Connection(f"http://127.0.0.1:{server.port}") as connection,
            pytest.raises(CollectError, match="makes no sense"),
        ):
            analyst.pull(connection)


def test_a_folder_belongs_to_one_task(world: World, folder: Path) -> None:
    Analyst(folder, world.task)
    Analyst(folder, world.task)
    with pytest.raises(ParameterError, match="belongs to the task"):
        Analyst(folder, replace(world.task, question="Another?"))


def test_a_damaged_database_is_left_alone(world: World, folder: Path) -> None:
    folder.mkdir()
    (folder / "analyst.db").write_bytes(b"something else" * 1000)
    with pytest.raises(DamagedError, match="left as it is"):
        Analyst(folder, world.task)
    assert (folder / "analyst.db").read_bytes() == b"something else" * 1000


def test_another_private_key_is_refused_before_counting(world: World, folder: Path) -> None:
    analyst = pulled(world, folder, world.sealed([1, 2, 3]))
    with pytest.raises(WrongKeyError, match="does not belong to the task"):
        analyst.count(1, X25519PrivateKey.generate())
    assert analyst.counted() == []
    assert analyst.count(1, world.analyst_key).new


def test_arguments_are_checked(world: World, folder: Path) -> None:
    analyst = Analyst(folder, world.task)
    with pytest.raises(ParameterError, match="engine must be one of local, spark"):
        analyst.count(1, world.analyst_key, engine="abacus")
    with pytest.raises(ParameterError, match="processes"):
        analyst.count(1, world.analyst_key, processes=0)
    with pytest.raises(CollectError, match="not counted yet"):
        analyst.result(1)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_the_result_is_the_estimate_of_the_same_counts(name: str, tmp_path: Path) -> None:
    mechanism = MECHANISMS[name](categories=12, local_epsilon=2)
    world = make_world(tmp_path, mechanism=mechanism, epsilon_limit=2.5, minimum=2, malicious=3)
    reports = mechanism.randomize(np.arange(100) % 12, simulation=Simulation(seed=1))
    analyst = pulled(world, tmp_path / "analyst", world.sealed(reports) + world.junk(5))
    analyst.count(1, world.analyst_key)
    result = analyst.result(1, confidence=0.9)
    expected = mechanism.estimate(mechanism.aggregate(reports), confidence=0.9)
    assert result.estimate.to_dict() == expected.to_dict()
    assert result.epsilon == shoal.amplify(mechanism, reports=97).epsilon(1e-6)


@pytest.mark.slow
def test_several_processes_count_the_same(world: World, folder: Path) -> None:
    values = np.random.default_rng(3).integers(0, 65536, 501)
    records = world.sealed(values) + world.junk(11)
    one, two = pulled(world, folder / "1", records), pulled(world, folder / "2", records)
    first = one.count(1, world.analyst_key, processes=1)
    second = two.count(1, world.analyst_key, processes=2)
    assert first.counts == second.counts and first.to_dict() == second.to_dict()
    assert np.array_equal(first.counts.values, np.bincount(values, minlength=65536))
    raw = world.analyst_key.private_bytes_raw()
    for path in folder.rglob("*"):
        assert path.is_dir() or not any(key in path.read_bytes() for key in (raw, raw.hex().encode()))


def test_parts_cover_everything_once() -> None:
    for reports, workers, most in ((1, 1, 9), (1, 8, 9), (100, 3, 7), (20_001, 2, 20_000), (10**7, 16, 20_000)):
        spans = spans_of(reports, workers, most)
        assert (spans[0][0], spans[-1][1]) == (0, reports)
        assert all(stop == start for (_, stop), (start, _) in pairwise(spans))
        sizes = [stop - start for start, stop in spans]
        assert max(sizes) <= most and max(sizes) - min(sizes) <= 1


def test_copies_are_counted_once(world: World, folder: Path) -> None:
    fine, lost = world.sealed([7, 8, 9]), world.junk(2)
    bad = [seal(world.task, 1, bytes([9, 1, *bytes(14)]))]
    alike = [lost[0][:-1] + bytes([lost[0][-1] ^ 1]), fine[0][:40] + bytes(len(fine[0]) - 40)]  # the same beginning
    records = [*fine, *lost, *bad, *alike, fine[1], fine[1], lost[0], bad[0], alike[1], fine[2]]
    tally = pulled(world, folder, records).count(1, world.analyst_key)
    assert (tally.received, tally.valid, tally.undecryptable, tally.malformed, tally.duplicate) == (14, 3, 4, 1, 6)
    assert np.flatnonzero(tally.counts.values).tolist() == [7, 8, 9] and tally.counts.values.max() == 1


def test_a_round_counts_once(world: World, folder: Path) -> None:
    analyst = pulled(world, folder, [*world.sealed([1, 2, 3]), *world.junk(2)])
    first = analyst.count(1, world.analyst_key)
    for path in (folder / "batches").iterdir():
        path.unlink()
    again = Analyst(folder, world.task).count(1, world.analyst_key)
    assert first.new and not again.new
    assert first.counts == again.counts and first.to_dict() == again.to_dict()
    assert analyst.counted() == [1]


def test_threads_open_a_new_folder_at_once(world: World, tmp_path: Path) -> None:
    for attempt in range(5):
        gate, folder = threading.Barrier(4), tmp_path / f"new-{attempt}"

        def opened(gate: threading.Barrier = gate, folder: Path = folder) -> list[int]:
            gate.wait()
            return Analyst(folder, world.task).counted()

        with ThreadPoolExecutor(4) as pool:
            assert [future.result() for future in [pool.submit(opened) for _ in range(4)]] == [[]] * 4


def _count_all(folder: Path, task: bytes, key: bytes, rounds: int) -> list[bool]:
    analyst, private = Analyst(folder, Task.from_bytes(task)), X25519PrivateKey.from_private_bytes(key)
    return [analyst.count(number, private, processes=1).new for number in range(1, rounds + 1)]


@pytest.mark.slow
def test_processes_count_every_round_once(world: World, folder: Path) -> None:
    rounds, shelf, analyst = 6, Shelf(world), Analyst(folder, world.task)
    for number in range(1, rounds + 1):
        shelf.put(world.sealed(np.arange(40), number), number)
    with shelf.connection() as connection:
        assert len(analyst.pull(connection)) == rounds
    job = (folder, world.task.to_bytes(), world.analyst_key.private_bytes_raw(), rounds)
    with ProcessPoolExecutor(2, SPAWN) as pool:
        first, second = (future.result() for future in [pool.submit(_count_all, *job) for _ in range(2)])
    assert [one != other for one, other in zip(first, second, strict=True)] == [True] * rounds
    assert analyst.counted() == list(range(1, rounds + 1))
    assert all(analyst.count(number, world.analyst_key).valid == 40 for number in analyst.counted())


class _Killed(Analyst):
    """An analyst whose process is killed when the counts are written, and not yet committed."""

    @contextmanager
    def _transaction(self) -> Iterator[object]:  # type: ignore[override]
        with super()._transaction() as database:
            yield database
            if database.total_changes:
                os.kill(os.getpid(), signal.SIGKILL)


def _count_and_die(folder: Path, task: bytes, key: bytes) -> None:
    _Killed(folder, Task.from_bytes(task)).count(1, X25519PrivateKey.from_private_bytes(key), processes=1)


@pytest.mark.slow
def test_killed_before_the_commit_nothing_is_counted(world: World, folder: Path) -> None:
    analyst = pulled(world, folder, world.sealed([5, 6]))
    job = (folder, world.task.to_bytes(), world.analyst_key.private_bytes_raw())
    process = SPAWN.Process(target=_count_and_die, args=job)
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert analyst.counted() == []
    tally = analyst.count(1, world.analyst_key)
    assert tally.new and np.flatnonzero(tally.counts.values).tolist() == [5, 6]


def _count_in_three(folder: Path, task: bytes, key: bytes, ready: Path) -> None:
    """Count until other processes have counted two parts, say so, and wait to be killed."""
    own: list[tuple[int, int]] = []
    call = Job.__call__

    def counted(job: Job, span: tuple[int, int]) -> ShardCounts:
        own.append(span)
        return call(job, span)

    def held(parts: Iterator[ShardCounts], **_: object) -> Iterator[ShardCounts]:
        for seen, part in enumerate(parts, 1):
            if seen - len(own) == 2:
                ready.touch()
                threading.Event().wait()
            yield part

    Job.__call__, processes.progress = counted, held  # type: ignore[assignment, attr-defined, method-assign]
    Analyst(folder, Task.from_bytes(task)).count(1, X25519PrivateKey.from_private_bytes(key), processes=3)


def _stat(process: int | str) -> list[str]:
    """Return the state of a process, its parent, and so on; nothing if there is no such process."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return ["Z", "0"]


def _children(parent: int) -> set[int]:
    return {int(path.name) for path in Path("/proc").glob("[0-9]*") if _stat(path.name)[1] == str(parent)}


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_killed_while_it_counts_no_process_stays_behind(world: World, folder: Path) -> None:
    """Workers hold the private key in memory: they end with the process that they work for."""
    analyst = pulled(world, folder, world.sealed(np.arange(20)) + world.junk(20_000))
    ready = folder / "ready"
    job = (folder, world.task.to_bytes(), world.analyst_key.private_bytes_raw(), ready)
    process = SPAWN.Process(target=_count_in_three, args=job)
    process.start()
    assert process.pid is not None
    until(lambda: ready.exists() or not process.is_alive(), "a part that another process has counted")
    workers = _children(process.pid)
    process.kill()
    process.join(PATIENCE)
    assert len(workers) >= 2 and process.exitcode == -signal.SIGKILL
    until(lambda: all(_stat(worker)[0] == "Z" for worker in workers), "the end of all workers")
    assert analyst.counted() == []


@pytest.mark.slow
def test_half_junk_is_accounted_at_what_is_valid(tmp_path: Path) -> None:
    world = make_world(tmp_path, minimum=400, malicious=10)
    mechanism = world.task.mechanism
    reports = mechanism.randomize(np.arange(400) % 4, simulation=Simulation(seed=2))
    analyst = pulled(world, tmp_path / "analyst", world.sealed(reports) + world.junk(400))
    analyst.count(1, world.analyst_key)
    result = analyst.result(1)
    assert (result.received, result.invalid, result.valid, result.accounted) == (800, 400, 400, 390)
    curve = shoal.amplify(mechanism, reports=390)
    assert (result.epsilon, result.bound, result.theorem) == (curve.epsilon(1e-6), curve.bound, curve.theorem)
    assert result.epsilon > shoal.amplify(mechanism, reports=790).epsilon(1e-6)
    assert (result.delta, result.local_epsilon) == (1e-6, mechanism.local_epsilon)


@pytest.mark.slow
def test_junk_can_push_a_round_over_the_limit(tmp_path: Path) -> None:
    """A round of the minimum keeps the limit; the same with junk in the place of most reports does not."""
    world = make_world(tmp_path, minimum=400, malicious=10)
    reports = world.task.mechanism.randomize(np.arange(60) % 4, simulation=Simulation(seed=2))
    analyst = pulled(world, tmp_path / "analyst", world.sealed(reports) + world.junk(400))
    analyst.count(1, world.analyst_key)
    with pytest.raises(WithheldError, match="the task allows at most 1; of 460 received, 400 could not be opened"):
        analyst.result(1)


def test_nothing_valid_is_withheld(world: World, folder: Path) -> None:
    analyst = pulled(world, folder, world.junk(5))
    assert analyst.count(1, world.analyst_key).valid == 0
    with pytest.raises(WithheldError, match="none of its 5 reports is valid"):
        analyst.result(1)


def test_copies_do_not_make_up_the_minimum(tmp_path: Path) -> None:
    world = make_exact_world(tmp_path, minimum=10)
    records = world.sealed(np.arange(9))
    analyst = pulled(world, tmp_path / "analyst", records + records)
    assert analyst.count(1, world.analyst_key).valid == 9
    with pytest.raises(WithheldError, match="9 different reports, and the task allows no fewer than 10"):
        analyst.result(1)


def _tally(task: Task, valid: int) -> Tally:
    values = np.zeros(task.mechanism.cells, np.int64)
    values[0] = valid
    counts = Counts(task.mechanism, values, valid)
    return Tally(round=1, counts=counts, undecryptable=0, malformed=0, duplicate=0)


@pytest.mark.slow
def test_below_the_minimum_is_withheld(tmp_path: Path) -> None:
    task = make_world(tmp_path, minimum=400).task
    assert Result.of(task, _tally(task, 400)).epsilon <= task.epsilon_limit
    with pytest.raises(WithheldError, match="no fewer than 400"):
        Result.of(task, _tally(task, 399))


@pytest.mark.slow
@pytest.mark.parametrize("valid", [1, 49, 50])
def test_no_more_reports_than_fakes_leave_the_local_guarantee(tmp_path: Path, valid: int) -> None:
    task = make_world(tmp_path, epsilon_limit=2.0, minimum=2, malicious=50).task
    tally = replace(_tally(task, valid), undecryptable=3)
    result = Result.of(task, tally)
    assert (result.accounted, result.epsilon, result.bound) == (0, task.mechanism.local_epsilon, "local")
    assert "nothing is gained by shuffling" in result.holds
    more = Result.of(task, _tally(task, 51 + 200))
    assert (more.accounted, more.epsilon) == (201, shoal.amplify(task.mechanism, reports=201).epsilon(1e-6))


@pytest.mark.slow
@pytest.mark.parametrize("malicious", [0, 1, 50])
def test_no_central_guarantee_without_its_conditions(tmp_path: Path, malicious: int) -> None:
    task = make_world(tmp_path, minimum=400, malicious=malicious).task
    told = Result.of(task, _tally(task, 500)).holds
    many = {0: "none of the other reports is", 1: "at most 1 of the other reports is"}
    assert many.get(malicious, f"at most {malicious} of the other reports are") in told
    assert "the shuffler tells nobody who sent which" in told and "rounds add up" in told
    small = make_world(tmp_path / "small", epsilon_limit=2.0, minimum=2, malicious=malicious).task
    alone = Result.of(small, _tally(small, malicious + 2))
    if alone.bound == "local":  # it does not claim what shuffling does not give
        assert "holds for everybody" not in alone.holds and "always remains" in alone.holds


def test_the_result_says_everything(tmp_path: Path) -> None:
    world = make_world(
        tmp_path,
        minimum=400,
        names=Names.parsed("a,b,c,d"),
        mechanism=RandomizedResponse(categories=4, local_epsilon=2),
    )
    told = Result.of(world.task, replace(_tally(world.task, 500), undecryptable=4, malformed=2, duplicate=1)).to_dict()
    assert json.loads(json.dumps(told)) == told
    assert told["task"] == world.task.id and told["question"] == world.task.question and told["round"] == 1
    assert [told[f"reports_{kind}"] for kind in ("received", "invalid", "valid", "accounted")] == [507, 7, 500, 490]
    assert told["invalid"] == {"undecryptable": 4, "malformed": 2, "duplicate": 1}
    assert told["malicious_assumed"] == 10 and told["epsilon"] <= told["epsilon_limit"] == 1
    assert told["category"] == ["a", "b", "c", "d"]
    assert all(len(told[column]) == 4 for column in ("frequency", "standard_error", "lower", "upper"))
    assert {"local_epsilon", "delta", "theorem", "bound", "holds", "mechanism", "confidence"} <= told.keys()
    assert "always remains" in told["holds"]


@pytest.mark.slow
def test_rounds_add_up(tmp_path: Path) -> None:
    """The ε of three rounds is that of three at the minimum: more than one of them has, and less than three times."""
    task = make_world(tmp_path).task
    result = Result.of(task, _tally(task, 5000), others=[_tally(task, 1000), _tally(task, 3000)], rounds=3)
    assert result.rounds == 3 and result.composed_epsilon is not None
    single = shoal.amplify(local_epsilon=2, reports=task.minimum - task.malicious)
    assert single.epsilon(task.delta) < result.composed_epsilon < 3 * single.epsilon(task.delta / 3)
    exact = [shoal.amplify(local_epsilon=2, reports=valid - task.malicious) for valid in (5000, 1000, 3000)]
    assert shoal.compose(exact).epsilon(task.delta) < result.composed_epsilon
    assert task.central(task.minimum).repeated(3, method="renyi").epsilon(task.delta) < result.composed_epsilon


def test_a_round_below_the_minimum_leaves_the_sum_unstated(tmp_path: Path) -> None:
    task = make_world(tmp_path).task
    assert Result.of(task, _tally(task, 5000), others=[_tally(task, 999)], rounds=2).composed_epsilon is None
    alone = Result.of(task, _tally(task, 5000))
    assert (alone.rounds, alone.composed_epsilon) == (1, alone.epsilon)


@pytest.mark.slow
def test_a_round_that_was_pulled_and_not_counted_is_told_of(world: World, folder: Path) -> None:
    """Whoever has a batch has seen it: what is stated for all rounds must not leave it out."""
    for number in (1, 2):
        analyst = pulled(world, folder, world.sealed(np.arange(20) % 4, number), number)
    analyst.count(1, world.analyst_key)
    assert (analyst.result(1).rounds, analyst.result(1).composed_epsilon) == (2, None)
    analyst.count(2, world.analyst_key)
    assert analyst.result(1).composed_epsilon is not None


def test_rounds_that_are_not_here_are_in_the_sum(world: World, folder: Path) -> None:
    """Whoever counts round 7 in a new folder is told what seven rounds tell."""
    analyst = pulled(world, folder, world.sealed(np.arange(20) % 4, 7), 7)
    analyst.count(7, world.analyst_key)
    result = analyst.result(7)
    assert result.rounds == 7 and result.composed_epsilon is not None
    assert result.composed_epsilon > 6 * result.epsilon


@pytest.mark.slow
def test_a_bad_round_does_not_hold_up_the_others(world: World, folder: Path) -> None:
    """Its trouble is told in the end, and what came after it is here."""
    shelf, analyst = Shelf(world), Analyst(folder, world.task)
    for number in (1, 2, 3):
        shelf.put(world.sealed(np.arange(20) % 4, number), number)
    manifest, batch = shelf.rounds[2]
    shelf.rounds[2] = manifest, batch[:-1] + bytes([batch[-1] ^ 1])
    with (
        shelf.connection() as connection,
        pytest.raises(DamagedError, match="not the batch that"),
    ):
        analyst.pull(connection)
    assert analyst.pulled() == [1, 3]
