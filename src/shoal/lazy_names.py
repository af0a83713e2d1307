"""Modules that are imported when they are needed: public names, and files of a folder that register what they have.

A package lists its public names once, for type checkers: as imports under ``if TYPE_CHECKING``, each in the form
``from shoal.errors import ShoalError as ShoalError``. What is written there is read when a name is first looked up.
"""

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules


def lazy_names(package: str, *, extra: str | None = None) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package that imports its public names for type checkers only.

    A public name that equals that of a submodule would be hidden by it. Where a name needs a
    library that is not there, `MissingExtraError` says to install `extra`.
    """

    def load(name: str) -> object:
        if name == "__all__":
            return names()
        homes = _homes(package) if not name.startswith("_") else {}
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if homes[name] == package:  # a subpackage
            return import_module(f"{package}.{name}")
        try:
            value = getattr(import_module(homes[name]), name)
        except ModuleNotFoundError as error:
            if extra is None or error.name is None or error.name.partition(".")[0] == "shoal":
                raise
            from shoal.errors import MissingExtraError

            raise MissingExtraError(f'{package}.{name} needs {error.name}: pip install "shoal-dp[{extra}]"') from None
        setattr(sys.modules[package], name, value)  # the next time, it is simply there
        return value

    def names() -> list[str]:
        return sorted(_homes(package))

    return load, names


@cache
def _homes(package: str) -> dict[str, str]:
    """Return the module of each public name of a package, from its source."""
    import ast

    spec = find_spec(package)
    source = spec.loader.get_source(package) if spec is not None and spec.loader is not None else ""  # type: ignore[attr-defined]
    blocks = (node.body for node in ast.parse(source).body if isinstance(node, ast.If))
    imports = (node for block in blocks for node in block if isinstance(node, ast.ImportFrom))
    return {each.name: str(node.module) for node in imports for each in node.names}


def gather(folder: str, *, suffix: str = "") -> None:
    """Import the files of a package whose names have this suffix, so that they register what they have."""
    for module in iter_modules(import_module(folder).__path__):
        if module.name.endswith(suffix):
            import_module(f"{folder}.{module.name}")
