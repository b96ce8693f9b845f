"""Find the smallest changes, each alone, after which a waiting pod would fit.

A remedy includes the changed objects, so that a user can apply them to a cluster and verify it. Each remedy is minimal:
one step more of an amount would not fit, and none of several pods could stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.whatif.advice.annotation_words import annotated_as_others
from vgpu_scheduler.whatif.advice.asking_less import ask_less, ask_less_of_several
from vgpu_scheduler.whatif.advice.corrections import corrected
from vgpu_scheduler.whatif.advice.default_remedies import lower_defaults
from vgpu_scheduler.whatif.advice.dialect_order import list_other_dialect_first
from vgpu_scheduler.whatif.advice.dropping import leave_out_constraints
from vgpu_scheduler.whatif.advice.ending import end_pods
from vgpu_scheduler.whatif.advice.kept_room import give_up_holds
from vgpu_scheduler.whatif.advice.leaving_out import leave_out_in_one_container
from vgpu_scheduler.whatif.advice.limits import ask_within_limits, raise_limits
from vgpu_scheduler.whatif.advice.managing import manage_nodes
from vgpu_scheduler.whatif.advice.new_nodes import add_nodes
from vgpu_scheduler.whatif.advice.other_names import OtherNames, in_names_of_other_dialects
from vgpu_scheduler.whatif.advice.paired_changes import both, changes_together, tolerations
from vgpu_scheduler.whatif.advice.policy_remedies import correct_policies, lift_restrictions
from vgpu_scheduler.whatif.advice.quota_remedies import raise_quotas
from vgpu_scheduler.whatif.advice.remedy import (
    MOST_OF_A_KIND,
    Action,
    HypotheticalPod,
    Remedy,
    RemedyType,
    do,
    each_once,
)
from vgpu_scheduler.whatif.advice.repairs import repair_nodes, unreadable_nodes, unregistered_nodes
from vgpu_scheduler.whatif.advice.uncordoning import uncordon_cards, uncordon_nodes
from vgpu_scheduler.whatif.reasons.groups import group_remedies
from vgpu_scheduler.whatif.reasons.namespace_objects import NamespaceObjects
from vgpu_scheduler.whatif.world.queue_order import own_turn, placing, pods_before_and_after
from vgpu_scheduler.whatif.world.replacing import objects_replaced
from vgpu_scheduler.whatif.world.world import World

_OF_LESS: Final = frozenset({RemedyType.ASK_LESS, RemedyType.TOGETHER})


def remedies(world: World, pod: Pod, *, made_anew: bool = False) -> list[Remedy]:
    """Return remedies for a pod that fits nowhere, kind by kind, and leave the world unchanged.

    If no single change helps, pairs are searched, but not triples. Likely mistakes are corrected first, and the other
    remedies apply to the corrected pod. Pending pods that fit now are placed first, and pods ahead in the queue take
    their part of what a change frees.

    Parameters
    ----------
    made_anew
        The pod would be recreated, so it comes after all pods of its priority.
    """
    before, after = pods_before_and_after(world, pod, made_anew=made_anew)
    with placing(world, [*before, *own_turn(world, pod), *after]) as going:
        there = {each.uid for each in going}
        first = [each for each in before if each.uid not in there]
        priority = world.engine.groups.priority
        later = [each for each in after if each.uid not in there and priority(each) == priority(pod)]
        return each_once(_found(HypotheticalPod(world, pod, first, later)))


def _found(waiting: HypotheticalPod) -> list[Remedy]:
    world = waiting.world
    if of_policies := list(correct_policies(waiting)):
        more = (remedy for first in of_policies if not first.node for remedy in _once_corrected(waiting, first))
        return [*of_policies, *more]
    meant = corrected(world, waiting.written)
    if of_group := list(group_remedies(world, waiting.pod)):
        return [Remedy(RemedyType.COMPLETE_GROUP, meant.and_then(map(Action, of_group)), "")]
    if not meant.changes:
        return _searched(waiting)
    first = Remedy(RemedyType.CORRECT, meant.and_then(), waiting.node(meant.written), meant.written)
    if first.node:
        return [first]
    found = _searched(waiting.rewritten(meant.written, meant.amounts))
    then = (replace(each, actions=meant.and_then(each.actions), pod=each.pod or meant.written) for each in found)
    return [first, *(each for each in then if each.actions)]


def _once_corrected(waiting: HypotheticalPod, first: Remedy) -> Iterator[Remedy]:
    """Yield further changes that help once policies are corrected, each merged with that correction."""
    with objects_replaced(waiting.world, first.objects):
        with waiting.before_placed(made_anew=True):
            found = [remedy for remedy in _searched(waiting) if remedy.node]
        if not found:  # a pod that is not recreated keeps its queue position, ahead of later pods of its priority
            with waiting.before_placed():
                found = [remedy for remedy in _searched(waiting) if remedy.node and remedy.pod is None]
    yield from (both(first, remedy, remedy.node) for remedy in found)


def _searched(waiting: HypotheticalPod) -> list[Remedy]:
    """Return remedies for a pod, using another dialect's names if no node has cards of its own dialect."""
    otherwise = list(in_names_of_other_dialects(waiting))
    found = [
        Remedy(RemedyType.ASK_OTHERWISE, each.and_then(), node, each.written)
        for each in otherwise
        if (node := waiting.node(each.written))
    ]
    if otherwise and not found:
        return [remedy for each in otherwise for remedy in _in_names(waiting, each)]
    for search in _SEARCHES:
        found += search(waiting)
    if all(remedy.type is RemedyType.ADD_NODE for remedy in found):
        found = [*islice(changes_together(waiting, _OF_POD, _OF_CLUSTER), MOST_OF_A_KIND), *found]
    if not any(remedy.type in _OF_LESS and not remedy.ended and not remedy.objects for remedy in found):
        others = any(remedy.type in _OF_LESS for remedy in found)
        less = list(ask_less_of_several(waiting))
        found = [*(less if less or others else leave_out_in_one_container(waiting)), *found]
    if not any(remedy.node for remedy in found):
        found += islice(unreadable_nodes(waiting), MOST_OF_A_KIND)
        found += islice(unregistered_nodes(waiting), MOST_OF_A_KIND)
        found += list_other_dialect_first(waiting)
    return found


