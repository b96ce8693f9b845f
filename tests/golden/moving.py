"""Fleets whose pods the real schedulers of Volcano and Koordinator have placed, for tests of moving over and back.

A fleet is some golden cases at once, a node of each: what was written on the pods was written by the real code. An
engine of ours observes them, places more, and loses them again; what the real code would read of the annotations is
what the naive twins say, whose quirks are those of the real code.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

import numpy as np
from tests.golden import koordinator as golden
from tests.golden.koordinator import NAMED_TYPES, NAMES
from tests.golden.outcome import Case
from tests.golden.volcano_vgpu import cards_of, comparable, expected_cards
from tests.golden.volcano_world import TIMES, annotations_of, dialect_of, used_cards
from tests.naive import koordinator, koordinator_books, koordinator_nodes, volcano
from tests.naive.hami_quirks import Switches
from tests.naive.koordinator_quirks import KoordinatorQuirk
from tests.naive.volcano_quirks import VOLCANO, VolcanoQuirk
from tests.placing import place

from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.engine import Engine, EngineOptions
from vgpu_scheduler.kube import decode_node, decode_pod
from vgpu_scheduler.policy import PolicyDefaults

OURS = "vgpu-scheduler"
Obj = dict[str, Any]
Books = dict[str, list[Obj]]
"""What is used of each device, by node."""


@dataclass(frozen=True)
class Happened:
    """What the real scheduler did on a node: a pod was bound as it is here, or has ended.

    Attributes
    ----------
    ledger
        What the live ledger of the real scheduler says of the node afterwards, where that is known.
    """

    node: str
    pod: Obj
    ledger: list[Obj] | None = None
    ended: bool = False


class Ecosystem(Protocol):
    """The cases of a fleet as one ecosystem has them."""

    dialect: Dialect
    read_otherwise: frozenset[Enum]
    """The quirks by which the real code reads annotations otherwise than they are read here."""

    def is_read_otherwise(self, pod: Obj) -> bool:
        """Tell whether a running pod is one of which that may be so."""

    def nodes(self) -> Iterator[tuple[Obj, Obj | None]]:
        """Yield the nodes, each with the object beside it that lists its devices."""

    def happened(self) -> Iterator[Happened]:
        """Yield what the real scheduler did."""

    def wanted(self) -> Iterator[Obj]:
        """Yield pods as they were before they were placed."""

    def kept(self, engine: Engine) -> Books:
        """Return what an engine has booked."""

    def read(self, pods: Iterable[Obj], switch: Switches) -> Books:
        """Return what the annotations of pods come to, as the twin reads them."""


class Fleet:
    """An engine over the nodes of an ecosystem, and the pods that run there."""

    def __init__(self, ecosystem: Ecosystem) -> None:
        self.ecosystem = ecosystem
        self.pods: dict[str, Obj] = {}
        self.engine = self.restarted()
        self._now = 0.0

    def restarted(self) -> Engine:
        """Return an engine that starts now."""
        engine = Engine(EngineOptions([self.ecosystem.dialect], PolicyDefaults(), [OURS]))
        for node, beside in self.ecosystem.nodes():
            if beside is not None:
                engine.observe_inventory(node["metadata"]["name"], beside, 0.0)
            engine.observe_node(decode_node(node), 0.0)
        for pod in self.pods.values():
            engine.observe_pod(decode_pod(pod), 0.0)
        return engine

    def kept(self) -> Books:
        """Return what is booked."""
        return self.ecosystem.kept(self.engine)

    def read(self, quirks: Iterable[Enum]) -> Books:
        """Return what the annotations come to."""
        return self.ecosystem.read(self.pods.values(), Switches(quirks))

    def on(self, node: str) -> list[Obj]:
        """Return the pods of a node."""
        return [pod for pod in self.pods.values() if pod["spec"]["nodeName"] == node]

    def follow(self, happened: Happened) -> None:
        """See what the real scheduler did."""
        if happened.ended:
            self.end(happened.pod["metadata"]["uid"])
        else:
            self.observe(happened.pod)

    def observe(self, pod: Obj) -> None:
        """See a pod that runs."""
        self.pods[pod["metadata"]["uid"]] = pod
        self.engine.observe_pod(decode_pod(pod), self._now)

    def end(self, uid: str) -> None:
        """See that a pod is gone."""
        if self.pods.pop(uid, None):
            self.engine.remove_pod(uid, self._now)

    def place(self, wire: Obj, number: int) -> Obj | None:
        """Have the engine place a pod like this one; return it as it runs, None where it waits or is refused."""
        self._now += 1.0
        another = _as_another(wire, f"more-{number}")
        waiting = {**another, "spec": {**wire["spec"], "schedulerName": OURS}}
        found = place(self.engine, waiting, self._now)
        if found is None:
            return None
        placement, written = found
        running = _running(waiting, placement.node, written)
        self.observe(running)
        return running


class VolcanoFleet:
    """Sequences on nodes of Volcano's plugin; they have one configuration of it."""

    read_otherwise = frozenset({VolcanoQuirk.SECOND_ENTRY_NOT_REPLAYED, VolcanoQuirk.INSTANCE_MEMORY_BY_PLACE})

    def __init__(self, cases: Sequence[Case]) -> None:
        self._cases = [_renamed(case, "node1", f"n{number}") for number, case in enumerate(cases)]
        self.dialect = dialect_of(cases[0])

    def nodes(self) -> Iterator[tuple[Obj, Obj | None]]:
        for case in self._cases:
            yield case["node"], None

    def happened(self) -> Iterator[Happened]:
        """Yield the steps of all sequences, one of each in turns."""
        for turn in range(max(len(case["steps"]) for case in self._cases)):
            for case in self._cases:
                for step in case["steps"][turn : turn + 1]:
                    node, ledger = (
                        case["node"]["metadata"]["name"],
                        [_used(card) for card in expected_cards(step["cards"])],
                    )
                    if step["op"] == "remove":
                        yield Happened(node, step["pod"], ledger, ended=True)
                    elif step["fit"]:
                        yield Happened(node, _running(step["pod"], node, step["annotations"]), ledger)

    def wanted(self) -> Iterator[Obj]:
        for case in self._cases:
            yield from (step["pod"] for step in case["steps"] if step["op"] == "place")

    def kept(self, engine: Engine) -> Books:
        cards = {
            node["metadata"]["name"]: used_cards(engine.state, node["metadata"]["name"]) for node, _ in self.nodes()
        }
        return {node: [_used(card) for card in comparable(found)] for node, found in cards.items()}

    def read(self, pods: Iterable[Obj], switch: Switches) -> Books:
        here = list(pods)
        return {
            case["node"]["metadata"]["name"]: [_used(card) for card in cards_of(self._read(case, here, switch))]
            for case in self._cases
        }

    @staticmethod
    def _read(case: Case, pods: Iterable[Obj], switch: Switches) -> list[volcano.Card]:
        cards = volcano.node_cards(case["node"], volcano.Names.of(case), volcano.nvidia_of(case))
        for pod in pods:
            if pod["spec"]["nodeName"] == case["node"]["metadata"]["name"]:
                volcano.replay(cards, pod, volcano.entries(_written(pod)), switch)
        return cards

    def is_read_otherwise(self, pod: Obj) -> bool:
        """Tell whether a pod has two entries of one card, or an instance of a card in MIG mode."""
        cards = [card.partition(",")[0] for card in _written(pod).replace(";", ":").split(":") if card]
        return len({*cards}) < len(cards) or any("[" in card for card in cards)

    def placed_again(self, fleet: Fleet) -> Iterator[tuple[str, Obj]]:
        """Yield what Volcano's own code places on each node when it has read what is there."""
        names, switch = volcano.Names.of(self._cases[0]), Switches(VOLCANO)
        for number, case in enumerate(self._cases):
            node, cards = case["node"]["metadata"]["name"], self._read(case, fleet.pods.values(), switch)
            for step in case["steps"]:
                pod = _as_another(step["pod"], f"again-{number}-{step['pod']['metadata']['name']}")
                asked = volcano.asks(pod, names, switch)
                if step["op"] != "place" or not asked or not volcano.has_request(pod, names, switch):
                    continue
                picks, cards = volcano.place(cards, pod, asked, case["args"]["schedulePolicy"], switch)
                if picks is not None:
                    written = annotations_of(volcano.encode(picks, switch), dict.fromkeys(TIMES, ""))
                    yield node, _running(pod, node, {**written, volcano.NODE: node})


