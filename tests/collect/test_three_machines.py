"""The lines of README that begin with the name of a machine, each in a process of its own."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

_README = Path(__file__).parents[2] / "README.md"
_PATIENCE = 60.0


def _lines(machine: str) -> list[str]:
    return re.findall(rf"(?m)^{machine}\$ (shoal .*)$", _README.read_text(encoding="utf-8"))


def _free_ports() -> tuple[int, int]:
    with socket.socket() as first, socket.socket() as second:
        for each in (first, second):
            each.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]


def _command(line: str, ports: tuple[int, int]) -> list[str]:
    _, *words = shlex.split(line.replace("8440", str(ports[0])).replace("8441", str(ports[1])))
    return [sys.executable, "-m", "shoal.cli", *words]


def test_readme_lines_on_three_machines(tmp_path: Path) -> None:
    """A task that two reports are enough for, since its limit is above ε₀; all else is as README has it."""
    ports = _free_ports()
    made = (
        "keygen analyst --folder analyst",
        "keygen shuffler --folder shuffler --host localhost",
        "task new --question Which? --categories red,blue --mechanism randomized-response --local-epsilon 2 --round 3 "
        "--epsilon-limit 3 --minimum 2 --analyst-key analyst/analyst.pub --shuffler-key shuffler/shuffler.pub",
    )
    for line in made:
        subprocess.run(_command(f"shoal {line}", ports), cwd=tmp_path, check=True, capture_output=True)
    (serve,), (report,) = _lines("shuffler"), _lines("phone")
    serve += f" --port {ports[0]} --analyst-port {ports[1]}"
    with subprocess.Popen(_command(serve, ports), cwd=tmp_path, stdout=subprocess.PIPE, text=True) as shuffler:
        try:
            assert shuffler.stdout is not None and str(ports[0]) in shuffler.stdout.readline()
            for person in ("Ann", "Ben"):
                environment = os.environ | {"XDG_STATE_HOME": str(tmp_path / person)}
                subprocess.run(_command(report, ports), cwd=tmp_path, check=True, capture_output=True, env=environment)
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
