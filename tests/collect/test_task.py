"""A task is its bytes: whatever is changed makes another id, or is refused; and keys are what they are named for."""

import hashlib
import json
import stat
from dataclasses import FrozenInstanceError, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa, x25519

import shoal
from shoal.collect.envelope import information, opened, plaintexts, seal
from shoal.collect.keys import analyst_key, make_analyst_keys, make_shuffler_keys, public_key, shuffler_key
from shoal.collect.task import Task, task_id
from shoal.errors import FileError, ForgedError, ParameterError, StorageError, WrongKeyError
from shoal.files.names import Names
from shoal.mechanisms import HadamardResponse, RandomizedResponse, kinds
from shoal.pairs.registry import REGISTRY
from tests.collect.world import World, make_world

MECHANISMS = kinds("categories", within=("categories", "local_epsilon"))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"), names=Names(4, ("grün", "rot", "blau", "weiß")))


def canonical(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def test_bytes_are_canonical_and_their_hash_is_the_id(world: World) -> None:
    data = world.task.to_bytes()
    assert data == canonical(json.loads(data))
    assert world.task.id == hashlib.sha256(data).hexdigest() == world.task.id_bytes.hex()
    assert "weiß".encode() in data
    again = Task.from_bytes(data, pinned=world.task.id)
    assert again == world.task and again.id == world.task.id
    assert Task.read(world.task_path, pinned=world.task.id) == world.task


def test_lengths_and_key_id_follow_from_the_rest(world: World) -> None:
    content = world.task.to_dict()
    assert content["ciphertext_bytes"] == 32 + 16 + 16 == world.task.ciphertext_bytes
    assert content["key_id"] == hashlib.sha256(world.task.analyst_key).hexdigest()[:16]


CHANGES: dict[str, list[Any]] = {
    "analyst_key": ["00" * 32, "00" * 31, "0" * 63, "zz" * 32, "AA" * 32, None, 5, ["00" * 32]],
    "ciphertext_bytes": [63, 65, 80, 64.0, "64", None, -64],
    "delta": [1e-7, 0, 0.0, 1, 1.5, -1e-6, "1e-6", None, True, [1e-6]],
    "epsilon_limit": [0.9, 1, 2.5, 0, -1, "1", None, 1e400],
    "fakes": [0, 11, -1, 10.0, 1.5, "10", None, True],
    "format": ["shoal task 2", "", None, 1],
    "key_id": ["00" * 8, "", None],
    "mechanism": [
        {"mechanism": "hadamard-response", "version": 1},
        {},
        None,
        [],
        "randomized-response",
        {"mechanism": "gaussian", "version": 1, "sigma": 1},
        {"mechanism": "randomized-response", "version": 1, "categories": 5, "local_epsilon": 2.0},
        {"mechanism": "randomized-response", "version": 1, "categories": 4, "local_epsilon": 2.5},
        {"mechanism": "randomized-response", "version": 1, "categories": 4, "local_epsilon": 2.0, "further": 1},
    ],
    "minimum": [1001, 999, 1, 0, -1, 1000.0, "1000", None, 10**30],
    "names": [None, ["a", "b", "c"], ["a", "b", "c", "c"], ["a", "b", "c", 4], "abcd", ["rot", "grün", "blau", "weiß"]],
    "question": ["Which?", "", " ", "a\nb", "a\x00b", "x" * 1001, None, 5, "Which of these? "],
    "replay_rounds": [9, 0, -1, 10_001, 8.0, None],
    "round_seconds": [61, 0, -60, 60.5, None, 10**12],
    "shuffler_key": ["00" * 32, "00", None],
    "suite": ["X25519", None, ""],
    "too_small": ["discard", "release", "", None, "Extend"],
}


def test_every_field_is_changed_here(world: World) -> None:
    assert set(CHANGES) == set(world.task.to_dict())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("field", "place"), [(field, place) for field, values in CHANGES.items() for place in range(len(values))]
)
def test_a_changed_field_is_another_task_or_none(world: World, field: str, place: int) -> None:
    content = world.task.to_dict() | {field: CHANGES[field][place]}
    data = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    assert data != world.task.to_bytes()
    with pytest.raises(ForgedError, match="not the task that was pinned"):
        Task.from_bytes(data, pinned=world.task.id)
    try:
        other = Task.from_bytes(data)
    except (FileError, ParameterError) as error:
        assert len(str(error)) < 1500
        return
    assert other.to_bytes() == data and other.id != world.task.id and other != world.task
    sealed = world.sealed([1])
    if (other.analyst_key, other.mechanism) == (world.task.analyst_key, world.task.mechanism):
        # A report for one of them is none for the other, whoever has the key.
        assert opened(world.analyst_key, information(world.task, 1), sealed) != [None]
        assert opened(world.analyst_key, information(other, 1), sealed) == [None]


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        lambda data: b" " + data,
        lambda data: data + b"\n",
        lambda data: data.replace(b",", b", ", 1),
        lambda data: data.replace(b'"fakes":10,', b'"fakes":1e1,'),
        lambda data: data.replace(b'"delta":1e-06', b'"delta":1e-6'),
        lambda data: data.replace(b'"delta":1e-06', b'"delta":0.000001'),
        lambda data: data.replace("ß".encode(), b"\\u00df"),
        lambda data: data.replace("ß".encode(), b"\xdf"),
        lambda data: data.replace(b'"fakes":10,', b'"fakes":10,"fakes":10,'),
        lambda data: data.replace(b'"fakes":10,', b'"fakes":10,"further":1,'),
        lambda data: data.replace(b'"fakes":10,', b""),
        lambda data: data.replace(b'"fakes":10,', b'"fakes":NaN,'),
        lambda data: data.replace(b'"fakes":10,', b'"fakes":' + b"9" * 5000 + b","),
        lambda data: data.replace(b'"fakes":10,', b'"fakes":' + b"[" * 100_000 + b","),
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: data.decode().encode("utf-16"),
        lambda data: b"[" + data + b"]",
        lambda data: b"",
        lambda data: b"null",
    ],
)
def test_the_same_in_other_bytes_is_refused(world: World, change: Any) -> None:
    data = change(world.task.to_bytes())
    assert data != world.task.to_bytes()
    with pytest.raises((FileError, ParameterError)):
        Task.from_bytes(data)


