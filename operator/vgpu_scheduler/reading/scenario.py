"""What-if scenarios: change a cluster, and place new or pending pods in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import Any, Final

from vgpu_scheduler.kube import LabelSelector, Pod
from vgpu_scheduler.model import counted, first_of, quoted
from vgpu_scheduler.reading.asked_pods import Warn, new_pods, nothing_to_place
from vgpu_scheduler.reading.schedulers import is_ours, left_to_whom
from vgpu_scheduler.reading.view import ClusterView
from vgpu_scheduler.reading.world import keep_room
from vgpu_scheduler.settings import Settings
from vgpu_scheduler.whatif import (
    MOST_COPIES,
    FileObject,
    InvalidObjectsError,
    PodResult,
    World,
    copy_of,
    keep_waiting_room,
    simulate,
    with_preempted,
)
from vgpu_scheduler.whatif.objects.controllers import controller_of

_AS_MANY_AS_FIT: Final = "max"
_MOST_NODES: Final = 1000
_MOST_NAMED: Final = 3
_KEPT: Final = (
    "which waits for longer than groups.holdAfter of its policy: only pods of higher priority are given this room"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedPods:
    """The pods to place.

    Attributes
    ----------
    written
        The objects that describe new pods; see :func:`at_home`.
    where
        The source of these objects; empty if no new pods are expected.
    pending
        Whether to place pending pods before the new ones.
    home
        The namespace of the pending pods.
    every
        Whether to place the pending pods of all namespaces.
    selector
        The label selector of the pending pods; None for all.
    sees
        Tells whether the names of a namespace's pods may be told.
    """

    written: Sequence[FileObject] = ()
    where: str = ""
    pending: bool = False
    home: str = "default"
    every: bool = False
    selector: LabelSelector | None = None
    sees: Callable[[str], bool] = lambda _: True

    def waiting(self, world: World) -> list[Pod]:
        """Return the pending pods to place."""
        if not self.pending:
            return []
        pods = [pod for pod in world.pending.values() if self.every or pod.namespace == self.home]
        return [pod for pod in pods if self.selector is None or self.selector.matches(pod.labels)]


def answers_to(
    world: World,
    view: ClusterView,
    asked: SimulatedPods,
    warn: Warn,
    *,
    explained: bool = True,
    preempt: bool = False,
    on_answer: Callable[[PodResult], None] = lambda _: None,
) -> list[PodResult]:
    """Place pods, which stay in the world, and return the results.

    Room that is kept for other waiting pods stays kept.

    Parameters
    ----------
    explained, preempt, on_answer
        As for :func:`vgpu_scheduler.whatif.simulate`.

    Raises
    ------
    InvalidObjectsError
        If a pod cannot be understood, or pods are expected and there are none.
    """
    waiting = asked.waiting(world)
    _warn_of_other_schedulers(waiting, view.scheduler.settings, warn)
    how: dict[str, Any] = {"explained": explained, "preempt": preempt, "on_answer": on_answer}
    if waiting:
        keep_room_for_others(world, waiting, warn, asked.sees)
    answers = simulate(world, waiting, as_they_are=True, **how)
    new = new_pods(world, view, asked.written, warn)
    if new and not waiting:
        keep_room_for_others(world, new, warn, asked.sees)
    answers = with_preempted([*answers, *simulate(world, new, **how)])
    if not answers and asked.where:
        raise nothing_to_place(world, asked.where)
    return answers


def keep_room_for_others(
    world: World, asked: Sequence[Pod], warn: Warn, sees: Callable[[str], bool] = lambda _: True
) -> None:
    """Keep the room of pods that wait for longer than ``groups.holdAfter``, and say so.

    Parameters
    ----------
    asked
        The pods that the question places: no room is kept beforehand for these, and for waiting pods of their names.
    sees
        Tells whether the names of a namespace's pods may be told.
    """
    keys = {pod.key for pod in asked}
    for room in keep_waiting_room(world, {uid for uid, pod in world.pending.items() if pod.key in keys}):
        for_whom = f"pod {first_of(room.pods, 1)}" if sees(room.namespace) else "another pod"
        where = f"node {room.nodes[0]}" if len(room.nodes) == 1 else f"nodes {first_of(room.nodes, _MOST_NAMED)}"
        warn(f"room on {where} is kept for {for_whom}, {_KEPT}")


def _warn_of_other_schedulers(waiting: Sequence[Pod], settings: Settings, warn: Warn) -> None:
    """Warn about pending pods of other schedulers, once for each scheduler."""
    others: dict[str, list[str]] = {}
    for pod in waiting:
        if not is_ours(pod.scheduler_name, settings):
            others.setdefault(pod.scheduler_name, []).append(pod.key)
    for named, keys in others.items():
        text = f"{left_to_whom(named, settings)}. Here it is placed as if it named {settings.scheduler_names[0]}"
        warn(f"Pod {first_of(keys, 1)}: {text}")


def number_of_copies(text: str) -> int:
    """Parse a number of copies, or ``max`` for as many as fit.

    Raises
    ------
    InvalidObjectsError
        If it is neither.
    """
    if text == _AS_MANY_AS_FIT:
        return MOST_COPIES
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text) <= MOST_COPIES:
        raise InvalidObjectsError(f"{quoted(text)} is neither a number from 1 to {MOST_COPIES} nor max")
    return int(text)


def add_copies(world: World, text: str) -> None:
    """Add nodes like an existing one.

    Parameters
    ----------
    text
        ``NAME``, or ``NAME=NUMBER`` for more than one.

    Raises
    ------
    InvalidObjectsError
        If there is no such node, the number is invalid, or it is unknown what a new node would offer.
    """
    name, _, number_of = text.partition("=")
    if number_of and not (number_of.isdecimal() and 1 <= int(number_of) <= _MOST_NODES):
        raise InvalidObjectsError(f"{number_of!r} is not a number from 1 to {_MOST_NODES}")
    free = (copy for n in count(2) if not world.has_node(copy := f"{name}-{n}"))
    for copy in islice(free, int(number_of or 1)):
        world.add(copy_of(world, name, copy))


def change_nodes(
    world: World,
    view: ClusterView,
    added: Sequence[str],
    without: Sequence[str],
    *,
    options: tuple[str, str] = ("add", "without"),
    add: Callable[[World, str], None] = add_copies,
    meant: Callable[[World, str], str] = lambda _world, _text: "",
) -> list[str]:
    """Add nodes, remove nodes and pods, and then restore the reservations of nominated pods.

    Parameters
    ----------
    options
        The names of the options for added and removed objects, for errors.
    add
        Adds what one entry of ``added`` describes.
    meant
        Suggests another entry for one of ``without`` that does not exist, as the end of a sentence.

    Returns
    -------
    list
        Assumptions about the removed pods.

    Raises
    ------
    InvalidObjectsError
        If an entry cannot be understood.
    """
    gone: list[Pod] = []

    def leave_out(world: World, text: str) -> None:
        gone.extend(_leave_out(world, text, meant))

    for option, change, texts in zip(options, (add, leave_out), (added, without), strict=True):
        for text in texts:
            try:
                change(world, text)
            except InvalidObjectsError as error:
                raise InvalidObjectsError(f"{option} {text}: {error}") from None
    keep_room(world, view)
    return list(_assumed_of_gone(world, gone))


def _leave_out(world: World, text: str, meant: Callable[[World, str], str]) -> list[Pod]:
    """Remove a node or a pod; return the removed bound pods."""
    kind, _, name = text.partition("/")
    if kind == "node" and world.has_node(name):
        pods = [pod for pod in world.bound.values() if pod.node_name == name]
        world.remove_node(name)
        return pods
    if kind == "pod":
        pods = [pod for pod in world.present_pods if pod.key == name]
        for pod in pods:
            world.remove_pod(pod.uid)
        if pods:
            return [pod for pod in pods if pod.node_name]
    suggestion = meant(world, text) or "; write node/NAME or pod/NAMESPACE/NAME"
    raise InvalidObjectsError(f"there is no such pod or node{suggestion}")


def _is_made_anew(world: World, pod: Pod) -> bool:
    """Tell whether a controller recreates a removed pod on any node; DaemonSets recreate only on the pod's own node."""
    return not pod.is_node_bound and controller_of(world.written(pod)) is not None


def _assumed_of_gone(world: World, gone: Sequence[Pod]) -> Iterator[str]:
    """Describe what is assumed of quotas after pods with cards are removed, and of their replacements.

    No pod is named, since the user may not be allowed to see all of them.
    """
    with_cards = [pod for pod in gone if world.engine.dialects.owners(pod)]
    limited = world.engine.quota_limits.limited({pod.namespace for pod in with_cards})
    held = [pod for pod in with_cards if pod.namespace in limited]
    if held:
        yield f"the quota that {counted(len(held), 'pod')} left out used counts as free"
    again = [pod for pod in with_cards if _is_made_anew(world, pod)]
    if again:
        counts = any(pod.namespace in limited for pod in again)
        then = ", and count in quotas once they are bound" if counts else ""
        yield (
            f"controllers recreate {counted(len(again), 'pod')} that were left out: the new ones are not placed "
            f"here; they wait for cards as others do{then}"
        )
