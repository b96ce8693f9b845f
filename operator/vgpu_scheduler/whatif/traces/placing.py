"""Replay a trace step by step, with the engine and its policies placing the pods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec

from vgpu_scheduler.engine import SCHEDULER_NAME
from vgpu_scheduler.kube import Object, Pod
from vgpu_scheduler.model import WHOLE, Outcome
from vgpu_scheduler.whatif.objects.cards import Card, CardWriter
from vgpu_scheduler.whatif.traces.arrivals import Arrivals
from vgpu_scheduler.whatif.traces.fleet import SHARES, Fleet
from vgpu_scheduler.whatif.traces.format import TraceNode, TracePod
from vgpu_scheduler.whatif.world.options import plain_options
from vgpu_scheduler.whatif.world.world import World

_DIALECT: Final = "hami"
_TYPES: Final = "nvidia.com/use-gputype"


@dataclass(frozen=True, slots=True)
class CardLocation:
    """The location of a pod: the index of its node in the fleet, and the indexes of its cards there."""

    node: int
    cards: tuple[int, ...]


class Placer(Protocol):
    """Places pods, one after the other."""

    def place(self, number: int, pod: TracePod) -> CardLocation | None:
        """Place a pod, which stays there; return None if it is rejected, and forget it."""

    def remove(self, number: int) -> None:
        """Remove a pod that was placed."""


def replay(arrivals: Arrivals, placer: Placer, on_step: Callable[[], None] = lambda: None) -> list[CardLocation | None]:
    """Place and remove pods as they arrive and leave; return the location of each, None for rejected pods.

    Parameters
    ----------
    on_step
        Called after each step.
    """
    locations: list[CardLocation | None] = [None] * len(arrivals.pods)
    for step in arrivals.steps:
        if step >= 0:
            locations[step] = placer.place(step, arrivals.pods[step])
        elif locations[~step] is not None:
            placer.remove(~step)
        on_step()
    return locations


class EnginePlacer:
    """Places pods with the engine, on nodes that register their cards as HAMi's device plugin does.

    Parameters
    ----------
    fleet
        The nodes; their order breaks ties.
    policies
        The policies, as written.

    Raises
    ------
    InvalidObjectsError
        If a policy cannot be understood.
    """

    def __init__(self, fleet: Fleet, policies: Sequence[Object]) -> None:
        self._world = World(plain_options(_DIALECT), strict=True)
        self._world.add(policies)
        self._world.ensure_namespace("default")
        self._world.add(node_object(self._world.cards, number, node) for number, node in enumerate(fleet.nodes))
        self._cards = {
            _card(number, index): index for number, node in enumerate(fleet.nodes) for index in range(len(node.models))
        }
        self._read: dict[TracePod, Pod] = {}

    def place(self, number: int, pod: TracePod) -> CardLocation | None:
        """Place a pod by a decision of the engine; see :class:`Placer`.

        Raises
        ------
        RuntimeError
            If the engine fails to decide the pod.
        """
        if (read := self._read.get(pod)) is None:
            read = self._read[pod] = self._world.pod(pod_object(pod))
        uid, engine = _name(number), self._world.engine
        engine.observe_pod(msgspec.structs.replace(read, uid=uid, name=uid), 0.0)
        decision = engine.attempt(0.0)
        assert decision is not None
        assert decision.uid == uid
        if decision.outcome is Outcome.ERROR:
            raise RuntimeError(f"{pod}: {decision.message}") from decision.error
        if decision.placement is None:
            engine.remove_pod(uid, 0.0)
            return None
        engine.binding_succeeded(uid)
        cards = (card for container in decision.placement.containers for card in container)
        return CardLocation(int(decision.placement.node), tuple(self._cards[card.uuid] for card in cards))

    def remove(self, number: int) -> None:
        """Remove a pod."""
        self._world.engine.remove_pod(_name(number), 0.0)


def node_object(writer: CardWriter, number: int, node: TraceNode) -> dict[str, Any]:
    """Return a node of a fleet with its registered cards, as the API would show it.

    Parameters
    ----------
    writer
        Writes the cards as the device plugin does.
    number
        The number of the node, which becomes its name.
    """
    cards = [
        Card(_card(number, index), index, _type(model), node.card_memory, SHARES, WHOLE, 0, "hami-core", healthy=True)
        for index, model in enumerate(node.models)
    ]
    registered = writer.register(_name(number), cards)
    amounts = {
        "cpu": f"{node.cpu}m",
        "memory": f"{node.memory}Mi",
        "pods": str(node.pods),
        **registered.allocatable,
    }
    return {
        "kind": "Node",
        "metadata": {"name": _name(number), "annotations": dict(registered.annotations)},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def _name(number: int) -> str:
    """Return a name for a number, such that names sort like numbers."""
    return f"{number:08d}"


def _card(node: int, index: int) -> str:
    return f"{_name(node)}-{index}"


def _type(model: str) -> str:
    """Return the registered name of a model, in parentheses since HAMi matches substrings and A10 is one of A100."""
    return f"NVIDIA ({model})"


def pod_object(pod: TracePod) -> dict[str, Any]:
    """Return a pod as a user would write it."""
    requests = {"cpu": f"{pod.cpu}m", "memory": f"{pod.memory}Mi"}
    limits = {}
    if pod.cards:
        limits = {
            "nvidia.com/gpu": str(pod.cards),
            "nvidia.com/gpumem-percentage": str(pod.share),
            "nvidia.com/gpucores": str(pod.share),
        }
    types = {_TYPES: ",".join(f"({model})" for model in pod.models)} if pod.models else {}
    return {
        "kind": "Pod",
        "metadata": {"name": "pod", "annotations": types},
        "spec": {
            "schedulerName": SCHEDULER_NAME,
            "containers": [{"name": "main", "resources": {"requests": {**requests, **limits}, "limits": limits}}],
        },
        "status": {"phase": "Pending"},
    }
