"""A database that goes back in time over the release of a round: nothing is sealed, signed or stored again."""

import json
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from shoal.collect.high_water import FILE, Mark
from shoal.collect.round_state import State, record
from shoal.collect.shuffler import Shuffler
from shoal.collect.store import Store, StoreError
from shoal.collect.stores.postgres import PostgresStore
from shoal.collect.stores.sqlite import SqliteStore
from shoal.errors import DamagedError
from tests.cli.commands import facts_of, refused
from tests.collect.database import Cluster, running_cluster
from tests.collect.model import watched
from tests.collect.running import until
from tests.collect.world import (
    World,
    make_covered_world,
    make_dummies_world,
    make_exact_world,
    make_helped_world,
)

if TYPE_CHECKING:
    import psycopg

_LENGTH = 60.0
_Make = Callable[[Path], World]


class _Life:
    """A shuffler whose clock is moved by hand, and whose process can end at any time.

    Parameters
    ----------
    world : its task and keys.
    open_store : opens its database, as a process does that starts.
    folder : for its batches.
    """

    def __init__(self, world: World, open_store: Callable[[], Store], folder: Path) -> None:
        self.world, self.folder, self._open = world, folder, open_store
        self.now = 0.0
        self.store: Store | None = None
        self.shuffler = self.start()

    def start(self) -> Shuffler:
        """Start a process."""
        self.stop()
        self.store = self._open()
        key = self.world.shuffler_key
        self.shuffler = Shuffler(self.world.task, self.store, self.folder, key, clock=lambda: self.now)
        return self.shuffler

    def stop(self) -> None:
        """End the process."""
        if self.store is not None:
            self.store.shut()

    def fill(self, number: int) -> None:
        """Send as many reports as the task asks for."""
        bodies = self.world.bundles([0, 1] * (self.world.task.minimum // 2 + 1), number)
        self.shuffler.accept(number, [record(body) for body in bodies])

    def end(self, number: int) -> None:
        """Fill a round, end it, have helpers add to it, and release it."""
        self.fill(number)
        self.now += _LENGTH
        assert self.shuffler.close() is not None
        for helper in range(len(self.world.task.helper_keys)):
            self.shuffler.mix(number, helper, sorted(map(record, self.world.junk(5))))
        self.shuffler.settle()
        assert self.shuffler.released(number)[1].round == number

    def signed(self) -> list[str]:
        """Return the names of all batches that were released."""
        return sorted(path.name for path in self.folder.glob("round-*.batch"))

    def refuses(self, why: str) -> None:
        """Check that a running process refuses, and one that starts now, and that nothing was released again."""
        before = self.signed()
        self.now += 10 * _LENGTH
        with pytest.raises(DamagedError, match=why):
            self.shuffler.tick()
        with pytest.raises(DamagedError, match="begin a new task"):
            self.shuffler.accept(self.shuffler.current().number, [record(body) for body in self.world.junk(1)])
        with pytest.raises(DamagedError, match=why):
            self.start()
        assert self.signed() == before


def _life(place: str, world: World, folder: Path) -> _Life:
    def open_store() -> Store:
        if "://" in place:
            return PostgresStore(place, world.task, now=0.0)
        return SqliteStore(Path(place), world.task, now=0.0)

    return _Life(world, open_store, folder)


def _copied(path: Path, there: Path) -> None:
    """Copy a SQLite database with its log, as a snapshot of a disk does."""
    there.mkdir(exist_ok=True)
    for each in path.parent.glob(f"{path.name}*"):
        if not each.name.endswith("-shm"):
            shutil.copy(each, there / each.name)


def _restored(life: _Life, path: Path, there: Path) -> None:
    """Put a copied database back, and have the process use it without a restart."""
    life.stop()
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()
    for each in there.iterdir():
        shutil.copy(each, path.parent / each.name)


@pytest.mark.parametrize("make", [make_dummies_world, make_covered_world, make_exact_world, make_helped_world])
def test_a_restored_file_is_refused(make: _Make, tmp_path: Path) -> None:
    """From before the seal of a released round, in every kind of task."""
    path = tmp_path / "shuffler.db"
    life = _life(str(path), make(tmp_path / "world"), tmp_path / "batches")
    life.end(1)
    life.fill(2)
    _copied(path, tmp_path / "copy")
    life.end(2)
    _restored(life, path, tmp_path / "copy")
    life.refuses("round 2 was sealed before, and the database has it as open")
    life.stop()


def test_a_restored_file_with_the_seal_goes_on(tmp_path: Path) -> None:
    """Released again from the same rows, the round has the same messages, so that nothing is learned."""
    path = tmp_path / "shuffler.db"
    life = _life(str(path), make_dummies_world(tmp_path / "world"), tmp_path / "batches")
    life.fill(1)
    life.now += _LENGTH
    assert life.shuffler.close() is not None
    _copied(path, tmp_path / "copy")
    life.shuffler.settle()
    first = life.shuffler.batch_path(1).read_bytes()
    _restored(life, path, tmp_path / "copy")
    life.start().settle()
    second = life.shuffler.batch_path(1).read_bytes()
    length = life.world.task.ciphertext_bytes
    messages = [sorted(data[at : at + length] for at in range(100, len(data), length)) for data in (first, second)]
    assert messages[0] == messages[1]
    life.stop()


def test_the_dummies_of_a_helper_that_are_lost_again(tmp_path: Path) -> None:
    """The helper does not draw twice, so that the round can't be released from a database without its dummies."""
    path = tmp_path / "shuffler.db"
    life = _life(str(path), make_helped_world(tmp_path / "world"), tmp_path / "batches")
    life.fill(1)
    life.now += _LENGTH
    assert life.shuffler.close() is not None
    _copied(path, tmp_path / "copy")
    life.shuffler.mix(1, 0, sorted(map(record, life.world.junk(5))))
    life.shuffler.settle()
    _restored(life, path, tmp_path / "copy")
    with pytest.raises(DamagedError, match="lacks the dummies of its helpers"):
        life.start()
    life.stop()


def test_another_seal_of_the_same_round_is_refused(tmp_path: Path) -> None:
    """As after a failover and back again: each database has sealed the round, and one of them was released."""
    path = tmp_path / "shuffler.db"
    life = _life(str(path), make_dummies_world(tmp_path / "world"), tmp_path / "batches")
    life.fill(1)
    _copied(path, tmp_path / "copy")
    life.now += _LENGTH
    assert life.shuffler.close() is not None  # sealed, and not released
    _copied(path, tmp_path / "sealed")
    _restored(life, path, tmp_path / "copy")
    life.start()
    assert life.shuffler.close() is not None  # nobody has seen the first draw
    life.shuffler.settle()
    _restored(life, path, tmp_path / "sealed")
    with pytest.raises(DamagedError, match="another seal of it"):
        life.start()
    life.stop()


def test_a_database_that_changes_while_a_round_is_released(tmp_path: Path) -> None:
    """It is compared once more before the signature."""
    path = tmp_path / "shuffler.db"
    life = _life(str(path), make_dummies_world(tmp_path / "world"), tmp_path / "batches")
    life.fill(1)
    life.now += _LENGTH
    assert life.shuffler.close() is not None

    def reseal(point: str) -> None:
        if point == "batch written":
            assert life.store is not None
            with life.store._transaction() as database:
                life.store._change(database, 1, seal=b"another")

    with watched(reseal), pytest.raises(DamagedError, match="another seal of it"):
        life.shuffler.release(1)
    assert not life.signed()
    life.stop()


def test_the_mark_is_written_before_anything_is_signed(tmp_path: Path) -> None:
    path = tmp_path / "shuffler.db"
    life = _life(str(path), make_exact_world(tmp_path / "world"), tmp_path / "batches")
    marks: dict[str, Mark | None] = {}

    def look(point: str) -> None:
        marks[point] = Mark.read(life.folder, life.world.task.id)

    with watched(look):
        life.end(1)
    assert marks["batch written"] is None and marks["mark written"] == marks["renamed"]
    assert marks["renamed"] == Mark.of(life.shuffler.rounds()[0])
    (folder,) = {path.parent for path in life.folder.glob(f"{FILE}*")}
    assert folder == life.folder and (folder / FILE).stat().st_mode & 0o077 == 0
    life.stop()


def test_a_process_that_dies_before_the_signature_goes_on(tmp_path: Path) -> None:
    """The mark names the round, and the database has it sealed: the next process releases it."""
    path = tmp_path / "shuffler.db"
    life = _life(str(path), make_dummies_world(tmp_path / "world"), tmp_path / "batches")
    life.fill(1)
    life.now += _LENGTH
    assert life.shuffler.close() is not None

    def die(point: str) -> None:
        if point == "mark written":
            raise KeyboardInterrupt

    with watched(die), suppress(KeyboardInterrupt):
        life.shuffler.release(1)
    assert Mark.read(life.folder, life.world.task.id) == Mark.of(life.shuffler.rounds()[0])
    life.start().settle()
    assert life.shuffler.rounds()[0].state == State.READY
    life.end(2)
    life.stop()


def test_a_mark_that_is_lost_or_of_another_task(tmp_path: Path) -> None:
    path = tmp_path / "shuffler.db"
    life = _life(str(path), make_exact_world(tmp_path / "world"), tmp_path / "batches")
    life.end(1)
    mark = life.folder / FILE
    content = json.loads(mark.read_text())
    for text in (json.dumps(content | {"task": "0" * 64}), "{}", "", json.dumps(content | {"format": "other"})):
        mark.write_text(text)
        with pytest.raises(DamagedError, match="belongs to another task"):
            life.start()
    mark.unlink()
    with pytest.raises(DamagedError, match="which names the newest of them, is missing"):
        life.start()
    life.stop()


def test_rounds_of_an_earlier_version(tmp_path: Path) -> None:
    """They have no seal and there is no mark; both are there from the next release on."""
    path = tmp_path / "shuffler.db"
    life = _life(str(path), make_exact_world(tmp_path / "world"), tmp_path / "batches")
    life.end(1)
    life.fill(2)
    life.now += _LENGTH
    assert life.shuffler.close() is not None
    assert life.store is not None
    with life.store._transaction() as database:
        for number in (1, 2):
            life.store._change(database, number, seal=None)
    (life.folder / FILE).unlink()
    life.start().settle()
    assert Mark.read(life.folder, life.world.task.id) == Mark(2, "")
    life.end(3)
    assert Mark.read(life.folder, life.world.task.id) == Mark.of(life.shuffler.rounds()[2])
    life.stop()


def test_a_round_that_an_earlier_version_released_is_marked_at_the_start(tmp_path: Path) -> None:
    """A copy from before its seal is refused, though this version has released nothing yet."""
    path = tmp_path / "shuffler.db"
    life = _life(str(path), make_dummies_world(tmp_path / "world"), tmp_path / "batches")
    life.fill(1)
    _copied(path, tmp_path / "copy")
    life.end(1)
    assert life.store is not None
    with life.store._transaction() as database:
        life.store._change(database, 1, seal=None)
    (life.folder / FILE).unlink()
    life.start()
    assert Mark.read(life.folder, life.world.task.id) == Mark(1, "")
    _restored(life, path, tmp_path / "copy")
    life.refuses("round 1 was sealed before, and the database has it as open")
    life.stop()


@pytest.mark.parametrize("older", [False, True])
def test_a_mark_that_goes_back_while_a_process_runs(older: bool, tmp_path: Path) -> None:
    """The process has seen a later one: it does not go on as if nothing had been released."""
    path = tmp_path / "shuffler.db"
    life = _life(str(path), make_dummies_world(tmp_path / "world"), tmp_path / "batches")
    life.end(1)
    life.fill(2)
    before = (life.folder / FILE).read_bytes()
    _copied(path, tmp_path / "copy")
    life.end(2)
    batches = life.signed()
    _restored(life, path, tmp_path / "copy")
    if older:
        (life.folder / FILE).write_bytes(before)
    else:
        (life.folder / FILE).unlink()
    life.now += _LENGTH
    with pytest.raises(DamagedError, match="is missing or older than before"):
        life.shuffler.tick()
    assert life.signed() == batches
    assert "is missing or older than before" in str(life.shuffler.trouble)
    life.stop()


def test_the_newest_released_round_may_be_long_ago(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All rounds since were too small, and the database does not list it any more."""
    monkeypatch.setattr("shoal.collect.stores.sqlite.KEPT_ROUNDS", 2)
    world = make_exact_world(tmp_path / "world", too_small="discard")
    life = _life(str(tmp_path / "shuffler.db"), world, tmp_path / "batches")
    life.end(1)
    life.shuffler.acknowledge(1, life.shuffler.released(1)[1].sha256)
    for _ in range(4):
        life.now += _LENGTH
        life.shuffler.tick()
    assert [one.number for one in life.shuffler.rounds()] == [5, 6]
    life.start().tick()
    life.stop()


def test_processes_with_folders_of_their_own_note_what_others_release(tmp_path: Path) -> None:
    path = tmp_path / "shuffler.db"
    life = _life(str(path), make_exact_world(tmp_path / "world"), tmp_path / "one")
    other = _life(str(path), life.world, tmp_path / "two")
    life.end(1)
    other.shuffler.settle()
    noted = [Mark.read(each.folder, life.world.task.id) for each in (life, other)]
    assert noted == 2 * [Mark.of(life.shuffler.rounds()[0])]
    for each in (life, other):
        each.stop()


def test_status_says_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "rounds"
    folder.mkdir()
    life = _life(str(folder / "shuffler.db"), make_exact_world(tmp_path / "world"), folder)
    life.fill(1)
    _copied(folder / "shuffler.db", tmp_path / "copy")
    life.end(1)
    _restored(life, folder / "shuffler.db", tmp_path / "copy")
    common = f"--task {life.world.task_path} --folder {folder}"
    told = str(facts_of(capsys, f"shuffler status {common}", status=1)["trouble"])
    assert "gone back in time" in told
    for verb in ("seal", "purge"):
        key = life.world.shuffler["private_key"]
        assert "gone back in time" in refused(capsys, f"shuffler {verb} {common} --key {key}")


def test_a_recovered_database_without_the_round_is_refused(tmp_path: Path) -> None:
    """Its row was on a page that could not be read, and the batch was counted and deleted."""
    path = tmp_path / "shuffler.db"
    life = _life(str(path), make_dummies_world(tmp_path / "world"), tmp_path / "batches")
    life.end(1)
    life.shuffler.acknowledge(1, life.shuffler.released(1)[1].sha256)
    life.shuffler.settle()
    assert not life.signed()
    life.stop()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DELETE FROM round WHERE number = 1")
    life.refuses("round 1 was sealed before, and the database does not have it")
    life.stop()


def _dropped(cluster: Cluster, world: World) -> None:
    import psycopg

    with psycopg.connect(cluster.url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA shoal_{world.task.id[:56]} CASCADE".encode())


@pytest.mark.slow
@pytest.mark.parametrize("make", [make_dummies_world, make_exact_world])
def test_a_restored_dump_is_refused(make: _Make, cluster: Cluster, tmp_path: Path) -> None:
    world = make(tmp_path / "world")
    life = _life(cluster.url, world, tmp_path / "batches")
    life.end(1)
    life.fill(2)
    schema = f"--schema=shoal_{world.task.id[:56]}"
    dump = subprocess.run(cluster.command("pg_dump", schema), check=True, capture_output=True).stdout
    life.end(2)
    life.stop()
    _dropped(cluster, world)
    subprocess.run(cluster.command("psql", "--quiet"), input=dump, check=True, capture_output=True)
    life.refuses("round 2 was sealed before, and the database has it as open")
    life.stop()
    _dropped(cluster, world)
    with pytest.raises(DamagedError, match="does not have it"):
        life.start()  # a new database, with the same folder
    life.stop()


@pytest.fixture
def primary() -> Iterator[Cluster]:
    """Lend a server of our own, which can be stopped."""
    with running_cluster() as made:
        yield made


@pytest.mark.slow
def test_a_failover_to_a_standby_without_the_seal_is_refused(
    cluster: Cluster, primary: Cluster, tmp_path: Path
) -> None:
    """The process reconnects to the standby, as it does where the URL names both servers."""
    del cluster  # skips if there is no PostgreSQL
    with primary.standby() as standby:
        hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
        url = f"postgresql://{primary.user}@{hosts}/postgres?target_session_attrs=read-write"
        life = _life(url, make_dummies_world(tmp_path / "world"), tmp_path / "batches")
        assert life.store is not None
        with pytest.raises(StoreError, match="may lack the last commits"):
            life.store.check_durability()
        life.store.accepts_loss = True
        life.end(1)
        life.fill(2)
        standby.wait_for(primary)
        standby.cut_off()
        life.end(2)
        primary.stop()
        standby.promote()
        with pytest.raises(StoreError):  # the first statement notices that the connection is lost
            life.shuffler.close()
        life.refuses("round 2 was sealed before, and the database has it as open")
        life.stop()


@pytest.mark.slow
def test_standbys_are_seen(primary: Cluster, tmp_path: Path) -> None:
    import psycopg

    world = make_exact_world(tmp_path)
    store = PostgresStore(primary.url, world.task, now=0.0)
    store.check_durability()
    with psycopg.connect(primary.url, autocommit=True) as admin:
        admin.execute("CREATE ROLE plain LOGIN; GRANT CREATE ON DATABASE postgres TO plain")
        admin.execute("SELECT pg_create_physical_replication_slot('later')")
        with pytest.raises(StoreError, match="1 standbys"):
            store.check_durability()
        admin.execute("SELECT pg_drop_replication_slot('later')")
        store.add(1, [record(body) for body in world.junk(2)])
        with primary.standby():
            with pytest.raises(StoreError, match="--accept-asynchronous-standbys"):
                store.check_durability()
            with pytest.raises(StoreError, match="1 standbys"):
                store.close(_LENGTH)  # and no round ends
            assert store.current().number == 1
            other = replace(world, task=replace(world.task, question="Which of those?"))
            unprivileged = PostgresStore(f"postgresql://plain@127.0.0.1:{primary.port}/postgres", other.task, now=0.0)
            with pytest.raises(StoreError, match="1 standbys"):
                unprivileged.check_durability()
            admin.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            admin.execute("SELECT pg_reload_conf()")
            _until_synchronous(admin)
            store.check_durability()
            with pytest.raises(StoreError, match="GRANT pg_monitor"):
                unprivileged.check_durability()
            admin.execute("GRANT pg_monitor TO plain")
            unprivileged.check_durability()
            unprivileged.shut()
            assert store.close(_LENGTH) is not None
            admin.execute("ALTER SYSTEM RESET synchronous_standby_names")
            admin.execute("SELECT pg_reload_conf()")
            store.accepts_loss = True
            store.check_durability()
    store.shut()


@pytest.mark.slow
def test_a_quorum_of_some_standbys_is_refused(primary: Cluster, tmp_path: Path) -> None:
    """With ANY 1 of two, each commit is on one of them, and nobody knows on which."""
    import psycopg

    store = PostgresStore(primary.url, make_exact_world(tmp_path).task, now=0.0)
    with psycopg.connect(primary.url, autocommit=True) as admin, primary.standby(), primary.standby():
        for number in (1, 2):
            admin.execute(f"ALTER SYSTEM SET synchronous_standby_names = 'ANY {number} (*)'".encode())
            admin.execute("SELECT pg_reload_conf()")
            _until_synchronous(admin, "quorum", 2)
            if number == 1:
                with pytest.raises(StoreError, match=r"1 standbys .* that may lack the last commits"):
                    store.check_durability()
        until(lambda: _shown(admin) == "ANY 2 (*)", "the setting")
        store.check_durability()
        admin.execute("ALTER SYSTEM RESET synchronous_standby_names")
        admin.execute("SELECT pg_reload_conf()")
    store.shut()


def _shown(admin: "psycopg.Connection[Any]") -> str:
    (setting,) = admin.execute("SHOW synchronous_standby_names").fetchone() or ("",)
    return str(setting)


def _until_synchronous(admin: "psycopg.Connection[Any]", state: str = "sync", standbys: int = 1) -> None:
    query = "SELECT FROM pg_stat_replication WHERE sync_state = %s"
    until(lambda: len(admin.execute(query, (state,)).fetchall()) == standbys, "a synchronous standby")


@pytest.mark.slow
def test_a_server_that_does_not_sync_is_refused(primary: Cluster, tmp_path: Path) -> None:
    import psycopg

    store = PostgresStore(primary.url, make_exact_world(tmp_path).task, now=0.0)
    with psycopg.connect(primary.url, autocommit=True) as admin:
        admin.execute("ALTER SYSTEM SET synchronous_commit = off")
        admin.execute("SELECT pg_reload_conf()")
    with store._view() as database:  # whatever the server has as its default
        assert database.execute("SHOW synchronous_commit").fetchone() == ("on",)
    store.check_durability()
    store.shut()
    primary.stop()
    primary.start(fsync="off")
    store = PostgresStore(primary.url, make_exact_world(tmp_path / "other").task, now=0.0)
    store.accepts_loss = True
    with pytest.raises(StoreError, match="fsync off"):
        store.check_durability()
    store.shut()
