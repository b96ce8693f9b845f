"""The new pods that files or a text describe, each in the namespace in which kubectl would create it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from vgpu_scheduler.kube import Object, Pod
from vgpu_scheduler.model import did_you_mean, first_of, quoted
from vgpu_scheduler.reading.applied import as_applied, immutable_fields, without_existing
from vgpu_scheduler.reading.created import as_created, claim_problems, refuse
from vgpu_scheduler.reading.policies import title
from vgpu_scheduler.reading.schedulers import assumed_scheduler_note
from vgpu_scheduler.reading.view import LISTED_RESOURCES, NAMESPACED_KINDS, SELECTING_RESOURCES, ClusterView
from vgpu_scheduler.settings import Settings
from vgpu_scheduler.whatif import (
    WORKLOADS,
    FileObject,
    InvalidObjectsError,
    PodSet,
    WorkloadPods,
    World,
    is_workload,
    made_by,
    unknown_fields,
    with_job_sets,
)

Warn = Callable[[str], None]
"""Called with each warning for the user."""

_ALWAYS_THERE: Final = "default"
_NAMESPACE: Final = re.compile("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_ENDS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""The characters of which the API server makes the ends of names."""
_END: Final = 5
_LONGEST: Final = 63
"""The lengths of such an end, and of the longest name that has one."""
_NAMES_NODE: Final = (
    "names a node (spec.nodeName): it would be created there, without a scheduler and without cards; it is "
    "placed as if it named none"
)
_NO_CLAIM: Final = "its controller does not create it, since the API server refuses {}"
_INSTEAD_OF: Final = {
    "CronJob": " (write its spec.jobTemplate as a Job)",
    "DaemonSet": " (write its spec.template as a Pod, one for each of its nodes)",
    "Job.batch.volcano.sh": " (it is left to Volcano's scheduler; write each of its spec.tasks as a Job)",
    "RayCronJob": " (write its spec.jobTemplate as a RayJob)",
    "RayService": " (write its spec.rayClusterConfig as a RayCluster)",
    "TrainJob": " (add its runtime to the files)",
}
"""What to write instead of objects of a known kind that cannot be placed."""


def new_pods(
    world: World, view: ClusterView, objects: Sequence[FileObject], warn: Warn, *, once: bool = False
) -> list[Pod]:
    """Return the pods of objects, or one of each template, after adding the other objects to the world.

    Raises
    ------
    InvalidObjectsError
        If a pod cannot be understood.
    """
    _add_beside(world, view, objects, warn)
    workloads = [(obj, made_by(obj)) for obj in objects if is_workload(obj)]
    world.make_controllers(controller for _, made in workloads for controller in made.controllers)
    refused = _make_claims(world, view, objects, [claim for _, made in workloads for claim in made.claims], warn)
    world.add(group for _, made in workloads for group in made.groups)
    first = slice(1) if once else slice(None)
    pods: list[Pod] = []
    told: dict[str, dict[str, None]] = {}
    for obj, made in workloads:
        _tell_of(obj, made, warn)
        if not made.pods:
            warn(f"{title(obj)}: it asks for no pods")
        for each in made.sets:
            found, texts = _stored(world, view.scheduler.settings, obj, each, each.pods[first])
            for text in texts:
                told.setdefault(text, {})[title(obj)] = None
            refuse(world, found, next((_NO_CLAIM.format(title(c)) for c in made.claims if title(c) in refused), ""))
            pods += found
    for namespace in sorted({pod.namespace for pod in pods} - {*world.namespaces, _ALWAYS_THERE}):
        if not _NAMESPACE.fullmatch(namespace):
            name = quoted(namespace)
            raise InvalidObjectsError(
                f"Namespace {name}: a name has at most 63 lower-case letters, digits and '-' inside"
            )
        if view.has_read("Namespace"):
            warn(f"Namespace {namespace} does not exist: the API server accepts no pod of it before it is created")
    for text, titles in told.items():
        warn(f"{first_of([*titles], 1)}: {text}")
    for key, times in Counter(pod.key for pod in pods).items():
        if times > 1:
            warn(f"Pod {key} is defined {times} times: each is placed")
    return pods


def _add_beside(world: World, view: ClusterView, objects: Sequence[FileObject], warn: Warn) -> None:
    """Add the objects that are neither workloads nor nodes as they are once they are applied."""
    beside = [obj for obj in objects if not is_workload(obj) and obj.get("kind") != "Node"]
    for obj, name in immutable_fields(view.objects, beside):
        warn(f"{title(obj)}: spec.{name} is not that of the one that is there, which the API server leaves as it is")
    for is_class in (True, False):  # the classes first, since one may be the default class of claims
        some = [obj for obj in beside if (obj.get("kind") == "StorageClass") == is_class]
        world.add(as_applied(world, view.objects, some))


def _make_claims(
    world: World, view: ClusterView, objects: Sequence[FileObject], made: Sequence[Object], warn: Warn
) -> set[str]:
    """Make the claims of workloads; warn about claims that the API server refuses, and return their titles."""
    written = [obj for obj in objects if obj.get("kind") == "PersistentVolumeClaim"]
    refused: set[str] = set()
    for claim, text in claim_problems(world, [*written, *without_existing(view.objects, made)]):
        warn(f"{title(claim)}: {text}")
        refused.add(title(claim))
    world.make_volume_claims(claim for claim in made if title(claim) not in refused)
    return refused


