"""The wheel and the source distribution: what `make dist` builds holds all of shoal, and nothing else.

They are built, unless the environment variable SHOAL_DIST names a folder with both.
"""

import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement

import shoal

pytestmark = pytest.mark.slow
_ROOT = Path(__file__).parents[1]
_STEM = f"shoal_dp-{shoal.__version__}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of both files."""
    if named := os.environ.get("SHOAL_DIST"):
        return Path(named).resolve()
    built = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", built], cwd=_ROOT, check=True)
    return built


@pytest.fixture(scope="module")
def wheel(folder: Path) -> Path:
    return folder / f"{_STEM}-py3-none-any.whl"


def test_a_wheel_and_a_source_distribution_are_all(folder: Path, wheel: Path) -> None:
    assert {path.name for path in folder.iterdir()} == {wheel.name, f"{_STEM}.tar.gz"}


def test_the_wheel_holds_the_library_alone(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        names = [name for name in file.namelist() if not name.startswith(f"{_STEM}.dist-info/")]
    source = _ROOT / "src"
    files = (path for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    expected = {path.relative_to(source).as_posix() for path in files}
    assert sorted(names) == sorted(expected)
    assert "shoal/py.typed" in names


def test_the_metadata_is_valid(wheel: Path) -> None:
    """By the rules of the core metadata, and the same as what pyproject.toml asks for; no group is published."""
    with zipfile.ZipFile(wheel) as file:
        metadata = Metadata.from_email(file.read(f"{_STEM}.dist-info/METADATA"), validate=True)
        assert "LICENSE" in "".join(file.namelist())
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
    assert (metadata.name, str(metadata.version)) == ("shoal-dp", shoal.__version__)
    assert metadata.description == (_ROOT / "README.md").read_text()
    assert metadata.description_content_type == "text/markdown"
    assert metadata.license_expression == "Apache-2.0"
    assert set(metadata.provides_extra or ()) == set(project["optional-dependencies"])
    plain = [each for each in metadata.requires_dist or () if each.marker is None]
    assert {str(each) for each in plain} == {str(Requirement(line)) for line in project["dependencies"]}


def test_the_source_distribution_can_be_tested(folder: Path) -> None:
    """It has every file of the repository that `make test` reads, and nothing that was built."""
    with tarfile.open(folder / f"{_STEM}.tar.gz") as file:
        names = {name.removeprefix(f"{_STEM}/") for name in file.getnames()}
    for name in ("Makefile", "pyproject.toml", "requirements.txt", "requirements-torch.txt", "CHANGELOG.md", "LICENSE"):
        assert name in names
    for top in ("src", "tests", "benchmarks", "examples"):
        assert {path.relative_to(_ROOT).as_posix() for path in (_ROOT / top).rglob("*.py")} <= names
    assert not any("__pycache__" in name or name.startswith((".venv", "dist", ".git/")) for name in names)


def test_the_wheel_answers(wheel: Path) -> None:
    """Imported from the wheel itself, it gives the number of README's first example."""
    script = "import shoal; print(shoal.__file__, shoal.amplify(local_epsilon=1, reports=10_000).epsilon(1e-6))"
    result = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(wheel)},
        capture_output=True,
        check=True,
        text=True,
    )
    path, epsilon = result.stdout.split()
    assert path.startswith(str(wheel))
    assert float(epsilon) == shoal.amplify(local_epsilon=1, reports=10_000).epsilon(1e-6)
