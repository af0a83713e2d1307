"""A store whose file is damaged: it is noticed, nothing more is acknowledged, and what can be read is saved."""

import random
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from shoal.collect.batch import BatchFile
from shoal.collect.envelope import information, opened
from shoal.collect.pages import Pages
from shoal.collect.round_state import State, record
from shoal.collect.salvage import Salvage, salvage
from shoal.collect.shuffler import Shuffler
from shoal.collect.stores.postgres import PostgresStore
from shoal.collect.stores.sqlite import SqliteStore
from shoal.errors import DamagedError, ParameterError, TryAgainError, WrongKeyError
from shoal.mechanisms import UnaryEncoding
from tests.collect.asgi import Clock, made, refused, reports
from tests.collect.database import Cluster
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


def _saved(world: World, source: Path, target: Path) -> Salvage:
    return salvage(source, target, world.task, world.shuffler_key, name=_NAME, now=200.0)


def _released(world: World, folder: Path) -> dict[int, list[int]]:
    """Release all rounds of a folder, and return the values in each."""
    shuffler = _shuffler(world, folder, now=1e6)
    shuffler.tick()
    found = {}
    for one in shuffler.rounds():
        if one.state == State.READY:
            _, manifest = shuffler.released(one.number)
            batch = BatchFile.checked(shuffler.batch_path(one.number), world.task, manifest)
            plain = opened(world.analyst_key, information(world.task, one.number), batch.records(0, manifest.reports))
            found[one.number] = sorted(int(world.task.mechanism.from_bytes(each[2:4])[0]) for each in plain if each)
            assert len(found[one.number]) == manifest.reports
    shuffler.shut()
    return found


def test_pages_hold_the_rows_that_sqlite_finds(world: World, tmp_path: Path) -> None:
    _filled(world, tmp_path)
    other = SqliteStore(tmp_path / _NAME, world.task, now=0)  # with a log that is not in the file yet
    other.add(4, [record(body, random.randbytes(16)) for body in world.junk(30)])
    with closing(sqlite3.connect(tmp_path / _NAME)) as database, closing(Pages(tmp_path / _NAME)) as pages:
        there = {row.values for row in pages.rows() if row.number is None}
        expected: set[object] = set()
        for table in ("report", "tag", "task"):
            expected |= set(database.execute(f"SELECT * FROM {table}"))
        assert there == expected and len(there) == 200 + 200 + 200 + 330 + 30 + 1
        numbered = {(row.number, *row.values[1:]) for row in _again(tmp_path) if len(row.values) == 11}
        assert numbered == set(database.execute("SELECT * FROM round"))
        assert pages.unreadable == 0 and not pages.log_cut_off
    other.shut()


def _again(folder: Path) -> list:  # type: ignore[type-arg]
    with closing(Pages(folder / _NAME)) as pages:
        return list(pages.rows())


def test_reports_that_lie_on_several_pages(tmp_path: Path) -> None:
    world = make_exact_world(tmp_path, mechanism=UnaryEncoding(categories=60_000, local_epsilon=40))
    assert world.task.ciphertext_bytes > 7_000
    store = SqliteStore(tmp_path / _NAME, world.task, now=0)
    bodies = world.junk(25)
    store.add(1, [record(body) for body in bodies])
    assert {row.values[2] for row in _again(tmp_path) if len(row.values) == 3 and row.number is None} == set(bodies)
    store.shut()


