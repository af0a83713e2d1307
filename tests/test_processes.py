"""Work shared among processes: in order, with whoever is left, and nobody stays behind."""

import os
import time
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

from shoal.processes import cores, shared


def squared(number: int) -> int:
    return number * number


def refusing(number: int) -> int:
    if number == 3:
        raise ValueError("not three")
    return number


class Dying:
    """A function that ends every process but the one that made it."""

    def __init__(self) -> None:
        self.home = os.getpid()

    def __call__(self, number: int) -> int:
        if os.getpid() != self.home:
            os._exit(1)
        time.sleep(0.02)  # so that the others get something, too
        return number


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2, 3])
def test_results_are_in_order(processes: int) -> None:
    assert list(shared(squared, range(50), processes=processes, label="")) == [number**2 for number in range(50)]
    assert list(shared(squared, [], processes=processes, label="")) == []


@pytest.mark.parametrize("processes", [1, 2])
def test_an_error_is_raised_as_it_is(processes: int) -> None:
    with pytest.raises(ValueError, match="not three"):
        list(shared(refusing, range(50), processes=processes, label=""))


@pytest.mark.slow
def test_a_process_that_dies() -> None:
    items = range(40)
    with pytest.raises(BrokenProcessPool):
        list(shared(Dying(), items, processes=2, label="", alone_if_broken=False))
    assert list(shared(Dying(), items, processes=2, label="")) == list(items)


@pytest.mark.slow
def test_whoever_stops_early_leaves_nobody_behind() -> None:
    results = shared(squared, range(10_000), processes=2, label="")
    assert next(results) == 0
    results.close()
    end = time.monotonic() + 60
    while children := [pid for pid in _children() if "spawn_main" in pid]:
        assert time.monotonic() < end, children
        time.sleep(0.05)


def _children() -> list[str]:
    """Return the command lines of the children of this process."""
    lines = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "stat").read_text().rsplit(")", 1)[1].split()[1] == str(os.getpid()):
                lines.append((process / "cmdline").read_text())
        except OSError:
            continue
    return lines


def test_there_is_a_core() -> None:
    assert 1 <= cores() <= (os.cpu_count() or 1)
