"""The lock on a file: one at a time, among processes and threads, whatever is forked meanwhile."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shoal.durable_file import locked

COUNT = """
import sys
from pathlib import Path
from shoal.durable_file import locked
lock, number = map(Path, sys.argv[1:])
for _ in range(200):
    with locked(lock):
        number.write_text(str(int(number.read_text()) + 1))
"""


@pytest.mark.slow
def test_processes_take_turns(tmp_path: Path) -> None:
    number = tmp_path / "number"
    number.write_text("0")
    command = [sys.executable, "-c", COUNT, str(tmp_path / "lock"), str(number)]
    processes = [subprocess.Popen(command) for _ in range(3)]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert number.read_text() == "600"
    assert (tmp_path / "lock").read_bytes() == b""


def test_threads_take_turns(tmp_path: Path) -> None:
    inside = threading.Lock()

    def enter(_: int) -> None:
        with locked(tmp_path / "lock"):
            assert inside.acquire(blocking=False)
            inside.release()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(enter, range(200)))


def test_it_is_let_go_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), locked(tmp_path / "lock"):
        raise RuntimeError
    with locked(tmp_path / "lock"):
        pass


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_child_that_was_forked_does_not_keep_it(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    with locked(tmp_path / "lock"):
        child = os.fork()
        if child == 0:
            os.close(writer)
            os.read(reader, 1)  # until the parent is done
            os._exit(0)
    with locked(tmp_path / "lock"):
        os.close(writer)
    assert os.waitpid(child, 0)[1] == 0
    os.close(reader)


def test_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="lock"), locked(tmp_path / "lock"):
        pytest.fail("somebody else's file was locked")
    assert not (tmp_path / "elsewhere").exists()