@pytest.mark.slow
@pytest.mark.parametrize("junk", ["zeros", "random", "another page"])
def test_any_page_that_is_overwritten_is_noticed_and_the_rest_saved(world: World, tmp_path: Path, junk: str) -> None:
    sent = _filled(world, tmp_path / "whole")
    size = (tmp_path / "whole" / _NAME).stat().st_size
    dice = random.Random(1)
    lost = []
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
            with pytest.raises(DamagedError, match="shoal shuffler salvage"):
                store.add(4, [record(body) for body in world.junk(1)])
            with pytest.raises(DamagedError):
                store.close(1e6)
            store.shut()
        assert "is damaged" in trouble and "shoal shuffler salvage" in trouble, page
        before = (broken / _NAME).read_bytes()
        saved = _saved(world, broken, rescued)
        assert (broken / _NAME).read_bytes() == before
        values = _released(world, rescued)
        lost.append(700 - sum(map(len, values.values())))
        for number, found in values.items():
            assert set(found) <= set(range(len(sent[number]))) and len(found) == len(set(found))
        assert values.get(2) == list(range(200)), page  # its batch is whole
        told = {one.number: one for one in saved.rounds}
        if 3 in values and told[3].missing is not None:
            assert told[3].missing == 200 - len(values[3]) and told[3].saved == len(values[3])
    assert max(lost) < 60 and 0 in lost and sum(lost) >= 500, lost  # what was on that page, and nothing else


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
    assert "salvage" in (shuffler.trouble or "") and shuffler.current().number == 1
    with pytest.raises(DamagedError):
        shuffler.accept(1, [record(world.junk(1)[0])])
    shuffler.shut()
    saved = _saved(world, tmp_path, tmp_path / "saved")
    assert saved.saved == 49
    assert _released(world, tmp_path / "saved") == {1: [value for value in range(50) if value != 7]}


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
    saved = _saved(world, tmp_path, tmp_path / "saved")
    (first, *_) = saved.rounds
    assert (first.saved, first.missing) == (49, 1)
    assert len(_released(world, tmp_path / "saved")[1]) == 49


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
    assert any("is damaged" in line and "shoal shuffler salvage" in line and _NAME in line for line in lines)
    assert len(lines) <= 3, "once for each kind of trouble, however many requests come"


@pytest.mark.slow
def test_a_round_that_lost_too_many_is_discarded(tmp_path: Path) -> None:
    world = make_exact_world(tmp_path / "world", minimum=200)
    folder = tmp_path / "rounds"
    _filled(world, folder)
    with closing(sqlite3.connect(folder / _NAME)) as database:
        (digest,) = database.execute("SELECT digest FROM report WHERE round = 3 LIMIT 1").fetchone()
        body = database.execute("SELECT body FROM report WHERE round = 3 AND digest = ?", (digest,)).fetchone()[0]
    data = (folder / _NAME).read_bytes()
    (folder / _NAME).write_bytes(data.replace(body, bytes(len(body))))
    saved = _saved(world, folder, tmp_path / "saved")
    told = {one.number: one for one in saved.rounds}
    assert told[3].discarded and told[3].saved == 0 and "fewer than the minimum" in (told[3].note or "")
    assert sorted(_released(world, tmp_path / "saved")) == [2, 4]


@pytest.mark.slow
@pytest.mark.parametrize("batches", [0, 1, 2])
def test_a_round_whose_state_is_lost_is_never_released_in_two_ways(world: World, tmp_path: Path, batches: int) -> None:
    folder, target = tmp_path / "rounds", tmp_path / "saved"
    _filled(world, folder)
    before = sorted(folder.glob("round-2.*.batch"))
    assert len(before) == 1
    content = before[0].read_bytes()
    if batches == 0:
        before[0].unlink()
    elif batches == 2:
        (folder / "round-2.0123456789abcdef.batch").write_bytes(content)
    with closing(sqlite3.connect(folder / _NAME)) as database:
        (page,) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'round'").fetchone()
        ((manifest,),) = database.execute("SELECT manifest FROM round WHERE number = 2")
    _overwrite(folder / _NAME, page, bytes(_PAGE))
    saved = _saved(world, folder, target)
    assert any("which round was open was lost" in note for note in saved.notes)
    shuffler = _shuffler(world, target, now=201.0)
    states = {one.number: (one.state, one.discarded) for one in shuffler.rounds()}
    second = {0: (State.PURGED, True), 1: (State.READY, False), 2: (State.PURGED, True)}[batches]
    assert states == {
        1: (State.PURGED, False),
        2: second,
        3: (State.SEALED, False),
        4: (State.SEALED, False),
        5: (State.OPEN, False),
    }
    if batches == 1:
        assert shuffler.released(2)[0] == manifest  # the same signature of the same batch
        assert shuffler.batch_path(2).read_bytes() == content
    shuffler.shut()


