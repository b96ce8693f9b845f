"""HAMi's wire formats: the device lists that nodes register and the assignments that pods carry.

Two registration formats are in use. Plugins up to 2.7 (and some vendors' plugins today) write colon-separated segments
of 7 or 9 comma-separated fields; plugins since 2.8 write JSON without zero values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from vgpu_scheduler.dialects.errors import CodecError
from vgpu_scheduler.dialects.hami.fields import Fields, decode_list
from vgpu_scheduler.dialects.hami.mig import MigProfile, decode_profiles, encode_profile
from vgpu_scheduler.dialects.node_side import LockValue
from vgpu_scheduler.dialects.values import INT32, go_json
from vgpu_scheduler.kube import go_bool, rfc3339
from vgpu_scheduler.model import QUOTED, cut, quoted

_LEGACY_FIELDS, _FIELDS = 7, 9
_MOST_DIGITS = 19


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
    mig_profiles: tuple[MigProfile, ...] = ()
    custom_info: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AssignedDevice:
    """One device of an assignment annotation (memory in MiB, cores in percent)."""

    uuid: str
    type: str
    memory: int
    cores: int


def decode_register(value: str) -> list[RegisteredDevice]:
    """Decode a registration annotation in either format, detected by the first non-blank character.

    Raises
    ------
    CodecError
        If any part of it is invalid; no device is then used.
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
        raise CodecError(f"registration segment {quoted(segment)} has no fields")
    if len(fields) not in {_LEGACY_FIELDS, _FIELDS}:
        raise CodecError(f"registration segment {quoted(segment)} has {len(fields)} fields, not 7 or 9")
    health = go_bool(fields[6])
    if health is None:
        raise CodecError(f"registration segment {quoted(segment)}: health {quoted(fields[6])} is not a boolean")
    index, mode = 0, "hami-core"
    if len(fields) == _FIELDS:
        index, mode = _decimal(fields[7], "index", segment), fields[8]
        if index < 0:
            raise CodecError(f"registration segment {quoted(segment)}: index {index} is negative")
    return RegisteredDevice(
        id=fields[0],
        index=index,
        count=_decimal(fields[1], "count", segment, INT32),
        devmem=_decimal(fields[2], "devmem", segment, INT32),
        devcore=_decimal(fields[3], "devcore", segment, INT32),
        type=fields[4],
        numa=_decimal(fields[5], "numa", segment),
        mode=mode,
        health=health,
    )


def _decimal(text: str, name: str, where: str, largest: int = 2**63 - 1) -> int:
    """Parse an integer like Go's ``strconv.ParseInt``: an optional sign and ASCII digits."""
    digits = text[1:] if text[:1] in {"+", "-"} else text
    if not (digits.isascii() and digits.isdigit()):
        raise CodecError(f"{quoted(where)}: {name} {quoted(text)} is not an integer")
    # int() raises for thousands of digits, leading zeros included, which users may write on pods.
    significant = digits.lstrip("0")
    number = int(significant or "0") if len(significant) <= _MOST_DIGITS else largest + 2
    number = -number if text[:1] == "-" else number
    if not -largest - 1 <= number <= largest:
        raise CodecError(f"{quoted(where)}: {name} {cut(text, QUOTED)} is out of range")
    return number


def decode_register_json(value: str) -> list[RegisteredDevice]:
    """Decode the JSON format; as in Go, keys ignore case, and unknown keys are ignored."""
    return [_json_device(fields) for fields in decode_list(value, "registration", "device")]


def _json_device(fields: Fields) -> RegisteredDevice:
    return RegisteredDevice(
        id=fields.text("id"),
        index=fields.integer("index", 0),
        count=fields.integer("count", -INT32 - 1, INT32),
        devmem=fields.integer("devmem", -INT32 - 1, INT32),
        devcore=fields.integer("devcore", -INT32 - 1, INT32),
        type=fields.text("type"),
        numa=fields.integer("numa"),
        mode=fields.text("mode"),
        health=fields.boolean("health"),
        vendor=fields.text("devicevendor"),
        mig_profiles=decode_profiles(fields),
        custom_info=fields.mapping("custominfo"),
    )


