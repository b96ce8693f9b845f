"""The fields of policies that spare the pods which would have to go for another one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from operator import itemgetter
from typing import Final, NamedTuple

from vgpu_scheduler.kube import Object, Pod
from vgpu_scheduler.model import Preemption, counted
from vgpu_scheduler.whatif.world.replacing import objects_replaced
from vgpu_scheduler.whatif.world.world import World

__all__ = ["fields_sparing_victims", "loosened", "preemption_section"]


_SECTION: Final = "preemption"
_SPARING_NOBODY: Final[Mapping[str, object]] = {"minRuntime": "0s", "victims": "Any", "preemptible": True}
"""Fields that spare pods, with the values with which they spare none."""
_OF_THE_CLUSTER: Final = ("victims", "mayPreempt")
"""Fields that let more pods go only in cluster policies."""
_OWN: Final = "Own"
_NO_TIME: Final = re.compile("(0[a-z]+)+")
_MOST_RULES: Final = 16
_MOST_TOLD: Final = 3


class _Rule(NamedTuple):
    """A field of a policy, and what it says."""

    policy: str
    field: str
    says: object

    def __str__(self) -> str:
        says = str(self.says).lower() if isinstance(self.says, bool) else self.says
        return f"spec.{_SECTION}.{self.field} of {self.policy} ({says})"


def fields_sparing_victims(world: World, pod: Pod) -> Iterator[str]:
    """Yield the fields of policies without which others would have to go for a pod, a sentence each: at most three.

    Where it takes several at once, there is one sentence, about as few of them as suffice.
    """
    rules = list(_rules(world, pod))[:_MOST_RULES]
    if not rules or not (goes := _without(world, pod, rules)):
        return
    alone = (([rule], found) for rule in rules if (found := _without(world, pod, [rule])))
    sparing = list(islice(alone, _MOST_TOLD))
    if not sparing:
        for rule in list(rules):
            fewer = [each for each in rules if each is not rule]
            if found := _without(world, pod, fewer):
                rules, goes = fewer, found
        sparing = [(rules, goes)]
    for each, goes in sparing:
        allowed = " and ".join(map(str, each))
        yield f"If {allowed} allowed it, {counted(len(goes.victims), 'pod')} would go on node {goes.node}."


def _rules(world: World, pod: Pod) -> Iterator[_Rule]:
    """Yield what spares pods, of the policies that are in force for a pod or for those of lower priority."""
    priority = world.engine.groups.priority
    own = dict(world.policies_in_force(pod, _SECTION))
    lower = [each for each in world.bound.values() if priority(each) < priority(pod)]
    in_force = own | {title: policy for each in lower for title, policy in world.policies_in_force(each, _SECTION)}
    for title, policy in sorted(in_force.items(), key=itemgetter(0)):
        section = preemption_section(policy)
        for field, loose in _SPARING_NOBODY.items():
            is_own = field == "victims" and title in own and not policy["metadata"].get("namespace")
            says = section.get(field, _OWN if is_own else None)
            if says is not None and says != loose and not (field == "minRuntime" and _NO_TIME.fullmatch(str(says))):
                yield _Rule(title, field, says)


def preemption_section(policy: Object) -> Object:
    """Return what a policy says of preemption; nothing where it cannot be understood."""
    spec = policy.get("spec")
    section = spec.get(_SECTION) if isinstance(spec, Mapping) else None
    return section if isinstance(section, Mapping) else {}


def loosened(policy: Object, field: str) -> Object:
    """Return a policy of which a field lets all pods go; where one of a namespace may not say so, it is silent."""
    spec = policy["spec"]
    others = {name: value for name, value in preemption_section(policy).items() if name != field}
    is_silent = field in _OF_THE_CLUSTER and policy["metadata"].get("namespace")
    more = {"delay": others.get("delay", "0s")} if is_silent else {field: _SPARING_NOBODY.get(field, True)}
    return {**policy, "spec": {**spec, _SECTION: {**others, **more}}}


def _without(world: World, pod: Pod, rules: Sequence[_Rule]) -> Preemption | None:
    """Return who would go if some rules spared nobody."""
    with ExitStack() as stack:
        for rule in rules:
            stack.enter_context(objects_replaced(world, (loosened(world.policies[rule.policy], rule.field),)))
        return world.engine.preemptions.evaluator.search(pod, 0.0).preemption
