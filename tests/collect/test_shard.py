"""Opening and counting: every mechanism comes through, and junk of any kind is counted, never an error."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.collect.analyst import Analyst
from shoal.collect.counting import SealedRound, ShardCounts
from shoal.collect.envelope import VERSION, information, opened, plaintexts, seal
from shoal.errors import ParameterError
from shoal.mechanisms import RandomizedResponse, Simulation, SubsetSelection, UnaryEncoding, kinds
from shoal.pairs.registry import wire_code
from tests.collect.world import World, make_covered_world, make_dummies_world, make_hunt_world, make_world
from tests.test_walk import walked

MECHANISMS = kinds("categories", within=("categories", "local_epsilon"))

ROUND = 3
KINDS = {
    "random": "undecryptable",
    "zeros": "undecryptable",
    "flipped bit": "undecryptable",
    "cut off and filled": "undecryptable",
    "other task": "undecryptable",
    "other round": "undecryptable",
    "other key": "undecryptable",
    "put together from two": "undecryptable",
    "version": "malformed",
    "mechanism": "malformed",
    "padding": "malformed",
    "value": "malformed",
}
IMPOSSIBLE = {"randomized-response": b"\xff\xff", "unary-encoding": b"\x01\x80", "subset-selection": b"\xff\x03"}


def in_round(world: World, records: list[bytes], number: int = ROUND) -> ShardCounts:
    sealed = SealedRound.of(world.task, number, world.task.mechanism)
    return sealed.count(world.analyst_key.private_bytes_raw(), b"".join(records))


def junk(world: World, kind: str, random: Random) -> bytes:
    """Return a record of the right length that is wrong in one way."""
    task, length = world.task, world.task.ciphertext_bytes
    size = task.mechanism.bytes_per_report
    plain = bytearray(plaintexts(task, task.mechanism.randomize([random.randrange(task.mechanism.categories)]))[0])
    if kind == "version":
        plain[0] = random.choice([0, VERSION + 1, 255])
    elif kind == "mechanism":
        plain[1] = random.choice([code for code in range(256) if code != wire_code(task.mechanism)])
    elif kind == "padding":
        plain[random.randrange(2 + size, len(plain))] = random.randrange(1, 256)
    elif kind == "value":
        plain[2 : 2 + size] = IMPOSSIBLE[task.mechanism.name][:size]
    other = X25519PrivateKey.generate().public_key().public_bytes_raw()
    target = {
        "other task": replace(task, question="Another question?"),
        "other key": replace(task, analyst_key=other),
    }.get(kind, task)
    sealed = seal(target, ROUND + 1 if kind == "other round" else ROUND, bytes(plain))
    if kind == "put together from two":
        return sealed[:32] + seal(task, ROUND, bytes(plain))[32:]
    if kind == "random":
        return random.randbytes(length)
    if kind == "zeros":
        return bytes(length)
    if kind == "cut off and filled":
        return sealed[: random.randrange(length)].ljust(length, b"\0") if sealed[-1] else bytes(length)
    if kind == "flipped bit":
        place = random.randrange(8 * length)
        return (int.from_bytes(sealed) ^ 1 << place).to_bytes(length)
    return sealed


@pytest.fixture(scope="module", params=["randomized-response", "unary-encoding", "subset-selection"])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
    made = {
        "randomized-response": RandomizedResponse(categories=300, local_epsilon=3),
        "unary-encoding": UnaryEncoding(categories=10, local_epsilon=3),
        "subset-selection": SubsetSelection(categories=10, local_epsilon=1),
    }[request.param]
    folder = tmp_path_factory.mktemp("world")
    return make_world(folder, mechanism=made, epsilon_limit=4.0, minimum=2, malicious=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_every_mechanism_comes_through(name: str, tmp_path: Path) -> None:
    mechanism = MECHANISMS[name](categories=20, local_epsilon=2)
    world = make_world(tmp_path, mechanism=mechanism, epsilon_limit=3.0, minimum=2, malicious=0)
    reports = mechanism.randomize(np.arange(200) % 20, simulation=Simulation(seed=6))
    records = world.sealed(reports, ROUND)
    assert {len(record) for record in records} == {world.task.ciphertext_bytes}
    found = in_round(world, records)
    assert (found.valid, found.undecryptable, found.malformed) == (200, 0, 0)
    assert np.array_equal(found.values, mechanism.aggregate(reports).values)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_any_value_counts_if_it_is_a_report(name: str, tmp_path: Path) -> None:
    """What is read at once, by halves, is what is read one by one."""
    mechanism = MECHANISMS[name](categories=21, local_epsilon=1)
    world = make_world(tmp_path, mechanism=mechanism, epsilon_limit=3.0, minimum=2, malicious=0)
    size, random = mechanism.bytes_per_report, Random(name)
    values = [random.randbytes(size) for _ in range(100)]
    values += [random.randbytes(size - 1) + bytes([random.randrange(32)]) for _ in range(100)]
    good = []
    for value in values:
        try:
            good.append(mechanism.from_bytes(value))
        except ParameterError:
            continue
    head = bytes([VERSION, wire_code(mechanism)])
    plain = [(head + value).ljust(world.task.plaintext_bytes, b"\0") for value in values]
    found = in_round(world, [seal(world.task, ROUND, each) for each in plain])
    assert (found.valid, found.malformed, found.undecryptable) == (len(good), len(values) - len(good), 0)
    expected = mechanism.aggregate(np.concatenate(good)).values if good else np.zeros(mechanism.cells)
    assert np.array_equal(found.values, expected)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(kinds=st.lists(st.sampled_from([*KINDS, "fine", "fine", "fine"]), max_size=25), seed=st.integers(0, 2**32))
def test_junk_is_counted_for_what_it_is(world: World, kinds: list[str], seed: int) -> None:
    random, mechanism = Random(seed), world.task.mechanism
    reports = mechanism.randomize([random.randrange(mechanism.categories) for _ in kinds])
    fine = world.sealed(reports, ROUND)
    records = [fine[place] if kind == "fine" else junk(world, kind, random) for place, kind in enumerate(kinds)]
    found = in_round(world, records)
    told = [KINDS.get(kind, "valid") for kind in kinds]
    assert (found.valid, found.undecryptable, found.malformed) == tuple(
        told.count(each) for each in ("valid", "undecryptable", "malformed")
    )
    kept = reports[np.array([kind == "fine" for kind in kinds], bool)]
    assert np.array_equal(found.values, mechanism.aggregate(kept).values)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=300))
def test_any_bytes_are_records(world: World, data: bytes) -> None:
    found = in_round(world, [data])
    assert found.records == found.undecryptable == -(-len(data) // world.task.ciphertext_bytes)


@pytest.mark.parametrize("change", [lambda plain: plain[:-1], lambda plain: b"", lambda plain: plain[:1]])
def test_a_short_report_at_the_end_is_malformed(world: World, change: Callable[[bytes], bytes]) -> None:
    """Records are of one length, but for the last; it may be sealed well, and yet be none."""
    plain = plaintexts(world.task, world.task.mechanism.randomize([1]))[0]
    records = [seal(world.task, ROUND, plain), seal(world.task, ROUND, change(plain))]
    found = in_round(world, records)
    assert (found.valid, found.malformed, found.undecryptable) == (1, 1, 0)


def test_a_report_cut_off_or_drawn_out_is_none(world: World) -> None:
    plain = plaintexts(world.task, world.task.mechanism.randomize([1]))[0]
    body, info = seal(world.task, ROUND, plain), information(world.task, ROUND)
    assert opened(world.analyst_key, info, [body]) == [plain]
    for length in range(1, len(body)):
        assert opened(world.analyst_key, info, [body[:length], body[length:]]) == [None, None]
    for length in range(1, 40):
        assert opened(world.analyst_key, info, [body + bytes(length), bytes(length) + body]) == [None, None]


def test_a_longer_plaintext_that_was_sealed_right_is_malformed(world: World) -> None:
    plain = plaintexts(world.task, world.task.mechanism.randomize([1]))[0]
    long = seal(world.task, ROUND, plain + bytes(16))
    found = in_round(world, [long])
    assert found.valid == 0 and found.records == -(-len(long) // world.task.ciphertext_bytes)


def test_shards_add_up(world: World) -> None:
    random = Random(1)
    records = world.sealed(world.task.mechanism.randomize([0, 1, 2, 3, 4]), ROUND)
    records += [junk(world, kind, random) for kind in KINDS]
    whole, first, second = in_round(world, records), in_round(world, records[:7]), in_round(world, records[7:])
    for found, expected in (((first + second), whole), (whole - second, first)):
        assert np.array_equal(found.values, expected.values)
        assert (found.valid, found.malformed) == (expected.valid, expected.malformed)
        assert (found.undecryptable, found.records) == (expected.undecryptable, expected.records)


def test_nothing_at_all(world: World) -> None:
    found = in_round(world, [])
    assert found.records == 0 and not found.values.any() and len(found.values) == world.task.mechanism.cells


def test_counting_is_a_short_walk(tmp_path: Path) -> None:
    """A shard proves nothing of the task again, and neither does a round whose task was read before."""
    world = make_world(tmp_path, epsilon_limit=3.0, minimum=2, malicious=0)
    records = world.sealed(world.task.mechanism.randomize(np.arange(20) % 4))
    folders = iter(tmp_path / name for name in ("first", "second"))

    def count() -> None:
        analyst = Analyst(next(folders), world.task)
        signed = world.release(analyst.folder / "batches/1.batch", records)
        (analyst.folder / "batches/1.manifest").write_bytes(signed)
        assert analyst.count(1, world.analyst_key, 1).valid == 20

    files, _ = walked(count)
    assert len(files) <= 20, files
    files, _ = walked(lambda: in_round(world, records))
    assert len(files) <= 10, files
    accounting = {name for name in files if name.startswith(("amplification/", "pairs/", "numerics/", "curve"))}
    assert accounting <= {"pairs/registry.py", "pairs/randomizer.py"}  # which mechanism has this code


def test_a_shard_can_run_in_any_process(tmp_path: Path) -> None:
    """What it takes to count is pickled without the task, also for the mechanisms with the largest state."""
    for make in (make_world, make_covered_world, make_dummies_world, make_hunt_world):
        world = make(tmp_path / make.__name__)
        sealed = SealedRound.of(world.task, ROUND, world.task.mechanism)
        again = pickle.loads(pickle.dumps(sealed))
        records = b"".join(world.bundles([0, 1], ROUND))
        key = world.analyst_key.private_bytes_raw()
        np.testing.assert_array_equal(again.count(key, records).values, sealed.count(key, records).values)
