"""What is observed: the kinds of objects, with their paths and decoders, and selections of pods."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Final, Generic, TypeVar

import msgspec

from vgpu_scheduler.groups import POD_GROUP_KINDS
from vgpu_scheduler.kube import (
    API_RESOURCES,
    SELECTING_KINDS,
    STORAGE_DECODERS,
    ApiResource,
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
from vgpu_scheduler.policy import CLUSTER_KIND, NAMESPACED_KIND, POLICY_KINDS, PolicyResource, decode_policy

_Value = TypeVar("_Value", bound=Versioned)


class Absence(Enum):
    """What follows if the objects of a kind cannot be listed.

    A kind that a CustomResourceDefinition defines may not be served; then it has no objects.
    """

    ALL_WAIT = "no pod is placed"
    ALL_WAIT_IF_DEFINED = "no pod is placed, unless no CustomResourceDefinition defines the kind"
    SOME_WAIT = "pods that refer to such objects are not placed"
    SOME_WAIT_IF_DEFINED = (
        "pods that refer to such objects are not placed; most clusters have no CustomResourceDefinition of the kind"
    )

    @property
    def may_be_undefined(self) -> bool:
        """Whether the API server may not serve the kind."""
        return self in {Absence.ALL_WAIT_IF_DEFINED, Absence.SOME_WAIT_IF_DEFINED}

    @property
    def stops_all(self) -> bool:
        """Whether relists wait for the list of the kind."""
        return self in {Absence.ALL_WAIT, Absence.ALL_WAIT_IF_DEFINED}


@dataclass(frozen=True, slots=True)
class Kind(Generic[_Value]):
    """A kind of objects.

    Attributes
    ----------
    name
        Its name in the engine: as in ``kind``, with the API group where several kinds share that.
    resource
        How the API server serves it.
    decode
        Decodes one object; raises :class:`DecodeError`.
    absence
        What follows if its objects cannot be listed.
    """

    name: str
    resource: ApiResource
    decode: Decode[_Value]
    absence: Absence = Absence.ALL_WAIT

    @property
    def path(self) -> str:
        """The path at which all objects of the kind are listed and watched."""
        return self.resource.path


def _kubernetes(name: str, decode: Decode[_Value], absence: Absence = Absence.ALL_WAIT) -> Kind[_Value]:
    """Return one of Kubernetes' own kinds."""
    return Kind(name, API_RESOURCES[name], decode, absence)


def _decode_policy(kind: str, obj: Encoded) -> PolicyResource:
    """Decode a policy; items of lists do not name their kind."""
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
    return Kind(kind, POLICY_KINDS[kind], partial(_decode_policy, kind), Absence.ALL_WAIT_IF_DEFINED)


def inventory_kind(resource: ApiResource) -> Kind[NodeInventory]:
    """Return a kind whose objects list the devices of nodes; another project's CRD defines it."""
    name = resource.kind
    return Kind(name, resource, partial(decode_inventory, name), Absence.ALL_WAIT_IF_DEFINED)


PODS: Kind[Pod] = _kubernetes("Pod", decode_pod)
NODES: Kind[Node] = _kubernetes("Node", decode_node)
NAMESPACES: Kind[Namespace] = _kubernetes("Namespace", decode_namespace)
QUOTAS: Kind[ResourceQuota] = _kubernetes("ResourceQuota", decode_quota)
CLUSTER_POLICIES = _policies(CLUSTER_KIND)
POLICIES = _policies(NAMESPACED_KIND)

VOLUME_CLAIMS = _kubernetes("PersistentVolumeClaim", decode_volume_claim, Absence.SOME_WAIT)
VOLUMES = _kubernetes("PersistentVolume", decode_volume, Absence.SOME_WAIT)
STORAGE: tuple[Kind[Any], ...] = (
    *(
        _kubernetes(name, STORAGE_DECODERS[name], Absence.SOME_WAIT)
        for name in ("StorageClass", "CSIDriver", "CSINode", "CSIStorageCapacity", "VolumeAttachment")
    ),
    VOLUMES,
    VOLUME_CLAIMS,
)
"""The kinds that say where volumes can be mounted; watched only while some pod needs them."""

SELECTING: tuple[Kind[SelectingObject], ...] = tuple(
    _kubernetes(name, partial(decode_selecting, name)) for name in SELECTING_KINDS
)
"""The kinds whose selectors define which pods the default topology spread covers; watched only if it is enabled."""

BUDGETS: Kind[DisruptionBudget] = _kubernetes("PodDisruptionBudget", decode_budget)
"""The disruption budgets; watched only if preemption is enabled."""

POD_GROUPS: tuple[Kind[PodGroup], ...] = tuple(
    Kind(kind.name, kind.resource, kind.decode, Absence.SOME_WAIT_IF_DEFINED) for kind in POD_GROUP_KINDS
)
"""The kinds of objects that describe groups of pods."""

RELISTED_KINDS: tuple[Kind[Any], ...] = (CLUSTER_POLICIES, POLICIES, NAMESPACES, QUOTAS, PODS, NODES)
"""All kinds, in the order in which consistent lists are processed: policies, namespaces and quotas come before the
pods to decide, and pods before the nodes whose locks name them."""


UNBOUND: Final = "spec.nodeName="
"""The field selector of pods that are not bound."""


@dataclass(frozen=True, slots=True)
class PodSelection:
    """A selection of pods.

    Attributes
    ----------
    name
        The selection's name in logs and tasks.
    fields
        The field selector.
    bound
        Whether the selection has all bound pods. A pod leaves that one when it is deleted, and any other selection
        when it is bound or deleted, or when it is no longer nominated.
    """

    name: str
    fields: str
    bound: bool = False


BOUND_PODS: Final = PodSelection("bound", "spec.nodeName!=", bound=True)
"""The bound pods of all schedulers."""


def pod_selections(scheduler_names: Collection[str], coexist_with: Collection[str]) -> tuple[PodSelection, ...]:
    """Return the selections of all pods that hold something; they overlap neither each other nor kopf's selections.

    Parameters
    ----------
    scheduler_names
        Our scheduler names; kopf watches their unbound pods.
    coexist_with
        The schedulers that announce their placements before they bind.
    """
    others = sorted(set(coexist_with) - set(scheduler_names))
    shown = [f"spec.schedulerName!={name}" for name in sorted({*scheduler_names, *others})]
    nominated = ",".join((UNBOUND, "status.nominatedNodeName!=", *shown))
    announced = (PodSelection(f"announced-{name}", f"{UNBOUND},spec.schedulerName={name}") for name in others)
    return BOUND_PODS, PodSelection("nominated", nominated), *announced
