"""The kinds of objects that an engine observes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from vgpu_scheduler.dialects import Dialects, InventoryObject
from vgpu_scheduler.engine.budgets import DisruptionBudgets
from vgpu_scheduler.engine.observing import ObservedKind
from vgpu_scheduler.engine.pod_groups import PodGroups
from vgpu_scheduler.engine.policy_report import PolicyTracker
from vgpu_scheduler.engine.problems import Problem
from vgpu_scheduler.engine.quotas import QuotaLimits, quota_key
from vgpu_scheduler.engine.storage import StorageAccess
from vgpu_scheduler.kube import (
    SELECTING_KINDS,
    DisruptionBudget,
    Namespace,
    Node,
    NodeInventory,
    PersistentVolumeClaim,
    Pod,
    ResourceQuota,
    StorageObject,
    Versioned,
    VersionedStore,
    Volume,
)
from vgpu_scheduler.model import ClusterEvent, namespaced_name
from vgpu_scheduler.policy import POLICY_KINDS, Policies, PolicyKey, PolicyResource, key_of
from vgpu_scheduler.state import STORAGE_KINDS, State


class ObservingEngine(Protocol):
    """An engine, as far as it takes in objects."""

    dialects: Dialects
    state: State
    storage: StorageAccess
    quota_limits: QuotaLimits
    budgets: DisruptionBudgets
    groups: PodGroups
    policies: Policies
    policy_tracker: PolicyTracker
    system_spread: bool
    preemption: bool

    def observe_pod(self, pod: Pod, now: float) -> tuple[Problem, ...]:
        """Take in a pod."""

    def seen_unchanged(self, uid: str, now: float) -> None:
        """Note that a pod is unchanged."""

    def remove_pod(self, uid: str, now: float) -> None:
        """Note that a pod is gone."""

    def observe_node(self, node: Node, now: float) -> tuple[Problem, ...]:
        """Take in a node."""

    def remove_node(self, name: str, version: int | None = None) -> None:
        """Note that a node is gone."""

    def observe_inventory(self, node: str, inventory: InventoryObject | None, now: float) -> tuple[Problem, ...]:
        """Take in the object that lists a node's devices beside it; None where it is gone."""


def observed_kinds(engine: ObservingEngine) -> Mapping[str, ObservedKind[Any]]:
    """Return how an engine takes in the objects of each kind, by the name of the kind."""
    selectors = engine.state.spread_selectors
    return {
        "Pod": _pods(engine),
        "Node": _nodes(engine),
        "Namespace": _namespaces(engine),
        "ResourceQuota": _quotas(engine.quota_limits),
        **{kind: _policies(engine, kind) for kind in POLICY_KINDS},
        **{resource.kind: _inventories(engine) for resource in engine.dialects.inventory_kinds},
        **{
            kind: _stored(store, engine.groups.observe_object, engine.groups.remove_object)
            for kind, store in engine.groups.stores.items()
        },
        **{name: _storage(engine, kind) for name, kind in STORAGE_KINDS.items()},
        **{
            name: _stored(selectors.stores[name], selectors.observe, selectors.forget)
            for name in (SELECTING_KINDS if engine.system_spread else ())
        },
        **({"PodDisruptionBudget": _budgets(engine)} if engine.preemption else {}),
    }


def _pods(engine: ObservingEngine) -> ObservedKind[Pod]:
    state = engine.state

    return ObservedKind(
        key=lambda pod: pod.uid,
        title=lambda pod: pod.key,
        observe=engine.observe_pod,
        remove=lambda pod, _, now: engine.remove_pod(pod.uid, now),
        missing=state.missing_pods,
        forget_versions=state.forget_versions,
        version=state.pod_version,
        seen_unchanged=engine.seen_unchanged,
    )


def _nodes(engine: ObservingEngine) -> ObservedKind[Node]:
    state = engine.state

    def remove(node: Node, version: int, _: float) -> None:
        """Remove a node, unless another of the same name has replaced it."""
        known = state.node(node.name)
        if known is not None and known.uid == node.uid:
            engine.remove_node(node.name, version)

    return ObservedKind(
        key=lambda node: node.name,
        title=lambda node: node.name,
        observe=engine.observe_node,
        remove=remove,
        missing=state.missing_nodes,
        forget_versions=state.forget_versions,
        identify=lambda identity: identity.name,
        version=state.node_version,
    )


