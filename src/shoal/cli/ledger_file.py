"""The ledger that an option names: it must exist, and its budget says the δ."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

import shoal
from shoal.errors import ParameterError

__all__ = ["LedgerOption", "opened", "usual_delta"]

LedgerOption = Annotated[
    Path | None,
    Parameter(
        help="a ledger of what was released about the same people before: what is left of its budget is the target, "
        "and --epsilon and --delta can be left out."
    ),
]

_DELTA = 1e-6


def opened(path: Path) -> shoal.Ledger:
    """Return the ledger of a file that is there."""
    if not path.exists():
        raise ParameterError(f"{path} does not exist; `shoal ledger record {path} …` starts it")
    return shoal.Ledger(path)


def usual_delta(delta: float | None, ledger: shoal.Ledger | None) -> float:
    """Return the δ that was given, or that of the budget of a ledger, or the usual one."""
    if delta is not None:
        return delta
    limit = None if ledger is None else ledger.limit
    return _DELTA if limit is None else limit.delta
