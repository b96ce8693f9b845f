"""Imports of kubernetes-asyncio what finds a cluster, and the rest of it when somebody asks for that.

Its package imports a class for each kind of object and each API at once: 800 modules that take about 50 MiB, and a
third of the time of all that a command imports, and of which nothing here is used. These packages are there from the
beginning, then, and run their own imports when an attribute is asked for that they do not have yet.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import MappingProxyType
from typing import Any, Final

_PACKAGES: Final = ("kubernetes_asyncio", "kubernetes_asyncio.client", "kubernetes_asyncio.client.models")
_NEEDED: Final[Mapping[str, str]] = MappingProxyType({"ApiClient": "api_client", "Configuration": "configuration"})
"""What finding a cluster needs of the client, and the modules that it is in."""


def defer_imports() -> None:
    """Have these packages run their imports when they are needed; nothing where one of them did already."""
    if not any(name in sys.modules for name in _PACKAGES):
        for name in _PACKAGES:
            _defer(name, _NEEDED if name.endswith(".client") else {})


def _defer(name: str, needed: Mapping[str, str]) -> None:
    spec = find_spec(name)
    if spec is None or spec.loader is None:
        return  # whoever imports it says so
    package, loader = module_from_spec(spec), spec.loader

    def attribute(asked: str) -> Any:
        if asked in needed:
            return getattr(import_module(f"{name}.{needed[asked]}"), asked)
        if asked.startswith("__"):  # Python itself asks for these while it imports
            raise AttributeError(f"module {name!r} has no attribute {asked!r}")
        if find_spec(f"{name}.{asked}") is not None:
            return import_module(f"{name}.{asked}")
        vars(package).pop("__getattr__", None)
        loader.exec_module(package)
        return getattr(package, asked)

    vars(package)["__getattr__"] = attribute
    sys.modules[name] = package
    parent, _, last = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], last, package)


defer_imports()
