"""The command line, `shoal`: one verb a question, or a step on the way from people to an estimate.

Exit status: 0 fine; 1 a target that can't be met, a budget that is spent, a result that may not be published or a check
that failed; 2 bad usage or trouble on the way, with one line that says what to do; 3 nothing is wrong, but the network
is down or a round is not due: try again later; 130 interrupted. The line is text, on standard error, with `--json` too.
"""

import errno
import os
import sys
from collections.abc import Sequence
from typing import Any

from shoal.cli.option_names import options_of, unknown_option, with_options
from shoal.cli.spelling import spell_out
from shoal.errors import BudgetError, ShoalError, TryAgainError, UnreachableError, WithheldError

__all__ = ["main"]

_NO_VERB: tuple[list[str], ...] = ([], ["--help"], ["-h"], ["--version"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    try:
        return _answered(list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:  # also while libraries are loaded
        return _say("interrupted", status=130)


def _answered(tokens: list[str]) -> int:
    if tokens[:1] == ["help"]:
        tokens = [*tokens[1:], "--help"]
    try:
        from cyclopts import CoercionError, CycloptsError, MissingArgumentError, UnusedCliTokensError

        if tokens in _NO_VERB:
            from shoal.cli.overview import overview

            app = overview()
        else:
            from shoal.cli.app import loaded

            app = loaded(tokens[0])
    except ImportError:
        return _say('the command line needs cyclopts and rich: pip install "shoal-dp[cli]"')
    spell_out(sys.stdout)
    spell_out(sys.stderr)
    try:
        status = app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
        if sys.stdout is not None:
            sys.stdout.flush()
    except CycloptsError as error:
        verb = _verb(app, tokens)
        if isinstance(error, MissingArgumentError) and error.argument is not None:
            if strange := unknown_option(options_of(app, tokens), tokens):
                return _say(f"{strange} Try: shoal{verb} --help")
            name = error.argument.name
            needed = f"{name} with a value" if error.argument.index is None else name.lstrip("-").upper()
            return _say(f"shoal{verb} needs {needed}. Try: shoal{verb} --help")
        if isinstance(error, CoercionError) and isinstance(error.__cause__, ShoalError):
            return _say(with_options(error.__cause__, options_of(app, tokens)))
        if isinstance(error, UnusedCliTokensError):
            return _say(f"shoal{verb} takes no {' '.join(error.unused_tokens or ())}. Try: shoal{verb} --help")
        said = " ".join(str(error).split("Available commands")[0].split()).rstrip(".")
        if isinstance(error, CoercionError) and "date" in str(error.target_type):
            said += "; write it as 2026-01-31"
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
        return _say(with_options(error, options_of(app, tokens)) if isinstance(error, ShoalError) else str(error))
    except SystemExit as end:
        if end.code != 1:  # a signal's
            raise
        return 0  # rich's, where whoever reads the help has gone
    return status if isinstance(status, int) else 0


def _verb(app: Any, tokens: Sequence[str]) -> str:
    """Return the verb, and the one below it if there is one, with a blank before each."""
    words = ""
    for token in tokens:
        if token.startswith("-") or token not in app:
            break
        app, words = app[token], f"{words} {token}"
    return words


def _say(message: str, status: int = 2) -> int:
    sys.stderr.write(f"shoal: {' '.join(message.split())}\n")
    return status
