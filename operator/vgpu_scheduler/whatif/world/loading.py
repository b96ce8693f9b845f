"""Load the objects of a cluster from files into a real engine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from typing import NamedTuple
from weakref import WeakKeyDictionary

import msgspec

from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.engine import Engine, EngineOptions, Problem
from vgpu_scheduler.groups import pod_group_kind
from vgpu_scheduler.kube import (
    SELECTING_KINDS,
    STORAGE_DECODERS,
    Namespace,
    NodeInventory,
    Object,
    Pod,
    Versioned,
    decode_budget,
    decode_pod,
    decode_quota,
    decode_selecting,
    with_version,
)
from vgpu_scheduler.model import Device
from vgpu_scheduler.model.untyped import mapping_of
from vgpu_scheduler.policy import CLUSTER_KIND, NAMESPACED_KIND, PolicyResource, decode_policy, title
from vgpu_scheduler.whatif.objects.admission import missing_class, with_defaults
from vgpu_scheduler.whatif.objects.cards import WRITERS
from vgpu_scheduler.whatif.objects.objects import (
    InvalidObjectsError,
    WorldProblem,
    decoded,
    flatten,
    group_of,
    metadata_of,
    name_of,
    namespace_of,
    origin_of,
    read_node,
    with_uid,
)
from vgpu_scheduler.whatif.objects.read_times import KNOWN_FROM
from vgpu_scheduler.whatif.objects.storage import NOT_CREATED_YET, is_default_class
from vgpu_scheduler.whatif.workloads import WORKLOADS, is_workload
from vgpu_scheduler.whatif.world.creation import PodCreation


class ListedDevice(NamedTuple):
    """A device, with the node that lists it and the dialect of its registration."""

    node: str
    dialect: Dialect
    device: Device


class LoadedCluster:
    """A cluster in memory, loaded from objects into an engine of its own.

    Parameters
    ----------
    options
        Options for the engine, as for that of the scheduler; short forms are written in the first dialect.
    strict
        Raise an error for what a real cluster may contain but a test rarely means: policies that cannot be understood,
        duplicate objects, pods on missing nodes or cards. Otherwise these are recorded in ``problems``.
    """

    def __init__(self, options: EngineOptions, *, strict: bool = False) -> None:
        self.engine = Engine(options)
        self.engine.groups.trusts_assumed = True
        self.scheduler_name = options.scheduler_names[0]
        """The scheduler name given to pods that are placed in this world but name another scheduler."""
        self.cards = WRITERS[options.dialects[0].name]
        self.ignored: dict[str, int] = {}
        """Kinds of objects that the loader ignores, with the number of objects of each."""
        self.problems: list[WorldProblem] = []
        """What could not be understood; the engine goes on without it, as in a real cluster."""
        self._strict = strict
        self._homes: dict[str, str] = {}  # card to node
        self.namespaces: dict[str, Mapping[str, str]] = {}
        """The labels of the namespaces, by name."""
        self._namespaces_matter = False
        self.creation = PodCreation()
        """What decides whether, and how, the API server creates pods."""
        self.unread: frozenset[str] = frozenset()
        """Kinds whose objects were not read: an object that is missing here may exist in the cluster."""
        self._numbers = count(1)
        self._takers = self._takers_by_kind()
        self.deleted_pods: list[Pod] = []
        """The pods of a snapshot that were deleted before it was made."""
        self._pods: dict[str, Pod] = {}  # by namespace and name, whether pending, bound or ended
        self._default_classes: dict[str, str] = {}  # with their times of creation
        self._quotas: dict[tuple[str, str], Object] = {}
        self._written: dict[str, Object] = {}  # pods by UID, as they were written
        self._written_specs = WeakKeyDictionary[object, Object]()  # pods by spec, as one of each was written
        self.nodes: dict[str, Object] = {}
        """Nodes by name, as they were written."""
        self.inventory_objects: dict[str, Object] = {}
        """The objects beside nodes that list their devices, by node name."""
        self.policies: dict[str, Object] = {}
        """The policies as they were written, by the title that messages use."""
        self.pod_groups: dict[tuple[str, str], Object] = {}
        """The objects that describe pod groups as they were written, by kind and namespaced name."""
        self.pending: dict[str, Pod] = {}
        """Pods that are not bound and have not ended, by UID."""
        self.bound: dict[str, Pod] = {}
        """Pods that have not ended and are bound, or announced to a node by another scheduler, by UID."""

    def add(self, objects: Iterable[Object]) -> Sequence[WorldProblem]:
        """Add the objects of a cluster, and the items of lists of them.

        Objects that cannot be understood are left out and recorded as problems, as the scheduler does.

        Returns
        -------
        sequence of WorldProblem
            The problems found with these objects.

        Raises
        ------
        InvalidObjectsError
            If an item is not a Kubernetes object; in a strict world, also if an object cannot be understood.
        """
        known = len(self.problems)
        for obj in flatten(objects):
            try:
                self._add(obj)
            except InvalidObjectsError as error:
                if self._strict:
                    raise
                text = f"{origin_of(obj)}{error}: it is ignored, as by the scheduler"
                self.problems.append(WorldProblem(str(obj.get("kind") or ""), name_of(obj), text))
        return self.problems[known:]

    def _add(self, obj: Object) -> None:
        kind = str(obj.get("kind", ""))
        metadata = metadata_of(obj)
        take = self._takers.get(kind)
        if take is None:
            self._ignore(f"{kind}.{group_of(obj)}" if kind in WORKLOADS and not is_workload(obj) else kind)
        else:
            take(obj, str(metadata.get("name", "")), metadata)

    def _ignore(self, kind: str) -> None:
        self.ignored[kind] = self.ignored.get(kind, 0) + 1

    def _takers_by_kind(self) -> Mapping[str, Callable[[Object, str, Object], None]]:
        """Return the functions that add objects, by kind; each takes the object, its name and its metadata."""
        inventories = [resource.kind for resource in self.engine.dialects.inventory_kinds]
        return {
            "Node": lambda obj, *_: self._add_node(obj),
            "Pod": lambda obj, *_: self._add_pod(self.pod(obj)),
            NAMESPACED_KIND: lambda obj, *_: self._add_policy(obj),
            CLUSTER_KIND: lambda obj, *_: self._add_policy(obj),
            "Namespace": lambda _, name, metadata: self._add_namespace(name, metadata.get("labels") or {}),
            "ResourceQuota": lambda obj, *_: self.replace_quota(obj),
            **dict.fromkeys(inventories, lambda obj, name, _: self._add_inventory(name, obj)),
            "PodDisruptionBudget": lambda obj, *_: self._add_budget(obj),
            "PodGroup": lambda obj, *_: self.replace_pod_group(obj),
            "PriorityClass": lambda obj, name, _: self.creation.add_priority_class(name, obj),
            "LimitRange": lambda obj, *_: self.creation.add_limit_range(obj),
            **dict.fromkeys(STORAGE_DECODERS, lambda obj, *_: self._add_storage(str(obj["kind"]), obj)),
            **dict.fromkeys(
                SELECTING_KINDS if self.engine.system_spread else (),
                lambda obj, *_: self._add_selecting(str(obj["kind"]), obj),
            ),
        }

    def _add_pod(self, pod: Pod) -> None:
        if KNOWN_FROM in pod.annotations:
            self.deleted_pods.append(pod)
            return
        if pod.key in self._pods and not self._strict:  # short forms need not be named
            self._problem("Pod", pod.key, " is there twice")
        self._pods[pod.key] = pod
        if home := self.home_of(pod):
            self._add_bound(msgspec.structs.replace(pod, node_name=home))
        else:
            self._add_waiting(pod)

    def home_of(self, pod: Pod) -> str:
        """Return the node of a pod: the one it is bound to, or the one that another scheduler has announced for it."""
        if pod.node_name or pod.terminal or pod.scheduler_name not in self.engine.coexist_with:
            return pod.node_name
        return self.engine.dialects.announced_node(pod)

    def is_announced(self, pod: Pod) -> bool:
        """Tell whether a pod counts as bound only because its scheduler announced a node, and has not bound it yet."""
        written = self._written.get(pod.uid, {}).get("spec") or {}
        unbound = msgspec.structs.replace(pod, node_name="")
        return not written.get("nodeName") and pod.node_name != "" and self.home_of(unbound) == pod.node_name

    def _add_waiting(self, pod: Pod) -> None:
        """Let the engine observe a pod, which may have room reserved; it is tried only when asked about."""
        self._observe("Pod", pod)  # without its version, because a question may change the pod
        self.engine.queue.remove(pod.uid)
        if not (pod.terminal or pod.deleting):
            self.pending[pod.uid] = pod

    def _add_bound(self, pod: Pod) -> None:
        unreadable = self.engine.observe_pod(pod, 0.0)
        if pod.terminal:
            return
        self.bound[pod.uid] = pod
        if not self.has_node(pod.node_name):
            self._problem("Pod", pod.key, f": there is no node {pod.node_name}", missing_node=pod.node_name)
            return
        for problem in unreadable:
            self._problem("Pod", pod.key, f": {problem.message}")
        for dialect, usage in self.engine.uses(pod).items():
            for uuid in sorted(usage.charges.keys() - {device.uuid for device in self.devices(pod.node_name, dialect)}):
                self._problem("Pod", pod.key, f": node {pod.node_name} has no card {uuid}")

    def _add_node(self, obj: Object) -> None:
        node = read_node(obj)
        if self.has_node(node.name):
            self._problem("Node", node.name, " is there twice")
        self.nodes[node.name] = obj
        for problem in self.engine.observe_node(node, 0.0):
            self._problem("Node", node.name, f": {problem.message}")
        for _, dialect, device in self.listed_devices(nodes=(node.name,)):
            if device.vendor not in dialect.inventory.cards or not dialect.inventory.hardware(device):
                continue  # other devices, such as RDMA, share names across nodes
            home = self._homes.setdefault(device.uuid, node.name)
            if home != node.name:
                self._problem("Node", node.name, f": card {device.uuid} is on node {home}, too")

    def _add_inventory(self, name: str, obj: Object) -> None:
        for problem in self._observe_inventory(name, obj):
            self._problem("Node", name, f": {problem.message}")

    def _observe_inventory(self, name: str, obj: Object) -> Sequence[Problem]:
        self.inventory_objects[name] = obj
        return self._observe(str(obj["kind"]), NodeInventory(name, obj))

    def replace_policy(self, obj: Object) -> PolicyResource:
        """Add a policy, or replace an earlier version of it."""
        policy = decode_policy(obj)
        self.policies[title(policy)] = obj
        self._observe(policy.kind, policy)
        return policy

    def policies_in_force(self, pod: Pod, section: str) -> Iterator[tuple[str, Object]]:
        """Yield the policies, with their titles, that set a section of a pod's effective policy."""
        for named in self.engine.policies.resolve(pod).titles(section):
            if named in self.policies:
                yield named, self.policies[named]

    def _add_policy(self, obj: Object) -> None:
        policy = self.replace_policy(obj)
        if policy.error:
            self._problem(policy.kind, name_of(obj), f": {policy.error}")
        self._namespaces_matter |= policy.namespace_selector is not None

    def replace_quota(self, obj: Object) -> None:
        """Add a quota, or replace an earlier version of it.

        Raises
        ------
        InvalidObjectsError
            If the quota cannot be understood.
        """
        metadata = metadata_of(obj)
        quota = decoded(decode_quota, obj, metadata)
        self._quotas[quota.namespace, quota.name] = obj
        for problem in self._observe("ResourceQuota", quota):
            self._problem("ResourceQuota", f"{quota.namespace}/{quota.name}", f": {problem.message}")

    def replace_pod_group(self, obj: Object) -> None:
        """Add an object that describes a pod group, or replace an earlier version; other API groups are ignored.

        Raises
        ------
        InvalidObjectsError
            If the object cannot be understood.
        """
        kind = pod_group_kind(str(obj.get("apiVersion", "")))
        if kind is None:
            self._ignore(f"PodGroup.{group_of(obj)}")
            return
        groups, metadata = self.engine.groups, metadata_of(obj)
        groups.served.add(kind.name)
        try:
            found = decoded(kind.decode, obj, metadata)
        except InvalidObjectsError as error:
            groups.unreadable[kind.name, f"{namespace_of(metadata)}/{metadata.get('name')}"] = str(error)
            raise
        groups.unreadable.pop((kind.name, found.key), None)
        priority = self.creation.priorities.get(found.priority_class) if found.priority is None else found.priority
        self.pod_groups[found.kind, found.key] = obj
        self._observe(kind.name, msgspec.structs.replace(found, priority=priority))

    def _add_budget(self, obj: Object) -> None:
        self.engine.budgets.observe(with_version(decoded(decode_budget, obj, metadata_of(obj)), 0))

    def _add_namespace(self, name: str, labels: object) -> None:
        if not isinstance(labels, Mapping) or not all(isinstance(value, str) for value in labels.values()):
            raise InvalidObjectsError(f"Namespace {name}: metadata.labels is not a map of strings")
        self._observe("Namespace", Namespace(name, dict(labels)))
        self.namespaces[name] = labels

    def ensure_namespace(self, name: str) -> None:
        """Create a namespace without labels, unless there is one of that name."""
        if name in self.namespaces:
            return
        if self._namespaces_matter and not self._strict:
            self._problem("Namespace", name, " does not exist: it is assumed to have no labels")
        self._add({"kind": "Namespace", "metadata": {"name": name}})

    def _add_storage(self, kind: str, obj: Object) -> None:
        metadata = with_uid(kind, obj)
        if kind in {"PersistentVolumeClaim", "CSIStorageCapacity"}:
            metadata["namespace"] = namespace_of(metadata)
        found = decoded(STORAGE_DECODERS[kind], obj, metadata)
        self._observe(kind, found)
        if kind != "StorageClass":
            return
        self._default_classes.pop(found.name, None)  # a file may say that the class is the default no more
        if is_default_class(obj):
            self._default_classes[found.name] = str(metadata_of(obj).get("creationTimestamp") or NOT_CREATED_YET)

    def _add_selecting(self, kind: str, obj: Object) -> None:
        metadata = with_uid(kind, obj)
        found = decoded(partial(decode_selecting, kind), obj, {**metadata, "namespace": namespace_of(metadata)})
        self._observe(kind, found)

    def _observe(self, kind: str, value: Versioned) -> Sequence[Problem]:
        """Let the engine observe an object; it replaces an earlier version, such as one from another file."""
        return self.engine.kinds[kind].observe(with_version(value, 0), 0.0)

    def _problem(self, kind: str, name: str, what: str, *, missing_node: str = "") -> None:
        text = f"{kind} {name}{what}"
        if self._strict:
            raise InvalidObjectsError(text)
        self.problems.append(WorldProblem(kind, name, text, missing_node))

    def pod(self, obj: Object, *, again: bool = False, is_new: bool = False) -> Pod:
        """Read a pod from a file; fields that the API server fills in may be missing.

        Parameters
        ----------
        again
            The pod was read before, and this is another version of it.
        is_new
            The API server has yet to create the pod, and may refuse to; see :meth:`PodCreation.class_refusal`.

        Raises
        ------
        InvalidObjectsError
            If the pod cannot be understood.
        """
        metadata = metadata_of(obj)
        full = {**metadata, "namespace": namespace_of(metadata), "uid": metadata.get("uid") or self.new_uid()}
        wanted = missing_class(obj)
        is_gone = KNOWN_FROM in mapping_of(metadata.get("annotations"))
        unknown = "PriorityClass" in self.unread or again or is_gone or (is_new and self.creation.knows_classes)
        if wanted and wanted not in self.creation.priorities and not unknown:
            key = f"{full['namespace']}/{full.get('name', '')}"
            self._problem("Pod", key, f": there is no PriorityClass {wanted}{self.creation.meant(wanted)}")
        pod = decoded(decode_pod, with_defaults(obj, self.creation.priorities), full)
        if not again:
            self._written[pod.uid] = obj
        self._written_specs[pod.spec] = obj
        return pod

    @property
    def priority_classes(self) -> Collection[str]:
        """The names of the PriorityClasses, those of the system among them."""
        return self.creation.priorities.keys()

    def new_uid(self) -> str:
        """Return a unique pod UID."""
        return f"whatif-{next(self._numbers)}"

    def has_node(self, name: str) -> bool:
        """Tell whether there is a node of that name."""
        return self.engine.state.node(name) is not None

    def devices(self, node: str, dialect: str = "") -> tuple[Device, ...]:
        """Return the devices of a node in a dialect, by default the first one."""
        return self.engine.state.devices_on(node, dialect)

    def listed_devices(
        self, *, nodes: Iterable[str] | None = None, dialects: Collection[Dialect] | None = None
    ) -> Iterator[ListedDevice]:
        """Yield devices by node and then by dialect; by default of all nodes and all dialects."""
        for node in self.nodes if nodes is None else nodes:
            for dialect in self.engine.dialects if dialects is None else dialects:
                for device in self.devices(node, dialect.name):
                    yield ListedDevice(node, dialect, device)

    def is_relevant(self, pod: Pod) -> bool:
        """Tell whether a pod asks for cards, or names a scheduler of this world."""
        return pod.scheduler_name in self.engine.scheduler_names or bool(self.engine.dialects.owners(pod))