def _inventories(engine: ObservingEngine) -> ObservedKind[NodeInventory]:
    store: VersionedStore[str, NodeInventory] = VersionedStore()

    def observe(found: NodeInventory, now: float) -> tuple[Problem, ...]:
        known = store.get(found.name)
        if known is not None and 0 < found.resource_version == known.resource_version:
            return ()  # relists show everything again
        return engine.observe_inventory(found.name, found.content, now) if store.put(found.name, found) else ()

    def remove(found: NodeInventory, version: int, now: float) -> None:
        if store.remove(found.name, found.uid, version):
            engine.observe_inventory(found.name, None, now)

    return ObservedKind(
        key=lambda found: found.name,
        title=lambda found: found.name,
        observe=observe,
        remove=remove,
        missing=store.missing,
        forget_versions=store.forget_versions,
    )


def _namespaces(engine: ObservingEngine) -> ObservedKind[Namespace]:
    catalogue = engine.policies.catalogue

    return ObservedKind(
        key=lambda namespace: namespace.name,
        title=lambda namespace: namespace.name,
        observe=_understood(engine.policy_tracker.observe_namespace),
        remove=lambda namespace, version, _: engine.policy_tracker.remove_namespace(namespace, version),
        missing=catalogue.missing_namespaces,
        forget_versions=catalogue.forget_versions,
    )


def _policies(engine: ObservingEngine, kind: str) -> ObservedKind[PolicyResource]:
    catalogue = engine.policies.catalogue

    def missing(listed: Collection[PolicyKey], version: int) -> Iterable[PolicyResource]:
        return [policy for policy in catalogue.missing(listed, version) if policy.kind == kind]

    return ObservedKind(
        key=key_of,
        title=lambda policy: namespaced_name(policy.namespace, policy.name),
        observe=_understood(engine.policy_tracker.observe),
        remove=lambda policy, version, _: engine.policy_tracker.remove(policy, version),
        missing=missing,
        forget_versions=catalogue.forget_versions,
    )


def _storage(engine: ObservingEngine, kind: type[StorageObject]) -> ObservedKind[StorageObject]:
    volumes = engine.state.volumes
    store = volumes.objects.store(kind)

    def changed(before: StorageObject | None, found: StorageObject, event: ClusterEvent) -> None:
        claims = {*volumes.objects.claims_about(before), *volumes.objects.claims_about(found)} if event else ()
        if isinstance(found, PersistentVolumeClaim) or (isinstance(found, Volume) and found.claim is not None):
            event &= ~ClusterEvent.STORAGE  # it concerns only pods that name those claims
        engine.storage.changed(event, claims)

    def observe(found: StorageObject) -> None:
        changed(store.get(found.key), found, volumes.observe(found))

    return _stored(store, observe, lambda found, version: changed(None, found, volumes.forget(found, version)))


def _budgets(engine: ObservingEngine) -> ObservedKind[DisruptionBudget]:
    budgets = engine.budgets

    def changed(event: ClusterEvent) -> None:
        engine.state.pending_events.events |= event

    return _stored(
        budgets.store,
        lambda budget: changed(budgets.observe(budget)),
        lambda budget, version: changed(budgets.remove(budget, version)),
    )


class _Keyed(Versioned, Protocol):
    """An object with a namespace and name as its key."""

    @property
    def key(self) -> str:
        """``namespace/name``, or the name of an object without a namespace."""


_Observed = TypeVar("_Observed")
_Stored = TypeVar("_Stored", bound=_Keyed)


def _stored(
    store: VersionedStore[str, _Stored],
    observe: Callable[[_Stored], None],
    remove: Callable[[_Stored, int], None],
) -> ObservedKind[_Stored]:
    """Return how to take in objects that are kept in a store by key."""
    return ObservedKind(
        key=lambda found: found.key,
        title=lambda found: found.key,
        observe=_understood(observe),
        remove=lambda found, version, _: remove(found, version),
        missing=store.missing,
        forget_versions=store.forget_versions,
    )


def _understood(observe: Callable[[_Observed], None]) -> Callable[[_Observed, float], tuple[Problem, ...]]:
    """Return how to take in objects that cannot have problems; the time is ignored."""

    def observe_at(found: _Observed, now: float) -> tuple[Problem, ...]:
        del now
        observe(found)
        return ()

    return observe_at


def _quotas(quotas: QuotaLimits) -> ObservedKind[ResourceQuota]:
    return ObservedKind(
        key=quota_key,
        title=lambda quota: f"{quota.namespace}/{quota.name}",
        observe=lambda quota, _: quotas.observe(quota),
        remove=lambda quota, version, _: quotas.remove(quota, version),
        missing=quotas.store.missing,
        forget_versions=quotas.store.forget_versions,
    )
