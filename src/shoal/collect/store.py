"""Where the shuffler keeps sealed reports until they are released: the state machine of a round, for all databases.

A kind of database adds the primitives that it is made of, in a file of its own in `stores/`.
"""

import secrets
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from shoal.collect.failpoint import reached
from shoal.collect.round_state import BEYOND, Record, Round, RoundClosedError, State, due, ranges, record, remembered
from shoal.collect.task import Task
from shoal.errors import CollectError, DamagedError, FileError, ParameterError, TryAgainError

_SEAL_BYTES = 16
"""Of the random id of a seal."""


class StoreError(CollectError):
    """A database that refuses what it is asked: it was set up otherwise, or changed by somebody.

    `code` is the name or number of this error in the database. The message has nothing of what was sent.
    """

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code


class StoreUnavailableError(StoreError, TryAgainError):
    """A database that is busy, or cannot be reached: nothing is lost, and the same may go well later."""


class Store(ABC):
    """The rounds of one task in a database: the state machine; what a kind of database adds is abstract below.

    Each public method is one transaction, and is on the disk when it returns. Its errors are `DamagedError` for data
    that cannot be trusted any more, `StorageError` for a disk that is full or not there, `StoreUnavailableError` for
    what may go well later, and `StoreError` for all else that the database says.

    Parameters
    ----------
    task : Task
        Whose reports these are.

    Attributes
    ----------
    trouble : str or None
        What is damaged for good, and what to do; None as long as no damage is known. From then on nothing is stored.
    accepts_loss : bool
        Whether the operator accepts that standbys of the database may lack what was committed last.
    """

    kinds: ClassVar[dict[str, type["Store"]]] = {}
    """All stores whose files have been imported, by the scheme of their URLs."""
    repair: ClassVar[str] = "repair the database by its own means"
    """What to do about damage, after the disk was checked."""
    erased_at_once: ClassVar[int] = 100_000
    """About how many reports to erase in one transaction, for which uploads wait."""
    sealing_leaves_traces: ClassVar[bool] = True
    """Whether the order of arrival can be in the files of the database until they are tidied."""
    keeps_several: ClassVar[bool] = False
    """Whether `_insert` stores bundles message by message, all or none, and `_mix` adds dummies."""

    def __init_subclass__(cls, *, schemes: Sequence[str] = (), **others: Any) -> None:
        """Register a kind of store under the schemes of its URLs."""
        super().__init_subclass__(**others)
        for scheme in schemes:
            other = cls.kinds.setdefault(scheme, cls)
            if (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
                taken = f"belongs to {other.__qualname__} already"
                raise ParameterError(f"the scheme {scheme!r} of {cls.__qualname__} {taken}; choose another")
            cls.kinds[scheme] = cls

    def __init__(self, task: Task) -> None:
        if task.several and not self.keeps_several:
            raise ParameterError(
                f"{type(self).__qualname__} keeps one message a person and no dummies, and this task has "
                f"{task.mechanism.name}; use SQLite or PostgreSQL"
            )
        self.task = task
        self.trouble: str | None = None
        self.accepts_loss = False
        self._untidy = True
        self._drawn: tuple[int, Sequence[Record]] = 0, []

    @classmethod
    @abstractmethod
    def opened(cls, url: str, task: Task, *, folder: Path, new: bool) -> "Store":
        """Return the store at a URL; if it has no rounds, begin the first one if `new`, or raise `ParameterError`."""

    @classmethod
    def examined(cls, folder: Path) -> Iterator[tuple[str, str, str, str]]:
        """Yield what `shoal doctor` says of this kind: the check, fine, note or wrong, the result, and what to do."""
        yield from ()

    def check_durability(self) -> None:  # noqa: B027  (not all need it)
        """Raise `StoreError` if the database may lose what it has committed; at the start, and before a round ends."""

    def time(self) -> float:
        """Return the time by which rounds end, in seconds since 1970: the same for all who share the store."""
        return time.time()

    def add(self, number: int, records: Sequence[Record]) -> None:
        """Store reports of the open round, each once; those seen before, and second ones of a token, are dropped.

        A bundle is stored as its messages, each a row like any other; all of them, or none if one was seen before.
        """
        with self._using(self._transaction()) as database:
            self._join(database, number)
            if self._state(database, number) != State.OPEN:
                raise RoundClosedError(f"round {number:,} is not open")
            self._insert(database, number, records)
            reached("after insert")
            reached("before commit")

    def known(self, number: int, digests: Iterable[bytes]) -> int | None:
        """Return how many of these, from the first on, a round that is not open has, or had dropped as seen before.

        None if it had digests, and they are forgotten, as `remembered` has it.
        """
        with self._using(self._view()) as database:
            newest = self._rounds(database, last=True)[0].number
            if not 0 < number <= newest:
                return 0
            if not remembered(number, self._state(database, number), newest, self.task.replay_rounds):
                return None
            return self._leading(database, number, digests)

    def rounds(self, also: int = 0) -> list[Round]:
        """Return the rounds in order, but those purged long ago, except round `also`; the last one is open."""
        with self._using(self._view(), damaged=True) as database:
            return self._rounds(database, last=False, also=also)

    def current(self) -> Round:
        """Return the open round alone; it is the last one."""
        with self._using(self._view(), damaged=True) as database:
            return self._rounds(database, last=True)[0]

    def draw(self, now: float) -> None:
        """Draw and seal the shuffler's dummies for the open round if it ends now, for the next call of `close`.

        This takes seconds where there are many, so it is done before the transaction that ends the round, in which
        nobody can store reports. The draw is in the memory of this process alone until that transaction has committed.
        Only the process whose transaction finds the round open commits a draw; any other draw is dropped unseen.
        """
        if not self.task.shuffler_adds:
            return
        with self._using(self._view()) as database:
            (one,) = self._rounds(database, last=True)
            if one.number == self._drawn[0]:
                return
            self._drawn = 0, []
            if not due(one.closes, now, self.task.round_seconds)[0]:
                return
        with self._using(self._transaction()) as database:
            if self._state(database, one.number, alone=True) != State.OPEN:  # another process has just ended it
                return
            if self._people(self._counted(database, one.number), one.number) < self.task.minimum:
                return
        self._drawn = one.number, sorted(map(record, self.task.kind.drawn(self.task, one.number)))
        reached("dummies drawn")

    def close(self, now: float, *, draw: bool = True) -> Round | None:
        """End the open round if its time has come: seal it, extend it or discard it; return it if it has ended.

        Parameters
        ----------
        now : float
            The time, in seconds since 1970.
        draw : bool
            Whether to draw dummies first; without them, a round that needs them ends at a later attempt.
        """
        if draw:
            self.draw(now)
        ended = self._ended(now)
        if self._untidy:
            with suppress(CollectError, FileError):  # the round has ended all the same
                self._tidied()
        return ended

    def _ended(self, now: float) -> Round | None:
        task = self.task
        with self._using(self._view()) as database:
            (before,) = self._rounds(database, last=True)
        if due(before.closes, now, task.round_seconds) == (False, before.closes):
            return None
        if due(before.closes, now, task.round_seconds)[0]:
            with self._using(nullcontext()):
                self._check()
                self.check_durability()
        with self._using(self._transaction()) as database:
            if self._state(database, before.number, alone=True) != State.OPEN:  # another process has just ended it
                return None
            (one,) = self._rounds(database, last=True)
            ended, following = due(one.closes, now, task.round_seconds)
            count = self._people(self._counted(database, one.number), one.number) if ended else 0
            if not ended or (count < task.minimum and task.too_small == "extend"):
                if following != one.closes:
                    self._change(database, one.number, closes=following)
                return None
            kept = count >= task.minimum
            number, dummies = self._drawn
            if kept and task.shuffler_adds and number != one.number:
                return None  # it was not due, or too small, when `draw` looked; it ends at the next attempt
            state, reports = (State.SEALED, count) if kept else (State.PURGED, None)
            # Once a round: with what is committed here they are in it for good, and every release reads the same rows.
            # Two draws over the same messages would tell which of them are of people.
            dummies = dummies if kept else []
            messages = count * task.mechanism.bundle if kept and task.several else None
            if dummies:
                messages = self._mix(database, one.number, dummies)
            also: dict[str, Any] = {} if messages is None else {"messages": messages}
            if kept:
                also["seal"] = secrets.token_bytes(_SEAL_BYTES)
            self._change(database, one.number, state=state, reports=reports, discarded=not kept, **also)
            self._seal(database, one.number, reports if messages is None else messages)
            if dummies:
                reached("dummies stored")
            if not kept:
                self._erase(database, one.number, b"", BEYOND)
                self._forget(database, one.number, one.number + 1 - task.replay_rounds)
            self._begin(database, one.number + 1, following)
        self._drawn = 0, []
        self._untidy = self._untidy or self.sealing_leaves_traces or not kept or bool(dummies)
        return Round(one.number, state, one.closes, reports, None, not kept, messages=messages, seal=also.get("seal"))

    def _people(self, messages: int, number: int) -> int:
        """Return how many people have sent these messages: bundles are stored whole, or not at all."""
        people, rest = divmod(messages, self.task.mechanism.bundle)
        if rest:
            size = self.task.mechanism.bundle
            raise DamagedError(f"round {number:,} has {messages:,} messages, no whole number of bundles of {size}")
        return people

    def mix(self, number: int, helper: int, dummies: Sequence[Record]) -> None:
        """Add the dummies of a helper to a sealed round, all of them at once; the same ones again change nothing.

        Others than it has of this helper are refused: what two draws have in common would be what people said.

        Parameters
        ----------
        number : int
            Of the round.
        helper : int
            Which one, by the order of its key in the task.
        dummies : sequence of Record
            All of them.
        """
        with self._using(self._transaction()) as database:
            state = self._known_state(database, number)
            if state == State.OPEN:
                raise TryAgainError(f"round {number:,} is open, and takes dummies once it has ended")
            one = next((one for one in self._rounds(database, last=False) if one.number == number), None)
            if one is None or one.discarded:
                raise CollectError(f"round {number:,} is over, and takes no dummies")
            if one.helped >> helper & 1:
                newest = self._rounds(database, last=True)[0].number
                there = self._leading(database, number, (each.digest for each in dummies))
                if there == len(dummies) or not remembered(number, state, newest, self.task.replay_rounds):
                    return
                raise CollectError(
                    f"round {number:,} has other dummies of this helper already, and takes no second draw"
                )
            # Every message is written again with them, so that no place in the files tells that they came last.
            messages = self._mix(database, number, dummies)
            self._change(database, number, helped=one.helped | 1 << helper, messages=messages)
            reached("helper mixed")
        self._untidy = True
        reached("mix committed")

    def publish_list(self, number: int, data: bytes) -> None:
        """Keep the list of prefixes of the open round of a search, once. Reports of the round are then accepted."""
        with self._using(self._transaction()) as database:
            state = self._known_state(database, number)
            one = next((one for one in self._rounds(database, last=False) if one.number == number), None)
            if one is not None and one.prefixes == data:
                return
            if state != State.OPEN or one is None or one.prefixes is not None:
                raise CollectError(f"round {number:,} has a list already, or is over; it takes no other list")
            self._change(database, number, prefixes=data)
            reached("list stored")

    def publish(self, number: int, manifest: bytes, move: Callable[[], None]) -> bool:
        """Make a sealed round ready, once its batch was moved to its final path; return False if it is ready already.

        Parameters
        ----------
        number : int
            Of the round.
        manifest : bytes
            That was signed.
        move : callable
            Moves the batch; if it raises, the round stays sealed.
        """
        with self._using(self._transaction()) as database:
            if self._known_state(database, number) != State.SEALED:
                return False
            move()
            self._change(database, number, state=State.READY, manifest=manifest)
        return True

    def acknowledge(self, number: int) -> None:
        """Note that the analyst has a round that is ready."""
        with self._using(self._transaction()) as database:
            if self._known_state(database, number) == State.READY:
                self._change(database, number, state=State.ACKED)

    def purge(self, number: int) -> None:
        """Delete the reports of an acknowledged round for good, and digests that are older than the replay window.

        When this returns, nothing that can be lost by itself, such as a log, is needed to know that the round is
        purged; if that can't be had now, it raises, and is to be tried again, also when the round is purged already.
        """
        records = next((one.records for one in self.rounds() if one.number == number), 0)
        for low, high in ranges(records // self.erased_at_once):
            with self._using(self._transaction()) as database:
                if self._known_state(database, number) != State.ACKED:
                    break
                self._erase(database, number, low, high)
        with self._using(self._transaction()) as database:
            if self._known_state(database, number) == State.ACKED:
                newest = self._rounds(database, last=True)[0].number
                self._change(database, number, state=State.PURGED)
                self._forget(database, number, newest - self.task.replay_rounds)
        if not self._tidied():
            raise TryAgainError(
                f"round {number:,} is purged, and traces of it are still in the database, as another process reads "
                "there; try again"
            )

    def _tidied(self) -> bool:
        self._untidy = False  # before: what another thread notes in the meantime must not be forgotten
        try:
            with self._using(nullcontext(), damaged=True):
                return self._tidy()
        except BaseException:
            self._untidy = True
            raise

    def _known_state(self, database: Any, number: int) -> State:
        state = self._state(database, number, alone=True)
        if state is None:
            raise CollectError(f"there is no round {number:,}")
        return state

    @contextmanager
    def _using(self, access: AbstractContextManager[Any], *, damaged: bool = False) -> Iterator[Any]:
        """Use the database (a `damaged` one, too) with errors that are shoal's own, and remember damage."""
        if self.trouble is not None and not damaged:
            raise DamagedError(self.trouble)
        try:
            with self._errors(), access as database:
                yield database
        except DamagedError as error:
            self.trouble = self.trouble or (
                f"{error}. Nothing is stored there or released from it any more. Stop the shuffler, check the disk, "
                f"and {self.repair}"
            )
            raise DamagedError(self.trouble) from error

    # What a kind of database adds. `database` is whatever its own transactions yield.

    @abstractmethod
    def _errors(self) -> AbstractContextManager[None]:
        """Turn the errors of the database into `DamagedError`, `StorageError` or kinds of `StoreError`."""

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[Any]:
        """Read and write: all of it is on the disk in the end, or nothing if there was an error."""

    @abstractmethod
    def _view(self) -> AbstractContextManager[Any]:
        """Only read, and keep nobody who writes waiting."""

    @abstractmethod
    def _state(self, database: Any, number: int, *, alone: bool = False) -> State | None:
        """Return the state of a round, or None; if `alone`, nobody else changes it until the transaction is over."""

    @abstractmethod
    def _rounds(self, database: Any, *, last: bool, also: int = 0) -> list[Round]:
        """Return the last round alone, or all in order, but those purged that are more than KEPT_ROUNDS back.

        Round `also` is among all of them, if there is one, no matter how far back it is.
        """

    @abstractmethod
    def _begin(self, database: Any, number: int, closes: float) -> None:
        """Add an open round, with a key for its tokens of 32 random bytes."""

    @abstractmethod
    def _change(self, database: Any, number: int, **fields: Any) -> None:
        """Change fields of a round."""

    def _join(self, database: Any, number: int) -> None:  # noqa: B027  (not all need it)
        """Keep a round from being ended until this transaction is over, where transactions run side by side."""

    @abstractmethod
    def _insert(self, database: Any, number: int, records: Sequence[Record]) -> None:
        """Add reports whose digest no round within the replay window has, and whose tag nobody has in this one.

        Of a bundle all messages are added, each under its own digest, if none of them has been seen; else none is.
        The commit takes as long if all of them are dropped: it must not tell the sender that a report was seen before.
        """

    @abstractmethod
    def _leading(self, database: Any, number: int, digests: Iterable[bytes]) -> int:
        """Return how many of these, from the first on, a round has, or one within the replay window before it."""

    @abstractmethod
    def _counted(self, database: Any, number: int) -> int:
        """Return how many reports a round has, once all who add to it are done."""

    @abstractmethod
    def _seal(self, database: Any, number: int, messages: int | None) -> None:
        """Forget the tags and the key of a round that has ended with this many messages; None if it is discarded."""

    def _mix(self, database: Any, number: int, dummies: Sequence[Record]) -> int:
        """Add dummies to a round that has ended, and return the number of its messages.

        Nothing tells their rows from the others, nor their places in the files. A dummy that the round has already is
        not added: a helper that copies a message of a client must not learn from the answer that it is there. A store
        that keeps tasks of several messages has it.
        """
        raise NotImplementedError

    @abstractmethod
    def _erase(self, database: Any, number: int, low: bytes, high: bytes) -> None:
        """Delete ciphertexts with digests in a range; the digests stay, in no order that says anything."""

    @abstractmethod
    def _forget(self, database: Any, number: int, before: int) -> None:
        """Delete what is left of the ciphertexts of a round, and the digests of purged rounds before another."""

    @abstractmethod
    def bodies(self, number: int) -> Generator[bytes]:
        """Yield the ciphertexts of a sealed round, in no order that says anything, many in one piece."""

    def _check(self) -> None:  # noqa: B027  (not all can)
        """Raise `DamagedError` if the data are damaged; before a round is ended."""

    def _tidy(self) -> bool:
        """Remove what ended rounds have left in files; return whether nothing was left, and a log is not needed."""
        return True

    @abstractmethod
    def shut(self) -> None:
        """Close all connections."""


class _Connection(Protocol):
    def close(self) -> None: ...


_C = TypeVar("_C", bound=_Connection)


class ThreadConnections(Generic[_C]):
    """Connections that are made when a thread first asks for one, and closed all at once, by any thread."""

    def __init__(self, connect: Callable[[], _C]) -> None:
        self._connect = connect
        self._local = threading.local()
        self.all: list[_C] = []

    def get(self) -> _C:
        """Return the connection of this thread."""
        connection: _C | None = getattr(self._local, "connection", None)
        if connection is None:
            self._local.connection = connection = self._connect()
            self.all.append(connection)
        return connection

    def drop(self) -> None:
        """Close the connection of this thread, so that the next one works."""
        connection: _C | None = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self.all.remove(connection)
            self._local.connection = None

    def close(self) -> None:
        """Close all connections."""
        for connection in self.all:
            connection.close()
        self.all.clear()
        self._local = threading.local()
