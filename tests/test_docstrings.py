"""Docstrings have the layout of numpydoc: a type on the line of the name, the description below, no unknown name."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import pytest
from numpydoc.docscrape import NumpyDocString
from numpydoc.validate import validate

import shoal

_CHECKED = ("GL05", "GL06", "GL07", "GL08", "PR02", "PR04", "PR05", "PR06", "PR07", "RT02", "RT03", "SS01", "SS06")
"""Sections and their order, a docstring at all, parameters that exist with a type and a description, one summary."""
_FACES = ("shoal", "shoal.sgd")
_LONGEST_TYPE = 100


def _modules() -> list[str]:
    """Return the modules of shoal; in the command line docstrings are help, without types."""
    every = (module.name for module in pkgutil.walk_packages(shoal.__path__, "shoal."))
    return [name for name in every if ".cli" not in name and not name.endswith("__main__")]


def _documented(module: str) -> Iterator[str]:
    """Yield the public functions and classes of a module, and the methods of these classes."""
    content = importlib.import_module(module)
    for name, value in vars(content).items():
        own = getattr(value, "__module__", None) == module and (inspect.isclass(value) or inspect.isfunction(value))
        if name.startswith("_") or not own:
            continue
        yield f"{module}.{name}"
        if inspect.isclass(value):
            for key, member in vars(value).items():
                if not key.startswith("_") and isinstance(
                    inspect.unwrap(getattr(member, "__func__", member)), type(_documented)
                ):
                    yield f"{module}.{name}.{key}"


@pytest.mark.slow
@pytest.mark.parametrize("module", _modules())
def test_docstrings_follow_numpydoc(module: str) -> None:
    for name in _documented(module):
        result = validate(name)
        wrong = [f"{code} {text}" for code, text in result["errors"] if code in _CHECKED]
        assert not wrong, f"{name}: {wrong}"
        for section in ("Parameters", "Attributes"):
            for parameter in NumpyDocString(inspect.cleandoc(result["docstring"] or ""))[section]:
                assert len(parameter.type) <= _LONGEST_TYPE, f"{name}: {parameter.name} has a sentence for its type"
                assert not parameter.type.endswith("."), f"{name}: {parameter.name} has a sentence for its type"


@pytest.mark.parametrize("face", _FACES)
def test_functions_of_the_public_faces_document_every_parameter(face: str) -> None:
    content = importlib.import_module(face)
    for name in content.__all__:
        if inspect.isfunction(getattr(content, name)):
            wrong = [text for code, text in validate(f"{face}.{name}")["errors"] if code == "PR01"]
            assert not wrong, f"{face}.{name}: {wrong}"
