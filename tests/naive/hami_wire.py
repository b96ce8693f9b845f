"""HAMi's annotations and amounts in plain Python, from the raw JSON objects; nothing of the product but quantities."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tests.naive.hami_quirks import Quirk, Switches
from tests.naive.hami_values import UNSET, Ask, Container

from vgpu_scheduler.kube import QuantityError, to_exact_int

Obj = dict[str, Any]

INT32 = 2**31 - 1
INT64 = 2**63 - 1
TRUE = ("1", "t", "T", "TRUE", "true", "True")
FALSE = ("0", "f", "F", "FALSE", "false", "False")


class Unreadable(Exception):  # noqa: N818 - it reads as what it says
    """An annotation that cannot be read."""


class Panic(Exception):  # noqa: N818
    """HAMi crashes here."""


@dataclass(frozen=True)
class Entry:
    """One device of an allocation annotation."""

    uuid: str
    type: str
    memory: int
    cores: int


@dataclass(frozen=True)
class Names:
    """Resource names and defaults, from the ``nvidia`` section of a case's device configuration."""

    count: str
    memory: str
    percent: str
    cores: str
    factor: int
    default_memory: int
    default_cores: int

    @classmethod
    def of(cls, case: Obj) -> Names:
        section = case["config"]["deviceConfig"]["nvidia"]
        return cls(
            section["resourceCountName"],
            section["resourceMemoryName"],
            section["resourceMemoryPercentageName"],
            section["resourceCoreName"],
            max(section.get("memoryFactor", 1), 1),
            section["defaultMemory"],
            section["defaultCores"],
        )


# Registration ------------------------------------------------------------------------------------------------------


def integer(text: str, low: int, high: int) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+", text) or not low <= int(text) <= high:
        raise Unreadable(f"{text!r} is not an integer in range")
    return int(text)


def register_colon(value: str) -> list[Obj]:
    if ":" not in value:
        raise Unreadable("no separator")
    devices = []
    for segment in value.split(":"):
        if not segment:
            continue
        fields = segment.split(",")
        if len(fields) not in (7, 9) or fields[6] not in TRUE + FALSE:
            raise Unreadable(f"segment {segment!r}")
        device = {
            "id": fields[0],
            "index": 0,
            "count": integer(fields[1], -INT32 - 1, INT32),
            "devmem": integer(fields[2], -INT32 - 1, INT32),
            "devcore": integer(fields[3], -INT32 - 1, INT32),
            "type": fields[4],
            "numa": integer(fields[5], -INT64 - 1, INT64),
            "mode": "hami-core",
            "health": fields[6] in TRUE,
            "vendor": "",
        }
        if len(fields) == 9:
            device["index"] = integer(fields[7], 0, INT64)
            device["mode"] = fields[8]
        devices.append(device)
    return devices


# Key on the wire, key in a device, type, smallest and largest number.
JSON_KEYS: tuple[tuple[str, str, type, int, int], ...] = (
    ("id", "id", str, 0, 0),
    ("index", "index", int, 0, INT64),
    ("count", "count", int, -INT32 - 1, INT32),
    ("devmem", "devmem", int, -INT32 - 1, INT32),
    ("devcore", "devcore", int, -INT32 - 1, INT32),
    ("type", "type", str, 0, 0),
    ("numa", "numa", int, -INT64 - 1, INT64),
    ("mode", "mode", str, 0, 0),
    ("health", "health", bool, 0, 0),
    ("devicevendor", "vendor", str, 0, 0),
)


def register_json(value: str, switch: Switches) -> list[Any]:
    """The devices; None for a device that is ``null``, if HAMi's way is asked for."""
    try:
        listed = json.loads(value)
    except ValueError as error:
        raise Unreadable(str(error)) from None
    if not isinstance(listed, list | None):
        raise Unreadable("not a list")
    devices: list[Any] = []
    for item in listed or []:
        if item is None and switch(Quirk.NULL_DEVICE_READ):
            devices.append(None)
            continue
        if not isinstance(item, dict):
            raise Unreadable("not an object")
        given = {key.lower(): field for key, field in item.items() if field is not None}
        device: Obj = {}
        for key, name, kind, low, high in JSON_KEYS:
            field: Any = given.get(key, kind())
            in_range = kind is not int or (type(field) is int and low <= field <= high)
            if type(field) is not kind or not in_range:
                raise Unreadable(f"{key}: {field!r}")
            device[name] = field
        if given.get("migprofiles"):
            device["migProfiles"] = [_profile(profile) for profile in given["migprofiles"]]
        if given.get("custominfo"):
            device["custominfo"] = given["custominfo"]
        devices.append(device)
    return devices


