"""Pods of one node without which a pod that waits would fit there.

Who makes a pod anew when it ends, and whether that one would take the room before the pod that waits, is part of the
answer; so is who is ending already, and whom a disruption budget protects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations, islice, product
from typing import Final

from vgpu_scheduler.kube import DisruptionBudget, Pod
from vgpu_scheduler.model import counted
from vgpu_scheduler.whatif.controllers import controller_of, is_node_bound
from vgpu_scheduler.whatif.remedy import Remedy, RemedyKind, WaitingPod
from vgpu_scheduler.whatif.turns import made_anew, placed

__all__ = ["end_pods"]

_MOST_OF_A_KIND: Final = 3
_MOST_NODES: Final = 64
"""Nodes of which it is worked out which pods would have to end."""
_MOST_FOLLOWED: Final = 16
"""Nodes of which it is worked out what becomes of the pods that end."""
_MOST_CHOICES: Final = 64
"""Choices of pods whose budgets do not allow the end of all, that are tried on a node."""


def end_pods(waiting: WaitingPod) -> Iterator[Remedy]:
    """Search the pods of one node without which the pod would fit there; of those none could stay.

    Those that end for good, or come back elsewhere, go before those whose controllers must make one less.
    """
    by_node: dict[str, list[Pod]] = {}
    for pod in waiting.world.bound.values():
        if not is_node_bound(pod):
            by_node.setdefault(pod.node_name, []).append(pod)
    candidates, budgets = [], waiting.world.engine.budgets.all()
    for node, bound in islice(by_node.items(), waiting.most_nodes):
        pods = _unprotected(budgets, bound)
        if waiting.fits_on(node, pods):
            candidates.append((len(pods), node, pods))
    found = []
    for _, node, pods in sorted(candidates, key=lambda each: each[:2])[:_MOST_NODES]:
        ending = _fewest_pods(budgets, pods, partial(waiting.fits_on, node))
        ended = [pod for pod in ending if not pod.deleting]
        if ending:
            found.append((len(ended), max((pod.priority for pod in ended), default=0), node, ending))
    followed = [
        (bool(back := _taking_it_back(waiting, node, ending)), count, priority, node, ending, back)
        for count, priority, node, ending in sorted(found, key=lambda each: each[:3])[:_MOST_FOLLOWED]
    ]
    for _, _, _, node, ending, back in sorted(followed, key=lambda each: each[:4])[:_MOST_OF_A_KIND]:
        yield _remedy(waiting, node, ending, back)
    if not followed:
        yield from _end_pods_of_namespace(waiting)


def _end_pods_of_namespace(waiting: WaitingPod) -> Iterator[Remedy]:
    """Search the pods of the pod's namespace, wherever they are, that hold what a quota leaves it too little of."""
    namespace, state = waiting.pod.namespace, waiting.world.engine.state
    holding = [
        pod
        for pod in waiting.world.bound.values()
        if pod.namespace == namespace
        and not is_node_bound(pod)
        and (held := state.reservation(pod.uid)) is not None
        and held.uses_devices
    ]
    budgets = waiting.world.engine.budgets.all()
    pods = _unprotected(budgets, holding) if waiting.world.quotas_of(namespace) else []

    if not pods or not _node_without(waiting, pods):
        return
    ending = _fewest_pods(budgets, pods, lambda gone: bool(_node_without(waiting, gone)))
    if not ending:
        return
    ended = [pod for pod in ending if not pod.deleting]
    names = ", ".join(pod.key for pod in ending)
    text = (
        f"{'end' if ended else 'wait until the end of'} {counted(len(ending), 'pod')} of namespace {namespace}: {names}"
    )
    nameless = f"have {counted(len(ending), 'pod')} of namespace {namespace} end, not all of which you may delete"
    if any(controller_of(waiting.world.written(pod)) for pod in ending):
        for_good = "; this has to be for good, or what their controllers make instead may take the room first"
        text, nameless = text + for_good, nameless + for_good
    kind = RemedyKind.END_PODS if ended else RemedyKind.WAIT
    uids = tuple(pod.uid for pod in ending)
    yield Remedy(kind, text, _node_without(waiting, ending), ended=uids, nameless=nameless)


def _node_without(waiting: WaitingPod, gone: Sequence[Pod]) -> str:
    """Return where the pod goes once some pods are gone, which may open other nodes than theirs; empty if nowhere."""
    with waiting.world.engine.state.without(pod.uid for pod in gone):
        return waiting.node()


def _unprotected(budgets: Sequence[DisruptionBudget], pods: Sequence[Pod]) -> list[Pod]:
    """Return those of some pods that end anyway, or that budgets allow to end by themselves: the least important first.

    Together they may be more than budgets allow.
    """
    return sorted((pod for pod in pods if _allowed(budgets, [pod])), key=_last_to_stay)


def _allowed(budgets: Sequence[DisruptionBudget], pods: Sequence[Pod]) -> bool:
    """Tell whether budgets allow some pods to end together; of those that end anyway nobody asks."""
    ended = [pod for pod in pods if not pod.deleting]
    return all(budget.allows(ended) for budget in budgets)


def _last_to_stay(pod: Pod) -> tuple[bool, int, str]:
    return not pod.deleting, pod.priority, pod.key


