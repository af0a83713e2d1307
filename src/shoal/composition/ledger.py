"""What was released, in order, and what it has cost; a round beyond the budget is refused before it runs."""

import math
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from html import escape
from typing import Any

from shoal.checks import SMALLEST_DELTA, non_negative, probability, whole
from shoal.composition.compose import compose
from shoal.composition.entry import Entry, Rounds, entry_of, rounds_of
from shoal.composition.filter import filtered
from shoal.composition.journal import FORMAT, VERSION, Journal, Memory, Record
from shoal.composition.loss import LossProfile, Round
from shoal.curve import PrivacyCurve
from shoal.digits import rounded_up
from shoal.errors import BudgetError, NoPairError, ParameterError, RangeError, UnreachableError

__all__ = ["Ledger"]


class Ledger:
    """What was released about the same people, in order, with time and label.

    Every question is answered from the file as it is at that moment, whoever has written to it. A crash leaves the old
    or the new file, and processes can't lose each other's entries (`shoal.composition.journal` says how).

    Parameters
    ----------
    path : a JSON file, created if it does not exist; or nothing, to keep the ledger in memory.

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
    shoal.errors.BudgetError: this would bring epsilon from 0.0512009 to ...
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = path
        self._journal = Memory() if path is None else Journal(path, entry_of)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Everything recorded, the oldest first."""
        return tuple(entry_of(record, f"entries[{position}]") for position, record in enumerate(self._journal.read()))

    def record(self, curve: PrivacyCurve, *, label: str = "", times: Any = 1) -> Entry:
        """Append a release that has happened, within a budget or not, and return its entry."""
        entry = _new_entry(curve, label, times)
        with self._journal.lock():
            self._journal.append(entry.to_dict())
        return entry

    def spent(self, delta: float) -> float:
        """Return the ε of everything composed, rounded up; 0 for an empty ledger.

        It holds if the parameters of the rounds were not chosen in view of what earlier ones released.
        """
        return _epsilon(self._rounds(), probability(delta=delta, zero=True))

    def remaining(self, *, epsilon: float, delta: float) -> float:
        """Return epsilon − spent(delta), rounded down, and never below 0.

        This is not what another round may cost: ε is not additive, and rounds together cost less than their sum.
        Whether a round still fits is what `affords` answers exactly.
        """
        epsilon, spent = non_negative(epsilon=epsilon), self.spent(delta)
        return max(0.0, math.nextafter(epsilon - spent, -math.inf)) if spent else epsilon

    def affords(
        self, curve: PrivacyCurve, *, epsilon: float, delta: float, times: Any = 1, planned: bool = False
    ) -> bool:
        """Tell whether everything, these rounds included, stays within (epsilon, delta); see `budget`.

        In the meantime another process may spend what is left; `budget` asks and takes in one step.
        """
        limit = _Limit(epsilon, delta, planned)
        return limit.reached(self._rounds() + rounds_of(curve, times)) <= limit.epsilon

    @contextmanager
    def budget(
        self,
        curve: PrivacyCurve,
        *,
        epsilon: float,
        delta: float,
        label: str = "",
        times: Any = 1,
        planned: bool = False,
    ) -> Iterator[Entry]:
        """Charge these rounds and run the body of the ``with`` block; or refuse, and neither charge nor run.

        By default the budget holds even if the parameters of a round (n, ε₀, the randomizer) are chosen in view of what
        earlier rounds released: it is kept in Rényi divergences of an order that the budget fixes. So the budget itself
        is the same for all rounds, and settled before the first. Say `planned=True` if all parameters were settled in
        advance; then privacy losses add up, as `spent` has it, and more rounds fit.

        The entry is on the disk before the body begins, and stays if the body raises or the machine dies: reports may
        be out by then, and a ledger may err only towards more. Asking and writing happen under one lock, so that of
        two processes only one gets the last round. The lock is not held while the body runs.

        Raises
        ------
        BudgetError : if the ε of everything, these rounds included, would exceed `epsilon` at this `delta`.
        """
        limit = _Limit(epsilon, delta, planned)
        entry = _new_entry(curve, label, times)
        with self._journal.lock():
            before = self._rounds()
            if not limit.reached(before + entry.rounds) <= limit.epsilon:
                raise BudgetError(limit.refusal(before, rounds_of(curve, 1), whole(times=times)))
            self._journal.append(entry.to_dict())
        yield entry

    def _rounds(self) -> Rounds:
        return tuple(part for entry in self for part in entry.rounds)

    def to_dict(self) -> Record:
        """Return what the file has, as plain values."""
        return {"format": FORMAT, "version": VERSION, "entries": [entry.to_dict() for entry in self]}

    def __iter__(self) -> Iterator[Entry]:
        """Go through the entries, the oldest first."""
        return iter(self.entries)

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._journal.read())

    def __repr__(self) -> str:
        """Show what has been spent at δ = 1e-6."""
        where = "" if self.path is None else f"{os.fspath(self.path)!r}, "
        return f"Ledger({where}entries={len(self)}, ε={rounded_up(_reached(self._rounds(), 1e-6))} at δ=1e-06)"

    def _repr_html_(self) -> str:
        told = ((f"{entry.time:%Y-%m-%d %H:%M}", escape(entry.label), entry.description) for entry in self)
        rows = "".join(f"<tr><td>{'</td><td>'.join(cells)}</td></tr>" for cells in told)
        head = "<tr><th>time (UTC)</th><th>label</th><th>rounds</th></tr>"
        return f"<table><caption>{escape(repr(self))}</caption>{head}{rows}</table>"


