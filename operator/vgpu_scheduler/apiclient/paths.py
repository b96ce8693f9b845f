"""Where the API server serves the objects that are read and written one by one."""

from __future__ import annotations


def node_path(name: str) -> str:
    """Return the path of a node."""
    return f"/api/v1/nodes/{name}"


def pod_path(namespace: str, name: str, subresource: str = "") -> str:
    """Return the path of a pod, or of a subresource of it."""
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    return f"{path}/{subresource}" if subresource else path
