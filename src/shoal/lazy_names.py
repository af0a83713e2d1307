"""Modules that are imported when they are needed: public names, and files of a folder that register what they have."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pkgutil import iter_modules

__all__ = ["gather", "lazy_names"]


def lazy_names(
    package: str, modules: Mapping[str, tuple[str, ...]], *, extra: str | None = None
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package whose names live in these modules.

    Parameters
    ----------
    package : str
        The name of the package.
    modules : Mapping
        The public names of each module. A name that equals that of a submodule of the package would be hidden by it.
    extra : str, optional
        What to install where a name needs a library that is not there; `MissingExtraError` says so.

    Examples
    --------
    >>> load, names = lazy_names("shoal", {"shoal.errors": ("ShoalError",), "shoal.sgd": ()})
    >>> names()
    ['ShoalError', 'sgd']
    """
    homes = {name: module for module, names in modules.items() for name in names}
    packages = {module.rpartition(".")[2]: module for module, names in modules.items() if not names}

    def load(name: str) -> object:
        if name in packages:
            return import_module(packages[name])
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            value = getattr(import_module(homes[name]), name)
        except ModuleNotFoundError as error:
            if extra is None or error.name is None or error.name.partition(".")[0] == "shoal":
                raise
            from shoal.errors import MissingExtraError

            raise MissingExtraError(f'{package}.{name} needs {error.name}: pip install "shoal-dp[{extra}]"') from None
        setattr(sys.modules[package], name, value)  # the next time, it is simply there
        return value

    return load, lambda: sorted((*homes, *packages))


def gather(folder: str, *, suffix: str = "") -> None:
    """Import the files of a package whose names have this suffix, so that they register what they have.

    Parameters
    ----------
    folder : str
        The name of the package.
    suffix : str
        How the names of the files end; all of them are imported if it is empty.

    Examples
    --------
    >>> gather("shoal.proofs", suffix="_claim")
    >>> import sys
    >>> "shoal.proofs.clone_claim" in sys.modules
    True
    """
    for module in iter_modules(import_module(folder).__path__):
        if module.name.endswith(suffix):
            import_module(f"{folder}.{module.name}")
