"""Golden cases of the allocations that pods carry, of any maker: decoded, encoded again, and what they come to."""

from __future__ import annotations

from typing import Any

from tests.golden.outcome import Case
from tests.naive import hami as naive
from tests.naive import hami_wire as wire
from tests.naive.hami_quirks import Switches

from vgpu_scheduler.dialects.hami import (
    AssignedDevice,
    CodecError,
    VendorSection,
    configured,
    decode_assignments,
    encode_assignments,
)
from vgpu_scheduler.kube import decode_pod
from vgpu_scheduler.model import Assignment, ContainerType, charges

Json = Any
ERROR = {"error": True}

KEYS = {
    "NVIDIA": "hami.io/vgpu-devices-allocated",
    "DCU": "hami.io/dcu-devices-allocated",
    "MLU": "hami.io/cambricon-mlu-devices-allocated",
    "Ascend910B3": "hami.io/Ascend910B3-devices-allocated",
}
"""The makers of these cases, in HAMi's words."""


def expected_decode(case: Case) -> Json:
    expect = case["expect"]
    if "error" in expect:
        return ERROR
    kept = {key: expect[key] for key in ("devices", "reencoded")}
    if "collapsed" in expect:
        kept["collapsed"] = {
            maker: {
                device["uuid"]: [device[key] for key in ("slots", "mem", "cores")]
                for container in containers
                for device in container
            }
            for maker, containers in expect["collapsed"].items()
        }
    return kept


def twin_decode(case: Case, switch: Switches) -> Json:
    result: Json = {"devices": {}, "reencoded": {}}
    collapsed: Json = {}
    for maker, key in KEYS.items():
        value = case["input"]["podAnnotations"].get(key)
        if value is None:
            continue
        try:
            entries = wire.decode_pod(value, switch)
        except wire.Unreadable:
            return ERROR
        result["devices"][maker] = [
            [{"uuid": e.uuid, "type": e.type, "mem": e.memory, "cores": e.cores} for e in c] for c in entries
        ]
        result["reencoded"][key] = wire.encode_pod(entries)
        if "pod" in case:
            kinds = [kind for _, kind, _ in wire.raw_containers(case["pod"])]
            found = naive.collapse(kinds, entries, switch)
            collapsed[maker] = {uuid: list(charge) for uuid, charge in found.items()}
    return {**result, "collapsed": collapsed} if collapsed else result


def product_decode(case: Case) -> Json:
    result: Json = {"devices": {}, "reencoded": {}}
    collapsed: Json = {}
    for vendor in configured(VendorSection(case["config"]["deviceConfig"] if "config" in case else {})):
        key = vendor.record.allocated
        value = case["input"]["podAnnotations"].get(key)
        if value is None:
            continue
        try:
            entries = decode_assignments(value)
        except CodecError:
            return ERROR
        result["devices"][vendor.key] = [
            [{"uuid": d.uuid, "type": d.type, "mem": d.memory, "cores": d.cores} for d in c] for c in entries
        ]
        result["reencoded"][key] = encode_assignments(entries)
        if "pod" in case:
            collapsed[vendor.key] = _collapsed(case["pod"], vendor.key, entries)
    return {**result, "collapsed": collapsed} if collapsed else result


def _collapsed(pod: Json, maker: str, entries: list[tuple[AssignedDevice, ...]]) -> Json:
    kinds = [container.type for container in decode_pod(pod).spec.containers]
    kinds += [ContainerType.APP] * (len(entries) - len(kinds))
    padded = [*entries, *[()] * (len(kinds) - len(entries))]
    held = [[Assignment(maker, d.uuid, (1, d.memory, d.cores)) for d in c] for c in padded]
    return {uuid: list(amounts) for uuid, amounts in charges(kinds, held).items()}


def twin_encode(case: Case, switch: Switches) -> Json:
    del switch
    entries = [
        [wire.Entry(device["uuid"], device["type"], device["mem"], device["cores"]) for device in container]
        for container in case["input"]["devices"]
    ]
    return {"value": wire.encode_pod(entries)}


def product_encode(case: Case) -> Json:
    entries = [
        [AssignedDevice(device["uuid"], device["type"], device["mem"], device["cores"]) for device in container]
        for container in case["input"]["devices"]
    ]
    return {"value": encode_assignments(entries)}
