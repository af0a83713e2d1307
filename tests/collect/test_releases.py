"""Files that earlier releases have written are read, and their rounds go on.

`releases/VERSION` has what that release wrote: a task, the private keys of its analyst and its shuffler, and the folder
of a shuffler with a released round (values 0, 1, 1, 2, 3), a sealed one (3, 3, 1) and an open one (0, 2).
``python -m tests.collect.test_releases VERSION`` writes the files of this version.
"""

import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from shoal.collect.envelope import information, opened
from shoal.collect.keys import analyst_key, shuffler_key
from shoal.collect.round_state import record
from shoal.collect.shuffler import Shuffler
from shoal.collect.stores.sqlite import SqliteStore
from shoal.collect.task import Task
from shoal.errors import DamagedError
from shoal.mechanisms.randomized_response import RandomizedResponse
from tests.collect.life import released
from tests.collect.world import make_world

_RELEASES = Path(__file__).parent / "releases"
_IDS = {
    "0.1.0": "ee92ed0a27bada6adef902ca10d3521e49533b791cddb897fe58b72dc1112853",
    "0.2.0": "f8fa7393bf6519e511414c00a8ae1aa6b45a8aa31b2c031f231d1e1bbb36f515",
}


@pytest.fixture(params=sorted(_IDS))
def release(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    copied = Path(shutil.copytree(_RELEASES / request.param, tmp_path / request.param))
    for key in copied.glob("*.key"):
        key.chmod(0o600)
    return copied


def test_a_task_keeps_its_id(release: Path) -> None:
    path = release / "task.json"
    task = Task.read(path, pinned=_IDS[release.name])
    assert task.id == _IDS[release.name] and task.to_bytes() == path.read_bytes()
    path.write_bytes(path.read_bytes().replace(b'"key_id":"', b'"key_id":"0'))
    with pytest.raises(DamagedError, match="key_id do not fit the rest"):
        Task.read(path)


def test_the_rounds_of_a_shuffler_go_on(release: Path) -> None:
    """A released round is as it was, the sealed one is released, and the open one ends."""
    task, folder = Task.read(release / "task.json"), release / "folder"
    store = SqliteStore(folder / "shuffler.db", task, now=1.8e9 + 150)
    key = shuffler_key(release / "shuffler.key")
    shuffler = Shuffler(task, store, folder, key, clock=lambda: 1.8e9 + 300)
    shuffler.tick()
    shuffler.tick()
    private = analyst_key(release / "analyst.key")
    for number, values in ((1, [0, 1, 1, 2, 3]), (2, [1, 3, 3]), (3, [0, 2])):
        plain = opened(private, information(task, number), released(shuffler, number))
        found = [int(task.mechanism.from_bytes(one[2:3])[0]) for one in plain if one is not None]
        assert sorted(found) == values
    shuffler.shut()


_BEGIN = 1.8e9


def _write(folder: Path) -> str:
    """Write a task, its keys, and the folder of a shuffler in the middle of its work; return the task's id."""
    rounds = folder / "folder"
    rounds.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as made:
        randomizer = RandomizedResponse(categories=4, local_epsilon=40)
        world = make_world(Path(made), mechanism=randomizer, epsilon_limit=41.0, minimum=2, malicious=0)
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
