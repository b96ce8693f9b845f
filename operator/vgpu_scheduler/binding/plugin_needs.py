"""What pods need of the device plugins of their node."""

from __future__ import annotations

from dataclasses import dataclass

from vgpu_scheduler.dialects import NodeLock, NodeSide
from vgpu_scheduler.engine import Engine
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import BoundedCache

_MOST_BYTES = 2**20
"""What is remembered may take so much: about 1,500 pods, of which the lanes of a burst ask the same all the time."""
_NEEDS = 2**9
"""What the needs of a pod take beside the text of its turn."""


@dataclass(frozen=True, slots=True)
class PluginNeeds:
    """What a pod needs of device plugins.

    Attributes
    ----------
    lock
        The lock through which the node side will look for it; None if there is none.
    in_turn
        Whether the node side has to be through with it before the next one is bound there.
    guessed
        Whether a plugin may take any pod of its node that has not started for this one: there is no lock, or several
        makers' plugins have to answer, and the first one ends it.
    turn
        What the node side will know it by; empty if it has other ways.
    """

    lock: NodeLock | None
    in_turn: bool
    guessed: bool
    turn: str


class PluginNeedsReader:
    """Reads what pods need, and remembers it for as long as nothing changes that it follows from.

    Parameters
    ----------
    engine
        Says what pods claim.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._catalogue = engine.policies.catalogue
        self._recent: BoundedCache[tuple[str, int, int], PluginNeeds] = BoundedCache(_MOST_BYTES)
        self._on_node: dict[str, tuple[int, dict[str, tuple[int, PluginNeeds]]]] = {}
        """By node, at a generation of policies, what the pods needed that had not started, by UID and version."""

    def of_starting(self, node: str) -> list[tuple[Pod, PluginNeeds]]:
        """Return the pods that are bound to a node and have not started, with what they need."""
        generation = self._catalogue.generation
        since, before = self._on_node.get(node, (generation, {}))
        found, now = [], {}
        for pod in self._engine.state.starting_pods(node):
            known = before.get(pod.uid) if since == generation else None
            if known is None or known[0] != pod.resource_version or not pod.resource_version:
                known = pod.resource_version, self._read(pod)
            now[pod.uid] = known
            found.append((pod, known[1]))
        self._on_node[node] = generation, now
        return found

    def forget(self, node: str) -> None:
        """Forget what the pods of a node need, for it is gone."""
        self._on_node.pop(node, None)

    def of(self, pod: Pod) -> PluginNeeds:
        """Return what a pod needs."""
        if not pod.resource_version:
            return self._read(pod)
        key = (pod.uid, pod.resource_version, self._catalogue.generation)
        needs = self._recent.get(key)
        if needs is None:
            needs = self._read(pod)
            self._recent.put(key, needs, _NEEDS + len(needs.turn))
        return needs

    def _read(self, pod: Pod) -> PluginNeeds:
        side: NodeSide = self._engine.dialects.node_side
        claims = self._engine.cycle.classes.claims(pod)
        lock, in_turn = side.lock(claims), side.in_turn(claims)
        vendors = {claim.vendor for container in claims for claim in container.claims}
        return PluginNeeds(lock, in_turn, len(vendors) > 1 or (in_turn and lock is None), side.turn(claims))
