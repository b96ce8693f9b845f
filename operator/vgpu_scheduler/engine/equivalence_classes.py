"""The equivalence classes of pods: pods with the same request under the same policy share plugins' results."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from vgpu_scheduler.allocators import CardNeed, QuotaRemainders
from vgpu_scheduler.dialects import Dialects
from vgpu_scheduler.engine.equivalence import (
    ClusterPart,
    EquivalenceClass,
    NodePart,
    RefusedClass,
    ResolvedClaims,
    SchedulableClass,
)
from vgpu_scheduler.engine.node_parts import NodeParts, read_claims
from vgpu_scheduler.engine.quotas import QuotaLimits
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import BoundedCache, PodClaims, bytes_of
from vgpu_scheduler.policy import EffectivePolicy, Policies
from vgpu_scheduler.predicates import CLUSTER_PLUGINS, spec_errors
from vgpu_scheduler.state import State

_MOST_BYTES: Final = 8 * 2**20
"""Memory for what is made of each plugin."""
_MADE: Final = 16 * 2**10
"""Bytes of one made object without the terms of its pod: about eight bytes per node and term."""


class Closeable(Protocol):
    """An object that a plugin makes for a pod."""

    def close(self) -> None:
        """Release the resources that are kept for this object alone."""


_Plugin = TypeVar("_Plugin")
_Made = TypeVar("_Made", bound=Closeable)
_Entry = tuple[_Plugin, Callable[[Pod, State], Hashable | None], Callable[[Pod, State], _Made]]


class PodPlugins(Generic[_Plugin, _Made]):
    """Some plugins, and the objects that each made for recent pods.

    Parameters
    ----------
    plugins
        Each plugin with two functions. The first returns the key of a pod on which its answers depend (None where the
        plugin does not concern the pod now); the second makes its object for a pod.
    state
        The cluster's state.
    """

    def __init__(self, plugins: Iterable[_Entry[_Plugin, _Made]], state: State) -> None:
        self._state = state
        self._plugins = [(*entry, BoundedCache[Hashable, _Made](_MOST_BYTES, forgotten=_close)) for entry in plugins]

    def of(self, pod: Pod) -> list[tuple[_Plugin, _Made]]:
        """Return the plugins that concern a pod now, each with the object that answers for it."""
        found = []
        for plugin, key_of, make, remembered in self._plugins:
            key = key_of(pod, self._state)
            if key is None:
                continue
            made = remembered.get(key)
            if made is None:
                made = make(pod, self._state)
                remembered.put(key, made, pod.spec.size + _MADE)
            found.append((plugin, made))
        return found


def _close(unused: Closeable) -> None:
    unused.close()


_CLAIMS_BYTES: Final = 32 * 2**20
"""Memory for claims, by the fields of pods that determine them."""
_CLAIMED: Final = 4 * 2**10
"""Bytes of claims without those fields."""


class _Noted(NamedTuple):
    """What a pod was found to claim, as of a generation of the policies."""

    pod: Pod
    generation: int
    claimed: ResolvedClaims | RefusedClass

    def holds(self, pod: Pod, generation: int) -> bool:
        """Tell whether it still holds for the pod."""
        return self.pod is pod and self.generation == generation


class ClusterParts:
    """Makes the cluster parts of pods; pods with the same request share filters.

    Parameters
    ----------
    state
        The cluster's state.
    """

    def __init__(self, state: State) -> None:
        self._plugins = PodPlugins(((plugin, plugin.key, plugin.make) for plugin in CLUSTER_PLUGINS), state)

    def of(self, pod: Pod) -> ClusterPart | None:
        """Return the filters of a pod that depend on more than one node; None if there are none."""
        found = self._plugins.of(pod)
        return ClusterPart(tuple(each for _, each in found)) if found else None


class EquivalenceClasses:
    """Makes the classes of pods on one state.

    Parameters
    ----------
    state
        The cluster's state.
    dialects
        The dialects of claims and registrations.
    policies
        The policies of pods.
    quotas
        The limits of namespaces.
    """

    def __init__(self, state: State, dialects: Dialects, policies: Policies, quotas: QuotaLimits) -> None:
        self.state = state
        self.dialects = dialects
        self.policies = policies
        self._quotas = quotas
        self._claimed: BoundedCache[Hashable, ResolvedClaims | RefusedClass] = BoundedCache(_CLAIMS_BYTES)
        self._noted: dict[str, _Noted] = {}
        self._node_parts = NodeParts(state, dialects)
        self._cluster_parts = ClusterParts(state)

    def of(self, pod: Pod, *, beyond_any_card: bool = False) -> EquivalenceClass:
        """Return the class of a pod.

        Quota remainders are part of a class only where the pod could exceed them: such pods are decided anew whenever
        the remainder changes, while all others share their columns across namespaces. A bound pod has the class that
        it had while it waited, so that waiting pods share it.

        Parameters
        ----------
        beyond_any_card
            If the pod asks for more than any card has, use the node part shared by all such pods, provided that it
            finds no node.
        """
        return self._class_of(pod, self._node_parts.of, beyond_any_card=beyond_any_card)

    def transient(self, pod: Pod) -> EquivalenceClass:
        """Return the class of a pod for one question about a few nodes; the next question overwrites its columns."""
        return self._class_of(pod, self._node_parts.transient)

    def without_quotas(self, pod: Pod, claimed: ResolvedClaims) -> NodePart | RefusedClass:
        """Return the node part that a pod would have without the quotas of its namespace."""
        return self._node_parts.of(pod, claimed, ())

    def cluster_part(self, pod: Pod) -> ClusterPart | None:
        """Return the filters of a pod that depend on more than one node; None if there are none."""
        return self._cluster_parts.of(pod)

    def note(self, pod: Pod) -> None:
        """Read a pod's claims, and remember them until the pod or a policy changes or the pod is forgotten."""
        self._noted.pop(pod.uid, None)
        self._noted[pod.uid] = _Noted(pod, self.policies.catalogue.generation, self.read(pod))

    def forget(self, uid: str) -> None:
        """Forget what was noted about a pod."""
        self._noted.pop(uid, None)

    def is_noted(self, pod: Pod) -> bool:
        """Tell whether a pod is unchanged since it was noted."""
        noted = self._noted.get(pod.uid)
        return noted is not None and noted.pod is pod

    def policy(self, pod: Pod) -> EffectivePolicy:
        """Return the policy in effect for a pod."""
        noted = self._noted.get(pod.uid)
        if noted is not None and noted.holds(pod, self.policies.catalogue.generation):
            return noted.claimed.policy
        return self.policies.resolve(pod)

    def read(self, pod: Pod) -> ResolvedClaims | RefusedClass:
        """Return what a pod claims of devices: one object for all pods with the same request to a node."""
        noted = self._noted.get(pod.uid)
        if noted is not None and noted.holds(pod, self.policies.catalogue.generation):
            return noted.claimed
        policy = self.policies.resolve(pod)
        key = (
            policy.number,
            pod.spec.node_fingerprint,
            pod.spec.images if policy.reads_images else (),
            *map(pod.annotations.get, self.dialects.pod_annotations),
            *map(pod.labels.get, self.dialects.pod_labels),
        )
        claimed = self._claimed.get(key)
        if claimed is None:
            claimed = read_claims(pod, policy, self.dialects)
            said = claimed.reason if isinstance(claimed, RefusedClass) else claimed.warnings
            self._claimed.put(key, claimed, _CLAIMED + bytes_of(key) + bytes_of(said))
        return claimed

    def claims(self, pod: Pod) -> PodClaims:
        """Return the pod's claims; empty where they are refused."""
        claimed = self.claimed(pod)
        return () if claimed is None else claimed.claims

    def claimed(self, pod: Pod) -> ResolvedClaims | None:
        """Return what a pod claims of devices, and under which policy; None where its claims are refused."""
        claimed = self.read(pod)
        return None if isinstance(claimed, RefusedClass) else claimed

    def need(self, pod: Pod) -> tuple[ResolvedClaims, CardNeed | None] | None:
        """Return what an unschedulable pod claims of devices, and what a card must at least have free for it.

        None for a refused pod: only another policy, or a change of the pod, can help it.
        """
        pod_class = self.transient(pod)
        if isinstance(pod_class, RefusedClass):
            return None
        allocator = pod_class.node.allocator
        return pod_class.claimed, allocator.need() if allocator is not None else None

    def _class_of(
        self,
        pod: Pod,
        node_part: Callable[[Pod, ResolvedClaims, QuotaRemainders], NodePart | RefusedClass],
        *,
        beyond_any_card: bool = False,
    ) -> EquivalenceClass:
        """Return the class of a pod, with the node part that ``node_part`` makes."""
        claimed = self.read(pod)
        policy = claimed.policy
        unsupported = spec_errors(pod)
        if unsupported or policy.refusal is not None:
            return RefusedClass(policy, ", ".join(unsupported) or str(policy.refusal))
        if isinstance(claimed, RefusedClass):
            return claimed
        remainders = self._quotas.remainders(pod.namespace, claimed.claims, self.state)
        node: NodePart | RefusedClass | None = (
            self._part_beyond_any_card(pod, claimed, remainders) if beyond_any_card else None
        )
        if node is None:
            node = node_part(pod, claimed, remainders)
        return (
            node
            if isinstance(node, RefusedClass)
            else SchedulableClass(claimed, node, self._cluster_parts.of(pod), bool(remainders or claimed.peers(pod)))
        )

    def _part_beyond_any_card(self, pod: Pod, claimed: ResolvedClaims, remainders: QuotaRemainders) -> NodePart | None:
        part = self._node_parts.beyond_any_card(pod, claimed, remainders)
        if part is None:
            return None
        rows = self.state.nodes.rows()
        part.refresh(self.state, rows)
        return None if part.feasible[rows].any() else part
