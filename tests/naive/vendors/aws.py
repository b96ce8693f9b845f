"""AWS Neuron: devices in runs, or single cores; cores are masks, not numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.naive.hami import larger
from tests.naive.hami_quirks import Quirk, Switches
from tests.naive.hami_values import Ask
from tests.naive.hami_wire import INT32
from tests.naive.vendors.maker import Charge, Maker, capacity, counted
from tests.naive.vendors.model import Choice, Device, Obj, Taken, View
from tests.naive.vendors.quirks import VendorQuirk
from tests.naive.vendors.requests import Amounts

RUNS = (1, 4, 8, 16)
"""How many devices may be taken together of a node that is no ``inf``; only from a multiple of the number on."""


class AwsNeuron(Maker):
    vendor = "AWSNeuron"
    allocated = "hami.io/aws-neuron-devices-allocated"
    in_pieces = True
    uuid_lists = (("aws.amazon.com/use-neuron-uuid", "aws.amazon.com/nouse-neuron-uuid"),)

    def __init__(self, section: Obj) -> None:
        self.count, self.cores = section["resourceCountName"], section["resourceCoreName"]

    @property
    def counts(self) -> tuple[str, ...]:
        return self.resources

    def devices(self, node: Obj, switch: Switches) -> list[Device]:
        number, name = counted(node, self.count), node["metadata"]["name"]
        each = capacity(node, self.cores) // number
        found = self.alike([f"{name}-AWSNeuron-{i}" for i in range(number)], each, 0, 2**each - 1)
        for device in found:
            labels = node["metadata"].get("labels") or {}
            device.custom = {"AWSNodeType": labels.get("node.kubernetes.io/instance-type", "")}
        return found

    def ask(self, resources: Obj, switch: Switches) -> tuple[Ask | None, set[str]]:
        ask, bad = super().ask(resources, switch)
        amounts = self.amounts(resources)
        odd = self.count not in amounts.number and amounts.number.get(self.cores, 0) > 2 and ask is None and not bad
        if odd and not switch(Quirk.BAD_QUANTITY_DROPPED):
            return None, {self.cores}  # whole devices and a half
        return ask, bad

    def claim(self, amounts: Amounts) -> Ask | None:
        """Read a number of devices (as cores 0), or a number of cores: one device, or devices of two cores each."""
        name, most = (self.count, INT32) if self.count in amounts.text else (self.cores, 2 * INT32)
        number = amounts.number.get(name, 0)
        if not 0 < number <= most:
            return None
        if name == self.count:
            return Ask(self.vendor, number, 0, 0, 0)
        if number > 2:
            return Ask(self.vendor, number // 2, 0, 0, 2) if number % 2 == 0 else None
        return Ask(self.vendor, 1, 0, 0, number)

    def choose(self, tried: Sequence[Device], ask: Ask, view: View) -> Choice:
        if ask.nums == 1:
            return super().choose(tried, ask, view)
        row = tried[::-1]
        if row != sorted(row, key=lambda device: device.index) and not view.switch(VendorQuirk.RUNS_BY_POSITION):
            row = sorted(row, key=lambda device: device.index)
        anywhere = row[0].custom["AWSNodeType"].startswith("inf")
        starts = range(0, len(row) - ask.nums + 1, 1 if anywhere else ask.nums)
        for start in starts if anywhere or ask.nums in RUNS else ():
            run = row[start : start + ask.nums]
            if all(device.healthy and device.used_cores == 0 for device in run):
                refused = any(self.uuid_check(device, view) for device in run)
                if not refused or view.switch(VendorQuirk.UUIDS_OF_ONE_DEVICE_ONLY):
                    return Choice([[self.take(device, ask) for device in run]])
        return Choice(counts=Counter({"NumaNotFit": 1}))

    def room_check(self, device: Device, ask: Ask, view: View) -> str:
        if reason := self.slot_check(device, view):
            return reason
        return "" if self.cores_on(device, ask) else "CardInsufficientCore"

    def cores_on(self, device: Device, ask: Ask) -> int:
        """The mask of the cores that a claim gets: all, or the first free one; 0 if it gets none."""
        if ask.cores != 1:
            return 0 if device.used_cores else device.cores
        free = device.cores & ~device.used_cores
        return free & -free

    def in_score(self, device: Device, ask: Ask, switch: Switches) -> Charge:
        return 0, 0, 0  # without memory every device scores 0

    def take(self, device: Device, ask: Ask) -> Taken:
        return Taken(device, self.vendor, 0, self.cores_on(device, ask), note=ask)

    # Ledger --------------------------------------------------------------------------------------------------------

    def joined(self, left: Charge, right: Charge, switch: Switches) -> Charge:
        if left[2] & right[2] and switch(VendorQuirk.MASKS_SUMMED):
            return super().joined(left, right, switch)
        return left[0] + right[0], 0, left[2] | right[2]

    def peak(self, left: Charge, right: Charge, switch: Switches) -> Charge:
        if left[2] | right[2] != max(left[2], right[2]) and switch(VendorQuirk.MASKS_SUMMED):
            return larger(left, right)
        return max(left[0], right[0]), 0, left[2] | right[2]

    def add(self, device: Device, charge: Charge, switch: Switches) -> None:
        """A core that two pods hold is one that nobody can tell about: the device is out of service."""
        if device.used_cores & charge[2]:
            if switch(VendorQuirk.MASKS_SUMMED):
                super().add(device, charge, switch)
                return
            device.healthy = False
        device.used += charge[0]
        device.used_cores |= charge[2]

    # Answer --------------------------------------------------------------------------------------------------------

    def extra(self, entries: Sequence[Sequence[Taken]], view: View, names: Sequence[str]) -> dict[str, str]:
        numbers: list[int] = []
        for taken in (taken for container in entries for taken in container):
            each = taken.device.cores.bit_length()
            bits = [bit for bit in range(each) if taken.cores & (1 << bit)]
            index = taken.device.index
            numbers += [index * each + bit for bit in bits] if taken.note.cores else [index]
        found = {
            "AWS_NEURON_IDS": ",".join(map(str, numbers)),
            "NEURON_ALLOC_TIME": "<time>",
            "NEURON_ALLOCATED": "false",
            "aws.amazon.com/predicate-node": view.node["metadata"]["name"],
        }
        if any(taken.note.cores for container in entries for taken in container):
            found["NEURON_RESOURCE_TYPE"] = self.cores
        return found
