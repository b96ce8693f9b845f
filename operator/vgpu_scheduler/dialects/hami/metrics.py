"""HAMi's scheduler metrics under HAMi's names, so that its dashboards and alerts continue to work.

They have one or more lines per card and per pod, which is much in a large cluster: they are served only if a setting
enables them, and written in pieces, so that decisions are not delayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from vgpu_scheduler import __version__
from vgpu_scheduler.dialects.errors import CodecError
from vgpu_scheduler.dialects.hami.mig import MigAllocation, decode_allocations
from vgpu_scheduler.dialects.hami.names import NAME
from vgpu_scheduler.dialects.hami.vendors.nvidia_names import MIG_ANNOTATION
from vgpu_scheduler.kernels import CORES, MEMORY, SLOTS
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import MIB, NO_USAGE, Amounts, Device
from vgpu_scheduler.state import Reservation, State

_PIECE = 100
"""Nodes or pods per piece of text."""
HAMI_ZONE = {"zone": "vGPU"}
"""The label that HAMi adds to every metric."""
_WHOLE = 100.0

_Labels = dict[str, str]
_CardReader = Callable[[Device, Amounts], tuple[_Labels, float] | None]
_ShareReader = Callable[[Device | None, Amounts], float]
"""Reads a value from what a pod holds of a card; the device is None if it is not listed now."""


@dataclass(frozen=True, slots=True)
class _Family:
    name: str
    help: str

    def head(self) -> str:
        return f"# HELP {self.name} {self.help}\n# TYPE {self.name} gauge\n"

    def line(self, labels: _Labels, value: float) -> str:
        shown = ",".join(f'{name}="{_escaped(text)}"' for name, text in (labels | HAMI_ZONE).items())
        return f"{self.name}{{{shown}}} {value!r}\n"


def hami_metrics(state: State) -> Iterator[str]:
    """Yield the metrics in Prometheus' text format, in pieces; the state may change between them.

    Parameters
    ----------
    state
        The state.
    """
    for family, read in _OF_CARDS:
        yield family.head()
        yield from _per_card(state, family, read)
    for pod_family, read_pod in _OF_PODS:
        yield pod_family.head()
        yield from _per_pod(state, pod_family, read_pod)
    yield _MIG.head()
    yield from _mig_instances(state)
    build = _Family("hami_build_info", "The running scheduler.")
    yield build.head() + build.line({"version": __version__}, 1)


_Item = TypeVar("_Item")


def _in_pieces(items: Sequence[_Item], lines: Callable[[_Item], Iterable[str]]) -> Iterator[str]:
    """Yield the lines of all items in pieces."""
    for first in range(0, len(items), _PIECE):
        yield "".join(line for item in items[first : first + _PIECE] for line in lines(item))


def _cards_of(state: State, node: str) -> Iterator[tuple[Device, Amounts]]:
    """Yield the cards of a node with their usage."""
    row = state.nodes.row(node)
    if row is not None:
        devices = state.matrix(NAME)
        columns = devices.columns
        for number, device in enumerate(devices.devices(row), start=int(columns.first[row])):
            yield device, tuple(columns.used[number].tolist())


def _per_card(state: State, family: _Family, read: _CardReader) -> Iterator[str]:
    def lines(node: str) -> Iterator[str]:
        for device, used in _cards_of(state, node):
            found = read(device, used)
            if found is not None:
                yield family.line({"node": node, **_named(device), **found[0]}, found[1])

    return _in_pieces(_nodes(state), lines)


def _nodes(state: State) -> list[str]:
    return sorted(state.nodes.name(row) for row in state.nodes.rows().tolist())


def _named(device: Device) -> _Labels:
    return {"device_uuid": device.uuid, "device_index": str(device.index), "device_type": device.type}


def _percent(device: Device, cores: int) -> float:
    return device.compute_percent(cores, device.total[CORES])


_OF_CARDS: tuple[tuple[_Family, _CardReader], ...] = (
    (
        _Family("hami_gpu_memory_limit_bytes", "Memory of a card."),
        lambda device, _: ({}, float(device.total[MEMORY] * MIB)),
    ),
    (
        _Family("hami_gpu_core_limit_ratio", "Compute of a card in percent."),
        lambda device, _: ({}, _WHOLE if device.in_percent else _percent(device, device.total[CORES])),
    ),
    (
        _Family("hami_gpu_memory_allocated_bytes", "Allocated memory of a card."),
        lambda _, used: ({"device_cores": str(used[CORES])}, float(used[MEMORY] * MIB)),
    ),
    (
        _Family("hami_gpu_core_allocated_ratio", "Allocated compute of a card, in percent."),
        lambda device, used: ({}, _percent(device, used[CORES])),
    ),
    (
        _Family("hami_gpu_shared_count", "How many containers share a card."),
        lambda _, used: ({}, float(used[SLOTS])),
    ),
    (
        _Family("hami_node_gpu_overview", "Allocated memory of a card, next to its capacity."),
        lambda device, used: (
            {"device_cores": str(used[CORES]), "device_memory_limit": str(device.total[MEMORY])},
            float(used[MEMORY] * MIB),
        ),
    ),
    (
        _Family("hami_node_gpu_memory_allocated_ratio", "The allocated share of a card's memory."),
        lambda device, used: ({}, used[MEMORY] / device.total[MEMORY]) if device.total[MEMORY] else None,
    ),
)


def _per_pod(state: State, family: _Family, read: _ShareReader) -> Iterator[str]:
    def lines(reservation: Reservation) -> Iterator[str]:
        listed = {device.uuid: device for device in state.devices_on(reservation.node, NAME)}
        for uuid, amounts in reservation.uses.get(NAME, NO_USAGE).charges.items():
            labels = {
                "namespace": reservation.namespace,
                "node": reservation.node,
                "pod": reservation.name,
                "container_index": "0",  # as in HAMi, which sums up the containers of a pod
                "device_uuid": uuid,
            }
            yield family.line(labels, read(listed.get(uuid), amounts))

    return _in_pieces(tuple(state.reservations()), lines)


_OF_PODS: tuple[tuple[_Family, _ShareReader], ...] = (
    (
        _Family("hami_vgpu_memory_allocated_bytes", "Memory of a card that a pod has."),
        lambda _, held: float(held[MEMORY] * MIB),
    ),
    (
        _Family("hami_vgpu_core_allocated_ratio", "Compute of a card that a pod has, in percent."),
        lambda device, held: _percent(device, held[CORES]) if device else float(held[CORES]),
    ),
)
_MIG = _Family("hami_node_gpu_mig_instance_info", "MIG instances that the device plugin has made.")


def _mig_instances(state: State) -> Iterator[str]:
    def lines(reservation: Reservation) -> Iterator[str]:
        for entry in _placements(state.pod(reservation.uid)):
            if entry.instance is None:
                continue
            uuid, instance, compute = entry.instance
            indexes = (device.index for device, _ in _cards_of(state, reservation.node) if device.uuid == entry.uuid)
            labels = {
                "node": reservation.node,
                "device_uuid": entry.uuid,
                "device_index": str(next(indexes, "")),
                "mig_uuid": uuid,
                "profile": entry.profile,
                "gpu_instance_id": str(instance),
                "compute_instance_id": str(compute),
                "placement_start": str(entry.place.start),
                "placement_size": str(entry.place.size),
            }
            yield _MIG.line(labels, 1)

    return _in_pieces(tuple(state.reservations()), lines)


def _placements(pod: Pod | None) -> list[MigAllocation]:
    try:
        return decode_allocations(pod.annotations.get(MIG_ANNOTATION, "")) if pod else []
    except CodecError:
        return []


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
