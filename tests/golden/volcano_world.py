"""A node of Volcano's with the pods on it, as the product sees them in golden cases, below the Kubernetes filters."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.golden.outcome import Case
from tests.naive.volcano import ALLOCATED, NODE, Card

from vgpu_scheduler.allocators import CardChoice, FitColumns
from vgpu_scheduler.dialects import ClaimError, CodecError, Dialect
from vgpu_scheduler.dialects.hami import VendorSection
from vgpu_scheduler.dialects.hami.templates import MOST_TEMPLATES, booked_amounts
from vgpu_scheduler.dialects.volcano import configured_requests, volcano_dialect
from vgpu_scheduler.kube import VOLCANO_GROUP_ANNOTATIONS, Pod, decode_node, decode_pod
from vgpu_scheduler.model import Placement, PodClaims, claims_devices
from vgpu_scheduler.state import PeerCards, PeerKeys, State

TIMES = ("volcano.sh/vgpu-time", "volcano.sh/bind-time")
NOW = 1700000000

Obj = dict[str, Any]


@dataclass(frozen=True)
class Placed:
    """What became of a pod: ``kind`` is passed (nothing is asked), placed, unfit or refused."""

    kind: str
    pod: Pod
    claims: PodClaims = ()
    placement: Placement | None = None
    value: str = ""
    bound: Obj = field(default_factory=dict)


class World:
    """A node with pods."""

    def __init__(self, case: Case, pods: Iterable[Obj] = ()) -> None:
        self._case, self._dialect = case, dialect_of(case)
        self.state = State({self._dialect.name: len(self._dialect.inventory.dimensions)})
        node = decode_node(case["node"])
        self._node = node.name
        try:
            self.state.observe_node(node, {self._dialect.name: self._dialect.inventory.devices(node)})
        except CodecError:
            self.state.observe_node(node, {})
        for wire in pods:
            self.observe(_as_reported(wire))

    def copy(self) -> World:
        """Return another one with the same node and pods."""
        other = copy.copy(self)
        other.state = self.state.rebuild()
        return other

    @property
    def _row(self) -> int:
        row = self.state.nodes.row(self._node)
        assert row is not None
        return row

    @property
    def has_cards(self) -> bool:
        return bool(self.state.devices.devices(self._row))

    def observe(self, wire: Obj) -> None:
        """See a pod as the API server shows it."""
        pod = decode_pod(wire)
        self.state.observe_pod(pod, {self._dialect.name: self._dialect.allocation.usage(pod)})

    def place(self, wire: Obj, apart: Iterable[PeerKeys] = ()) -> Placed:
        """Choose cards for a pod, under policies that keep it apart from others."""
        pod, dialect, devices = decode_pod(wire), self._dialect, self.state.devices
        try:
            claims = dialect.claims.read(pod)
            if not claims_devices(claims):
                return Placed("passed", pod)
            choice = CardChoice(policy=self._case["args"]["schedulePolicy"], peer_cards=self._apart(pod, apart))
            allocator = dialect.claims.allocator(pod.annotations, claims, choice)
        except ClaimError:
            return Placed("refused", pod)
        fit = FitColumns.empty(self.state.nodes.capacity)
        allocator.fit(devices, self.state.nodes.rows(), fit)
        containers = allocator.place(devices, self._row)
        assert bool(fit.fits[self._row]) == (containers is not None)
        if containers is None:
            return Placed("unfit", pod)
        placement = Placement(self._node, containers, dialect.name)
        written = dialect.allocation.annotations(placement, NOW)
        expected = annotations_of(written[ALLOCATED], dict.fromkeys(TIMES, str(NOW)))
        assert written == {**expected, NODE: self._node}
        return Placed("placed", pod, claims, placement, written[ALLOCATED], bound(wire, self._node, written))

    def _apart(self, pod: Pod, of_policies: Iterable[PeerKeys]) -> tuple[PeerCards, ...]:
        dialect = self._dialect
        keys = filter(None, (*of_policies, dialect.claims.apart_from(pod.annotations)))
        known = (peers for each in keys if (peers := each.of(pod)) is not None)
        return tuple(self.state.held_cards(peers, dialect.name, dialect.inventory.cards) for peers in known)

    def assume(self, placed: Placed) -> None:
        """Book what was chosen."""
        assert placed.placement is not None
        self.state.observe_pod(placed.pod, {})
        self.state.assume(placed.pod.uid, placed.placement, placed.claims)

    def forget(self, uid: str) -> None:
        """See that a pod is gone."""
        self.state.remove_pod(uid)

    def cards(self) -> list[Card]:
        """What of each card is used, and by whom."""
        return used_cards(self.state, self._node)


def used_cards(state: State, node: str) -> list[Card]:
    """What of each card of a node is used, and by whom."""
    assert not state.drift()
    row, devices = state.nodes.row(node), state.devices
    assert row is not None
    used, listed = dict(devices.usage(row)), devices.devices(row)
    held = {held.uid: held.device_charges("volcano", listed) for held in state.reservations(node)}
    cards = []
    for device in listed:
        number = devices.position(row, device.uuid)
        assert number is not None
        shares, *amounts_used = used[device.uuid][:3]
        places = used[device.uuid][3:]
        pods = {
            uid: (amounts[device.uuid][1], amounts[device.uuid][2])
            for uid, amounts in held.items()
            if device.uuid in amounts
        }
        groups = {uid: _group(state, uid) for uid in pods}
        count, memory, cores = device.total[:3]
        assert cores == 100
        cards.append(
            Card(
                device.uuid,
                device.index,
                count,
                memory,
                device.type,
                device.healthy,
                shares,
                *amounts_used,
                pods,
                groups,
                bool(devices.columns.consistent[number]),
                mig=_instances(shares, places) if device.pieces else None,
            )
        )
    return cards


def _group(state: State, uid: str) -> str:
    pod = state.pod(uid)
    assert pod is not None
    peers = PeerKeys(annotations=VOLCANO_GROUP_ANNOTATIONS).of(pod)
    return "" if peers is None else f"{peers.namespace}/{peers.values[0]}"


@dataclass(frozen=True)
class Instances:
    """Which group a MIG card follows, by its number, and the positions in it that are in use."""

    group: int
    positions: list[int]


def _instances(shares: int, places: Sequence[int]) -> Instances:
    weight = places[0] // shares if shares else 0
    group = next((number for number in range(MOST_TEMPLATES) if booked_amounts(number, 0)[0] == weight), -1)
    return Instances(group, [number for number, used in enumerate(places[1:]) if used])


def dialect_of(case: Case) -> Dialect:
    """The dialect as the device configuration of a case sets it up."""
    return volcano_dialect(configured_requests(VendorSection(case["args"]["deviceConfig"])))


def annotations_of(value: str, times: Mapping[str, str]) -> Obj:
    """The annotations of an allocation."""
    return {
        "volcano.sh/bind-phase": "allocating",
        "volcano.sh/devices-to-allocate": value,
        "volcano.sh/vgpu-ids-new": value,
        "volcano.sh/vgpu-node": "node1",
        **times,
    }


def bound(wire: Obj, node: str, annotations: Obj) -> Obj:
    """The pod as it comes back from the API server after the Binding."""
    wire = copy.deepcopy(wire)
    wire["spec"]["nodeName"] = node
    wire["metadata"]["annotations"] = {**(wire["metadata"].get("annotations") or {}), **annotations}
    return wire


def _as_reported(wire: Obj) -> Obj:
    """Give a running pod the container statuses that the kubelet writes together with the phase."""
    wire = copy.deepcopy(wire)
    wire.setdefault("status", {})["containerStatuses"] = [{"name": c["name"]} for c in wire["spec"]["containers"]]
    return wire
