"""The rights of a command's user in a live cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import compress

from vgpu_scheduler.apiclient import ApiClient, ApiError, ApiUnreachableError, is_allowed, map_concurrently
from vgpu_scheduler.reading.options import ClusterOptions
from vgpu_scheduler.reading.view import connect_to


def namespaces_to_delete_pods_in(cluster: ClusterOptions, namespaces: Iterable[str]) -> frozenset[str]:
    """Return the namespaces in which the user may delete pods; without an answer of the API server, none."""

    async def ask() -> frozenset[str]:
        try:
            async with await connect_to(cluster) as api:
                return await may_delete_pods_in(api, namespaces)
        except ApiUnreachableError:
            return frozenset()

    return asyncio.run(ask())


async def may_delete_pods_in(api: ApiClient, namespaces: Iterable[str]) -> frozenset[str]:
    """Return the namespaces in which the API server lets the user delete pods; no answer counts as no."""

    async def may(namespace: str) -> bool:
        try:
            return await is_allowed(api, {"verb": "delete", "resource": "pods", "namespace": namespace})
        except (ApiError, ApiUnreachableError):
            return False

    asked = sorted(set(namespaces))
    allowed = await map_concurrently(may, asked)
    return frozenset(compress(asked, allowed))
