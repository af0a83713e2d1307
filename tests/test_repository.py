"""The files around the code: clean text, and workflows whose every command exists."""

import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.version import Version

import shoal

_ROOT = Path(__file__).parents[1]
_FOLDERS = (".ci", ".github", "benchmarks", "docs", "examples", "recipe", "src", "tests")
_TEXT = {"", ".cff", ".css", ".md", ".properties", ".py", ".toml", ".txt", ".typed", ".yaml", ".yml"}
_FILES = sorted(
    path
    for path in (*_ROOT.iterdir(), *(path for folder in _FOLDERS for path in (_ROOT / folder).rglob("*")))
    if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".coverage")
)
_WORKFLOWS = sorted((_ROOT / ".github" / "workflows").iterdir())
_TARGETS = set(re.findall(r"(?m)^([\w.-][\w./-]*):(?!=)", (_ROOT / "Makefile").read_text()))


def _loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def _steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in _loaded(path)["jobs"].values() for step in job["steps"]]


def _faults(content: bytes) -> list[str]:
    """Return what is wrong with the bytes of a text."""
    kinds = {
        "ends of lines of another system": rb"\r",
        "blanks at the end of a line": rb"(?m)[ \t]+$",
        "no end of the last line, or too many": rb"[^\n]\Z|\n\n\Z",
        "marks of a merge": rb"(?m)^(<{7}|>{7})",
    }
    return [kind for kind, pattern in kinds.items() if re.search(pattern, content)]


@pytest.mark.slow
def test_text_is_clean() -> None:
    assert all(_faults(text) for text in (b"a\r\n", b"a \nb\n", b"a", b"a\n\n", b"<<<<<<< a\n"))
    faults = {path: _faults(path.read_bytes()) for path in _FILES if path.suffix in _TEXT}
    assert len(faults) > 300
    assert not {path: faults for path, faults in faults.items() if faults}


def test_no_file_is_large() -> None:
    """But for the file of answers and the lock, which are as long as what they hold."""
    held = {"answers.jsonl", "requirements.txt"}
    assert all(path.stat().st_size < 300_000 or path.name in held for path in _FILES)


@pytest.mark.parametrize("path", _WORKFLOWS, ids=lambda path: path.stem)
def test_every_command_of_a_workflow_exists(path: Path) -> None:
    """A target of the Makefile, a script of the repository, or Python with files that exist; never a secret."""
    commands = [step["run"] for step in _steps(path) if "run" in step]
    assert commands
    for command in commands:
        program, *arguments = command.split("#")[0].split()
        if program == "make":
            assert arguments[0] in _TARGETS, command
        elif program == "python":
            assert arguments[:2] in (["-m", "pip"], ["-m", "pytest"]), command
        else:
            assert (_ROOT / program).stat().st_mode & 0o111, command
        for named in re.findall(r"@(\S+)", command):
            assert (_ROOT / named).is_file()
    assert "secrets." not in path.read_text()


@pytest.mark.parametrize("path", _WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_and_may_only_read(path: Path) -> None:
    """By a major version; one job alone may do more, and only ask for an identity."""
    used = [step["uses"] for step in _steps(path) if "uses" in step]
    assert used
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@(release/)?v\d+", action) for action in used), used
    assert _loaded(path)["permissions"] == {"contents": "read"}
    more = [job["permissions"] for job in _loaded(path)["jobs"].values() if "permissions" in job]
    assert more == ([{"id-token": "write"}] if path.stem == "publish" else [])


def test_every_python_that_is_promised_is_tested() -> None:
    """On every system; and the least of them is the one that the types are checked for."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())
    core = _loaded(_ROOT / ".github" / "workflows" / "test.yml")["jobs"]["core"]["strategy"]["matrix"]
    promised = re.findall(r"Python :: (3\.\d+)", "\n".join(project["project"]["classifiers"]))
    assert core["python"] == promised == sorted(promised, key=Version)
    assert [name.split("-")[0] for name in core["system"]] == ["ubuntu", "macos", "windows"]
    assert project["project"]["requires-python"] == f">={promised[0]}"
    assert project["tool"]["mypy"]["python_version"] == promised[0]


@pytest.mark.slow
def test_the_core_is_tested_with_the_core_alone() -> None:
    """What the workflow runs on every system is collected where no extra but the command line is installed."""
    extras = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    names = {re.split(r"\W", line)[0] for extra, lines in extras.items() if extra != "all" for line in lines}
    names -= {re.split(r"\W", line)[0] for line in extras["cli"]}
    missing = sorted(names | {"dp_accounting", "fcntl", "resource"})
    script = f"""
import sys, pytest
class Missing:
    def find_spec(name, path, target=None):
        if name.partition(".")[0] in {missing!r}:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Missing)
