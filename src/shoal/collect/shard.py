"""A shard: some of a round's sealed reports, opened and counted; shards add up to the round."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from numpy.typing import NDArray

from shoal.collect.candidates import Candidates
from shoal.collect.envelope import head, information, opened
from shoal.collect.task import Task
from shoal.errors import ParameterError
from shoal.files.memory_limits import records_at_once
from shoal.mechanisms import Categorical
from shoal.mechanisms.mechanism import Reports

__all__ = ["ShardCounts", "count_shard"]

_HEAD = 2
"""Bytes before the value: version and mechanism."""


@dataclass(frozen=True, eq=False)
class ShardCounts:
    """What the reports of a shard say together.

    Attributes
    ----------
    values : numpy.ndarray
        The counts of the mechanism, over the valid messages.
    valid : int
        How many messages are in them: one for each report, or several.
    undecryptable : int
        How many records are no report for this task, round and key.
    malformed : int
        How many could be opened, and hold no report of the mechanism.
    """

    values: NDArray[np.int64]
    valid: int
    undecryptable: int
    malformed: int

    @property
    def records(self) -> int:
        """How many records there were."""
        return self.valid + self.undecryptable + self.malformed

    def __add__(self, other: "ShardCounts") -> "ShardCounts":
        """Return the counts of both."""
        return ShardCounts(
            self.values + other.values,
            self.valid + other.valid,
            self.undecryptable + other.undecryptable,
            self.malformed + other.malformed,
        )

    def __sub__(self, other: "ShardCounts") -> "ShardCounts":
        """Return the counts without records that are among them."""
        return ShardCounts(
            self.values - other.values,
            self.valid - other.valid,
            self.undecryptable - other.undecryptable,
            self.malformed - other.malformed,
        )


def count_shard(
    task_bytes: bytes, private_key: bytes, number: int, records: bytes, listed: int | None = None
) -> ShardCounts:
    """Open sealed reports and count what they say; whatever is no report is counted as such, and never an error.

    It depends on nothing but its arguments, so that it can run in any process, on any machine, and again.

    Parameters
    ----------
    task_bytes : bytes
        The task, from `Task.to_bytes`.
    private_key : bytes
        The 32 bytes of the analyst's.
    number : int
        Of the round.
    records : bytes
        Sealed reports, one after the other.
    listed : int, optional
        In a hunt, how many prefixes the list of the round has: what is counted is how often each is supported.
    """
    task = _task(task_bytes)
    mechanism = task.mechanism if listed is None else Candidates(task.hunt_plan.of_list(listed))
    length, size = task.ciphertext_bytes, mechanism.bytes_per_report
    key = X25519PrivateKey.from_private_bytes(private_key)
    ciphertexts = (records[start : start + length] for start in range(0, len(records), length))
    results = opened(key, information(task, number), ciphertexts)
    contents = [content for content in results if content is not None]
    # Only the last record can have another length, where the records were cut off.
    whole = [content for content in contents if len(content) == task.plaintext_bytes]
    rows = np.frombuffer(b"".join(whole), np.uint8).reshape(-1, task.plaintext_bytes)
    rows = rows[(rows[:, :_HEAD] == np.frombuffer(head(task), np.uint8)).all(axis=1)]
    rows = rows[~rows[:, _HEAD + size :].any(axis=1)]
    values, valid = _tallied(mechanism, rows[:, _HEAD : _HEAD + size])
    return ShardCounts(values, valid, len(results) - len(contents), len(contents) - valid)


@lru_cache(maxsize=1)
def _task(data: bytes) -> Task:
    """Return the task; a process has many shards of one, and its minimum is proved anew whenever it is read."""
    return Task.from_bytes(data)


def _tallied(mechanism: Categorical | Candidates, rows: NDArray[np.uint8]) -> tuple[NDArray[np.int64], int]:
    """Return the counts of those rows that are reports, and how many these are."""
    values, valid = np.zeros(mechanism.cells, np.int64), 0
    step = records_at_once(rows.shape[1])
    for start in range(0, len(rows), step):
        reports = _reports(mechanism, rows[start : start + step])
        if reports:
            messages = np.concatenate(reports)
            tallied = mechanism.tally(messages)
            values[: len(tallied)] += tallied  # with dummies there is a number more, which is no count of messages
            valid += len(messages)
    return values, valid


def _reports(mechanism: Categorical | Candidates, rows: NDArray[np.uint8]) -> list[Reports]:
    """Return the reports in these rows; those that a bad one is read with are read by halves, until it stands alone."""
    try:
        return [mechanism.from_bytes(rows.tobytes())]
    except ParameterError:
        # The last bytes are the highest: numbers out of range, and bits beyond the last category, come to stand
        # together, and those that are fine are read in a few pieces, however many are not.
        ordered = rows[np.lexsort(rows[:, -4:].T)]
    reports, parts = [], [ordered]
    while parts:
        part = parts.pop()
        try:
            reports.append(mechanism.from_bytes(part.tobytes()))
        except ParameterError:
            if len(part) > 1:
                parts += [part[: len(part) // 2], part[len(part) // 2 :]]
    return reports
