"""Where the API server serves objects."""

from __future__ import annotations


def collection_path(collection: str, namespace: str) -> str:
    """Return the path at which the objects of a namespace are listed, or, without one, all.

    Parameters
    ----------
    collection
        Where all objects of the kind are listed.
    """
    group, _, plural = collection.rpartition("/")
    return f"{group}/namespaces/{namespace}/{plural}" if namespace else collection


def object_path(collection: str, namespace: str, name: str) -> str:
    """Return the path of an object of a collection.

    Parameters
    ----------
    collection
        Where all objects of the kind are listed.
    namespace
        Empty for a kind that has none.
    """
    return f"{collection_path(collection, namespace)}/{name}"


def node_path(name: str) -> str:
    """Return the path of a node."""
    return object_path("/api/v1/nodes", "", name)


def pod_path(namespace: str, name: str, subresource: str = "") -> str:
    """Return the path of a pod, or of a subresource of it."""
    path = object_path("/api/v1/pods", namespace, name)
    return f"{path}/{subresource}" if subresource else path
