"""Find all obstacles of nodes that have more than one, although a node reports only the first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

from vgpu_scheduler.kube import CPU, EPHEMERAL_STORAGE, MEMORY, Object, Pod
from vgpu_scheduler.model import CardReason, NodeVerdict, Outcome
from vgpu_scheduler.predicates import reasons as filters
from vgpu_scheduler.whatif.advice.constraints import annotations_that_count, constraints_of
from vgpu_scheduler.whatif.advice.policy_remedies import without_limits, without_restrictions
from vgpu_scheduler.whatif.advice.quota_remedies import unlimited_quota
from vgpu_scheduler.whatif.advice.repairs import sick_cards
from vgpu_scheduler.whatif.objects.amounts import amounts_of
from vgpu_scheduler.whatif.objects.containers import with_containers, without_resources
from vgpu_scheduler.whatif.reasons.causes import not_offered
from vgpu_scheduler.whatif.reasons.node_exclusions import Obstacle, ObstacleType, obstacles_of, tolerating_all
from vgpu_scheduler.whatif.world.nodes import listed_cards, with_annotation, with_offered
from vgpu_scheduler.whatif.world.replacing import objects_replaced
from vgpu_scheduler.whatif.world.simulation import PodResult, ask, created
from vgpu_scheduler.whatif.world.tables import few
from vgpu_scheduler.whatif.world.world import World

_MOST_GROUPS: Final = 3
_MOST_NODES: Final = 64
"""The most nodes whose further obstacles behind their cards are searched."""
_ANY_NUMBER: Final = "1000000"
_SELECTORS: Final = ("nodeSelector", "affinity.nodeAffinity")
_OF_NODES: Final = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE})


def causes_together(world: World, answer: PodResult) -> tuple[str, ...]:
    """Return sentences about the nodes with several obstacles to a pod, those with the fewest obstacles first.

    A node reports only the first obstacle. The next one is found by deciding a copy of the pod without the first.
    Resources that no node offers are not listed as obstacles. For a pod that policy limits refuse, the sentences tell
    what nodes would report without these limits.
    """
    if answer.decision.outcome is Outcome.REFUSED:
        unlimiting = [without_limits(policy) for _, policy in world.policies_in_force(answer.pod, "limits")]
        with objects_replaced(world, unlimiting):
            unlimited = ask(world, answer.pod)
            if unlimited.decision.outcome is Outcome.UNSCHEDULABLE:
                said = unlimited.decision.message
                return (
                    f"It would also wait without the limits of policies: {said}",
                    *causes_together(world, unlimited),
                )
    if answer.decision.outcome is not Outcome.UNSCHEDULABLE:
        return ()
    found: dict[str, list[Obstacle]] = {node: [] for node in answer.decision.verdicts}
    of_all = {Obstacle(ObstacleType.REASON, filters.insufficient(name).text) for name in not_offered(world, answer)}
    for pod, verdicts in _peeled(world, answer):
        for node in found.keys() & verdicts.keys():
            more = obstacles_of(world, pod, node, verdicts[node])
            found[node] += [each for each in more if each not in {*found[node], *of_all}]
    groups: dict[tuple[Obstacle, ...], list[str]] = {}
    for node, obstacles in sorted(found.items()):
        if len(obstacles) > 1:
            groups.setdefault(tuple(obstacles), []).append(node)
    fewest = sorted(groups.items(), key=lambda group: (len(group[0]), group[1]))[:_MOST_GROUPS]
    return tuple(_obstacles_message(obstacles, nodes) for obstacles, nodes in fewest)


def _obstacles_message(obstacles: Sequence[Obstacle], nodes: Sequence[str]) -> str:
    which = ", which" if len(nodes) == 1 else "; each of these nodes"
    said = [each.subject for each in obstacles if each.type is ObstacleType.REASON]
    clauses = [str(each) for each in obstacles if each.type is not ObstacleType.REASON]
    clauses += [str(Obstacle(ObstacleType.REASON, " and ".join(said)))] if said else []
    *others, last = clauses
    listed = f"{', '.join(others)} and {last}" if others else last
    return f"Several things keep it from {few(nodes)}{which} {listed}."


def _peeled(world: World, answer: PodResult) -> Iterator[tuple[Pod, Mapping[str, NodeVerdict]]]:
    """Yield copies of a pod with the verdicts of nodes, each copy with one more of its conditions removed.

    Then the problems of cards are removed, and then the rules of policies and the quotas of the namespace.
    """
    pod, written = answer.pod, world.written(answer.pod)
    yield created(world, pod, pod.uid), answer.decision.verdicts
    steps = [tolerating_all(written)]
    for name in _SELECTORS:
        found = (each for each in constraints_of(steps[-1], ()) if each.name == name)
        steps += [each.without for each in found]
    steps += [_without_ports(steps[-1])]
    steps += [without_resources(steps[-1], _OF_NODES)]
    if CardReason.NodeInsufficientDevice in answer.decision.reasons:
        steps += [_with_one_card(world, steps[-1])]
    if filters.INTER_POD_EXISTING in answer.decision.reasons:  # labels choose policies, too
        steps += [_without_labels(steps[-1])]
    others = [created(world, world.pod(step, again=True), pod.uid) for step in steps]
    bare = steps[-1]
    for name in annotations_that_count(world):
        bare = with_annotation(bare, name, "")
    last = created(world, world.pod(bare, again=True), pod.uid)

    def asked(other: Pod) -> tuple[Pod, Mapping[str, NodeVerdict]]:
        return other, world.engine.algorithm.decide(other, explain=True).verdicts

    for other in others:
        yield asked(other)
    names = list(answer.decision.verdicts)[:_MOST_NODES]
    with ExitStack() as done:
        for mend in (_room_for_pods, _in_service):
            done.enter_context(mend(world, names))
            yield asked(others[-1])
        yield asked(last)
        with objects_replaced(world, [*map(without_restrictions, world.policies.values())]):
            yield asked(last)
            with objects_replaced(world, [*map(unlimited_quota, world.quotas_of(pod.namespace))]):
                yield asked(last)


def _without_ports(written: Object) -> Object:
    """Return a pod without host ports."""
    return {**written, "spec": with_containers(written["spec"], lambda each: {**each, "ports": []})}


def _with_one_card(world: World, written: Object) -> Object:
    """Return a pod with at most one card of each kind per container."""
    engine = world.engine
    pod = world.pod(written, again=True)
    inventories = [dialect.inventory for dialect in engine.dialects.owners(pod)]
    counts = {
        name
        for inventory in inventories
        for name, about in inventory.device_resources.items()
        if not about.dimension and about.vendor in inventory.cards
    }
    for amount in list(amounts_of(written, engine.dialects, pod, engine.algorithm.classes.claims(pod))):
        if len(amount.parts) > 1 or amount.parts[0].resource in counts:
            written = amount.applied(written, 1)
    return written


def _without_labels(written: Object) -> Object:
    """Return a pod without labels, so that no anti-affinity term of other pods selects it."""
    return {**written, "metadata": {**written["metadata"], "labels": {}}}


@contextmanager
def _room_for_pods(world: World, names: Sequence[str]) -> Iterator[None]:
    """Raise the pod capacity of nodes for the time of a question."""
    with objects_replaced(world, [with_offered(world.nodes[name], {"pods": _ANY_NUMBER}) for name in names]):
        yield


@contextmanager
def _in_service(world: World, names: Sequence[str]) -> Iterator[None]:
    """Make all cards of nodes healthy and uncordoned for the time of a question."""
    keys = world.engine.dialects.cordon_annotations
    with ExitStack() as stack:
        for name in names:
            for _, done in sick_cards(world, name):
                stack.enter_context(done)
            if any(listed_cards(world.nodes[name], key) for key in keys):
                changed = world.nodes[name]
                for key in keys:
                    changed = with_annotation(changed, key, "")
                stack.enter_context(objects_replaced(world, (changed,)))
        yield
