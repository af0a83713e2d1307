"""The command line, `shoal`: one verb a question, or a step on the way from people to an estimate.

Exit status: 0 fine; 1 a target that can't be met, a budget that is spent, a result that may not be published or a check
that failed; 2 bad usage or trouble on the way, with one line that says what to do; 3 nothing is wrong, but the network
is down or a round is not due: try again later; 130 interrupted. The line is text, on standard error, with `--json` too.
"""

import codecs
import errno
import io
import os
import re
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TextIO

from shoal.errors import (
    AskedError,
    BudgetError,
    ParameterError,
    ShoalError,
    TryAgainError,
    UnreachableError,
    WithheldError,
)

__all__ = ["main", "options_of", "spell_out", "spelled", "unknown_option", "with_options"]

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
            from shoal.cli.app import overview

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


def options_of(app: Any, tokens: Sequence[str]) -> dict[str, str]:
    """Return how each argument of a verb is written on the command line, by its name in Python."""
    for token in tokens:
        if token.startswith("-") or token not in app:
            break
        app = app[token]
    if app.default_command is None:
        return {}
    written = {}
    for argument in app.assemble_argument_collection():
        for name in argument.names if not argument.children else ():
            plain = name.lstrip("-")
            first = argument.names[0]  # an option with two names is written with the first
            written[plain.replace("-", "_").lower()] = first if argument.index is None else plain.upper()
    return written


def with_options(error: Exception, written: Mapping[str, str]) -> str:
    """Return the message of an error with the options of a verb instead of the arguments that it is about.

    Examples
    --------
    >>> written = {"most": "--most", "reports": "--reports", "bound": "--bound"}
    >>> with_options(ParameterError("most must be at most reports=100", "most"), written)
    '--most must be at most --reports 100'
    >>> with_options(ParameterError('use bound="clones"'), written)
    'use --bound clones'
    >>> with_options(ParameterError("reports are shuffled"), written)
    'reports are shuffled'
    """
    if isinstance(error, AskedError):
        return error.with_options
    message = str(error)
    name = error.parameter if isinstance(error, ParameterError) else None
    if name is not None and name in written and message.startswith(name):
        message = written[name] + message.removeprefix(name)
    return re.sub(
        r'(?<![\w-])(\w+)=(?:"([\w-]+)"|(?=[\w.+-]))',
        lambda match: f"{written[match[1]]} {match[2] or ''}" if match[1] in written else match[0],
        message,
    )


def unknown_option(written: Mapping[str, str], tokens: Sequence[str]) -> str:
    """Return what is wrong with the first option that a verb does not have; nothing if it has all of them.

    Examples
    --------
    >>> unknown_option({"reports": "--reports"}, ["amplify", "--report", "100"])
    'there is no --report; did you mean --reports?'
    """
    for token in tokens:
        name = token.partition("=")[0]
        if name == "--":
            break
        if re.match(r"--[a-zA-Z]", name) and name not in {*written.values(), "--help", "--version"}:
            near = get_close_matches(name, [option for option in written.values() if option.startswith("--")], 1)
            return f"there is no {name}" + (f"; did you mean {near[0]}?" if near else ".")
    return ""


_SIGNS = {
    **{"λ": "lambda", "≤": "<=", "≥": ">=", "≠": "!=", "≈": "~", "∞": "infinity", "√": "sqrt", "∈": "in", "±": "+-"},
    **{"∝": "proportional to"},
    **{"⌊": "floor(", "⌋": ")", "⌈": "ceil(", "⌉": ")", "→": "->", "·": "*", "×": "x", "−": "-", "–": "-", "—": "-"},
    **{"∫": "integral", "∓": "-+", "‖": "||", "⟨": "<", "⟩": ">", "≡": "=", "↵": "(end of line)", "″": "''"},
    **dict.fromkeys("‐‑‒―₋", "-"),
    **dict.fromkeys("├└", "+"),
    **{"′": "'", "‘": "'", "’": "'", "“": '"', "”": '"', "█": "#", "▒": ":", "│": "|", "─": "-"},
    **dict.fromkeys("╭╮╰╯", "+"),
}


def spelled(letter: str) -> str:
    """Return a letter in ASCII, or a question mark if there is no way to spell it.

    Examples
    --------
    >>> spelled("Δ"), "".join(map(spelled, "ε₀")), spelled("≤"), spelled("²"), spelled("é"), spelled("中")
    ('Delta', 'epsilon0', '<=', '^2', 'e', '?')
    """
    if letter in _SIGNS:
        return _SIGNS[letter]
    words = unicodedata.name(letter, "").split()
    if words[:1] == ["GREEK"] and "LETTER" in words:
        return words[-1].capitalize() if "CAPITAL" in words else words[-1].lower()
    parts = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
    if words[:1] == ["SUPERSCRIPT"]:
        return f"^{parts}"
    unseen = unicodedata.combining(letter) or unicodedata.category(letter) == "Cf"  # such as a byte order mark
    return parts or ("" if unseen else "?")


def _spell(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "".join(map(spelled, error.object[error.start : error.end])), error.end


codecs.register_error("shoal-spelled", _spell)


def spell_out(stream: TextIO | None) -> None:
    """Let a stream spell what its encoding does not have."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="shoal-spelled")
