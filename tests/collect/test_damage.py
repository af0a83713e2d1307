"""A store whose file is damaged: it is noticed, nothing more is acknowledged, and what SQLite's shell saves goes on."""

import random
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from shoal.collect.round_state import State, record
from shoal.collect.shuffler import Shuffler
from shoal.collect.stores.postgres import PostgresStore
from shoal.collect.stores.sqlite import SqliteStore
from shoal.errors import DamagedError, ShoalError, TryAgainError
from tests.collect.asgi import Clock, made, refused, reports
from tests.collect.database import Cluster
from tests.collect.life import released
from tests.collect.model import watched
from tests.collect.world import World, make_exact_world

_PAGE = 4096
_NAME = "reports.db"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_exact_world(tmp_path_factory.mktemp("world"), minimum=20)


def _shuffler(world: World, folder: Path, now: float = 60.0) -> Shuffler:
    folder.mkdir(parents=True, exist_ok=True)
    store = SqliteStore(folder / _NAME, world.task, now=0)
    return Shuffler(world.task, store, folder, world.shuffler_key, clock=lambda: now)


def _filled(world: World, folder: Path) -> dict[int, list[bytes]]:
    """Leave a store with round 1 purged, round 2 ready, round 3 sealed and round 4 open, and no page that is free."""
    shuffler = _shuffler(world, folder)
    sent = {number: world.sealed(range(200 if number < 4 else 300), number) for number in (1, 2, 3, 4)}
    for number, bodies in sent.items():
        shuffler.accept(number, [record(body) for body in bodies])
        if number < 4:
            shuffler._store.close(60.0 * number)
        if number < 3:
            shuffler.release(number)
    shuffler.acknowledge(1, shuffler.released(1)[1].sha256)
    shuffler.purge(1)
    shuffler.shut()
    with closing(sqlite3.connect(folder / _NAME)) as database:
        database.execute("VACUUM")
        assert database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
        assert database.execute("PRAGMA freelist_count").fetchone() == (0,)
    return sent


