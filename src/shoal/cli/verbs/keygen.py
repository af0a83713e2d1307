"""The verb `keygen`: the keys of the analyst, of the shuffler, and of helpers."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from shoal.cli.app import COLLECTION, app
from shoal.cli.collect_output import print_keys
from shoal.cli.options import Json
from shoal.cli.output import show

_HOSTS = ("localhost", "127.0.0.1", "::1")
Hosts = Annotated[tuple[str, ...], Parameter(negative="")]

keygen = App(
    name="keygen",
    help="Make the keys of the analyst, who opens reports, of the shuffler, who signs, or of a helper.",
    help_epilogue="Example:  shoal keygen analyst",
    group=COLLECTION,
)
app.command(keygen)


@keygen.command(name="analyst", help_epilogue="Example:  shoal keygen analyst --folder analyst")
def analyst_keys(*, folder: Path = Path(), json: Json = False) -> None:
    """Make the analyst's keys: to open reports, and to pull them by mutual TLS. Never on the shuffler's machine.

    Parameters
    ----------
    folder
        where to write analyst.key, analyst.pub, analyst-tls.key and analyst-tls.crt; never over others.
    """
    from shoal.collect.keys import make_analyst_keys

    _show_keys("analyst", make_analyst_keys(folder), json)


@keygen.command(name="shuffler", help_epilogue="Example:  shoal keygen shuffler --host shuffler.example.org")
def shuffler_keys(*, folder: Path = Path(), host: Hosts = _HOSTS, json: Json = False) -> None:
    """Make the shuffler's keys: to sign what it releases, and to be known by TLS.

    Parameters
    ----------
    folder
        where to write shuffler.key, shuffler.pub, shuffler-tls.key and shuffler-tls.crt; never over others.
    host
        a name or address under which it is reached; may be given several times.
    """
    from shoal.collect.keys import make_shuffler_keys

    _show_keys("shuffler", make_shuffler_keys(folder, host), json)


@keygen.command(name="helper", help_epilogue="Example:  shoal keygen helper --folder helper")
def helper_keys(*, folder: Path = Path(), json: Json = False) -> None:
    """Make the keys of a helper, who adds dummies to the rounds of a task: to sign them.

    Parameters
    ----------
    folder
        where to write helper.key and helper.pub; never over others.
    """
    from shoal.collect.keys import make_signing_keys

    _show_keys("helper", make_signing_keys(folder, "helper"), json)


@keygen.command(name="lists", help_epilogue="Example:  shoal keygen lists")
def list_keys(*, folder: Path = Path(), json: Json = False) -> None:
    """Make the analyst's keys for a search for heavy hitters: to sign the list of prefixes of every round.

    Parameters
    ----------
    folder
        where to write lists.key and lists.pub; never over others.
    """
    from shoal.collect.keys import make_signing_keys

    _show_keys("lists", make_signing_keys(folder, "lists"), json)


def _show_keys(role: str, paths: dict[str, Path], json: bool) -> None:
    facts = {"role": role, **{name: str(path) for name, path in paths.items()}}
    show(facts, print_keys, json=json)
