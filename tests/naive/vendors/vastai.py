"""Vastai: cards that are counted, and in die mode dies that are taken card by card."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.naive.hami_cards import f32
from tests.naive.hami_quirks import Switches
from tests.naive.hami_values import Ask, words
from tests.naive.vendors.maker import Maker, by_group, insufficient
from tests.naive.vendors.model import Choice, Device, Obj, Taken, View


class Vastai(Maker):
    vendor = "Vastai"
    allocated, to_allocate = "hami.io/Vastai-devices-allocated", "hami.io/Vastai-devices-to-allocate"
    uuid_lists = (("vastaitech.com/use-gpuuuid", "vastaitech.com/nouse-gpuuuid"),)
    handshake = "hami.io/node-handshake-va"
    knows_direction = False

    def __init__(self, section: Obj) -> None:
        self.count = section["resourceCountName"]

    def devices(self, node: Obj, switch: Switches) -> list[Device]:
        found = self.from_json(node, "hami.io/node-va-register", switch)
        for device in found:
            device.cores = 100
        return found

    def room_check(self, device: Device, ask: Ask, view: View) -> str:
        if reason := self.slot_check(device, view):
            return reason
        siblings = [other for other in view.devices if die_mode(device) and other.custom["AIC"] == device.custom["AIC"]]
        if "mutex" in words(view.policy) and any(other.used > 0 for other in siblings):
            return "ExclusiveDeviceAllocateConflict"
        return ""

    def choose(self, tried: Sequence[Device], ask: Ask, view: View) -> Choice:
        """In die mode take the dies of the card that has most of them first; of equal cards the one tried first."""
        if ask.nums == 1 or not all(die_mode(device) for device in tried):
            return super().choose(tried, ask, view)
        passed, counts = self.candidates(tried, ask, view)
        if len(passed) < ask.nums:
            return insufficient(passed, counts)
        ways = by_group(passed, "AIC", ask.nums)
        return Choice([[self.take(device, ask) for device in way] for way in ways])

    def take(self, device: Device, ask: Ask) -> Taken:
        return Taken(device, self.vendor, 0, 0)

    def added_score(self, entries: Sequence[Sequence[Taken]], devices: Sequence[Device], view: View) -> float:
        found = 0.0
        for container in entries:
            if container and all(die_mode(taken.device) for taken in container):
                groups = Counter(taken.device.custom["AIC"] for taken in container)
                found = f32(found + f32(max(groups.values()) / len(container)))
        return found


def die_mode(device: Device) -> bool:
    return device.custom.get("DeviceStrategy") == "die"
