"""Every verb of the command line and every option that it has, as the app itself knows them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from cyclopts import App

from shoal.cli.app import loaded


def _walked(app: App, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], App]]:
    yield path, app
    for name in app:
        if not name.startswith("-"):
            yield from _walked(app[name], (*path, name))


def verbs() -> dict[tuple[str, ...], App]:
    """Return what can be run, by its words."""
    return {path: app for path, app in _walked(loaded(), ()) if app.default_command is not None and path}


def groups() -> dict[tuple[str, ...], App]:
    """Return what has verbs below it, shoal itself included."""
    return {path: app for path, app in _walked(loaded(), ()) if app.default_command is None or not path}


def options(app: App) -> list[Any]:
    """Return the arguments of a verb; those that belong together one by one."""
    return [argument for argument in app.assemble_argument_collection(parse_docstring=True) if not argument.children]


def _kinds(argument: Any) -> set[Any]:
    return {argument.hint, *get_args(argument.hint)}


def filled(path: tuple[str, ...], option: str, text: str) -> list[str]:
    """Return a command in which all that is needed has some value, and this option has this text."""
    words = list(path)
    for argument in options(verbs()[path]):
        if argument.required and argument.name != option:
            some = "1" if {int, float} & _kinds(argument) else "no-such-file" if Path in _kinds(argument) else "some"
            words += [argument.name, some] if argument.name.startswith("-") else [some]
    return [*words, option, text]


def numeric_options() -> list[tuple[tuple[str, ...], str]]:
    """Return all options that take a number, each with its verb."""
    return [
        (path, argument.name)
        for path, app in verbs().items()
        for argument in options(app)
        if {int, float} & _kinds(argument)
    ]
