"""Where there is no fcntl: locks, ledgers and clients work, and the shuffler says where it runs."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import shoal
from tests.collect.small_server import Asked, Said, SmallServer, small_server
from tests.collect.world import World, make_exact_world
from tests.test_lock import COUNT

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="there the other tests do this")]
_ROOT = Path(__file__).parents[1]


def _start(folder: Path, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.windows", *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{_ROOT / 'src'}{os.pathsep}{_ROOT}", "XDG_STATE_HOME": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _run(folder: Path, command: str) -> tuple[int, str, str]:
    process = _start(folder, "shoal", *command.split())
    out, error = process.communicate(timeout=120)
    return process.returncode, out, error


def test_processes_take_turns(tmp_path: Path) -> None:
    number = tmp_path / "number"
    number.write_text("0")
    (tmp_path / "count.py").write_text(COUNT)
    processes = [_start(tmp_path, tmp_path / "count.py", tmp_path / "lock", number) for _ in range(3)]
    assert [(process.communicate(timeout=120)[1], process.returncode) for process in processes] == [("", 0)] * 3
    assert number.read_text() == "600"


def test_a_link_is_refused_without_a_flag_for_it(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "number").write_text("0")
    (tmp_path / "count.py").write_text(COUNT)
    process = _start(tmp_path, tmp_path / "count.py", tmp_path / "lock", tmp_path / "number")
    assert "Too many levels of symbolic links" in process.communicate(timeout=120)[1]
    assert (tmp_path / "number").read_text() == "0"
    assert not (tmp_path / "elsewhere").exists()


def test_rounds_that_are_recorded_at_once_are_all_in_the_ledger(tmp_path: Path) -> None:
    record = "ledger record telemetry.json --local-epsilon 1 --reports 10_000 --epsilon 0.2 --label"
    processes = [_start(tmp_path, "shoal", *record.split(), f"day-{day}") for day in range(4)]
    assert [(process.communicate(timeout=120)[1], process.returncode) for process in processes] == [("", 0)] * 4
    status, out, error = _run(tmp_path, "ledger show telemetry.json --json")
    assert (status, error) == (0, "")
    written = shoal.Ledger(tmp_path / "telemetry.json")
    assert sorted(entry.label for entry in written.entries) == [f"day-{day}" for day in range(4)]
    assert json.loads(out)["entries"] == json.loads((tmp_path / "telemetry.json").read_text())["entries"]
    status, _, error = _run(tmp_path, "ledger record telemetry.json --local-epsilon 4 --reports 1_000 --epsilon 0.2")
    assert status == 1
    assert "budget" in error


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    mechanism = shoal.RandomizedResponse(categories=16, local_epsilon=40)
    return make_exact_world(tmp_path_factory.mktemp("world"), mechanism=mechanism)


@pytest.fixture
def server(world: World) -> Iterator[tuple[SmallServer, list[Asked]]]:
    posts: list[Asked] = []

    def answer(asked: Asked) -> Said:
        if asked.method == "POST":
            posts.append(asked)
            return Said(201)
        return Said(body=b'{"round": 1, "closes": 2e9}' if asked.path.endswith("/round") else world.task.to_bytes())

    with small_server(answer, world.shuffler) as running:
        yield running, posts


def test_a_person_can_report_once_a_round(
    tmp_path: Path, world: World, server: tuple[SmallServer, list[Asked]]
) -> None:
    """Two processes at once send one report: the state folder is locked, and the second finds what the first left."""
    running, posts = server
    address = f"--shuffler https://127.0.0.1:{running.port} --ca {world.shuffler['tls_certificate']}"
    report = f"report 7 --task {world.task_path} {address}"
    processes = [_start(tmp_path, "shoal", *report.split(), "--json") for _ in range(2)]
    said = [process.communicate(timeout=120) for process in processes]
    assert [error for _, error in said] == ["", ""]
    assert sorted(json.loads(out)["new"] for out, _ in said) == [False, True]
    assert len(posts) == 1


def test_the_shuffler_says_where_it_runs(tmp_path: Path) -> None:
    files = "--key a --tls-certificate b --tls-key c --analyst-certificate d --open"
    status, out, error = _run(tmp_path, f"shuffler serve --task task.json --folder rounds {files}")
    assert (status, out) == (2, "")
    assert error.startswith("shoal: the shuffler runs on Linux and macOS, and not on Windows;")
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())
