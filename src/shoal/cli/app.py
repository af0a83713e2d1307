"""The app and its groups of verbs: a verb is a file in `shoal.cli.verbs` that adds itself, or a question that has none.

`shoal --help` is read from the files of the verbs and the questions, none of which is imported, since none is run.
"""

import ast
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from importlib.abc import InspectLoader
from types import ModuleType
from typing import cast

from cyclopts import App, Group

import shoal
from shoal import questions
from shoal.cli import verbs

GUARANTEES = Group("Guarantees", sort_key=0)
HISTOGRAMS = Group("Histograms from files", sort_key=1)
COLLECTION = Group("Collection", sort_key=2)
TRAINING = Group("Training", sort_key=3)
OTHER = Group("Other", sort_key=4)


def _without_verbs() -> App:
    """Return a new app that has its own options, and no verb yet."""
    empty = App(
        name="shoal",
        help="How much privacy people gain when their randomized reports are shuffled: proven bounds, and what runs.",
        version=shoal.__version__,
        suppress_keyboard_interrupt=False,
        help_epilogue="Example:  shoal amplify --local-epsilon 1 --reports 10_000 --delta 1e-6",
    )
    empty.register_install_completion_command(
        help="Complete verbs and options in bash, zsh or fish: write a script, and a line for it into the startup "
        "file.",
        help_epilogue="Example:  shoal --install-completion --shell bash",
    )
    for option in ("--help", "--install-completion", "--version"):
        empty[option].group = OTHER
    return empty


app = _without_verbs()


def loaded(verb: str | None = None) -> App:
    """Return the app with this verb, or with all of them if there is no such file."""
    files = _files(verbs)
    own = [name for name in files if name.split("_")[0] == verb]
    if not own and verb in _files(questions):
        _make(str(verb))
        if verb in app:
            return app
    for name in own or files:
        import_module(f"{verbs.__name__}.{name}")
    for name in _files(questions) if not own else ():
        if name not in files:
            _make(name)
    return app


def _files(folder: ModuleType) -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(folder.__path__))


def _make(name: str) -> None:
    """Make a verb of a question, if the file has one that no other verb asks."""
    from shoal.cli.asking import verb_of
    from shoal.questions.question import find

    asked = find(name)
    if asked is not None and not asked.verb and name not in app:
        app.command(verb_of(asked), group=GUARANTEES, help_epilogue=f"Example:  {asked.command}")


def overview() -> App:
    """Return the app with verbs that have a name, a group and a line of help, and cannot be run.

    Examples
    --------
    >>> overview()["amplify"].help
    'Say what (ε, δ) n shuffled reports have.'
    """
    listed = _without_verbs()
    listed.help_format = "plaintext"  # no line of it has markup, which takes longer to load than all the rest
    own = _files(verbs)
    for folder in (verbs, questions):
        for module in pkgutil.iter_modules(folder.__path__):
            spec = module.module_finder.find_spec(module.name, None)
            source = cast(InspectLoader, spec.loader).get_source(module.name) if spec else None
            if folder is verbs or module.name not in own:
                for verb in _verbs(ast.parse(source or "")):
                    listed.command(verb)
    return listed


def _verbs(file: ast.Module) -> Iterator[App]:
    """Yield what a file adds: functions under `@app.command(…)`, each `App(…)` that has a group, and a question."""
    for node in file.body:
        if isinstance(node, ast.FunctionDef):
            said = (ast.get_docstring(node) or "").partition("\n\n")[0]
            for call in node.decorator_list:
                if isinstance(call, ast.Call) and ast.unparse(call.func) == "app.command":
                    yield _verb(call, name=node.name.replace("_", "-"), help=said)
                elif _makes_verb(call):
                    yield App(name=node.name, help=said, group=GUARANTEES)
        elif isinstance(node, ast.Assign) and isinstance(call := node.value, ast.Call):
            yield from [_verb(call)] if ast.unparse(call.func) == "App" else ()


def _makes_verb(call: ast.expr) -> bool:
    """Return whether a decorator makes a question that no other verb asks."""
    asks = isinstance(call, ast.Call) and ast.unparse(call.func) == "asks"
    return asks and "verb" not in [each.arg for each in cast(ast.Call, call).keywords]


def _verb(call: ast.Call, **texts: str) -> App:
    """Return a verb of which a call tells the group, and what else it tells instead of these texts."""
    given = {each.arg: each.value for each in call.keywords}
    for name in {"name", "help"} & set(given):
        texts[name] = ast.literal_eval(given[name])
    group = cast(Group, globals()[ast.unparse(given["group"])])
    return App(name=texts["name"], help=texts["help"], group=group)
