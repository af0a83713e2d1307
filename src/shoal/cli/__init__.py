"""The command line, `shoal`: one verb a question, or a step on the way from people to an estimate.

Exit status: 0 fine; 1 a target that can't be met, a budget that is spent, a result that may not be published or a check
that failed; 2 bad usage or trouble on the way, with one line that says what to do; 3 nothing is wrong, but the network
is down or a round is not due: try again later; 130 interrupted. The line is text, on standard error, with `--json` too.
"""

import errno
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from shoal.cli.spelling import spell_out
from shoal.errors import BudgetError, ShoalError, TryAgainError, UnreachableError, WithheldError

if TYPE_CHECKING:
    from cyclopts import App

__all__ = ["loaded", "main"]

_GROUPS = {
    "Guarantees": ("amplify", "calibrate", "compare", "explain", "compose", "ledger"),
    "Histograms from files": ("plan", "randomize", "shuffle", "aggregate", "estimate", "simulate"),
    "Collection (start with `shoal collect demo`)": ("collect", "keygen", "task", "shuffler", "report", "analyst"),
    "Training": ("sgd", "train"),
    "Other": ("audit", "doctor", "figures"),
}
_BELOW = {
    "analyst": ("count", "estimate", "pull"),
    "collect": ("demo",),
    "keygen": ("analyst", "shuffler"),
    "ledger": ("record", "show"),
    "shuffler": ("purge", "salvage", "seal", "serve", "status"),
    "task": ("new", "show", "verify"),
}


def loaded() -> "App":
    """Return the app with all of its verbs."""
    from cyclopts import Group

    from shoal.cli import (  # noqa: F401  (they add their verbs)
        analyst,
        audit,
        client,
        collect,
        doctor,
        pictures,
        plan,
        reports,
        rounds,
        salvage,
        shuffler,
        tasks,
        train,
    )
    from shoal.cli.app import app

    for place, (title, verbs) in enumerate(_GROUPS.items()):
        group = Group(title, sort_key=place)
        for verb in (*verbs, "--help", "--install-completion", "--version"):  # these end up in the last one
            app[verb].group = group
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    try:
        from cyclopts import CoercionError, CycloptsError, MissingArgumentError

        app = loaded()
    except ImportError:
        return _say('the command line needs cyclopts and rich: pip install "shoal-dp[cli]"')
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    spell_out(sys.stdout)
    spell_out(sys.stderr)
    try:
        status = app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
        if sys.stdout is not None:
            sys.stdout.flush()
    except CycloptsError as error:
        verb = _verb(tokens)
        if isinstance(error, MissingArgumentError) and error.argument is not None:
            name = error.argument.name
            needed = f"{name} with a value" if error.argument.index is None else name.lstrip("-").upper()
            return _say(f"shoal{verb} needs {needed}. Try: shoal{verb} --help")
        if isinstance(error, CoercionError) and isinstance(error.__cause__, ShoalError):
            return _say(str(error.__cause__))
        said = " ".join(str(error).split("Available commands")[0].split()).rstrip(".")
        return _say(f"{said}{'' if said.endswith('?') else '.'} Try: shoal{verb} --help")
    except (BudgetError, UnreachableError, WithheldError) as error:
        return _say(str(error), status=1)
    except TryAgainError as error:
        return _say(str(error), status=3)
    except (ShoalError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            # Whoever read us has gone: nothing is wrong, and nothing may be written any more.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        unnamed = not isinstance(error, ShoalError) and error.filename is None  # so it was standard output
        if unnamed and isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return _say(f"cannot print the result: {error.strerror}; free some space, or send it elsewhere")
        return _say(str(error))
    except KeyboardInterrupt:
        return _say("interrupted", status=130)
    return status if isinstance(status, int) else 0


def _verb(tokens: Sequence[str]) -> str:
    """Return the verb, and the one below it if it has some, with a blank before each."""
    words = list(tokens[:2]) if tokens and tokens[0] in _BELOW else list(tokens[:1])
    if len(words) == 2 and words[1] not in _BELOW[words[0]]:
        words.pop()
    return "".join(f" {word}" for word in words if any(words[0] in verbs for verbs in _GROUPS.values()))


def _say(message: str, status: int = 2) -> int:
    sys.stderr.write(f"shoal: {' '.join(message.split())}\n")
    return status
