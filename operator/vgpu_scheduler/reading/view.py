"""The objects of a cluster that decisions depend on, from the live cluster or from files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from vgpu_scheduler import __version__
from vgpu_scheduler.apiclient import ApiClient, ApiUnreachableError, collection_path, connect, map_concurrently
from vgpu_scheduler.groups import POD_GROUP_KINDS
from vgpu_scheduler.intake import (
    BUDGETS,
    CLUSTER_POLICIES,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    POLICIES,
    QUOTAS,
    SELECTING,
    STORAGE,
    VOLUME_CLAIMS,
    VOLUMES,
    Kind,
)
from vgpu_scheduler.kube import Object, decode_json, in_namespaces
from vgpu_scheduler.policy import NAMESPACED_KIND
from vgpu_scheduler.reading.files import FileError, check_extent, documents, documents_of, yaml_files
from vgpu_scheduler.reading.lists import MissingList, list_objects, right_to_list
from vgpu_scheduler.reading.options import ClusterOptions
from vgpu_scheduler.reading.settings import (
    SchedulerSettings,
    SettingsObjects,
    settings_from_file,
    settings_from_objects,
)
from vgpu_scheduler.whatif import FileObject, WorldError, flatten, kinds_read, newest_time, read_at

OnProgress = Callable[[str], None]
"""Is called with what is being read, for a user who waits."""

_OBSERVED: Final[Sequence[Kind[Any]]] = [
    CLUSTER_POLICIES,
    POLICIES,
    NODES,
    QUOTAS,
    PODS,
    VOLUME_CLAIMS,
    VOLUMES,
    *STORAGE,
    BUDGETS,
    *POD_GROUPS,
]
DECODED_KINDS: Final[Sequence[Kind[Any]]] = [NAMESPACES, *_OBSERVED, *SELECTING]
"""The kinds that decisions depend on, with what decodes their objects."""
LIST_PATHS: Final[Mapping[str, str]] = {
    NAMESPACES.name: NAMESPACES.path,
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    **{kind.name: kind.path for kind in _OBSERVED},
}
"""Where the objects of each kind are listed."""
SELECTING_PATHS: Final[Mapping[str, str]] = {kind.name: kind.path for kind in SELECTING}
"""Where those are listed that say which pods belong together; only the system's spread needs them."""
ALL_KINDS: Final = frozenset(LIST_PATHS.keys() | SELECTING_PATHS.keys())
NAMESPACED_KINDS: Final = frozenset(
    {
        "Pod",
        "ResourceQuota",
        "PersistentVolumeClaim",
        "PodDisruptionBudget",
        NAMESPACED_KIND,
        "PodGroup",
        *(kind.name for kind in POD_GROUPS),
    }
)
"""Those of LIST_PATHS of which a namespace has its own."""
_IN_NAMESPACES: Final = frozenset({*NAMESPACED_KINDS, *SELECTING_PATHS, "CSIStorageCapacity"})
_POD_GROUPS: Final = frozenset(kind.name for kind in POD_GROUPS)
_TYPES: Final[Mapping[str, Object]] = {
    kind.name: {"apiVersion": kind.api_version, "kind": "PodGroup"} for kind in POD_GROUP_KINDS
}
REQUIRED_KINDS: Final = frozenset({"Node", "Pod"})
"""Without these nothing can be said about placements."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What could be read of a cluster.

    Attributes
    ----------
    objects
        As they are written.
    missing
        The kinds that could not be listed, with the right that is missing or the error.
    scheduler
        The settings of its scheduler.
    live
        Whether it was read from the API and not from files.
    origin
        The files that it was read from.
    read_at
        The time of day when it was read, or the newest one that its objects tell of; None if they tell of none.
    settings_objects
        The objects that the settings were read from; none where a settings file stands for them.
    kinds
        The kinds that were read, those included of which there was no object.
    namespace
        The one that alone was read; empty where all were.
    """

    objects: Sequence[Object]
    missing: Mapping[str, MissingList]
    scheduler: SchedulerSettings
    live: bool = False
    origin: str = ""
    read_at: datetime | None = None
    settings_objects: Sequence[Object] = ()
    kinds: frozenset[str] = frozenset()
    namespace: str = ""

    def has_read(self, kind: str) -> bool:
        """Tell whether the objects of a kind were read, be there none."""
        if self.live or kind in self.kinds:
            return kind not in self.missing
        return any(obj.get("kind") == kind for obj in self.objects)


