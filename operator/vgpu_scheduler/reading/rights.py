"""What the user of a command may do in a live cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

from vgpu_scheduler.apiclient import ApiUnreachableError
from vgpu_scheduler.reading.options import ClusterOptions
from vgpu_scheduler.reading.view import connect_to

_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def namespaces_to_delete_pods_in(cluster: ClusterOptions, namespaces: Iterable[str]) -> frozenset[str]:
    """Return in which of some namespaces the user may delete pods; what nobody answers counts as no."""
    return asyncio.run(_allowed(cluster, sorted(set(namespaces)), {"verb": "delete", "resource": "pods"}))


async def _allowed(cluster: ClusterOptions, namespaces: list[str], attributes: Mapping[str, str]) -> frozenset[str]:
    found = set()
    try:
        api = await connect_to(cluster)
    except ApiUnreachableError:
        return frozenset()
    try:
        for namespace in namespaces:
            body: dict[str, Any] = {"spec": {"resourceAttributes": {**attributes, "namespace": namespace}}}
            response = await api.request("POST", _REVIEWS, body)
            if response.ok and response.json()["status"]["allowed"]:
                found.add(namespace)
    except (ApiUnreachableError, ValueError, KeyError, TypeError):
        pass
    finally:
        await api.close()
    return frozenset(found)
