"""Pods that keep another pod off nearby nodes, by inter-pod anti-affinity or topology spread constraints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.predicates import reasons as filters
from vgpu_scheduler.whatif.world.world import World

_MOST: Final = 16
"""Pods of one domain that are looked at, those of low priority."""
_REASONS: Final = frozenset({filters.INTER_POD_ANTI_AFFINITY, filters.INTER_POD_EXISTING, filters.SPREAD})
"""What nodes say to a pod that others keep away."""


def repelling_pods(world: World, pod: Pod) -> dict[str, list[Pod]]:
    """Return, by node, the bound pods on other nodes that may keep a pod off it.

    A pod may if the required anti-affinity of either selects the other, or a topology spread constraint of the pending
    pod counts it, within a domain of more than one node.
    """
    if _REASONS.isdisjoint(world.engine.algorithm.decide(pod).reasons):
        return {}
    domains: dict[tuple[str, str], list[Pod]] = {}
    for each in sorted(world.bound.values(), key=lambda each: (each.priority, each.key)):
        keys = {*repelled_topologies(world, pod, each), *repelled_topologies(world, each, pod), *_counting(pod, each)}
        for key, value in _labels(world, each.node_name).items() if keys and each.uid != pod.uid else ():
            if key in keys:
                domains.setdefault((key, value), []).append(each)
    found: dict[str, list[Pod]] = {}
    for name in world.nodes if domains else ():
        listed = (domains.get(label, [])[:_MOST] for label in _labels(world, name).items())
        near = {each.uid: each for pods in listed for each in pods if each.node_name != name}
        if near:
            found[name] = list(near.values())
    return found


def repelled_topologies(world: World, pod: Pod, other: Pod) -> Iterator[str]:
    """Yield the topology keys of a pod's required anti-affinity terms that select another pod.

    Parameters
    ----------
    pod
        The pod with the terms.
    """
    if not pod.spec.required_pod_anti_affinity:
        return
    labels = world.engine.state.interpod.namespaces.get(other.namespace)
    for term in pod.spec.required_pod_anti_affinity:
        meant = term.of(pod.namespace, pod.labels)
        if meant.pods.selects(other.namespace, labels, other.labels):
            yield meant.topology_key


def _counting(pod: Pod, other: Pod) -> Iterator[str]:
    """Yield the topology keys of a pod's hard spread constraints that count another pod."""
    for constraint in pod.spec.hard_spread if other.namespace == pod.namespace else ():
        selector = constraint.selector(pod.labels)
        if selector is not None and selector.matches(other.labels):
            yield constraint.topology_key


def _labels(world: World, name: str) -> Mapping[str, str]:
    node = world.engine.state.node(name)
    return {} if node is None else node.labels
