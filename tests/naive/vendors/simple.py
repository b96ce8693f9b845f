"""Vendors whose rules are the plain ones, or fewer of them: Hygon, Cambricon, Iluvatar, AMD, Biren, Enflame GCU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.naive.hami_quirks import Quirk, Switches
from tests.naive.hami_values import Ask, Rules
from tests.naive.vendors.maker import Charge, Maker, capacity, counted
from tests.naive.vendors.model import Device, Obj, Taken, View
from tests.naive.vendors.requests import Amounts, count_of, in_range


class Hygon(Maker):
    vendor = "DCU"
    allocated, to_allocate = "hami.io/dcu-devices-allocated", "hami.io/dcu-devices-to-allocate"
    uuid_lists = (("hygon.com/use-gpuuuid", "hygon.com/nouse-gpuuuid"),)
    handshake = "hami.io/node-handshake-dcu"
    default_cores = 100

    def __init__(self, section: Obj) -> None:
        self.count, self.memory = section["resourceCountName"], section["resourceMemoryName"]
        self.cores = section["resourceCoreName"]
        self.factor = max(section.get("memoryFactor", 1), 1)

    def devices(self, node: Obj, switch: Switches) -> list[Device]:
        return self.from_colon(node, "hami.io/node-dcu-register", switch)

    def claim(self, amounts: Amounts) -> Ask | None:
        return super().claim(amounts) if all(in_range(amounts, name) for name in (self.count, self.cores)) else None

    def type_fits(self, device: Device, ask: Ask, view: View) -> bool:
        return model_fits(device, view, "hygon.com/use-dcutype", "hygon.com/nouse-dcutype")


def model_fits(device: Device, view: View, use: str, no_use: str) -> bool:
    rules = Rules(view.listed(use), view.listed(no_use))
    name = device.type.upper()
    if rules.use_types and not any(part.upper() in name for part in rules.use_types):
        return False
    return not any(part.upper() in name for part in rules.no_use_types)


class Cambricon(Maker):
    vendor = "MLU"
    allocated = "hami.io/cambricon-mlu-devices-allocated"
    to_allocate = "hami.io/cambricon-mlu-devices-to-allocate"
    uuid_lists = (("cambricon.com/use-gpuuuid", "cambricon.com/nouse-gpuuuid"),)
    factor = 256
    default_cores = 100

    def __init__(self, section: Obj) -> None:
        self.count, self.memory = section["resourceCountName"], section["resourceMemoryName"]
        self.cores = section["resourceCoreName"]

    def devices(self, node: Obj, switch: Switches) -> list[Device]:
        cores, memory = counted(node, self.cores), capacity(node, self.memory)
        name = node["metadata"]["name"]
        ids = [f"{name}-cambricon-mlu-{i}" for i in range(-(-cores // 100))]
        return self.alike(ids, 100, memory * 256 * 100 // cores, 100)

    def candidates(
        self, tried: Sequence[Device], ask: Ask, view: View, most: int | None = None
    ) -> tuple[list[Device], Counter[str]]:
        """Take one device after the other, as the quota counts those taken before."""
        passed: list[Device] = []
        counts: Counter[str] = Counter()
        for device in tried:
            if len(passed) == most:
                break
            so_far = [*view.earlier, [self.take(other, ask) for other in passed]]
            memory, cores = self.memory_on(device, ask), self.cores_on(device, ask)
            reason = (not device.healthy and "CardNotHealth") or self.uuid_check(device, view)
            reason = reason or self.slot_check(device, view)
            if not reason and not view.quota[self.vendor].allows(so_far, memory, cores):
                reason = "ResourceQuotaNotFit"
            if reason := reason or self.memory_check(device, ask, view) or self.core_check(device, cores):
                counts[reason] += 1
            else:
                passed.append(device)
        return passed, counts

    def extra(self, entries: Sequence[Sequence[Taken]], view: View, names: Sequence[str]) -> dict[str, str]:
        first = next((taken for container in entries for taken in container), None)
        if first is None:
            return {}
        profile = f"{first.device.index}_{first.cores}_{first.memory // 256}"
        return {"CAMBRICON_DSMLU_ASSIGNED": "false", "CAMBRICON_DSMLU_PROFILE": profile}


class Iluvatar(Maker):
    factor = 256

    def __init__(self, section: Obj) -> None:
        word = section["commonWord"]
        self.vendor = word
        self.count, self.memory = section["resourceCountName"], section["resourceMemoryName"]
        self.cores = section["resourceCoreName"]
        self.allocated, self.to_allocate = f"hami.io/{word}-devices-allocated", f"hami.io/{word}-devices-to-allocate"
        self.uuid_lists = ((f"hami.io/use-{word}-uuid", f"hami.io/no-use-{word}-uuid"),)
        self.handshake = f"hami.io/node-handshake-{word}"

    def devices(self, node: Obj, switch: Switches) -> list[Device]:
        return self.from_colon(node, f"hami.io/node-{self.vendor}-register", switch)


class Amd(Maker):
    vendor = "AMD"
    allocated, to_allocate = "hami.io/amd-devices-allocated", "hami.io/amd-devices-to-allocate"
    uuid_lists = (("amd.com/use-gpu-uuid", "amd.com/nouse-gpu-uuid"),)
    default_cores = 100
    limits_only = True

    def __init__(self, section: Obj) -> None:
        self.count, self.memory = section["resourceCountName"], section["resourceMemoryName"]
        self.cores = section["resourceCoreName"]

    def devices(self, node: Obj, switch: Switches) -> list[Device]:
        return self.from_json(node, "hami.io/node-amd-register", switch)

    def reporting(self, node: Obj) -> bool:
        return capacity(node, self.count) > 0

    def claim(self, amounts: Amounts) -> Ask | None:
        """Read the numbers; where there is an amount it must be a whole number, and of cores a percentage."""
        whole = all(name in amounts.number for name in amounts.text.keys() & {self.memory, self.cores})
        if not whole or not in_range(amounts, self.count) or not self.in_percent(amounts):
            return None
        ask = super().claim(amounts)
        return ask and Ask(ask.vendor, ask.nums, ask.memory, 0, ask.cores)

    def in_percent(self, amounts: Amounts) -> bool:
        return 1 <= amounts.number.get(self.cores, 100) <= 100

    def ask(self, resources: Obj, switch: Switches) -> tuple[Ask | None, set[str]]:
        """Return what a container asks for; what is not a percentage of a card is refused."""
        found, bad = super().ask(resources, switch)
        amounts = self.amounts(resources)
        asks = amounts.number.get(self.count, 0) > 0
        if asks and not bad and not self.in_percent(amounts) and not switch(Quirk.BAD_QUANTITY_DROPPED):
            return None, {self.cores}
        return found, bad

    def type_fits(self, device: Device, ask: Ask, view: View) -> bool:
        return model_fits(device, view, "amd.com/use-gputype", "amd.com/nouse-gputype")

    def memory_on(self, device: Device, ask: Ask) -> int:
        return ask.memory or device.memory

    def cores_on(self, device: Device, ask: Ask) -> int:
        return max(device.cores * ask.cores // 100, 1)

    def in_score(self, device: Device, ask: Ask, switch: Switches) -> Charge:
        """Cores of the card, where the claim has a percentage."""
        slots, _, _ = super().in_score(device, ask, switch)
        return (slots, self.memory_on(device, ask), self.cores_on(device, ask)) if slots else (0, 0, 0)

    def core_check(self, device: Device, cores: int) -> str:
        return "CardInsufficientCore" if device.cores - device.used_cores < cores else ""

    def take(self, device: Device, ask: Ask) -> Taken:
        return Taken(device, device.type, self.memory_on(device, ask), self.cores_on(device, ask))


class Biren(Maker):
    vendor = "Biren"
    allocated, to_allocate = "hami.io/Biren-devices-allocated", "hami.io/Biren-devices-to-allocate"
    uuid_lists = (("birentech.com/use-gpuuuid", "birentech.com/nouse-gpuuuid"),)
    handshake = "hami.io/node-handshake-biren"

    def __init__(self, section: Obj) -> None:
        self.count = section["resourceCountName"]

    def devices(self, node: Obj, switch: Switches) -> list[Device]:
        found = self.from_json(node, "hami.io/node-biren-register", switch)
        for device in found:
            device.cores = 100
        return found

    def room_check(self, device: Device, ask: Ask, view: View) -> str:
        return self.slot_check(device, view)

    def take(self, device: Device, ask: Ask) -> Taken:
        return Taken(device, self.vendor, 0, 0)


class EnflameGcu(Maker):
    vendor = "GCU"
    allocated, to_allocate = "hami.io/enflame-gcu-devices-allocated", "hami.io/enflame-gcu-devices-to-allocate"

    def __init__(self, section: Obj) -> None:
        self.count = section["resourceNameGCU"]

    def devices(self, node: Obj, switch: Switches) -> list[Device]:
        name = node["metadata"]["name"]
        return self.alike([f"{name}-GCU-{i}" for i in range(counted(node, self.count))], 1, 100, 100)

    def claim(self, amounts: Amounts) -> Ask | None:
        return Ask(self.vendor, count_of(amounts, self.count), 100, 100, 100)

    def room_check(self, device: Device, ask: Ask, view: View) -> str:
        return "ExclusiveDeviceAllocateConflict" if device.used > 0 else ""
