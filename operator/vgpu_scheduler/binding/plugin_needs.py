"""The needs of pods from the device plugins of their node."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import takewhile

from vgpu_scheduler.dialects import NodeLock, NodeSide
from vgpu_scheduler.engine import Engine
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import BoundedCache, vendors_of

_MOST_BYTES = 2**20
"""Memory limit of the cache: about 1,500 pods; lanes ask for the needs of their pods again and again."""
_NEEDS = 2**9
"""Bytes of a pod's needs without the plugin key."""


@dataclass(frozen=True, slots=True)
class PluginNeeds:
    """What a pod needs from device plugins.

    Attributes
    ----------
    lock
        The lock through which the node side finds the pod; None if there is none.
    serialized
        Whether the node side has to finish with the pod before the next one is bound to the node.
    ambiguous
        Whether a plugin may take any pod of the node that has not started for this one: there is no lock, or several
        vendors' plugins have to answer, and the first answer ends the lock.
    plugin_key
        The key by which the node side finds the pod; empty if it uses none.
    """

    lock: NodeLock | None
    serialized: bool
    ambiguous: bool
    plugin_key: str


@dataclass(slots=True)
class _Starting:
    """The pods of a node that have not started and that a plugin may confuse with others.

    Attributes
    ----------
    generation
        The generation of the policies under which their needs were read.
    seen
        The number of the last change of the node's pods that was read.
    ambiguous, any
        The ambiguous pods, and the pods that are ambiguous or serialized.
    """

    generation: int
    seen: int = 0
    ambiguous: set[str] = field(default_factory=set)
    any: set[str] = field(default_factory=set)


class PluginNeedsReader:
    """Reads the needs of pods, and caches them until the pod or the policies change.

    Parameters
    ----------
    engine
        The engine, which knows the claims of pods.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._catalogue = engine.policies.catalogue
        self._recent: BoundedCache[tuple[str, int, int], PluginNeeds] = BoundedCache(_MOST_BYTES)
        self._on_node: dict[str, _Starting] = {}

    def pod_confused_with(self, node: str, pod: Pod) -> str | None:
        """Return the UID of a pod of a node that a plugin may confuse with another pod; None if there is none.

        Only pods that changed since the last call for the node are read.
        """
        state, generation = self._engine.state, self._catalogue.generation
        known = self._on_node.get(node)
        if known is None or known.generation != generation:
            known = self._on_node[node] = _Starting(generation)
        starting = state.starting_pods(node)
        for uid in list(takewhile(lambda uid: starting[uid] > known.seen, reversed(starting))):
            other = state.pod(uid)
            assert other is not None, f"pod {uid} holds resources, and is not known"
            needs = self._read(other)
            for found, is_one in ((known.ambiguous, needs.ambiguous), (known.any, needs.ambiguous or needs.serialized)):
                (found.add if is_one else found.discard)(uid)
        known.seen = next((starting[uid] for uid in reversed(starting)), known.seen)
        found = known.any if self.of(pod).ambiguous else known.ambiguous
        found.intersection_update(starting)
        return next((uid for uid in starting if uid in found and uid != pod.uid), None) if found else None

    def forget(self, node: str) -> None:
        """Forget a node that is gone."""
        self._on_node.pop(node, None)

    def of(self, pod: Pod) -> PluginNeeds:
        """Return the needs of a pod."""
        if not pod.resource_version:
            return self._read(pod)
        key = (pod.uid, pod.resource_version, self._catalogue.generation)
        needs = self._recent.get(key)
        if needs is None:
            needs = self._read(pod)
            self._recent.put(key, needs, _NEEDS + len(needs.plugin_key))
        return needs

    def _read(self, pod: Pod) -> PluginNeeds:
        side: NodeSide = self._engine.dialects.node_side
        claims = self._engine.algorithm.classes.claims(pod)
        lock, serialized = side.lock(claims), side.serializes(claims)
        vendors = vendors_of(claims)
        return PluginNeeds(lock, serialized, len(vendors) > 1 or (serialized and lock is None), side.plugin_key(claims))
