"""Commands run in this process, and what they print."""

import json
from typing import Any

import pytest

from shoal.cli import main


def run(capsys: pytest.CaptureFixture[str], command: str) -> tuple[int, str, str]:
    """Return the exit status of a command, what it printed, and what it said on standard error."""
    status = main(command.split())
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def facts_of(capsys: pytest.CaptureFixture[str], command: str, *, status: int = 0) -> dict[str, Any]:
    """Return what a command prints as JSON."""
    found, out, error = run(capsys, f"{command} --json")
    assert (found, error) == (status, "")
    return dict(json.loads(out))


def refused(capsys: pytest.CaptureFixture[str], command: str, status: int = 2) -> str:
    """Return the one line that a command is refused with."""
    found, out, error = run(capsys, command)
    assert (found, out) == (status, "")
    assert error.startswith("shoal: ")
    assert error.count("\n") == 1
    return error
