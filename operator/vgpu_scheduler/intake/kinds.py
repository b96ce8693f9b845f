"""What is observed: the kinds of objects, where they are served and how one is read; and selections of pods."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, TypeVar

import msgspec

from vgpu_scheduler.groups import POD_GROUP_KINDS
from vgpu_scheduler.kube import (
    SELECTING_KINDS,
    STORAGE_DECODERS,
    Decode,
    DecodeError,
    DisruptionBudget,
    Encoded,
    Namespace,
    Node,
    NodeInventory,
    Pod,
    PodGroup,
    ResourceQuota,
    SelectingObject,
    Versioned,
    decode_budget,
    decode_inventory,
    decode_json,
    decode_namespace,
    decode_node,
    decode_pod,
    decode_quota,
    decode_selecting,
    decode_volume,
    decode_volume_claim,
)
from vgpu_scheduler.policy import CLUSTER_KIND, GROUP, NAMESPACED_KIND, PLURALS, VERSION, PolicyResource, decode_policy

__all__ = ["BOUND_PODS", "UNBOUND", "PodSelection", "pod_selections"]


_Value = TypeVar("_Value", bound=Versioned)


@dataclass(frozen=True, slots=True)
class Kind(Generic[_Value]):
    """One kind of objects.

    Attributes
    ----------
    name
        As in ``kind``; the engine knows it by this.
    path
        Where all objects of the kind are listed and watched.
    decode
        Reads one; raises :class:`DecodeError`.
    defined
        Whether a CustomResourceDefinition makes it known: without that there are no such objects.
    """

    name: str
    path: str
    decode: Decode[_Value]
    defined: bool = False


def _decode_policy(kind: str, obj: Encoded) -> PolicyResource:
    """Read a policy; items of lists do not name their kind."""
    found = _decoded(kind, obj)
    metadata = found.get("metadata")
    names = (metadata.get("namespace"), metadata.get("name")) if isinstance(metadata, Mapping) else ()
    try:
        return decode_policy({**found, "kind": kind})
    except (TypeError, ValueError, OverflowError) as error:
        raise DecodeError(kind, "/".join(str(name) for name in names if name), "", str(error)) from error


def _decoded(kind: str, obj: Encoded) -> Mapping[str, Any]:
    try:
        found: Any = decode_json(obj) if isinstance(obj, bytes | msgspec.Raw) else obj
    except ValueError as error:
        raise DecodeError(kind, "", "", str(error)) from error
    if not isinstance(found, Mapping):
        raise DecodeError(kind, "", "", f"expected an object, got {type(found).__name__}")
    return found


def _policies(kind: str) -> Kind[PolicyResource]:
    path = f"/apis/{GROUP}/{VERSION}/{PLURALS[kind]}"
    return Kind(kind, path, partial(_decode_policy, kind), defined=True)


def inventory_kind(name: str, path: str) -> Kind[NodeInventory]:
    """Return a kind of objects that list the devices of nodes; somebody else's definition makes it known."""
    return Kind(name, path, partial(decode_inventory, name), defined=True)


PODS: Kind[Pod] = Kind("Pod", "/api/v1/pods", decode_pod)
NODES: Kind[Node] = Kind("Node", "/api/v1/nodes", decode_node)
NAMESPACES: Kind[Namespace] = Kind("Namespace", "/api/v1/namespaces", decode_namespace)
QUOTAS: Kind[ResourceQuota] = Kind("ResourceQuota", "/api/v1/resourcequotas", decode_quota)
CLUSTER_POLICIES = _policies(CLUSTER_KIND)
POLICIES = _policies(NAMESPACED_KIND)

_STORAGE = "/apis/storage.k8s.io/v1"
VOLUME_CLAIMS = Kind("PersistentVolumeClaim", "/api/v1/persistentvolumeclaims", decode_volume_claim)
VOLUMES = Kind("PersistentVolume", "/api/v1/persistentvolumes", decode_volume)
_STORAGE_KINDS = {
    "StorageClass": "storageclasses",
    "CSIDriver": "csidrivers",
    "CSINode": "csinodes",
    "CSIStorageCapacity": "csistoragecapacities",
    "VolumeAttachment": "volumeattachments",
}
STORAGE: tuple[Kind[Any], ...] = (
    *(Kind(name, f"{_STORAGE}/{plural}", STORAGE_DECODERS[name]) for name, plural in _STORAGE_KINDS.items()),
    VOLUMES,
    VOLUME_CLAIMS,
)
"""The kinds that say where volumes can be mounted; watched only while some pod needs them."""

SELECTING: tuple[Kind[SelectingObject], ...] = tuple(
    Kind(name, f"{group}/{name.lower()}s", partial(decode_selecting, name))
    for name, group in zip(SELECTING_KINDS, ("/api/v1", "/api/v1", "/apis/apps/v1", "/apis/apps/v1"), strict=True)
)
"""The kinds whose selectors say which pods the system's spread keeps apart; watched only where that is on."""

BUDGETS: Kind[DisruptionBudget] = Kind("PodDisruptionBudget", "/apis/policy/v1/poddisruptionbudgets", decode_budget)
"""The disruption budgets; watched only where pods may be evicted."""

POD_GROUPS: tuple[Kind[PodGroup], ...] = tuple(
    Kind(kind.name, kind.path, kind.decode, defined=True) for kind in POD_GROUP_KINDS
)
"""The kinds of objects that describe groups of pods."""

SWEPT: tuple[Kind[Any], ...] = (CLUSTER_POLICIES, POLICIES, NAMESPACES, QUOTAS, PODS, NODES)
"""All kinds, in the order in which consistent lists are taken in: no pod may be decided before what is in force for it
is known, and the locks of nodes name pods."""


UNBOUND: Final = "spec.nodeName="
"""The field selector of pods that are not bound."""


@dataclass(frozen=True, slots=True)
class PodSelection:
    """A selection of pods.

    Attributes
    ----------
    name
        What logs and tasks call it.
    fields
        The field selector.
    bound
        Whether it has all bound pods. A pod leaves these when it is deleted, and any other selection when it is bound
        or deleted, or when it is no longer nominated.
    """

    name: str
    fields: str
    bound: bool = False


BOUND_PODS: Final = PodSelection("bound", "spec.nodeName!=", bound=True)
"""The bound pods of all schedulers."""


def pod_selections(scheduler_names: Collection[str], coexist_with: Collection[str]) -> tuple[PodSelection, ...]:
    """Return the selections that show all pods that hold something; no pod is in two of them, nor in one of kopf's.

    Parameters
    ----------
    scheduler_names
        Ours: kopf shows their unbound pods.
    coexist_with
        The schedulers that announce what they will bind.
    """
    others = sorted(set(coexist_with) - set(scheduler_names))
    shown = [f"spec.schedulerName!={name}" for name in sorted({*scheduler_names, *others})]
    nominated = ",".join((UNBOUND, "status.nominatedNodeName!=", *shown))
    announced = (PodSelection(f"announced-{name}", f"{UNBOUND},spec.schedulerName={name}") for name in others)
    return BOUND_PODS, PodSelection("nominated", nominated), *announced