def _profile(wire: Obj) -> Obj:
    spans = wire.get("placements")
    return {
        "name": wire.get("name", ""),
        "memoryMB": wire.get("memoryMB", 0),
        "core": wire.get("core", 0),
        "sliceCount": wire.get("sliceCount", 0),
        "placements": spans and [{"start": s.get("start", 0), "size": s.get("size", 0)} for s in spans],
    }


def encode_colon(devices: Sequence[Obj]) -> str:
    keys = ("id", "count", "devmem", "devcore", "type", "numa", "health", "index", "mode")
    texts = [[str(d[k]).lower() if k == "health" else str(d[k]) for k in keys] for d in devices]
    return "".join(",".join(fields) + ":" for fields in texts)


def encode_json(devices: Sequence[Obj]) -> str:
    items = []
    for device in devices:
        keys = ("id", "index", "count", "devmem", "devcore", "type", "numa", "mode", "health")
        item = {key: device[key] for key in keys if device[key]}
        if device.get("migProfiles"):
            item["migProfiles"] = device["migProfiles"]
        order = (*keys[:-1], "migProfiles", "health")
        items.append({key: item[key] for key in order if key in item})
    text = json.dumps(items, separators=(",", ":"), ensure_ascii=False)
    return text.translate({ord(char): f"\\u{ord(char):04x}" for char in "<>&"})


def node_register(annotations: Mapping[str, str], switch: Switches) -> list[Obj]:
    """The devices of the NVIDIA annotation of a node; raises where the node cannot be read."""
    value = annotations.get("hami.io/node-nvidia-register")
    if value is None:
        raise Unreadable("no annotation")
    if value.strip()[:1] in ("[", "{") or value.strip() == "null":
        devices = register_json(value, switch)
    elif switch(Quirk.COLON_UNREADABLE):
        raise Unreadable("HAMi 2.10 reads JSON only")
    else:
        devices = register_colon(value)
    pairs = annotations.get("hami.io/node-nvidia-score")
    if pairs is not None and decode_pair_scores(pairs) is None and switch(Quirk.PAIR_SCORES_HIDE_NODE):
        raise Unreadable("pair scores")
    if not devices:
        raise Unreadable("no device")
    if None in devices:
        raise Panic
    if len({device["id"] for device in devices}) < len(devices) and not switch(Quirk.SAME_ID_TWICE_READ):
        raise Unreadable("a device is listed twice")
    return [{**device, "vendor": "NVIDIA"} for device in devices]


def decode_pair_scores(value: str) -> list[Obj] | None:
    """The list, or None if it cannot be read."""
    try:
        listed = json.loads(value)
    except ValueError:
        return None
    if not isinstance(listed, list | None):
        return None
    for item in listed or []:
        if not isinstance(item, dict) or not isinstance(item.get("uuid", ""), str):
            return None
        score = item.get("score") or {}
        if not isinstance(score, dict) or any(type(number) is not int for number in score.values()):
            return None
    return listed or []


def pair_scores(value: str) -> dict[str, dict[str, int]]:
    """Scores by card and by card; nothing where they cannot be read."""
    return {item.get("uuid", ""): item.get("score") or {} for item in decode_pair_scores(value) or []}


