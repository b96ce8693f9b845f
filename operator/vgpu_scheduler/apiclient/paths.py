"""Where the API server serves the objects that are read and written one by one."""

from __future__ import annotations


def object_path(collection: str, namespace: str, name: str) -> str:
    """Return the path of an object of a collection.

    Parameters
    ----------
    collection
        Where all objects of the kind are listed.
    namespace
        Empty for a kind that has none.
    """
    group, _, plural = collection.rpartition("/")
    return f"{group}/namespaces/{namespace}/{plural}/{name}" if namespace else f"{collection}/{name}"


def node_path(name: str) -> str:
    """Return the path of a node."""
    return object_path("/api/v1/nodes", "", name)


def pod_path(namespace: str, name: str, subresource: str = "") -> str:
    """Return the path of a pod, or of a subresource of it."""
    path = object_path("/api/v1/pods", namespace, name)
    return f"{path}/{subresource}" if subresource else path
