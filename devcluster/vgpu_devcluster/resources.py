"""The kinds that the server knows, one row each; everything else in this package is driven by this table.

A row defines where a kind is served, which fields can be selected, which of its lists merge by key, and, through its
strategy, how objects are defaulted and validated. A custom resource is a row with the plain strategy.
strategy) how its objects are defaulted and validated. A custom resource is a row with the plain strategy.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from . import events, patches
from .nodes import NodeStrategy
from .pods import PodStrategy
from .strategies import (
    BudgetStrategy,
    EventStrategy,
    LimitRangeStrategy,
    NamespaceStrategy,
    PriorityClassStrategy,
    QuotaStrategy,
    Strategy,
    VolumeStrategy,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Object = dict[str, Any]
MergeKeys = dict[tuple[str, ...], str]

READ_WRITE = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, kw_only=True)
class Resource:
    """One served kind.

    Attributes
    ----------
    selectable
        Field selector labels and the paths of their values; ``metadata.name`` and ``metadata.namespace`` are added.
    merge_keys
        Lists that a strategic merge patch merges: path to key. ``None``: the kind refuses strategic merge patches.
    generation
        Whether ``metadata.generation`` counts changes of the spec.
    unconditional_update
        Whether a PUT may leave ``metadata.resourceVersion`` out.
    storage
        The table that holds the objects; two rows with one table are two versions of the same objects.
    schema
        The structural schema of a custom resource; a built-in kind has none here, see :mod:`.builtin_schemas`.
    columns
        The printer columns of a custom resource.
    verbs
        The served verbs; a kind that can only be created is answered and not stored.
    outbound, inbound
        Conversions from and to the stored form, for the row that is not the stored one.
    """

    group: str = ""
    version: str = "v1"
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    merge_keys: MergeKeys | None = field(default_factory=dict)
    strategy: Strategy = field(default_factory=Strategy)
    generation: bool = False
    unconditional_update: bool = True
    storage_key: str = ""
    schema: Object | None = None
    columns: tuple[Object, ...] = ()
    verbs: tuple[str, ...] = READ_WRITE
    outbound: Callable[[Object], Object] | None = None
    inbound: Callable[[Object], Object] | None = None

    @cached_property
    def api_version(self) -> str:
        """``v1`` or ``group/version``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def qualified(self) -> str:
        """The plural with its group, as messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @cached_property
    def storage(self) -> str:
        """The table that holds the objects."""
        return self.storage_key or self.qualified

    @cached_property
    def prefix(self) -> bytes:
        """The first bytes of every stored object: watch events carry them, list items do not."""
        return f'{{"kind":"{self.kind}","apiVersion":"{self.api_version}",'.encode()

    @cached_property
    def selectable(self) -> dict[str, tuple[str, ...]]:
        """Field selector labels to the path of the value."""
        own = {"metadata.name": ("metadata", "name")}
        if self.namespaced:
            own["metadata.namespace"] = ("metadata", "namespace")
        return {**own, **self.fields}

    def select(self, obj: Object) -> dict[str, str]:
        """Return the selectable fields of an object; an absent one is the empty string, an absent flag ``false``."""
        found = {}
        for label, path in self.selectable.items():
            value: Any = obj
            for part in path:
                value = value.get(part) if isinstance(value, dict) else None
            if value is None:
                value = "false" if label in _FLAGS else ""
            found[label] = str(value).lower() if isinstance(value, bool) else str(value)
        return found


_FLAGS = frozenset(("spec.unschedulable", "spec.hostNetwork"))
_METADATA: MergeKeys = {("metadata", "ownerReferences"): "uid", ("metadata", "finalizers"): patches.PRIMITIVE}


def _container_keys(*lists: str) -> MergeKeys:
    nested = {"env": "name", "ports": "containerPort", "volumeMounts": "mountPath", "volumeDevices": "devicePath"}
    keys: MergeKeys = {}
    for name in lists:
        keys["spec", name] = "name"
        keys.update({("spec", name, inner): key for inner, key in nested.items()})
    return keys


_POD_KEYS: MergeKeys = {
    **_METADATA,
    **_container_keys("containers", "initContainers", "ephemeralContainers"),
    ("spec", "volumes"): "name",
    ("spec", "imagePullSecrets"): "name",
    ("spec", "hostAliases"): "ip",
    ("spec", "schedulingGates"): "name",
    ("spec", "topologySpreadConstraints"): "topologyKey",
    ("spec", "resourceClaims"): "name",
    ("status", "conditions"): "type",
    ("status", "podIPs"): "ip",
}
_POD_FIELDS = {
    "spec.nodeName": ("spec", "nodeName"),
    "spec.restartPolicy": ("spec", "restartPolicy"),
    "spec.schedulerName": ("spec", "schedulerName"),
    "spec.serviceAccountName": ("spec", "serviceAccountName"),
    "spec.hostNetwork": ("spec", "hostNetwork"),
    "status.phase": ("status", "phase"),
    "status.podIP": ("status", "podIP"),
    "status.nominatedNodeName": ("status", "nominatedNodeName"),
}
# taints and tolerations are absent: the API server replaces them as wholes
_NODE_KEYS: MergeKeys = {
    **_METADATA,
    ("spec", "podCIDRs"): patches.PRIMITIVE,
    ("status", "conditions"): "type",
    ("status", "addresses"): "type",
}
_EVENT_FIELDS = {
    **{f"involvedObject.{part}": ("involvedObject", part) for part in ("kind", "namespace", "name", "uid")},
    "involvedObject.apiVersion": ("involvedObject", "apiVersion"),
    "involvedObject.resourceVersion": ("involvedObject", "resourceVersion"),
    "involvedObject.fieldPath": ("involvedObject", "fieldPath"),
    "reason": ("reason",),
    "reportingComponent": ("reportingComponent",),
    "source": ("source", "component"),
    "type": ("type",),
}

CONTAINER_VERBS = {
    "attach": "PodAttachOptions",
    "exec": "PodExecOptions",
    "log": "Pod",
    "portforward": "PodPortForwardOptions",
}
PODS = Resource(
    plural="pods",
    kind="Pod",
    short_names=("po",),
    categories=("all",),
    subresources={"status": "Pod", "binding": "Binding", "eviction": "Eviction", **CONTAINER_VERBS},
    fields=_POD_FIELDS,
    merge_keys=_POD_KEYS,
    strategy=PodStrategy(),
    generation=True,
)
NODES = Resource(
    plural="nodes",
    kind="Node",
    namespaced=False,
    short_names=("no",),
    subresources={"status": "Node"},
    fields={"spec.unschedulable": ("spec", "unschedulable")},
    merge_keys=_NODE_KEYS,
    strategy=NodeStrategy(),
)
NAMESPACES = Resource(
    plural="namespaces",
    kind="Namespace",
    namespaced=False,
    short_names=("ns",),
    subresources={"status": "Namespace"},
    fields={"status.phase": ("status", "phase")},
    merge_keys={**_METADATA, ("status", "conditions"): "type"},
    strategy=NamespaceStrategy(),
)
EVENTS = Resource(
    plural="events",
    kind="Event",
    short_names=("ev",),
    fields=_EVENT_FIELDS,
    merge_keys=_METADATA,
    strategy=EventStrategy(),
)
PRIORITY_CLASSES = Resource(
    group="scheduling.k8s.io",
    plural="priorityclasses",
    kind="PriorityClass",
    namespaced=False,
    short_names=("pc",),
    merge_keys=_METADATA,
    strategy=PriorityClassStrategy(),
)


BUDGETS = Resource(
    group="policy",
    plural="poddisruptionbudgets",
    kind="PodDisruptionBudget",
    short_names=("pdb",),
    subresources={"status": "PodDisruptionBudget"},
    merge_keys=_METADATA,
    strategy=BudgetStrategy(),
    generation=True,
)


def _storage(plural: str, kind: str, *short: str, namespaced: bool = False) -> Resource:
    """Return a kind of the group storage.k8s.io."""
    return Resource(
        group="storage.k8s.io",
        plural=plural,
        kind=kind,
        namespaced=namespaced,
        short_names=short,
        merge_keys=_METADATA,
    )


BUILT_IN = (
    PODS,
    NODES,
    NAMESPACES,
    EVENTS,
    PRIORITY_CLASSES,
    BUDGETS,
    Resource(
        group="events.k8s.io",
        plural="events",
        kind="Event",
        short_names=("ev",),
        fields=_EVENT_FIELDS,
        merge_keys=_METADATA,
        strategy=EventStrategy(needs_time=True),
        storage_key=EVENTS.storage,
        outbound=events.to_new,
        inbound=events.to_core,
    ),
    Resource(plural="configmaps", kind="ConfigMap", short_names=("cm",), merge_keys=_METADATA),
    Resource(
        plural="serviceaccounts",
        kind="ServiceAccount",
        short_names=("sa",),
        merge_keys={**_METADATA, ("secrets",): "name", ("imagePullSecrets",): "name"},
    ),
    Resource(
        plural="resourcequotas",
        kind="ResourceQuota",
        short_names=("quota",),
        subresources={"status": "ResourceQuota"},
        merge_keys=_METADATA,
        strategy=QuotaStrategy(),
    ),
    Resource(
        plural="limitranges",
        kind="LimitRange",
        short_names=("limits",),
        merge_keys=_METADATA,
        strategy=LimitRangeStrategy(),
    ),
    Resource(
        group="coordination.k8s.io",
        plural="leases",
        kind="Lease",
        fields={},
        merge_keys=_METADATA,
        unconditional_update=False,
    ),
    Resource(
        plural="persistentvolumeclaims",
        kind="PersistentVolumeClaim",
        short_names=("pvc",),
        subresources={"status": "PersistentVolumeClaim"},
        merge_keys=_METADATA,
        strategy=VolumeStrategy(),
    ),
    Resource(
        plural="persistentvolumes",
        kind="PersistentVolume",
        namespaced=False,
        short_names=("pv",),
        subresources={"status": "PersistentVolume"},
        merge_keys=_METADATA,
        strategy=VolumeStrategy(),
    ),
    _storage("storageclasses", "StorageClass", "sc"),
    _storage("csinodes", "CSINode"),
    _storage("csidrivers", "CSIDriver"),
    _storage("csistoragecapacities", "CSIStorageCapacity", namespaced=True),
    _storage("volumeattachments", "VolumeAttachment"),
)


def rank(resource: Resource) -> tuple[str, str, str]:
    """Order rows for discovery: the core group first, then by name."""
    return resource.group, resource.version, resource.plural
