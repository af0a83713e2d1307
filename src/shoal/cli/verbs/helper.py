"""The verb of a helper, who adds dummies to the rounds of a task: `helper send`."""

from pathlib import Path

from cyclopts import App

from shoal.cli.app import COLLECTION, app
from shoal.cli.collect_output import print_helped
from shoal.cli.options import Json
from shoal.cli.output import show
from shoal.cli.verbs.report import Url, state_home

helper = App(
    name="helper",
    help="Add dummies to the rounds of a task, as one of the helpers that it names.",
    help_epilogue="Example:  shoal helper send task.json --key helper.key --shuffler https://shuffler.example.org:8440",
    group=COLLECTION,
)
app.command(helper)


@helper.command(
    help_epilogue="Example:  shoal helper send task.json --key helper.key --shuffler https://shuffler.example.org:8440 "
    "--ca shuffler-tls.crt"
)
def send(
    task: Path,
    /,
    *,
    key: Path,
    shuffler: Url,
    ca: Path | None = None,
    state: Path | None = None,
    json: Json = False,
) -> None:
    """Draw, seal and send dummies for every round that waits for them; the same command may always be repeated.

    They are drawn once a round, and kept sealed until the shuffler has them. How many there are of a category is
    neither shown nor stored. A round is released only when all helpers have sent theirs: let a timer run this more
    often than rounds end.

    Parameters
    ----------
    task
        the task file; check it before with `shoal task verify`.
    key
        the helper's private key, helper.key.
    shuffler
        where it is, such as https://shuffler.example.org:8440.
    ca
        the certificate to trust, such as shuffler-tls.crt; if not given, those that this machine trusts.
    state
        the folder that remembers for which rounds dummies were drawn: never delete it while the task runs. If not
        given, one for this task and key in $XDG_STATE_HOME, or ~/.local/state.
    """
    from shoal.collect.connection import Connection
    from shoal.collect.keys import signing_key
    from shoal.collect.sender import Helper
    from shoal.collect.task import Task

    agreed, signing = Task.read(task), signing_key(key, "helper")
    public = signing.public_key().public_bytes_raw().hex()
    folder = state or state_home() / f"{agreed.id}-helper-{public[:16]}"
    with Connection(shuffler, ca) as connection:
        rounds = Helper(agreed, connection, folder, signing).send()
    facts = {"task": agreed.id, "question": agreed.question, "rounds": rounds, "state": str(folder)}
    show(facts, print_helped, json=json)
