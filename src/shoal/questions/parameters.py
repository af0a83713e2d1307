"""The kinds of parameters that questions have, each with how it is read from a text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Annotated, Any

from shoal.amplification.amplify import proven_bounds
from shoal.composition.composition_method import METHODS
from shoal.composition.ledger import Ledger
from shoal.digits import count_in, number_in
from shoal.errors import ParameterError

USUAL_DELTA = 1e-6


@dataclass(frozen=True)
class Kind:
    """A kind of parameter, which stands in its annotation.

    Attributes
    ----------
    name : str
        number, count, flag, day or word; or text, for a file that is handed over.
    read : callable
        Returns the value that a text has; its arguments are the text and the name of the parameter.
    choices : callable, optional
        Returns the words that a word may be, where there is a list of them.
    """

    name: str
    read: Callable[[str, str], Any]
    choices: Callable[[], Sequence[str]] | None = None


class NamedText:
    """A text that somebody handed over, a table or a certificate, and what to call it in an error."""

    def __init__(self, text: str | Callable[[], str], name: str = "the text") -> None:
        self._given, self.name = text, name

    @cached_property
    def text(self) -> str:
        """All of it."""
        return self._given if isinstance(self._given, str) else self._given()


def day_in(text: str, name: str) -> date:
    """Return the day in a text.

    Examples
    --------
    >>> day_in("2026-01-31", "start")
    datetime.date(2026, 1, 31)
    """
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ParameterError(f"{name} must be a day such as 2026-01-31, got {text!r}", name) from None


def flag_in(text: str, name: str) -> bool:
    """Return whether a text says yes: true or 1; no is false or 0.

    Examples
    --------
    >>> flag_in("true", "certify"), flag_in("0", "certify")
    (True, False)
    """
    values = {"true": True, "1": True, "false": False, "0": False}
    if text.casefold() not in values:
        raise ParameterError(f"{name} must be true or false, got {text!r}", name)
    return values[text.casefold()]


def text_in(text: str, name: str) -> NamedText:
    """Return a text as it is."""
    return NamedText(text, name)


def ledger_in(text: str, name: str) -> Ledger:
    """Return the ledger in a text, kept in memory."""
    return Ledger.from_json(text, name=name)


def word(*words: str) -> Kind:
    """Return the kind of a parameter that is one of these words."""
    return Kind("word", _as_typed, lambda: words)


def _as_typed(text: str, _: str) -> str:
    return text


Number = Annotated[float, Kind("number", number_in)]
Count = Annotated[float, Kind("count", count_in)]
Flag = Annotated[bool, Kind("flag", flag_in)]
Day = Annotated[date, Kind("day", day_in)]
BoundName = Annotated[str, Kind("word", _as_typed, proven_bounds)]
MethodName = Annotated[str, Kind("word", _as_typed, lambda: tuple(METHODS))]
Text = Annotated[NamedText, Kind("text", text_in)]
"""A text of many lines, which is handed over as a whole."""
LedgerText = Annotated[Ledger, Kind("text", ledger_in)]
"""A ledger, whose text is handed over as a whole."""


def usual_delta(delta: float | None, ledger: Ledger | None) -> float:
    """Return the δ that was given, or that of the budget of a ledger, or the usual one."""
    if delta is not None:
        return delta
    limit = None if ledger is None else ledger.limit
    return USUAL_DELTA if limit is None else limit.delta
