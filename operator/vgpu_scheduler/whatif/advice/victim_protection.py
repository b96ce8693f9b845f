"""Policy fields that protect the possible victims of a pod."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from operator import itemgetter
from typing import Final, NamedTuple

from vgpu_scheduler.kube import Object, Pod
from vgpu_scheduler.model import Preemption, by_name, counted
from vgpu_scheduler.whatif.world.replacing import objects_replaced
from vgpu_scheduler.whatif.world.world import World

_SECTION: Final = "preemption"
_SPARING_NOBODY: Final[Mapping[str, object]] = {"minRuntime": "0s", "victims": "Any", "preemptible": True}
"""Fields that protect pods, with the values with which they protect none."""
_OF_THE_CLUSTER: Final = ("victims", "mayPreempt")
"""Fields that allow more victims only in cluster policies."""
_OWN: Final = "Own"
_NO_TIME: Final = re.compile("(0[a-z]+)+")
_MOST_RULES: Final = 16
_MOST_TOLD: Final = 3


class _Rule(NamedTuple):
    """A field of a policy, with its value."""

    policy: str
    field: str
    says: object

    def __str__(self) -> str:
        says = str(self.says).lower() if isinstance(self.says, bool) else self.says
        return f"spec.{_SECTION}.{self.field} of {self.policy} ({says})"


Search = Callable[[], Preemption | None]
"""Returns the preemption that is possible now; None without one."""


def fields_sparing_victims(world: World, pods: Sequence[Pod], search: Search) -> Iterator[str]:
    """Yield at most three sentences, each about a policy field without which a pod, or a group, would have victims.

    If only several fields together matter, yield one sentence about a minimal set of them.

    Parameters
    ----------
    pods
        The pod, or the waiting pods of the group.
    """
    rules = list(_rules(world, pods))[:_MOST_RULES]
    if not rules or not (goes := _without(world, search, rules)):
        return
    alone = (([rule], found) for rule in rules if (found := _without(world, search, [rule])))
    sparing = list(islice(alone, _MOST_TOLD))
    if not sparing:
        for rule in list(rules):
            fewer = [each for each in rules if each is not rule]
            if found := _without(world, search, fewer):
                rules, goes = fewer, found
        sparing = [(rules, goes)]
    for each, goes in sparing:
        allowed = " and ".join(map(str, each))
        yield f"If {allowed} allowed it, {would_go(goes)}."


def would_go(found: Preemption) -> str:
    """Say how many pods a preemption evicts, and where."""
    nodes = sorted({victim.node or found.node for victim in found.victims}) or [found.node]
    return f"{counted(len(found.victims), 'pod')} would be evicted on {by_name('node', nodes)}"


def _rules(world: World, pods: Sequence[Pod]) -> Iterator[_Rule]:
    """Yield the protecting fields of the effective policies of pods and of all pods of lower priority."""
    priority = world.engine.groups.priority
    own = {title: policy for pod in pods for title, policy in world.policies_in_force(pod, _SECTION)}
    lower = [each for each in world.bound.values() if priority(each) < priority(pods[0])]
    in_force = own | {title: policy for each in lower for title, policy in world.policies_in_force(each, _SECTION)}
    for title, policy in sorted(in_force.items(), key=itemgetter(0)):
        section = preemption_section(policy)
        for field, loose in _SPARING_NOBODY.items():
            is_own = field == "victims" and title in own and not policy["metadata"].get("namespace")
            says = section.get(field, _OWN if is_own else None)
            if says is not None and says != loose and not (field == "minRuntime" and _NO_TIME.fullmatch(str(says))):
                yield _Rule(title, field, says)


def preemption_section(policy: Object) -> Object:
    """Return the preemption section of a policy; empty if it is malformed."""
    spec = policy.get("spec")
    section = spec.get(_SECTION) if isinstance(spec, Mapping) else None
    return section if isinstance(section, Mapping) else {}


def loosened(policy: Object, field: str) -> Object:
    """Return a policy whose field protects no pod; the field is removed where a namespace policy may not set it."""
    spec = policy["spec"]
    others = {name: value for name, value in preemption_section(policy).items() if name != field}
    is_silent = field in _OF_THE_CLUSTER and policy["metadata"].get("namespace")
    more = {"delay": others.get("delay", "0s")} if is_silent else {field: _SPARING_NOBODY.get(field, True)}
    return {**policy, "spec": {**spec, _SECTION: {**others, **more}}}


def _without(world: World, search: Search, rules: Sequence[_Rule]) -> Preemption | None:
    """Return the preemption that would be possible if some rules protected no pod."""
    with ExitStack() as stack:
        for rule in rules:
            stack.enter_context(objects_replaced(world, (loosened(world.policies[rule.policy], rule.field),)))
        return search()
