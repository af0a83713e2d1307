"""What the files of a store tell about who has sent what, and when; and what the time of an answer tells."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal.collect.keys import make_analyst_keys
from shoal.collect.round_state import Record, State, record
from shoal.collect.server import Listeners
from shoal.collect.shuffler import Shuffler
from shoal.collect.stores.sqlite import SqliteStore
from shoal.errors import ParameterError
from shoal.mechanisms import UnaryEncoding
from tests.collect.running import batches_in
from tests.collect.world import World, make_exact_world

PEOPLE = 60


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_exact_world(tmp_path / "world", round_seconds=10, minimum=PEOPLE)


def _bytes(path: Path) -> bytes:
    return b"".join(each.read_bytes() for each in path.parent.glob(f"{path.name}*"))


def _filled(world: World, path: Path, records: list[Record]) -> SqliteStore:
    """Return a store whose first round has these reports, each committed by itself."""
    path.parent.mkdir(exist_ok=True)
    store = SqliteStore(path, world.task, now=0)
    for one in records:
        store.add(1, [one])
    return store


@pytest.mark.slow
def test_tags_and_their_key_are_gone_at_the_seal(world: World, tmp_path: Path) -> None:
    """From the log too, in which tags stand beside the reports that they came with."""
    path = tmp_path / "kept" / "reports.db"
    records = [record(body, random.randbytes(16)) for body in world.junk(PEOPLE)]
    store = _filled(world, path, records)
    key = store.rounds()[-1].token_key
    assert key is not None and key in _bytes(path)
    assert all(one.tag in _bytes(path) for one in records if one.tag is not None)
    ended = store.close(10)
    assert ended is not None and ended.state == State.SEALED
    left = _bytes(path)
    assert key not in left
    assert not any(one.tag in left for one in records if one.tag is not None)
    assert all(one.body in left for one in records)
    store.shut()


def _correlation(data: bytes, records: list[Record]) -> float:
    """Return the rank correlation of the places of these reports, of their last bytes, with their order here."""
    places = np.argsort(np.argsort([data.index(one.body[-24:]) for one in records]))
    return float(np.corrcoef(places, np.arange(len(records)))[0, 1])


@pytest.mark.slow
@pytest.mark.parametrize(("people", "length", "most"), [(40, 64, 0.9), (400, 3008, 0.3)])
def test_a_sealed_round_lies_in_no_order_of_arrival(tmp_path: Path, people: int, length: int, most: float) -> None:
    """Not even in its bytes: short reports on a page, long ones on pages of their own; a false alarm is 5.5 sigma."""
    made = UnaryEncoding(categories=8 * (length - 64), local_epsilon=1) if length > 64 else None
    changes = {} if made is None else {"mechanism": made}
    world = make_exact_world(tmp_path / "world", round_seconds=10, minimum=people, **changes)
    records = [record(body) for body in world.junk(people)]
    path = tmp_path / "kept" / "reports.db"
    store = _filled(world, path, records)
    store._tidy()
    assert abs(_correlation(path.read_bytes(), records)) > 0.95
    store.close(10)
    assert not store._untidy
    assert abs(_correlation(path.read_bytes(), records)) < most
    store.shut()


def test_a_repeated_report_is_committed_like_a_new_one(world: World, tmp_path: Path) -> None:
    """A commit that writes nothing is not forced to the disk, and its time would tell that nothing was new."""
    path = tmp_path / "kept" / "reports.db"
    first = record(world.junk(1)[0], bytes(16))
    store = _filled(world, path, [first])
    log = path.with_name("reports.db-wal")
    for again in (first, record(world.junk(1)[0], bytes(16))):
        before = log.stat().st_size
        store.add(1, [again])
        assert log.stat().st_size > before
    assert store._database.execute("SELECT count(*) FROM report").fetchone() == (1,)
    store.shut()


def test_a_releaser_that_wakes_up_late_replaces_nothing(world: World, tmp_path: Path) -> None:
    """It was suspended before it put its batch in place, and another has released the round since."""
    store = SqliteStore(tmp_path / "reports.db", world.task, now=0)
    shuffler = Shuffler(world.task, store, tmp_path / "batches", world.shuffler_key, clock=lambda: 10)
    shuffler.accept(1, [record(body) for body in world.junk(PEOPLE)])
    shuffler.close()
    shuffler.release(1)
    published, (_, manifest) = shuffler.batch_path(1).read_bytes(), shuffler.released(1)
    aside = tmp_path / "batches" / ".round-1.late.part"
    aside.write_bytes(b"another order")
    shuffler._move(aside, replace(manifest, sha256="0" * 64))
    assert shuffler.batch_path(1).read_bytes() == published
    shuffler.acknowledge(1, manifest.sha256)
    shuffler.settle()
    assert not batches_in(tmp_path / "batches")
    shuffler.shut()


def test_one_certificate_lets_in(world: World, tmp_path: Path) -> None:
    """A file with a second one, or with none, is refused."""
    others = make_analyst_keys(tmp_path / "others")["tls_certificate"].read_bytes()
    files: dict[str, Any] = {"tls_certificate": world.shuffler["tls_certificate"], "tls_key": world.shuffler["tls_key"]}
    Listeners(**files, analyst_certificate=world.analyst["tls_certificate"])
    several = tmp_path / "several.crt"
    for content in (world.analyst["tls_certificate"].read_bytes() + others, b"", world.analyst["tls_key"].read_bytes()):
        several.write_bytes(content)
        with pytest.raises(ParameterError, match="must hold one certificate"):
            Listeners(**files, analyst_certificate=several)
