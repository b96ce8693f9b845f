"""Find pods whose end would let a waiting pod fit.

A remedy also says which controllers would recreate a pod that takes the room first, and which pods are terminating
already. Pods protected by disruption budgets are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import by_name, counted
from vgpu_scheduler.whatif.advice.fewest_ends import PodsToEnd, fewest_ends, may_end
from vgpu_scheduler.whatif.advice.remedy import MOST_OF_A_KIND, Action, HypotheticalPod, Remedy, RemedyType
from vgpu_scheduler.whatif.objects.controllers import controller_of
from vgpu_scheduler.whatif.world.queue_order import made_anew, placing

_MOST_ENDS: Final = 64
"""The most pods that are tried, one at a time, for a whole group."""


def end_pods(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Find the fewest pods of a node, and of the namespace if quotas count, without which the pod would fit.

    Pods that end for good, or are recreated elsewhere, come before those whose controllers must be scaled down. Larger
    sets are named only if their pods have lower priority, or if the pods of the smallest sets would be recreated first.
    """
    found = _followed(waiting, fewest_ends(waiting))
    if found and all(back for _, back in found):
        found += _followed(waiting, fewest_ends(waiting, lambda pod: not _is_recreated_first(waiting, pod)))
    for ending, back in sorted(found, key=lambda each: (bool(each[1]), *each[0].rank))[:MOST_OF_A_KIND]:
        yield _remedy(waiting, ending, back)


def end_one_pod(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Find single pods, of the lowest priorities, without which a group's pod would fit."""
    world, found = waiting.world, list[PodsToEnd]()
    budgets = world.engine.budgets.all()
    ending = (pod for pod in world.bound.values() if may_end(budgets, pod))
    for pod in sorted(ending, key=lambda pod: (not pod.deleting, pod.priority, pod.key))[:_MOST_ENDS]:
        with world.engine.state.without([pod.uid]):
            found += [PodsToEnd("", [pod])] if waiting.node() else []
        if len(found) == MOST_OF_A_KIND:
            break
    for each, back in sorted(_followed(waiting, found), key=lambda each: (bool(each[1]), *each[0].rank)):
        yield _remedy(waiting, each, back)


def _followed(waiting: HypotheticalPod, found: Sequence[PodsToEnd]) -> list[tuple[PodsToEnd, list[Pod]]]:
    """Return sets of pods, each with those that must not be recreated."""
    return [(each, _recreated_into_the_room(waiting, each)) for each in found]


def _is_recreated_first(waiting: HypotheticalPod, pod: Pod) -> bool:
    """Tell whether a pod that ends is recreated, and then may be tried before the waiting pod.

    Equal priority is enough: the waiting pod may still back off after its last attempt, and a new pod does not.
    """
    priority = waiting.world.engine.groups.priority
    return priority(pod) >= priority(waiting.pod) and controller_of(waiting.world.written(pod)) is not None


def _recreated_into_the_room(waiting: HypotheticalPod, ending: PodsToEnd) -> list[Pod]:
    """Return the pods that must not be recreated, since they would take the room before the waiting pod."""
    anew = [pod for pod in ending.pods if _is_recreated_first(waiting, pod)]
    back = list(anew) if anew and not _gets_room(waiting, ending, anew) else []
    for pod in anew if back else ():
        fewer = [other for other in back if other is not pod]
        if _gets_room(waiting, ending, [other for other in anew if other not in fewer]):
            back = fewer
    return back


def _gets_room(waiting: HypotheticalPod, ending: PodsToEnd, anew: Sequence[Pod]) -> bool:
    """Tell whether the pod fits once some pods have ended, and others were recreated and placed before it."""
    held = waiting.world.engine.state.without(pod.uid for pod in ending.pods)
    with held, made_anew(waiting.world, anew) as made:
        first = sorted([*made, *waiting.before], key=lambda pod: -pod.priority)
        with placing(waiting.world, first):
            return waiting.fits_now(ending.node)


def _remedy(waiting: HypotheticalPod, ending: PodsToEnd, back: Sequence[Pod]) -> Remedy:
    """Describe the remedy: which pods have to end, and which of them must not be recreated."""
    ended, going = ending.ended, [pod for pod in ending.pods if pod.deleting]
    owners = [(pod, controller_of(waiting.world.written(pod))) for pod in back]
    less = Counter(f"{owner[0]} {pod.namespace}/{owner[1]}" for pod, owner in owners if owner is not None)
    texts, nameless = [], []
    if len(ended) == 1:
        texts.append(f"end pod {_named(ended)}")
        nameless.append(f"have 1 pod that you may not delete end{_on_nodes(ended)}")
    elif ended:
        texts.append(f"end {counted(len(ended), 'pod')}{_named(ended, ': ')}")
        nameless.append(f"have somebody who may delete them all end {counted(len(ended), 'pod')}{_on_nodes(ended)}")
    if going:
        state = "has ended, which is" if len(going) == 1 else "have ended, which are"
        texts.append(f"wait until pod{'' if len(going) == 1 else 's'} {_named(going)} {state} ending already")
        nameless.append(f"wait until {counted(len(going), 'pod')}{_on_nodes(going)} {state} ending already")
    if less:
        fewer = ", ".join(f"{owner} create {counted(count, 'pod')} less" for owner, count in less.items())
        priority = waiting.world.engine.groups.priority
        sure = all(priority(pod) > priority(waiting.pod) for pod in back)
        takes, take = ("takes", "take") if sure else ("may take", "may take")
        texts.append(f"this must be permanent: have {fewer}, or the replacement {takes} the room first")
        nameless.append(f"this must be permanent, or the replacements by their controllers {take} the room first")
    kind = RemedyType.END_PODS if ended else RemedyType.WAIT
    uids = tuple(pod.uid for pod in ending.pods)
    with waiting.world.engine.state.without(uids):
        goes_to = waiting.node()  # it may be another node than that of the ended pods
    action = Action("; ".join(texts), nameless="; ".join(nameless), is_long=len(texts) > 1)
    return Remedy(kind, (action,), goes_to, ended=uids)


def _named(pods: Sequence[Pod], before: str = "") -> str:
    """Name pods with their nodes; a common node is named once, before the names if there is a prefix."""
    if len({pod.node_name for pod in pods}) > 1:
        return before + ", ".join(f"{pod.key} on node {pod.node_name}" for pod in pods)
    names = ", ".join(pod.key for pod in pods)
    return f"{_on_nodes(pods)}{before}{names}" if before else f"{names}{_on_nodes(pods)}"


def _on_nodes(pods: Sequence[Pod]) -> str:
    return f" on {by_name('node', list(dict.fromkeys(pod.node_name for pod in pods)))}"
