"""Paths of objects on the API server."""

from __future__ import annotations


def collection_path(collection: str, namespace: str) -> str:
    """Return the path of a kind's objects in a namespace, or of all its objects if the namespace is empty.

    Parameters
    ----------
    collection
        The path of all objects of the kind.
    """
    group, _, plural = collection.rpartition("/")
    return f"{group}/namespaces/{namespace}/{plural}" if namespace else collection


def object_path(collection: str, namespace: str, name: str) -> str:
    """Return the path of an object.

    Parameters
    ----------
    collection
        The path of all objects of the kind.
    namespace
        Empty for cluster-scoped kinds.
    """
    return f"{collection_path(collection, namespace)}/{name}"


def node_path(name: str) -> str:
    """Return the path of a node."""
    return object_path("/api/v1/nodes", "", name)


def pod_path(namespace: str, name: str, subresource: str = "") -> str:
    """Return the path of a pod, or of a subresource of it."""
    path = object_path("/api/v1/pods", namespace, name)
    return f"{path}/{subresource}" if subresource else path
