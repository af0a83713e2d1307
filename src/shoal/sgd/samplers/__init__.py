"""Samplers: how the steps of an epoch are drawn, one file each. A new file registers itself."""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
