"""The steps of docs/collecting.md, each in a process of its own."""

import json
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

_PAGE = Path(__file__).parents[2] / "docs" / "collecting.md"
_PATIENCE = 60.0


def _section(title: str) -> str:
    return re.split(rf"(?m)^#+ {title}$", _PAGE.read_text(encoding="utf-8"))[1].split("\n## ", 1)[0]


def _lines(machine: str, section: str = "Collecting") -> list[str]:
    return re.findall(rf"(?m)^{machine}\$ (?:.* \| )?(shoal .*)$", _section(section))


def _made() -> list[str]:
    """Return the lines that make keys and the task, whose rounds are shorter here."""
    section = _section("Collecting").replace("--round 20s", "--round 3s")
    return re.findall(r"(?m)^\$ (shoal (?:keygen|task) .*)$", section)


def _free_ports() -> tuple[int, int]:
    with socket.socket() as first, socket.socket() as second:
        for each in (first, second):
            each.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]


def _command(line: str, ports: tuple[int, int]) -> list[str]:
    _, *words = shlex.split(line.replace("8440", str(ports[0])).replace("8441", str(ports[1])))
    return [sys.executable, "-m", "shoal", *words]


@pytest.mark.slow
def test_readme_lines_on_three_machines(tmp_path: Path) -> None:
    ports = _free_ports()
    made = _made()
    assert len(made) == 4
    for line in made:
        subprocess.run(_command(line, ports), cwd=tmp_path, check=True, capture_output=True)
    (serve,), reports = _lines("shuffler"), _lines("phone")
    assert len(reports) == 3
    serve += f" --port {ports[0]} --analyst-port {ports[1]}"
    with subprocess.Popen(_command(serve, ports), cwd=tmp_path, stdout=subprocess.PIPE, text=True) as shuffler:
        try:
            assert shuffler.stdout is not None and str(ports[0]) in shuffler.stdout.readline()
            for report in reports:
                subprocess.run(_command(report, ports), cwd=tmp_path, check=True, capture_output=True, input=b"red\n")
            pull, count, estimate = _lines("analyst")
            deadline = time.monotonic() + _PATIENCE
            pulled: list[int] = []
            while not pulled and time.monotonic() < deadline:
                done = subprocess.run(
                    [*_command(pull, ports), "--json"], cwd=tmp_path, check=False, capture_output=True, text=True
                )
                pulled = json.loads(done.stdout)["rounds"] if done.returncode == 0 else []
            assert pulled
            for line in (count, estimate):
                subprocess.run(_command(line, ports), cwd=tmp_path, check=True, capture_output=True)
            assert (tmp_path / "answer.png").stat().st_size > 1000
        finally:
            shuffler.send_signal(signal.SIGTERM)
    assert shuffler.returncode == 0


@pytest.mark.slow
def test_tasks_of_covers_dummies_and_heavy_hitters_are_made_as_the_page_says(tmp_path: Path) -> None:
    """In the order of the page, every line of it that needs no running shuffler."""
    messages, search = "Covers and dummies", "Heavy hitters, round by round"
    plan, dummies, helped = _lines("asker", messages)
    keys = _made()[:2], _lines("helper", messages)[:1], _lines("analyst", search)[:1]
    for line in (*keys[0], *keys[1], *keys[2], plan, dummies, helped, *_lines("asker", search)):
        subprocess.run(_command(line, (8440, 8441)), cwd=tmp_path, check=True, capture_output=True)
    for name in ("dummies", "helped", "pages"):
        assert json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
