"""Whether what pods hold is there, is theirs, and fits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from vgpu_scheduler.doctor.check import Check
from vgpu_scheduler.doctor.cluster_snapshot import ClusterSnapshot
from vgpu_scheduler.doctor.findings import Diagnosis, Finding, ObjectRef, Severity
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import NO_USAGE, Amounts, Device, Dimension, Usage
from vgpu_scheduler.state import Reservation

_BYTES = "bytes"

UNACCOUNTED = Diagnosis(
    "pod-unaccounted",
    Severity.ERROR,
    "The pod runs on a node with shared cards, asks for some, and has no allocation. It may sit on any of them, so it"
    " is charged on every card of that vendor on the node, which takes fewer pods until it ends. Such a pod was placed"
    " by a scheduler that knows nothing of cards, or its annotations were removed.",
    "Delete the pod, and have what creates it name a scheduler that allocates cards.",
)
GARBLED = Diagnosis(
    "allocation-unreadable",
    Severity.ERROR,
    "The pod was given cards, and what says which ones cannot be read any more: somebody changed its annotations. It"
    " may sit on any card of that vendor on its node, so it is charged on every one, and the node takes fewer pods"
    " until it ends.",
    "Delete the pod, so that it is placed anew, and find out who may change the annotation that the message names.",
)
ELSEWHERE = Diagnosis(
    "allocation-elsewhere",
    Severity.ERROR,
    "The pod's allocation names another node than the one that it runs on. What it says counts on neither; the pod is"
    " charged on every card of that vendor on its own node.",
    "Delete the pod, so that it is placed anew.",
)
PHANTOM = Diagnosis(
    "allocation-phantom",
    Severity.ERROR,
    "The pod holds a card that its node does not list: the card was taken out or has failed, the device plugin now"
    " calls it otherwise, or somebody wrote the annotation. The reservation stays, in case the card comes back.",
    "Delete the pod if its card is gone for good; else restore the device plugin's list.",
)
ORPHAN = Diagnosis(
    "allocation-orphan",
    Severity.WARNING,
    "The pod is bound to a node that is not there any more. Kubernetes deletes such pods after a while, unless nothing"
    " runs that does or a finalizer keeps them.",
    "Delete the pod, by force if no kubelet is there to end it.",
)
UNBOUND = Diagnosis(
    "allocation-unbound",
    Severity.INFO,
    "The pod is not bound and has annotations that allocate cards. They count for nothing and are overwritten when it"
    " is bound. HAMi leaves them behind when a Binding of its fails; anybody who may write pods can write them where"
    " the guard is missing.",
    "Nothing needs to be done; if HAMi's scheduler still runs, name it in coexist_with.",
)
OVER_CAPACITY = Diagnosis(
    "card-over-capacity",
    Severity.ERROR,
    "The pods on the card hold more shares, memory or compute than it has. Two schedulers gave it out without knowing"
    " of each other, the card was registered smaller than before, or an allocation was written by hand.",
    "Delete pods of those that the message names until the rest fits.",
)


def held(seen: ClusterSnapshot) -> Iterator[Finding]:
    """Find allocations that cannot be read, or are on cards that are not there."""
    nodes = {node.name for node in seen.nodes}
    for pod in seen.pods:
        if not pod.node_name or pod.terminal:
            continue
        uses = seen.cluster_engine.engine.uses(pod)
        if pod.node_name not in nodes:
            if any(usage.charges for usage in uses.values()):
                yield ORPHAN.of(ObjectRef.of_pod(pod), f"it holds cards of node {pod.node_name}, which is not there")
            continue
        for dialect, usage in uses.items():
            yield from _of_dialect(seen, pod, dialect, usage)


def _of_dialect(seen: ClusterSnapshot, pod: Pod, dialect: str, usage: Usage) -> Iterator[Finding]:
    listed = seen.cluster_engine.devices(pod.node_name).get(dialect, ())
    if usage.problem and listed:
        named = seen.cluster_engine.engine.dialects.announced_node(pod)
        if named and named != pod.node_name:
            yield ELSEWHERE.of(
                ObjectRef.of_pod(pod), f"it runs on node {pod.node_name}, and its allocation names node {named}"
            )
        else:
            written = seen.cluster_engine.engine.dialects[dialect].allocation.keys & pod.annotations.keys()
            diagnosis = GARBLED if written else UNACCOUNTED
            message = f"it runs on node {pod.node_name}, and its cards are not known: {usage.problem}"
            yield diagnosis.of(ObjectRef.of_pod(pod), message)
    for uuid in sorted(usage.charges.keys() - {device.uuid for device in listed}):
        home = seen.cluster_engine.homes.get(uuid)
        whose = f"node {home} does" if home else "no node does"
        yield PHANTOM.of(
            ObjectRef.of_pod(pod), f"it holds card {uuid}, which its node {pod.node_name} does not list ({whose})", uuid
        )


def allocation_annotations(seen: ClusterSnapshot) -> frozenset[str]:
    """Return the annotations of pods that say which cards they have."""
    return frozenset(key for dialect in seen.expected.options.dialects for key in dialect.allocation.keys)


def unbound(seen: ClusterSnapshot) -> Iterator[Finding]:
    """Find allocations on pods that are bound nowhere."""
    keys = allocation_annotations(seen)
    for pod in seen.pods:
        if pod.node_name or pod.terminal or pod.scheduler_name in seen.expected.options.coexist_with:
            continue
        if written := sorted(keys & pod.annotations.keys()):
            yield UNBOUND.of(ObjectRef.of_pod(pod), f"it is not bound, and has {', '.join(written)}")


def over_capacity(seen: ClusterSnapshot) -> Iterator[Finding]:
    """Find cards of which more is used than there is, by pods that are known to be on them.

    A pod whose cards are not known is charged on all that it may be on: that makes no card one that is used too much.
    """
    state = seen.cluster_engine.engine.state
    for node, uuids in state.over_capacity().items():
        held, listed = list(state.reservations(node)), seen.cluster_engine.devices(node)
        for uuid in uuids:
            for dialect, devices in listed.items():
                for device in (each for each in devices if each.uuid == uuid):
                    charges = _charges(held, dialect, uuid)
                    message = _beyond(seen, dialect, device, charges)
                    certain = not any(_may_be_on(each, dialect, devices, uuid) for each in held)
                    if not message and (certain or _overlap(seen, dialect, device, charges)):
                        message = f"slices that overlap, by {', '.join(pod for pod, _ in charges)}"
                    if message:
                        message = f"card {uuid} is used beyond what it has: {message}"
                        yield OVER_CAPACITY.of(ObjectRef("Node", node), message, uuid)


def _charges(held: Iterable[Reservation], dialect: str, uuid: str) -> list[tuple[str, Amounts]]:
    """Return the pods that are known to be on a card, each with what it has of it."""
    charged = ((each.pod, each.uses.get(dialect, NO_USAGE).charges.get(uuid)) for each in held)
    return sorted((pod, amounts) for pod, amounts in charged if amounts is not None)


def _may_be_on(held: Reservation, dialect: str, devices: tuple[Device, ...], uuid: str) -> bool:
    """Tell whether a pod is charged more on a card than it is known to have of it."""
    return held.device_charges(dialect, devices).get(uuid) != held.uses.get(dialect, NO_USAGE).charges.get(uuid)


def _beyond(seen: ClusterSnapshot, dialect: str, device: Device, charges: Sequence[tuple[str, Amounts]]) -> str:
    """Name each overcommitted amount of a device, how much of it is used, and the pods that use it."""
    parts = []
    for column, about in enumerate(_dimensions(seen, dialect, device)):
        each = [(pod, amounts[column]) for pod, amounts in charges if column < len(amounts) and amounts[column]]
        used, total = sum(amount for _, amount in each), device.total[column]
        if used > total and not about.internal:
            now, most = (_in_unit(about, device, column, amount) for amount in (used, total))
            whose = ", ".join(f"{pod} ({_in_unit(about, device, column, amount)})" for pod, amount in each)
            unit = "MiB" if about.unit == _BYTES else about.unit
            parts.append(f"{now} of {most} {unit} {about.name} by {whose}")
    return "; ".join(parts)


def _overlap(seen: ClusterSnapshot, dialect: str, device: Device, charges: Sequence[tuple[str, Amounts]]) -> bool:
    """Tell whether pods are known to have more pieces of a device than have a place beside each other."""
    return bool(device.pieces) and any(
        sum(amounts[column] for _, amounts in charges if column < len(amounts)) > device.total[column]
        for column, about in enumerate(_dimensions(seen, dialect, device))
        if about.internal
    )


def _dimensions(seen: ClusterSnapshot, dialect: str, device: Device) -> Sequence[Dimension]:
    return seen.cluster_engine.engine.dialects[dialect].inventory.dimensions[: len(device.total)]


def _in_unit(about: Dimension, device: Device, column: int, amount: int) -> int:
    """Return an amount in the unit that is named for it; of compute that is percent of the device."""
    if about.unit == "percent":
        return round(device.compute_percent(amount, device.total[column]))
    return -(-amount // 2**20) if about.unit == _BYTES else amount


CHECKS = (
    Check("allocations", ("Node", "Pod"), (UNACCOUNTED, GARBLED, ELSEWHERE, PHANTOM, ORPHAN), held),
    Check("unbound-allocations", ("Pod",), (UNBOUND,), unbound),
    Check("capacity", ("Node", "Pod"), (OVER_CAPACITY,), over_capacity),
)
