"""What was released, in order, and what it has cost; a round beyond the budget is refused before it runs."""

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from shoal.checks import Number, non_negative, probability, whole
from shoal.composition.budget import Budget, budget_of, composed, epsilon_of
from shoal.composition.entry import Entry, Rounds, entry_of, rounds_of
from shoal.composition.journal import FORMAT, VERSION, Journal, Memory, Record
from shoal.curve import PrivacyCurve
from shoal.digits import rounded_up
from shoal.errors import BudgetError, NoPairError, ParameterError
from shoal.shown import Shown

if TYPE_CHECKING:
    from shoal.proofs.certificate import Certificate

"""How many points of the picture are computed."""


class Ledger(Shown):
    """What was released about the same people, in order, with time and label.

    Every question is answered from the file as it is at that moment, whoever has written to it. A crash leaves the old
    or the new file, and processes can't lose each other's entries (`shoal.composition.journal` says how).

    Parameters
    ----------
    path : str or PathLike, optional
        A JSON file, which the first entry creates if it does not exist; or nothing, to keep the ledger in memory.

    Examples
    --------
    >>> import shoal
    >>> curve = shoal.amplify(local_epsilon=1, reports=10_000)
    >>> ledger = Ledger()
    >>> with ledger.budget(curve, epsilon=0.06, delta=1e-6, label="monday"):
    ...     pass  # collect the reports
    >>> len(ledger), ledger.affords(curve, epsilon=0.06, delta=1e-6)
    (1, False)
    >>> with ledger.budget(curve, epsilon=0.06, delta=1e-6, label="tuesday"):
    ...     print("never reached")
    Traceback (most recent call last):
        ...
    shoal.errors.BudgetError: this would bring epsilon from 0.0505989 to ...
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = path
        self._journal: Memory | Journal = Memory() if path is None else Journal(path, entry_of, budget_of)

    @classmethod
    def from_json(cls, text: str, *, name: str = "the text") -> "Ledger":
        """Return the ledger whose file has this text, in memory: nothing is written to the file.

        Parameters
        ----------
        text : str
            The JSON.
        name : str
            What errors call it.

        Raises
        ------
        LedgerDamagedError
            If it is no ledger.
        """
        ledger = cls()
        ledger._journal = Memory.of(text.encode("utf-8", errors="replace"), name, entry_of, budget_of)
        return ledger

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Everything recorded, the oldest first."""
        return tuple(entry_of(record, f"entries[{position}]") for position, record in enumerate(self._journal.read()))

    @property
    def limit(self) -> Budget | None:
        """The budget that was stored with the first round that `budget` let through; nothing before."""
        return budget_of(self._journal.read_budget(), "budget")

    def record(self, curve: PrivacyCurve, *, label: str = "", rounds: Number = 1) -> Entry:
        """Append a release that has happened, within a budget or not, and return its entry."""
        entry = _new_entry(curve, label, rounds)
        with self._journal.lock():
            self._journal.append(entry.to_dict())
        return entry

    def spent(self, delta: float) -> float:
        """Return the ε of everything composed, rounded up; 0 for an empty ledger.

        It holds if the parameters of the rounds were not chosen in view of what earlier ones released.
        """
        return epsilon_of(self._rounds(), probability(delta=delta, zero=True))

    @property
    def counted(self) -> float | None:
        """What everything counts against the stored budget; nothing without one, or where a round has no such number.

        For rounds that may be chosen adaptively this is more than they cost, which `spent` says.
        """
        limit = self.limit
        try:
            reached = math.inf if limit is None else limit.reached(self._rounds())
        except NoPairError:
            return None
        return reached if math.isfinite(reached) else None

    def certify(self, *, delta: float) -> "Certificate":
        """Return a proof in ball arithmetic of `spent(delta)`, or of at most a thousandth of it more.

        Raises
        ------
        NoPairError
            If one of the rounds has no such proof, with the reason; or if there are none.
        """
        rounds = self._rounds()
        if not rounds:
            raise NoPairError("an empty ledger has cost nothing, and there is nothing to prove")
        return composed(rounds).certify(delta=delta)

    def remaining(self, *, epsilon: float, delta: float) -> float:
        """Return epsilon − spent(delta), rounded down, and never below 0.

        This is not what another round may cost: ε is not additive, and rounds together cost less than their sum.
        Whether a round still fits is what `affords` answers exactly.
        """
        epsilon = non_negative(epsilon=epsilon)
        spent = self.spent(delta)
        return max(0.0, math.nextafter(epsilon - spent, -math.inf)) if spent else epsilon

    def affords(
        self, curve: PrivacyCurve, *, epsilon: float, delta: float, rounds: Number = 1, planned: bool = False
    ) -> bool:
        """Tell whether everything, these rounds included, stays within (epsilon, delta); see `budget`.

        In the meantime another process may spend what is left; `budget` asks and takes in one step. Another budget than
        the one stored is refused, too.
        """
        limit = self._settled(Budget(epsilon, delta, planned))
        return limit.reached(self._rounds() + rounds_of(curve, rounds)) <= limit.epsilon

    @contextmanager
    def budget(
        self,
        curve: PrivacyCurve,
        *,
        epsilon: float,
        delta: float,
        label: str = "",
        rounds: Number = 1,
        planned: bool = False,
    ) -> Iterator[Entry]:
        """Charge these rounds and run the body of the ``with`` block; or refuse, and neither charge nor run.

        By default the budget holds even if the parameters of a round (n, ε₀, the randomizer) are chosen in view of what
        earlier rounds released: it is kept in Rényi divergences of an order that the budget fixes. So the budget itself
        is the same for all rounds: it is stored in the ledger with the first one, and another one is refused. What was
        recorded before counts as well, which is right if the budget was chosen without a look at what that released.
        Say `planned=True` if all parameters were settled in advance; then privacy losses add up, as `spent` has it, and
        more rounds fit. That too is stored.

        The entry is on the disk before the body begins, and stays if the body raises or the machine dies: reports may
        be out by then, and a ledger may err only towards more. Asking and writing happen under one lock, so that of
        two processes only one gets the last round. The lock is not held while the body runs.

        Raises
        ------
        BudgetError
            If the ε of everything, these rounds included, would exceed `epsilon` at this `delta`; or if the ledger has
            another budget.
        """
        asked = Budget(epsilon, delta, planned)
        entry = _new_entry(curve, label, rounds)
        with self._journal.lock():
            before = self._rounds()
            limit = self._settled(asked)
            if not limit.reached(before + entry.rounds) <= limit.epsilon:
                raise BudgetError(limit.refusal(before, rounds_of(curve, 1), whole(rounds=rounds)))
            self._journal.append(entry.to_dict(), limit.to_dict())
        yield entry

    def _settled(self, asked: Budget) -> Budget:
        """Return the budget that is asked for, unless the ledger has another one."""
        stored = self.limit
        if stored not in (None, asked):
            raise BudgetError(
                f"this ledger has the budget of {stored}, stored with its first round; asked for was {asked}. It "
                "must be the same for all rounds, fixed before the first. Nothing was recorded. Give the stored one, "
                "or plan for what is left of it with plan(ledger=…), --ledger on the command line; a new ledger may "
                "have another, but knows nothing of what was released before"
            )
        return asked

    def _rounds(self) -> Rounds:
        return tuple(part for entry in self for part in entry.rounds)

    def to_dict(self) -> Record:
        """Return what the file has, as plain values."""
        limit = self.limit
        stored = None if limit is None else limit.to_dict()
        entries = [entry.to_dict() for entry in self]
        return {"format": FORMAT, "version": VERSION, "budget": stored, "entries": entries}

    def __iter__(self) -> Iterator[Entry]:
        """Go through the entries, the oldest first."""
        return iter(self.entries)

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._journal.read())

    def __repr__(self) -> str:
        """Show what has been spent at δ = 1e-6."""
        where = "" if self.path is None else f"{os.fspath(self.path)!r}, "
        spent = Budget(0.0, 1e-6, planned=True).reached(self._rounds())
        return f"Ledger({where}entries={len(self)}, ε={rounded_up(spent)} at δ=1e-06)"

    def _columns(self) -> dict[str, list[Any]]:
        entries = self.entries
        return {
            "time": [entry.time for entry in entries],
            "label": [entry.label for entry in entries],
            "rounds": [entry.count for entry in entries],
            "description": [entry.description for entry in entries],
        }

    def _cells(self) -> dict[str, list[str]]:
        entries = self.entries[::-1]
        return {
            "time (UTC), the latest first": [f"{entry.time:%Y-%m-%d %H:%M}" for entry in entries],
            "label": [entry.label for entry in entries],
            "rounds": [entry.description for entry in entries],
        }

    def _reached(self, counts: list[int]) -> list[float]:
        """Return the ε after each of these numbers of entries, at the δ of the budget, or at 1e-6."""
        entries = self.entries
        budget = self.limit or Budget(0.0, 1e-6, planned=True)
        rounds = [tuple(part for entry in entries[:count] for part in entry.rounds) for count in counts]
        return [budget.reached(some) if some else 0.0 for some in rounds]


def _new_entry(curve: PrivacyCurve, label: str, rounds: Number) -> Entry:
    if not isinstance(label, str) or not label.isprintable():
        raise ParameterError(f"label must be a line of text, got {label!r}", "label")
    return Entry(datetime.now(UTC).replace(microsecond=0), label, rounds_of(curve, rounds))