def handshake_ended(node: Obj, names: Names, now: datetime) -> bool:
    """HAMi takes a node out whose plugin has no allocatable devices and did not answer for a minute."""
    if to_exact_int((node["status"].get("allocatable") or {}).get(names.count, "0")):
        return False
    value = (node["metadata"].get("annotations") or {}).get("hami.io/node-handshake", "")
    stamp = value.partition("_")[2]
    if "Requesting" not in value:
        return False
    try:
        return (now - datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S")).total_seconds() >= 60  # noqa: DTZ007
    except ValueError:
        return False


# Allocation --------------------------------------------------------------------------------------------------------


def decode_pod(value: str, switch: Switches) -> list[list[Entry]]:
    containers = []
    for part in value.split(";"):
        entries = []
        for text in part.split(":"):
            if "," not in text:
                continue
            fields = text.split(",")
            if len(fields) < 4:
                raise Unreadable(text)
            memory, cores = (integer(field, -INT32 - 1, INT32) for field in fields[2:4])
            if min(memory, cores) < 0 and not switch(Quirk.NEGATIVE_AMOUNT_READ):
                raise Unreadable(text)
            entries.append(Entry(fields[0], fields[1], memory, cores))
        containers.append(entries)
    return containers


def encode_pod(containers: Sequence[Sequence[Entry]]) -> str:
    return "".join(
        "".join(f"{e.uuid},{e.type},{e.memory},{e.cores}:" for e in container) + ";" for container in containers
    )


# Requests ----------------------------------------------------------------------------------------------------------


def raw_containers(pod: Obj) -> list[tuple[str, str, Obj]]:
    """Name, kind and resources of each container, init containers first."""
    found = []
    for container in pod["spec"].get("initContainers") or []:
        kind = "sidecar" if container.get("restartPolicy") == "Always" else "init"
        found.append((container["name"], kind, container.get("resources") or {}))
    found += [(c["name"], "app", c.get("resources") or {}) for c in pod["spec"]["containers"]]
    return found


@dataclass(frozen=True)
class Bad:
    """An amount that this scheduler refuses."""

    container: str
    resource: str


def look_up(resources: Obj, name: str) -> str | None:
    for where in ("limits", "requests"):
        if name in (resources.get(where) or {}):
            return str(resources[where][name])
    return None


def asks(pod: Obj, names: Names, switch: Switches) -> tuple[list[Container], set[Bad]]:
    """What each container asks for, and what is refused."""
    containers, refused = [], set()
    for name, kind, resources in raw_containers(pod):
        ask, bad = _ask(resources, names, switch)
        containers.append(Container(name, kind, (ask,) if ask else ()))
        refused |= {Bad(name, resource) for resource in bad}
    return containers, refused


def _ask(resources: Obj, names: Names, switch: Switches) -> tuple[Ask | None, set[str]]:
    text = {name: look_up(resources, name) for name in (names.count, names.memory, names.percent, names.cores)}
    if text[names.count] is None:
        alone = {name for name, value in text.items() if value is not None}
        if not alone or switch(Quirk.AMOUNT_WITHOUT_COUNT_DROPPED):
            return None, set()
        return None, alone
    amount = {name: _exact(value) for name, value in text.items()}
    if amount[names.count] == 0:
        return None, set()
    bad = {name for name, value in text.items() if value is not None and (amount[name] is None or amount[name] < 0)}
    memory = amount[names.memory]
    if memory is not None and memory > INT32 // names.factor:
        bad.add(names.memory)
    nums, percent, cores = amount[names.count], amount[names.percent], amount[names.cores]
    large = {name for name in (names.count, names.cores) if (amount[name] or 0) > INT32}
    if bad and not switch(Quirk.BAD_QUANTITY_DROPPED):
        return None, bad if switch(Quirk.INT32_WRAPS) else bad | large
    if nums is None or nums <= 0 or names.memory in bad:
        return None, set()
    percent = min(percent, 100) if percent is not None and percent > 0 else UNSET
    memory = (memory or 0) * names.factor
    if percent == UNSET and memory == 0:
        memory = names.default_memory
        percent = UNSET if memory else 100
    cores = names.default_cores if cores is None else cores
    if large and not switch(Quirk.INT32_WRAPS):
        return None, large
    nums, cores = wrap(nums), wrap(cores)
    return (Ask("NVIDIA", nums, memory, percent, cores) if nums > 0 else None), set()


def _exact(text: str | None) -> Any:
    try:
        return None if text is None else to_exact_int(text)
    except QuantityError:
        return None


def wrap(value: int) -> int:
    """What is left of an integer in 32 bits."""
    return (value + 2**31) % 2**32 - 2**31


def weights(text: str) -> tuple[int, int, int] | None:
    """Weights of slots, cores and memory; None if they are invalid."""
    found: dict[str, int] = {}
    for item in text.split(","):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals or key in found or not re.fullmatch(r"[+-]?[0-9]+", value) or not 0 <= int(value) <= INT64:
            return None
        found[key] = int(value)
    if set(found) != {"slot", "core", "memory"} or not any(found.values()):
        return None
    return found["slot"], found["core"], found["memory"]
