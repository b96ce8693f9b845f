"""A small API: objects with resource versions, and the events that its watchers have not seen yet."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from tests.engine.builders import OURS, asks, card, node_object, pod_object
from tests.kube.objects import Obj
from tests.simulation.things import SimThing, key_of
from tests.simulation.vendors import OTHER_CARDS, OtherCard

from vgpu_scheduler.dialects.hami.mig import MigProfile, SliceSpan
from vgpu_scheduler.intake import NODES, PODS, Kind, Listing
from vgpu_scheduler.kube import MANAGER, Node, Pod, decode_node, decode_pod
from vgpu_scheduler.model import LAST_ALLOCATED, Amounts, Placement

OTHERS = "default-scheduler"
ANNOUNCING = "announcing-scheduler"
"""One that writes on a pod what it will bind before it does."""
MIG: Mapping[str, Any] = {
    "mode": "mig",
    "mig_profiles": (
        MigProfile("1g.2gb", 1984, 25, 1, tuple(SliceSpan(start, 1) for start in range(4))),
        MigProfile("2g.4gb", 3968, 50, 2, (SliceSpan(0, 2), SliceSpan(2, 2))),
        MigProfile("4g.8gb", 7936, 100, 4, (SliceSpan(0, 4),)),
    ),
}
"""How a card of 8000 MiB is registered that is given out in pieces."""


class Watch(Enum):
    """The watches of pods; each shows what the API server selects for it, in the order of versions."""

    BOUND = "bound"
    WAITING = "waiting"
    ANNOUNCED = "announced"
    NOMINATED = "nominated"


@dataclass(frozen=True, slots=True)
class SimCard:
    """A card of a node."""

    uuid: str
    memory: int = 8000
    count: int = 4
    healthy: bool = True
    mig: bool = False


@dataclass(frozen=True, slots=True)
class SimNode:
    """A node; ``registration`` overrides the cards of NVIDIA with an unreadable text, ``others`` are other vendors."""

    name: str
    uid: str
    version: int
    cards: tuple[SimCard, ...]
    cordoned: frozenset[str] = frozenset()
    unschedulable: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    registration: str = ""
    others: frozenset[str] = frozenset(OTHER_CARDS)
    token: str = ""
    """Which pod was last allocated there, as leaders write it."""

    def shown(self) -> Node:
        """Return it as the program sees it."""
        listed = [
            card(c.uuid, memory=c.memory, count=c.count, healthy=c.healthy, index=i, **(MIG if c.mig else {}))
            for i, c in enumerate(self.cards)
        ]
        notes = {"hami.io/device-cordon": ",".join(sorted(self.cordoned))} if self.cordoned else {}
        notes |= {LAST_ALLOCATED: self.token} if self.token else {}
        more = [OTHER_CARDS[vendor] for vendor in sorted(self.others)]
        amounts = {"cpu": "6", "pods": "8", "nvidia.com/gpu": str(sum(c.count for c in self.cards))}
        for other in more:
            amounts |= other.capacity
        shown = node_object(
            self.name,
            self.registration or listed,
            uid=self.uid,
            version=self.version,
            annotations={**notes, **{key: text for other in more for key, text in other.said(self.name).items()}},
            labels=self.labels,
            allocatable=amounts,
            unschedulable=self.unschedulable,
        )
        shown["status"]["capacity"] = amounts
        return decode_node(shown)


@dataclass(frozen=True, slots=True)
class SimPod:
    """A pod."""

    name: str
    uid: str
    version: int
    gpu: int
    memory: int
    cores: int
    cpu: int
    vendor: str = ""
    """Of whose cards it asks, if not NVIDIA's, and which of the claims that there are."""
    claim: int = 0
    scheduler: str = OURS
    priority: int = 0
    node: str = ""
    nominated: str = ""
    nominated_by: str = MANAGER
    """Who wrote that."""
    phase: str = "Pending"
    started: bool = False
    began: int | None = None
    """When it was started, in seconds since 1970."""
    deleting: bool = False
    gated: bool = False
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    placement: Placement | None = None
    """Where it was really put by us, whatever its annotations say later."""
    namespace: str = "default"
    asked: Mapping[str, Any] = field(default_factory=dict)
    """More of its spec."""
    ports: tuple[Mapping[str, Any], ...] = ()
    """Of its container."""
    ends_by: int = 0
    """When its grace period ends while it is deleted, in seconds since 1970."""
    disruption: str = ""
    """Why it ends, if somebody had it end."""

    @property
    def ours(self) -> bool:
        """Whether we place it."""
        return self.scheduler == OURS

    @property
    def watch(self) -> Watch | None:
        """The watch that shows it."""
        if self.node:
            return Watch.BOUND
        if self.scheduler in (OURS, ANNOUNCING):
            return Watch.WAITING if self.ours else Watch.ANNOUNCED
        return Watch.NOMINATED if self.nominated else None

    @property
    def terminal(self) -> bool:
        """Whether it has ended."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def other(self) -> OtherCard | None:
        """The card of another vendor that it asks for."""
        return OTHER_CARDS.get(self.vendor)

    def anew(self, number: int) -> SimPod:
        """Return another pod that asks for the same, as a controller makes it."""
        fresh = SimPod(f"pod-{number:04}", f"uid-{number}", 0, self.gpu, self.memory, self.cores, self.cpu)
        kept = ("vendor", "claim", "scheduler", "priority", "gated", "labels", "namespace", "asked", "ports")
        return replace(fresh, **{name: getattr(self, name) for name in kept})

    def resources(self) -> dict[str, Any]:
        """Return what its container asks for."""
        more = dict(self.other.claims[self.claim]) if self.other else {}
        return asks(self.gpu, self.memory, self.cores, cpu=str(self.cpu), **more)

    def shown(self) -> Pod:
        """Return it as the program sees it."""
        return decode_pod(self.as_object())

    def as_object(self) -> Obj:
        """Return it as the API server has it."""
        spec: dict[str, Any] = {**self.asked, "priority": self.priority}
        if self.node:
            spec["nodeName"] = self.node
        if self.gated:
            spec["schedulingGates"] = [{"name": "hold"}]
        obj = pod_object(
            self.name,
            self.resources(),
            uid=self.uid,
            version=self.version,
            namespace=self.namespace,
            annotations=self.annotations,
            labels=self.labels,
            phase=self.phase,
            started=self.started,
            deleting=self.deleting,
            scheduler=self.scheduler,
            **spec,
        )
        if self.nominated:
            obj["status"]["nominatedNodeName"] = self.nominated
            written = {"f:status": {"f:nominatedNodeName": {}}}
            obj["metadata"]["managedFields"] = [{"manager": self.nominated_by, "fieldsV1": written}]
        if self.began is not None:
            obj["status"]["startTime"] = datetime.fromtimestamp(self.began, UTC).isoformat()
        if self.ends_by:
            obj["metadata"]["deletionTimestamp"] = datetime.fromtimestamp(self.ends_by, UTC).isoformat()
        if self.disruption:
            obj["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": self.disruption}]
        if self.ports:
            obj["spec"]["containers"][0]["ports"] = [dict(port) for port in self.ports]
        return obj


@dataclass(frozen=True, slots=True)
class Event:
    """A change that a watch reports.

    Attributes
    ----------
    gone
        It is deleted, or left what is watched; the object is then the one from before, under the new version.
    watch
        Which watch of pods shows it; None for other objects.
    """

    object: SimPod | SimNode | SimThing
    gone: bool = False
    watch: Watch | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A consistent list of everything, or a backup."""

    version: int
    pods: Mapping[str, SimPod]
    nodes: Mapping[str, SimNode]
    things: Mapping[tuple[str, str], SimThing]

    def listing(self, kind: Kind[Any], since: int) -> Listing[Any]:
        """Return the list of a kind, asked for when the last one that was taken in was of version ``since``."""
        found: list[Any]
        if kind is PODS:
            found = [pod.shown() for pod in self.pods.values()]
        elif kind is NODES:
            found = [node.shown() for node in self.nodes.values()]
        else:
            found = [thing.shown() for thing in self.things.values() if thing.kind is kind]
        return Listing(found, self.version, since=since)


