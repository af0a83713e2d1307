"""The ledger that an option names: it must exist, and its budget says the δ."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

import shoal
from shoal.errors import ParameterError

__all__ = ["LedgerOption", "opened"]

LedgerOption = Annotated[
    Path | None,
    Parameter(
        help="a ledger of what was released about the same people before: what is left of its budget is the target, "
        "and --epsilon and --delta can be left out."
    ),
]


def opened(path: Path) -> shoal.Ledger:
    """Return the ledger of a file that is there."""
    if not path.exists():
        raise ParameterError(f"{path} does not exist; `shoal ledger record {path} …` starts it")
    return shoal.Ledger(path)
