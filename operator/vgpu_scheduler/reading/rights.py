"""What the user of a command may do in a live cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from vgpu_scheduler.apiclient import ApiClient, ApiError, ApiUnreachableError, is_allowed
from vgpu_scheduler.reading.options import ClusterOptions
from vgpu_scheduler.reading.view import connect_to


def namespaces_to_delete_pods_in(cluster: ClusterOptions, namespaces: Iterable[str]) -> frozenset[str]:
    """Return in which of some namespaces the user may delete pods; what nobody answers counts as no."""

    async def ask() -> frozenset[str]:
        try:
            async with await connect_to(cluster) as api:
                return await may_delete_pods_in(api, namespaces)
        except ApiUnreachableError:
            return frozenset()

    return asyncio.run(ask())


async def may_delete_pods_in(api: ApiClient, namespaces: Iterable[str]) -> frozenset[str]:
    """Return in which of some namespaces the user may delete pods, as the API says; no answer counts as no."""
    found = set()
    for namespace in sorted(set(namespaces)):
        try:
            if await is_allowed(api, {"verb": "delete", "resource": "pods", "namespace": namespace}):
                found.add(namespace)
        except ApiError:
            continue
        except ApiUnreachableError:
            break
    return frozenset(found)
