"""A database that goes back in time over the release of a round: nothing is sealed, signed or stored again."""

import json
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
from shoal.collect.store import StoreError
from shoal.collect.stores.postgres import PostgresStore
from shoal.errors import DamagedError
from tests.cli.commands import facts_of, refused
from tests.collect.database import Cluster, running_cluster
from tests.collect.life import Life, Lives
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


def _end(life: Life, number: int) -> None:
    """Fill a round, end it, have helpers add to it, and release it."""
    life.fill(number)
    life.seal()
    for helper in range(len(life.world.task.helper_keys)):
        life.mix(number, helper, sorted(life.world.junk(5)))
    life.shuffler.settle()
    assert life.shuffler.released(number)[1].round == number


def _signed(life: Life) -> list[str]:
    """Return the names of all batches that were released."""
    return sorted(path.name for path in life.folder.glob("round-*.batch"))


def _refuses(life: Life, why: str) -> None:
    """Check that a running process refuses, and one that starts now, and that nothing was released again."""
    before = _signed(life)
    life.now += 10 * _LENGTH
    with pytest.raises(DamagedError, match=why):
        life.shuffler.tick()
    with pytest.raises(DamagedError, match="begin a new task"):
        life.add(life.world.junk(1), life.shuffler.current().number)
    with pytest.raises(DamagedError, match=why):
        life.start()
    assert _signed(life) == before


def _mark(life: Life) -> Mark | None:
    return Mark.read(life.folder, life.world.task.id)


@pytest.mark.parametrize("make", [make_dummies_world, make_covered_world, make_exact_world, make_helped_world])
def test_a_restored_file_is_refused(make: _Make, live: Lives, tmp_path: Path) -> None:
    """From before the seal of a released round, in every kind of task."""
    life = live(make(tmp_path / "world"))
    _end(life, 1)
    life.fill(2)
    life.copy(tmp_path / "copy")
    _end(life, 2)
    life.restore(tmp_path / "copy")
    _refuses(life, "round 2 was sealed before, and the database has it as open")


@pytest.fixture
def life(live: Lives, tmp_path: Path) -> Life:
    """Lend a shuffler of a task with dummies."""
    return live(make_dummies_world(tmp_path / "world"))


@pytest.fixture
def plain(live: Lives, tmp_path: Path) -> Life:
    """Lend a shuffler of a task with plain rounds."""
    return live(make_exact_world(tmp_path / "world"))


def test_a_restored_file_with_the_seal_goes_on(life: Life, tmp_path: Path) -> None:
    """Released again from the same rows, the round has the same messages, so that nothing is learned."""
    life.fill()
    life.seal()
    life.copy(tmp_path / "copy")
    first = life.released()
    life.restore(tmp_path / "copy")
    life.start()
    assert sorted(first) == sorted(life.released())


def test_the_dummies_of_a_helper_that_are_lost_again(live: Lives, tmp_path: Path) -> None:
    """The helper does not draw twice, so that the round can't be released from a database without its dummies."""
    life = live(make_helped_world(tmp_path / "world"))
    life.fill()
    life.seal()
    life.copy(tmp_path / "copy")
    life.mix(1, 0, sorted(life.world.junk(5)))
    life.shuffler.settle()
    life.restore(tmp_path / "copy")
    with pytest.raises(DamagedError, match="lacks the dummies of its helpers"):
        life.start()


def test_another_seal_of_the_same_round_is_refused(life: Life, tmp_path: Path) -> None:
    """As after a failover and back again: each database has sealed the round, and one of them was released."""
    life.fill()
    life.copy(tmp_path / "copy")
    life.seal()  # and not released
    life.copy(tmp_path / "sealed")
    life.restore(tmp_path / "copy")
    life.start()
    life.seal()  # nobody has seen the first draw
    life.shuffler.settle()
    life.restore(tmp_path / "sealed")
    with pytest.raises(DamagedError, match="another seal of it"):
        life.start()


