"""The objects of a cluster that decisions depend on, live or from files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from vgpu_scheduler import __version__
from vgpu_scheduler.apiclient import ApiClient, ApiUnreachableError, connect
from vgpu_scheduler.cli.cluster.lists import list_objects
from vgpu_scheduler.cli.cluster.options import ClusterOptions
from vgpu_scheduler.cli.cluster.settings import Found, Installed, settings_of_file, settings_of_objects
from vgpu_scheduler.cli.files import FileError, documents, yaml_files
from vgpu_scheduler.kube import decode_json
from vgpu_scheduler.policy import CLUSTER_KIND, GROUP, NAMESPACED_KIND, PLURALS, VERSION
from vgpu_scheduler.whatif import WorldError, Written, flatten

Object = Mapping[str, Any]
Told = Callable[[str], None]

_AT_ONCE: Final = 8
_STORAGE: Final = "/apis/storage.k8s.io/v1"
_PATHS: Final[Mapping[str, str]] = {
    "Namespace": "/api/v1/namespaces",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    CLUSTER_KIND: f"/apis/{GROUP}/{VERSION}/{PLURALS[CLUSTER_KIND]}",
    NAMESPACED_KIND: f"/apis/{GROUP}/{VERSION}/{PLURALS[NAMESPACED_KIND]}",
    "Node": "/api/v1/nodes",
    "ResourceQuota": "/api/v1/resourcequotas",
    "Pod": "/api/v1/pods",
    "PersistentVolumeClaim": "/api/v1/persistentvolumeclaims",
    "PersistentVolume": "/api/v1/persistentvolumes",
    "StorageClass": f"{_STORAGE}/storageclasses",
    "CSINode": f"{_STORAGE}/csinodes",
    "CSIDriver": f"{_STORAGE}/csidrivers",
    "CSIStorageCapacity": f"{_STORAGE}/csistoragecapacities",
    "VolumeAttachment": f"{_STORAGE}/volumeattachments",
    "PodDisruptionBudget": "/apis/policy/v1/poddisruptionbudgets",
}
"""Where objects of each kind are listed."""
NEEDED: Final = frozenset({"Node", "Pod"})
"""Without these nothing can be said about placements."""


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen of a cluster.

    Attributes
    ----------
    objects
        As they are written.
    missing
        The rights that were missing, or what else kept a kind from being seen, by kind.
    found
        What its scheduler is set to.
    live
        Whether it is no copy.
    installed
        The objects that the settings of a live cluster were read from.
    """

    objects: Sequence[Object]
    missing: Mapping[str, str]
    found: Found
    live: bool = False
    installed: Sequence[Object] = ()


def look(options: ClusterOptions, told: Told = lambda _: None) -> Look:
    """Look at a cluster: at files, where some are given, else at the live one with the user's own rights.

    Parameters
    ----------
    told
        Told what is read, for whoever waits.

    Raises
    ------
    FileError, SettingsError, ApiUnreachableError, ConfigException
        If files cannot be read, or the cluster not be reached.
    """
    if options.files:
        objects = read_files(options.files, told)
        if options.config is None and (installed := Installed.among(objects, options.scheduler_namespace)).config_map:
            return Look(installed.left(objects), {}, settings_of_objects(installed, options.given))
        return Look(objects, {}, settings_of_file(options.config, options.given))
    return asyncio.run(_connected(options, told))


def read_files(paths: Sequence[Path], told: Told = lambda _: None) -> list[Object]:
    """Return the objects of files and folders; what is wrong with one is said with its file.

    Raises
    ------
    FileError
        If a file cannot be read, or a folder has none.
    """
    found: list[Object] = []
    for path in paths:
        files = list(yaml_files(path))
        if not files:
            raise FileError(f"{path}: there is no YAML or JSON file in it")
        for file in files:
            told(f"reading {file}")
            try:
                for obj in flatten(documents(file)):
                    written = Written(obj)
                    written.origin = str(file)
                    found.append(written)
            except WorldError as error:
                raise FileError(f"{file}: {error}") from None
    return found


async def _connected(options: ClusterOptions, told: Told) -> Look:
    api = await connect(options.kubeconfig, options.context, f"vgpu-scheduler-cli/{__version__}")
    try:
        return await look_at(api, options, told)
    finally:
        await api.close()


async def look_at(
    api: ApiClient,
    options: ClusterOptions,
    told: Told = lambda _: None,
    kinds: Collection[str] = frozenset(_PATHS),
) -> Look:
    """Look at a live cluster.

    Parameters
    ----------
    told
        Told what is read, for whoever waits.
    kinds
        What is listed; what lists devices beside nodes is in any case.

    Raises
    ------
    ApiUnreachableError
        If it does not answer.
    SettingsError
        If the settings file cannot be read.
    """
    installed = await Installed.at(api, options.scheduler_namespace)
    found = (
        settings_of_objects(installed, options.given)
        if options.config is None
        else settings_of_file(options.config, options.given)
    )
    beside = {kind.name: kind.path for dialect in found.dialects if (kind := dialect.inventory.beside)}
    objects: dict[str, list[Object]] = {}
    missing: dict[str, str] = {}
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(kind: str, path: str) -> None:
        async with gate:
            listed = await list_objects(api, [path])
        if listed.refusal is not None:
            missing[kind] = listed.right(f"list {path.rpartition('/')[2]}")
            return
        told(f"{len(listed.items)} objects of kind {kind}")
        objects[kind] = [{**decode_json(item), "kind": kind} for item in listed.items]

    await asyncio.gather(
        *(one(name, path) for name, path in {**_PATHS, **beside}.items() if name in kinds or name in beside)
    )
    ordered = [obj for name in (*_PATHS, *beside) for obj in objects.get(name, ())]
    return Look(ordered, missing, found, live=True, installed=installed.objects)


async def get_object(options: ClusterOptions, path: str) -> Object | str:
    """Return one object of the live cluster, or why it cannot be seen."""
    api = await connect(options.kubeconfig, options.context, f"vgpu-scheduler-cli/{__version__}")
    try:
        response = await api.request("GET", path)
    except ApiUnreachableError as error:
        return str(error)
    finally:
        await api.close()
    if not response.ok:
        return response.message
    content = decode_json(response.body)
    return content if isinstance(content, dict) else "the answer is no object"
