"""Read the objects on which decisions depend, from a live cluster or from files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from vgpu_scheduler import __version__
from vgpu_scheduler.apiclient import ApiClient, ApiUnreachableError, collection_path, connect, map_concurrently
from vgpu_scheduler.dialects import Dialects
from vgpu_scheduler.engine import EngineOptions
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
    Absence,
    Kind,
    inventory_kind,
)
from vgpu_scheduler.kube import API_RESOURCES, ApiResource, Decode, Object, decode_json
from vgpu_scheduler.reading.files import FileError, check_extent, documents, documents_of, version_problem, yaml_files
from vgpu_scheduler.reading.lists import MissingList, list_objects
from vgpu_scheduler.reading.options import ClusterOptions
from vgpu_scheduler.reading.settings import (
    SchedulerSettings,
    SettingsObjects,
    settings_from_file,
    settings_from_objects,
)
from vgpu_scheduler.whatif import FileObject, InvalidObjectsError, flatten, kinds_read, newest_time, pods_since, read_at

OnProgress = Callable[[str], None]
"""Called with a description of what is being read, as progress for the user."""

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
_DECODED: Final[Sequence[Kind[Any]]] = [NAMESPACES, *_OBSERVED, *SELECTING]
"""The kinds on which decisions in any dialect depend, with their decoders."""
LISTED_RESOURCES: Final[Mapping[str, ApiResource]] = {
    NAMESPACES.name: NAMESPACES.resource,
    **{kind: API_RESOURCES[kind] for kind in ("PriorityClass", "LimitRange")},
    **{kind.name: kind.resource for kind in _OBSERVED},
}
"""What is listed, by the name of the kind."""
SELECTING_RESOURCES: Final[Mapping[str, ApiResource]] = {kind.name: kind.resource for kind in SELECTING}
"""The kinds that select pods; only the system's default spreading needs them."""
ALL_KINDS: Final = frozenset(LISTED_RESOURCES.keys() | SELECTING_RESOURCES.keys())
NAMESPACED_KINDS: Final = frozenset(
    name
    for name, resource in {**LISTED_RESOURCES, **SELECTING_RESOURCES}.items()
    if resource.namespaced and name != "CSIStorageCapacity"  # those concern pods of all namespaces
)
"""The kinds of which the objects in a pod's namespace are enough to decide it."""
_OPTIONAL: Final = frozenset(kind.name for kind in _DECODED if kind.absence is Absence.SOME_WAIT_IF_DEFINED)
_TYPES: Final[Mapping[str, Object]] = {
    kind.name: {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind} for kind in POD_GROUP_KINDS
}
REQUIRED_KINDS: Final = frozenset({"Node", "Pod"})
"""The kinds without which nothing can be said about placements."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What was read of a cluster.

    Attributes
    ----------
    objects
        The objects as written.
    missing
        The kinds that could not be listed, each with the missing right or the error.
    scheduler
        The settings of its scheduler.
    live
        Whether it was read from the API server, not from files.
    origin
        The files that were read.
    read_at
        When the cluster was read, or else the newest timestamp of its objects; None if they have none.
    settings_objects
        The objects with the settings; empty if a settings file was used instead.
    kinds
        The kinds that were read, including those without objects.
    refused
        The kinds of which it is not known whether the API server serves them: it refused to list them.
    namespace
        The only namespace that was read; empty for all.
    pods_since
        The time since which it also has deleted pods; None if it has none.
    """

    objects: Sequence[Object]
    missing: Mapping[str, MissingList]
    scheduler: SchedulerSettings
    live: bool = False
    origin: str = ""
    read_at: datetime | None = None
    settings_objects: Sequence[Object] = ()
    kinds: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    namespace: str = ""
    pods_since: datetime | None = None

    def has_read(self, kind: str) -> bool:
        """Tell whether the objects of a kind were read, even if there are none."""
        if self.live or kind in self.kinds:
            return kind not in self.missing
        return any(obj.get("kind") == kind for obj in self.objects)


