"""What has to be set so that a pod has others of lower priority evicted, where nobody is evicted for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.policy import CLUSTER_KIND, decode_policy
from vgpu_scheduler.whatif.world import World

__all__ = ["what_to_set"]

_PAGE: Final = "docs/preemption.md"
_NEVER: Final = "Never"
_LATER: Final = 100 * 365 * 86400.0
"""Seconds after which delays and run times have passed, and no eviction of the last hour counts."""


def what_to_set(world: World, pod: Pod) -> str:
    """Say what has to be set so that a pod preempts others; empty unless that would help one with a priority."""
    if pod.priority <= 0 or pod.preemption_policy == _NEVER:
        return ""
    for namespace in sorted({each.namespace for each in world.bound.values()}):
        world.ensure_namespace(namespace)  # nobody is evicted from one that is not known
    evaluator = world.engine.preemptions.evaluator
    with world.engine.preemptions.supposing(), _let_preempt(world, pod):
        now = evaluator.search(pod, 0.0)
        later = now if now.preemption is not None else evaluator.search(pod, _LATER)
    if later.preemption is None:
        return ""
    off = "" if world.engine.preemption else "install manifests/preemption"
    may = world.engine.policies.resolve(pod).preemption.may_preempt
    policy = "" if may else "have a ClusterVGPUPolicy say preemption.mayPreempt for it"
    return (
        f"Pods of lower priority are in its way, and none is evicted: {' and '.join(filter(None, (off, policy)))}"
        f" ({_PAGE}).{'' if now is later else f' Even then nobody goes at once: {now.reason}'}"
    )


@contextmanager
def _let_preempt(world: World, pod: Pod) -> Iterator[None]:
    """Have a cluster policy let a pod preempt others for the time of a question: the one in force, or one more."""
    policies, in_force = world.engine.policy_tracker, world.policies_in_force(pod, "preemption")
    written = next((policy for title, policy in in_force if title.startswith(CLUSTER_KIND)), None)
    spec = {} if written is None else written.get("spec") or {}
    new = {"kind": CLUSTER_KIND, "metadata": {"name": "may-preempt", "uid": world.new_uid()}}
    may = {**(written or new), "spec": {**spec, "preemption": {**(spec.get("preemption") or {}), "mayPreempt": True}}}
    policy = replace(decode_policy(may), resource_version=0)
    policies.observe(policy)
    try:
        yield
    finally:
        if written is None:
            policies.remove(policy)
        else:
            world.replace_policy(written)
