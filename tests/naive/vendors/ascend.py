"""Huawei Ascend: templates or soft splits of a chip, chips grouped by network, modules of two chips."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice, permutations

from tests.naive.hami_cards import f32
from tests.naive.hami_quirks import Switches
from tests.naive.hami_values import Ask
from tests.naive.vendors.maker import Maker, by_group, insufficient
from tests.naive.vendors.model import MOST_WAYS, Choice, Device, Obj, Taken, View, go_int32
from tests.naive.vendors.quirks import VendorQuirk
from tests.naive.vendors.requests import Amounts, in_range

from vgpu_scheduler.kube import to_int

SOFT = "hami-core"
"""The mode in which HAMi's own library splits a chip; no template is needed."""


class Ascend(Maker):
    knows_direction = False

    def __init__(self, chip: Obj, *, soft_nodes: bool) -> None:
        word = chip["commonWord"]
        self.vendor = word
        self.count, self.memory, self.cores = chip["resourceName"], chip["resourceMemoryName"], chip["resourceCoreName"]
        self.allocated, self.to_allocate = f"hami.io/{word}-devices-allocated", f"hami.io/{word}-devices-to-allocate"
        self.uuid_lists = ((f"hami.io/use-{word}-uuid", f"hami.io/no-use-{word}-uuid"),)
        self.handshake = f"hami.io/node-handshake-{word}"
        self.factor = max(chip.get("memoryFactor", 1), 1)
        self.templates = sorted((template["memory"], template["name"]) for template in chip["templates"])
        self.whole, self.capacity = chip["memoryAllocatable"], chip["memoryCapacity"]
        self.soft_nodes = soft_nodes
        self.modules = bool(chip.get("superPod"))

    def devices(self, node: Obj, switch: Switches) -> list[Device]:
        return self.from_json(node, f"hami.io/node-register-{self.vendor}", switch)

    def choose(self, tried: Sequence[Device], ask: Ask, view: View) -> Choice:
        annotations = view.node["metadata"].get("annotations") or {}
        soft = annotations.get("hami-vnpu-core", str(self.soft_nodes).lower()) == "true"
        if soft_pod(view) and not soft:
            return Choice(counts=Counter({"ModeNotFit": 1}))
        if self.vendor == "Ascend910C" and ask.nums > 1:
            return self._modules(tried, ask, view)
        grouped = "910" in self.vendor and all("NetworkID" in device.custom for device in tried)
        passed, counts = self.candidates(tried, ask, view, None if grouped else ask.nums)
        if len(passed) < ask.nums:
            return insufficient(passed, counts)
        ways = by_group(passed, "NetworkID", ask.nums) if ask.nums > 1 else [passed[:1]]
        return Choice([[self.take(device, ask) for device in way] for way in ways])

    def _modules(self, tried: Sequence[Device], ask: Ask, view: View) -> Choice:
        """Take whole modules of two chips: those that are tried first, where HAMi takes any."""
        passed, counts = self.candidates(tried, ask, view)
        modules: dict[int, list[Device]] = {}
        for device in passed:
            modules.setdefault(device.index // 2, []).append(device)
        full = [module for module in modules.values() if len(module) == 2]
        if 2 * len(full) < ask.nums:
            counts["AllocatedCardsInsufficientRequest"] = 2 * len(full)
            return Choice(counts=counts, of=ask.nums)
        ways = islice(permutations(full, -(-ask.nums // 2)), MOST_WAYS)
        taken = [[self.take(device, ask) for module in way for device in module] for way in ways]
        return Choice([way[: ask.nums] for way in taken])

    def ask(self, resources: Obj, switch: Switches) -> tuple[Ask | None, set[str]]:
        """Return what a container asks for; several chips, but no whole modules, are refused: see HAMi's webhook."""
        found, bad = super().ask(resources, switch)
        if found and self.modules and found.nums > 1 and found.nums % 2 and not switch(VendorQuirk.ODD_MODULES_READ):
            return None, {self.count}
        return found, bad

    def claim(self, amounts: Amounts) -> Ask | None:
        ask = super().claim(amounts) if in_range(amounts, self.count) else None
        if ask is None or self.cores not in amounts.text:
            return ask
        return replace(ask, cores=go_int32(to_int(amounts.text[self.cores])))

    def cut(self, ask: Ask, annotations: Mapping[str, str], switch: Switches) -> Ask:
        """The memory of the smallest template that has enough: HAMi relies on its webhook for that."""
        if not ask.memory or annotations.get("huawei.com/vnpu-mode") == SOFT:
            return ask
        larger = [memory for memory, _ in self.templates if memory >= ask.memory]
        whole = self.whole if self.whole and ask.memory <= max(self.whole, self.capacity) else ask.memory
        memory = min(larger, default=whole)
        if memory == ask.memory or switch(VendorQuirk.TEMPLATE_NOT_CLAIMED):
            return ask
        return replace(ask, memory=memory)

    def room_check(self, device: Device, ask: Ask, view: View) -> str:
        cores = self.cores_on(device, ask)
        whole = replace(device, cores=100) if soft_pod(view) else device  # percent, where the chip counts its cores
        return self.slot_check(device, view) or self.memory_check(device, ask, view) or self.core_check(whole, cores)

    def extra(self, entries: Sequence[Sequence[Taken]], view: View, names: Sequence[str]) -> dict[str, str]:
        parts = []
        for taken in (taken for container in entries for taken in container):
            part: Obj = {"UUID": taken.device.uuid}
            name = next((name for memory, name in self.templates if memory >= taken.memory), None)
            if name and not soft_pod(view):
                part["temp"] = name
            part |= {key: value for key, value in (("memory", taken.memory), ("core", taken.cores)) if value}
            parts.append(part)
        text = json.dumps(parts or None, separators=(",", ":"))
        return {"predicate-time": "<time>", f"huawei.com/{self.vendor}": text}

    def added_score(self, entries: Sequence[Sequence[Taken]], devices: Sequence[Device], view: View) -> float:
        """How close the chips of each container are."""
        found = 0.0
        for container in entries:
            if "910" not in self.vendor or any("NetworkID" not in taken.device.custom for taken in container):
                return 0.0
            if container:
                groups = Counter(taken.device.custom["NetworkID"] for taken in container)
                found = f32(found + f32(10 * f32(max(groups.values()) / len(container))))
        return found


def soft_pod(view: View) -> bool:
    return view.annotations.get("huawei.com/vnpu-mode") == SOFT
