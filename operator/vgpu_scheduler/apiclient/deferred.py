"""Imports of kubernetes-asyncio what finds a cluster, and the rest of it when somebody asks for that.

Its package imports a class for each kind of object and each API at once: 800 modules that take about 40 MiB, and a
third of the time of all that a command imports, and of which nothing here is used. In the place of these packages there
are others from the beginning, which import them when they are asked for an attribute that they do not have.
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
"""What finding a cluster needs of the client, and the modules that it is in."""
_OF_PACKAGES: Final = frozenset({"__all__", "__version__", "__project__"})
"""Names of this form that packages define themselves; others Python asks for while it imports."""


def defer_imports() -> None:
    """Put packages in the place of these that import them when they are needed; nothing where one of them is there."""
    if not any(name in sys.modules for name in _PACKAGES):
        for name in _PACKAGES:
            _defer(name, _NEEDED if name.endswith(".client") else {})


def _defer(name: str, needed: Mapping[str, str]) -> None:
    spec = find_spec(name)
    if spec is None:
        return  # whoever imports it says so
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
    """Return a package as it is, under Python's own lock of it; instead of it there is another one at first."""
    if sys.modules.get(name) is instead:
        del sys.modules[name]
    package = import_module(name)
    for child, module in list(vars(instead).items()):
        if isinstance(module, ModuleType) and module.__name__ == f"{name}.{child}":
            vars(package).setdefault(child, module)  # it was imported before, and so is not set again
    return package


defer_imports()
