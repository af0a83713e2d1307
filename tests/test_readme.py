"""README's code runs, and prints what README says."""

import doctest
import re
import shlex
from pathlib import Path

import pytest

from shoal.cli import main

_README = Path(__file__).parents[1] / "README.md"


def test_readme_python() -> None:
    results = doctest.testfile(str(_README), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert results.attempted > 10
    assert results.failed == 0


def test_readme_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The script that is not a dialogue runs as it stands."""
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    (script,) = [text for text in re.findall(r"```python\n(.*?)```", _README.read_text(), re.DOTALL) if "torch" in text]
    exec(compile(script, "README.md", "exec"), {})
    assert capsys.readouterr().out.startswith("Guarantee(ε=0.99")
    assert Path("training.shoal").exists()


def _commands() -> list[tuple[str, str]]:
    """Return every `$ shoal …` line of README with the output printed below it."""
    blocks = re.findall(r"```console\n(.*?)```", _README.read_text(), flags=re.DOTALL)
    found = []
    for block in blocks:
        for part in re.split(r"(?m)^\$ ", block)[1:]:
            command, _, output = part.partition("\n")
            if command.startswith("shoal"):
                found.append((command.split("#")[0].strip(), output))
    return found


def test_readme_commands(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One after the other, in one folder, as a reader would."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    colours = ("red", "green", "green", "blue", "blue", "blue", "black", "white")
    rows = "".join(f"{person},{colours[person % len(colours)]}\n" for person in range(20_000))
    Path("people.csv").write_text("person,colour\n" + rows)
    clients = "".join(f"{i % 7},{i % 5},{'yes' if i % 7 > i % 5 else 'no'}\n" for i in range(5_000))
    Path("clients.csv").write_text("age,income,buys\n" + clients)
    commands = _commands()
    assert len(commands) > 5
    for command, output in commands:
        assert main(shlex.split(command)[1:]) == 0, command
        printed = capsys.readouterr().out
        assert printed, command
        if output:
            assert printed == output, command