def read_cluster(options: ClusterOptions, on_progress: OnProgress = lambda _: None) -> ClusterView:
    """Read a cluster: from files, where some are given, else the live one with the user's own rights.

    Raises
    ------
    FileError, SettingsError, ApiUnreachableError, ConfigException
        If files cannot be read, or the cluster not be reached.
    """
    if not options.files:
        return asyncio.run(_connect_and_read(options, on_progress))
    files = _read_files(options.files, on_progress)
    installed = SettingsObjects(options.scheduler_namespace)
    if options.config is None:
        installed = SettingsObjects.among(files.objects, options.scheduler_namespace)
    by_objects = installed.config_map is not None
    return ClusterView(
        installed.removed_from(files.objects) if by_objects else files.objects,
        {},
        settings_from_objects(installed, options.overrides)
        if by_objects
        else settings_from_file(options.config, options.overrides),
        origin=", ".join(map(str, options.files)),
        read_at=max(files.times, default=None) or newest_time(files.objects),
        settings_objects=installed.objects if by_objects else (),
        kinds=frozenset(files.kinds),
    )


@dataclass(slots=True)
class _Files:
    """What files hold: objects, and what they say of when and of which kinds these were read."""

    objects: list[FileObject] = field(default_factory=list)
    times: list[datetime] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)


def read_files(paths: Sequence[Path], on_progress: OnProgress = lambda _: None) -> list[FileObject]:
    """Return the objects of files and folders; an error names the file.

    Raises
    ------
    FileError
        If a file cannot be read, or a folder has none.
    """
    return _read_files(paths, on_progress).objects


def _read_files(paths: Sequence[Path], on_progress: OnProgress) -> _Files:
    found = _Files()
    for path in paths:
        files = list(yaml_files(path))
        if not files:
            raise FileError(f"{path}: there is no YAML or JSON file in it")
        for file in files:
            on_progress(f"reading {file}")
            try:
                for document in documents(file):
                    found.kinds |= kinds_read(document)
                    if (time := read_at(document)) is not None:
                        found.times.append(time)
                    found.objects += written_in(document, str(file))
            except WorldError as error:
                raise FileError(f"{file}: {error}") from None
    return found


def objects_of_text(text: str, where: str) -> list[FileObject]:
    """Return the objects of a text in YAML that anybody may have written.

    Parameters
    ----------
    where
        What messages call it.

    Raises
    ------
    FileError
        If it cannot be understood.
    """
    check_extent(text, where)
    try:
        return [obj for document in documents_of(text, where) for obj in written_in(document, where)]
    except WorldError as error:
        raise FileError(f"{where}: {error}") from None


def written_in(document: Any, origin: str) -> list[FileObject]:
    """Return the objects of a document, which know where they are from.

    Raises
    ------
    WorldError
        If something in it is no object.
    """
    found = [FileObject(obj) for obj in flatten([document])]
    for obj in found:
        obj.origin = origin
    return found


async def _connect_and_read(options: ClusterOptions, on_progress: OnProgress) -> ClusterView:
    async with await connect_to(options) as api:
        return await read_live_cluster(api, options, on_progress)


async def connect_to(options: ClusterOptions) -> ApiClient:
    """Connect to the live cluster with the user's own credentials."""
    return await connect(options.kubeconfig, options.context, f"vgpu-scheduler-cli/{__version__}")