def _in_names(waiting: HypotheticalPod, otherwise: OtherNames) -> Iterator[Remedy]:
    """Yield the change of names with further remedies, for a pod that does not fit by that change alone."""
    changed = waiting.rewritten(otherwise.written)
    found = [] if changed is waiting else _searched(changed)
    if not found and (changed is waiting or changed.is_refused):
        return
    yield Remedy(RemedyType.ASK_OTHERWISE, otherwise.and_then(), "", otherwise.written)
    for remedy in found:
        actions = otherwise.and_then(remedy.actions, remedy.pod)
        yield replace(remedy, actions=actions, pod=remedy.pod or otherwise.written)


def _provide_volumes(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Name the claims that keep the pod from all nodes; its node then depends on their volumes."""
    namespace_objects = NamespaceObjects.in_world(waiting.world, waiting.pod.namespace)
    for text in namespace_objects.volume_claim_problems(waiting.written, {waiting.pod.uid}):
        yield Remedy(RemedyType.PROVIDE_VOLUME, do(text), "")


def _drop_constraints(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Drop one constraint on nodes or cards at a time, or change a label to its value on nodes."""
    for remedy in leave_out_constraints(waiting):
        if node := waiting.node(remedy.pod):
            yield replace(remedy, node=node)


def _tolerate(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Tolerate all taints of a node, for the nodes with the fewest taints."""
    known = tolerations(waiting).items()
    found = [(frozenset(taints), replace(each, node=n)) for taints, each in known if (n := waiting.node(each.pod))]
    minimal = [remedy for taints, remedy in found if not any(others < taints for others, _ in found)]
    yield from minimal[:MOST_OF_A_KIND]


_SEARCHES: Final[tuple[Callable[[HypotheticalPod], Iterator[Remedy]], ...]] = (
    _provide_volumes,
    ask_less,
    ask_within_limits,
    _drop_constraints,
    annotated_as_others,
    _tolerate,
    uncordon_nodes,
    uncordon_cards,
    manage_nodes,
    repair_nodes,
    give_up_holds,
    end_pods,
    raise_quotas,
    raise_limits,
    lift_restrictions,
    lower_defaults,
    add_nodes,
)
_OF_POD: Final = (ask_less, ask_within_limits, _drop_constraints, annotated_as_others, _tolerate)
_OF_CLUSTER: Final = (
    uncordon_nodes,
    uncordon_cards,
    manage_nodes,
    repair_nodes,
    raise_quotas,
    raise_limits,
    lift_restrictions,
    end_pods,
)
"""Searches for the second of two changes: changes of the pod, and of the cluster."""
