"""Find two changes that help together, for a pod that several things keep from a node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import Final, NamedTuple

from vgpu_scheduler.kube import AMOUNT_FIELDS, Object, Taint
from vgpu_scheduler.whatif.advice.asking_less import ask_less, largest_amount, valid_steps
from vgpu_scheduler.whatif.advice.dropping import leave_out_constraints
from vgpu_scheduler.whatif.advice.ending import end_pods
from vgpu_scheduler.whatif.advice.leaving_out import leave_out, leave_out_not_offered
from vgpu_scheduler.whatif.advice.limits import raise_limits
from vgpu_scheduler.whatif.advice.managing import unmanaged_nodes
from vgpu_scheduler.whatif.advice.policy_remedies import restrictions, without_limits
from vgpu_scheduler.whatif.advice.quota_remedies import raise_quotas, unlimited_quota
from vgpu_scheduler.whatif.advice.remedy import Action, HypotheticalPod, Remedy, RemedyType, ask_for, do
from vgpu_scheduler.whatif.advice.repairs import repairs
from vgpu_scheduler.whatif.advice.uncordoning import cordoned_cards, cordoned_nodes
from vgpu_scheduler.whatif.objects.amounts import Amount
from vgpu_scheduler.whatif.objects.containers import amounts_at
from vgpu_scheduler.whatif.objects.objects import name_of
from vgpu_scheduler.whatif.reasons.node_exclusions import describe_taints, repelling_taints, tolerating
from vgpu_scheduler.whatif.world.nodes import TAINTS_OF_STATE
from vgpu_scheduler.whatif.world.replacing import objects_replaced

Search = Callable[[HypotheticalPod], Iterator[Remedy]]

_MOST_FIRST: Final = 3
"""The most changes of one kind, for changes of nodes, that are tried as the first of two."""
_MOST_SECOND: Final = 3
"""The most second changes that are proposed for a first one."""
_OF_REPAIR: Final = frozenset({RemedyType.REPAIR_NODE, RemedyType.WAIT})


class _First(NamedTuple):
    """The first of two changes.

    Attributes
    ----------
    ways
        Alternatives, the smallest first; the last one includes all others.
    done
        Applies the last alternative for the time of a question.
    """

    ways: Sequence[Remedy]
    done: AbstractContextManager[object]


def changes_together(
    waiting: HypotheticalPod, of_pod: Sequence[Search], of_cluster: Sequence[Search]
) -> Iterator[Remedy]:
    """Find two changes that help together, of which the first does not concern amounts.

    Constraints of the pod and policy fields are always tried as the first change, but only some changes of nodes and
    cards. So a pair of changes of two nodes, or two changes of one node, may be missed.

    Parameters
    ----------
    of_pod, of_cluster
        Searches for the second change, given the first: changes of the pod, and of anything else.
    """
    seen: set[frozenset[str]] = set()
    searches = (*of_pod, *of_cluster)
    for first in _firsts(waiting):
        with _with(waiting, first) as changed:
            found = [] if changed.node_now() else list(islice(_seconds(changed, searches), _MOST_SECOND))
        for second in found:
            for way in first.ways if _are_apart(first.ways[-1], second) else first.ways[-1:]:
                if node := _goes_to(waiting, way, second):
                    if (texts := frozenset({way.text, second.text})) not in seen:
                        seen.add(texts)
                        yield both(way, second, node)
                    break
    world, namespace = waiting.world, waiting.pod.namespace
    quotas = [*map(unlimited_quota, world.quotas_of(namespace))]
    limiting = [policy for _, policy in world.policies_in_force(waiting.pod, "limits")]
    others = (
        _smaller_request_with_another(waiting, of_pod),
        _fewer_cards_with_smaller_request(waiting),
        _smaller_request_with_ended_pod(waiting),
        _raised_limit_with_another(waiting, searches, quotas, raise_quotas),
        _raised_limit_with_another(waiting, searches, [*map(without_limits, limiting)], raise_limits),
    )
    for one, other, remedy in chain.from_iterable(others):
        if (texts := frozenset({one, other})) not in seen:
            seen.add(texts)
            yield remedy


def both(first: Remedy, second: Remedy, node: str) -> Remedy:
    """Merge two changes into one remedy, after which the pod goes to a node.

    A change that takes several sentences comes last, so that these are not read as part of the other one.
    """
    one, other = (second, first) if any(each.is_long for each in first.actions) else (first, second)
    return replace(
        second,
        type=RemedyType.TOGETHER,
        actions=(*one.actions, *other.actions),
        node=node,
        pod=second.pod or first.pod,
        objects=_without_replaced((*first.objects, *second.objects)),
        ended=(*first.ended, *second.ended),
    )


def _raised_limit_with_another(
    waiting: HypotheticalPod, searches: Sequence[Search], unlimited: Sequence[Object], raise_least: Search
) -> Iterator[tuple[str, str, Remedy]]:
    """Yield changes that help once some objects are without limits, with the smallest limits that then suffice.

    Each result has both changes as text, and the merged remedy.
    """
    world, limiting = waiting.world, set(map(_key, unlimited))
    with objects_replaced(world, unlimited):
        hurried = waiting.with_small_search(waiting.before)
        found = list(islice(_seconds(hurried, searches), _MOST_SECOND)) if unlimited and not waiting.node_now() else []
    for other in found:
        if other.type not in _OF_REPAIR and limiting.isdisjoint(map(_key, other.objects)):
            with objects_replaced(world, other.objects), world.engine.state.without(other.ended):
                raised = list(raise_least(waiting.rewritten(other.pod or waiting.written)))
            for each in raised:
                if node := _goes_to(waiting, other, each):
                    yield other.text, each.text, both(other, each, node)


def _seconds(changed: HypotheticalPod, searches: Sequence[Search]) -> Iterator[Remedy]:
    return (remedy for search in searches for remedy in search(changed) if remedy.node)


def _without_replaced(objects: Sequence[Object]) -> tuple[Object, ...]:
    """Return the last version of each object."""
    return tuple({_key(each): each for each in objects}.values())


def _key(obj: Object) -> tuple[str, str]:
    return obj["kind"], name_of(obj)


@contextmanager
def _with(waiting: HypotheticalPod, first: _First) -> Iterator[HypotheticalPod]:
    """Apply a change for the time of a question, with the pods placed that are ahead in the queue and then fit."""
    with first.done:
        changed = waiting.rewritten(first.ways[-1].pod or waiting.written)
        with waiting.before_placed() as going:
            there = {each.uid for each in going}
            yield changed.with_small_search([each for each in waiting.before if each.uid not in there])


def _are_apart(first: Remedy, second: Remedy) -> bool:
    """Tell whether a smaller alternative of the first change may be tried with the second, which was found with it."""
    one, other = (set(map(_key, each.objects)) for each in (first, second))
    return one.isdisjoint(other) and _OF_REPAIR.isdisjoint({first.type, second.type})


def _goes_to(waiting: HypotheticalPod, first: Remedy, second: Remedy) -> str:
    """Return the pod's node after two changes; empty if pods ahead in the queue take the room.

    A recreated pod comes last in the queue. Repairs of nodes cannot be applied again here.
    """
    written = second.pod or first.pod
    if not _OF_REPAIR.isdisjoint({first.type, second.type}):
        return second.node if not waiting.before and not (written and waiting.later) else ""
    world = waiting.world
    with ExitStack() as stack:
        for change in (first, second):
            stack.enter_context(objects_replaced(world, change.objects))
        stack.enter_context(world.engine.state.without((*first.ended, *second.ended)))
        stack.enter_context(waiting.before_placed(made_anew=written is not None))
        return waiting.rewritten(written or waiting.written).node_now()


# The first change ----------------------------------------------------------------------------------------------------


def _firsts(waiting: HypotheticalPod) -> Iterator[_First]:
    """Yield changes that may be the first of two; kinds that are tried completely come first."""
    world = waiting.world
    for remedy in chain(leave_out_constraints(waiting), leave_out_not_offered(waiting)):
        yield _First([remedy], nullcontext())
    for ways in restrictions(world):
        yield _First(ways, objects_replaced(world, ways[-1].objects))
    for _, remedy in sorted(tolerations(waiting).items(), key=lambda each: len(each[0]))[:_MOST_FIRST]:
        yield _First([remedy], nullcontext())
    for remedy in islice(cordoned_nodes(world), _MOST_FIRST):
        yield _First([remedy], objects_replaced(world, remedy.objects))
    for ways in islice(cordoned_cards(world, sorted(world.nodes)), _MOST_FIRST):
        yield _First(ways, objects_replaced(world, ways[-1].objects))
    for remedy in islice(unmanaged_nodes(waiting), _MOST_FIRST):
        yield _First([remedy], objects_replaced(world, remedy.objects))
    for kind in repairs(world):
        for remedy, done in islice(kind, _MOST_FIRST):
            yield _First([remedy], done)


def tolerations(waiting: HypotheticalPod) -> dict[tuple[Taint, ...], Remedy]:
    """Return the sets of taints that could be tolerated, each with the remedy, without checking that it helps."""
    known: dict[tuple[Taint, ...], Remedy] = {}
    for node in sorted(waiting.world.nodes):
        taints = repelling_taints(waiting.world, waiting.ours, node)
        if taints and taints not in known and not any(taint.key in TAINTS_OF_STATE for taint in taints):
            what, written = do(f"tolerate {describe_taints(taints)}"), tolerating(waiting.written, taints)
            known[taints] = Remedy(RemedyType.TOLERATE, what, "", written)
    return known


def _smaller_request_with_another(
    waiting: HypotheticalPod, searches: Sequence[Search]
) -> Iterator[tuple[str, str, Remedy]]:
    """Yield changes of the pod, each with the largest amount that then fits: both as text, and merged.

    Pairs with the smallest value of an amount are skipped if the other change is a smaller request, too; reducing
    several amounts evenly is better. An amount that does not affect the pod's refusal is not paired with smaller
    requests here: such a pair is found from the other amount.
    """
    refusal = waiting.refusal
    of_no_amount: list[Search] = [
        partial(leave_out, but=frozenset()),
        *(search for search in searches if search is not ask_less),
    ]
    for amount in _unlike(waiting):
        least = next(iter(valid_steps(waiting, amount)), None)
        changed = _with_least(waiting, amount)
        others = of_no_amount if refusal and changed.refusal == refusal else searches
        for other in (remedy for search in others for remedy in search(changed)):
            if other.pod is None or _asked(other.pod, amount) != _asked(changed.written, amount):
                continue  # the change affects the same amount, as fewer cards do
            found = largest_amount(waiting, amount, other.pod)
            if found is not None and not (other.type is RemedyType.ASK_LESS and found[0] == least):
                steps, node = found
                less, written = ask_for(amount, steps), amount.applied(other.pod, steps)
                yield other.text, less.what, Remedy(RemedyType.TOGETHER, (*other.actions, less), node, written)


def _unlike(waiting: HypotheticalPod) -> Iterator[Amount]:
    """Yield the amounts of a pod; of containers with equal requests, only those of the first."""

    def asks(container: Object) -> tuple[object, object]:
        return container.get("resources"), container.get("restartPolicy")

    for amount in waiting.amounts():
        containers = waiting.written["spec"][amount.field]
        asked = asks(containers[amount.index])
        if not any(asks(each) == asked for each in containers[: amount.index]):
            yield amount


def _smaller_request_with_ended_pod(waiting: HypotheticalPod) -> Iterator[tuple[str, str, Remedy]]:
    """Yield pods to end, each with the largest amount that then fits: both as text, and merged."""
    state = waiting.world.engine.state
    for amount in waiting.amounts():
        changed = _with_least(waiting, amount).with_small_search(waiting.before)
        for end in islice(end_pods(changed), _MOST_SECOND):
            with state.without(end.ended):
                found = largest_amount(waiting, amount)
            if found is not None:
                asked, written = ask_for(amount, found[0]), amount.applied(waiting.written, found[0])
                less = Remedy(RemedyType.ASK_LESS, (asked,), "", written)
                if node := _goes_to(waiting, end, less):
                    yield end.text, asked.what, both(end, less, node)


def _with_least(waiting: HypotheticalPod, amount: Amount) -> HypotheticalPod:
    """Return the pod with the smallest valid value of an amount."""
    least = next(iter(valid_steps(waiting, amount)), None)
    return waiting if least is None else waiting.rewritten(amount.applied(waiting.written, least))


def _asked(pod: Object, amount: Amount) -> list[object]:
    """Return what a container asks of the resources of an amount."""
    container = pod["spec"][amount.field][amount.index]
    listed = [amounts_at(container, place) for place in AMOUNT_FIELDS]
    return [each.get(part.resource) for each in listed for part in amount.parts]


def _fewer_cards_with_smaller_request(waiting: HypotheticalPod) -> Iterator[tuple[str, str, Remedy]]:
    """Yield smaller numbers of cards, each with one resource's amount chosen apart from that number."""
    understood = ((one, _with_least(waiting, one)) for one in waiting.amounts())
    for one, cards in ((one, cards) for one, other in understood for cards in other.amounts() if cards.includes(one)):
        for count in range(cards.steps - 1, 0, -1):
            fewer = cards.applied(waiting.written, count)
            if found := largest_amount(waiting, one, fewer):
                steps, node = found
                but = {part.resource: part.quantity(steps) for part in one.parts}
                fewest, written = Action(cards.request_text(count, but), amount=cards), one.applied(fewer, steps)
                yield fewest.what, "", Remedy(RemedyType.TOGETHER, (fewest,), node, written)
                break
