"""The app and its groups of verbs; a verb is a file in `shoal.cli.verbs` that adds itself."""

import pkgutil
from importlib import import_module

from cyclopts import App, Group

import shoal
from shoal.cli import verbs

__all__ = ["COLLECTION", "GUARANTEES", "HISTOGRAMS", "OTHER", "TRAINING", "app", "loaded", "without_verbs"]

GUARANTEES = Group("Guarantees", sort_key=0)
HISTOGRAMS = Group("Histograms from files", sort_key=1)
COLLECTION = Group("Collection", sort_key=2)
TRAINING = Group("Training", sort_key=3)
OTHER = Group("Other", sort_key=4)


def without_verbs() -> App:
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


app = without_verbs()


def loaded(verb: str | None = None) -> App:
    """Return the app with this verb, or with all of them if there is no such file.

    Parameters
    ----------
    verb : str, optional
        The first word of the command: the other verbs need not be imported to run it. A verb below it may have a file
        of its own, such as task_hunt.py.
    """
    files = sorted(module.name for module in pkgutil.iter_modules(verbs.__path__))
    for name in [name for name in files if name.split("_")[0] == verb] or files:
        import_module(f"{verbs.__name__}.{name}")
    return app