def encode_register_json(devices: Sequence[RegisteredDevice]) -> str:
    """Encode as HAMi does: its key order, zero values absent, Go's escapes for HTML characters.

    The vendor and the custom fields are not written.
    """
    return go_json([_json_fields(device) for device in devices])


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
        "migProfiles": [encode_profile(profile) for profile in device.mig_profiles],
        "health": device.health,
    }
    return {key: item for key, item in fields.items() if item}


def all_healthy(value: str, field: str) -> str:
    """Return a registration with all devices healthy; an invalid one is returned unchanged.

    Parameters
    ----------
    field
        The lower-case name of the JSON field for the health of a device.
    """
    if not value.lstrip().startswith("["):
        return ":".join(map(_healthy_segment, value.split(":")))
    try:
        listed = json.loads(value)
    except (ValueError, RecursionError):
        return value
    if not all(isinstance(device, dict) for device in listed):
        return value
    devices = [{key: item for key, item in device.items() if key.lower() != field} for device in listed]
    return json.dumps([{**device, field: True} for device in devices], separators=(",", ":"), ensure_ascii=False)


def _healthy_segment(segment: str) -> str:
    fields = segment.split(",")
    return ",".join([*fields[:6], "true", *fields[7:]]) if len(fields) in {_LEGACY_FIELDS, _FIELDS} else segment


def decode_assignments(value: str) -> list[tuple[AssignedDevice, ...]]:
    """Decode an assignment annotation into one entry per ``;``-terminated container.

    Trailing empty entries are kept: each time a plugin rewrites the value it appends one (:func:`realign` drops them).

    Raises
    ------
    CodecError
        If any device has fewer than four fields, or an amount that is not a non-negative 32-bit integer. The whole
        allocation of the pod then counts as unreadable.
    """
    return [
        tuple(_assigned(device) for device in container.split(":") if "," in device) for container in value.split(";")
    ]


def _assigned(text: str) -> AssignedDevice:
    fields = text.split(",")
    if len(fields) < 4:
        raise CodecError(f"assignment {quoted(text)} has fewer than 4 fields")
    memory = _decimal(fields[2], "memory", text, INT32)
    cores = _decimal(fields[3], "cores", text, INT32)
    if memory < 0 or cores < 0:
        raise CodecError(f"assignment {quoted(text)} has a negative amount")
    return AssignedDevice(fields[0], fields[1], memory, cores)


def encode_assignments(containers: Sequence[Sequence[AssignedDevice]]) -> str:
    """Encode one ``;``-terminated entry per container, each device terminated by ``:``."""
    return "".join(
        "".join(f"{device.uuid},{device.type},{device.memory},{device.cores}:" for device in container) + ";"
        for container in containers
    )


LOCK_ANNOTATION = "hami.io/mutex.lock"

# Go's RFC 3339 layout: upper-case letters, seconds, an optional fraction, Z or an offset with a colon.
_RFC3339 = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})")
_PARTS = 3


def parse_lock(value: str) -> LockValue:
    """Decode a lock value.

    Raises
    ------
    ValueError
        If it is malformed; only an administrator can resolve such a lock.
    """
    parts = value.split(",")
    if len(parts) not in {1, _PARTS}:
        raise ValueError(f"lock value {quoted(value)} has {len(parts)} parts, not 3")
    if not _RFC3339.fullmatch(parts[0]):
        raise ValueError(f"lock value {quoted(value)} does not begin with an RFC 3339 time")
    try:
        taken_at = datetime.fromisoformat(parts[0])
    except ValueError as error:
        raise ValueError(f"lock value {quoted(value)}: {error}") from None
    return LockValue(taken_at, *parts[1:])


def format_lock(now: datetime, namespace: str, name: str) -> str:
    """Encode a lock value for a pod; ``now`` must have a time zone."""
    return f"{format_time(now)},{namespace},{name}"


def format_time(now: datetime) -> str:
    """Encode the value of a lock that names no pod; ``now`` must have a time zone."""
    return rfc3339(now)
