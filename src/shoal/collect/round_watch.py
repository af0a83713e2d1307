"""Log lines for the life of each round, and the rounds that have waited for longer than a round lasts."""

import logging
from collections.abc import Sequence

from shoal.collect.log import Log
from shoal.collect.round_state import Round, State
from shoal.collect.task import Task

__all__ = ["RoundWatch", "overdue"]


class RoundWatch:
    """Logs each change of state of the rounds of a task, and keeps the list of overdue rounds.

    Parameters
    ----------
    task : Task
        The task.
    log : Log
        The log that is written.
    """

    def __init__(self, task: Task, log: Log) -> None:
        self._task = task
        self._log = log
        self._seen: dict[int, Round] | None = None
        self.overdue: dict[int, str] = {}

    def look(self, rounds: Sequence[Round], now: float) -> None:
        """Log what has changed since the last look, and once a minute each round that is overdue at `now`.

        Parameters
        ----------
        rounds : sequence of Round
            All rounds that the store lists, the open one last.
        now : float
            The time in seconds since 1970.
        """
        if self._seen is not None:
            for one in rounds:
                self._tell_change(self._seen.get(one.number), one)
        self._seen = {one.number: one for one in rounds}
        waiting = {one.number: overdue(self._task, one, now) for one in rounds}
        self.overdue = {number: reason for number, reason in waiting.items() if reason is not None}
        for number, reason in self.overdue.items():
            self._log.tell(logging.WARNING, "round-waiting", round=number, **{"for": reason})

    def _tell_change(self, before: Round | None, now: Round) -> None:
        """Log the change of a round between two looks. The count of an open round is never known here."""
        if now.state == State.OPEN:
            if before is not None and now.closes > before.closes:
                self._log.tell(logging.INFO, "round-extended", round=now.number)
        elif before is None or before.state != now.state:
            event = "discarded" if now.discarded else now.state
            facts = {"reports": now.reports, "messages": now.messages} if now.state == State.SEALED else {}
            self._log.tell(logging.INFO, f"round-{event}", round=now.number, **facts)


def overdue(task: Task, one: Round, now: float) -> str | None:
    """Return what a round waits for if it ended more than a round's length ago: helpers, release or analyst.

    Parameters
    ----------
    task : Task
        The task, whose `round_seconds` is the time that a round may wait.
    one : Round
        The round.
    now : float
        The time in seconds since 1970.
    """
    if one.state not in (State.SEALED, State.READY) or now <= one.closes + task.round_seconds:
        return None
    if one.state == State.READY:
        return "analyst"
    return "helpers" if task.helpers_missing(one.helped) else "release"
