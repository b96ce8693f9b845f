"""HAMi's wire formats: the device lists that nodes register and the assignments that pods carry.

Two registration formats are in the field. Plugins up to 2.7 (and some makers' to this day) write colon-separated
segments of 7 or 9 comma-separated fields; plugins since 2.8 write JSON in which every zero value is absent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vgpu_scheduler.dialects.base import CodecError

_INT32 = 2**31 - 1
_GO_BOOL = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
_LEGACY_FIELDS, _FIELDS = 7, 9
_MOST_DIGITS = 19
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class RegisteredDevice:
    """One device of a registration annotation, as written there (memory in MiB, cores in percent)."""

    id: str = ""
    index: int = 0
    count: int = 0
    devmem: int = 0
    devcore: int = 0
    type: str = ""
    numa: int = 0
    mode: str = ""
    health: bool = False
    vendor: str = ""
    mig_profiles: tuple[Mapping[str, Any], ...] = ()
    custom_info: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AssignedDevice:
    """One device of an assignment annotation (memory in MiB, cores in percent)."""

    uuid: str
    type: str
    memory: int
    cores: int


def go_bool(text: str) -> bool | None:
    """Parse a boolean as Go's ``strconv.ParseBool`` does; None if it is none."""
    return _GO_BOOL.get(text)


def decode_register(value: str) -> list[RegisteredDevice]:
    """Decode a registration annotation of either format; the first non-blank character tells which.

    Raises
    ------
    CodecError
        If any part of it cannot be read: a registration counts as a whole or not at all.
    """
    head = value.lstrip()[:1]
    if head in {"[", "{"} or value.strip() == "null":
        return decode_register_json(value)
    return decode_register_colon(value)


def decode_register_colon(value: str) -> list[RegisteredDevice]:
    """Decode the format of segments: ``id,count,devmem,devcore,type,numa,health[,index,mode]:``."""
    if ":" not in value:
        raise CodecError("registration has no device separator ':'")
    return [_colon_segment(segment) for segment in value.split(":") if segment]


def _colon_segment(segment: str) -> RegisteredDevice:
    fields = segment.split(",")
    if len(fields) == 1:
        raise CodecError(f"registration segment {segment!r} has no fields")
    if len(fields) not in {_LEGACY_FIELDS, _FIELDS}:
        raise CodecError(f"registration segment {segment!r} has {len(fields)} fields, not 7 or 9")
    health = go_bool(fields[6])
    if health is None:
        raise CodecError(f"registration segment {segment!r}: health {fields[6]!r} is not a boolean")
    index, mode = 0, "hami-core"
    if len(fields) == _FIELDS:
        index, mode = _decimal(fields[7], "index", segment), fields[8]
        if index < 0:
            raise CodecError(f"registration segment {segment!r}: index {index} is negative")
    return RegisteredDevice(
        id=fields[0],
        index=index,
        count=_decimal(fields[1], "count", segment, _INT32),
        devmem=_decimal(fields[2], "devmem", segment, _INT32),
        devcore=_decimal(fields[3], "devcore", segment, _INT32),
        type=fields[4],
        numa=_decimal(fields[5], "numa", segment),
        mode=mode,
        health=health,
    )


def _decimal(text: str, name: str, where: str, largest: int = 2**63 - 1) -> int:
    """Parse an integer as Go's ``strconv.ParseInt`` does: a sign and ASCII digits, nothing else."""
    digits = text[1:] if text[:1] in {"+", "-"} else text
    if not (digits.isascii() and digits.isdigit()):
        raise CodecError(f"{where!r}: {name} {text!r} is not an integer")
    # int() refuses thousands of digits, leading zeros included, and whoever may create pods may write them.
    significant = digits.lstrip("0")
    number = int(significant or "0") if len(significant) <= _MOST_DIGITS else largest + 2
    number = -number if text[:1] == "-" else number
    if not -largest - 1 <= number <= largest:
        raise CodecError(f"{where!r}: {name} {text} is out of range")
    return number


def decode_register_json(value: str) -> list[RegisteredDevice]:
    """Decode the JSON format; keys are matched without regard to case and unknown ones ignored, as in Go."""
    try:
        listed = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise CodecError(f"registration is not JSON: {error}") from None
    if listed is None:
        return []
    if not isinstance(listed, list):
        raise CodecError("registration is not a list of devices")
    return [_json_device(entry, number) for number, entry in enumerate(listed)]


