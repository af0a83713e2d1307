"""The verb `keygen`: the keys of the analyst and of the shuffler."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from shoal.cli.app import COLLECTION, app
from shoal.cli.collect_output import print_keys
from shoal.cli.options import Json
from shoal.cli.output import show

__all__ = ["analyst_keys", "shuffler_keys"]

_HOSTS = ("localhost", "127.0.0.1", "::1")
Hosts = Annotated[tuple[str, ...], Parameter(negative="")]

keygen = App(
    name="keygen",
    help="Make the keys of the analyst, who opens reports, or of the shuffler, who signs.",
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


def _show_keys(role: str, paths: dict[str, Path], json: bool) -> None:
    facts = {"role": role, **{name: str(path) for name, path in paths.items()}}
    show(facts, print_keys, json=json)