class _Limit:
    """A budget, and how what is spent of it is measured."""

    def __init__(self, epsilon: float, delta: float, planned: bool) -> None:
        self.epsilon, self.delta = non_negative(epsilon=epsilon), probability(delta=delta, zero=True)
        self.planned = planned or self.delta < SMALLEST_DELTA  # pure DP adds up however it is chosen

    def reached(self, rounds: Rounds) -> float:
        """Return what the rounds cost; infinite where nothing is proven at this δ."""
        if self.planned or not rounds:
            return _reached(rounds, self.delta)
        parts = tuple(Round(curve.profile, curve.local_epsilon, times) for curve, times in _merged(rounds))
        try:
            return filtered(parts, epsilon=self.epsilon, delta=self.delta)
        except NoPairError:
            total = LossProfile(parts).ceiling if not any(curve.local_delta for curve, _ in rounds) else math.inf
            if total <= self.epsilon:
                return total
            raise NoPairError(
                "a budget for rounds chosen as you go is kept in Rényi divergences, which one of these rounds does not "
                'have; use a numerical bound such as "strong-clones", or planned=True if all was settled in advance'
            ) from None

    def refusal(self, before: Rounds, one: Rounds, times: int) -> str:
        """Say what these rounds would cost, and how many would not cost too much."""

        def reached(count: int) -> float:
            return self.reached(before + tuple((curve, count * each) for curve, each in one if count))

        fits, too_many = 0, times
        while too_many - fits > 1:
            middle = (fits + too_many) // 2
            fits, too_many = (middle, too_many) if reached(middle) <= self.epsilon else (fits, middle)
        return (
            f"this would bring epsilon from {rounded_up(reached(0))} to {rounded_up(reached(times))} at "
            f"delta={self.delta:g}, over the budget of {self.epsilon!r}; such rounds that still fit: {fits}. Nothing "
            "was recorded. Use more reports or a smaller local_epsilon, or end here"
        )


def _merged(rounds: Rounds) -> Rounds:
    """Put equal rounds together, so that a thousand equal days cost one."""
    merged: Counter[PrivacyCurve] = Counter()
    for curve, times in rounds:
        merged[curve] += times
    return tuple(merged.items())


def _epsilon(rounds: Rounds, delta: float) -> float:
    """Return ε of all rounds."""
    if not rounds:
        return 0.0
    try:
        return float(compose(_merged(rounds)).epsilon(delta))
    except NoPairError:  # a closed form among them: looser, and as true
        return float(compose(_merged(rounds), method="advanced").epsilon(delta))


def _reached(rounds: Rounds, delta: float) -> float:
    """Return ε of all rounds, infinite where no ε is proven at this δ."""
    try:
        return _epsilon(rounds, delta)
    except (RangeError, UnreachableError):
        return math.inf


def _new_entry(curve: PrivacyCurve, label: str, times: Any) -> Entry:
    if not isinstance(label, str) or not label.isprintable():
        raise ParameterError(f"label must be a line of text, got {label!r}")
    return Entry(datetime.now(UTC).replace(microsecond=0), label, rounds_of(curve, times))
