"""Pods without which a pod that waits would fit.

Who makes a pod anew when it ends, and whether that one would take the room before the pod that waits, is part of the
answer; so is who is ending already, and whom a disruption budget protects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import by_name, counted
from vgpu_scheduler.whatif.advice.fewest_ends import PodsToEnd, fewest_ends, may_end
from vgpu_scheduler.whatif.advice.remedy import MOST_OF_A_KIND, Action, HypotheticalPod, Remedy, RemedyKind
from vgpu_scheduler.whatif.objects.controllers import controller_of
from vgpu_scheduler.whatif.world.queue_order import made_anew, placed

__all__ = ["end_one_pod", "end_pods"]

_MOST_ENDS: Final = 64
"""Pods that are tried, one at a time, where each question is about a whole group."""


def end_pods(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Search the fewest pods without which the pod would fit, of a node and of its namespace where quotas count.

    Those that end for good, or come back elsewhere, go before those whose controllers must make one less. More pods
    than the fewest are named only where they are of lower priority, or where the fewest would come back first.
    """
    found = _followed(waiting, fewest_ends(waiting))
    if found and all(back for _, back in found):
        found += _followed(waiting, fewest_ends(waiting, lambda pod: not _is_recreated_first(waiting, pod)))
    for ending, back in sorted(found, key=lambda each: (bool(each[1]), *each[0].rank))[:MOST_OF_A_KIND]:
        yield _remedy(waiting, ending, back)


def end_one_pod(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Search single pods without which the pod would fit, of the lowest priorities: for a pod of a group."""
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
    """Return sets of pods, each with those that must not be made anew."""
    return [(each, _recreated_into_the_room(waiting, each)) for each in found]


def _is_recreated_first(waiting: HypotheticalPod, pod: Pod) -> bool:
    """Tell whether a pod that ends is made anew, and served before the pod that waits.

    Of equal priority is enough: who was tried in vain waits a while before it is tried again, and a new pod does not.
    """
    return pod.priority >= waiting.pod.priority and controller_of(waiting.world.written(pod)) is not None


def _recreated_into_the_room(waiting: HypotheticalPod, ending: PodsToEnd) -> list[Pod]:
    """Return those of some pods that must not be made anew, for they would take the room before the pod."""
    anew = [pod for pod in ending.pods if _is_recreated_first(waiting, pod)]
    back = list(anew) if anew and not _gets_room(waiting, ending, anew) else []
    for pod in anew if back else ():
        fewer = [other for other in back if other is not pod]
        if _gets_room(waiting, ending, [other for other in anew if other not in fewer]):
            back = fewer
    return back


def _gets_room(waiting: HypotheticalPod, ending: PodsToEnd, anew: Sequence[Pod]) -> bool:
    """Tell whether the pod fits once some pods have ended, and others of them were placed anew before it."""
    held = waiting.world.engine.state.without(pod.uid for pod in ending.pods)
    with held, made_anew(waiting.world, anew) as made:
        first = sorted([*made, *waiting.before], key=lambda pod: -pod.priority)
        with placed(waiting.world, first):
            if not ending.node:
                return bool(waiting.node_now())
            return waiting.fits_now_on(ending.node)


def _remedy(waiting: HypotheticalPod, ending: PodsToEnd, back: Sequence[Pod]) -> Remedy:
    """Word what is to be done so that some pods end, and some of them do not come back."""
    ended, going = ending.ended, [pod for pod in ending.pods if pod.deleting]
    owners = [(pod, controller_of(waiting.world.written(pod))) for pod in back]
    less = Counter(f"{owner[0]} {pod.namespace}/{owner[1]}" for pod, owner in owners if owner is not None)
    texts, nameless = [], []
    if len(ended) == 1:
        texts.append(f"end pod {_named(ended)}")
        nameless.append(f"have 1 pod that you may not delete end{_on_nodes(ended)}")
    elif ended:
        texts.append(f"end {counted(len(ended), 'pod')}{_named(ended, ': ')}")
        nameless.append(f"have {counted(len(ended), 'pod')}, not all of which you may delete, end{_on_nodes(ended)}")
    if going:
        state = "has ended, which is" if len(going) == 1 else "have ended, which are"
        texts.append(f"wait until pod{'' if len(going) == 1 else 's'} {_named(going)} {state} ending already")
        nameless.append(f"wait until {counted(len(going), 'pod')}{_on_nodes(going)} {state} ending already")
    if less:
        fewer = ", ".join(f"{owner} make {counted(count, 'pod')} less" for owner, count in less.items())
        texts.append(f"this has to be for good: have {fewer}, or what comes instead takes the room first")
        nameless.append("this has to be for good, or what their controllers make instead takes the room first")
    kind = RemedyKind.END_PODS if ended else RemedyKind.WAIT
    uids = tuple(pod.uid for pod in ending.pods)
    with waiting.world.engine.state.without(uids):
        goes_to = waiting.node()  # which may be another node than theirs
    action = Action("; ".join(texts), nameless="; ".join(nameless), is_long=len(texts) > 1)
    return Remedy(kind, (action,), goes_to, ended=uids)


def _named(pods: Sequence[Pod], before: str = "") -> str:
    """Name pods with their nodes; where these are all on one, and something stands before the names, it does there."""
    if len({pod.node_name for pod in pods}) > 1:
        return before + ", ".join(f"{pod.key} on node {pod.node_name}" for pod in pods)
    names = ", ".join(pod.key for pod in pods)
    return f"{_on_nodes(pods)}{before}{names}" if before else f"{names}{_on_nodes(pods)}"


def _on_nodes(pods: Sequence[Pod]) -> str:
    return f" on {by_name('node', list(dict.fromkeys(pod.node_name for pod in pods)))}"
