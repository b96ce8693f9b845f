"""Quotas that the API server enforces when pods are created: on counts, and on cpu, memory and the like."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from vgpu_scheduler.kube import (
    Object,
    Pod,
    QuantityError,
    missing_amounts,
    quota_amount,
    quota_usage,
    to_nano,
)
from vgpu_scheduler.model.untyped import mapping_of
from vgpu_scheduler.whatif.objects.admission import with_defaults
from vgpu_scheduler.whatif.world.world import World

_NOTHING: Final[Mapping[str, int]] = {}


@dataclass(frozen=True, slots=True)
class CountQuota:
    """The limit of a quota on what pods add to it when they are created.

    Attributes
    ----------
    title
        The quota with its namespace, for messages.
    name
        The counted resource, as the quota names it.
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

    def counted(self, usage: Mapping[str, int]) -> int:
        """Return how much of the usage of a pod the quota counts, in nanos; 0 if it does not count it."""
        return usage.get(self.name, 0)

    def allows(self, more: int) -> bool:
        """Tell whether the quota is known to allow this many more, in nanos."""
        try:
            return to_nano(str(self.used)) + more <= to_nano(str(self.limit))
        except QuantityError:
            return False


def usage_in_quotas(world: World, pod: Pod) -> Mapping[str, int]:
    """Return what a pod adds to quotas when it is created; nothing if an amount of it is no quantity."""
    try:
        return quota_usage(with_defaults(world.written_alike(pod), {}))
    except QuantityError:  # an amount that decisions do not read
        return _NOTHING


def count_quotas(world: World, namespace: str, there: Collection[Pod]) -> Iterator[CountQuota]:
    """Yield the limits of a namespace's quotas on what pods add, without those that have scopes.

    Parameters
    ----------
    there
        The pods of the namespace.
    """
    usages: list[Mapping[str, int]] | None = None
    for title, quota in _without_scopes(world, namespace):
        used = mapping_of(mapping_of(quota.get("status")).get("used"))
        for name, limit in _hard(quota).items():
            if name in used:
                yield CountQuota(title, name, limit, used[name], by_status=True)
            else:
                usages = [usage_in_quotas(world, pod) for pod in there] if usages is None else usages
                total = sum(usage.get(name, 0) for usage in usages)
                yield CountQuota(title, name, limit, quota_amount(name, total))


def unsaid_amounts(world: World, pod: Pod) -> Iterator[tuple[str, str]]:
    """Yield each quota for which a new pod lacks amounts, with what the pod must specify."""
    written = with_defaults(world.written_alike(pod), {})
    for title, quota in _without_scopes(world, pod.namespace):
        if missing := missing_amounts(written, _hard(quota)):
            yield title, missing


def _without_scopes(world: World, namespace: str) -> Iterator[tuple[str, Object]]:
    """Yield the quotas of a namespace with their titles; only the API server can tell whether scopes cover a pod."""
    for quota in world.quotas_of(namespace):
        spec = mapping_of(quota.get("spec"))
        if not spec.get("scopes") and not spec.get("scopeSelector"):
            yield f"ResourceQuota {namespace}/{mapping_of(quota.get('metadata')).get('name')}", quota


def _hard(quota: Object) -> Mapping[str, object]:
    return mapping_of(mapping_of(quota.get("spec")).get("hard"))


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
            if not quota.allows(0) and any(quota.counted(usage_in_quotas(world, pod)) for pod in there):
                found.setdefault(namespace, []).append(quota)
    return found