def test_a_database_that_changes_while_a_round_is_released(life: Life) -> None:
    """It is compared once more before the signature."""
    life.fill()
    life.seal()

    def reseal(point: str) -> None:
        if point == "batch written":
            with life.store._transaction() as database:
                life.store._change(database, 1, seal=b"another")

    with watched(reseal), pytest.raises(DamagedError, match="another seal of it"):
        life.shuffler.release(1)
    assert not _signed(life)


def test_the_mark_is_written_before_anything_is_signed(plain: Life) -> None:
    marks: dict[str, Mark | None] = {}

    def look(point: str) -> None:
        marks[point] = _mark(plain)

    with watched(look):
        _end(plain, 1)
    assert marks["batch written"] is None and marks["mark written"] == marks["renamed"]
    assert marks["renamed"] == Mark.of(plain.shuffler.rounds()[0])
    assert (plain.folder / FILE).stat().st_mode & 0o077 == 0


def test_a_process_that_dies_before_the_signature_goes_on(life: Life) -> None:
    """The mark names the round, and the database has it sealed: the next process releases it."""
    life.fill()
    life.seal()

    def die(point: str) -> None:
        if point == "mark written":
            raise KeyboardInterrupt

    with watched(die), suppress(KeyboardInterrupt):
        life.shuffler.release(1)
    assert _mark(life) == Mark.of(life.shuffler.rounds()[0])
    life.start().settle()
    assert life.shuffler.rounds()[0].state == State.READY
    _end(life, 2)


def test_a_mark_that_is_lost_or_of_another_task(plain: Life) -> None:
    _end(plain, 1)
    mark = plain.folder / FILE
    content = json.loads(mark.read_text())
    for text in (json.dumps(content | {"task": "0" * 64}), "{}", "", json.dumps(content | {"format": "other"})):
        mark.write_text(text)
        with pytest.raises(DamagedError, match="belongs to another task"):
            plain.start()
    mark.unlink()
    with pytest.raises(DamagedError, match="which names the newest of them, is missing"):
        plain.start()


def _as_earlier_version(life: Life, *rounds: int) -> None:
    """Leave these rounds as a version did that had neither seals nor a mark."""
    with life.store._transaction() as database:
        for number in rounds:
            life.store._change(database, number, seal=None)
    (life.folder / FILE).unlink()


def test_rounds_of_an_earlier_version(plain: Life) -> None:
    """They have no seal and there is no mark; both are there from the next release on."""
    _end(plain, 1)
    plain.fill(2)
    plain.seal()
    _as_earlier_version(plain, 1, 2)
    plain.start().settle()
    assert _mark(plain) == Mark(2, "")
    _end(plain, 3)
    assert _mark(plain) == Mark.of(plain.shuffler.rounds()[2])


def test_a_round_that_an_earlier_version_released_is_marked_at_the_start(life: Life, tmp_path: Path) -> None:
    """A copy from before its seal is refused, though this version has released nothing yet."""
    life.fill()
    life.copy(tmp_path / "copy")
    _end(life, 1)
    _as_earlier_version(life, 1)
    life.start()
    assert _mark(life) == Mark(1, "")
    life.restore(tmp_path / "copy")
    _refuses(life, "round 1 was sealed before, and the database has it as open")


@pytest.mark.parametrize("older", [False, True])
def test_a_mark_that_goes_back_while_a_process_runs(older: bool, life: Life, tmp_path: Path) -> None:
    """The process has seen a later one: it does not go on as if nothing had been released."""
    _end(life, 1)
    life.fill(2)
    before = (life.folder / FILE).read_bytes()
    life.copy(tmp_path / "copy")
    _end(life, 2)
    batches = _signed(life)
    life.restore(tmp_path / "copy")
    if older:
        (life.folder / FILE).write_bytes(before)
    else:
        (life.folder / FILE).unlink()
    life.now += _LENGTH
    with pytest.raises(DamagedError, match="is missing or older than before"):
        life.shuffler.tick()
    assert _signed(life) == batches
    assert "is missing or older than before" in str(life.shuffler.trouble)


