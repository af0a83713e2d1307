"""The names of the options of a verb in what is told of an error: the library names arguments of Python."""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from shoal.errors import AskedError, ParameterError

__all__ = ["options_of", "unknown_option", "with_options"]


def options_of(app: Any, tokens: Sequence[str]) -> dict[str, str]:
    """Return how each argument of a verb is written on the command line, by its name in Python.

    Parameters
    ----------
    app : App
        The app that has run.
    tokens : sequence of str
        The words of the command.

    Returns
    -------
    dict
        Nothing if the verb is none.
    """
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

    Parameters
    ----------
    error : Exception
        What the library raised.
    written : Mapping
        How each argument is written on the command line, by its name in Python.

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
