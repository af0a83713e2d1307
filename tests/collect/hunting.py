"""A client or an analyst of a hunt in a process of its own, which can be killed: what the tests of faults run.

`python -m tests.collect.hunting setup.json` is the process.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import shoal
from shoal.collect import failpoint, sender
from shoal.collect.analyst import Analyst
from shoal.collect.connection import Connection
from shoal.collect.keys import signing_key
from shoal.collect.prefix_lists import PrefixLists, PrefixSender
from shoal.collect.task import Task
from tests.collect.running import PATIENCE, Running

__all__ = ["hunt_step"]

_ROOT = Path(__file__).resolve().parents[2]


def hunt_step(shuffler: Running, folder: Path, point: str | None = None, value: str | None = None) -> int:
    """Report a value, or else sign and hand over the next list, in a process; return how it ended."""
    world = shuffler.world
    content: dict[str, Any] = {
        "task": str(world.task_path),
        "key": str(world.lists_path),
        "url": f"http://127.0.0.1:{shuffler.port}",
        "analyst": [f"https://127.0.0.1:{shuffler.analyst_port}", str(world.shuffler["tls_certificate"])],
        "certificate": [str(world.analyst["tls_certificate"]), str(world.analyst["tls_key"])],
        "folder": str(folder),
        "point": point,
        "value": value,
    }
    setup = folder.with_suffix(".setup.json")
    setup.write_text(json.dumps(content))
    command = [sys.executable, "-m", "tests.collect.hunting", str(setup)]
    return subprocess.run(command, cwd=_ROOT, timeout=PATIENCE, capture_output=True, check=False).returncode


def _run(setup: Path) -> None:
    content = json.loads(setup.read_text())

    def kill(point: str) -> None:
        if point == content["point"]:
            os.kill(os.getpid(), signal.SIGKILL)

    failpoint.watch(kill)
    sender.PATIENCE = 0.0
    task, folder = Task.read(Path(content["task"])), Path(content["folder"])
    if content["value"] is not None:
        with Connection(content["url"]) as connection:
            PrefixSender(task, connection, folder).send(content["value"])
        return
    analyst, lists, key = Analyst(folder, task), PrefixLists(folder, task), signing_key(Path(content["key"]), "lists")
    counted = analyst.counted()
    result = analyst.result(counted[-1]) if counted else None
    url, ca = content["analyst"]
    certificate, private = map(Path, content["certificate"])
    with Connection(url, Path(ca), certificate, private) as connection:
        lists.publish(connection, lists.next(counted, result, key, shoal.Ledger(folder / "ledger.json")))


if __name__ == "__main__":
    _run(Path(sys.argv[1]))
