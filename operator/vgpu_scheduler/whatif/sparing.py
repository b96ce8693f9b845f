"""The fields of policies that spare the pods which would have to go for another one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final, NamedTuple

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Preemption, counted
from vgpu_scheduler.policy import CLUSTER_KIND
from vgpu_scheduler.whatif.world import World

__all__ = ["spared_by"]

Object = Mapping[str, Any]

_SECTION: Final = "preemption"
_SPARING_NOBODY: Final[Mapping[str, object]] = {"minRuntime": "0s", "victims": "Any", "preemptible": True}
"""Fields that spare pods, with the values with which they spare none."""
_OWN: Final = "Own"


class _Rule(NamedTuple):
    """A field of a policy, and what it says."""

    policy: str
    field: str
    says: object

    def __str__(self) -> str:
        says = str(self.says).lower() if isinstance(self.says, bool) else self.says
        return f"spec.{_SECTION}.{self.field} of {self.policy} ({says})"


def spared_by(world: World, pod: Pod) -> Iterator[str]:
    """Yield the fields of policies without which others would have to go for a pod, a sentence each.

    Where it takes several at once, there is one sentence about all that there are.
    """
    rules = list(_rules(world, pod))
    found = [([rule], goes) for rule in rules if (goes := _without(world, pod, [rule]))]
    if not found and len(rules) > 1 and (goes := _without(world, pod, rules)):
        found = [(rules, goes)]
    for each, goes in found:
        allowed = " and ".join(map(str, each))
        yield f"If {allowed} allowed it, {counted(len(goes.victims), 'pod')} would go on node {goes.node}."


def _rules(world: World, pod: Pod) -> Iterator[_Rule]:
    own = world.engine.policies.resolve(pod).source_of.get(_SECTION, "").split(", ")
    for title, policy in sorted(world.policies.items()):
        section = (policy.get("spec") or {}).get(_SECTION) or {}
        for field, loose in _SPARING_NOBODY.items():
            is_own = field == "victims" and title in own and title.startswith(CLUSTER_KIND)
            says = section.get(field, _OWN if is_own else None)
            if says is not None and says != loose:
                yield _Rule(title, field, says)


def _loosened(policy: Object, field: str) -> Object:
    """Return a policy of which a field spares nobody; where one of a namespace may not say so, it is silent."""
    spec = policy["spec"]
    others = {name: value for name, value in spec[_SECTION].items() if name != field}
    is_silent = field == "victims" and policy["metadata"].get("namespace")
    more = {"delay": others.get("delay", "0s")} if is_silent else {field: _SPARING_NOBODY[field]}
    return {**policy, "spec": {**spec, _SECTION: {**others, **more}}}


def _without(world: World, pod: Pod, rules: Sequence[_Rule]) -> Preemption | None:
    """Return who would go if some rules spared nobody."""
    with ExitStack() as stack:
        for rule in rules:
            policy = world.policies[rule.policy]
            stack.callback(world.replace_policy, policy)
            world.replace_policy(_loosened(policy, rule.field))
        return world.engine.preemptions.evaluator.search(pod, 0.0).preemption