class KoordinatorFleet:
    """Nodes of koordlet's, each with the pods that were there and the one that koord-scheduler placed."""

    dialect = golden.DIALECT
    read_otherwise = frozenset({KoordinatorQuirk.UNASKED_COUNTED})

    def __init__(self, cases: Sequence[Case]) -> None:
        self._cases = [_renamed(case, "node-0", f"k{number}") for number, case in enumerate(cases)]

    def nodes(self) -> Iterator[tuple[Obj, Obj | None]]:
        for case in self._cases:
            names = dict.fromkeys(NAMES.values(), "1000Ti")
            own = {"pods": "110", "cpu": "640", "memory": "4Ti", "nvidia.com/gpu": "64", **names}
            (node,), (beside,) = case["nodes"], case["devices"]
            yield {**node, "spec": {}, "status": {"allocatable": own}}, beside

    def happened(self) -> Iterator[Happened]:
        for case in self._cases:
            ((name, answer),) = case["expect"]["nodes"].items()
            for pod in case["pods"]:
                yield Happened(name, _running(pod, name, {}))
            yield Happened(name, _running(case["pod"], name, {koordinator_books.ALLOCATED: answer["annotation"]}))

    def wanted(self) -> Iterator[Obj]:
        for case in self._cases:
            yield case["pod"]

    def kept(self, engine: Engine) -> Books:
        assert not engine.state.drift()
        found = {}
        for node, _ in self.nodes():
            name = node["metadata"]["name"]
            row = engine.state.nodes.row(name)
            assert row is not None
            matrix = engine.state.devices
            used = dict(matrix.usage(row))
            given = [device for device in matrix.devices(row) if any(used[device.uuid])]
            found[name] = [
                _amounts(
                    device.vendor,
                    device.index,
                    {NAMES[device.vendor, n]: a for n, a in enumerate(used[device.uuid]) if a},
                    [
                        function.uuid.split("/", 2)[2]
                        for function in given
                        if (function.vendor, function.group) == (f"{device.vendor}-vf", device.index)
                    ],
                )
                for device in matrix.devices(row)
                if device.vendor in NAMED_TYPES
            ]
        return {name: _sorted(devices) for name, devices in found.items()}

    def read(self, pods: Iterable[Obj], switch: Switches) -> Books:
        here, found = list(pods), {}
        for case in self._cases:
            (device,) = case["devices"]
            slots = koordinator_books.books(device, here, switch)
            found[device["metadata"]["name"]] = _sorted(
                _amounts(
                    slot.kind,
                    slot.minor,
                    {name: amount for name, amount in slot.used.items() if amount},
                    [function.bus for function in slot.functions if function.bus in slot.given],
                )
                for slot in slots
            )
        return found

    def is_read_otherwise(self, pod: Obj) -> bool:
        """Tell whether a pod holds devices and asks for none."""
        return not koordinator.requested(pod)


