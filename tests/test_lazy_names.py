"""Public names are loaded when they are used, and files of a folder are imported by the ends of their names."""

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal import collect
from shoal.lazy_names import gather, lazy_names


@pytest.mark.parametrize("package", [shoal, collect])
def test_names_are_imported_from_where_type_checkers_see_them(package: Any) -> None:
    tree = ast.parse(Path(package.__file__).read_text())
    (checked,) = (node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in checked.body if isinstance(node, ast.ImportFrom)]
    assert all(each.asname == each.name for node in imports for each in node.names)  # else mypy hides them
    assert package.__all__ == dir(package) == sorted(each.name for node in imports for each in node.names)


@pytest.mark.parametrize("package", [shoal, collect])
def test_every_name_can_be_loaded_and_none_is_hidden_by_a_module(package: Any) -> None:
    for name in package.__all__:
        assert getattr(package, name) is not None
        assert f"{package.__name__}.{name}" not in sys.modules or name in ("errors", "sgd")


def test_importing_loads_neither_numpy_nor_a_room() -> None:
    code = "import shoal, sys; print(*(name for name in sys.modules if name.split('.')[0] in ('numpy', 'shoal')))"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout.split() == ["shoal.lazy_names", "shoal"]


@pytest.mark.slow
def test_the_catalogue_is_whole_whatever_was_imported_before() -> None:
    code = "from shoal.catalogue import theorems; print(len(theorems('training')), len(theorems()))"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    training, every = map(int, run.stdout.split())
    assert training == len(shoal.theorems("training")) > 0
    assert every == len(shoal.theorems()) > training


def test_a_name_that_is_not_there_is_refused() -> None:
    load, names = lazy_names("shoal")
    assert names() == shoal.__all__
    assert load("ShoalError") is shoal.ShoalError
    with pytest.raises(AttributeError, match="module 'shoal' has no attribute 'nothing'"):
        load("nothing")


@pytest.mark.slow
def test_a_name_whose_library_is_missing_says_which_extra_brings_it() -> None:
    """And every name of `shoal` itself is there with the core alone."""
    code = """
import sys
libraries = ("starlette", "uvicorn", "httptools", "cyclopts", "rich", "pandas", "pyarrow", "matplotlib", "torch")
class Missing:
    def find_spec(name, path, target=None):
        if name.partition(".")[0] in libraries:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Missing)
import shoal
from shoal import collect
assert all(hasattr(shoal, name) for name in shoal.__all__)
for name in collect.__all__:
    try:
        getattr(collect, name)
    except shoal.errors.MissingExtraError as error:
        print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    said = run.stdout.splitlines()
    assert [line.split()[0] for line in said] == [f"shoal.collect.{name}" for name in ("Listeners", "Service", "serve")]
    assert all(line.endswith(' needs starlette: pip install "shoal-dp[collect]"') for line in said)


def test_an_error_of_ours_is_not_taken_for_a_missing_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lazy_package.py").write_text("if TYPE_CHECKING:\n    from shoal.is_not_there import Thing as Thing\n")
    monkeypatch.syspath_prepend(tmp_path)
    load, _ = lazy_names("lazy_package", extra="collect")
    with pytest.raises(ModuleNotFoundError, match="is_not_there") as told:
        load("Thing")
    assert not isinstance(told.value, shoal.errors.MissingExtraError)


def test_only_files_with_the_suffix_are_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "gathered_here"
    folder.mkdir()
    for name in ("__init__", "one_claim", "two_claim", "other"):
        (folder / f"{name}.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    gather("gathered_here", suffix="_claim")
    imported = {name for name in sys.modules if name.startswith("gathered_here.")}
    assert imported == {"gathered_here.one_claim", "gathered_here.two_claim"}
    for name in (*imported, "gathered_here"):
        monkeypatch.delitem(sys.modules, name)
