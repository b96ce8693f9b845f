"""Quotas on counts of pods and of devices, which the API server enforces when pods are created."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from vgpu_scheduler.kube import Pod, QuantityError, to_int
from vgpu_scheduler.model.untyped import mapping_of
from vgpu_scheduler.whatif.world.world import World

__all__ = ["count_quotas", "exceeded_count_quotas"]

_REQUESTS: Final = "requests."
_PODS: Final = frozenset({"pods", "count/pods"})


@dataclass(frozen=True, slots=True)
class CountQuota:
    """What a quota allows of a count.

    Attributes
    ----------
    title
        The quota, with its namespace.
    name
        What it counts.
    limit
        How much of it is allowed, as it is written.
    used
        How much of it the status of the quota calls used; empty where it says nothing.
    """

    title: str
    name: str
    limit: object
    used: object = ""

    def counted(self, pod: Pod) -> int:
        """Return what a pod counts for; 0 where it is no matter of this quota."""
        if self.name in _PODS:
            return 1
        resource = self.name.removeprefix(_REQUESTS)
        return pod.spec.requests.get(resource, 0) if resource != self.name and "/" in resource else 0

    def allows(self, more: int) -> bool:
        """Tell whether so many more are known to be allowed."""
        try:
            return to_int(str(self.used or 0)) + more <= to_int(str(self.limit))
        except QuantityError:
            return False


def count_quotas(world: World, namespace: str) -> Iterator[CountQuota]:
    """Yield what the quotas of a namespace say of counts, those for some of its pods alone aside."""
    for quota in world.quotas_of(namespace):
        spec, used = mapping_of(quota.get("spec")), mapping_of(mapping_of(quota.get("status")).get("used"))
        if spec.get("scopes") or spec.get("scopeSelector"):
            continue  # whether it is about a pod the API server knows
        title = f"ResourceQuota {namespace}/{mapping_of(quota.get('metadata')).get('name')}"
        for name, limit in mapping_of(spec.get("hard")).items():
            yield CountQuota(title, name, limit, used.get(name, ""))


def exceeded_count_quotas(world: World) -> dict[str, list[CountQuota]]:
    """Return the quotas of which more is used than they allow, by namespace: what ends there is not made anew.

    Where their status does not say how much is used, the pods that are there are counted.
    """
    pods: dict[str, list[Pod]] = {}
    for pod in (*world.bound.values(), *world.pending.values()):
        pods.setdefault(pod.namespace, []).append(pod)
    found: dict[str, list[CountQuota]] = {}
    for namespace, there in pods.items():
        for quota in count_quotas(world, namespace):
            held = sum(map(quota.counted, there))
            if held and not quota.allows(0 if quota.used != "" else held):
                found.setdefault(namespace, []).append(quota)
    return found