def _json_device(entry: object, number: int) -> RegisteredDevice:
    if not isinstance(entry, dict):
        raise CodecError(f"registration: device {number} is not an object")
    fields = {key.lower(): item for key, item in entry.items() if item is not None}

    def text(name: str) -> str:
        item = fields.get(name, "")
        if not isinstance(item, str):
            raise CodecError(f"registration: device {number}: {name} is not a string")
        # Half a surrogate pair is valid JSON and no text: as in Go, so that it can be written again.
        return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", item)

    def integer(name: str, smallest: int, largest: int) -> int:
        item = fields.get(name, 0)
        if type(item) is not int or not smallest <= item <= largest:
            raise CodecError(f"registration: device {number}: {name} {item!r} is not an integer in range")
        return item

    health = fields.get("health", False)
    if not isinstance(health, bool):
        raise CodecError(f"registration: device {number}: health is not a boolean")
    profiles = fields.get("migprofiles", [])
    custom = fields.get("custominfo", {})
    if not isinstance(profiles, list) or not all(isinstance(profile, dict) for profile in profiles):
        raise CodecError(f"registration: device {number}: migProfiles is not a list of profiles")
    if not isinstance(custom, dict):
        raise CodecError(f"registration: device {number}: custominfo is not an object")
    return RegisteredDevice(
        id=text("id"),
        index=integer("index", 0, 2**63 - 1),
        count=integer("count", -_INT32 - 1, _INT32),
        devmem=integer("devmem", -_INT32 - 1, _INT32),
        devcore=integer("devcore", -_INT32 - 1, _INT32),
        type=text("type"),
        numa=integer("numa", -(2**63), 2**63 - 1),
        mode=text("mode"),
        health=health,
        vendor=text("devicevendor"),
        mig_profiles=tuple(profiles),
        custom_info=custom,
    )


def encode_register_colon(devices: Sequence[RegisteredDevice]) -> str:
    """Encode in the format of nine fields."""
    return "".join(
        f"{d.id},{d.count},{d.devmem},{d.devcore},{d.type},{d.numa},{str(d.health).lower()},{d.index},{d.mode}:"
        for d in devices
    )


def encode_register_json(devices: Sequence[RegisteredDevice]) -> str:
    """Encode as HAMi's own writer does: its key order, zero values absent, Go's escapes for HTML characters.

    The vendor and the custom fields are read, never written.
    """
    text = json.dumps([_json_fields(device) for device in devices], separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _json_fields(device: RegisteredDevice) -> dict[str, Any]:
    fields = {
        "id": device.id,
        "index": device.index,
        "count": device.count,
        "devmem": device.devmem,
        "devcore": device.devcore,
        "type": device.type,
        "numa": device.numa,
        "mode": device.mode,
        "migProfiles": [dict(profile) for profile in device.mig_profiles],
        "health": device.health,
    }
    return {key: item for key, item in fields.items() if item}


def decode_assignments(value: str) -> list[tuple[AssignedDevice, ...]]:
    """Decode an assignment annotation into one entry per ``;``-terminated container.

    Trailing empty entries stay: every decode and encode of a plugin appends one (:func:`realign` drops them).

    Raises
    ------
    CodecError
        If any device has fewer than four fields, or an amount that is not a non-negative 32-bit integer. A pod with
        such an annotation counts as unreadable as a whole (C-17).
    """
    return [
        tuple(_assigned(device) for device in container.split(":") if "," in device) for container in value.split(";")
    ]


def _assigned(text: str) -> AssignedDevice:
    fields = text.split(",")
    if len(fields) < 4:
        raise CodecError(f"assignment {text!r} has fewer than 4 fields")
    memory = _decimal(fields[2], "memory", text, _INT32)
    cores = _decimal(fields[3], "cores", text, _INT32)
    if memory < 0 or cores < 0:
        raise CodecError(f"assignment {text!r} has a negative amount")
    return AssignedDevice(fields[0], fields[1], memory, cores)


def encode_assignments(containers: Sequence[Sequence[AssignedDevice]]) -> str:
    """Encode one ``;``-terminated entry per container, each device terminated by ``:``."""
    return "".join(
        "".join(f"{device.uuid},{device.type},{device.memory},{device.cores}:" for device in container) + ";"
        for container in containers
    )


def realign(
    entries: Sequence[tuple[AssignedDevice, ...]], claimants: Sequence[bool]
) -> list[tuple[AssignedDevice, ...]] | None:
    """Give each container of a pod its entry, whatever padding the writer left out.

    HAMi 2.10.0 writes no entry for containers without devices, 2.4 leaves out leading ones, and plugins append empty
    entries. When the entries do not stand at the containers that claim devices, the n-th entry with devices belongs
    to the n-th claimant.

    Parameters
    ----------
    entries
        The decoded annotation.
    claimants
        Whether each container claims devices of the vendor, init containers first.

    Returns
    -------
    list or None
        One entry per container; None when there are more entries with devices than claimants.
    """
    filled = [entry for entry in entries if entry]
    if len(filled) > sum(claimants):
        return None
    in_place = len(entries) >= len(claimants) or not entries
    if in_place and all(claims or not entry for entry, claims in zip(entries, claimants, strict=False)):
        padded = [*entries[: len(claimants)], *[()] * (len(claimants) - len(entries))]
        if sum(map(bool, padded)) == len(filled):
            return padded
    rest = iter(filled)
    return [next(rest, ()) if claims else () for claims in claimants]