def may_move(case: Case) -> bool:
    """Tell whether a case of Koordinator's has a node that is served here, with a pod that it placed there."""
    nodes = case["expect"].get("nodes", {}).values()
    fit = [node for node in nodes if node.get("filter", {}).get("code") == "Success" and node.get("annotation")]
    foreign = koordinator_nodes.is_foreign(*case["nodes"], *case["devices"])
    return bool(fit) and len(case["devices"]) == 1 and not foreign and not golden.beyond_reach(case)


def some(cases: Sequence[Case], number: int, seed: int) -> list[Case]:
    """Return some of the cases, in the order of a seed."""
    order = np.random.default_rng(seed).permutation(len(cases))
    return [cases[place] for place in order[:number]]


def _renamed(case: Case, name: str, to: str) -> Case:
    """Give the node of a case, its devices and its pods names of their own."""
    text = json.dumps(case).replace("GPU-", f"GPU-{to}-").replace(name, to).replace('"uid-', f'"uid-{to}-')
    found: Case = json.loads(text)
    for pod in (
        *(step["pod"] for step in found.get("steps", ())),
        *found["pods"],
        *([found["pod"]] if "pod" in found else ()),
    ):
        pod["metadata"]["name"] = f"{to}-{pod['metadata']['name']}"
    return found


def _running(wire: Obj, node: str, annotations: Obj) -> Obj:
    """Return a pod as the API server shows it when its node side has served it."""
    pod = copy.deepcopy(wire)
    given = {key: "1700000000" if key in TIMES else text for key, text in annotations.items()}
    if volcano.ALLOCATED in given:
        given |= {"volcano.sh/devices-to-allocate": ";", "volcano.sh/bind-phase": "success"}
    pod["metadata"]["annotations"] = {**(pod["metadata"].get("annotations") or {}), **given}
    pod["spec"] = {**pod["spec"], "nodeName": node}
    phase = pod.get("status", {}).get("phase", "")
    started = [{"name": container["name"]} for container in pod["spec"]["containers"]]
    ended = phase in ("Succeeded", "Failed")
    pod["status"] = {**pod.get("status", {}), "phase": phase if ended else "Running", "containerStatuses": started}
    return pod


def _as_another(wire: Obj, name: str) -> Obj:
    return {**wire, "metadata": {**wire["metadata"], "name": name, "uid": f"uid-{name}"}}


def _written(pod: Obj) -> str:
    return str(pod["metadata"]["annotations"].get(volcano.ALLOCATED, ""))


def _used(card: Obj) -> Obj:
    return {key: card[key] for key in ("uuid", "usedNum", "usedMem", "usedCore", "pods")}


def _amounts(kind: str, minor: int, used: Obj, functions: Iterable[str]) -> Obj:
    return {"type": kind, "minor": minor, "used": used, "functions": sorted(functions)}


def _sorted(devices: Iterable[Obj]) -> list[Obj]:
    return sorted(devices, key=lambda device: (device["type"], device["minor"]))
