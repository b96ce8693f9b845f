"""Shares of MetaX GPUs: qualities of service, online and offline pods, and zones of linked cards."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tests.naive.hami_quirks import Switches
from tests.naive.hami_values import Ask
from tests.naive.hami_wire import INT32, Unreadable, raw_containers
from tests.naive.vendors.maker import Maker, annotation, insufficient
from tests.naive.vendors.model import LOST, Choice, Device, Obj, Taken, View
from tests.naive.vendors.quirks import VendorQuirk
from tests.naive.vendors.requests import Amounts, cores_of, count_of, in_range

QOS = "metax-tech.com/sgpu-qos-policy"

PRIORITY = {"online": -20, "offline": -2, "": -100}
"""What a pod of each class on a card is for an online pod that comes to it."""


class MetaxShared(Maker):
    vendor = "Metax-SGPU"
    allocated, to_allocate = "hami.io/metax-sgpu-devices-allocated", "hami.io/metax-sgpu-devices-to-allocate"
    uuid_lists = (("metax-tech.com/use-gpuuuid", "metax-tech.com/nouse-gpuuuid"),)
    factor = 1024
    default_cores = 100
    limits_only = True

    def __init__(self, section: Obj) -> None:
        self.count, self.memory = section["resourceVCountName"], section["resourceVMemoryName"]
        self.cores = section["resourceVCoreName"]
        self.topology_aware = section.get("sgpuTopologyAware", False)

    def devices(self, node: Obj, switch: Switches) -> list[Device]:
        try:
            listed = json.loads(annotation(node, "metax-tech.com/node-gpu-devices"))
        except ValueError as error:
            raise Unreadable(str(error)) from None
        devices = [
            {
                "id": d["uuid"],
                "index": position,
                "count": d.get("totalDevCount", 0),
                "devmem": d.get("totalVRam", 0),
                "devcore": d.get("totalCompute", 0),
                "type": self.vendor,
                "numa": d.get("numa", 0),
                "mode": "",
                "health": d.get("healthy", False),
                "custominfo": {
                    "QosPolicy": d.get("qosPolicy", ""),
                    "Model": d.get("model", ""),
                    "LinkZone": d.get("linkZone", 0),
                },
            }
            for position, d in enumerate(listed or [])
        ]
        return self.registered(devices, switch)

    def reporting(self, node: Obj) -> bool:
        try:
            return bool(self.devices(node, Switches()))
        except Unreadable:
            return False

    def amounts(self, resources: Obj) -> Amounts:
        return replace(super().amounts(resources), in_bytes=self.memory)

    def claim(self, amounts: Amounts) -> Ask | None:
        """Memory without a unit is in GiB, with a unit in bytes."""
        text, number = amounts.text.get(self.memory, "0"), amounts.number.get(self.memory, 0)
        memory = number * 1024 if text.lstrip("-").isdigit() else abs(number) // 2**20 * (1 if number > 0 else -1)
        if not in_range(amounts, self.count) or not in_range(amounts, self.cores) or not 0 <= memory <= INT32:
            return None
        cores = cores_of(amounts, self.cores, self.default_cores)
        return Ask(self.vendor, count_of(amounts, self.count), memory, 0 if memory else 100, cores)

    def check(self, device: Device, ask: Ask, view: View) -> str:
        if not device.healthy:
            return "CardUnhealthy"
        if not classes_agree(app_class(view.annotations), self.beside(device, view)):
            return "CardAppClassMismatch"
        return self.qos_check(device, ask, view) or self.uuid_check(device, view) or self.room_check(device, ask, view)

    def beside(self, device: Device, view: View) -> list[str]:
        """The classes of the pods that hold shares of a card."""
        return [
            app_class(pod["metadata"].get("annotations") or {})
            for pod in view.neighbours
            if self.may_sit(pod)
            or (self.vendor not in pod[LOST] and device.uuid in pod["metadata"]["annotations"].get(self.allocated, ""))
        ]

    def may_sit(self, pod: Obj) -> list[int]:
        """The cores that a pod asks for of any card, as nobody can tell which it has."""
        if self.vendor not in pod[LOST]:
            return []
        answers = [self.ask(resources, Switches()) for _, _, resources in raw_containers(pod)]
        return [] if any(bad for _, bad in answers) else [ask.cores for ask, _ in answers if ask]

    def qos_check(self, device: Device, ask: Ask, view: View) -> str:
        """A card that is in use keeps its quality of service; who takes all cores has none."""
        if device.used == 0 or ask.cores == 100 or online(view):
            return ""
        wanted = view.annotations.get(QOS, "")
        asked = self.asked_beside(device, view)
        if asked - {wanted} and device.custom["QosPolicy"] in ("", wanted):
            return "" if view.switch(VendorQuirk.QUALITY_AS_REPORTED) else "CardQosPolicyMismatch"
        if device.custom["QosPolicy"] in ("", wanted):
            return ""
        agreed = asked == {wanted} and not view.switch(VendorQuirk.QUALITY_AS_REPORTED)
        return "" if agreed else "CardQosPolicyMismatch"

    def asked_beside(self, device: Device, view: View) -> set[str]:
        """The qualities of service that the pods ask for which share a card and do not run yet."""
        found = set()
        for pod in view.neighbours:
            notes = pod["metadata"].get("annotations") or {}
            if app_class(notes) != "online" and any(cores < 100 for cores in self.may_sit(pod)):
                found.add(notes.get(QOS, ""))
            if pod.get("status", {}).get("phase") == "Running" or self.vendor in pod[LOST]:
                continue
            entries = [entry.split(",") for entry in re.split("[:;]", notes.get(self.allocated, ""))]
            if app_class(notes) != "online" and any(e[0] == device.uuid and e[3] != "100" for e in entries):
                found.add(notes.get(QOS, ""))
        return found & {"best-effort", "fixed-share", "burst-share"}

    def room_check(self, device: Device, ask: Ask, view: View) -> str:
        if online(view):
            return self.slot_check(device, view) or self.memory_check(device, ask, view)
        return super().room_check(device, ask, view)

    def choose(self, tried: Sequence[Device], ask: Ask, view: View) -> Choice:
        passed, counts = self.candidates(tried, ask, view)
        if len(passed) < ask.nums:
            return insufficient(passed, counts)
        ways = [passed]
        if online(view):
            ways = [sorted(passed, key=lambda device: -self.priority(device, view))]
        elif ask.cores >= 100:
            ways = smallest_zone_first(passed, ask.nums)
        return Choice([[self.share(device, ask, view) for device in way[: ask.nums]] for way in ways])

    def share(self, device: Device, ask: Ask, view: View) -> Taken:
        """An online pod has no cores of its own."""
        taken = replace(self.take(device, ask), note=view.annotations.get(QOS, ""))
        return replace(taken, cores=0) if online(view) else taken

    def book(self, taken: Taken) -> Taken:
        """The first share of a card sets the quality of service for the others."""
        device = taken.device
        if device.used == 0 and taken.cores != 100:
            device.custom = {**device.custom, "QosPolicy": taken.note}
        return super().book(taken)

    def priority(self, device: Device, view: View) -> int:
        """How welcome an online pod is on a card."""
        return sum(PRIORITY[other] for other in self.beside(device, view))

    def added_score(self, entries: Sequence[Sequence[Taken]], devices: Sequence[Device], view: View) -> float:
        towards = -10000 if view.spread else 10000  # these scores know the policy
        if online(view):
            return towards * sum(self.priority(taken.device, view) for container in entries for taken in container)
        wanted = view.annotations.get("metax-tech.com/sgpu-topology-aware")
        if not (self.topology_aware if wanted is None else view.true("metax-tech.com/sgpu-topology-aware")):
            return 0.0
        return towards * sum(
            self.link_score(container, devices)
            for container in entries
            if container and all(taken.cores == 100 for taken in container)
        )

    def link_score(self, taken: Sequence[Taken], devices: Sequence[Device]) -> int:
        """What the links between whole cards are worth, less those that are torn."""
        uuids = {one.device.uuid for one in taken}
        idle = [device for device in devices if device.vendor == self.vendor and device.used == 0]
        inside = links([device for device in idle if device.uuid in uuids])
        torn = links(idle) - links([device for device in idle if device.uuid not in uuids]) - inside
        return 10 * inside - torn

    def extra(self, entries: Sequence[Sequence[Taken]], view: View, names: Sequence[str]) -> dict[str, str]:
        listed = [
            [
                {"uuid": taken.device.uuid}
                | {key: value for key, value in (("compute", taken.cores), ("vRam", taken.memory)) if value}
                for taken in container
            ]
            for container in entries
        ]
        return {
            "metax-tech.com/gpu-devices-allocated": json.dumps(listed, separators=(",", ":")),
            "metax-tech.com/predicate-time": "<time>",
        }


def app_class(annotations: Mapping[str, str]) -> str:
    found = annotations.get("metax-tech.com/sgpu-app-class", "")
    return found if found in ("online", "offline") else ""


def online(view: View) -> bool:
    return app_class(view.annotations) == "online"


def classes_agree(wanted: str, beside: Sequence[str]) -> bool:
    """Pods with a class share a card among themselves, and so do pods without."""
    return all(bool(other) == bool(wanted) for other in beside)


def links(devices: Sequence[Device]) -> int:
    """Ten for each pair of cards in one zone; zone 0 is none."""
    sizes = Counter(device.custom["LinkZone"] for device in devices if device.custom["LinkZone"])
    return sum(10 * size * (size - 1) // 2 for size in sizes.values())


def smallest_zone_first(passed: Sequence[Device], nums: int) -> list[list[Device]]:
    """The smallest zone with enough cards; of equal zones that tried first, where HAMi takes any."""
    if len(passed) == nums:
        return [list(passed)]
    zones: dict[object, list[Device]] = {}
    for device in passed:
        zones.setdefault(device.custom["LinkZone"], []).append(device)
    enough = [zone for zone in zones.values() if len(zone) >= nums]
    smallest = min((len(zone) for zone in enough), default=0)
    return [zone for zone in enough if len(zone) == smallest] or [list(passed)]
