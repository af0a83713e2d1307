"""The command line: `shoal amplify`, `calibrate`, `compare`, `compose`, `explain`, `figures`, `ledger`.

Exit status: 0 fine; 1 a target that can't be met; 2 bad usage, with one line that says what to do.
"""

import io
import os
import sys
from collections.abc import Sequence

from shoal.errors import BudgetError, ShoalError, UnreachableError

__all__ = ["main"]

_VERBS = (
    "aggregate",
    "amplify",
    "audit",
    "calibrate",
    "compare",
    "compose",
    "estimate",
    "explain",
    "figures",
    "ledger",
    "plan",
    "randomize",
    "sgd",
    "shuffle",
    "simulate",
    "train",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    try:
        from cyclopts import CycloptsError, MissingArgumentError

        from shoal.cli import audit, pictures, plan, reports, rounds, train  # noqa: F401  (they add their verbs)
        from shoal.cli.app import app
    except ImportError:
        return _say('the command line needs cyclopts and rich: pip install "shoal[cli]"')
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without Greek letters shows question marks
    try:
        status = app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
        if sys.stdout is not None:
            sys.stdout.flush()
    except CycloptsError as error:
        verb = f" {tokens[0]}" if tokens and tokens[0] in _VERBS else ""
        if isinstance(error, MissingArgumentError) and error.argument is not None:
            return _say(f"shoal{verb} needs {error.argument.name} with a value. Try: shoal{verb} --help")
        said = " ".join(str(error).split("Available commands")[0].split()).rstrip(".")
        return _say(f"{said}{'' if said.endswith('?') else '.'} Try: shoal{verb} --help")
    except (BudgetError, UnreachableError) as error:
        return _say(str(error), status=1)
    except (ShoalError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            # Whoever read us has gone: nothing is wrong, and nothing may be written any more.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        return _say(str(error))
    except KeyboardInterrupt:
        return _say("interrupted", status=130)
    return status if isinstance(status, int) else 0


def _say(message: str, status: int = 2) -> int:
    sys.stderr.write(f"shoal: {message}\n")
    return status
