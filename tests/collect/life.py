"""A shuffler in this process, whose clock is moved by hand and which can end at any time."""

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from shoal.collect.batch import BatchFile
from shoal.collect.round_state import Round, record
from shoal.collect.shuffler import Shuffler
from shoal.collect.store import Store
from shoal.collect.stores.postgres import PostgresStore
from shoal.collect.stores.sqlite import SqliteStore
from tests.collect.world import World

Lives = Callable[..., "Life"]
"""The fixture `live`: `live(world)` is a shuffler with a SQLite store, which ends with the test."""


def opened_store(place: str | Path, world: World, now: float = 0.0) -> Store:
    """Return the store in a file or in the database of a URL, whose first round begins at `now`."""
    if "://" in str(place):
        return PostgresStore(str(place), world.task, now=now)
    return SqliteStore(Path(place), world.task, now=now)


def released(shuffler: Shuffler, number: int = 1) -> list[bytes]:
    """Return the messages of a round that is ready, in their order, once its batch was checked."""
    _, manifest = shuffler.released(number)
    batch = BatchFile.checked(shuffler.batch_path(number), shuffler.task, manifest)
    return list(batch.records(0, manifest.records))


class Life:
    """The rounds of a world's task in one process after the other; the first one begins at time 0."""

    def __init__(self, world: World, place: str | Path, folder: Path) -> None:
        self.world = world
        self.place = place
        self.folder = folder
        self.now = 0.0
        self._store: Store | None = None
        self.start()

    def start(self) -> Shuffler:
        """Start a process, after the end of the one before it."""
        self.stop()
        self._store = opened_store(self.place, self.world)
        key = self.world.shuffler_key
        self.shuffler = Shuffler(self.world.task, self._store, self.folder, key, clock=lambda: self.now)
        return self.shuffler

    def stop(self) -> None:
        """End the process."""
        if self._store is not None:
            self._store.shut()

    @property
    def store(self) -> Store:
        """The store of the process."""
        assert self._store is not None
        return self._store

    def add(self, bodies: Iterable[bytes], number: int = 1) -> None:
        """Store reports in one transaction."""
        self.shuffler.accept(number, [record(body) for body in bodies])

    def fill(self, number: int = 1) -> None:
        """Send as many reports as the task asks for."""
        self.add(self.world.bundles([0, 1] * (self.world.task.minimum // 2 + 1), number), number)

    def seal(self) -> Round:
        """End the open round at its time, and return it."""
        self.now = max(self.now, self.store.current().closes)
        ended = self.shuffler.close()
        assert ended is not None
        return ended

    def mix(self, number: int, helper: int, bodies: Iterable[bytes]) -> None:
        """Add the dummies of a helper."""
        self.shuffler.mix(number, helper, [record(body) for body in bodies])

    def stored(self, number: int = 1) -> list[bytes]:
        """Return the messages of a sealed round, in the order of their bytes."""
        return sorted(self.world.cut(b"".join(self.store.bodies(number))))

    def released(self, number: int = 1) -> list[bytes]:
        """Release a sealed round, and return its messages in their order."""
        self.shuffler.release(number)
        return released(self.shuffler, number)

    def acknowledge(self, number: int = 1) -> None:
        """Tell the shuffler that the analyst has a round."""
        self.shuffler.acknowledge(number, self.shuffler.released(number)[1].sha256)

    def copy(self, there: Path) -> None:
        """Copy a SQLite database with its log, as a snapshot of a disk does."""
        there.mkdir(exist_ok=True)
        for each in self._files():
            if not each.name.endswith("-shm"):
                shutil.copy(each, there / each.name)

    def restore(self, there: Path) -> None:
        """Put a copied database back, and have the process use it without a restart."""
        self.stop()
        for each in self._files():
            each.unlink()
        for each in there.iterdir():
            shutil.copy(each, Path(self.place).parent / each.name)

    def _files(self) -> list[Path]:
        path = Path(self.place)
        return list(path.parent.glob(f"{path.name}*"))


@contextmanager
def lives(folder: Path) -> Iterator[Lives]:
    """Lend a function that makes lives, all of which end with the block."""
    made: list[Life] = []

    def live(world: World, place: str | Path | None = None, batches: Path | None = None) -> Life:
        made.append(Life(world, place or folder / "shuffler.db", batches or folder / "batches"))
        return made[-1]

    yield live
    for each in made:
        each.stop()
