"""The policies that are compared unless others are named: what administrators come from, and what they may go to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from vgpu_scheduler.policy import CLUSTER_KIND, GROUP, VERSION


@dataclass(frozen=True, slots=True)
class NamedPolicies:
    """Policies that are in force together in a replay, by a name for tables."""

    name: str
    policies: Sequence[Mapping[str, Any]]


def _contender(name: str, spec: Mapping[str, Any]) -> NamedPolicies:
    metadata = {"name": name}
    return NamedPolicies(
        name, [{"apiVersion": f"{GROUP}/{VERSION}", "kind": CLUSTER_KIND, "metadata": metadata, "spec": spec}]
    )


_KOORDINATOR: Final = {
    "name": "deviceshare",
    "scoringStrategy": {
        "type": "MostAllocated",
        "resources": [
            {"name": "koordinator.sh/gpu-memory-ratio", "weight": 1},
            {"name": "koordinator.sh/gpu-core", "weight": 1},
        ],
    },
}
_VOLCANO: Final = {
    "name": "binpack",
    "arguments": {
        "binpack.weight": 1,
        "binpack.cpu": 1,
        "binpack.memory": 1,
        "binpack.resources": "nvidia.com/gpumem",
        "binpack.resources.nvidia.com/gpumem": 1,
    },
}
CONTENDERS: Final[Mapping[str, NamedPolicies]] = {
    contender.name: contender
    for contender in (
        _contender("hami", {"nodes": {"policy": "binpack"}, "devices": {"policy": "spread"}}),
        _contender("hami-binpack", {"nodes": {"policy": "binpack"}, "devices": {"policy": "binpack"}}),
        _contender("volcano-binpack", {"nodes": {"scorers": [_VOLCANO]}, "devices": {"policy": "binpack"}}),
        _contender("koordinator-most", {"nodes": {"scorers": [_KOORDINATOR, {"name": "mostAllocated"}]}}),
        _contender("fragmentation", {"nodes": {"scorers": [{"name": "fragmentation"}]}}),
        _contender("learned-prices", {"nodes": {"scorers": [{"name": "fragmentation", "prices": "Auto"}]}}),
    )
}
"""By name: HAMi as it is by default, and with cards packed, too; Volcano's binpack by cpu, memory and cards alike, with
packed cards; Koordinator's DeviceShare and kube-scheduler's NodeResourcesFit, both with MostAllocated; and this
scheduler's own answer to fragmentation, without and with learned prices."""