@pytest.mark.parametrize("pinned", ["", "0" * 63, "0" * 65, "0" * 64 + "\n", "G" * 64, "A" * 64])
def test_an_id_is_64_small_hexadecimal_digits(world: World, pinned: str) -> None:
    with pytest.raises(ParameterError, match="64 hexadecimal digits"):
        task_id(pinned)
    with pytest.raises(ParameterError):
        Task.from_bytes(world.task.to_bytes(), pinned=pinned)


def test_a_task_with_another_key_is_not_the_one_that_was_pinned(world: World, tmp_path: Path) -> None:
    """Nobody can be handed a key of their own."""
    keys = make_analyst_keys(tmp_path)
    other = replace(world.task, analyst_key=public_key(keys["public_key"], "analyst"))
    with pytest.raises(ForgedError, match="Do not send"):
        Task.from_bytes(other.to_bytes(), pinned=world.task.id)
    path = tmp_path / "task.json"
    path.write_bytes(other.to_bytes())
    with pytest.raises(ForgedError, match="Do not send"):
        Task.read(path, pinned=world.task.id)
    with pytest.raises(StorageError, match="cannot read"):
        Task.read(tmp_path / "nothing")


class TestMinimum:
    """The minimum keeps the limit, or there is no task."""

    @pytest.mark.slow
    def test_the_least_that_keeps_it(self, world: World) -> None:
        least = shoal.calibrate(world.task.mechanism, epsilon=1.9, delta=0.01).reports + 10
        assert least > 12
        task = replace(world.task, minimum=least, delta=0.01, epsilon_limit=1.9)
        assert task.central(task.minimum).epsilon(task.delta) <= task.epsilon_limit
        assert task.central(task.minimum - 1).epsilon(task.delta) > task.epsilon_limit
        with pytest.raises(ParameterError, match=f"at least minimum={least:,}"):
            replace(task, minimum=least - 1)
        with pytest.raises(ParameterError, match=f"at least minimum={least + 1:,}"):
            replace(task, malicious=11)
        for minimum in (2, 9, 10):  # these may all be malicious reports
            with pytest.raises(ParameterError, match="does not keep epsilon_limit"):
                replace(task, minimum=minimum)
        with pytest.raises(ParameterError, match=f"at least minimum={least:,}"):
            Task.from_bytes(canonical(task.to_dict() | {"minimum": least - 1}))

    @pytest.mark.slow
    def test_no_number_is_enough_for_everything(self, world: World) -> None:
        with pytest.raises(ParameterError, match="does not keep epsilon_limit"):
            replace(world.task, epsilon_limit=1e-9)

    def test_where_local_privacy_is_enough_two_are(self, world: World) -> None:
        assert replace(world.task, epsilon_limit=2.0, minimum=2).minimum == 2
        with pytest.raises(ParameterError, match="minimum"):
            replace(world.task, epsilon_limit=2.0, minimum=1)


