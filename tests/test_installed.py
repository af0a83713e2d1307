"""The wheel in empty environments, with extras and without what developers install: examples run.

Libraries come from the package index, or from the folder that pip is configured to use, at the
versions of requirements.txt. If they cannot be had, these tests fail: nothing else shows that an
extra names all that its verbs import.
"""

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tests.cli.test_examples import examples, write_samples

pytestmark = pytest.mark.slow
_ROOT = Path(__file__).parents[1]
_CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("PYTHONPATH")}
_MORE = ("cli", "collect", "files", "opendp", "plot", "postgres", "web")
"""All extras except the ones that need hundreds of megabytes or install scipy."""
_NEEDS = {
    "randomize": "files",
    "quantiles": "files",
    "sum": "files",
    "compose": "plot",
    "ledger show": "plot",
}
"""Examples that `[cli]` alone need not run, if they say which extra they need."""
_AFTER = ("shuffle", "aggregate", "estimate")
"""Examples that read what `randomize` writes."""
_RUN = """
import contextlib, importlib.util, io, json, sys
import shoal
from shoal.cli import main
assert shoal.__file__.startswith(sys.prefix), shoal.__file__
assert importlib.util.find_spec("scipy") is None and importlib.util.find_spec("pytest") is None
for name, words in json.load(sys.stdin):
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        status = main(words)
    print(json.dumps([name, status, bool(out.getvalue()), errors.getvalue()]), flush=True)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=_ROOT, check=True)
    (built,) = folder.glob("*.whl")
    pins = re.findall(r"(?m)^([\w.-]+==\S+(?: ; .*?)?) \\$", (_ROOT / "requirements.txt").read_text())
    (folder / "constraints.txt").write_text("\n".join(pins) + "\n")
    return built


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an empty environment, to which the tests add extras in the order of this file."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return folder / "bin" / "python"


def _install(python: Path, wheel: Path, *extras: str) -> None:
    """Install the wheel with these extras."""
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-compile"]
    result = subprocess.run(
        [*command, "--constraint", str(wheel.parent / "constraints.txt"), f"{wheel}[{','.join(extras)}]"],
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        pytest.fail(
            f"pip could not install the wheel with {', '.join(extras)}. This test needs the package index that `make "
            f"test` installs from, or a folder with its files (PIP_FIND_LINKS). pip says:\n{result.stderr[-2000:]}"
        )


def _run(python: Path, commands: list[tuple[str, list[str]]], folder: Path) -> dict[str, tuple[int, bool, str]]:
    """Run commands in one folder, and return of each the exit status, whether it printed, and its errors."""
    folder.mkdir()
    write_samples(folder)
    result = subprocess.run(
        [python, "-c", _RUN],
        input=json.dumps(commands),
        cwd=folder,
        env=_CLEAN,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    return {name: (status, printed, errors) for name, status, printed, errors in lines}


def test_the_command_line_alone_runs_its_examples(wheel: Path, python: Path, tmp_path: Path) -> None:
    """Examples that read tables or draw pictures may name the extra that does it."""
    _install(python, wheel, "cli")
    commands = [example for example in examples() if example[0] not in (*_AFTER, "figures")]
    found = _run(python, commands, tmp_path / "work")
    assert len(found) > 20 and set(found) == {name for name, _ in commands}
    for name, (status, printed, errors) in found.items():
        named = name in _NEEDS and status == 2 and f"shoal-dp[{_NEEDS[name]}]" in errors
        assert named or (status == 0 and printed), (name, errors)
    program = python.with_name("shoal")
    assert subprocess.run([program, "--version"], env=_CLEAN, capture_output=True, check=True).stdout


def test_other_extras_run_what_they_are_for(wheel: Path, python: Path, tmp_path: Path) -> None:
    """Tables, pictures, a collection from keys to a histogram, and the page."""
    _install(python, wheel, *_MORE)
    commands = [example for example in examples() if example[0] in (*_NEEDS, *_AFTER, "plan", "ledger record")]
    found = _run(python, commands, tmp_path / "work")
    assert [(name, errors) for name, (status, printed, errors) in found.items() if status or not printed] == []
    demo = [str(python), "-m", "examples.collection_demo", "--people", "300", "--folder", str(tmp_path / "demo")]
    result = subprocess.run(demo, cwd=_ROOT, env=_CLEAN, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-2000:]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    page = subprocess.Popen([python.with_name("shoal"), "web", "--port", str(port)], env=_CLEAN)
    try:
        end = time.monotonic() + 120
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as answer:
                    assert answer.status == 200
                break
            except OSError:
                assert page.poll() is None and time.monotonic() < end
                time.sleep(0.1)
    finally:
        page.terminate()
        page.wait()
