"""The devices of all vendors on every node, with what the existing pods use of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from tests.naive import hami
from tests.naive.hami import NODE, NOW, aligned_entries
from tests.naive.hami_quirks import Quirk, Switches
from tests.naive.hami_values import Container
from tests.naive.hami_wire import Entry, Panic, Unreadable, decode_pod, raw_containers
from tests.naive.vendors.maker import Charge, Maker, capacity
from tests.naive.vendors.model import LOST, Device, Obj
from tests.naive.vendors.quota import Quota, limits_of

Makers = Mapping[str, Maker]


class Ledger:
    """Devices by node, and the pods that hold some of them."""

    def __init__(self, case: Obj, makers: Makers, switch: Switches) -> None:
        self.makers, self.switch = makers, switch
        self.devices = {node["metadata"]["name"]: node_devices(node, makers, switch) for node in case["nodes"]}
        self.used: dict[tuple[str, str], tuple[int, int]] = {}
        """Memory and cores by namespace and vendor."""
        self.pods: dict[str, list[Obj]] = {name: [] for name in self.devices}
        for pod in case["pods"]:
            self._count(pod)

    def _count(self, pod: Obj) -> None:
        where = node_of(pod, self.switch)
        if not where:
            return
        try:
            used = {vendor: self.usage(pod, maker, where) for vendor, maker in self.makers.items()}
        except Unreadable:
            return
        devices = self.devices.get(where, [])
        lost = {vendor for vendor, charges in used.items() if charges is None}
        known = {vendor: charges for vendor, charges in used.items() if charges is not None}
        for vendor in used:
            held = known[vendor].values() if vendor in known else [self.anywhere(pod, self.makers[vendor])]
            key = pod["metadata"]["namespace"], vendor
            memory, cores = self.used.get(key, (0, 0))
            self.used[key] = memory + sum(charge[1] for charge in held), cores + sum(charge[2] for charge in held)
        if devices and any(charges or charges is None for charges in used.values()):
            self.pods[where].append({**pod, LOST: lost})
        if known.get("NVIDIA"):
            cards = [device for device in devices if device.vendor == "NVIDIA"]
            hami._hold_placements(pod, known["NVIDIA"], cards, self.switch)
        for vendor in lost:
            known[vendor] = self.blanket(pod, self.makers[vendor], where)
        for device in devices:
            if device.vendor in lost and (device.mode == "mig" or self.makers[device.vendor].in_pieces):
                device.healthy = False
            for charges in known.values():  # whichever vendor's annotation names it
                if charge := charges.get(device.uuid):
                    self.makers[device.vendor].add(device, charge, self.switch)

    def quotas(self, case: Obj) -> dict[str, Quota]:
        """What the quotas leave to the pod of the case, by vendor."""
        namespace = case["pod"]["metadata"]["namespace"]
        return {
            vendor: Quota(
                limits_of(case["quotas"], namespace, maker.memory, maker.cores, maker.factor),
                self.used.get((namespace, vendor), (0, 0)),
            )
            for vendor, maker in self.makers.items()
        }

    def usage(self, pod: Obj, maker: Maker, where: str) -> dict[str, Charge] | None:
        """What a pod uses of each device of one vendor, ``None`` if nobody can tell.

        Raises ``Unreadable`` if it is not to be counted at all.
        """
        annotations = pod["metadata"].get("annotations") or {}
        containers = raw_containers(pod)
        wants = [maker.wants(resources) for _, _, resources in containers]
        value = annotations.get(maker.allocated) if annotations.get(NODE) == where else None
        if value is None and not any(wants):
            return {}
        if not any(wants) and not self.switch(Quirk.UNASKED_COUNTED):
            return {}
        try:
            if value is None:
                raise Unreadable("no allocation")  # noqa: TRY301
            return self.charges(pod, maker, decode_pod(value, self.switch), wants, where)
        except Unreadable:
            if value is None and self.switch(Quirk.UNREADABLE_IGNORED):
                return {}
            if self.switch(Quirk.UNREADABLE_IGNORED):
                raise
        return None if hami._started(pod) else {}

    def charges(
        self, pod: Obj, maker: Maker, entries: list[list[Entry]], wants: list[bool], where: str
    ) -> dict[str, Charge]:
        """What the entries of an allocation come to."""
        kinds = [kind for _, kind, _ in raw_containers(pod)]
        aligned = aligned_entries(entries, wants)
        by_position = hami._padded(entries, len(wants))
        if aligned != by_position and self.switch(Quirk.ENTRIES_BY_POSITION):
            aligned = by_position
        if aligned is None:
            raise Unreadable("it does not match the containers")
        known = {device.uuid: device for device in self.devices.get(where, ())}
        held = [[(e.uuid, maker.charge(e, known.get(e.uuid), self.switch)) for e in entry] for entry in aligned]
        return self.collapse(kinds, held, maker)

    def collapse(
        self, kinds: Sequence[str], held: Sequence[Sequence[tuple[str, Charge]]], maker: Maker
    ) -> dict[str, Charge]:
        """The larger of what init containers, one after the other, and what all others together use of each device."""
        running: dict[str, Charge] = {}
        peak: dict[str, Charge] = {}
        for number, container in enumerate(held):
            kind = kinds[number] if number < len(kinds) else "app"
            if kind == "sidecar" and self.switch(Quirk.SIDECAR_AS_INIT):
                kind = "init"
            together = dict(running)
            twice = len({uuid for uuid, _ in container}) < len(container)
            apart = kind == "init" and twice and self.switch(Quirk.INIT_SLICES_NOT_ADDED)
            for uuid, charge in container:
                with_old = maker.peak if apart else maker.joined
                together[uuid] = with_old(together[uuid], charge, self.switch) if uuid in together else charge
            for uuid, charge in together.items():
                peak[uuid] = maker.peak(peak.get(uuid, (0, 0, 0)), charge, self.switch)
            if kind != "init":
                running = together
        return peak

    def anywhere(self, pod: Obj, maker: Maker) -> Charge:
        """What such a pod counts in a quota: its claims, once; percentages of nobody knows what are nothing."""
        strict = Switches(self.switch.on - {Quirk.BAD_QUANTITY_DROPPED})
        containers, refused, notes = [], False, pod["metadata"].get("annotations") or {}
        for name, kind, resources in raw_containers(pod):
            ask, bad = maker.ask(resources, strict)
            containers.append(Container(name, kind, (maker.cut(ask, notes, strict),) if ask else ()))
            refused = refused or bool(bad)
        return (0, 0, 0) if refused else hami._anywhere(containers)

    def blanket(self, pod: Obj, maker: Maker, where: str) -> dict[str, Charge]:
        """What a pod may use of any device, if nobody knows which it has: all that it claims, on each of them.

        A container is one tenant with all memory and cores where the claims cannot be read either.
        """
        kinds = [kind for _, kind, _ in raw_containers(pod)]
        strict = Switches(self.switch.on - {Quirk.BAD_QUANTITY_DROPPED})
        notes = pod["metadata"].get("annotations") or {}
        found_asks = [maker.ask(resources, strict)[0] for _, _, resources in raw_containers(pod)]
        asks = [ask and maker.cut(ask, notes, strict) for ask in found_asks]
        wants = [maker.wants(resources) for _, _, resources in raw_containers(pod)]
        found: dict[str, Charge] = {}
        for device in self.devices.get(where, ()):
            if device.vendor != maker.vendor:
                continue
            held: list[list[tuple[str, Charge]]] = []
            for ask, want in zip(asks, wants, strict=True):
                taken = maker.take(device, ask) if ask else None
                whole = (1, device.memory, device.cores)
                charge = (taken.slots, taken.memory, taken.cores) if taken else whole
                held.append([(device.uuid, charge)] if want else [])
            found |= self.collapse(kinds, held, maker)
        return found


def node_of(pod: Obj, switch: Switches) -> str:
    """The node whose devices a pod holds; empty if it holds none."""
    metadata, bound = pod["metadata"], pod["spec"].get("nodeName", "")
    named = (metadata.get("annotations") or {}).get(NODE, "")
    where = bound
    if named and named != bound and switch(Quirk.UNBOUND_COUNTED):
        where = named
    if pod["status"].get("phase") in ("Succeeded", "Failed"):
        return ""
    if "deletionTimestamp" in metadata and switch(Quirk.TERMINATING_FORGOTTEN):
        return ""
    return str(where)


def node_devices(node: Obj, makers: Makers, switch: Switches) -> list[Device]:
    """All devices of a node, vendor by vendor."""
    found: list[Device] = []
    for maker in makers.values():
        try:
            devices = maker.devices(node, switch)
        except (Unreadable, Panic):
            continue
        if not maker.reporting(node) or (not handshake(node, maker, NOW)[0] and switch(Quirk.HANDSHAKE_HIDES_NODE)):
            continue
        found += devices
    for position, device in enumerate(found):
        device.position = position
    return found


def handshake(node: Obj, maker: Maker, now: datetime) -> tuple[bool, bool]:
    """Tell whether HAMi takes the plugin for alive, and whether it reads the devices anew, at the first sight."""
    if not maker.handshake:
        return maker.reporting(node), True
    value = (node["metadata"].get("annotations") or {}).get(maker.handshake, "")
    if "Requesting" not in value:
        return True, True
    try:
        age = now - datetime.strptime(value.partition("_")[2], "%Y-%m-%d %H:%M:%S")  # noqa: DTZ007 - as HAMi's stamps
    except ValueError:
        return True, False
    allocatable = {"status": {"capacity": node["status"].get("allocatable")}}
    return age.total_seconds() < 60 or capacity(allocatable, maker.count) > 0, False
