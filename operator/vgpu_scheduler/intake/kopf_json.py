"""How kopf reads JSON: it has no setting for that, and with the standard library's limit one object ends its watch."""

from __future__ import annotations

from typing import Any

import aiohttp
from kopf._cogs.clients import api

from vgpu_scheduler.kube import loads


class _Json:
    """What kopf uses of the module ``json`` to read the lines of a watch."""

    loads = staticmethod(loads)


def read_any_depth() -> None:
    """Have kopf read objects of any depth: the lines of watches, and lists, which aiohttp decodes for it."""
    watches: Any = api
    watches.json = _Json
    lists: Any = aiohttp.ClientResponse.json
    lists.__kwdefaults__["loads"] = loads
