"""What `shoal --help` lists: read from the files of the verbs, none of which is imported, since none is run."""

import ast
import pkgutil
from collections.abc import Iterator
from importlib.abc import InspectLoader
from typing import cast

from cyclopts import App, Group

from shoal.cli import app as rooms
from shoal.cli import verbs

__all__ = ["overview"]


def overview() -> App:
    """Return the app with verbs that have a name, a group and a line of help, and cannot be run.

    Examples
    --------
    >>> overview()["amplify"].help
    'Say what (ε, δ) n shuffled reports have.'
    """
    app = rooms.without_verbs()
    app.help_format = "plaintext"  # no line of it has markup, which takes longer to load than all the rest
    for module in pkgutil.iter_modules(verbs.__path__):
        spec = module.module_finder.find_spec(module.name, None)
        source = cast(InspectLoader, spec.loader).get_source(module.name) if spec else None
        for verb in _verbs(ast.parse(source or "")):
            app.command(verb)
    return app


def _verbs(file: ast.Module) -> Iterator[App]:
    """Yield what a file adds to the app: functions under `@app.command(…)`, and each `App(…)` that has a group."""
    for node in file.body:
        if isinstance(node, ast.FunctionDef):
            said = (ast.get_docstring(node) or "").partition("\n\n")[0]
            for call in node.decorator_list:
                if isinstance(call, ast.Call) and ast.unparse(call.func) == "app.command":
                    yield _verb(call, name=node.name, help=said)
        elif isinstance(node, ast.Assign) and isinstance(call := node.value, ast.Call):
            yield from [_verb(call)] if ast.unparse(call.func) == "App" else ()


def _verb(call: ast.Call, **texts: str) -> App:
    """Return a verb of which a call tells the group, and what else it tells instead of these texts."""
    given = {each.arg: each.value for each in call.keywords}
    for name in {"name", "help"} & set(given):
        texts[name] = ast.literal_eval(given[name])
    group = cast(Group, getattr(rooms, ast.unparse(given["group"])))
    return App(name=texts["name"], help=texts["help"], group=group)