sys.exit(pytest.main(["@tests/core.txt", "--collect-only", "-p", "no:xdist", "-p", "no:cov"]))
"""
    result = subprocess.run([sys.executable, "-c", script], cwd=_ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr
    assert int(re.findall(r"(\d+)(?:/\d+)? tests? collected", result.stdout)[-1].split("/")[0]) > 500


@pytest.mark.parametrize(
    ("changed", "areas"),
    [
        (["src/shoal/numerics/normal.py"], ["accounting", "data", "training", "collect", "interfaces"]),
        (["src/shoal/curve.py"], ["accounting", "data", "training", "collect", "interfaces"]),
        (["pyproject.toml", "docs/index.md"], ["accounting", "data", "training", "collect", "interfaces"]),
        (["tests/planning/test_plan.py"], ["data", "training", "collect", "interfaces"]),
        (["src/shoal/sgd/run.py"], ["training", "interfaces"]),
        (["src/shoal/collect/stores/sqlite.py", "CHANGELOG.md"], ["collect", "interfaces"]),
        (["docs/rounds.md", "tests/test_site.py", "src/shoal/cli/app.py"], ["interfaces"]),
        ([], []),
    ],
)
def test_a_change_runs_the_tests_of_areas_that_it_can_break(changed: list[str], areas: list[str]) -> None:
    assert runpy.run_path(str(_ROOT / ".ci" / "areas"))["areas_of"](changed) == areas


def test_every_folder_belongs_to_an_area() -> None:
    """Each folder of tests is in a list of the Makefile, so that `make test AREA=` leaves none of them out."""
    listed = set(re.findall(r"(?m)^IN_\w+ := (.*)$", (_ROOT / "Makefile").read_text()))
    folders = {path.parent.name for path in (_ROOT / "tests").glob("*/__init__.py")}
    assert folders - {name for line in listed for name in line.split()} == set()


def test_other_settings_can_be_read() -> None:
    updates = {update["package-ecosystem"] for update in _loaded(_ROOT / ".github" / "dependabot.yml")["updates"]}
    assert updates == {"github-actions", "pip"}
    for path in (_ROOT / ".github" / "ISSUE_TEMPLATE").iterdir():
        form = _loaded(path)
        assert path.stem == "config" or ({"name", "description", "body"} <= set(form) and form["body"]), path
    for hook in _loaded(_ROOT / ".pre-commit-config.yaml")["repos"][0]["hooks"]:
        words = hook["entry"].split()
        assert words[0].startswith(".venv/bin/") or (words[0] == "make" and words[1] in _TARGETS)
        assert all((_ROOT / word).exists() for word in words if word.startswith("tests/"))


@pytest.mark.skipif(sys.platform == "win32", reason="needs make")
@pytest.mark.parametrize("tag, code", [(f"v{shoal.__version__}", 0), (shoal.__version__, 2), ("v0.0.0", 2)])
def test_only_the_version_can_be_a_tag(tag: str, code: int, tmp_path: Path) -> None:
    """And only one that the changelog has a section for."""
    changelog = tmp_path / "CHANGELOG.md"
    changelog.write_text(f"# Changelog\n\n## [{shoal.__version__}] – 2026-12-01\n")
    command = ["make", "--silent", "tagged", f"TAG={tag}", f"CHANGELOG={changelog}"]
    assert subprocess.run(command, cwd=_ROOT, capture_output=True, check=False).returncode == code
    changelog.write_text("# Changelog\n\n## [Unreleased]\n")
    assert subprocess.run(command, cwd=_ROOT, capture_output=True, check=False).returncode == 2


def test_every_folder_of_tests_is_in_one_area() -> None:
    """`make test AREA=…` leaves out no test, if it is run for all areas."""
    listed = re.findall(r"(?m)^IN_\w+ := (.*)$", (_ROOT / "Makefile").read_text(encoding="utf-8"))
    folders = [name for line in listed for name in line.split()]
    having_tests = {path.parent.name for path in (_ROOT / "tests").glob("*/test_*.py")}
    having_tests |= {path.parents[1].name for path in (_ROOT / "tests").glob("*/*/test_*.py")}
    assert sorted(folders) == sorted({*having_tests, "test_*.py"})
