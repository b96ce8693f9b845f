"""Moore Threads and whole MetaX GPUs: all containers of a pod have to use the same card."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tests.naive.hami_quirks import Switches
from tests.naive.hami_values import Ask
from tests.naive.vendors.maker import Maker, capacity, counted
from tests.naive.vendors.model import Device, Obj, Taken, View
from tests.naive.vendors.requests import Amounts, count_of, in_range


class OneCardPerPod(Maker):
    """Vendors whose rule compares a card with all that containers before took of the vendor."""

    def room_check(self, device: Device, ask: Ask, view: View) -> str:
        if reason := super().room_check(device, ask, view):
            return reason
        others = {taken.device.uuid for container in view.earlier for taken in container} - {device.uuid}
        return "CardNotFoundCustomFilterRule" if others else ""


class Mthreads(OneCardPerPod):
    vendor = "Mthreads"
    allocated = "hami.io/mthreads-vgpu-devices-allocated"
    uuid_lists = (("mthreads.ai/use-gpuuuid", "mthreads.ai/nouse-gpuuuid"),)
    factor = 512

    def __init__(self, section: Obj) -> None:
        self.count, self.memory = section["resourceCountName"], section["resourceMemoryName"]
        self.cores = section["resourceCoreName"]

    def devices(self, node: Obj, switch: Switches) -> list[Device]:
        cores, memory = counted(node, self.cores), capacity(node, self.memory)
        name = node["metadata"]["name"]
        ids = [f"{name}-mthreads-{i}" for i in range(-(-cores // 16))]
        return self.alike(ids, 100, memory * 512 * 16 // cores, 16)

    def claim(self, amounts: Amounts) -> Ask | None:
        """Memory and cores are those of all cards together."""
        whole = super().claim(amounts)
        if whole is None or whole.nums <= 0 or not in_range(amounts, self.count):
            return None
        nums = whole.nums
        return Ask(self.vendor, nums, whole.memory // nums, whole.percent, int(whole.cores / nums))

    def extra(self, entries: Sequence[Sequence[Taken]], view: View, names: Sequence[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for container in entries:  # that of the last container stays
            if container:
                found["mthreads.com/gpu-index"] = ",".join(str(taken.device.index) for taken in container)
                found["mthreads.com/predicate-node"] = view.node["metadata"]["name"]
                found["mthreads.com/predicate-time"] = "<time>"
        return found


class MetaxGpu(OneCardPerPod):
    vendor = "Metax-GPU"
    allocated, to_allocate = "hami.io/metax-gpu-devices-allocated", "hami.io/metax-gpu-devices-to-allocate"

    def __init__(self, section: Obj) -> None:
        self.count = section["resourceCountName"]

    def devices(self, node: Obj, switch: Switches) -> list[Device]:
        name = node["metadata"]["name"]
        return self.alike([f"{name}-metax-{i}" for i in range(counted(node, self.count))], 1, 65536, 100)

    def reporting(self, node: Obj) -> bool:
        return capacity(node, self.count) > 0

    def claim(self, amounts: Amounts) -> Ask | None:
        return Ask(self.vendor, count_of(amounts, self.count), 0, 100, 100)

    def added_score(self, entries: Sequence[Sequence[Taken]], devices: Sequence[Device], view: View) -> float:
        key = "metax-tech.com/gpu.topology." + ("scores" if view.spread else "losses")
        value = (view.node["metadata"].get("annotations") or {}).get(key)
        if value is None:
            return 0.0
        try:
            by_number = json.loads(value)
        except ValueError:  # as one that knows no number
            by_number = {}
        return float(2000 - by_number.get(str(sum(len(container) for container in entries)), 0))
