"""Completion of object names for the shell."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from vgpu_scheduler.apiclient import collection_path
from vgpu_scheduler.cli.cluster.namespaces import chosen_namespace
from vgpu_scheduler.cli.cluster.options import NamespaceOptions
from vgpu_scheduler.cli.cluster.world import make_world
from vgpu_scheduler.kube import decode_json
from vgpu_scheduler.reading import (
    LISTED_RESOURCES,
    ClusterOptions,
    ClusterView,
    card_places,
    connect_to,
    list_objects,
    read_cluster,
    read_live_cluster,
)
from vgpu_scheduler.whatif import World, namespace_of

_SECONDS: Final = 5.0
"""The longest time (seconds) to read the cluster for a completion."""


def names(what: str, given: Mapping[str, Any], incomplete: str) -> list[str]:
    """Return the names of a kind that begin with the word; none if they cannot be read.

    Parameters
    ----------
    what
        ``nodes``, ``cards``, ``models``, ``pods`` or ``namespaces``.
    given
        The options given so far, by parameter name.
    """
    cluster = ClusterOptions(
        given.get("kubeconfig"),
        given.get("context"),
        given.get("scheduler_namespace") or "vgpu-system",
        given.get("config"),
        tuple(given.get("files") or ()),
    )
    chosen = NamespaceOptions(given.get("namespace"), bool(given.get("all_namespaces")))
    with contextlib.suppress(Exception, SystemExit), contextlib.redirect_stderr(io.StringIO()):
        if what == "pods":
            found: Iterable[str] = _pods(cluster, chosen, incomplete)
        elif what in _OF_WORLD:
            found = _OF_WORLD[what](make_world(_view(cluster, {"Node"})))
        else:
            found = (str(each["metadata"]["name"]) for each in _objects(cluster, _KINDS[what]))
        return sorted({name for name in found if name.startswith(incomplete)})
    return []


def _view(cluster: ClusterOptions, kinds: Collection[str]) -> ClusterView:
    return read_cluster(cluster) if cluster.files else asyncio.run(_read(cluster, kinds))


async def _read(cluster: ClusterOptions, kinds: Collection[str]) -> ClusterView:
    async with await connect_to(cluster) as api:
        async with asyncio.timeout(_SECONDS):
            return await read_live_cluster(api, cluster, kinds=kinds)


def _objects(cluster: ClusterOptions, kind: str, path: str = "") -> list[Mapping[str, Any]]:
    """Return the objects of a kind, all or those at an API path."""
    if cluster.files:
        return [obj for obj in read_cluster(cluster).objects if obj.get("kind") == kind]
    return asyncio.run(_list(cluster, path or LISTED_RESOURCES[kind].path))


async def _list(cluster: ClusterOptions, path: str) -> list[Mapping[str, Any]]:
    async with await connect_to(cluster) as api:
        async with asyncio.timeout(_SECONDS):
            return [decode_json(item) for item in (await list_objects(api, path)).items]


def _pods(cluster: ClusterOptions, chosen: NamespaceOptions, incomplete: str) -> Iterable[str]:
    """Yield the names of a namespace's pods, with the namespace if the word has one or all are listed."""
    before, slash, _ = incomplete.partition("/")
    namespace = before if slash else chosen_namespace(chosen, cluster)
    path = collection_path(LISTED_RESOURCES["Pod"].path, namespace) if namespace is not None else ""
    for pod in _objects(cluster, "Pod", path):
        where = namespace_of(pod["metadata"])
        if namespace in {None, where}:
            name = str(pod["metadata"]["name"])
            yield f"{where}/{name}" if slash or namespace is None else name


def _cards(world: World) -> Iterable[str]:
    """Yield the names of cards, both alone and with their nodes."""
    for place in card_places(world):
        yield from (place.name, str(place))


def _models(world: World) -> Iterable[str]:
    return (device.type for _, _, device in world.listed_devices())


_KINDS: Final = {"nodes": "Node", "namespaces": "Namespace"}
_OF_WORLD: Final[Mapping[str, Callable[[World], Iterable[str]]]] = {"cards": _cards, "models": _models}
