"""The verb that shows a whole collection: `collect demo`."""

from pathlib import Path
from typing import Any

from cyclopts import App

from shoal.cli.app import COLLECTION, app
from shoal.cli.collect_output import print_demonstration
from shoal.cli.options import Count, Flag
from shoal.cli.output import show
from shoal.errors import MissingExtraError

__all__ = ["demo"]

collect = App(
    name="collect",
    help="From people to an estimate, on this machine.",
    help_epilogue="Example:  shoal collect demo",
    group=COLLECTION,
)
app.command(collect)


@collect.command(help_epilogue="Example:  shoal collect demo --people 10_000 --folder demonstration")
def demo(*, people: Count = 10_000, folder: Path | None = None, plot: Path | None = None, json: Flag = False) -> None:
    """Show the whole of it: keys, a task, a shuffler, made-up people who report over TLS, and an analyst.

    Each command is printed as it is run, and can be run by hand. Nothing leaves this machine.

    Parameters
    ----------
    people
        how many there are, 247 at least: they are to hide each other.
    folder
        an empty or new folder in which everything is left, to be looked at; if not given, nothing is.
    plot
        put the histogram into this file (.png).
    json
        print the result as JSON, and nothing else.
    """
    try:
        import shoal.collect.serve  # noqa: F401  (before anything is made)
    except ImportError as error:
        raise MissingExtraError(f'the shuffler needs {error.name}: pip install "shoal-dp[collect]"') from None
    from shoal.collect.demonstration import demonstrate

    facts: dict[str, Any] = demonstrate(people, folder, plot, _ignore if json else _say)
    show(facts, print_demonstration, json=json, picture=plot)


def _say(text: str) -> None:
    print(text, flush=True)


def _ignore(_: str) -> None:
    pass