def at_home(objects: Sequence[FileObject], home: str, named: str | None = None) -> list[FileObject]:
    """Return objects, each with the namespace in which kubectl would create it, and with a name.

    Parameters
    ----------
    home
        The namespace of objects that name none.
    named
        The namespace given with ``-n``, if any.

    Raises
    ------
    InvalidObjectsError
        If an object names another namespace than ``-n``.
    """
    return [_at_home(obj, home, named) for obj in with_job_sets(list(_with_names(objects)))]


def _with_names(objects: Sequence[FileObject]) -> Iterator[FileObject]:
    """Yield objects, those without a name with one that is made of ``metadata.generateName``, as the API server does.

    Its random end depends here on how many objects with that beginning there are before.
    """
    before: Counter[tuple[str, str]] = Counter()
    for obj in objects:
        metadata = obj["metadata"] if is_at_home(obj) else {}
        begins = metadata.get("generateName")
        if begins and isinstance(begins, str) and not metadata.get("name"):
            key = str(obj.get("kind")), begins
            seed = sha256(f"{key} {before[key]}".encode()).digest()
            before[key] += 1
            ends = "".join(_ENDS[each % len(_ENDS)] for each in seed[:_END])
            obj["metadata"] = {**metadata, "name": f"{begins[: _LONGEST - _END]}{ends}"}
            obj.is_named_here = True
        yield obj


def namespaces_of(objects: Sequence[FileObject]) -> list[str]:
    """Return the namespaces of the pods and workloads among objects."""
    return sorted({str(obj["metadata"]["namespace"]) for obj in objects if _has_own_pods(obj)})


def within(objects: Sequence[FileObject], namespace: str) -> list[FileObject]:
    """Return the objects of a namespace, and those without one."""
    return [obj for obj in objects if not is_at_home(obj) or obj["metadata"]["namespace"] == namespace]


_NAMESPACED: Final = frozenset(
    resource.kind for name, resource in {**LISTED_RESOURCES, **SELECTING_RESOURCES}.items() if name in NAMESPACED_KINDS
)


def is_at_home(obj: FileObject) -> bool:
    """Tell whether an object is of a namespaced kind."""
    return (is_workload(obj) or obj.get("kind") in _NAMESPACED) and isinstance(obj.get("metadata"), Mapping)


def _has_own_pods(obj: FileObject) -> bool:
    return is_workload(obj) and is_at_home(obj)


def _at_home(obj: FileObject, home: str, given: str | None) -> FileObject:
    if not is_at_home(obj):
        return obj
    metadata = obj["metadata"]
    named = metadata.get("namespace")
    if named and given not in {None, named}:
        raise InvalidObjectsError(f"{obj.origin}: {title(obj)} names namespace {named}, and -n {given}")
    if not named:
        obj["metadata"] = {**metadata, "namespace": home}
    return obj


def _tell_of(workload: FileObject, made: WorkloadPods, warn: Warn) -> None:
    """Warn about fields of a workload that have no effect, once per template, and about assumptions."""
    for each in made.sets:
        for text in unknown_fields(each.pods[0]) if each.pods else ():
            warn(f"{title(workload)}: {each.path}{text}")
    if workload.is_named_here:
        begins = workload["metadata"]["generateName"]
        warn(f"{title(workload)}: the API server makes another name of metadata.generateName ({begins})")
    for note in made.notes:
        warn(f"{title(workload)}: {note}")


def _stored(
    world: World, settings: Settings, workload: Mapping[str, Any], template: PodSet, pods: Sequence[Mapping[str, Any]]
) -> tuple[list[Pod], list[str]]:
    """Read pods as the API server would store them; also return notes about changes."""
    if not pods:
        return [], []
    first = _pod(world, workload, template, pods[0])
    stored, told, refusal = as_created(world, settings, pods, first.namespace)
    if stored is not pods:
        first = _pod(world, workload, template, stored[0])
    found = [first, *(_pod(world, workload, template, pod) for pod in stored[1:])]
    refuse(world, found, refusal)
    told += [
        assumed_scheduler_note(world, settings, pods[0], first.namespace),
        _NAMES_NODE if first.node_name else "",
    ]
    return found, list(filter(None, told))


def _pod(world: World, workload: Mapping[str, Any], template: PodSet, pod: Mapping[str, Any]) -> Pod:
    """Read a pod; what can be no pod is an error."""
    try:
        read = world.pod(pod, is_new=True)
    except InvalidObjectsError as error:
        raise InvalidObjectsError(f"{getattr(workload, 'origin', 'the file')}: {error}") from None
    if not read.spec.containers:
        empty = f"{template.path}spec.containers is empty"
        raise InvalidObjectsError(f"{title(workload)}: {empty}: the API server rejects such a pod")
    return read


def nothing_to_place(world: World, where: str) -> InvalidObjectsError:
    """Return the error for files without pods, which names the objects in them."""
    hints = {kind: _INSTEAD_OF.get(kind) or did_you_mean(kind, WORKLOADS) for kind in sorted(world.ignored)}
    others = ", ".join(f"{kind or '(none)'}{hint}" for kind, hint in hints.items())
    instead = f"; objects of kind {others} cannot be used here" if others else ""
    return InvalidObjectsError(f"{where}: it contains no pod to place{instead}")
