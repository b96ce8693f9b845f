"""Remedy for a pod to which a policy's defaults give more than is available: lower these defaults."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from vgpu_scheduler.kube import Object, to_int
from vgpu_scheduler.model import mib_needed
from vgpu_scheduler.whatif.advice.policy_remedies import writer_of
from vgpu_scheduler.whatif.advice.remedy import HypotheticalPod, Remedy, RemedyType, do
from vgpu_scheduler.whatif.advice.searching import largest_that_fits

_MEMORY, _CORES = "memory", "cores"
_MOST_POLICIES: Final = 3


def lower_defaults(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Propose the largest default memory, or default compute, of one policy with which the pod fits."""
    world = waiting.world
    in_force = {title: policy for pod in waiting.at_once for title, policy in world.policies_in_force(pod, "defaults")}
    for title, policy in list(in_force.items())[:_MOST_POLICIES]:
        for name in (_MEMORY, _CORES):
            given = (policy["spec"].get("defaults") or {}).get(name)
            found = None if not given else _lowered(waiting, policy, name, given)
            if found is not None:
                amount, node = found
                to = _written(name, amount)
                text = f"have {writer_of(policy)} lower spec.defaults.{name} of {title} to {to} (it is {given})"
                yield Remedy(RemedyType.CHANGE_POLICY, do(text), node, objects=(_with(policy, name, amount),))


def _lowered(waiting: HypotheticalPod, policy: Object, name: str, given: Any) -> tuple[int, str] | None:
    """Return the largest default with which the pod fits, in MiB or percent, and its node; None if it never fits."""
    steps = mib_needed(to_int(str(given))) if name == _MEMORY else int(given)

    def node_with(amount: int) -> str:
        return waiting.node_with(_with(policy, name, amount))

    return largest_that_fits(node_with, range(1, steps))


def _with(policy: Object, name: str, amount: int) -> Object:
    spec = policy["spec"]
    return {**policy, "spec": {**spec, "defaults": {**spec["defaults"], name: _written(name, amount)}}}


def _written(name: str, amount: int) -> Any:
    return f"{amount}Mi" if name == _MEMORY else amount
