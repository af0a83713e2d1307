"""The kinds of parameters that questions have, each with how it is read from a text."""

from datetime import date
from typing import Annotated

from shoal.composition.ledger import Ledger
from shoal.errors import ParameterError
from shoal.numerals import count_in, number_in
from shoal.questions.named_text import NamedText

__all__ = [
    "USUAL_DELTA",
    "Count",
    "Day",
    "Flag",
    "LedgerText",
    "Number",
    "Text",
    "day_in",
    "flag_in",
    "ledger_in",
    "text_in",
    "usual_delta",
]

USUAL_DELTA = 1e-6


def day_in(text: str, name: str) -> date:
    """Return the day in a text.

    Parameters
    ----------
    text : str
        What was typed.
    name : str
        What it is for, as an error calls it.

    Examples
    --------
    >>> day_in("2026-01-31", "start")
    datetime.date(2026, 1, 31)
    """
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ParameterError(f"{name} must be a day such as 2026-01-31, got {text!r}", parameter=name) from None


def flag_in(text: str, name: str) -> bool:
    """Return whether a text says yes: true or 1; no is false or 0.

    Parameters
    ----------
    text : str
        What was typed.
    name : str
        What it is for, as an error calls it.

    Examples
    --------
    >>> flag_in("true", "certify"), flag_in("0", "certify")
    (True, False)
    """
    values = {"true": True, "1": True, "false": False, "0": False}
    if text.casefold() not in values:
        raise ParameterError(f"{name} must be true or false, got {text!r}", parameter=name)
    return values[text.casefold()]


def text_in(text: str, name: str) -> NamedText:
    """Return a text as it is.

    Parameters
    ----------
    text : str
        All of it.
    name : str
        What to call it.
    """
    return NamedText(text, name)


def ledger_in(text: str, name: str) -> Ledger:
    """Return the ledger in a text, kept in memory.

    Parameters
    ----------
    text : str
        The JSON of a ledger.
    name : str
        What to call it.
    """
    return Ledger.from_json(text, name=name)


Number = Annotated[float, number_in]
Count = Annotated[float, count_in]
Flag = Annotated[bool, flag_in]
Day = Annotated[date, day_in]
Text = Annotated[NamedText, text_in]
"""A text of many lines, which is handed over as a whole."""
LedgerText = Annotated[Ledger, ledger_in]
"""A ledger, whose text is handed over as a whole."""


def usual_delta(delta: float | None, ledger: Ledger | None) -> float:
    """Return the δ that was given, or that of the budget of a ledger, or the usual one."""
    if delta is not None:
        return delta
    limit = None if ledger is None else ledger.limit
    return USUAL_DELTA if limit is None else limit.delta
