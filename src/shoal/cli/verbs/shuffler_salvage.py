"""The verb `shuffler salvage`, for a disk that has failed."""

import time
from dataclasses import asdict
from pathlib import Path

from shoal.cli.collect_output import print_salvaged
from shoal.cli.options import Json
from shoal.cli.output import show
from shoal.cli.verbs.shuffler import SigningKey, shuffler

__all__ = ["salvage"]


@shuffler.command(
    help_epilogue="Example:  shoal shuffler salvage --task task.json --key shuffler.key --folder rounds --output saved"
)
def salvage(*, task: Path, key: SigningKey, folder: Path, output: Path, json: Json = False) -> None:
    """Save the reports that can still be read in a damaged folder into a new one, and say what may be missing.

    Stop the shuffler first. The old folder is left as it is; never serve it again. Rounds that are complete can be
    released from the new one; a round that has lost so many reports that it is below the minimum is discarded.

    Parameters
    ----------
    task
        the task file.
    folder
        the damaged folder that `shoal shuffler serve` had.
    output
        a new folder, on a disk that is in order.
    """
    from shoal.collect.keys import shuffler_key
    from shoal.collect.salvage import salvage as run
    from shoal.collect.stores.sqlite import FILE
    from shoal.collect.task import Task

    agreed, signing = Task.read(task), shuffler_key(key)
    saved = run(folder, output, agreed, signing, name=FILE, now=time.time())
    facts = {
        "task": agreed.id,
        "folder": str(output),
        "damaged": str(folder),
        "saved": saved.saved,
        "may_be_missing": True,
        "rounds": [asdict(one) for one in saved.rounds],
        "notes": list(saved.notes),
    }
    show(facts, print_salvaged, json=json)
