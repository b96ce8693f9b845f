"""Which two changes help together, where more than one thing keeps a pod from a node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from itertools import islice
from typing import Any, Final, NamedTuple

from vgpu_scheduler.kube import Taint
from vgpu_scheduler.policy import decode_policy, title
from vgpu_scheduler.whatif.asking_less import largest_amount, valid_steps
from vgpu_scheduler.whatif.closings import repelling_taints, tolerating, worded_taints
from vgpu_scheduler.whatif.constraints import annotations_that_count, constraints_of
from vgpu_scheduler.whatif.nodes import TAINTS_OF_STATE
from vgpu_scheduler.whatif.policy_remedies import restrictions
from vgpu_scheduler.whatif.quota_remedies import raise_quotas
from vgpu_scheduler.whatif.remedy import Remedy, RemedyKind, WaitingPod
from vgpu_scheduler.whatif.repairs import repairs
from vgpu_scheduler.whatif.uncordoning import cordoned_cards, cordoned_nodes
from vgpu_scheduler.whatif.world import World

__all__ = ["changes_together"]

Object = Mapping[str, Any]
Search = Callable[[WaitingPod], Iterator[Remedy]]

_MOST_FIRST: Final = 3
"""Changes of one kind of nodes that are tried as the first of two."""
_MOST_SECOND: Final = 3
"""Changes that are told beside a first one."""
_OF_REPAIR: Final = frozenset({RemedyKind.REPAIR_NODE, RemedyKind.WAIT})


class _First(NamedTuple):
    """The first of two changes.

    Attributes
    ----------
    ways
        How it could be done, the least first; the last is more than each other.
    done
        Has the last one be done for the time of a question.
    """

    ways: Sequence[Remedy]
    done: AbstractContextManager[object]


def changes_together(waiting: WaitingPod, of_pod: Sequence[Search], of_cluster: Sequence[Search]) -> Iterator[Remedy]:
    """Search two changes that help together, of which the first one is no matter of how much there is, or may be asked.

    What pods leave out and policies say is tried as the first change whatever the second one is, and of nodes and their
    cards only some: a pair of two nodes, or of two things about a node, may not be found.

    Parameters
    ----------
    of_pod, of_cluster
        Find the second one, for a pod and a cluster with the first: a change of the pod, or of something else.
    """
    told: set[frozenset[str]] = set()
    searches = (*of_pod, *of_cluster)
    for first in _firsts(waiting):
        with _with(waiting, first) as changed:
            found = [] if changed.node_now() else list(islice(_seconds(changed, searches), _MOST_SECOND))
        for second in found:
            way = next((way for way in first.ways[:-1] if _holds(waiting, way, second)), first.ways[-1])
            both = frozenset({way.text, second.text})
            if both in told or not _lasts(waiting, way, second):
                continue
            told.add(both)
            yield _both(way, second)
    for text, less, remedy in _less_and_another(waiting, of_pod):
        if (both := frozenset({text, less})) not in told:
            told.add(both)
            yield remedy
    yield from _quotas_and_another(waiting, searches)


def _both(first: Remedy, second: Remedy) -> Remedy:
    """Return two changes as one."""
    return replace(
        second,
        kind=RemedyKind.TOGETHER,
        text=f"{first.text} and {second.text}",
        pod=second.pod or first.pod,
        objects=_without_replaced((*first.objects, *second.objects)),
        ended=(*first.ended, *second.ended),
        nameless=f"{first.nameless or first.text} and {second.nameless or second.text}",
    )


def _quotas_and_another(waiting: WaitingPod, searches: Sequence[Search]) -> Iterator[Remedy]:
    """Yield changes that help once the quotas of the namespace are raised, with the least to which they have to be."""
    world, quotas = waiting.world, waiting.world.quotas_of(waiting.pod.namespace)
    unlimited = [{**quota, "spec": {**(quota.get("spec") or {}), "hard": {}}} for quota in quotas]
    with _replaced(world, unlimited):
        hurried = waiting.in_a_hurry(waiting.before)
        found = list(islice(_seconds(hurried, searches), _MOST_SECOND)) if quotas and not waiting.node_now() else []
    for other in found:
        if other.kind not in _OF_REPAIR:
            with _replaced(world, other.objects), world.engine.state.without(other.ended):
                raised = list(raise_quotas(waiting.rewritten(other.pod or waiting.written)))
            yield from (_both(other, each) for each in raised if _lasts(waiting, other, each))


def _seconds(changed: WaitingPod, searches: Sequence[Search]) -> Iterator[Remedy]:
    return (remedy for search in searches for remedy in search(changed) if remedy.node)


def _without_replaced(objects: Sequence[Object]) -> tuple[Object, ...]:
    """Return objects without those of which there is a later version among them."""
    latest: dict[tuple[str, ...], Object] = {}
    for each in objects:
        metadata = each.get("metadata") or {}
        latest[each["kind"], str(metadata.get("namespace", "")), str(metadata.get("name", ""))] = each
    return tuple(latest.values())


@contextmanager
def _with(waiting: WaitingPod, first: _First) -> Iterator[WaitingPod]:
    """Have a change be done for the time of a question, and those before the pod have the places that it gives them."""
    with first.done:
        changed = waiting.rewritten(first.ways[-1].pod or waiting.written)
        with waiting.before_placed() as going:
            there = {each.uid for each in going}
            yield changed.in_a_hurry([each for each in waiting.before if each.uid not in there])


def _lasts(waiting: WaitingPod, first: Remedy, second: Remedy) -> bool:
    """Tell whether nobody who is served before the pod takes what two changes give: a pod made anew is the last one.

    Of the repair of a node it cannot be told once it was searched.
    """
    is_new = bool(first.pod or second.pod)
    if not waiting.before and not (is_new and waiting.later):
        return True
    return _OF_REPAIR.isdisjoint({first.kind, second.kind}) and _holds(waiting, first, second)


def _holds(waiting: WaitingPod, first: Remedy, second: Remedy) -> bool:
    """Tell whether two changes help together, those that are served before the pod having their places first."""
    if not _OF_REPAIR.isdisjoint({first.kind, second.kind}):
        return False
    world, written = waiting.world, second.pod or first.pod
    with ExitStack() as stack:
        for change in (first, second):
            stack.enter_context(_replaced(world, change.objects))
        stack.enter_context(world.engine.state.without((*first.ended, *second.ended)))
        stack.enter_context(waiting.before_placed(made_anew=written is not None))
        return bool(waiting.rewritten(written or waiting.written).node_now())


@contextmanager
def _replaced(world: World, objects: Sequence[Object]) -> Iterator[None]:
    """Have objects of the world be others for the time of a question."""
    with ExitStack() as stack:
        for each in objects:
            metadata = each.get("metadata") or {}
            name = metadata.get("name", "")
            put: Callable[[Object], object]
            match each["kind"]:
                case "Node":
                    put, before = world.replace_node, world.nodes[name]
                case "ResourceQuota":
                    quotas = world.quotas_of(metadata.get("namespace", "default"))
                    before = next(one for one in quotas if one["metadata"].get("name", "") == name)
                    put = world.replace_quota
                case _:
                    put, before = world.replace_policy, world.policies[title(decode_policy(each))]
            put(each)
            stack.callback(put, before)
        yield


# The first change ----------------------------------------------------------------------------------------------------


def _firsts(waiting: WaitingPod) -> Iterator[_First]:
    """Yield changes that may be the first of two, those first of which all are tried."""
    world = waiting.world
    for constraint in constraints_of(waiting.written, annotations_that_count(world)):
        remedy = Remedy(RemedyKind.DROP_CONSTRAINT, constraint.text, "", constraint.without)
        yield _First([remedy], nullcontext())
    for ways in restrictions(world):
        yield _First(ways, _replaced(world, ways[-1].objects))
    for taints in _taints(waiting):
        written = tolerating(waiting.written, taints)
        remedy = Remedy(RemedyKind.TOLERATE, f"tolerate {worded_taints(taints)}", "", written)
        yield _First([remedy], nullcontext())
    for remedy in islice(cordoned_nodes(world), _MOST_FIRST):
        yield _First([remedy], _replaced(world, remedy.objects))
    for ways in islice(cordoned_cards(world, sorted(world.nodes)), _MOST_FIRST):
        yield _First(ways, _replaced(world, ways[-1].objects))
    for kind in repairs(world):
        for remedy, done in islice(kind, _MOST_FIRST):
            yield _First([remedy], done)


def _taints(waiting: WaitingPod) -> list[tuple[Taint, ...]]:
    """Return the taints of nodes that could be tolerated, the fewest first."""
    known: dict[tuple[Taint, ...], None] = {}
    for node in sorted(waiting.world.nodes):
        taints = repelling_taints(waiting.world, waiting.ours, node)
        if taints and not any(taint.key in TAINTS_OF_STATE for taint in taints):
            known[taints] = None
    return sorted(known, key=len)[:_MOST_FIRST]


def _less_and_another(waiting: WaitingPod, searches: Sequence[Search]) -> Iterator[tuple[str, str, Remedy]]:
    """Yield changes of the pod with the largest amounts of which it may ask then: both in words, and together."""
    before = waiting.cycle.decide(waiting.ours).message
    for amount in waiting.amounts():
        least = next(iter(valid_steps(waiting, amount)), None)
        changed = waiting if least is None else waiting.rewritten(amount.applied(waiting.written, least))
        if waiting.cycle.decide(changed.ours).message == before:
            continue
        for other in (remedy for search in searches for remedy in search(changed)):
            found = None if other.pod is None else largest_amount(waiting, amount, other.pod)
            if found is not None and other.pod is not None:
                steps, node = found
                less, written = amount.worded(steps), amount.applied(other.pod, steps)
                yield other.text, less, Remedy(RemedyKind.TOGETHER, f"{other.text} and {less}", node, written)
