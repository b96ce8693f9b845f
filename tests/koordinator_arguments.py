"""The arguments of Koordinator's DeviceShare plugin (``DeviceShareArgs``), as far as they are about scores.

The defaults that the document states (D4-11, D4-12) and those of today's Koordinator differ: the document has one for
the type and one for the resources; Koordinator has one for the whole strategy, and demands the type of any that is
given (one without resources then scores nothing).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from vgpu_scheduler.allocators import ShareOrder, Strategy, Weights
from vgpu_scheduler.scorers import DOCUMENTED_SHARE_WEIGHTS, KOORDINATOR_SHARE_WEIGHTS

_STRATEGY = "scoringStrategy"
_ABOUT_OTHERS = frozenset({
    "apiVersion", "kind", "allocator", "disableDeviceNUMATopologyAlignment", "gpuSharedResourceTemplatesConfig",
    "gpuShareUnsupportedModels",
})  # fmt: skip
_LARGEST = 100
_STRATEGIES = {strategy.value: strategy for strategy in Strategy}


class DeviceShareArgumentError(ValueError):
    """Arguments that cannot be followed; the message begins with the field."""


class ShareDefaults(Enum):
    """What holds where the arguments are silent."""

    DOCUMENTED = "documented"
    """LeastAllocated, and gpu-memory-ratio alone (D4-11, D4-12)."""
    KOORDINATOR = "koordinator"
    """LeastAllocated, and four resources, for want of any strategy; nothing for want of a part of it."""


def deviceshare_arguments(
    arguments: Mapping[str, object], defaults: ShareDefaults = ShareDefaults.DOCUMENTED
) -> ShareOrder:
    """Read the strategy and the weights.

    Parameters
    ----------
    arguments
        The plugin's arguments, decoded. Fields that are not about scores are left alone.
    defaults
        What holds where they are silent.

    Raises
    ------
    DeviceShareArgumentError
        If a field is unknown, or has a value that is out of range or of another type. Of two weights for one resource
        the last one counts.
    """
    if unknown := sorted(arguments.keys() - _ABOUT_OTHERS - {_STRATEGY}):
        raise DeviceShareArgumentError(f"{unknown[0]}: no such field")
    strategy = arguments.get(_STRATEGY)
    documented = defaults is ShareDefaults.DOCUMENTED
    fallback = DOCUMENTED_SHARE_WEIGHTS if documented else KOORDINATOR_SHARE_WEIGHTS
    if strategy is None:
        return ShareOrder(Strategy.LEAST_ALLOCATED, fallback)
    if not isinstance(strategy, Mapping):
        raise DeviceShareArgumentError(f"{_STRATEGY}: {strategy!r} is not a mapping")
    if unknown := sorted(strategy.keys() - {"type", "resources"}):
        raise DeviceShareArgumentError(f"{_STRATEGY}.{unknown[0]}: no such field")
    kind = strategy.get("type")
    if kind is None and documented:
        kind = Strategy.LEAST_ALLOCATED.value
    if not isinstance(kind, str) or kind not in _STRATEGIES:
        raise DeviceShareArgumentError(f"{_STRATEGY}.type: {kind!r} is not one of {', '.join(_STRATEGIES)}")
    resources = strategy.get("resources")
    if resources is None:
        return ShareOrder(_STRATEGIES[kind], fallback if documented else ())
    return ShareOrder(_STRATEGIES[kind], _weights(resources))


def _weights(resources: object) -> Weights:
    field = f"{_STRATEGY}.resources"
    if not isinstance(resources, list | tuple):
        raise DeviceShareArgumentError(f"{field}: {resources!r} is not a list")
    weights: dict[str, int] = {}
    for number, resource in enumerate(resources):
        where = f"{field}[{number}]"
        if not isinstance(resource, Mapping):
            raise DeviceShareArgumentError(f"{where}: {resource!r} is not a mapping")
        if unknown := sorted(resource.keys() - {"name", "weight"}):
            raise DeviceShareArgumentError(f"{where}.{unknown[0]}: no such field")
        name, weight = resource.get("name", ""), resource.get("weight", 0)
        if not isinstance(name, str):
            raise DeviceShareArgumentError(f"{where}.name: {name!r} is not a text")
        if type(weight) is not int or not 0 < weight <= _LARGEST:
            raise DeviceShareArgumentError(
                f"{where}.weight: {weight!r} of {name} is not an integer from 1 to {_LARGEST}"
            )
        weights[name] = weight
    return tuple(sorted(weights.items()))
