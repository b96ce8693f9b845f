"""What if: a cluster with changes, and what becomes there of pods that are asked about or that wait."""

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
    PodResult,
    World,
    WorldError,
    copy_of,
    simulate,
    with_preempted,
)
from vgpu_scheduler.whatif.objects.controllers import controller_of

__all__ = ["SimulatedPods", "add_copies", "answers_to", "change_nodes", "number_of_copies"]

_AS_MANY_AS_FIT: Final = "max"
_MOST_NODES: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedPods:
    """The pods that are to be placed.

    Attributes
    ----------
    written
        The objects that have new ones; see :func:`at_home`.
    where
        What holds these objects; empty where there is nothing that should have any.
    pending
        Whether pods that wait are placed, before the new ones.
    home
        Their namespace.
    every
        Place those of all namespaces.
    selector
        The labels of those that wait; None for all.
    """

    written: Sequence[FileObject] = ()
    where: str = ""
    pending: bool = False
    home: str = "default"
    every: bool = False
    selector: LabelSelector | None = None

    def waiting(self, world: World) -> list[Pod]:
        """Return the pods that wait and are to be placed."""
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
    """Place pods, and return what became of each; the world has them afterwards.

    Parameters
    ----------
    explained, preempt, on_answer
        As for :func:`vgpu_scheduler.whatif.simulate`.

    Raises
    ------
    WorldError
        If a pod cannot be understood, or there is none where some should be.
    """
    waiting = asked.waiting(world)
    _warn_of_other_schedulers(waiting, view.scheduler.settings, warn)
    how: dict[str, Any] = {"explained": explained, "preempt": preempt, "on_answer": on_answer}
    answers = simulate(world, waiting, as_they_are=True, **how)
    answers = with_preempted([*answers, *simulate(world, new_pods(world, view, asked.written, warn), **how)])
    if not answers and asked.where:
        raise nothing_to_place(world, asked.where)
    return answers


def _warn_of_other_schedulers(waiting: Sequence[Pod], settings: Settings, warn: Warn) -> None:
    """Say of pods that wait for other schedulers whose they are, once for all that name the same one."""
    others: dict[str, list[str]] = {}
    for pod in waiting:
        if not is_ours(pod.scheduler_name, settings):
            others.setdefault(pod.scheduler_name, []).append(pod.key)
    for named, keys in others.items():
        text = f"{left_to_whom(named, settings)}. Here it is placed as if it named {settings.scheduler_names[0]}"
        warn(f"Pod {first_of(keys, 1)}: {text}")


def number_of_copies(text: str) -> int:
    """Return how many copies are asked for: a number, or ``max`` for as many as fit.

    Raises
    ------
    WorldError
        If it is neither.
    """
    if text == _AS_MANY_AS_FIT:
        return MOST_COPIES
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text) <= MOST_COPIES:
        raise WorldError(f"{quoted(text)} is neither a number from 1 to {MOST_COPIES} nor max")
    return int(text)


def add_copies(world: World, text: str) -> None:
    """Add nodes like one that is there.

    Parameters
    ----------
    text
        ``NAME``, or ``NAME=NUMBER`` for more than one.

    Raises
    ------
    WorldError
        If there is no such node, the number is none, or nobody knows what a new node would offer.
    """
    name, _, number_of = text.partition("=")
    if number_of and not (number_of.isdecimal() and 1 <= int(number_of) <= _MOST_NODES):
        raise WorldError(f"{number_of!r} is no number from 1 to {_MOST_NODES}")
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
) -> list[str]:
    """Add nodes, take nodes and pods away, and keep room for those that wait for it in what is then there.

    Parameters
    ----------
    options
        What added ones and those taken away are called in errors.
    add
        Adds what one of ``added`` says.

    Returns
    -------
    list
        What is assumed of the pods that go.

    Raises
    ------
    WorldError
        If one cannot be understood.
    """
    gone: list[Pod] = []

    def leave_out(world: World, text: str) -> None:
        gone.extend(_leave_out(world, text))

    for option, change, texts in zip(options, (add, leave_out), (added, without), strict=True):
        for text in texts:
            try:
                change(world, text)
            except WorldError as error:
                raise WorldError(f"{option} {text}: {error}") from None
    keep_room(world, view)
    return list(_assumed_of_gone(world, gone))


def _leave_out(world: World, text: str) -> list[Pod]:
    """Take a node or a pod away; return the bound pods that go."""
    kind, _, name = text.partition("/")
    if kind == "node" and world.has_node(name):
        pods = [pod for pod in world.bound.values() if pod.node_name == name]
        world.remove_node(name)
        return pods
    if kind == "pod":
        pods = [pod for pod in (*world.bound.values(), *world.pending.values()) if pod.key == name]
        for pod in pods:
            world.remove_pod(pod.uid)
        if pods:
            return [pod for pod in pods if pod.node_name]
    raise WorldError("there is no such pod or node; write node/NAME or pod/NAMESPACE/NAME")


def _is_made_anew(world: World, pod: Pod) -> bool:
    """Tell whether a controller makes a pod anew that goes, for some node; a DaemonSet makes one for its node alone."""
    return not pod.is_node_bound and controller_of(world.written(pod)) is not None


def _assumed_of_gone(world: World, gone: Sequence[Pod]) -> Iterator[str]:
    """Say what is assumed of quotas where pods with cards went, and of the pods that controllers make in their place.

    No pod is named: whoever asks may not see them all.
    """
    with_cards = [pod for pod in gone if world.engine.dialects.owners(pod)]
    limited = world.engine.quota_limits.limited({pod.namespace for pod in with_cards})
    held = [pod for pod in with_cards if pod.namespace in limited]
    if held:
        yield f"what {counted(len(held), 'pod')} left out held of quotas counts as free"
    again = [pod for pod in with_cards if _is_made_anew(world, pod)]
    if again:
        counts = any(pod.namespace in limited for pod in again)
        then = ", and count in quotas once they are bound" if counts else ""
        yield (
            f"controllers make {counted(len(again), 'pod')} anew for those left out: the new ones are not placed here;"
            f" they wait for cards as others do{then}"
        )
