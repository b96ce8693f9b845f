"""The classes of pods: what each asks for under the policy that is in force for it, and plugins that a class shares."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from vgpu_scheduler.allocators import CardNeed, QuotaRemainders
from vgpu_scheduler.dialects import Dialects
from vgpu_scheduler.engine.equivalence import (
    ClusterPart,
    EquivalenceClass,
    NodePart,
    Refused,
    ResolvedClaims,
    SchedulableClass,
)
from vgpu_scheduler.engine.node_parts import NodeParts, read_claims
from vgpu_scheduler.engine.quotas import QuotaLimits
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import BoundedCache, PodClaims, bytes_of
from vgpu_scheduler.policy import EffectivePolicy, Policies
from vgpu_scheduler.predicates import CLUSTER_PLUGINS, refusals
from vgpu_scheduler.state import State

__all__ = ["ClusterParts", "EquivalenceClasses", "PodPlugins"]

_MOST_BYTES: Final = 8 * 2**20
"""What is made of each plugin may take."""
_MADE: Final = 16 * 2**10
"""What one takes beside the terms of its pod, which is about eight bytes per node and term."""


class Closeable(Protocol):
    """What a plugin makes."""

    def close(self) -> None:
        """Give back what is kept for this one alone."""


_Plugin = TypeVar("_Plugin")
_Made = TypeVar("_Made", bound=Closeable)
_Entry = tuple[_Plugin, Callable[[Pod, State], Hashable | None], Callable[[Pod, State], _Made]]


class PodPlugins(Generic[_Plugin, _Made]):
    """Some plugins, and what was made of each for the pods that were asked about last.

    Parameters
    ----------
    plugins
        Each plugin with what says on what of a pod its answers depend (None where it has nothing to say about the pod
        now), and with what makes them.
    state
        What is known.
    """

    def __init__(self, plugins: Iterable[_Entry[_Plugin, _Made]], state: State) -> None:
        self._state = state
        self._plugins = [(*entry, BoundedCache[Hashable, _Made](_MOST_BYTES, forgotten=_close)) for entry in plugins]

    def of(self, pod: Pod) -> list[tuple[_Plugin, _Made]]:
        """Return the plugins that have something to say about a pod now, each with what answers for it."""
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
"""Memory for what pods say in the keys by which their claims are remembered."""
_CLAIMED: Final = 4 * 2**10
"""What claims take beside what the pod says."""


class _Noted(NamedTuple):
    """What a pod was found to ask, as of the generation of the policies."""

    pod: Pod
    generation: int
    claimed: ResolvedClaims | Refused

    def holds(self, pod: Pod, generation: int) -> bool:
        """Tell whether it is what the pod asks now."""
        return self.pod is pod and self.generation == generation


class ClusterParts:
    """Makes the cluster parts of pods; pods that ask the same share filters.

    Parameters
    ----------
    state
        What is known.
    """

    def __init__(self, state: State) -> None:
        self._plugins = PodPlugins(((plugin, plugin.key, plugin.make) for plugin in CLUSTER_PLUGINS), state)

    def of(self, pod: Pod) -> ClusterPart | None:
        """Return what a pod asks of more than one node; None if that is nothing."""
        found = self._plugins.of(pod)
        return ClusterPart(tuple(each for _, each in found)) if found else None


class EquivalenceClasses:
    """Makes the classes of pods on one state.

    Parameters
    ----------
    state
        What is known.
    dialects
        The wire formats that claims and registrations are in.
    policies
        What is in force for a pod.
    quotas
        The limits of namespaces.
    """

    def __init__(self, state: State, dialects: Dialects, policies: Policies, quotas: QuotaLimits) -> None:
        self.state = state
        self.dialects = dialects
        self.policies = policies
        self._quotas = quotas
        self._claimed: BoundedCache[Hashable, ResolvedClaims | Refused] = BoundedCache(_CLAIMS_BYTES)
        self._noted: dict[str, _Noted] = {}
        self._node_parts = NodeParts(state, dialects)
        self._cluster_parts = ClusterParts(state)

    def of(self, pod: Pod, *, beyond_any_card: bool = False) -> EquivalenceClass:
        """Return the class of a pod.

        What quotas leave is a part of it where the pod could exceed that: such pods are decided anew whenever it
        changes, all others share their columns whatever their namespace. A pod that is bound has the class that it had
        while it waited: others that wait share it.

        Parameters
        ----------
        beyond_any_card
            Take the node part of all pods that ask for more than any card has, if this is one of them and that part
            finds no node.
        """
        return self._class_of(pod, self._node_parts.of, beyond_any_card=beyond_any_card)

    def transient(self, pod: Pod) -> EquivalenceClass:
        """Return the class of a pod for one question about a few nodes; it is void when the next one is asked."""
        return self._class_of(pod, self._node_parts.transient)

    def without_quotas(self, pod: Pod, claimed: ResolvedClaims) -> NodePart | Refused:
        """Return the node part that a pod would have if its namespace might hold more."""
        return self._node_parts.of(pod, claimed, ())

    def cluster_part(self, pod: Pod) -> ClusterPart | None:
        """Return what a pod asks of more than one node; None if that is nothing."""
        return self._cluster_parts.of(pod)

    def note(self, pod: Pod) -> None:
        """Read what a pod asks, once for as long as neither it nor a policy changes, until it is forgotten."""
        self._noted.pop(pod.uid, None)
        self._noted[pod.uid] = _Noted(pod, self.policies.catalogue.generation, self.read(pod))

    def forget(self, uid: str) -> None:
        """Forget what was noted of a pod."""
        self._noted.pop(uid, None)

    def is_noted(self, pod: Pod) -> bool:
        """Tell whether a pod is as it was when it was noted."""
        noted = self._noted.get(pod.uid)
        return noted is not None and noted.pod is pod

    def policy(self, pod: Pod) -> EffectivePolicy:
        """Return what is in force for a pod."""
        noted = self._noted.get(pod.uid)
        if noted is not None and noted.holds(pod, self.policies.catalogue.generation):
            return noted.claimed.policy
        return self.policies.resolve(pod)

    def read(self, pod: Pod) -> ResolvedClaims | Refused:
        """Return what a pod asks of devices: one object for all pods that ask the same of a node."""
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
            said = claimed.reason if isinstance(claimed, Refused) else claimed.warnings
            self._claimed.put(key, claimed, _CLAIMED + bytes_of(key) + bytes_of(said))
        return claimed

    def claims(self, pod: Pod) -> PodClaims:
        """Return the pod's claims; empty where they cannot be understood."""
        claimed = self.claimed(pod)
        return () if claimed is None else claimed.claims

    def claimed(self, pod: Pod) -> ResolvedClaims | None:
        """Return what a pod asks of devices, and under which policy; None where that cannot be understood."""
        claimed = self.read(pod)
        return None if isinstance(claimed, Refused) else claimed

    def need(self, pod: Pod) -> tuple[ResolvedClaims, CardNeed | None] | None:
        """Return what an unschedulable pod claims of devices, and what a card must have free before the pod can fit.

        None for one that is refused: it needs another policy, or to be another pod.
        """
        pod_class = self.transient(pod)
        if isinstance(pod_class, Refused):
            return None
        allocator = pod_class.node.allocator
        return pod_class.claimed, allocator.need() if allocator is not None else None

    def _class_of(
        self,
        pod: Pod,
        node_part: Callable[[Pod, ResolvedClaims, QuotaRemainders], NodePart | Refused],
        *,
        beyond_any_card: bool = False,
    ) -> EquivalenceClass:
        """Return the class of a pod with the node part that some function makes."""
        claimed = self.read(pod)
        policy = claimed.policy
        unsupported = refusals(pod)
        if unsupported or policy.refusal is not None:
            return Refused(policy, ", ".join(unsupported) or str(policy.refusal))
        if isinstance(claimed, Refused):
            return claimed
        remainders = self._quotas.remainders(pod.namespace, claimed.claims, self.state)
        node: NodePart | Refused | None = (
            self._part_beyond_any_card(pod, claimed, remainders) if beyond_any_card else None
        )
        if node is None:
            node = node_part(pod, claimed, remainders)
        return (
            node
            if isinstance(node, Refused)
            else SchedulableClass(claimed, node, self._cluster_parts.of(pod), bool(remainders or claimed.peers(pod)))
        )

    def _part_beyond_any_card(self, pod: Pod, claimed: ResolvedClaims, remainders: QuotaRemainders) -> NodePart | None:
        part = self._node_parts.beyond_any_card(pod, claimed, remainders)
        if part is None:
            return None
        rows = self.state.nodes.rows()
        part.refresh(self.state, rows)
        return None if part.feasible[rows].any() else part