def _overwrite(path: Path, page: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek((page - 1) * _PAGE)
        file.write(content)


def _recovered(source: Path, target: Path) -> None:
    """Save what can be read into a new folder, as docs/security.md says; Debian's shell has no `.recover`."""
    shutil.copytree(source, target)
    for path in target.glob(f"{_NAME}*"):
        path.unlink()
    command = f"sqlite3 {source / _NAME} .dump | sed 's/^ROLLBACK.*/COMMIT;/' | sqlite3 {target / _NAME}"
    subprocess.run(command, shell=True, check=False, stderr=subprocess.DEVNULL)


def _discard(path: Path, number: int) -> None:
    """Discard a sealed round, as docs/security.md says."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(
            "UPDATE round SET state = 'purged', discarded = 1 WHERE state = 'sealed' AND number = ?", (number,)
        )
        database.execute("UPDATE report SET body = NULL WHERE round = ?", (number,))


def _released(world: World, folder: Path) -> dict[int, list[int]]:
    """Release all rounds of a folder, and return the values in each."""
    shuffler = _shuffler(world, folder, now=1e6)
    try:
        shuffler.tick()
    except DamagedError as error:  # a sealed round that is not whole; the others are released
        assert "was said to have" in str(error)
    found = {}
    for one in shuffler.rounds():
        if one.state == State.READY:
            messages = released(shuffler, one.number)
            found[one.number] = world.values(messages, one.number)
            assert len(found[one.number]) == len(messages)
    shuffler.shut()
    return found


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="needs the shell of SQLite")
@pytest.mark.parametrize("junk", ["zeros", "random", "another page"])
def test_any_page_that_is_overwritten_is_noticed_and_the_rest_saved(world: World, tmp_path: Path, junk: str) -> None:
    """What SQLite's shell reads is used or refused: no round is released twice, or without some of its reports."""
    sent = _filled(world, tmp_path / "whole")
    size = (tmp_path / "whole" / _NAME).stat().st_size
    dice = random.Random(1)
    saved: list[int] = []
    with closing(sqlite3.connect(tmp_path / "whole" / _NAME)) as database:
        (tags,) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'tag'").fetchone()
    for page in range(1, size // _PAGE + 1):
        if page == tags and junk == "another page":
            continue  # a sound page of another table, where there was nothing: nobody can tell
        broken, rescued = tmp_path / f"broken{page}", tmp_path / f"rescued{page}"
        shutil.copytree(tmp_path / "whole", broken)
        whole = (broken / _NAME).read_bytes()
        content = {
            "zeros": bytes(_PAGE),
            "random": dice.randbytes(_PAGE),
            "another page": whole[-_PAGE:] if page * _PAGE < size else whole[5 * _PAGE : 6 * _PAGE],
        }[junk]
        _overwrite(broken / _NAME, page, content)
        try:
            store = SqliteStore(broken / _NAME, world.task, now=0)
        except DamagedError as error:
            trouble = str(error)
        else:
            trouble = store.trouble or ""
            with pytest.raises(DamagedError, match="A disk that fails"):
                store.add(4, [record(body) for body in world.junk(1)])
            with pytest.raises(DamagedError):
                store.close(1e6)
            store.shut()
        assert "is damaged" in trouble and "A disk that fails" in trouble, page
        _recovered(broken, rescued)
        try:
            values = _released(world, rescued)
        except ShoalError:  # most often: it does not know the round that the mark names
            assert sorted(each.name for each in rescued.glob("*.batch")) == sorted(
                each.name for each in broken.glob("*.batch")
            )
            continue
        saved.append(sum(map(len, values.values())))
        for number, found in values.items():
            assert set(found) <= set(range(len(sent[number]))) and len(found) == len(set(found))
        assert values.get(2) == list(range(200)), page  # its batch is whole
        assert values.get(3) in (None, list(range(200))), page
    assert max(saved) == 700 and len(saved) > 10, saved


def test_a_changed_report_is_noticed_at_the_seal(world: World, tmp_path: Path) -> None:
    """SQLite has no checksums, and so a byte of a report may change unseen; the digest tells."""
    shuffler = _shuffler(world, tmp_path)
    bodies = world.sealed(range(50))
    shuffler.accept(1, [record(body) for body in bodies])
    shuffler.shut()
    path = tmp_path / _NAME
    data = path.read_bytes()
    place = data.index(bodies[7]) + 40
    path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    shuffler = _shuffler(world, tmp_path)
    assert shuffler.trouble is None
    with pytest.raises(DamagedError, match="not what was stored"):
        shuffler.close()
    assert "A disk that fails" in (shuffler.trouble or "") and shuffler.current().number == 1
    with pytest.raises(DamagedError):
        shuffler.accept(1, [record(world.junk(1)[0])])
    shuffler.shut()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DELETE FROM report WHERE round = (SELECT max(number) FROM round)")
    shuffler = _shuffler(world, tmp_path)
    shuffler.accept(1, [record(body) for body in world.sealed(range(100, 150))])
    shuffler.shut()
    assert _released(world, tmp_path) == {1: list(range(100, 150))}


def test_a_changed_report_is_noticed_at_the_release(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is in a round that is too large to be written anew at the seal."""
    monkeypatch.setattr("shoal.collect.stores.sqlite._REWRITTEN", 10)
    shuffler = _shuffler(world, tmp_path)
    bodies = world.sealed(range(50))
    shuffler.accept(1, [record(body) for body in bodies])
    with closing(sqlite3.connect(tmp_path / _NAME)) as database, database:
        changed = bytes([bodies[3][0] ^ 1]) + bodies[3][1:]
        database.execute("UPDATE report SET body = ? WHERE digest = ?", (changed, record(bodies[3]).digest))
    with pytest.raises(DamagedError, match="not what was stored"):
        shuffler.tick()
    assert [one.state for one in shuffler.rounds()] == [State.SEALED, State.OPEN] and shuffler.trouble
    assert not list(tmp_path.glob("*.batch"))
    shuffler.shut()
    _discard(tmp_path / _NAME, 1)
    shuffler = _shuffler(world, tmp_path, now=130.0)
    shuffler.accept(2, [record(body) for body in world.sealed(range(50), 2)])
    shuffler.shut()
    assert _released(world, tmp_path) == {2: list(range(50))}


@pytest.mark.slow
def test_no_201_once_it_is_known(world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    front, _ = made(world, tmp_path, clock)
    bodies = world.sealed(range(400))
    with front:
        for body in bodies[:300]:
            assert front.public("POST", reports(world), body).status == 201
        assert front.public("GET", "/readyz").status == 200
        with closing(sqlite3.connect(tmp_path / _NAME)) as database:
            database.execute("PRAGMA wal_checkpoint(FULL)")
            (page,) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'report'").fetchone()
        _overwrite(tmp_path / _NAME, page, random.randbytes(_PAGE))
        clock.now += 60
        front.tick()
        for body in bodies[300:]:
            answer = front.public("POST", reports(world), body)
            assert refused(answer, 503) and int(answer.headers["retry-after"]) > 0
        told = refused(front.public("GET", "/readyz"), 503)
        assert "shoal shuffler status" in str(told["detail"]) and str(tmp_path) not in str(told)
        refused(front.analyst("POST", f"/v1/tasks/{world.task.id}/rounds/1/ack", b"0" * 64), 409)
        front.tick()
    lines = [one.getMessage() for one in caplog.records]
    assert any("is damaged" in line and "A disk that fails" in line and _NAME in line for line in lines)
    assert len(lines) <= 3, "once for each kind of trouble, however many requests come"


@pytest.mark.slow
@pytest.mark.parametrize("log", ["missing", "empty", "short", "unreadable", "cut off"])
@pytest.mark.parametrize("point", ["renamed", "before ack", "after ack", "before purge", "after purge", "swept"])
def test_a_round_is_not_released_again_if_the_log_is_lost(world: World, tmp_path: Path, log: str, point: str) -> None:
    """The machine dies on the way from the release to the purge, and of the log nothing is left that can be read."""
    shuffler = _shuffler(world, tmp_path / "life")
    shuffler.accept(1, [record(body) for body in world.sealed(range(200))])
    shuffler.close()
    crashed = tmp_path / "crashed"

    def die(reached: str) -> None:
        if reached == point:
            shutil.copytree(tmp_path / "life", crashed)

    with watched(die):
        shuffler.release(1)
        _, manifest = shuffler.released(1)
        content = shuffler.batch_path(1).read_bytes()
        shuffler.acknowledge(1, manifest.sha256)
        shuffler.purge(1)
        die("swept")
    shuffler.shut()
    _lose(crashed / f"{_NAME}-wal", log)
    try:
        again = _shuffler(world, crashed, now=1e6)
    except DamagedError as error:
        assert "has gone back in time" in str(error) or "is damaged" in str(error)
        assert all(path.read_bytes() == content for path in crashed.glob("*.batch"))
        return
    again.settle()
    first = next(one for one in again.rounds() if one.number == 1)
    if first.state == State.READY:  # the same reports, if it was released again from the same rows
        records = [again.batch_path(1).read_bytes(), content]
        length = world.task.ciphertext_bytes
        assert (
            len({tuple(sorted(data[at : at + length] for at in range(100, len(data), length))) for data in records})
            == 1
        )
    else:
        assert first.state == State.PURGED and not first.discarded
    again.shut()


def _lose(log: Path, how: str) -> None:
    data = log.read_bytes() if log.exists() else b""
    if how == "missing":
        log.unlink(missing_ok=True)
    elif how == "unreadable":
        log.write_bytes(data[:32] + bytes(byte ^ 0x55 for byte in data[32:]))
    else:
        log.write_bytes(data[: {"empty": 0, "short": 20, "cut off": 32 + 24 + 100}[how]])
    log.with_name(f"{_NAME}-shm").unlink(missing_ok=True)


def test_a_damaged_store_keeps_its_batches(world: World, tmp_path: Path) -> None:
    shuffler = _shuffler(world, tmp_path)
    shuffler.accept(1, [record(body) for body in world.sealed(range(200))])
    shuffler.close()
    shuffler.release(1)
    path = shuffler.batch_path(1)
    shuffler.acknowledge(1, shuffler.released(1)[1].sha256)
    store = shuffler._store
    assert isinstance(store, SqliteStore)
    store.trouble = "reports.db is damaged"
    for _ in range(2):
        with pytest.raises(DamagedError):
            shuffler.settle()
        assert path.exists()
    store.trouble = None
    shuffler.settle()
    assert not path.exists()
    shuffler.shut()


@pytest.mark.slow
def test_a_batch_stays_while_the_file_is_not_known_to_be_without_its_log(world: World, tmp_path: Path) -> None:
    """Somebody reads, and so what was committed since can't be moved from the log into the file."""
    shuffler = _shuffler(world, tmp_path)
    shuffler.accept(1, [record(body) for body in world.sealed(range(200))])
    shuffler.close()
    with closing(sqlite3.connect(tmp_path / _NAME, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM round").fetchall()
        shuffler.release(1)
        path = shuffler.batch_path(1)
        shuffler.acknowledge(1, shuffler.released(1)[1].sha256)
        shuffler.settle()  # it is purged, and no error: the rest is done later
        assert shuffler.rounds()[0].state == State.PURGED and path.exists()
        with pytest.raises(TryAgainError, match="another process reads"):
            shuffler.settle()
        assert path.exists()
        reader.execute("COMMIT")
    shuffler.settle()
    assert not path.exists()
    shuffler.shut()


@pytest.mark.slow
def test_damage_that_postgresql_finds(cluster: Cluster, tmp_path: Path) -> None:
    world = make_exact_world(tmp_path, minimum=20)
    store = PostgresStore(cluster.url, world.task, now=0)
    store.add(1, [record(body) for body in world.junk(500)])
    with store._transaction() as database:
        ((file,),) = database.execute("SELECT pg_relation_filepath('report_1')").fetchall()
    store.shut()
    cluster.stop()
    try:
        path = cluster._folder / "data" / str(file)
        with path.open("r+b") as there:
            there.seek(8192)
            there.write(random.randbytes(8192))
    finally:
        cluster.start()
    store = PostgresStore(cluster.url, world.task, now=0)
    assert store.trouble is None
    with pytest.raises(DamagedError, match="PostgreSQL's own means"):
        store.close(60.0)
    assert store.trouble is not None
    with pytest.raises(DamagedError):
        store.add(1, [record(world.junk(1)[0])])
    assert store.rounds()[-1].number == 1
    store.shut()
