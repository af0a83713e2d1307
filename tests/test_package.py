"""The house itself: sorted names, light imports, small files, frozen values."""

import dataclasses
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import shoal
from tests.design_map import drawn, shown

_ROOT = Path(__file__).parents[1]
_SOURCES = sorted((_ROOT / "src" / "shoal").rglob("*.py"))


def test_public_names_are_sorted_and_there() -> None:
    assert all(hasattr(shoal, name) for name in dir(shoal))
    for source in _SOURCES:
        listed = re.search(r"__all__ = \[(.*?)\]", source.read_text(), flags=re.DOTALL)
        if listed:
            names = re.findall(r'"(\w+)"', listed[1])
            assert names == sorted(names, key=lambda name: (not name.isupper(), not name[0].isupper(), name)), source


@pytest.mark.slow
def test_importing_shoal_loads_nothing_heavy() -> None:
    heavy = "scipy", "matplotlib", "flint", "cyclopts", "rich", "multiprocessing.pool"
    script = f"import shoal, sys; print([name for name in {heavy!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    assert result.stdout.strip() == "[]"


def test_values_are_frozen() -> None:
    curve = shoal.amplify(local_epsilon=1, reports=100)
    for value in (curve, shoal.RandomizedResponse(categories=3, local_epsilon=1), curve.certify(delta=1e-3)):
        with pytest.raises(dataclasses.FrozenInstanceError):
            value.local_epsilon = 2.0  # type: ignore[misc, union-attr]


def test_the_version_stands_in_one_file() -> None:
    """The distribution takes it from there, and the newest section of the changelog is this version or not yet out."""
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", shoal.__version__)
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["readme", "version"]
    assert f'__version__ = "{shoal.__version__}"\n' in (_ROOT / project["tool"]["hatch"]["version"]["path"]).read_text()
    newest = re.search(r"(?m)^## \[(.*?)\](?:.*\n)([\s\S]*?)^## \[", (_ROOT / "CHANGELOG.md").read_text())
    assert newest and newest[1] in ("Unreleased", shoal.__version__)
    # What is not released yet must not carry the version of what was: two programs would have one name.
    unreleased = newest[1] == "Unreleased" and newest[2].strip() != ""
    assert unreleased == (".dev" in shoal.__version__)


def test_all_extras_are_in_all() -> None:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    (everything,) = extras["all"]
    named = re.fullmatch(r"shoal-dp\[(.*)\]", everything)
    assert named
    assert named[1].split(",") == sorted(set(extras) - {"all"})


@pytest.mark.parametrize("extra", ["collect", "web"])
def test_what_is_for_verbs_brings_the_command_line(extra: str) -> None:
    extras = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras["cli"]) <= set(extras[extra])


def test_every_test_named_in_the_errata_exists() -> None:
    named = set(re.findall(r"tests/test_errata\.py::(\w+)", (_ROOT / "docs" / "theory" / "errata.md").read_text()))
    defined = set(re.findall(r"^def (test_\w+)", (_ROOT / "tests" / "test_errata.py").read_text(), flags=re.MULTILINE))
    assert named
    assert named <= defined


def test_the_table_of_the_errata_lists_every_item() -> None:
    text = (_ROOT / "docs" / "theory" / "errata.md").read_text()
    assert re.findall(r"(?m)^\| (\d+) \|", text) == re.findall(r"(?m)^### (\d+)\. ", text)


@pytest.mark.slow
def test_the_map_shows_every_module() -> None:
    assert shown() == drawn(), "run: python -m tests.design_map"


def test_no_name_of_a_file_stands_twice() -> None:
    """Where a name stands on two levels it is the same noun: a verb of the command line, its question, what it runs."""
    stems = Counter(path.stem for path in (_ROOT / "src").rglob("*.py") if not {"verbs", "questions"} & set(path.parts))
    twice = {stem for stem, count in stems.items() if count > 1}
    # A sum has the same name in floating point (numerics) and in balls (proofs).
    sums = {"lattice", "listing"}
    assert twice <= {"__init__", "__main__", *sums}, twice
    assert all(
        (_ROOT / "src" / "shoal" / folder / f"{stem}.py").exists() for folder in ("numerics", "proofs") for stem in sums
    )


@pytest.mark.parametrize("lock", ["requirements.txt", "requirements-demo.txt", "benchmarks/requirements.txt"])
def test_everything_in_a_lock_has_a_hash_and_no_address(lock: str) -> None:
    """So that it is the same everywhere, whichever index it comes from."""
    text = (_ROOT / lock).read_text()
    entries = re.findall(r"(?m)^[^#\s][^\\\n]*(?:\\\n[^\\\n]*)+", text)
    assert entries
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}$", entry) for entry in entries)
    assert len(entries) == len(re.findall(r"(?m)^[^#\s]", text)) == len(re.findall(r"(?m)^[\w.-]+==", text))
    assert "://" not in text


def test_the_lock_holds_what_is_asked_for() -> None:
    """Every dependency, extra and group, at a version that is asked for."""
    asked = tomllib.loads((_ROOT / "pyproject.toml").read_text())
    extras, groups = asked["project"]["optional-dependencies"], asked["dependency-groups"]
    lines = [*asked["project"]["dependencies"], *(line for name in extras if name != "all" for line in extras[name])]
    lines += [line for name in ("build", "lint", "lock", "release", "test") for line in groups[name]]
    locks = [(_ROOT / name).read_text() for name in ("requirements.txt", "requirements-torch.txt")]
    pins = {name.lower(): version for name, version in re.findall(r"(?m)^([\w.-]+)==(\S+)", "\n".join(locks))}
    for requirement in map(Requirement, lines):
        assert requirement.specifier.contains(pins[requirement.name.lower()]), requirement
