"""The shuffler's log: a line an event, with time, level, what and errno; nothing about people, nor when they came."""

import errno
import json
import logging
import re
import time
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from shoal.collect.round_state import Round, State
from shoal.collect.task import Task
from shoal.errors import ShoalError

LOGGER = logging.getLogger("shoal.shuffler")
_WINDOW = 60.0
_NOTABLE = 10
"""Of what requests bring about, fewer than this many of a kind leave no line."""
_KINDS = 32
"""This many kinds of events have a line a minute; what is beyond shares one."""
_PLAIN = re.compile(r"[\w.:/+-]+")
_OURS = re.compile(r"(\.?round-\d+\.[\w.]+|[a-z]+\.db(-wal|-shm|-journal)?)")
"""Names of files that we make. Others are not repeated: an error may carry anything there."""

_Kind = tuple[int, str, tuple[tuple[str, str], ...]]


class Log:
    """Events on their way into the log, of which nobody can make more than a few lines a minute.

    What the shuffler does by itself is written at once, and the same once a minute. What a request brings about is only
    counted, and written when `flush` is called, at the turn of a minute: whatever stamps lines when they are written
    (a journal, a container) would otherwise keep when somebody came.
    """

    def __init__(self) -> None:
        self._told: dict[_Kind, float] = {}
        self._waiting: dict[_Kind, int] = {}
        self._least: dict[_Kind, int] = {}

    def tell(self, level: int, event: str, **facts: object) -> None:
        """Write a line now, or count it if the same was written less than a minute ago."""
        kind, now = _kind(level, event, facts), time.monotonic()
        if now - self._told.get(kind, -_WINDOW) >= _WINDOW:
            self._told[kind] = now
            _write(kind, {})
        else:
            self._count(kind, 1)

    def count(self, level: int, event: str, **facts: object) -> None:
        """Count what a request has brought about, for a line at the turn of a minute once there are ten of a kind."""
        self._count(_kind(level, event, facts), _NOTABLE)

    def _count(self, kind: _Kind, least: int) -> None:
        if kind not in self._waiting and len(self._waiting) >= _KINDS:
            kind, least = _kind(logging.WARNING, "other-events", {}), _NOTABLE
        self._waiting[kind] = self._waiting.get(kind, 0) + 1
        self._least[kind] = least

    def flush(self) -> None:
        """Write what was counted; what is too rare is kept for a later line, so that no line is about one request."""
        for kind, count in list(self._waiting.items()):
            if count >= self._least[kind]:
                _write(kind, {"times": _about(count)})
                del self._waiting[kind], self._least[kind]
        now = time.monotonic()
        self._told = {kind: when for kind, when in self._told.items() if now - when < _WINDOW}


def _kind(level: int, event: str, facts: dict[str, object]) -> _Kind:
    return level, event, tuple((name, str(value)) for name, value in facts.items() if value is not None)


def _about(count: int) -> str:
    """Return a count so coarsely that it does not say how many reports have come: 4711 as '1000+'."""
    return f"{10 ** (len(str(count)) - 1)}+"


def _write(kind: _Kind, more: dict[str, str]) -> None:
    level, event, facts = kind
    LOGGER.log(
        level, "%s", " ".join(f"{name}={_word(text)}" for name, text in [("event", event), *facts, *more.items()])
    )


def _word(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def facts_of(error: BaseException) -> dict[str, Any]:
    """Return what happened and where in our code, but no value that may have come from somebody."""
    number = getattr(error, "errno", None)
    name = getattr(error, "filename", None)
    file = PurePath(name).name if isinstance(name, str | PurePath) else ""
    # What we say is about files, disks and connections; words of other errors may quote what was sent.
    plain = isinstance(error, ShoalError)
    return {
        "error": type(error).__name__,
        "errno": errno.errorcode.get(number) if isinstance(number, int) else None,
        "code": getattr(error, "code", None) if plain else None,
        "file": file if _OURS.fullmatch(file) else None,
        "where": _location(error),
        "detail": str(error) if plain else None,
    }


def _location(error: BaseException) -> str | None:
    """Return the innermost line of shoal's own code that an exception went through."""
    location, step = None, error.__traceback__
    while step is not None:
        if step.tb_frame.f_globals.get("__name__", "").startswith("shoal.") or location is None:
            location = f"{PurePath(step.tb_frame.f_code.co_filename).name}:{step.tb_lineno}"
        step = step.tb_next
    return location


class _Formatter(logging.Formatter):
    """`time=2026-11-16T08:31:00Z level=error event=settle error=OSError errno=ENOSPC …`: logfmt."""

    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        return f"time={stamp} level={record.levelname.lower()} {record.getMessage()}"


class _Foreign(logging.Handler):
    """Turns what a library logs into a counted event without its words, which may be about a request."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is None or isinstance(error, Exception):  # not what is merely cancelled at the end
            facts = {} if error is None else facts_of(error)
            self._log.count(record.levelno, "library", name=record.name, **facts)


def handler(log: Log) -> dict[str, logging.Handler]:
    """Return who handles which logger in a process that serves: ours as lines on standard error, others as counts."""
    lines = logging.StreamHandler()
    lines.setFormatter(_Formatter())
    foreign = _Foreign(log)
    return {LOGGER.name: lines, "uvicorn": foreign, "uvicorn.error": foreign, "asyncio": foreign}


class RoundWatch:
    """Logs each change of state of the rounds of a task, and keeps the list of overdue rounds."""

    def __init__(self, task: Task, log: Log) -> None:
        self._task = task
        self._log = log
        self._seen: dict[int, Round] | None = None
        self.overdue: dict[int, str] = {}

    def look(self, rounds: Sequence[Round], now: float) -> None:
        """Log what has changed since the last look, and once a minute each round that is overdue at `now`.

        `rounds` are all that the store lists, the open one last; `now` is in seconds since 1970.
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
    """Return what a round that ended more than its length before `now` waits for: helpers, release or analyst."""
    if one.state not in (State.SEALED, State.READY) or now <= one.closes + task.round_seconds:
        return None
    if one.state == State.READY:
        return "analyst"
    return "helpers" if task.helpers_missing(one.helped) else "release"
