"""A copy of the package into which a recipe puts its files: what is counted is what a contributor touches."""

import filecmp
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

_SOURCE = Path(__file__).parents[2] / "src" / "shoal"


class CopiedPackage:
    """The package in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "shoal"
        shutil.copytree(_SOURCE, self._path, ignore=shutil.ignore_patterns("__pycache__"))

    def add(self, path: str, text: str) -> None:
        """Add a file, which must not be there."""
        with (self._path / path).open("x", encoding="utf-8") as file:
            file.write(text)

    @property
    def touched(self) -> list[str]:
        """The files that are not as they were."""
        paths = {path.relative_to(root) for root in (_SOURCE, self._path) for path in root.rglob("*.py")}
        _, differ, missing = filecmp.cmpfiles(_SOURCE, self._path, sorted(map(str, paths)), shallow=False)
        return sorted([*differ, *missing])

    def answers(self, script: str) -> Any:
        """Run a script with this package, and return what it prints as JSON."""
        environment = {**os.environ, "PYTHONPATH": str(self._path.parent), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-W", "error", "-c", script]
        result = subprocess.run(
            command, cwd=self._path.parent, env=environment, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)


PRINTED = '''
import contextlib, io, json
from shoal.cli import main

def printed(line):
    """Return what a command prints."""
    with contextlib.redirect_stdout(io.StringIO()) as text:
        assert main(line.split()) == 0
    return text.getvalue()
'''
"""The beginning of a script that asks the command line."""