def test_a_task_is_frozen_and_checked_when_made(world: World) -> None:
    with pytest.raises(FrozenInstanceError):
        world.task.minimum = 1  # type: ignore[misc]
    for change in ({"analyst_key": "00" * 32}, {"shuffler_key": b"short"}, {"names": Names(5)}, {"question": b"?"}):
        with pytest.raises((FileError, ParameterError)):
            replace(world.task, **change)


def test_one_key_is_not_for_two(world: World) -> None:
    with pytest.raises(ParameterError, match="must differ"):
        replace(world.task, shuffler_key=world.task.analyst_key)


def test_names_that_look_the_same_are_refused(world: World) -> None:
    labels = ("caf\u00e9", "cafe\u0301", "b", "c")
    with pytest.raises(ParameterError, match="stands there twice"):
        replace(world.task, names=Names(4, labels))


@pytest.mark.slow
def test_what_was_changed_is_named(world: World) -> None:
    fields = world.task.to_dict()
    for data, told in (
        (canonical(fields | {"key_id": "0" * 16}), "changed since it was made: key_id do"),
        (canonical(fields | {"ciphertext_bytes": 1}), "changed since it was made: ciphertext_bytes do"),
        (json.dumps(fields).encode(), "changed since it was made: it is not in canonical form. Get it again"),
        (b'{"schema": 1}', "is no task file; `shoal task new` makes one"),
        (canonical(fields | {"more": 1}), "its header must have the fields"),
    ):
        with pytest.raises(FileError, match=told):
            Task.from_bytes(data)


def test_every_mechanism_has_a_code_of_its_own() -> None:
    codes = {name: row.code for name, row in REGISTRY.items() if row.code is not None}
    assert len(set(codes.values())) == len(codes)
    assert set(codes) == {*MECHANISMS, "covered", "dummies"}


def test_a_mechanism_without_a_code_is_refused_when_the_task_is_made(world: World) -> None:
    class Unregistered(RandomizedResponse):
        """A class of its own, and its reports would go under the name of another."""

    mechanism = Unregistered(categories=world.task.mechanism.categories, local_epsilon=1.0)
    with pytest.raises(ParameterError, match=r"Unregistered has no code for sealed reports.*code=200"):
        replace(world.task, mechanism=mechanism)


@pytest.mark.parametrize("kind", [RandomizedResponse, HadamardResponse])
def test_a_report_has_one_length_and_one_meaning(world: World, kind: Any) -> None:
    mechanism = kind(categories=4, local_epsilon=2)
    task = replace(world.task, mechanism=mechanism, minimum=100_000)
    plain = plaintexts(task, mechanism.randomize([0, 1, 2, 3]))
    assert {len(one) for one in plain} == {task.plaintext_bytes}
    sealed = [seal(task, 5, one) for one in plain * 2]
    assert len(set(sealed)) == 8 and {len(one) for one in sealed} == {task.ciphertext_bytes}
    assert opened(world.analyst_key, information(task, 5), sealed) == plain * 2
    for number in (0, 4, 6, 5 << 8):
        assert opened(world.analyst_key, information(task, number), sealed) == [None] * 8


