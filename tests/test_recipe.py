"""What others build shoal from, the conda recipe and the container file, asks for the same as pyproject.toml."""

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement

import shoal

_ROOT = Path(__file__).parents[1]
_PROJECT = tomllib.loads((_ROOT / "pyproject.toml").read_text())
_RECIPE = (_ROOT / "recipe" / "recipe.yaml").read_text()
_CONTAINER = (_ROOT / "Containerfile").read_text()


def _recipe() -> Any:
    """Return the recipe with the values of its context filled in."""
    context = yaml.safe_load(_RECIPE)["context"]
    return yaml.safe_load(re.sub(r"\$\{\{ (\w+) \}\}", lambda name: context[name[1]], _RECIPE))


def _asked(lines: list[str]) -> set[str]:
    return {str(Requirement(line.replace(" ", ""))) for line in lines}


def test_the_recipe_asks_for_what_pip_asks_for() -> None:
    """The library with the command line, and what builds it."""
    recipe, project = _recipe(), _PROJECT["project"]
    run = [*project["dependencies"], *project["optional-dependencies"]["cli"], f"python{project['requires-python']}"]
    assert _asked(recipe["requirements"]["run"]) == _asked(run)
    assert set(_PROJECT["build-system"]["requires"]) <= _asked(recipe["requirements"]["host"][1:])
    scripts = [f"{name} = {target}" for name, target in project["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == scripts


def test_the_recipe_describes_this_version() -> None:
    recipe, project = _recipe(), _PROJECT["project"]
    assert recipe["package"] == {"name": project["name"], "version": shoal.__version__}
    assert recipe["source"]["url"].endswith(f"/shoal_dp-{shoal.__version__}.tar.gz")
    assert re.fullmatch(r"[0-9a-f]{64}", recipe["source"]["sha256"])
    about = recipe["about"]
    assert (about["summary"], about["license"]) == (project["description"], project["license"])
    assert (_ROOT / about["license_file"]).is_file()
    assert about["repository"] == about["homepage"] == project["urls"]["Repository"]
    assert about["documentation"] == project["urls"]["Documentation"]


def test_the_container_runs_the_command_line_as_nobody() -> None:
    """Its last stage has a user by number who is not root, and the command as a list, so that signals reach it."""
    lines = re.findall(r"(?m)^([A-Z]+) (.*)", _CONTAINER)
    bases = [line for word, line in lines if word == "FROM"]
    assert all(re.match(r"python:3\.\d+-slim\b", base) for base in bases)
    assert {base.split()[0].split(":")[1].split("-")[0] for base in bases} <= set(
        re.findall(r"Python :: (3\.\d+)", "\n".join(_PROJECT["project"]["classifiers"]))
    )
    last = dict(lines[max(place for place, (word, _) in enumerate(lines) if word == "FROM") :])
    assert int(last["USER"].split(":")[0]) > 0
    assert yaml.safe_load(last["ENTRYPOINT"]) == list(_PROJECT["project"]["scripts"])
    assert not {"ADD", "ARG", "EXPOSE"} & {word for word, _ in lines}


def test_the_container_has_all_files_that_it_is_built_from() -> None:
    """Also those that README.md links to, without which there is no wheel; libraries come with hashes."""
    copied = [line.split()[:-1] for word, line in re.findall(r"(?m)^([A-Z]+) (.*)", _CONTAINER) if word == "COPY"]
    names = {name for line in copied for name in line if not name.startswith(("--", "/"))}
    assert all((_ROOT / name).exists() for name in names)
    readme = re.findall(r"\]\((?!\w+:|#)([^)\s#]+)", (_ROOT / "README.md").read_text(encoding="utf-8"))
    assert {link.split("/")[0] for link in readme} | {"pyproject.toml", "hatch_build.py", "src"} <= names
    assert "--require-hashes" in _CONTAINER


def test_the_page_on_installing_lists_every_extra_with_its_libraries() -> None:
    page = (_ROOT / "docs" / "start" / "install.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"(?m)^\| `([\w-]+)` \| ([^|;]*)", page))
    extras = _PROJECT["project"]["optional-dependencies"]
    assert rows.keys() == extras.keys()
    for extra, lines in extras.items():
        if extra != "all":
            names = {name.strip().lower().replace("pytorch", "torch") for name in rows[extra].split(",")}
            assert names == {Requirement(line).name for line in lines}, extra
    core = {Requirement(line).name for line in _PROJECT["project"]["dependencies"]}
    assert all(name in page.partition("| extra |")[0] for name in core)


def test_the_image_can_use_postgresql() -> None:
    """The lock that the container installs has the driver."""
    (lock,) = set(re.findall(r"requirements[\w-]*\.txt", _CONTAINER))
    assert re.search(r"(?m)^psycopg-binary==", (_ROOT / lock).read_text())
