"""Quotas on numbers of pods and devices, which the API server enforces when pods are created."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Final

from vgpu_scheduler.kube import QUOTA_REQUESTS, Pod, QuantityError, to_int
from vgpu_scheduler.model.untyped import mapping_of
from vgpu_scheduler.whatif.world.world import World

_PODS: Final = frozenset({"pods", "count/pods"})


@dataclass(frozen=True, slots=True)
class CountQuota:
    """The limit of a quota on a count.

    Attributes
    ----------
    title
        The quota with its namespace, for messages.
    name
        The counted resource.
    limit
        The limit, as written.
    used
        The used amount according to the quota's status, or that of the pods of the world if the status does not say it.
    by_status
        Whether the status says it.
    """

    title: str
    name: str
    limit: object
    used: object = 0
    by_status: bool = False

    def counted(self, pod: Pod) -> int:
        """Return how much a pod adds to the count; 0 if the quota does not count it."""
        if self.name in _PODS:
            return 1
        resource = self.name.removeprefix(QUOTA_REQUESTS)
        return pod.spec.requests.get(resource, 0) if resource != self.name and "/" in resource else 0

    def allows(self, more: int) -> bool:
        """Tell whether the quota is known to allow this many more."""
        try:
            return to_int(str(self.used)) + more <= to_int(str(self.limit))
        except QuantityError:
            return False


def count_quotas(world: World, namespace: str, there: Collection[Pod]) -> Iterator[CountQuota]:
    """Yield the limits on counts of a namespace's quotas, without those that have scopes.

    Parameters
    ----------
    there
        The pods of the namespace.
    """
    for quota in world.quotas_of(namespace):
        spec, used = mapping_of(quota.get("spec")), mapping_of(mapping_of(quota.get("status")).get("used"))
        if spec.get("scopes") or spec.get("scopeSelector"):
            continue  # only the API server can tell whether scopes cover a pod
        title = f"ResourceQuota {namespace}/{mapping_of(quota.get('metadata')).get('name')}"
        for name, limit in mapping_of(spec.get("hard")).items():
            if name in used:
                yield CountQuota(title, name, limit, used[name], by_status=True)
            else:
                quota_alone = CountQuota(title, name, limit)
                yield replace(quota_alone, used=sum(map(quota_alone.counted, there)))


def pods_by_namespace(world: World) -> dict[str, list[Pod]]:
    """Return the bound and the pending pods."""
    pods: dict[str, list[Pod]] = {}
    for pod in world.present_pods:
        pods.setdefault(pod.namespace, []).append(pod)
    return pods


def exceeded_count_quotas(world: World) -> dict[str, list[CountQuota]]:
    """Return the exceeded quotas by namespace: pods that end there are not recreated."""
    found: dict[str, list[CountQuota]] = {}
    for namespace, there in pods_by_namespace(world).items():
        for quota in count_quotas(world, namespace, there):
            if any(map(quota.counted, there)) and not quota.allows(0):
                found.setdefault(namespace, []).append(quota)
    return found
