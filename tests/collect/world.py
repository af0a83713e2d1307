"""A made task with its keys, and rounds of sealed reports: what the tests of collection begin with."""

import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from numpy.typing import ArrayLike

from shoal.collect.batch import write_batch
from shoal.collect.envelope import information, opened, plaintexts, seal
from shoal.collect.keys import (
    analyst_key,
    make_analyst_keys,
    make_shuffler_keys,
    make_signing_keys,
    public_key,
    shuffler_key,
    signing_key,
)
from shoal.collect.kinds.dummy_rounds import DummyRounds
from shoal.collect.kinds.heavy_hitter_rounds import HeavyHitterRounds
from shoal.collect.task import Task
from shoal.files.names import Names
from shoal.mechanisms import Covered, Dummies, RandomizedResponse
from shoal.planning.heavy_hitter_plan import HeavyHitterPlan


@dataclass(frozen=True)
class World:
    """A task and its keys; `analyst` and `shuffler` have paths of private_key, public_key, tls_key, tls_certificate."""

    folder: Path
    task: Task
    task_path: Path
    analyst: dict[str, Path]
    shuffler: dict[str, Path]
    analyst_key: X25519PrivateKey
    shuffler_key: Ed25519PrivateKey
    helpers: tuple[Ed25519PrivateKey, ...] = ()
    helper_paths: tuple[Path, ...] = ()
    lists: Ed25519PrivateKey | None = None
    lists_path: Path | None = None

    def sealed(self, reports: ArrayLike, number: int = 1) -> list[bytes]:
        """Return reports (of the mechanism, so already randomized) sealed for a round."""
        return [seal(self.task, number, plaintext) for plaintext in plaintexts(self.task, reports)]

    def bundles(self, values: ArrayLike, number: int = 1) -> list[bytes]:
        """Return what people with these values send: all messages of each, sealed, one after the other."""
        sealed, size = self.sealed(self.task.mechanism.randomize(values), number), self.task.mechanism.bundle
        return [b"".join(sorted(sealed[at : at + size])) for at in range(0, len(sealed), size)]

    def cut(self, data: bytes) -> list[bytes]:
        """Return the messages in these bytes, one after the other."""
        length = self.task.ciphertext_bytes
        return [data[at : at + length] for at in range(0, len(data), length)]

    def opened(self, messages: Iterable[bytes], number: int = 1) -> list[bytes]:
        """Return what those messages say that can be opened: the value of each, without what is around it."""
        size = self.task.mechanism.bytes_per_report
        plain = opened(self.analyst_key, information(self.task, number), messages)
        return [each[2 : 2 + size] for each in plain if each is not None]

    def values(self, messages: Iterable[bytes], number: int = 1) -> list[int]:
        """Return the values in those messages that can be opened, in order."""
        return sorted(int(self.task.mechanism.from_bytes(each)[0]) for each in self.opened(messages, number))

    def junk(self, count: int) -> list[bytes]:
        """Return records of the right length that nobody can open."""
        return [random.randbytes(self.task.ciphertext_bytes) for _ in range(count)]

    def release(self, path: Path, records: Iterable[bytes], number: int = 1) -> bytes:
        """Write the batch of a round in this order, and return its signed manifest."""
        parts = list(records)
        with path.open("w+b") as file:
            manifest = write_batch(file, self.task, number, len(parts), parts)
        return manifest.signed(self.shuffler_key)


def make_world(folder: Path, **changes: Any) -> World:
    """Return a world in an empty folder: four categories, ε₀ = 2, ε ≤ 1 at δ = 1e-6, rounds of 1,000 reports."""
    analyst = make_analyst_keys(folder / "analyst-keys")
    shuffler = make_shuffler_keys(folder / "shuffler-keys", ["localhost", "127.0.0.1"])
    fields: dict[str, Any] = {
        "question": "Which of these?",
        "mechanism": RandomizedResponse(categories=4, local_epsilon=2),
        "delta": 1e-6,
        "epsilon_limit": 1.0,
        "minimum": 1000,
        "malicious": 10,
        "round_seconds": 60,
        "too_small": "extend",
        "replay_rounds": 8,
        "analyst_key": public_key(analyst["public_key"], "analyst"),
        "shuffler_key": public_key(shuffler["public_key"], "shuffler"),
    } | changes
    fields.setdefault("names", Names(fields["mechanism"].categories))
    task = Task(**fields)
    path = folder / "task.json"
    path.write_bytes(task.to_bytes())
    keys = analyst_key(analyst["private_key"]), shuffler_key(shuffler["private_key"])
    return World(folder, task, path, analyst, shuffler, *keys)


def make_exact_world(folder: Path, **changes: Any) -> World:
    """Return a world without noise, for rounds of two or more: any of 65,536 values is told as it is, but for 3e-13."""
    exact = {"mechanism": RandomizedResponse(categories=65536, local_epsilon=40), "epsilon_limit": 41.0}
    return make_world(folder, **(exact | {"minimum": 2, "malicious": 0} | changes))


def make_covered_world(folder: Path, **changes: Any) -> World:
    """Return a world of bundles, a message and eight slots, for rounds of two people or more at a large ε and δ."""
    mechanism = Covered(categories=2, slots=8, fill=0.75)
    return make_world(
        folder,
        **({"mechanism": mechanism, "epsilon_limit": 5.0, "delta": 0.01, "minimum": 2, "malicious": 0} | changes),
    )


def make_dummies_world(folder: Path, **changes: Any) -> World:
    """Return a world of dummies, 81 in the mean and 162 at most, for rounds of two people or more."""
    mechanism = Dummies(categories=3, epsilon=1, limit=27)
    return make_world(folder, **({"mechanism": mechanism, "minimum": 2, "malicious": 0} | changes))


def make_helped_world(folder: Path, *, helpers: int = 1, parties: int | None = None, **changes: Any) -> World:
    """Return a world of dummies to which so many helpers add, and the shuffler if the parties are one more."""
    made = [make_signing_keys(folder / f"helper-{number}", "helper") for number in range(helpers)]
    mechanism = Dummies(categories=3, epsilon=1, limit=27, helpers=parties or helpers + 1)
    keys = tuple(public_key(paths["public_key"], "helper") for paths in made)
    world = make_dummies_world(folder, **({"mechanism": mechanism, "kind": DummyRounds(keys)} | changes))
    paths = tuple(each["private_key"] for each in made)
    return replace(world, helpers=tuple(signing_key(path, "helper") for path in paths), helper_paths=paths)


def make_hunt_world(folder: Path, **changes: Any) -> World:
    """Return a world of a search: strings of two bytes in two rounds of 40 people or more, with hardly any noise."""
    made = make_signing_keys(folder / "lists", "lists")
    plan = HeavyHitterPlan(people=40, bits=16, first=8, step=8, slots=1, fill=0.5, order=101)
    key = public_key(made["public_key"], "lists").hex()
    kind = HeavyHitterRounds(bits=16, first=8, step=8, deviations=5.0, code="bytes", list_key=key)
    fields = {"mechanism": plan.mechanism, "kind": kind, "epsilon_limit": 17.0, "minimum": 40, "malicious": 0}
    world = make_world(folder, **(fields | changes))
    return replace(world, lists=signing_key(made["private_key"], "lists"), lists_path=made["private_key"])