def _fewest_pods(
    budgets: Sequence[DisruptionBudget], pods: Sequence[Pod], fits_without: Callable[[Sequence[Pod]], bool]
) -> list[Pod]:
    """Return pods that would have to end: one if one is enough, else a set of which none could stay.

    Where budgets do not allow the end of all, it matters which pods of a budget end: each choice is tried until one
    is enough. It is empty where none is found.
    """
    for pod in pods:
        if fits_without([pod]):
            return [pod]
    for start in (pods, *islice(_allowed_together(budgets, pods), _MOST_CHOICES)):
        ending = _none_could_stay(start, fits_without) if fits_without(start) else []
        if ending and _allowed(budgets, ending):
            return ending
    return []


def _allowed_together(budgets: Sequence[DisruptionBudget], pods: Sequence[Pod]) -> Iterator[list[Pod]]:
    """Yield sets of some pods with as many of each budget as it allows, the set of the least important ones first."""
    staying = [pod for pod in pods if not pod.deleting]
    counted_by = [
        (budget, covered)
        for budget in budgets
        if (covered := [pod for pod in staying if budget.covers(pod) and pod.name not in budget.disrupted])
    ]
    bound = {pod.uid for _, covered in counted_by for pod in covered}
    choices = (
        islice(combinations(covered, min(budget.allowed, len(covered))), _MOST_CHOICES)
        for budget, covered in counted_by
    )
    for chosen in product(*choices):
        uids = {pod.uid for few in chosen for pod in few}
        yield [pod for pod in pods if pod.uid in uids or pod.uid not in bound]


def _none_could_stay(pods: Sequence[Pod], fits_without: Callable[[Sequence[Pod]], bool]) -> list[Pod]:
    """Return those of some pods that have to end; of others, the last ones stay first."""
    ending, before = list(pods), 0
    while len(ending) != before:  # those before the pod may go elsewhere when another one stays
        before = len(ending)
        for pod in reversed(list(ending)):
            without = [other for other in ending if other is not pod]
            if fits_without(without):
                ending = without
    return ending


def _taking_it_back(waiting: WaitingPod, node: str, ending: Sequence[Pod]) -> list[Pod]:
    """Return those of some pods that must not be made anew, for they would take the room before the pod.

    Of equal priority is enough: who was tried in vain waits a while before it is tried again, and a new pod does not.
    """
    anew = [pod for pod in ending if pod.priority >= waiting.pod.priority and controller_of(waiting.world.written(pod))]
    back = list(anew) if anew and not _gets_room(waiting, node, ending, anew) else []
    for pod in anew if back else ():
        fewer = [other for other in back if other is not pod]
        if _gets_room(waiting, node, ending, [other for other in anew if other not in fewer]):
            back = fewer
    return back


def _gets_room(waiting: WaitingPod, node: str, ending: Sequence[Pod], anew: Sequence[Pod]) -> bool:
    """Tell whether the pod fits on a node once some pods have ended, and others of them were placed anew before it."""
    held = waiting.world.engine.state.without(pod.uid for pod in ending)
    with held, made_anew(waiting.world, anew) as made:
        first = sorted([*made, *waiting.before], key=lambda pod: -pod.priority)
        with placed(waiting.world, first):
            return waiting.cycle.on_node.fits_without(waiting.ours, node, ()) is not None


def _remedy(waiting: WaitingPod, node: str, ending: Sequence[Pod], back: Sequence[Pod]) -> Remedy:
    """Word what is to be done so that some pods end, and some of them do not come back."""
    ended = [pod.key for pod in ending if not pod.deleting]
    going = [pod.key for pod in ending if pod.deleting]
    owners = [(pod, controller_of(waiting.world.written(pod))) for pod in back]
    less = Counter(f"{owner[0]} {pod.namespace}/{owner[1]}" for pod, owner in owners if owner is not None)
    texts, nameless = [], []
    if len(ended) == 1:
        texts.append(f"end pod {ended[0]} on node {node}")
        nameless.append(f"have 1 pod that you may not delete end on node {node}")
    elif ended:
        texts.append(f"end {counted(len(ended), 'pod')} on node {node}: {', '.join(ended)}")
        nameless.append(f"have {counted(len(ended), 'pod')}, not all of which you may delete, end on node {node}")
    if going:
        named = f"pod {going[0]}" if len(going) == 1 else f"pods {', '.join(going)}"
        state = "has ended, which is" if len(going) == 1 else "have ended, which are"
        texts.append(f"wait until {named} on node {node} {state} ending already")
        nameless.append(f"wait until {counted(len(going), 'pod')} on node {node} {state} ending already")
    if less:
        fewer = ", ".join(f"{owner} make {counted(count, 'pod')} less" for owner, count in less.items())
        texts.append(f"this has to be for good: have {fewer}, or what comes instead takes the room first")
        nameless.append("this has to be for good, or what their controllers make instead takes the room first")
    kind = RemedyKind.END_PODS if ended else RemedyKind.WAIT
    uids = tuple(pod.uid for pod in ending)
    goes_to = _node_without(waiting, ending)
    return Remedy(kind, "; ".join(texts), goes_to, ended=uids, nameless="; ".join(nameless))