class TestKeys:
    """Private keys are for one pair of eyes, and each key is for one thing."""

    def test_files_and_modes(self, tmp_path: Path) -> None:
        for name, paths in (
            ("analyst", make_analyst_keys(tmp_path / "new" / "a")),
            ("shuffler", make_shuffler_keys(tmp_path / "new" / "s", ["shuffler.example.org", "::1"])),
        ):
            assert set(paths) == {"private_key", "public_key", "tls_key", "tls_certificate"}
            assert all(path.name.startswith(name) for path in paths.values())
            modes = {kind: stat.S_IMODE(path.stat().st_mode) for kind, path in paths.items()}
            assert modes["private_key"] == modes["tls_key"] == 0o600
            assert stat.S_IMODE(paths["private_key"].parent.stat().st_mode) & 0o077 == 0
        assert analyst_key(tmp_path / "new" / "a" / "analyst.key").public_key().public_bytes_raw() == public_key(
            tmp_path / "new" / "a" / "analyst.pub", "analyst"
        )

    @pytest.mark.parametrize("mode", [0o604, 0o640, 0o620, 0o601, 0o666])
    def test_a_key_that_others_can_read_is_refused(self, world: World, tmp_path: Path, mode: int) -> None:
        for read, source in (
            (analyst_key, world.analyst["private_key"]),
            (shuffler_key, world.shuffler["private_key"]),
        ):
            path = tmp_path / source.name
            path.write_bytes(source.read_bytes())
            path.chmod(mode)
            with pytest.raises(ParameterError, match="chmod 600"):
                read(path)
            path.chmod(0o600)
            assert read(path)

    def test_keys_are_never_written_over_others(self, tmp_path: Path) -> None:
        first = make_analyst_keys(tmp_path)
        before = first["private_key"].read_bytes()
        with pytest.raises(ParameterError, match="already"):
            make_analyst_keys(tmp_path)
        first["public_key"].unlink()
        with pytest.raises(ParameterError, match="already"):
            make_analyst_keys(tmp_path)
        assert first["private_key"].read_bytes() == before

    def test_other_kinds_are_refused(self, world: World, tmp_path: Path) -> None:
        path = tmp_path / "key"
        kinds: list[Any] = [
            x25519.X25519PrivateKey.generate(),
            ed25519.Ed25519PrivateKey.generate(),
            ec.generate_private_key(ec.SECP256R1()),
            rsa.generate_private_key(65537, 2048),
        ]
        for place, key in enumerate(kinds):
            path.write_bytes(
                key.private_bytes(
                    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
                )
            )
            path.chmod(0o600)
            for wanted, read in enumerate((analyst_key, shuffler_key)):
                if wanted == place:
                    assert read(path)
                else:
                    with pytest.raises(FileError, match="shoal keygen"):
                        read(path)
            public = tmp_path / "pub"
            public.write_bytes(
                key.public_key().public_bytes(
                    serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
                )
            )
            for wanted, role in enumerate(("analyst", "shuffler")):
                if wanted == place:
                    assert len(public_key(public, role)) == 32
                else:
                    with pytest.raises(WrongKeyError, match=rf"no public key of the {role}; give the {role}\.pub"):
                        public_key(public, role)

    def test_what_is_no_key_is_refused(self, world: World, tmp_path: Path) -> None:
        path = tmp_path / "key"
        private = world.analyst["private_key"].read_bytes()
        locked = world.analyst_key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"word"),
        )
        for content in (b"", b"\x00" * 100, private[:-40], world.analyst["public_key"].read_bytes(), locked):
            path.write_bytes(content)
            path.chmod(0o600)
            for read in (analyst_key, shuffler_key):
                with pytest.raises(FileError, match="shoal keygen"):
                    read(path)
        path.write_bytes(private)
        with pytest.raises(FileError, match=r"\.pub"):
            public_key(path, "analyst")
        for read_any in (analyst_key, shuffler_key, partial(public_key, role="analyst")):
            with pytest.raises(StorageError, match="cannot read"):
                read_any(tmp_path / "nothing")

    @pytest.mark.parametrize("hosts", [[], [""], ["ü.example"], ["a b"], ["host\n"], ["localhost", "a" * 300]])
    def test_hosts_that_are_none(self, tmp_path: Path, hosts: list[str]) -> None:
        with pytest.raises((FileError, ParameterError)):
            make_shuffler_keys(tmp_path / "keys", hosts)
        assert not (tmp_path / "keys" / "shuffler.key").exists()


@pytest.mark.parametrize("name", ["a\x1b]0;b", "a\u202eb", "a\u200b", "a\nb", "a\x00"])
def test_names_are_plain_text(tmp_path: Path, name: str) -> None:
    """Whoever looks at a task must see what it says."""
    with pytest.raises(ParameterError, match="plain text"):
        make_world(tmp_path, mechanism=RandomizedResponse(categories=2, local_epsilon=1), names=Names(2, (name, "b")))


def test_a_key_that_nothing_can_be_sealed_for_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="nothing can be sealed for"):
        make_world(tmp_path, analyst_key=bytes(32))
