"""The plain rules, which a vendor's module overrides where its backend in HAMi differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice, permutations

from tests.naive.hami import added, larger
from tests.naive.hami_quirks import Quirk, Switches
from tests.naive.hami_values import UNSET, Ask, words
from tests.naive.hami_wire import Entry, Panic, Unreadable, encode_pod, register_colon, register_json
from tests.naive.vendors.model import MOST_WAYS, Choice, Device, Obj, Taken, View
from tests.naive.vendors.requests import Amounts, cores_of, count_of, exact, memory_of, refused

Charge = tuple[int, int, int]
"""Slots, memory, cores."""


class Maker:
    """A family of devices under one key.

    Attributes
    ----------
    vendor
        The key: HAMi's common word.
    count, memory, cores
        Resource names; empty where there is none.
    allocated, to_allocate
        Annotations of a pod; ``to_allocate`` is empty where HAMi does not write it.
    uuid_lists
        Annotations that list wanted and unwanted devices.
    handshake
        Annotation of a node that its plugin and HAMi write in turns, if they do.
    factor, default_cores
        MiB per unit of memory; cores of a claim that names none.
    """

    vendor = ""
    count = memory = cores = ""
    allocated = to_allocate = ""
    uuid_lists: tuple[tuple[str, str], ...] = ()
    handshake = ""
    factor = 1
    default_cores = 0
    limits_only = False
    in_pieces = False
    """Whether its devices are given out in pieces, each of which one pod has: of any, if nobody knows which."""
    knows_direction = True
    """Whether its added scores are made for the policy, or higher is better whatever the policy prefers."""

    def cut(self, ask: Ask, annotations: Mapping[str, str], switch: Switches) -> Ask:
        """What a container gets where devices are given out in fixed parts; what it asks for elsewhere."""
        del annotations, switch
        return ask

    # Devices -------------------------------------------------------------------------------------------------------

    def devices(self, node: Obj, switch: Switches) -> list[Device]:
        """Return the devices of a node; raises ``Unreadable`` if there are none to be read."""
        raise NotImplementedError

    def reporting(self, node: Obj) -> bool:
        """Whether HAMi takes the plugin for alive, the handshake apart."""
        return True

    def registered(self, listed: Sequence[Obj], switch: Switches) -> list[Device]:
        """Make devices of what a node registers."""
        if None in listed:
            raise Panic
        if len({d["id"] for d in listed}) < len(listed) and not switch(Quirk.SAME_ID_TWICE_READ):
            raise Unreadable("a device is listed twice")
        found = [
            Device(
                d["id"], self.vendor, d["type"], position, d["index"], d["numa"], d["mode"], d["health"],
                d["count"], d["devmem"], d["devcore"], custom=d.get("custominfo") or {},
            )
            for position, d in enumerate(listed)
        ]  # fmt: skip
        if not found:
            raise Unreadable("no device")
        return found

    def from_json(self, node: Obj, key: str, switch: Switches) -> list[Device]:
        return self.registered(register_json(annotation(node, key), switch), switch)

    def from_colon(self, node: Obj, key: str, switch: Switches) -> list[Device]:
        return self.registered(register_colon(annotation(node, key)), switch)

    def alike(self, ids: Sequence[str], count: int, memory: int, cores: int) -> list[Device]:
        """Make devices of a node that tells no more than how many there are."""
        return [
            Device(uuid, self.vendor, self.vendor, i, i, 0, "", healthy=True, count=count, memory=memory, cores=cores)
            for i, uuid in enumerate(ids)
        ]

    # Claims --------------------------------------------------------------------------------------------------------

    @property
    def resources(self) -> tuple[str, ...]:
        return tuple(name for name in (self.count, self.memory, self.cores) if name)

    @property
    def counts(self) -> tuple[str, ...]:
        """The resources that make a claim of a container."""
        return (self.count,)

    def amounts(self, resources: Obj) -> Amounts:
        found = Amounts.of(resources, self.resources, limits_only=self.limits_only)
        return replace(found, unit={self.memory: self.factor})

    def ask(self, resources: Obj, switch: Switches) -> tuple[Ask | None, set[str]]:
        """Return what a container asks for, and the amounts that are refused."""
        amounts = self.amounts(resources)
        if all(exact(amounts.text.get(name, "0")) == 0 for name in self.counts) and amounts.text.keys() & self.counts:
            return None, set()
        bad = refused(amounts, self.counts, switch)
        ask = None if bad else self.claim(amounts)
        return (ask if ask and ask.nums > 0 else None), bad

    def claim(self, amounts: Amounts) -> Ask | None:
        """Read the numbers as HAMi does."""
        nums = count_of(amounts, self.count)
        memory = memory_of(amounts, self.memory, self.factor)
        if memory is None:
            return None
        cores = cores_of(amounts, self.cores, self.default_cores)
        return Ask(self.vendor, nums, memory, 0 if memory else 100, cores)

    def wants(self, resources: Obj) -> bool:
        """Whether a container asks for devices at all, however it says so."""
        amounts = self.amounts(resources)
        return any(amounts.text.get(name, "0") not in ("", "0") for name in self.counts)

    # Fit -----------------------------------------------------------------------------------------------------------

    def enough(self, ask: Ask, devices: Sequence[Device], view: View) -> bool:
        """Whether there are as many devices as asked for, whatever their state."""
        return ask.nums <= len(devices)

    def check(self, device: Device, ask: Ask, view: View) -> str:
        """The first check that a device fails; empty if it passes all."""
        if not device.healthy:
            return "CardNotHealth"
        if not self.type_fits(device, ask, view):
            return "CardTypeMismatch"
        return self.uuid_check(device, view) or self.room_check(device, ask, view)

    def type_fits(self, device: Device, ask: Ask, view: View) -> bool:
        return True

    def uuid_check(self, device: Device, view: View) -> str:
        for use, no_use in self.uuid_lists:
            wanted, unwanted = view.listed(use), view.listed(no_use)
            if (wanted and device.uuid not in wanted) or device.uuid in unwanted:
                return "CardUuidMismatch"
        return ""

    def room_check(self, device: Device, ask: Ask, view: View) -> str:
        return (
            self.slot_check(device, view)
            or self.memory_check(device, ask, view)
            or self.core_check(device, self.cores_on(device, ask))
        )

    def slot_check(self, device: Device, view: View) -> str:
        if device.count <= device.used:
            return "CardTimeSlicingExhausted"
        if "mutex" in words(view.policy) and device.used > 0:
            return "ExclusiveDeviceAllocateConflict"
        return ""

    def memory_check(self, device: Device, ask: Ask, view: View) -> str:
        if device.memory - device.used_memory < self.memory_on(device, ask):
            return "CardInsufficientMemory"
        return ""

    def core_check(self, device: Device, cores: int) -> str:
        if device.cores - device.used_cores < cores:
            return "CardInsufficientCore"
        if device.cores == 100 and cores == 100 and device.used > 0:
            return "ExclusiveDeviceAllocateConflict"
        if device.cores != 0 and device.used_cores == device.cores and cores == 0:
            return "CardComputeUnitsExhausted"
        return ""

    def memory_on(self, device: Device, ask: Ask) -> int:
        return ask.memory_on(device)

    def cores_on(self, device: Device, ask: Ask) -> int:
        return min(ask.cores, 100)

    def in_score(self, device: Device, ask: Ask, switch: Switches) -> Charge:
        """What a claim adds to the load that a device is scored by."""
        if device.type != ask.vendor and switch(Quirk.SCORE_IGNORES_CLAIM):
            return 0, 0, 0  # HAMi compares the vendor that is asked for with the type that is registered
        memory = ask.memory_on(device)
        if ask.memory > 0 and ask.percent not in (0, UNSET) and switch(Quirk.SCORE_PERCENT_FIRST):
            memory = device.memory * ask.percent // 100
        return ask.nums, memory, ask.cores

    def take(self, device: Device, ask: Ask) -> Taken:
        return Taken(device, self.vendor, self.memory_on(device, ask), self.cores_on(device, ask))

    def choose(self, tried: Sequence[Device], ask: Ask, view: View) -> Choice:
        """Take the first devices, in the order in which they are tried, that pass all checks."""
        passed, counts = self.candidates(tried, ask, view, ask.nums)
        if len(passed) < ask.nums:
            return insufficient(passed, counts)
        return Choice([[self.take(device, ask) for device in passed]])

    def candidates(
        self, tried: Sequence[Device], ask: Ask, view: View, most: int | None = None
    ) -> tuple[list[Device], Counter[str]]:
        """Return the devices that pass all checks, and why the others do not."""
        passed: list[Device] = []
        counts: Counter[str] = Counter()
        for device in tried:
            if len(passed) == most:
                break
            if reason := self.check(device, ask, view):
                counts[reason] += 1
            else:
                passed.append(device)
        return passed, counts

    # Ledger --------------------------------------------------------------------------------------------------------

    def charge(self, entry: Entry, device: Device | None, switch: Switches) -> Charge:
        """What an entry of an allocation stands for."""
        return 1, entry.memory, entry.cores

    def joined(self, left: Charge, right: Charge, switch: Switches) -> Charge:
        """What two containers that run at the same time use of a device together."""
        return added(left, right)

    def peak(self, left: Charge, right: Charge, switch: Switches) -> Charge:
        """What is used of a device by one of two, whichever runs."""
        return larger(left, right)

    def add(self, device: Device, charge: Charge, switch: Switches) -> None:
        """Add what an existing pod uses of a device."""
        device.used += charge[0]
        device.used_memory += charge[1]
        device.used_cores += charge[2]

    def book(self, taken: Taken) -> Taken:
        """Add to what is used of a device, in the course of a placement; returns what is really taken."""
        taken.device.used += taken.slots
        taken.device.used_memory += taken.memory
        taken.device.used_cores += taken.cores
        return taken

    # Answer --------------------------------------------------------------------------------------------------------

    def written(self, entries: Sequence[Sequence[Taken]], view: View, names: Sequence[str]) -> dict[str, str]:
        """The annotations of an allocation, an entry per container (whose names these are)."""
        return {self.allocated: encode(entries)} | self.extra(entries, view, names)

    def extra(self, entries: Sequence[Sequence[Taken]], view: View, names: Sequence[str]) -> dict[str, str]:
        return {}

    def added_score(self, entries: Sequence[Sequence[Taken]], devices: Sequence[Device], view: View) -> float:
        """What an allocation adds to the score of its node; the devices are as they were before it."""
        return 0.0


def encode(entries: Sequence[Sequence[Taken]]) -> str:
    return encode_pod([[Entry(t.device.uuid, t.type, t.memory, t.cores) for t in container] for container in entries])


def insufficient(passed: Sequence[Device], counts: Counter[str]) -> Choice:
    """Say that not enough devices passed all checks."""
    if passed:
        counts["AllocatedCardsInsufficientRequest"] = len(passed)
    return Choice(counts=counts)


def by_group(passed: Sequence[Device], key: str, nums: int) -> list[list[Device]]:
    """Take devices of the largest groups; among groups of one size of those tried first, where HAMi takes any.

    Every way is returned in which HAMi might take them.
    """
    if len(passed) == nums:
        return [list(passed)]
    groups: dict[object, list[Device]] = {}
    for device in passed:
        groups.setdefault(device.custom[key], []).append(device)
    orders = permutations(groups.values())
    sorted_by_size = (sorted(order, key=len, reverse=True) for order in orders)
    ways = ([device for group in order for device in group][:nums] for order in sorted_by_size)
    return list({tuple(d.uuid for d in way): way for way in islice(ways, MOST_WAYS)}.values())


def annotation(node: Obj, key: str) -> str:
    value = (node["metadata"].get("annotations") or {}).get(key)
    if value is None:
        raise Unreadable(f"no {key}")
    return str(value)


def capacity(node: Obj, name: str) -> int:
    """How much of a resource a node has; 0 if that is not a whole number."""
    return exact(str((node["status"].get("capacity") or {}).get(name, "0"))) or 0


def counted(node: Obj, name: str) -> int:
    """How much of a resource a node has; raises ``Unreadable`` if it has none."""
    found = capacity(node, name)
    if found <= 0:
        raise Unreadable(f"no {name}")
    return found
