"""Write the files of this version for `test_releases.py`: ``python -m tests.collect.release_files VERSION``."""

import shutil
import sys
import tempfile
from pathlib import Path

from shoal.collect.round_state import record
from shoal.collect.shuffler import Shuffler
from shoal.collect.stores.sqlite import SqliteStore
from shoal.mechanisms import RandomizedResponse
from tests.collect.world import make_world

_BEGIN = 1.8e9


def _write(folder: Path) -> str:
    """Write a task, its keys, and the folder of a shuffler in the middle of its work; return the task's id."""
    rounds = folder / "folder"
    rounds.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as made:
        randomizer = RandomizedResponse(categories=4, local_epsilon=40)
        world = make_world(Path(made), mechanism=randomizer, epsilon_limit=41.0, minimum=2, fakes=0)
        now = _BEGIN
        store = SqliteStore(rounds / "shuffler.db", world.task, now=now)
        shuffler = Shuffler(world.task, store, rounds, world.shuffler_key, clock=lambda: now)
        for number, values in ((1, [0, 1, 1, 2, 3]), (2, [3, 3, 1]), (3, [0, 2])):
            shuffler.accept(number, [record(body) for body in world.sealed(values, number)])
            if number < 3:
                now += world.task.round_seconds
                shuffler.close()
            if number == 1:
                shuffler.release(number)
        shuffler.shut()
        shutil.copy(world.task_path, folder / "task.json")
        shutil.copy(world.analyst["private_key"], folder / "analyst.key")
        shutil.copy(world.shuffler["private_key"], folder / "shuffler.key")
        return world.task.id


if __name__ == "__main__":
    print(_write(Path(__file__).parent / "releases" / sys.argv[1]))
