"""What to set so that a pod can preempt pods of lower priority, if preemption is off for it."""

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
from vgpu_scheduler.whatif.world.tables import few
from vgpu_scheduler.whatif.world.world import World

_Search = Callable[[float], tuple[bool, str]]
"""Tells whether there are victims at a given time, and otherwise why there are none."""
_SECTION: Final = "preemption"
_FIELD: Final = "mayPreempt"
_INSTALL: Final = (
    "have an administrator of the scheduler install manifests/preemption (preemption.enabled of the chart)"
)
_PAGE: Final = "docs/preemption.md"
_NEVER: Final = "Never"
_NOBODYS_NAME: Final = "may/preempt"
"""A name that no object can have, since Kubernetes forbids the slash."""
_LATER: Final = 100 * 365 * 86400.0
"""A time in seconds at which all delays, run times and hourly eviction limits have passed."""


def what_to_set(world: World, pod: Pod) -> str:
    """Say what to set so that a pod preempts others; empty if that would not help, or the pod has no priority."""
    if pod.priority <= 0 or pod.preemption_policy == _NEVER:
        return ""
    evaluator = world.engine.preemptions.evaluator

    def search(now: float) -> tuple[bool, str]:
        found = evaluator.search(pod, now)
        return found.preemption is not None, found.reason

    return _what_to_set(world, [pod], search, "its way")


def what_to_set_for_group(world: World, group: GroupStatus) -> str:
    """Say what to set so that a group preempts others, as :func:`what_to_set` does for a pod."""
    planning = world.engine.attempts.group_preemptions
    pods = [pod for pod in group.waiting if pod.preemption_policy != _NEVER]
    if len(pods) < len(group.waiting) or not all(map(_has_priority(world), pods)):
        return ""

    def search(now: float) -> tuple[bool, str]:
        found = planning.search(group, now)
        return (False, found.reason) if isinstance(found, PreemptionResult) else (True, "")

    return _what_to_set(world, pods, search, "the way of its group")


def _has_priority(world: World) -> Callable[[Pod], bool]:
    return lambda pod: world.engine.groups.priority(pod) > 0


def _what_to_set(world: World, pods: Sequence[Pod], search: _Search, whose: str) -> str:
    """Say what to set so that a search finds victims; empty if it finds none even then."""
    for namespace in sorted({each.namespace for each in world.bound.values()}):
        world.ensure_namespace(namespace)  # pods of an unknown namespace are no victims
    with world.engine.preemptions.rolled_back(), ExitStack() as stack:
        lacking = [pod for pod in pods if not world.engine.policies.resolve(pod).preemption.may_preempt]
        names = few([pod.name for pod in lacking], "of its group")
        whom = "it" if len(lacking) == len(pods) else f"{'pod' if len(lacking) == 1 else 'pods'} {names}"
        policies: list[str] = []
        for pod in lacking:
            if not world.engine.policies.resolve(pod).preemption.may_preempt:  # else a change for another one suffices
                policies += stack.enter_context(_let_preempt(world, pod, whom))
        now, reason = search(0.0)
        later = now or search(_LATER)[0]
    if not later:
        return ""
    unset = [*([] if world.engine.preemption else [_INSTALL]), *dict.fromkeys(policies)]
    return (
        f"Pods of lower priority are in {whose}, and none is evicted: {' and '.join(unset)} ({_PAGE})."
        f"{'' if now else f' Even then no pod is evicted at once: {reason}'}"
    )


@contextmanager
def _let_preempt(world: World, pod: Pod, whom: str) -> Iterator[list[str]]:
    """Let a pod preempt others for the time of a question, and yield the necessary changes of policies.

    Parameters
    ----------
    whom
        The pods that may not preempt others yet, in words.
    """
    in_force = world.policies_in_force(pod, _SECTION)
    written = next((policy for _, policy in in_force if not policy["metadata"].get("namespace")), None)
    unset = []
    with ExitStack() as stack:
        if written is None or preemption_section(written).get(_FIELD) is not True:
            one = objects_replaced(world, [loosened(written, _FIELD)]) if written is not None else _one_more(world)
            stack.enter_context(one)
            unset.append(f"have a ClusterVGPUPolicy set preemption.{_FIELD} for {whom}")
        while found := _forbidding(world, pod):  # removing one may bring another policy into force
            title, policy = found
            unset.append(f"remove preemption.{_FIELD}: false from {title}")
            stack.enter_context(objects_replaced(world, [loosened(policy, _FIELD)]))
        yield unset


def _forbidding(world: World, pod: Pod) -> tuple[str, Object] | None:
    """Return the namespace policy that forbids a pod to preempt others, with its title; None without one."""
    own = (each for each in world.policies_in_force(pod, _SECTION) if each[1]["metadata"].get("namespace"))
    return next((each for each in own if preemption_section(each[1]).get(_FIELD) is False), None)


@contextmanager
def _one_more(world: World) -> Iterator[None]:
    """Add a cluster policy that lets all pods preempt others, for the time of a question."""
    metadata = {"name": _NOBODYS_NAME, "uid": world.new_uid()}
    may = {"kind": CLUSTER_KIND, "metadata": metadata, "spec": {_SECTION: {_FIELD: True}}}
    policy = replace(decode_policy(may), resource_version=0)
    world.engine.policy_tracker.observe(policy)
    try:
        yield
    finally:
        world.engine.policy_tracker.remove(policy)
