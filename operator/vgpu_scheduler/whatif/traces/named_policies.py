"""The policies that are compared by default: those of other schedulers, and this scheduler's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from vgpu_scheduler.policy import CLUSTER_KIND, GROUP, VERSION


@dataclass(frozen=True, slots=True)
class NamedPolicies:
    """Policies that apply together in a replay, with a name for tables."""

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
"""By name: HAMi's defaults, and HAMi with packed cards; Volcano's binpack with equal weights for cpu, memory and cards,
and packed cards; Koordinator's DeviceShare with kube-scheduler's NodeResourcesFit, both MostAllocated; and this
scheduler's fragmentation scorer, without and with learned prices."""
