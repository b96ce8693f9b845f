"""The amounts that the containers of a pod ask for, in steps that can be counted down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from vgpu_scheduler.dialects import Dialects
from vgpu_scheduler.kube import Pod, QuantityError, to_int, to_milli

Object = Mapping[str, Any]

_CPU: Final = "cpu"
_BYTES: Final = ("memory", "ephemeral-storage")
_MIB: Final = 2**20
_FIELDS: Final = ("initContainers", "containers")


@dataclass(frozen=True, slots=True)
class Amount:
    """What one container asks of one resource.

    Attributes
    ----------
    field, index
        Which container: ``containers`` or ``initContainers``, and its number there.
    container
        Its name.
    resource
        The resource.
    steps
        How much is asked in steps, or one more than the most there is where nothing is said.
    suffix
        What is written behind a number of steps: ``m``, ``Mi`` or nothing.
    written
        What is written now; empty where nothing is.
    """

    field: str
    index: int
    container: str
    resource: str
    steps: int
    suffix: str
    written: str

    def text(self, steps: int) -> str:
        """Return so many steps as a quantity."""
        return f"{steps}{self.suffix}"

    def worded(self, steps: int) -> str:
        """Say what would have to be asked instead."""
        now = f"instead of {self.written}" if self.written else "(it does not say, and gets whole cards)"
        less = f", {self.text(self.steps - steps)} less" if self.written else ""
        return f"ask {self.text(steps)} of {self.resource} {now} in container {self.container}{less}"


def amounts_of(pod: Object, dialects: Dialects, read: Pod) -> Iterator[Amount]:
    """Yield all amounts of a pod's containers, and the memory of cards of which a container does not say how much.

    Parameters
    ----------
    pod
        As it is written.
    dialects
        Whose names for memory are known.
    read
        The same pod.
    """
    spec = pod.get("spec") or {}
    for field in _FIELDS:
        for index, container in enumerate(spec.get(field) or ()):
            resources = container.get("resources") or {}
            asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
            for name, quantity in asked.items():
                amount = _amount(field, index, str(container.get("name", "")), name, str(quantity))
                if amount is not None:
                    yield amount
            yield from _unsaid_memory(field, index, container, asked, dialects, read)


def _amount(field: str, index: int, container: str, name: str, quantity: str) -> Amount | None:
    try:
        if name == _CPU:
            return Amount(field, index, container, name, to_milli(quantity), "m", quantity)
        if name in _BYTES or name.startswith("hugepages-") or quantity.endswith("i"):  # 8000 is written 8k by the API
            return Amount(field, index, container, name, -(-to_int(quantity) // _MIB), "Mi", quantity)
        return Amount(field, index, container, name, to_int(quantity), "", quantity)
    except QuantityError:
        return None  # the pod is refused for it


def _unsaid_memory(
    field: str, index: int, container: Object, asked: Mapping[str, Any], dialects: Dialects, read: Pod
) -> Iterator[Amount]:
    for dialect in dialects.owners(read):
        inventory = dialect.inventory
        memory = {n: r for n, r in inventory.device_resources.items() if r.dimension == inventory.memory}
        named = {inventory.device_resources[name].vendor for name in asked if name in inventory.device_resources}
        said = {memory[name].vendor for name in asked if name in memory}
        for name, resource in memory.items():
            if resource.vendor in named - said and not resource.percent and name in dialect.claims.resources:
                yield Amount(field, index, str(container.get("name", "")), name, _MIB, "", "")


def with_amount(pod: Object, amount: Amount, steps: int) -> Object:
    """Return a pod that asks so many steps of one of its amounts, as a limit or a request or both, as it did."""
    spec = pod["spec"]
    containers = list(spec[amount.field])
    container = containers[amount.index]
    resources = {key: dict(value or {}) for key, value in (container.get("resources") or {}).items() if key != "claims"}
    places = [key for key, listed in resources.items() if amount.resource in listed] or ["limits"]
    if amount.resource == _CPU or amount.resource in _BYTES:
        places = ["requests"]
    for place in places:
        resources.setdefault(place, {})[amount.resource] = amount.text(steps)
    containers[amount.index] = {**container, "resources": {**(container.get("resources") or {}), **resources}}
    return {**pod, "spec": {**spec, amount.field: containers}}
