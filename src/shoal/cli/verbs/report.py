"""The verb `report`, on a person's device: randomize, seal and send one value."""

import os
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from shoal.cli.app import COLLECTION, app
from shoal.cli.collect_output import print_receipt
from shoal.cli.options import Json
from shoal.cli.output import show
from shoal.errors import ParameterError

Hash = Annotated[str | None, Parameter(metavar="HASH")]
Url = Annotated[str, Parameter(metavar="URL")]


@app.command(
    group=COLLECTION,
    help_epilogue="Example:  echo Firefox | shoal report - --task task.json --shuffler https://shuffler.example.org:8440",
)
def report(
    value: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    shuffler: Url,
    task: Path | None = None,
    task_id: Hash = None,
    ca: Path | None = None,
    token_file: Path | None = None,
    state: Path | None = None,
    json: Json = False,
) -> None:
    """Randomize, seal and send one value, once a round; whatever goes wrong, the same command may be repeated.

    Nothing is sent if the task or the shuffler's certificate can't be verified. Others on this machine can see what
    stands on a command line: give - as the value, and it is read from standard input.

    Parameters
    ----------
    value
        the name of the category, or its number if they have no names; in a search for heavy hitters, your own string. -
        reads it from standard input.
    shuffler
        where it is, such as https://shuffler.example.org:8440.
    task
        the task file, from whoever asks.
    task_id
        the id of the task, from somebody who is trusted; without a file, the task is fetched and must have this id.
    ca
        the certificate to trust, such as shuffler-tls.crt; if not given, those that this machine trusts.
    token_file
        a file with the token that the shuffler knows you by, if it asks for one.
    state
        the folder that remembers what was sent; if not given, one for this task in $XDG_STATE_HOME, or ~/.local/state.
    """
    from shoal.collect.connection import Connection
    from shoal.collect.sender import fetch_task
    from shoal.collect.task import Task

    if task is None and task_id is None:
        raise ParameterError("this needs --task with a file, or --task-id with 64 hexadecimal digits, to know the task")
    pinned = None if task_id is None else task_id.strip().lower()
    known = None if task is None else Task.read(task, pinned=pinned)
    token = None if token_file is None else _token(token_file)
    said = _from_input() if value == "-" else value
    with Connection(shuffler, ca) as connection:
        agreed = fetch_task(connection, pinned or "") if known is None else known
        folder = state or state_home() / agreed.id
        receipt = agreed.kind.sender(agreed, connection, folder, token).send(said)
    facts = {
        "task": agreed.id,
        "question": agreed.question,
        **asdict(receipt),
        "local_epsilon": agreed.local_epsilon,
        "privacy": agreed.kind.privacy(agreed.mechanism),
        "shuffler": shuffler,
        "state": str(folder),
    }
    show(facts, partial(print_receipt, token=token is not None), json=json)


def state_home() -> Path:
    """Return the folder in which clients and helpers remember what they sent, unless another is given."""
    home = os.environ.get("XDG_STATE_HOME", "")
    return (Path(home) if os.path.isabs(home) else Path.home() / ".local" / "state") / "shoal"


def _from_input() -> str:
    """Return the one line of standard input."""
    line = sys.stdin.readline()
    if not sys.stdin.isatty() and sys.stdin.read(1):
        raise ParameterError(
            "there is more than one line on standard input, and a report is one value; nothing was sent"
        )
    return line.rstrip("\r\n")


def _token(path: Path) -> str:
    from shoal.collect.sender import read_tokens

    token, *others = read_tokens(path)
    if others or token.startswith("sha256:"):
        raise ParameterError(f"{path} must hold one token, yours, on one line; not several, and not the hash of one")
    return token
