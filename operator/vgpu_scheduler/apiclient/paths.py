"""Paths of objects on the API server."""

from __future__ import annotations

from typing import Final

from vgpu_scheduler.kube import API_RESOURCES

_NODES: Final = API_RESOURCES["Node"].path
_PODS: Final = API_RESOURCES["Pod"].path


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
    return object_path(_NODES, "", name)


def pod_path(namespace: str, name: str, subresource: str = "") -> str:
    """Return the path of a pod, or of a subresource of it."""
    path = object_path(_PODS, namespace, name)
    return f"{path}/{subresource}" if subresource else path