async def read_live_cluster(
    api: ApiClient,
    options: ClusterOptions,
    on_progress: OnProgress = lambda _: None,
    kinds: Collection[str] = ALL_KINDS,
    namespace: str = "",
) -> ClusterView:
    """Read a live cluster.

    Parameters
    ----------
    kinds
        The kinds that are listed; those that list devices beside nodes are listed in any case, and those that say which
        pods belong together only where the scheduler ranks nodes by it.
    namespace
        Read the objects of this one alone, of kinds that namespaces have; empty for those of all.

    Raises
    ------
    ApiUnreachableError
        If it does not answer.
    SettingsError
        If the settings file cannot be read.
    """
    settings, installed = await read_scheduler(api, options)
    objects: dict[str, list[Object]] = {}
    missing: dict[str, MissingList] = {}
    times: list[datetime] = []

    async def read_kind(at: tuple[str, str]) -> None:
        kind, path = at
        listed = await list_objects(api, [path])
        if is_optional(kind) and (listed.refusal is not None or not listed.served):
            return
        if listed.refusal is not None:
            missing[kind] = listed.missing(right_to_list(path), where_listed(kind, namespace))
            return
        times.append(listed.read_at or datetime.now(UTC))
        on_progress(f"{len(listed.items)} objects of kind {kind}")
        objects[kind] = [with_kind(kind, decode_json(item)) for item in listed.items]

    wanted = {kind: path for kind, path in list_paths(settings).items() if kind in kinds or kind not in ALL_KINDS}
    if namespace:
        wanted |= {kind: collection_path(path, namespace) for kind, path in wanted.items() if kind in NAMESPACED_KINDS}
    await map_concurrently(read_kind, wanted.items())
    ordered = [obj for kind in wanted for obj in objects.get(kind, ())]
    now = max(times, default=None)
    return ClusterView(
        ordered,
        missing,
        settings,
        live=True,
        read_at=now,
        settings_objects=installed.objects,
        kinds=frozenset(objects),
        namespace=namespace,
    )


async def read_scheduler(api: ApiClient, options: ClusterOptions) -> tuple[SchedulerSettings, SettingsObjects]:
    """Read the settings of the scheduler of a live cluster, and the objects that hold them.

    Raises
    ------
    SettingsError
        If a settings file is named that cannot be read.
    """
    if options.config is not None:
        return settings_from_file(options.config, options.overrides), SettingsObjects(options.scheduler_namespace)
    installed = await SettingsObjects.read(api, options.scheduler_namespace)
    return settings_from_objects(installed, options.overrides), installed


def list_paths(scheduler: SchedulerSettings) -> dict[str, str]:
    """Return where the objects of each kind are listed that decisions of a scheduler depend on."""
    options = scheduler.options
    beside = {kind.name: kind.path for dialect in options.dialects if (kind := dialect.inventory.kind)}
    return {**LIST_PATHS, **(SELECTING_PATHS if options.system_spread else {}), **beside}


def where_listed(kind: str, namespace: str = "") -> str:
    """Say in which namespaces the objects of a kind are listed; empty where they are in none.

    Parameters
    ----------
    namespace
        The one that is read; empty for all.
    """
    return in_namespaces(namespace) if kind in _IN_NAMESPACES else ""


def is_optional(kind: str) -> bool:
    """Tell whether nothing is missing where a kind cannot be seen: most clusters have none, most users no right."""
    return kind in _POD_GROUPS


def with_kind(kind: str, obj: Object) -> dict[str, Any]:
    """Return an object of a list, which need not say of which kind it is, as it is written alone."""
    return {**_TYPES.get(kind, {"kind": kind}), **obj}


def read_namespace(options: ClusterOptions, namespace: str, kinds: Collection[str] = ALL_KINDS) -> ClusterView:
    """Read what somebody may see who has rights in one namespace of the live cluster.

    Raises
    ------
    ApiUnreachableError, SettingsError, ConfigException
        As for :func:`read_cluster`.
    """

    async def read() -> ClusterView:
        async with await connect_to(options) as api:
            return await read_live_cluster(api, options, kinds=kinds, namespace=namespace)

    return asyncio.run(read())


async def get_object(options: ClusterOptions, path: str) -> Object | str:
    """Return one object of the live cluster, or why it cannot be read."""
    async with await connect_to(options) as api:
        try:
            response = await api.request("GET", path)
        except ApiUnreachableError as error:
            return str(error)
    if not response.ok:
        return response.message
    content = decode_json(response.body)
    return content if isinstance(content, dict) else "the answer is no object"
