"""The wheel and the source distribution: what `make dist` builds holds all of shoal, and nothing else.

They are built, unless the environment variable SHOAL_DIST names a folder with both. SHOAL_SBOM names the bill of
materials, which `make dist` writes.
"""

import json
import os
import re
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
    assert metadata.project_urls == project["urls"]
    assert metadata.description_content_type == "text/markdown"
    assert metadata.license_expression == "Apache-2.0"
    assert set(metadata.provides_extra or ()) == set(project["optional-dependencies"])
    plain = [each for each in metadata.requires_dist or () if each.marker is None]
    assert {str(each) for each in plain} == {str(Requirement(line)) for line in project["dependencies"]}


def test_the_readme_is_whole_and_each_link_leads_somewhere_from_an_index(wheel: Path) -> None:
    """It is README.md but for addresses: every relative one became that of the same file at the tag of this version."""
    with zipfile.ZipFile(wheel) as file:
        shown = Metadata.from_email(file.read(f"{_STEM}.dist-info/METADATA")).description or ""
    text = (_ROOT / "README.md").read_text(encoding="utf-8")
    link = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
    assert link.sub(r"\1[\2]()", shown) == link.sub(r"\1[\2]()", text)
    repository = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]["urls"]["Repository"]
    relative = 0
    for (picture, _, ours), (_, _, theirs) in zip(link.findall(text), link.findall(shown), strict=True):
        if ours != theirs:
            kind, tag, path = theirs.removeprefix(f"{repository}/").split("/", 2)
            assert (tag, path) == (f"v{shoal.__version__}", ours)
            assert (kind == "tree") == (_ROOT / ours).is_dir()
            assert (kind == "raw") == (picture == "!")
            relative += 1
        assert theirs.startswith("https://")
    assert relative > 15


def test_a_build_elsewhere_is_the_same_byte_for_byte(folder: Path, wheel: Path, tmp_path: Path) -> None:
    """From the source distribution, in another folder, at another time, with other permissions of new files."""
    with tarfile.open(folder / f"{_STEM}.tar.gz") as file:
        file.extractall(tmp_path, filter="data")
    for path in tmp_path.rglob("*"):
        os.utime(path, (1.5e9, 1.5e9))
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path / "again")]
    subprocess.run(command, cwd=tmp_path / _STEM, check=True, umask=0o077)
    for built in (wheel, folder / f"{_STEM}.tar.gz"):
        assert (tmp_path / "again" / built.name).read_bytes() == built.read_bytes(), built.name


def test_the_source_distribution_can_be_tested(folder: Path) -> None:
    """It has every file of the repository that `make test` reads, and nothing that was built."""
    with tarfile.open(folder / f"{_STEM}.tar.gz") as file:
        names = {name.removeprefix(f"{_STEM}/") for name in file.getnames()}
    for name in (
        "Makefile",
        "pyproject.toml",
        "requirements.txt",
        "requirements-torch.txt",
        "CHANGELOG.md",
        "LICENSE",
        "Containerfile",
        "recipe/recipe.yaml",
    ):
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


@pytest.mark.skipif("SHOAL_SBOM" not in os.environ, reason="`make dist` writes it")
def test_the_bill_of_materials_lists_what_users_get() -> None:
    """Each library that is asked for, at the version of the lock, and none that only developers need."""
    bill = json.loads(Path(os.environ["SHOAL_SBOM"]).read_text())
    assert (bill["bomFormat"], bill["metadata"]["component"]["name"]) == ("CycloneDX", "shoal-dp")
    listed = {each["name"].lower(): each.get("version") for each in bill["components"]}
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    lines = [*project["project"]["dependencies"], *(line for name in extras if name != "all" for line in extras[name])]
    pins = dict(re.findall(r"(?m)^([\w.-]+)==(\S+)", (_ROOT / "requirements.txt").read_text().lower()))
    assert all(pins[name] == version for name, version in listed.items())
    assert {Requirement(line).name for line in lines} - {"torch"} <= set(listed)  # its build is the user's choice
    tools = {
        Requirement(line).name.lower() for name in ("lint", "release") for line in project["dependency-groups"][name]
    }
    assert not tools & set(listed)
    assert all(each["externalReferences"][0]["hashes"] for each in bill["components"])
