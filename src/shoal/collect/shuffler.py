"""The shuffler: takes sealed reports, and releases a round of them in random order, or not at all."""

import os
import secrets
import shutil
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from shoal.collect.batch import Manifest, write_batch
from shoal.collect.failpoint import reached
from shoal.collect.high_water import HighWater
from shoal.collect.kinds.heavy_hitter_rounds import PrefixList
from shoal.collect.round_state import Record, Round, State, record
from shoal.collect.store import Store
from shoal.collect.task import Task
from shoal.durable_file import new_file, settle
from shoal.errors import CollectError, StorageError, TryAgainError, WrongKeyError
from shoal.shuffling import shuffled_records


class Shuffler:
    """The rounds of one task, from the first report to the last trace of it.

    Parameters
    ----------
    task : Task
        What is collected.
    store : Store
        Where reports wait.
    folder : Path
        Where batches are released.
    key : Ed25519PrivateKey
        Signs them; it must be the one that the task names.
    clock : callable, optional
        Returns the time in seconds since 1970, for `time`. If not given, the store's clock is used, which all
        processes that share the store have in common.
    """

    def __init__(
        self,
        task: Task,
        store: Store,
        folder: Path,
        key: Ed25519PrivateKey,
        *,
        clock: Callable[[], float] | None = None,
    ) -> None:
        if key.public_key().public_bytes_raw() != task.shuffler_key:
            raise WrongKeyError("this is not the private key of the shuffler that the task names; give that one")
        self.task = task
        self._store, self._folder, self._key = store, folder, key
        self.time = clock or store.time
        self._lists: list[PrefixList] = []
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise StorageError(f"cannot make the folder {folder}: {error.strerror}", error) from None
        self._high_water = HighWater(folder, store)
        self._high_water.checked()

    @property
    def trouble(self) -> str | None:
        """What is damaged in the store, and what to do; as long as this is so, nothing is stored or released."""
        return self._store.trouble

    def rounds(self) -> list[Round]:
        """Return the rounds in order, but those purged long ago; the last one is open."""
        return self._store.rounds()

    def current(self) -> Round:
        """Return the open round."""
        return self._store.current()

    def _round(self, number: int) -> Round:
        one = next((one for one in self.rounds() if one.number == number), None)
        if one is None:
            now = self.current().number
            kind = TryAgainError if number > now else CollectError
            raise kind(f"there is no round {number:,}; the open one is {now:,}")
        return one

    def accept(self, number: int, records: Sequence[Record]) -> None:
        """Keep reports of the open round; when this returns, they are on the disk."""
        self._store.add(number, records)

    def stored(self, number: int, body: bytes) -> int | None:
        """Return how many reports of a bulk, from its start, a round that has ended has; None if that is forgotten."""
        length = self.task.ciphertext_bytes
        digests = (record(body[at : at + length]).digest for at in range(0, len(body), length))
        messages = self._store.known(number, digests)
        return None if messages is None else messages // self.task.mechanism.bundle

    def mix(self, number: int, helper: int, dummies: Sequence[Record]) -> None:
        """Add the dummies of a helper to a sealed round, all at once, and once; when this returns, they are there."""
        self._store.mix(number, helper, dummies)

    def waiting_for(self, helper: int) -> list[int]:
        """Return the rounds that are not released, since this helper's dummies are missing."""
        return [one.number for one in self.rounds() if one.state == State.SEALED and not one.helped >> helper & 1]

    def list_of(self, number: int) -> PrefixList:
        """Return the list of prefixes of a round of a search. Each list is verified once and then kept in memory."""
        if number < 1:
            raise CollectError(f"there is no round {number:,}; rounds are numbered from 1")
        if number > len(self._lists):
            stored = {one.number: one.prefixes for one in self.rounds()}
            for each in range(len(self._lists) + 1, number + 1):
                data = stored.get(each)
                if data is None:
                    raise TryAgainError(f"round {each:,} has no list of prefixes yet; the analyst signs it")
                before = self._lists[-1] if self._lists else None
                self._lists.append(PrefixList.verified(data, self.task, each, before))
        return self._lists[number - 1]

    def publish_list(self, number: int, data: bytes) -> None:
        """Keep the list of a round once it is right; once more changes nothing, and another one is refused."""
        before = self.list_of(number - 1) if number > 1 else None
        self._store.publish_list(number, PrefixList.verified(data, self.task, number, before).data)

    def draw(self) -> None:
        """Draw the shuffler's dummies for the open round if it ends now, as `close` does if nobody has before."""
        self._store.draw(self.time())

    def close(self, *, draw: bool = True) -> Round | None:
        """End the open round if its time has come: seal it, extend it or discard it; return it if it has ended.

        Parameters
        ----------
        draw : bool
            Whether to draw dummies first; without them, a round that needs them ends at a later attempt.
        """
        self._high_water.checked()
        ended = self._store.close(self.time(), draw=draw)
        if ended is not None:
            reached("after seal")
        return ended

    def release(self, number: int) -> None:
        """Write the reports of a sealed round in a uniformly random order, signed, and make the round ready.

        If the process dies on the way, the round is still sealed, nobody has seen the file, and the next try draws
        another order.
        """
        sealed = self._round(number)
        if sealed.state != State.SEALED:
            raise CollectError(f"round {number:,} is {sealed.state}; only a sealed round can be released")
        self._check_helped(sealed)
        people, total = sealed.reports or 0, sealed.records
        aside = self._folder / f".round-{number}.{secrets.token_hex(6)}.part"
        try:
            with new_file(aside, mode=0o600) as file, ExitStack() as stack:
                blocks = stack.enter_context(closing(self._blocks(number)))
                final, length = self._folder / f"round-{number}.batch", self.task.ciphertext_bytes
                records = shuffled_records(blocks, total, length, final, stack)
                manifest = write_batch(file, self.task, number, people, records, messages=sealed.messages)
            reached("batch written")
            self._high_water.checked(sealed)  # on the disk before anything is signed
            reached("mark written")
            self._store.publish(number, manifest.signed(self._key), lambda: self._move(aside, manifest))
        finally:
            with suppress(OSError):
                aside.unlink()

    def _check_helped(self, sealed: Round) -> None:
        missing, helpers = self.task.helpers_missing(sealed.helped), len(self.task.helper_keys)
        if missing:
            raise TryAgainError(
                f"round {sealed.number:,} is sealed, and waits for the dummies of {missing} of its {helpers} helpers; "
                "without all of them it is not released. Each of them runs `shoal helper send`"
            )

    def _blocks(self, number: int) -> Generator[NDArray[np.uint8]]:
        with closing(self._store.bodies(number)) as pieces:
            for piece in pieces:
                yield np.frombuffer(piece, np.uint8).reshape(-1, self.task.ciphertext_bytes)

    def _move(self, aside: Path, manifest: Manifest) -> None:
        os.replace(aside, self._batch_path(manifest))
        settle(self._folder)
        reached("renamed")

    def _batch_path(self, manifest: Manifest) -> Path:
        # With its hash: a releaser that was suspended, and believes that it still has to, can't replace another's.
        return self._folder / f"round-{manifest.round}.{manifest.sha256[:16]}.batch"

    def batch_path(self, number: int) -> Path:
        """Return where the batch of a round is, once it is ready."""
        return self._batch_path(self.released(number)[1])

    def released(self, number: int) -> tuple[bytes, Manifest]:
        """Return the signed manifest of a round that is ready, as bytes and as a value."""
        one = self._round(number)
        if one.manifest is None:
            if one.discarded:
                raise CollectError(f"round {number:,} was too small, and was discarded")
            if one.state == State.SEALED:
                self._check_helped(one)
            raise TryAgainError(f"round {number:,} is {one.state}, and not ready yet")
        return one.manifest, Manifest.verified(one.manifest, self.task, number)

    def open_batch(self, number: int) -> BinaryIO:
        """Return the batch of a round that is ready, open to be read."""
        try:
            return self.batch_path(number).open("rb")
        except FileNotFoundError:
            raise CollectError(
                f"round {number:,} is not in the folder here: it was acknowledged and deleted, or another process has "
                "released it into another folder, which all of them should share"
            ) from None

    def acknowledge(self, number: int, sha256: str) -> None:
        """Note that the analyst has the batch with this hash; once more changes nothing."""
        _, manifest = self.released(number)
        if manifest.sha256 != sha256:
            raise CollectError(f"round {number:,} has another hash than was acknowledged; pull it again")
        reached("before ack")
        self._store.acknowledge(number)
        reached("after ack")

    def purge(self, number: int) -> None:
        """Delete all that is left of an acknowledged round, but that it was there."""
        one = self._round(number)
        if one.state not in (State.ACKED, State.PURGED):
            raise CollectError(f"round {number:,} is {one.state}; only what the analyst has acknowledged is deleted")
        reached("before purge")
        # In this order: the batch goes only once the database itself, without its log, says that the round is purged.
        self._store.purge(number)
        reached("after purge")
        self._sweep(number)

    def _sweep(self, number: int) -> None:
        """Delete the batch of a round, and what a process that was killed in the middle of a release has left."""
        for path in (*self._folder.glob(f"round-{number}.*"), *self._folder.glob(f".round-{number}.*")):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def settle(self) -> None:
        """Release what is sealed, and delete what is acknowledged; trouble with one round does not stop the others.

        Raises `TryAgainError` only if nothing else is wrong than that another session delays a purge.
        """
        trouble: Exception | None = None
        left = {path.name.lstrip(".").split(".")[0] for path in self._folder.glob("*round-*")}
        for one in self._high_water.checked():
            try:
                if one.state == State.SEALED and not self.task.helpers_missing(one.helped):
                    self.release(one.number)
                elif one.state == State.ACKED or (one.state == State.PURGED and f"round-{one.number}" in left):
                    self.purge(one.number)
            except Exception as error:
                if one.state == self._round(one.number).state:  # and no other process was faster
                    trouble = error if trouble is None or isinstance(trouble, TryAgainError) else trouble
        if trouble is not None:
            try:
                raise trouble
            finally:
                del trouble  # it holds this frame, and the frame holds it, with whatever was open in between

    def tick(self) -> None:
        """Do whatever is due."""
        self.close()
        self.settle()

    def shut(self) -> None:
        """Close the store."""
        self._store.shut()
