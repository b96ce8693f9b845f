"""What HAMi's ledger and quotas come to in the golden vectors: by HAMi, by the twin, and by the product."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.golden.hami import dialect_of, quotas_of, state_of
from tests.golden.outcome import Case
from tests.naive import hami as naive
from tests.naive import hami_quota
from tests.naive import hami_wire as wire
from tests.naive.hami_quirks import Switches

from vgpu_scheduler.dialects.hami import hami_dialect
from vgpu_scheduler.dialects.hami.mig import SCHEMA
from vgpu_scheduler.model import CardReason
from vgpu_scheduler.state import State

Json = Any


def expected_usage(case: Case) -> Json:
    # HAMi lists the devices sorted by id.
    usage = {node: {d["id"]: _expected_card(d) for d in devices} for node, devices in case["expect"]["usage"].items()}
    quotas = {
        namespace: {name: [q["used"], q["limit"] if q["limit_set"] else None] for name, q in resources.items()}
        for namespace, resources in case["expect"]["quotas"].items()
    }
    return {"usage": usage, "failed": case["expect"]["failed"], "quotas": _telling(quotas)}


def _telling(quotas: Mapping[str, Mapping[str, list[int | None]]]) -> Json:
    """Leave out resources that are neither used nor limited: HAMi keeps what it once had."""
    found = {namespace: {n: q for n, q in entries.items() if q != [0, None]} for namespace, entries in quotas.items()}
    return {namespace: entries for namespace, entries in found.items() if entries}


def _namespaces(case: Case) -> set[str]:
    return {item["metadata"]["namespace"] for item in (*case["pods"], *case.get("quotas", ()))}


def _expected_card(device: Json) -> Json:
    held = ((held["start"], held["size"]) for held in device.get("mig_in_use", ()))
    return {**device, "mig_in_use": _slices(healthy=device["health"], held=held)}


def twin_usage(case: Case, switch: Switches) -> Json:
    nodes = naive.ledger(case, wire.Names.of(case), switch)
    usage = {
        node: {
            c.uuid: _card(
                c.uuid,
                (c.count, c.memory, c.cores),
                (c.used, c.used_memory, c.used_cores),
                healthy=c.healthy,
                slices=_slices(healthy=c.healthy, held=((held.start, held.size) for held in c.in_use)),
            )
            for c in cards
        }
        for node, cards in nodes.items()
        if cards
    }
    names = wire.Names.of(case)
    quotas: dict[str, dict[str, list[int | None]]] = {}
    for namespace in _namespaces(case):
        used = dict(zip((names.memory, names.cores), naive.held_by(case, namespace, names, switch), strict=True))
        limited = {name: hami_quota.limits(case.get("quotas", ()), namespace, name) for name in used}
        quotas[namespace] = {name: [used[name], limited[name]] for name in used}
    failed = dict.fromkeys(nodes.keys() - usage.keys(), naive.UNREGISTERED)
    return {"usage": usage, "failed": failed, "quotas": _telling(quotas)}


def product_usage(case: Case) -> Json:
    dialect = dialect_of(case)
    state = state_of(case, dialect)
    assert not state.drift()
    result: Json = {"usage": {}, "failed": {}, "quotas": _product_quotas(case, dialect, state)}
    for node in state.all_nodes():
        row = state.nodes.row(node.name)
        assert row is not None
        used = dict(state.devices.usage(row))
        for device in state.devices.devices(row):
            healthy = device.healthy and device.uuid not in state.devices.inconsistent(row)
            slices = _slices(
                healthy=healthy,
                held=((number, int(n > 0)) for number, n in enumerate(used[device.uuid][SCHEMA.slices.start :])),
            )
            card = _card(device.uuid, device.total[:3], used[device.uuid][:3], healthy=healthy, slices=slices)
            result["usage"].setdefault(node.name, {})[device.uuid] = card
        if not used:
            result["failed"][node.name] = CardReason.NodeUnregistered.text
    return result


def _product_quotas(case: Case, dialect: hami_dialect, state: State) -> Json:
    limited = {(r.namespace, r.resource): r for r in quotas_of(case, dialect).report(state)}
    quotas: dict[str, dict[str, list[int | None]]] = {namespace: {} for namespace in _namespaces(case)}
    for namespace, resources in quotas.items():
        for name, resource in dialect.allocation.quota_resources.items():
            report = limited.get((namespace, name))
            used = state.quota_usage.used(namespace, ("hami", resource.vendor), resource.dimension)
            assert report is None or report.used == used
            resources[name] = [used, report and report.limit]
    return _telling(quotas)


def _slices(*, healthy: bool, held: Iterable[tuple[int, int]]) -> list[int]:
    """The slices in use of a card; of one that is out of service all of them are, in effect."""
    return sorted({start + number for start, size in held for number in range(size)}) if healthy else []


def _card(uuid: str, total: tuple[int, ...], used: tuple[int, ...], *, healthy: bool, slices: list[int]) -> Json:
    names = ("count", "totalmem", "totalcore", "used", "usedmem", "usedcores")
    return {"id": uuid, "health": healthy, "mig_in_use": slices, **dict(zip(names, (*total, *used), strict=True))}
