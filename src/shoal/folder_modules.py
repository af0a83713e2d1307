"""The modules of a folder, which are imported so that they register what they have."""

from importlib import import_module
from pkgutil import iter_modules

__all__ = ["gather"]


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
