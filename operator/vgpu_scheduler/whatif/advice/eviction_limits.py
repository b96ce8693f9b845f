"""Limits of evictions by policies that are smaller than what a pod, or a group, needs at once: waiting is in vain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from vgpu_scheduler.kube import Object, Pod
from vgpu_scheduler.model.untyped import mapping_of
from vgpu_scheduler.policy import MOST_EVICTIONS, key_title
from vgpu_scheduler.whatif.advice.policy_remedies import writer_of
from vgpu_scheduler.whatif.advice.victim_protection import Search, preemption_section, would_go
from vgpu_scheduler.whatif.world.replacing import objects_replaced
from vgpu_scheduler.whatif.world.world import World

_SECTION: Final = "preemption"
_FIELD: Final = "perHour"


def eviction_limits_to_raise(world: World, pods: Sequence[Pod], search: Search) -> Iterator[str]:
    """Yield a sentence about each policy whose limit is smaller than what is needed, and the limit that is enough.

    It is tried that the raised limits are enough. Nothing is said of limits that are only used up now.

    Parameters
    ----------
    pods
        The pod, or the waiting pods of the group.
    """
    limits, used = dict[str, int](), dict[str, int]()
    evaluator = world.engine.preemptions.evaluator
    for pod in pods:
        for key, limit in world.engine.policies.resolve(pod).preemption.eviction_limits:
            title = key_title(key)
            if title in world.policies:
                limits[title], used[title] = limit, evaluator.limits.used(key, evaluator.unix_ahead)
    if not limits:
        return
    with objects_replaced(world, [_with_limit(world.policies[title], MOST_EVICTIONS) for title in limits]):
        goes = search()
    needed = 0 if goes is None else sum(victim.bound and not victim.terminating for victim in goes.victims)
    raised = {title: needed + used[title] for title, limit in sorted(limits.items()) if limit < needed}
    if not raised or max(raised.values()) > MOST_EVICTIONS:
        return
    with objects_replaced(world, [_with_limit(world.policies[title], limit) for title, limit in raised.items()]):
        goes = search()
    if goes is None:
        return
    for title, enough in raised.items():
        others = [each for each in raised if each != title]
        beside = f", and raised that of {' and '.join(others)}" if others else ""
        yield (
            f"Waiting does not help: spec.{_SECTION}.{_FIELD} of {title} is {limits[title]}, and {needed} evictions are"
            f" needed at once. If {writer_of(world.policies[title])} set it to {enough}{beside}, {would_go(goes)}."
        )


def _with_limit(policy: Object, limit: int) -> Object:
    """Return a policy with another limit; unchanged if it sets none."""
    section = preemption_section(policy)
    if _FIELD not in section:
        return policy
    spec: Mapping[str, object] = mapping_of(policy.get("spec"))
    return {**policy, "spec": {**spec, _SECTION: {**section, _FIELD: limit}}}
