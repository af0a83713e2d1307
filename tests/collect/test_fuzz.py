"""Whatever comes in is counted for what it is, or refused in words; nothing crashes, and nothing false is taken."""

import hashlib
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shoal.collect.batch import MAGIC, BatchFile, Manifest
from shoal.collect.task import Task
from shoal.errors import CollectError, DamagedError, FileError, ForgedError, FormatError, ParameterError
from shoal.mechanisms import RandomizedResponse
from tests.collect.world import World, make_exact_world
from tests.exhaustive import amount

ROUND = 3
FIXED = settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=amount(30, 200),
    suppress_health_check=[HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Make a world of five categories, so that a byte can be out of range."""
    return make_exact_world(
        tmp_path_factory.mktemp("world"), mechanism=RandomizedResponse(categories=5, local_epsilon=40)
    )


def mutated(data: bytes, probability: random.Random) -> bytes:
    """Return bytes that differ from these in a few places, or in length."""
    found = bytearray(data)
    for _ in range(probability.choice([1, 1, 1, 2, 5])):
        place = probability.randrange(len(found) + 1)
        match probability.randrange(7):
            case 0:
                found[place:place] = probability.randbytes(probability.choice([1, 1, 8, 100]))
            case 1:
                del found[place : place + probability.choice([1, 1, 8, 100])]
            case 2:
                found[place : place + 1] = probability.choice(
                    [b"0", b"9", b"-", b'"', b"\x00", b"\xff", b"[", b"}", b"e"]
                )
            case 3:
                other = probability.randrange(len(found) + 1)
                found[place:place] = found[other : other + probability.randrange(50)]
            case 4:
                found[place:] = b""
            case 5 if place < len(found):
                found[place] ^= 1 << probability.randrange(8)
            case _:
                found[place : place + 1] = probability.randbytes(1)
    return bytes(found)


# Manifests, batches and tasks.


@pytest.fixture(scope="module")
def release(world: World, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    path = tmp_path_factory.mktemp("release") / "batch"
    return path, world.release(path, world.sealed(np.arange(20) % 5, ROUND), ROUND)


def test_a_changed_manifest_is_refused_or_says_the_same(world: World, release: tuple[Path, bytes]) -> None:
    _, data = release
    right = Manifest.verified(data, world.task, ROUND)
    probability, refused = random.Random(20261), 0
    trials = amount(1500, 5000)
    for _ in range(trials):
        other = mutated(data, probability)
        try:
            assert Manifest.verified(other, world.task, ROUND) == right
        except FileError:
            refused += 1
    assert refused > 0.9 * trials


@pytest.mark.parametrize(
    "change",
    [
        {"reports": 1},
        {"reports": 0},
        {"reports": -20},
        {"reports": 10**30},
        {"reports": 19},
        {"reports": 21},
        {"round": 4},
        {"round": -3},
        {"record_bytes": 65},
        {"record_bytes": 0},
        {"sha256": "0" * 64},
        {"sha256": ""},
        {"task": "0" * 64},
    ],
)
def test_a_shuffler_that_signs_what_is_not_so(world: World, release: tuple[Path, bytes], change: Any) -> None:
    """Even with the right signature, a batch must be what the manifest says, and the manifest what the task allows."""
    path, data = release
    false = replace(Manifest.verified(data, world.task, ROUND), **change)
    with pytest.raises((CollectError, FileError)):
        BatchFile.checked(path, world.task, Manifest.verified(false.signed(world.shuffler_key), world.task, ROUND))


def test_a_manifest_by_another_shuffler(world: World, release: tuple[Path, bytes]) -> None:
    manifest = Manifest.verified(release[1], world.task, ROUND)
    with pytest.raises(ForgedError, match="not signed by the shuffler"):
        Manifest.verified(manifest.signed(Ed25519PrivateKey.generate()), world.task, ROUND)
    with pytest.raises(FormatError, match="another task or round"):
        Manifest.verified(release[1], world.task, ROUND + 1)
    with pytest.raises(FileError):
        Manifest.verified(release[1], replace(world.task, question="Another question?"), ROUND)


@pytest.mark.slow
def test_a_changed_batch_is_refused(world: World, release: tuple[Path, bytes], tmp_path: Path) -> None:
    path, data = release
    right, manifest = path.read_bytes(), Manifest.verified(data, world.task, ROUND)
    assert right.startswith(MAGIC)
    other = tmp_path / "batch"
    probability = random.Random(20262)
    for _ in range(amount(500, 1500)):
        changed = mutated(right, probability)
        other.write_bytes(changed)
        if changed == right:
            continue
        with pytest.raises(FileError, match="pull the round again"):
            BatchFile.checked(other, world.task, manifest)
    other.write_bytes(right)
    batch = BatchFile.checked(other, world.task, manifest)
    other.write_bytes(right[:-1])
    with pytest.raises(DamagedError, match="cut off"):
        list(batch.records(0, manifest.reports))


@pytest.mark.slow
def test_a_changed_task_is_another_one_or_none(world: World) -> None:
    data, probability = world.task.to_bytes(), random.Random(20263)
    others = 0
    for _ in range(amount(1500, 5000)):
        changed = mutated(data, probability)
        if changed == data:
            continue
        with pytest.raises(ForgedError, match="not the task that was pinned"):
            Task.from_bytes(changed, pinned=world.task.id)
        try:
            other = Task.from_bytes(changed)
        except (FileError, ParameterError):
            continue
        others += 1
        assert other.to_bytes() == changed and other.id == hashlib.sha256(changed).hexdigest() != world.task.id
    assert others > 5  # a question or a key with another letter is a task too


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.slow
@FIXED
@given(field=st.sampled_from(["format", "record_bytes", "reports", "round", "sha256", "task", "signature"]), value=JSON)
def test_any_value_in_a_field_of_a_manifest(world: World, release: tuple[Path, bytes], field: str, value: Any) -> None:
    content = json.loads(release[1])
    if value != content[field]:
        with pytest.raises((CollectError, FileError)):
            Manifest.verified(json.dumps(content | {field: value}).encode(), world.task, ROUND)
