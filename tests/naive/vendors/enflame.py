"""Enflame DRS: slices of a card, in the sizes that its node has profiles for."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from tests.naive.hami_quirks import Quirk, Switches
from tests.naive.hami_values import Ask
from tests.naive.hami_wire import INT32, Entry, Unreadable
from tests.naive.vendors.maker import Charge, Maker, annotation
from tests.naive.vendors.model import Choice, Device, Obj, Taken, View, go_int32
from tests.naive.vendors.quirks import VendorQuirk
from tests.naive.vendors.requests import Amounts

from vgpu_scheduler.kube import to_int

BY_NEEDS = -1
"""HAMi's mark, where others have a percentage, of a claim that names memory and cores instead of slices."""


class Profile(NamedTuple):
    slices: int
    gigabytes: int
    name: str
    id: str


class EnflameDrs(Maker):
    vendor = "Enflame"
    in_pieces = True
    allocated = "hami.io/enflame-vgpu-devices-allocated"
    uuid_lists = (("enflame.com/use-gpuuuid", "enflame.com/nouse-gpuuuid"),)

    def __init__(self, section: Obj) -> None:
        self.count = section["resourceNameDRSGCU"]
        self.memory, self.cores = section["resourceNameGCUMemory"], section["resourceNameGCUCore"]

    @property
    def counts(self) -> tuple[str, ...]:
        return self.resources

    def devices(self, node: Obj, switch: Switches) -> list[Device]:
        try:
            found = json.loads(annotation(node, "enflame.com/gcu-drs-capacity"))
        except ValueError as error:
            raise Unreadable(str(error)) from None
        texts = found.get("profiles") or {}
        known = profiles(texts)
        if not known:
            raise Unreadable("no profile")
        devices = []
        for position, card in enumerate(found.get("devices") or []):
            index = str(card.get("index", ""))
            index = index if index.isdigit() else str(position)
            count = int(card.get("capacity", 0))
            if count <= 0:
                raise Unreadable("no capacity")
            custom = {
                "index": index,
                "minor": card.get("minor") or index,
                "maxSlice": max(profile.slices for profile in known),
                "profiles": texts,
            }
            uuid = f"{node['metadata']['name']}-enflame-drs-{index}"
            memory = max(profile.gigabytes for profile in known) * 1024
            devices.append(
                Device(
                    uuid,
                    self.vendor,
                    self.vendor,
                    position,
                    int(index),
                    0,
                    "",
                    healthy=True,
                    count=count,
                    memory=memory,
                    cores=100,
                    custom=custom,
                )
            )
        if not devices:
            raise Unreadable("no device")
        return devices

    def ask(self, resources: Obj, switch: Switches) -> tuple[Ask | None, set[str]]:
        """Return what a container asks for; more compute than a device has is refused, not waited for."""
        found, bad = super().ask(resources, switch)
        amounts = self.amounts(resources)
        by_needs = amounts.text.keys() & {self.memory, self.cores}
        zero = amounts.number.get(self.count) == 0 or not any(amounts.number.get(name, 1) for name in amounts.text)
        if by_needs and not bad and zero:
            found = None
        if by_needs and not bad and zero and switch(VendorQuirk.ZERO_STILL_GIVES):
            return self.claim(amounts), set()
        if found and found.cores > 100 and not switch(Quirk.BAD_QUANTITY_DROPPED):
            return None, {self.cores}
        return found, bad

    def claim(self, amounts: Amounts) -> Ask | None:
        """Read slices, or where there are none, memory and cores, which are rounded up."""
        slices = amounts.number.get(self.count, 0)
        if slices > 0:
            return Ask(self.vendor, 1, slices, 0, 0) if slices <= INT32 else None
        needs = [to_int(amounts.text.get(name, "0")) for name in (self.memory, self.cores)]
        if max(needs) > INT32 or not amounts.text.keys() & {self.memory, self.cores}:
            return None
        memory, cores = map(go_int32, needs)
        return Ask(self.vendor, 1, memory, BY_NEEDS, cores)

    def meant(self, ask: Ask, devices: Sequence[Device], switch: Switches) -> Ask:
        """The claim with memory as HAMi takes it: for GiB up to twice of what the largest profile has, then for MiB."""
        known = sorted(profile for device in devices for profile in profiles(device.custom["profiles"]))
        if ask.percent != BY_NEEDS or ask.memory <= 0 or not known:
            return ask
        gigabytes = ask.memory if ask.memory <= 2 * known[-1].gigabytes else -(-ask.memory // 1024)
        if gigabytes != -(-in_mib(ask) // 1024) and switch(VendorQuirk.GIGABYTES_BY_SIZE):
            return replace(ask, memory=gigabytes * 1024)
        return ask

    def profile_for(self, device: Device, ask: Ask) -> Profile | None:
        """The smallest profile that is as large as asked for, to the slice if slices are asked for."""
        for profile in sorted(profiles(device.custom["profiles"])):
            if ask.percent != BY_NEEDS and profile.slices == ask.memory:
                return profile
            enough = profile.gigabytes * 1024 >= in_mib(ask) and cores_of(profile, device) >= ask.cores
            if ask.percent == BY_NEEDS and enough:
                return profile
        return None

    def choose(self, tried: Sequence[Device], ask: Ask, view: View) -> Choice:
        ask = self.meant(ask, tried, view.switch)
        if not any(self.profile_for(device, ask) for device in tried):
            return Choice(counts=Counter({"ModeNotFit": 1}))
        return super().choose(tried, ask, view)

    def core_check(self, device: Device, cores: int) -> str:
        return "CardInsufficientCore" if device.cores - device.used_cores < cores else ""

    def memory_on(self, device: Device, ask: Ask) -> int:
        profile = self.profile_for(device, ask)
        return profile.gigabytes * 1024 if profile else device.memory

    def cores_on(self, device: Device, ask: Ask) -> int:
        profile = self.profile_for(device, ask)
        return cores_of(profile, device) if profile else device.cores

    def in_score(self, device: Device, ask: Ask, switch: Switches) -> Charge:
        """HAMi takes slices for MiB, of all cards alike, and so makes no difference between them either."""
        taken = self.take(device, self.meant(ask, [device], switch))
        return taken.slots, taken.memory, taken.cores

    def take(self, device: Device, ask: Ask) -> Taken:
        profile = self.profile_for(device, ask)
        return replace(super().take(device, ask), slots=profile.slices if profile else device.count, note=profile)

    def charge(self, entry: Entry, device: Device | None, switch: Switches) -> Charge:
        slices = device.custom["maxSlice"] * entry.cores // 100 if device else 1
        if slices != 1 and switch(VendorQuirk.SLICES_COUNTED_AS_ONE):
            slices = 1
        return slices, entry.memory, entry.cores

    def extra(self, entries: Sequence[Sequence[Taken]], view: View, names: Sequence[str]) -> dict[str, str]:
        filled = [(name, taken) for name, container in zip(names, entries, strict=True) for taken in container]
        if not filled:
            return {}
        by_container = {
            name: {
                "allocated": False,
                "request": taken.note.slices,
                "profileID": taken.note.id,
                "profileName": taken.note.name,
            }
            for name, taken in sorted(filled)
        }
        first = filled[0][1]
        return {
            "assigned-containers": json.dumps(by_container, separators=(",", ":")),
            "enflame.com/gcu-assigned": "false",
            "enflame.com/gcu-assigned-time": "<time>",
            "enflame.com/gcu-assigned-id": first.device.custom["index"],
            "enflame.com/gcu-assigned-index": first.device.custom["index"],
            "enflame.com/gcu-assigned-minor": first.device.custom["minor"],
            "enflame.com/gcu-request-size": str(first.slots),
        }


def profiles(texts: dict[str, str]) -> list[Profile]:
    """Read ``3g.20gb`` and the like; other names are skipped."""
    found = []
    for name, number in texts.items():
        if match := re.fullmatch(r"(\d+)g\.(\d+)gb", name):
            found.append(Profile(int(match[1]), int(match[2]), name, number))
    return found


def in_mib(ask: Ask) -> int:
    """The memory of a claim, which is in GiB below 100."""
    return ask.memory if ask.memory >= 100 else ask.memory * 1024


def cores_of(profile: Profile, device: Device) -> int:
    return -(-100 * profile.slices // int(device.custom["maxSlice"]))
