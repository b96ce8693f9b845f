"""What nodes register in each dialect, and the objects that list devices beside the nodes."""

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
        The dialects in use.
    state
        Has the last good device list of each node.
    """

    def __init__(self, dialects: Dialects, state: State) -> None:
        self._dialects = dialects
        self._state = state
        self._inventories: dict[str, InventoryObject] = {}
        self._unclear: set[str] = set()
        """Nodes with unreadable registrations or with devices of two dialects: they are read at each observation."""

    def put_inventory(self, node: str, found: InventoryObject | None) -> None:
        """Keep the object that lists a node's devices beside it; None if it is gone."""
        if found is None:
            self._inventories.pop(node, None)
        else:
            self._inventories[node] = found

    def forget(self, node: str) -> None:
        """Forget a node that is gone; the object beside it may outlive it, and counts for a later node of its name."""
        self._unclear.discard(node)

    def read(self, node: Node) -> tuple[dict[str, _Devices], tuple[Problem, ...]]:
        """Return the devices of a node by dialect, and the problems; a dialect that is left out stays as it was.

        Nothing is read if nothing that devices depend on has changed, as when a lock or a plugin's report changes.
        """
        before = self._state.node(node.name)
        if before is not None and before is not node and node.name not in self._unclear and self._same(before, node):
            return {}, ()
        found, problems = self._read(node)
        (self._unclear.add if problems else self._unclear.discard)(node.name)
        return found, problems

    def _same(self, before: Node, node: Node) -> bool:
        """Tell whether two observations of a node agree in everything that devices are read from."""
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
            return canonical(dialect.inventory.devices(node, self._inventories.get(node.name))), ""
        except CodecError as error:
            return self._last_good(dialect, node.name, error), str(error)
        except Exception as error:  # noqa: BLE001 - any error is charged to this node alone
            return None, internal_error(error)

    def _last_good(self, dialect: Dialect, node: str, error: CodecError) -> _Devices | None:
        """Return a node's devices with unreadable vendors as they were before; None to keep all as they were."""
        if not isinstance(error, RegistrationError):
            return None
        listed = {device.uuid for device in error.devices}
        known = self._state.devices_on(node, dialect.name)
        kept = (device for device in known if device.vendor in error.vendors and device.uuid not in listed)
        return canonical((*error.devices, *kept))

    def _close_shared(self, node: Node, found: dict[str, _Devices]) -> list[Problem]:
        """Close each device that several dialects list, in all of them: none knows what the others allocate."""
        listed = self._state.devices_by_dialect(node.name) | found
        shared = registered_by_several(self._dialects, listed)
        for name in {name for names in shared.values() for name in names}:
            hardware = self._dialects[name].inventory.hardware
            found[name] = tuple(replace(d, cordoned=True) if hardware(d) in shared else d for d in listed[name])
        return [
            Problem(
                "Node", "", node.name, node.uid, EventReason.DEVICE_REGISTERED_TWICE,
                f"device {uuid} is registered by {' and by '.join(names)}: it is allocated to no pod until one is left",
            )
            for uuid, names in sorted(shared.items())
        ]  # fmt: skip


def registered_by_several(dialects: Dialects, listed: Mapping[str, Iterable[Device]]) -> dict[str, tuple[str, ...]]:
    """Return the cards of a node that several dialects register, by hardware ID, with the names of the dialects.

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
