"""What has to be set so that a pod has others of lower priority evicted, where nobody is evicted for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Final

from vgpu_scheduler.engine import GroupStatus
from vgpu_scheduler.engine.preemption import PreemptionResult
from vgpu_scheduler.kube import Object, Pod
from vgpu_scheduler.policy import CLUSTER_KIND, decode_policy
from vgpu_scheduler.whatif.advice.victim_protection import loosened, preemption_section
from vgpu_scheduler.whatif.world.replacing import objects_replaced
from vgpu_scheduler.whatif.world.world import World

__all__ = ["what_to_set", "what_to_set_for_group"]

_Search = Callable[[float], tuple[bool, str]]
"""Tells whether somebody is found to be evicted at some time, and why nobody is."""
_SECTION: Final = "preemption"
_FIELD: Final = "mayPreempt"
_PAGE: Final = "docs/preemption.md"
_NEVER: Final = "Never"
_NOBODYS_NAME: Final = "may/preempt"
"""A name that no object can have: those of Kubernetes are parts of a path."""
_LATER: Final = 100 * 365 * 86400.0
"""Seconds after which delays and run times have passed, and no eviction of the last hour counts."""


def what_to_set(world: World, pod: Pod) -> str:
    """Say what has to be set so that a pod preempts others; empty unless that would help one with a priority."""
    if pod.priority <= 0 or pod.preemption_policy == _NEVER:
        return ""
    evaluator = world.engine.preemptions.evaluator

    def search(now: float) -> tuple[bool, str]:
        found = evaluator.search(pod, now)
        return found.preemption is not None, found.reason

    return _what_to_set(world, [pod], search, "its way")


def what_to_set_for_group(world: World, group: GroupStatus) -> str:
    """Say what has to be set so that a group preempts others, as :func:`what_to_set` does of a pod.

    Nothing is said where the setting is off: then nobody plans room for groups.
    """
    planning = world.engine.attempts.group_preemptions
    pods = [pod for pod in group.waiting if pod.preemption_policy != _NEVER]
    if planning is None or len(pods) < len(group.waiting) or not all(map(_has_priority(world), pods)):
        return ""

    def search(now: float) -> tuple[bool, str]:
        found = planning.search(group, now)
        return (False, found.reason) if isinstance(found, PreemptionResult) else (True, "")

    return _what_to_set(world, pods, search, "the way of its group")


def _has_priority(world: World) -> Callable[[Pod], bool]:
    return lambda pod: world.engine.groups.priority(pod) > 0


def _what_to_set(world: World, pods: Sequence[Pod], search: _Search, whose: str) -> str:
    """Say what has to be set so that a search finds whom pods have evicted; empty where it finds nobody then."""
    for namespace in sorted({each.namespace for each in world.bound.values()}):
        world.ensure_namespace(namespace)  # nobody is evicted from one that is not known
    with world.engine.preemptions.supposing(), ExitStack() as stack:
        policies: list[str] = []
        for pod in pods:
            if not world.engine.policies.resolve(pod).preemption.may_preempt:
                policies += stack.enter_context(_let_preempt(world, pod))
        now, reason = search(0.0)
        later = now or search(_LATER)[0]
    if not later:
        return ""
    unset = [*([] if world.engine.preemption else ["install manifests/preemption"]), *dict.fromkeys(policies)]
    return (
        f"Pods of lower priority are in {whose}, and none is evicted: {' and '.join(unset)} ({_PAGE})."
        f"{'' if now else f' Even then nobody goes at once: {reason}'}"
    )


@contextmanager
def _let_preempt(world: World, pod: Pod) -> Iterator[list[str]]:
    """Have policies let a pod preempt others for the time of a question, and yield what of them has to be otherwise."""
    in_force = world.policies_in_force(pod, _SECTION)
    written = next((policy for _, policy in in_force if not policy["metadata"].get("namespace")), None)
    unset = []
    with ExitStack() as stack:
        if written is None or preemption_section(written).get(_FIELD) is not True:
            one = objects_replaced(world, [loosened(written, _FIELD)]) if written is not None else _one_more(world)
            stack.enter_context(one)
            unset.append(f"have a ClusterVGPUPolicy say preemption.{_FIELD} for it")
        while found := _forbidding(world, pod):  # of several that forbid it, one is in force
            title, policy = found
            unset.append(f"have {title} not say preemption.{_FIELD}: false")
            stack.enter_context(objects_replaced(world, [loosened(policy, _FIELD)]))
        yield unset


def _forbidding(world: World, pod: Pod) -> tuple[str, Object] | None:
    """Return the policy of its namespace by which a pod may not preempt others, after its title; None if none is."""
    own = (each for each in world.policies_in_force(pod, _SECTION) if each[1]["metadata"].get("namespace"))
    return next((each for each in own if preemption_section(each[1]).get(_FIELD) is False), None)


@contextmanager
def _one_more(world: World) -> Iterator[None]:
    """Have there be one more cluster policy, which lets all pods preempt others."""
    metadata = {"name": _NOBODYS_NAME, "uid": world.new_uid()}
    may = {"kind": CLUSTER_KIND, "metadata": metadata, "spec": {_SECTION: {_FIELD: True}}}
    policy = replace(decode_policy(may), resource_version=0)
    world.engine.policy_tracker.observe(policy)
    try:
        yield
    finally:
        world.engine.policy_tracker.remove(policy)
