"""A helper in a process of its own, which can be killed: what the tests of faults run.

`python -m tests.collect.helping setup.json` is the process.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from shoal.collect import failpoint
from shoal.collect.connection import Connection
from shoal.collect.helper import Helper
from shoal.collect.keys import signing_key
from shoal.collect.task import Task
from tests.collect.running import PATIENCE, Running

__all__ = ["Helping"]

_ROOT = Path(__file__).resolve().parents[2]


class Helping:
    """One helper of a world, each of whose calls is a process.

    Parameters
    ----------
    shuffler : to whom it sends.
    state : its folder.
    helper : which one of the world's.
    """

    def __init__(self, shuffler: Running, state: Path, helper: int = 0) -> None:
        self._shuffler, self.state, self._helper = shuffler, state, helper
        self._setup = state.with_suffix(".setup.json")

    def send(self, point: str | None = None) -> int:
        """Run `Helper.send` once, and return how it ended: 0, 1 for an error, or the signal that killed it."""
        world = self._shuffler.world
        content = {
            "task": str(world.task_path),
            "key": str(world.helper_paths[self._helper]),
            "url": f"http://127.0.0.1:{self._shuffler.port}",
            "state": str(self.state),
            "point": point,
        }
        self._setup.write_text(json.dumps(content))
        command = [sys.executable, "-m", "tests.collect.helping", str(self._setup)]
        return subprocess.run(command, cwd=_ROOT, timeout=PATIENCE, capture_output=True, check=False).returncode

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
    task, key = Task.read(Path(content["task"])), signing_key(Path(content["key"]), "helper")
    with Connection(content["url"]) as connection:
        Helper(task, connection, Path(content["state"]), key).send()


if __name__ == "__main__":
    _run(Path(sys.argv[1]))
