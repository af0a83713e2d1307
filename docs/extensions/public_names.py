"""The public names of shoal: those in the `__all__` of its packages, each under the shortest name that it has."""

import inspect
import pkgutil
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import shoal
from shoal.questions.question import names as questions
from shoal.questions.setting import Setting

__all__ = ["PublicName", "packages", "public_names"]

_INTERNAL = {"shoal.cli", "shoal.collect.stores"}
"""Packages whose names are not for others: the command line has its own pages."""
_MODULES = ["auditing", "catalogue", "curve", "errors", "lower_limit", "privacy_profile", "questions", "sweeps"]
"""Modules whose names are public without being names of a package."""


@dataclass(frozen=True)
class PublicName:
    """A name that a package exports.

    Attributes
    ----------
    package, name : str
        Where it stands, and how it is called there.
    value : object
        What it means.
    home : str
        The name under which it is documented: `package.name`, or that in the first package that has it.
    """

    package: str
    name: str
    value: Any
    home: str

    @property
    def kind(self) -> str:
        """What autodoc calls it."""
        if inspect.isclass(self.value):
            return "exception" if issubclass(self.value, BaseException) else "class"
        if inspect.ismodule(self.value):
            return "module"
        return "function" if inspect.isroutine(inspect.unwrap(self.value)) else "data"

    @property
    def summary(self) -> str:
        """The first sentence of its docstring; nothing for a constant."""
        if self.kind in ("data", "module"):
            return ""
        return (inspect.getdoc(self.value) or "").partition("\n\n")[0].replace("\n", " ")


@cache
def packages() -> list[str]:
    """Return the public packages, those with few dots first."""
    found = ["shoal"]
    for module in pkgutil.walk_packages(shoal.__path__, "shoal."):
        if module.ispkg and module.name not in _INTERNAL and getattr(import_module(module.name), "__all__", None):
            found.append(module.name)
    return sorted([*found, *(f"shoal.{name}" for name in _MODULES)], key=lambda name: (name.count("."), name))


@cache
def public_names() -> list[PublicName]:
    """Return the public names, package by package."""
    homes: dict[int, str] = {}
    names = []
    for package in packages():
        content = import_module(package)
        if package == "shoal.questions":
            exported = [(f"{name}.{name}", getattr(import_module(f"{package}.{name}"), name)) for name in questions()]
            exported.append(("setting.Setting", Setting))
        else:
            exported = [(name, getattr(content, name)) for name in content.__all__]
        for name, value in exported:
            home = homes.setdefault(id(value), f"{package}.{name}")
            names.append(PublicName(package, name, value, home))
    return names
