"""Kunlunxin: whole cards in two wings of four, and slices of cards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from tests.naive.hami_quirks import Switches
from tests.naive.hami_values import Ask, words
from tests.naive.vendors.maker import Maker, counted
from tests.naive.vendors.model import Choice, Device, Obj, Taken, View
from tests.naive.vendors.quirks import VendorQuirk
from tests.naive.vendors.requests import Amounts, count_of

UUID_LISTS = (
    ("baidu.com/use-gpuuuid", "baidu.com/nouse-gpuuuid"),
    ("hami.io/use-xpu-uuid", "hami.io/no-use-xpu-uuid"),
)


UNSAID = "-"
"""Stands for a reason that HAMi does not give."""

BEST_FREE = {1: (1, 3, 2, 4), 2: (2, 3, 4), 4: (4,)}
"""How many cards of a wing are best free where so many are asked for."""

PAIRS = ((0, 1), (2, 3), (0, 2), (1, 3), (0, 3), (1, 2))
"""Places in the left wing of two cards that are taken with those across from them, the best first."""

BUBBLES = (1, 2, 1, 1, 0)
"""How scattered the free cards of a wing are, by the number of cards in use."""


class Wings(Maker):
    """Vendors with two wings of four cards, of which the n-th ones are linked."""

    uuid_lists = UUID_LISTS

    def choose(self, tried: Sequence[Device], ask: Ask, view: View) -> Choice:
        listed = tried[::-1]  # HAMi takes the list as it is sorted, and so begins with what others try last
        free, counts = self.candidates(listed, ask, view)
        del counts[UNSAID]
        left = {d.uuid for d in listed if d.index < 4}
        if left != {d.uuid for d in listed[:4]} and view.switch(VendorQuirk.WINGS_BY_POSITION):
            left = {d.uuid for d in listed[:4]}
        wings = [d for d in free if d.uuid in left], [d for d in free if d.uuid not in left]
        if len(wings[1]) > 4 and ask.nums < 8 and not view.switch(VendorQuirk.WINGS_BY_POSITION):
            wings = wings[0], wings[1][:4]  # of more cards than a server has
        chosen = of_one_wing(*wings, ask.nums) or linked(free, ask.nums)
        if not chosen:
            return Choice(counts=counts or Counter({"NumaNotFit": 1}))
        return Choice([[self.take(device, ask) for device in chosen]])

    def check(self, device: Device, ask: Ask, view: View) -> str:
        return self.uuid_check(device, view) or ("" if device.healthy and self.has_room(device, ask) else UNSAID)

    def has_room(self, device: Device, ask: Ask) -> bool:
        raise NotImplementedError


def of_one_wing(left: Sequence[Device], right: Sequence[Device], nums: int) -> list[Device]:
    """Take cards of the wing with the best number of free ones, the left one of equals; or all cards that there are."""
    if nums == 8:
        return [*left, *right] if len(left) == len(right) == 4 else []
    for number in BEST_FREE.get(nums, ()):
        for wing in (left, right):
            if len(wing) == number:
                return list(wing[:nums])
    return []


def linked(free: Sequence[Device], nums: int) -> list[Device]:
    """Take a card of the left wing and that across from it, in the order of the list, or two such pairs."""
    by_index = {device.index: device for device in free}
    if nums == 2:
        across = ((device, by_index.get((device.index + 4) % 8)) for device in free if device.index < 8)
        return next(([device, other] for device, other in across if other), [])
    for pair in PAIRS if nums == 4 and len(free) <= 6 else ():
        indexes = [*pair, *(place + 4 for place in pair)]
        if all(index in by_index for index in indexes):
            return [by_index[index] for index in indexes]
    return []


def bubbles(indexes: Collection[int]) -> int:
    """How scattered the free cards of a node are whose cards of these indexes are in use."""
    left = sum(index < 4 for index in set(indexes))
    right = len(set(indexes)) - left
    return BUBBLES[min(left, 4)] + BUBBLES[min(right, 4)] - (not left and not right)


class Kunlun(Wings):
    vendor = "kunlun"
    allocated = "hami.io/kunlun-allocated"
    knows_direction = False

    def __init__(self, section: Obj) -> None:
        self.count = section["resourceCountName"]

    def devices(self, node: Obj, switch: Switches) -> list[Device]:
        number, name = counted(node, self.count), node["metadata"]["name"]
        found = self.alike([f"{name}-kunlun-{i}" for i in range(number)], 100, 98304, 100)
        for device in found:
            device.numa = int(device.index >= number // 2)
        return found

    def claim(self, amounts: Amounts) -> Ask | None:
        return Ask(self.vendor, count_of(amounts, self.count), 0, 100, 0)

    def has_room(self, device: Device, ask: Ask) -> bool:
        return device.used == 0

    def take(self, device: Device, ask: Ask) -> Taken:
        return Taken(device, self.vendor, device.memory, device.cores)

    def book(self, taken: Taken) -> Taken:
        taken.device.used += 1
        return taken

    def extra(self, entries: Sequence[Sequence[Taken]], view: View, names: Sequence[str]) -> dict[str, str]:
        filled = [container for container in entries if container]
        if not filled:
            return {}
        return {"BAIDU_COM_DEVICE_IDX": ",".join(str(taken.device.index) for taken in filled[-1])}

    def added_score(self, entries: Sequence[Sequence[Taken]], devices: Sequence[Device], view: View) -> float:
        """The less the free cards are scattered afterwards, the better."""
        before = {device.index for device in devices if device.vendor == self.vendor and device.used > 0}
        taken = {taken.device.index for container in entries for taken in container}
        after = taken if before and view.switch(VendorQuirk.BUBBLES_OF_CLAIM_ONLY) else before | taken
        return {-1: 3000.0, 0: 2000.0, 1: 1000.0, 2: 0.0}.get(bubbles(after) - bubbles(before), 1000.0)


class KunlunSlices(Wings):
    vendor = "XPU"
    allocated, to_allocate = "hami.io/xpu-devices-allocated", "hami.io/xpu-devices-to-allocate"
    handshake = "hami.io/node-handshake-xpu"

    def __init__(self, section: Obj) -> None:
        self.count, self.memory = section["resourceVCountName"], section["resourceVMemoryName"]

    def devices(self, node: Obj, switch: Switches) -> list[Device]:
        return self.from_json(node, "hami.io/node-register-xpu", switch)

    def claim(self, amounts: Amounts) -> Ask | None:
        nums = count_of(amounts, self.count)
        if self.memory not in amounts.number:
            return Ask(self.vendor, nums, 98304, 100, 100)
        wanted = amounts.number[self.memory]
        memory = next((size for size in (24576, 49152, 98304) if wanted <= size), 98304)
        return Ask(self.vendor, nums, memory, 0, memory * 100 // 98304)

    def check(self, device: Device, ask: Ask, view: View) -> str:
        reason = super().check(device, ask, view)
        if not reason and "mutex" in words(view.policy) and device.used > 0:
            return "ExclusiveDeviceAllocateConflict"
        return reason

    def has_room(self, device: Device, ask: Ask) -> bool:
        """A card in use takes more slices of the size that those in use have on average."""
        fits = device.used < device.count and device.memory - device.used_memory >= ask.memory
        return fits and (device.used == 0 or device.used_memory // device.used == ask.memory)
