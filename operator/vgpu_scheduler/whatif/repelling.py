"""Which pods keep another one away from where they are, and from all that is near: by required anti-affinity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.whatif.world import World

__all__ = ["repelling_pods"]


def repelling_pods(world: World, pod: Pod) -> dict[str, list[Pod]]:
    """Return the bound pods that keep a pod away from other nodes than their own, by the names of these nodes.

    A pod does where its anti-affinity is about the other one, or that one's is about it, and the topology of a term
    reaches over more than one node.
    """
    found: dict[str, list[Pod]] = {}
    for each in world.bound.values():
        if each.uid == pod.uid or not (each.spec.required_pod_anti_affinity or pod.spec.required_pod_anti_affinity):
            continue
        keys = {*_repelled(world, pod, each), *_repelled(world, each, pod)}
        for name in world.nodes if keys else ():
            if name != each.node_name and any(_are_near(world, key, name, each.node_name) for key in keys):
                found.setdefault(name, []).append(each)
    return found


def _repelled(world: World, pod: Pod, other: Pod) -> Iterator[str]:
    """Yield the topologies within which a pod wants another one nowhere."""
    labels = _labels_of_namespace(world, other)
    for term in pod.spec.required_pod_anti_affinity:
        meant = term.of(pod.namespace, pod.labels)
        if meant.pods.selects(other.namespace, labels, other.labels):
            yield meant.topology_key


def _labels_of_namespace(world: World, pod: Pod) -> Mapping[str, str] | None:
    return world.engine.state.interpod.namespaces.get(pod.namespace)


def _are_near(world: World, key: str, one: str, other: str) -> bool:
    labels = [node.labels.get(key) if (node := world.engine.state.node(name)) else None for name in (one, other)]
    return labels[0] is not None and labels[0] == labels[1]