def test_the_newest_released_round_may_be_long_ago(
    live: Lives, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All rounds since were too small, and the database does not list it any more."""
    monkeypatch.setattr("shoal.collect.stores.sqlite.KEPT_ROUNDS", 2)
    life = live(make_exact_world(tmp_path / "world", too_small="discard"))
    _end(life, 1)
    life.acknowledge()
    for _ in range(4):
        life.now += _LENGTH
        life.shuffler.tick()
    assert [one.number for one in life.shuffler.rounds()] == [5, 6]
    life.start().tick()


def test_processes_with_folders_of_their_own_note_what_others_release(plain: Life, live: Lives, tmp_path: Path) -> None:
    other = live(plain.world, batches=tmp_path / "other")
    _end(plain, 1)
    other.shuffler.settle()
    assert [_mark(plain), _mark(other)] == 2 * [Mark.of(plain.shuffler.rounds()[0])]


def test_status_says_it(live: Lives, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "rounds"
    folder.mkdir()
    life = live(make_exact_world(tmp_path / "world"), folder / "shuffler.db", folder)
    life.fill()
    life.copy(tmp_path / "copy")
    _end(life, 1)
    life.restore(tmp_path / "copy")
    common = f"--task {life.world.task_path} --folder {folder}"
    told = str(facts_of(capsys, f"shuffler status {common}", status=1)["trouble"])
    assert "gone back in time" in told
    for verb in ("seal", "purge"):
        key = life.world.shuffler["private_key"]
        assert "gone back in time" in refused(capsys, f"shuffler {verb} {common} --key {key}")


def test_a_recovered_database_without_the_round_is_refused(life: Life) -> None:
    """Its row was on a page that could not be read, and the batch was counted and deleted."""
    _end(life, 1)
    life.acknowledge()
    life.shuffler.settle()
    assert not _signed(life)
    life.stop()
    with closing(sqlite3.connect(life.place)) as database, database:
        database.execute("DELETE FROM round WHERE number = 1")
    _refuses(life, "round 1 was sealed before, and the database does not have it")


def _dropped(cluster: Cluster, world: World) -> None:
    import psycopg

    with psycopg.connect(cluster.url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA shoal_{world.task.id[:56]} CASCADE".encode())


@pytest.mark.slow
@pytest.mark.parametrize("make", [make_dummies_world, make_exact_world])
def test_a_restored_dump_is_refused(make: _Make, live: Lives, cluster: Cluster, tmp_path: Path) -> None:
    world = make(tmp_path / "world")
    life = live(world, cluster.url)
    _end(life, 1)
    life.fill(2)
    schema = f"--schema=shoal_{world.task.id[:56]}"
    dump = subprocess.run(cluster.command("pg_dump", schema), check=True, capture_output=True).stdout
    _end(life, 2)
    life.stop()
    _dropped(cluster, world)
    subprocess.run(cluster.command("psql", "--quiet"), input=dump, check=True, capture_output=True)
    _refuses(life, "round 2 was sealed before, and the database has it as open")
    life.stop()
    _dropped(cluster, world)
    with pytest.raises(DamagedError, match="does not have it"):
        life.start()  # a new database, with the same folder


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
        life = Life(make_dummies_world(tmp_path / "world"), url, tmp_path / "batches")
        with pytest.raises(StoreError, match="may lack the last commits"):
            life.store.check_durability()
        life.store.accepts_loss = True
        _end(life, 1)
        life.fill(2)
        standby.wait_for(primary)
        standby.cut_off()
        _end(life, 2)
        primary.stop()
        standby.promote()
        with pytest.raises(StoreError):  # the first statement notices that the connection is lost
            life.shuffler.close()
        _refuses(life, "round 2 was sealed before, and the database has it as open")
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
