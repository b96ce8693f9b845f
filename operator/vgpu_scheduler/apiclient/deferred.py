"""Defers the imports of kubernetes-asyncio that finding a cluster does not need.

The package imports a class for each kind of object and each API at once: 800 modules, which take about 40 MiB and a
third of a command's import time, and are not used here. This module puts placeholders into ``sys.modules`` that import
the real packages when an attribute is requested that the placeholder lacks.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import MappingProxyType, ModuleType
from typing import Any, Final

_PACKAGES: Final = ("kubernetes_asyncio", "kubernetes_asyncio.client", "kubernetes_asyncio.client.models")
_NEEDED: Final[Mapping[str, str]] = MappingProxyType({"ApiClient": "api_client", "Configuration": "configuration"})
"""The classes of the client that finding a cluster needs, and their modules."""
_OF_PACKAGES: Final = frozenset({"__all__", "__version__", "__project__"})
"""Dunder names that the packages define themselves; Python's import system asks for others."""


def defer_imports() -> None:
    """Install the placeholders; does nothing if one of the packages is imported already."""
    if not any(name in sys.modules for name in _PACKAGES):
        for name in _PACKAGES:
            _defer(name, _NEEDED if name.endswith(".client") else {})


def _defer(name: str, needed: Mapping[str, str]) -> None:
    spec = find_spec(name)
    if spec is None:
        return  # the import itself will report the missing package
    package = module_from_spec(spec)

    def attribute(asked: str) -> Any:
        if asked in needed:
            return getattr(import_module(f"{name}.{needed[asked]}"), asked)
        if asked.startswith("__") and asked not in _OF_PACKAGES:
            raise AttributeError(f"module {name!r} has no attribute {asked!r}")
        if asked not in _OF_PACKAGES and find_spec(f"{name}.{asked}") is not None:
            return import_module(f"{name}.{asked}")
        return getattr(_imported(name, package), asked)

    vars(package)["__getattr__"] = attribute
    sys.modules[name] = package
    parent, _, last = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], last, package)


def _imported(name: str, instead: ModuleType) -> ModuleType:
    """Import the real package, under Python's import lock, in place of its placeholder."""
    if sys.modules.get(name) is instead:
        del sys.modules[name]
    package = import_module(name)
    for child, module in list(vars(instead).items()):
        if isinstance(module, ModuleType) and module.__name__ == f"{name}.{child}":
            vars(package).setdefault(child, module)  # imported before the package, so Python does not set it again
    return package


defer_imports()