def test_a_log_that_is_damaged(world: World, tmp_path: Path) -> None:
    """What was committed before the damage is there, and what came after it is said to be missing."""
    store = SqliteStore(tmp_path / _NAME, world.task, now=0)
    bodies = world.sealed(range(100))
    for start in range(0, 100, 10):
        store.add(1, [record(body) for body in bodies[start : start + 10]])
    for name in (_NAME, f"{_NAME}-wal"):
        (tmp_path / "copy").mkdir(exist_ok=True)
        shutil.copyfile(tmp_path / name, tmp_path / "copy" / name)
    store.shut()
    log = tmp_path / "copy" / f"{_NAME}-wal"
    place = log.read_bytes().index(bodies[55]) + 8
    data = bytearray(log.read_bytes())
    data[place] ^= 1
    log.write_bytes(data)
    saved = _saved(world, tmp_path / "copy", tmp_path / "saved")
    assert any("write-ahead log is damaged" in note for note in saved.notes)
    assert saved.saved == 50
    assert _released(world, tmp_path / "saved") == {1: list(range(50))}


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
    with closing(sqlite3.connect(f"file:{crashed / _NAME}?immutable=1", uri=True)) as database:
        (page,) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'turn'").fetchone()
    _overwrite(crashed / _NAME, page, bytes(_PAGE))  # the least damage for which there is something to salvage
    saved = _saved(world, crashed, tmp_path / "saved")
    emptied = log in ("missing", "empty") or point in ("renamed", "after purge", "swept")  # before it was lost
    (note,) = (note for note in saved.notes if "write-ahead log" in note)
    assert ("missing or empty" if emptied else "is damaged" if log == "unreadable" else "middle of a trans") in note
    again = _shuffler(world, tmp_path / "saved", now=1e6)
    again.settle()
    first = next(one for one in again.rounds() if one.number == 1)
    if first.state == State.READY:
        assert again.batch_path(1).read_bytes() == content
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
def test_what_is_not_damaged_is_not_salvaged(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "rounds"
    _filled(world, folder)
    with pytest.raises(ParameterError, match="not damaged"):
        _saved(world, folder, tmp_path / "saved")
    other = make_exact_world(tmp_path / "other", minimum=20)
    with pytest.raises(WrongKeyError):
        salvage(folder, tmp_path / "new", world.task, other.shuffler_key, name=_NAME, now=0)
    _overwrite(folder / _NAME, 1, random.randbytes(100))
    with pytest.raises(ParameterError, match="holds the reports of task"):
        salvage(folder, tmp_path / "new", other.task, other.shuffler_key, name=_NAME, now=0)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(ParameterError, match="not empty"):
        _saved(world, folder, tmp_path / "full")
    (folder / _NAME).write_bytes(random.randbytes(20 * _PAGE))
    with pytest.raises(DamagedError, match="nothing in"):
        _saved(world, folder, tmp_path / "nothing")
    assert not list((tmp_path / "nothing").iterdir())


@pytest.mark.slow
def test_a_store_that_is_served_is_not_salvaged(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "rounds"
    _filled(world, folder)
    code = "import sqlite3, sys; d = sqlite3.connect(sys.argv[1]); d.execute('SELECT * FROM task').fetchall(); input()"
    other = subprocess.Popen(
        [sys.executable, "-c", f"{code[:-7]}print('open', flush=True); input()", str(folder / _NAME)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert other.stdin is not None and other.stdout is not None
    try:
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(TryAgainError, match="stop the shuffler"):
            _saved(world, folder, tmp_path / "saved")
    finally:
        other.communicate(b"\n", 30)
    with pytest.raises(ParameterError, match="not damaged"):
        _saved(world, folder, tmp_path / "saved")


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