class SimApi:
    """The store and what has not been reported from it."""

    def __init__(self) -> None:
        self.version = 100
        self.pods: dict[str, SimPod] = {}
        self.nodes: dict[str, SimNode] = {}
        self.things: dict[tuple[str, str], SimThing] = {}
        self.events: list[Event] = []
        self.history: list[Event] = []
        self.ever: dict[str, SimPod] = {}
        """Every pod that ever was, as it was last."""
        self._serial = 0

    def serial(self) -> int:
        """Return a number that was never used: UIDs outlive a restored store."""
        self._serial += 1
        return self._serial

    def put_pod(self, changed: SimPod) -> SimPod:
        """Write a pod."""
        self.version += 1
        changed = replace(changed, version=self.version)
        before = self.pods.get(changed.uid)
        self.pods[changed.uid] = self.ever[changed.uid] = changed
        if changed.watch is not None:
            self.events.append(Event(changed, watch=changed.watch))
        if before is not None and before.watch not in (None, changed.watch):
            self.events.append(Event(replace(before, version=self.version), gone=True, watch=before.watch))
        return changed

    def put_node(self, changed: SimNode) -> None:
        """Write a node."""
        self.version += 1
        changed = replace(changed, version=self.version)
        self.nodes[changed.name] = changed
        self.events.append(Event(changed))

    def put(self, kind: Kind[Any], obj: Obj) -> SimThing:
        """Write an object of another kind; one that is not there yet gets a UID."""
        self.version += 1
        found = kind.name, key_of(obj)
        before = self.things.get(found)
        uid = before.uid if before else f"{found[1]}-{self.serial()}"
        thing = self.things[found] = SimThing(kind, uid, self.version, obj)
        self.events.append(Event(thing))
        return thing

    def get(self, kind: Kind[Any], key: str) -> SimThing | None:
        """Return an object of another kind."""
        return self.things.get((kind.name, key))

    def of(self, kind: Kind[Any]) -> list[SimThing]:
        """Return all objects of a kind, by their keys."""
        return [self.things[found] for found in sorted(self.things) if found[0] == kind.name]

    def delete(self, thing: SimThing) -> None:
        """Delete an object of another kind."""
        self.version += 1
        last = self.things.pop((thing.kind.name, thing.key))
        self.events.append(Event(replace(last, version=self.version), gone=True))

    def delete_pod(self, uid: str) -> None:
        """Delete a pod."""
        self.version += 1
        last = replace(self.pods.pop(uid), version=self.version)
        if last.watch is not None:
            self.events.append(Event(last, gone=True, watch=last.watch))

    def delete_node(self, name: str) -> None:
        """Delete a node; its pods stay."""
        self.version += 1
        self.events.append(Event(replace(self.nodes.pop(name), version=self.version), gone=True))

    def claim(self, node: str, expected: str, token: str) -> int:
        """Replace the token of a node, if it is the expected one, and return the status code."""
        current = self.nodes.get(node)
        if current is None:
            return 404
        if current.token != expected:
            return 422
        self.put_node(replace(current, token=token))
        return 200

    def bind(self, uid: str, version: int, placement: Placement, annotations: Mapping[str, str]) -> int:
        """Carry out a Binding of a version of a pod and return the status code."""
        current = self.pods.get(uid)
        if current is None:
            return 404
        if current.node or current.deleting or current.gated or current.version != version:
            return 409
        merged = {**current.annotations, **annotations}
        self.put_pod(replace(current, node=placement.node, annotations=merged, placement=placement))
        return 201

    def snapshot(self) -> Snapshot:
        """Return everything as it is."""
        return Snapshot(self.version, copy.copy(self.pods), copy.copy(self.nodes), copy.copy(self.things))

    def restore(self, backup: Snapshot) -> None:
        """Go back to a backup: versions are given out a second time, and what was not reported never will be."""
        self.version = backup.version
        self.pods, self.nodes, self.things = dict(backup.pods), dict(backup.nodes), dict(backup.things)
        self.events.clear()
        self.history.clear()

    def held(self) -> Iterator[tuple[str, str, Amounts]]:
        """Yield node, UUID and amounts of every slice that we really gave out and that is not given back."""
        for current in self.pods.values():
            if current.placement is not None and current.node and not current.terminal:
                for container in current.placement.containers:
                    for assignment in container:
                        yield current.node, assignment.uuid, assignment.amounts
