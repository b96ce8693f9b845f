"""What was decided with which other pods in sight, and what must hold of pods once both are bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tests.kube.objects import Obj
from tests.naive.predicates import host_ports as ports_of
from tests.naive.predicates import inter_pod, is_about, pod_terms, same_port, same_topology, space
from tests.naive.spread import spread
from tests.simulation.cluster import SimApi, SimPod
from tests.simulation.things import NAMESPACES
from tests.simulation.world import REACHED

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.kube import READ_WRITE_ONCE_POD, Node
from vgpu_scheduler.model import Placement


@dataclass(frozen=True, slots=True)
class Place:
    """A pod somewhere, as far as others see it."""

    node: str
    node_uid: str
    node_labels: tuple[tuple[str, str], ...]
    labels: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class View:
    """What a decision had in sight.

    Attributes
    ----------
    itself
        The pod that was decided.
    others
        Those that held something, by UID.
    namespaces
        The labels of all namespaces.
    exclusive
        UIDs of the claims that the pod must have for itself.
    """

    itself: Place
    others: Mapping[str, Place]
    namespaces: Mapping[str, Mapping[str, str]]
    exclusive: frozenset[str]


class Sight:
    """Checks decisions against the naive twins, and what is bound against what was in sight.

    Parameters
    ----------
    api
        The truth.
    """

    def __init__(self, api: SimApi) -> None:
        self._api = api
        self._views: dict[str, View] = {}

    def forget(self) -> None:
        """Forget all of it: what was decided is history."""
        self._views.clear()

    # When it is decided ----------------------------------------------------------------------------------------------

    def check_decided(self, engine: Engine, uid: str, placement: Placement) -> None:
        """Check a placement that was decided, or found to hold, against what is known, and note what was in sight."""
        state = engine.state
        nodes = [_as_object(node) for node in state.all_nodes()]
        here = next(node for node in nodes if node["metadata"]["name"] == placement.node)
        others, places = [], {}
        for held in state.reservations():
            pod = self._known(engine, held.uid)
            node = state.node(held.node)
            if held.uid != uid:
                others.append(bound_to(pod, held.node))
            if node is not None:
                places[held.uid] = _place(pod, node)
        asked = self._known(engine, uid).as_object()
        namespaces: Any = state.interpod.namespaces
        assert inter_pod(asked, here, nodes, others, namespaces) is None
        assert spread(asked, here, nodes, others) is None
        neighbours = [other for other in others if other["spec"]["nodeName"] == placement.node]
        taken = [port for other in neighbours for port in ports_of(other)]
        assert not any(same_port(mine, theirs) for mine in ports_of(asked) for theirs in taken)
        self._views[uid] = View(places.pop(uid), places, dict(namespaces), _exclusive(engine, asked))

    def _known(self, engine: Engine, uid: str) -> SimPod:
        """Return a pod as the engine knows it, which need not be how it is now."""
        known = engine.state.pod(uid)
        assert known is not None
        return replace(self._api.ever[uid], labels=known.labels, deleting=known.deleting, phase=known.phase, node="")

    # Once it is bound ------------------------------------------------------------------------------------------------

    def check_bound(self) -> None:
        """Check all pods that we bound, each with those that it had in sight and that are where they were."""
        namespaces: dict[str, Any] = {
            thing.key: thing.content["metadata"].get("labels", {}) for thing in self._api.of(NAMESPACES)
        }
        bound = {uid: found for uid in self._views if (found := self._bound(uid)) is not None}
        for uid, (mine, place) in bound.items():
            view = self._views[uid]
            for other, (theirs, there) in bound.items() if place == view.itself else ():
                if view.others.get(other) != there:
                    continue
                REACHED["bound in sight of each other"] += 1
                shared = view.exclusive & self._views[other].exclusive
                assert not shared, f"{mine.name} and {theirs.name} both use {sorted(shared)}"
                if view.namespaces == namespaces:
                    assert not self._keeps_away(mine, theirs, namespaces), f"{mine.name} and {theirs.name} are too near"

    def _bound(self, uid: str) -> tuple[SimPod, Place] | None:
        """Return a pod that we bound, and where it is now."""
        pod = self._api.pods.get(uid)
        if pod is None or pod.placement is None or not pod.node or pod.terminal:
            return None
        node = self._api.nodes.get(pod.node)
        return None if node is None else (pod, _place(pod, node))

    def _keeps_away(self, one: SimPod, other: SimPod, namespaces: Mapping[str, Any]) -> bool:
        pair = [(pod.as_object(), {"metadata": {"labels": self._api.nodes[pod.node].labels}}) for pod in (one, other)]
        return any(
            same_topology(term, here, there) and is_about(term, asked, known, namespaces.get(space(known)))
            for (asked, here), (known, there) in (pair, reversed(pair))
            for term in pod_terms(asked, "podAntiAffinity")
        )


def bound_to(pod: SimPod, node: str) -> Obj:
    """Return a pod as if it were bound to a node."""
    obj = pod.as_object()
    return {**obj, "spec": {**obj["spec"], "nodeName": node}}


def _place(pod: SimPod, node: Any) -> Place:
    return Place(node.name, node.uid, tuple(sorted(node.labels.items())), tuple(sorted(pod.labels.items())))


def _as_object(node: Node) -> Obj:
    return {"metadata": {"name": node.name, "labels": dict(node.labels)}, "spec": {}}


def _exclusive(engine: Engine, pod: Obj) -> frozenset[str]:
    named = [
        f"{space(pod)}/{volume['persistentVolumeClaim']['claimName']}"
        for volume in pod["spec"].get("volumes", ())
        if "persistentVolumeClaim" in volume
    ]
    claims = [engine.state.volumes.objects.claims.get(key) for key in named]
    return frozenset(claim.uid for claim in claims if claim and READ_WRITE_ONCE_POD in claim.access_modes)
