"""Helpers, clients and analysts in processes of their own, which can be killed: what the tests of faults run.

`python -m tests.collect.actors setup.json` is such a process.
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
from shoal.collect.sender import Helper
from shoal.collect.task import Task
from tests.collect.running import PATIENCE, Running

_ROOT = Path(__file__).resolve().parents[2]


def _acted(shuffler: Running, folder: Path, point: str | None, **content: Any) -> int:
    """Run what the content says in a process; return how it ended: 0, 1 for an error, or the signal that killed it."""
    setup = folder.with_suffix(".setup.json")
    common = {"task": str(shuffler.world.task_path), "url": f"http://127.0.0.1:{shuffler.port}", "folder": str(folder)}
    setup.write_text(json.dumps(common | content | {"point": point}))
    command = [sys.executable, "-m", "tests.collect.actors", str(setup)]
    return subprocess.run(command, cwd=_ROOT, timeout=PATIENCE, capture_output=True, check=False).returncode


def search_step(shuffler: Running, folder: Path, point: str | None = None, value: str | None = None) -> int:
    """Report a value, or else sign and hand over the next list, in a process; return how it ended."""
    world = shuffler.world
    if value is not None:
        return _acted(shuffler, folder, point, role="client", value=value)
    analyst = f"https://127.0.0.1:{shuffler.analyst_port}", str(world.shuffler["tls_certificate"])
    certificate = str(world.analyst["tls_certificate"]), str(world.analyst["tls_key"])
    key = str(world.lists_path)
    return _acted(shuffler, folder, point, role="analyst", key=key, analyst=analyst, certificate=certificate)


class Helping:
    """One helper of a world, each of whose calls is a process."""

    def __init__(self, shuffler: Running, state: Path, helper: int = 0) -> None:
        self._shuffler, self.state, self._helper = shuffler, state, helper

    def send(self, point: str | None = None) -> int:
        """Run `Helper.send` once, and return how it ended: 0, 1 for an error, or the signal that killed it."""
        key = str(self._shuffler.world.helper_paths[self._helper])
        return _acted(self._shuffler, self.state, point, role="helper", key=key)

    @property
    def dummies(self) -> list[bytes] | None:
        """What it keeps sealed on the disk; None if nothing."""
        path = self.state / "dummies.json"
        text = json.loads(path.read_text())["dummies"] if path.exists() else None
        if text is None:
            return None
        data, length = bytes.fromhex(text), self._shuffler.world.task.ciphertext_bytes
        return [data[at : at + length] for at in range(0, len(data), length)]


def _run(setup: Path) -> None:
    content = json.loads(setup.read_text())

    def kill(point: str) -> None:
        if point == content["point"]:
            os.kill(os.getpid(), signal.SIGKILL)

    failpoint.watch(kill)
    sender.PATIENCE = 0.0
    task, folder = Task.read(Path(content["task"])), Path(content["folder"])
    if content["role"] == "analyst":
        key, (url, ca) = Path(content["key"]), content["analyst"]
        certificate, private = map(Path, content["certificate"])
        analyst, lists = Analyst(folder, task), PrefixLists(folder, task)
        counted = analyst.counted()
        result = analyst.result(counted[-1]) if counted else None
        with Connection(url, Path(ca), certificate, private) as connection:
            ledger = shoal.Ledger(folder / "ledger.json")
            lists.publish(connection, lists.next(counted, result, signing_key(key, "lists"), ledger))
        return
    with Connection(content["url"]) as connection:
        if content["role"] == "client":
            PrefixSender(task, connection, folder).send(content["value"])
        else:
            Helper(task, connection, folder, signing_key(Path(content["key"]), "helper")).send()


if __name__ == "__main__":
    _run(Path(sys.argv[1]))
