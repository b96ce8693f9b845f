"""The pods of the demo."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NAMESPACE = "default"


def pod_of(
    name: str,
    asks: Mapping[str, int],
    *,
    annotations: Mapping[str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
    namespace: str = NAMESPACE,
) -> dict[str, Any]:
    """Return a pod that asks for NVIDIA cards.

    Parameters
    ----------
    asks
        Amounts of resources, by name without the domain (``gpumem``).
    """
    limits = {f"nvidia.com/{resource}": str(amount) for resource, amount in asks.items()}
    containers = [{"name": "main", "image": "example", "resources": {"limits": limits}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "annotations": dict(annotations or {})},
        "spec": {"schedulerName": "vgpu-scheduler", "containers": containers, **(spec or {})},
    }
