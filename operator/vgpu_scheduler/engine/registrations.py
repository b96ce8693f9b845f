"""What nodes register in each dialect, and the objects beside them that list devices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from vgpu_scheduler.dialects import CodecError, Dialect, Dialects, InventoryObject, RegistrationError, is_sign_of_life
from vgpu_scheduler.engine.problems import Problem
from vgpu_scheduler.kube import Node
from vgpu_scheduler.model import Device, EventReason, internal_error
from vgpu_scheduler.state import State, canonical

_Devices = tuple[Device, ...]


class Registrations:
    """Reads the devices of nodes.

    Parameters
    ----------
    dialects
        The formats.
    state
        Has the last good list of each node.
    """

    def __init__(self, dialects: Dialects, state: State) -> None:
        self._dialects = dialects
        self._state = state
        self._beside: dict[str, InventoryObject] = {}
        self._unclear: set[str] = set()
        """Nodes of which something could not be read, or is listed by two dialects: they are read each time."""

    def put_beside(self, node: str, found: InventoryObject | None) -> None:
        """Keep the object beside a node that lists its devices; None if there is none any more."""
        if found is None:
            self._beside.pop(node, None)
        else:
            self._beside[node] = found

    def read(self, node: Node) -> tuple[dict[str, _Devices], tuple[Problem, ...]]:
        """Return the devices of a node by dialect, and what cannot be read; what cannot stays as it was.

        So does what says the same as before: where a lock comes or goes, or a plugin reports, nothing is read.
        """
        before = self._state.node(node.name)
        if before is not None and before is not node and node.name not in self._unclear and self._same(before, node):
            return {}, ()
        found, problems = self._read(node)
        (self._unclear.add if problems else self._unclear.discard)(node.name)
        return found, problems

    def _same(self, before: Node, node: Node) -> bool:
        """Tell whether nothing that devices are read from differs between two observations of a node."""
        changed = before.annotations.items() ^ node.annotations.items()
        return (
            all(is_sign_of_life(name) for name, _ in changed)
            and before.uid == node.uid
            and before.allocatable == node.allocatable
            and before.capacity == node.capacity
            and before.labels == node.labels
        )

    def _read(self, node: Node) -> tuple[dict[str, _Devices], tuple[Problem, ...]]:
        found: dict[str, _Devices] = {}
        problems: list[Problem] = []
        for dialect in self._dialects:
            devices, problem = self._registered(dialect, node)
            if devices is not None:
                found[dialect.name] = devices
            if problem:
                problems.append(Problem("Node", "", node.name, node.uid, EventReason.REGISTRATION_UNREADABLE, problem))
        if len(self._dialects) > 1:
            problems += self._close_shared(node, found)
        return found, tuple(problems)

    def _registered(self, dialect: Dialect, node: Node) -> tuple[_Devices | None, str]:
        try:
            return canonical(dialect.inventory.devices(node, self._beside.get(node.name))), ""
        except CodecError as error:
            return self._last_good(dialect, node.name, error), str(error)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this node's
            return None, internal_error(error)

    def _last_good(self, dialect: Dialect, node: str, error: CodecError) -> _Devices | None:
        """Return the devices of a node where those that cannot be read stay as they were; None if all do."""
        if not isinstance(error, RegistrationError):
            return None
        listed = {device.uuid for device in error.devices}
        known = self._state.devices_on(node, dialect.name)
        kept = (device for device in known if device.vendor in error.vendors and device.uuid not in listed)
        return canonical((*error.devices, *kept))

    def _close_shared(self, node: Node, found: dict[str, _Devices]) -> list[Problem]:
        """Close each device that several dialects list, in all of them: none knows what the others give out."""
        listed = self._state.devices_by_dialect(node.name) | found
        shared = registered_by_several(self._dialects, listed)
        for name in {name for names in shared.values() for name in names}:
            hardware = self._dialects[name].inventory.hardware
            found[name] = tuple(replace(d, cordoned=True) if hardware(d) in shared else d for d in listed[name])
        return [
            Problem(
                "Node", "", node.name, node.uid, EventReason.DEVICE_REGISTERED_TWICE,
                f"device {uuid} is registered by {' and by '.join(names)}: it is given to nobody until one is left",
            )
            for uuid, names in sorted(shared.items())
        ]  # fmt: skip


def registered_by_several(dialects: Dialects, listed: Mapping[str, Iterable[Device]]) -> dict[str, tuple[str, ...]]:
    """Return the cards of a node that several dialects register, by what the hardware is known by, with their names.

    Parameters
    ----------
    listed
        The devices of the node by the dialect that registers them.
    """
    owners: dict[str, dict[str, None]] = {}
    for dialect in dialects:
        for device in listed[dialect.name]:
            owners.setdefault(dialect.inventory.hardware(device), {})[dialect.name] = None
    return {hardware: tuple(names) for hardware, names in owners.items() if hardware and len(names) > 1}