def read_cluster(options: ClusterOptions, on_progress: OnProgress = lambda _: None) -> ClusterView:
    """Read a cluster from files, if any are given, or else the live one with the user's rights.

    Raises
    ------
    FileError, SettingsError, ApiUnreachableError, ConfigException
        If files cannot be read, or the cluster cannot be reached.
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
        pods_since=min(files.pods_since, default=None),
    )


@dataclass(slots=True)
class _Files:
    """The contents of files: objects, and the metadata of snapshots about times and complete kinds."""

    objects: list[FileObject] = field(default_factory=list)
    times: list[datetime] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)
    pods_since: list[datetime] = field(default_factory=list)


def read_files(paths: Sequence[Path], on_progress: OnProgress = lambda _: None) -> list[FileObject]:
    """Return the objects of files and folders.

    Raises
    ------
    FileError
        If a file cannot be read, or a folder has none; the message names it.
    """
    return _read_files(paths, on_progress).objects


def _read_files(paths: Sequence[Path], on_progress: OnProgress) -> _Files:
    found = _Files()
    for path in paths:
        files = list(yaml_files(path))
        if not files:
            raise FileError(f"{path}: it contains no YAML or JSON file")
        for file in files:
            on_progress(f"reading {file}")
            try:
                for document in documents(file):
                    found.kinds |= kinds_read(document)
                    if (time := read_at(document)) is not None:
                        found.times.append(time)
                    if (since := pods_since(document)) is not None:
                        found.pods_since.append(since)
                    found.objects += written_in(document, str(file))
            except InvalidObjectsError as error:
                raise FileError(f"{file}: {error}") from None
    return found


def objects_of_text(text: str, where: str) -> list[FileObject]:
    """Return the objects of an untrusted YAML text.

    Parameters
    ----------
    where
        The name of the text in messages.

    Raises
    ------
    FileError
        If it cannot be understood.
    """
    check_extent(text, where)
    try:
        return [obj for document in documents_of(text, where) for obj in written_in(document, where)]
    except InvalidObjectsError as error:
        raise FileError(f"{where}: {error}") from None


def written_in(document: Any, origin: str) -> list[FileObject]:
    """Return the objects of a document, each with its origin.

    Raises
    ------
    InvalidObjectsError
        If an item is no object, or a policy of a version that does not exist.
    """
    found = [FileObject(obj) for obj in flatten([document])]
    for obj in found:
        obj.origin = origin
        if problem := version_problem(obj):
            raise InvalidObjectsError(problem)
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
        The kinds to list. Kinds that list devices beside nodes are listed if all namespaces are read, and kinds that
        select pods only if the scheduler's default spreading needs them.
    namespace
        Read namespaced kinds of this namespace only; empty for all namespaces. Where the settings may not be read
        either, every dialect is assumed to be in use.

    Raises
    ------
    ApiUnreachableError
        If the API server does not answer.
    SettingsError
        If the settings file cannot be read.
    """
    settings, installed = await read_scheduler(api, options)
    if namespace:
        settings = settings.for_namespace(options.overrides)
    objects: dict[str, list[Object]] = {}
    missing: dict[str, MissingList] = {}
    times: list[datetime] = []
    refused: set[str] = set()

    async def read_kind(asked: tuple[str, ApiResource]) -> None:
        kind, resource = asked
        where = namespace if kind in NAMESPACED_KINDS else ""
        listed = await list_objects(api, collection_path(resource.path, where))
        if is_optional(kind) and (listed.refusal is not None or not listed.served):
            refused.update([kind] if listed.refusal is not None else [])
            return
        if listed.refusal is not None:
            missing[kind] = MissingList.of(resource, listed, where)
            return
        times.append(listed.read_at or datetime.now(UTC))
        on_progress(f"{len(listed.items)} objects of kind {kind}")
        objects[kind] = [with_kind(kind, decode_json(item)) for item in listed.items]

    wanted = {
        kind: resource
        for kind, resource in listed_resources(settings).items()
        if kind in kinds or (kind not in ALL_KINDS and not namespace)
    }
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
        refused=frozenset(refused),
        namespace=namespace,
    )


async def read_scheduler(api: ApiClient, options: ClusterOptions) -> tuple[SchedulerSettings, SettingsObjects]:
    """Read the settings of a live cluster's scheduler, and the objects with these settings.

    Raises
    ------
    SettingsError
        If the given settings file cannot be read.
    ApiUnreachableError
        If the API server does not return the installed objects.
    """
    if options.config is not None:
        return settings_from_file(options.config, options.overrides), SettingsObjects(options.scheduler_namespace)
    installed = await SettingsObjects.read(api, options.scheduler_namespace)
    return settings_from_objects(installed, options.overrides), installed


def listed_resources(scheduler: SchedulerSettings) -> dict[str, ApiResource]:
    """Return the resource of each kind on which the decisions of a scheduler depend."""
    options = scheduler.options
    beside = {resource.kind: resource for resource in Dialects(options.dialects).inventory_kinds}
    return {**LISTED_RESOURCES, **(SELECTING_RESOURCES if options.system_spread else {}), **beside}


def decoders(options: EngineOptions) -> dict[str, Decode[Any]]:
    """Return the decoder of each kind on which decisions depend, by the kind's name in the engine."""
    beside = map(inventory_kind, Dialects(options.dialects).inventory_kinds)
    return {kind.name: kind.decode for kind in (*_DECODED, *beside)}


def is_optional(kind: str) -> bool:
    """Tell whether a kind may be absent: most clusters have no pod groups, and most users no right to list them."""
    return kind in _OPTIONAL


def with_kind(kind: str, obj: Object) -> dict[str, Any]:
    """Return an object with its kind, which items of lists may lack."""
    return {**_TYPES.get(kind, {"kind": kind}), **obj}


def read_namespace(options: ClusterOptions, namespace: str, kinds: Collection[str] = ALL_KINDS) -> ClusterView:
    """Read what a user with rights in one namespace of the live cluster may see.

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
    """Return one object of the live cluster, or the reason why it cannot be read."""
    async with await connect_to(options) as api:
        try:
            response = await api.request("GET", path)
        except ApiUnreachableError as error:
            return str(error)
    if not response.ok:
        return response.message
    content = decode_json(response.body)
    return content if isinstance(content, dict) else "the answer is not an object"
