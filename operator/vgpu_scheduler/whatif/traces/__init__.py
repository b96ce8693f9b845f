"""Traces: lists of nodes and pods that are replayed through the engine, audited and measured."""

from vgpu_scheduler.whatif.traces.arrivals import LIFETIMES, WARM_UP, Arrivals, Run, churning_run, static_run
from vgpu_scheduler.whatif.traces.audit import AuditError, FreeResources, audited
from vgpu_scheduler.whatif.traces.fleet import SHARES, Fleet, Room
from vgpu_scheduler.whatif.traces.format import TraceError, TraceNode, TracePod, parse_nodes, parse_pods
from vgpu_scheduler.whatif.traces.measures import POINTS, RunResult, measure
from vgpu_scheduler.whatif.traces.mix import TypicalPod, fragmentation, typical_pods
from vgpu_scheduler.whatif.traces.named_policies import CONTENDERS, NamedPolicies
from vgpu_scheduler.whatif.traces.of_cluster import nodes_of_cluster
from vgpu_scheduler.whatif.traces.placing import CardLocation, EnginePlacer, Placer, replay
from vgpu_scheduler.whatif.traces.summary import Summary
from vgpu_scheduler.whatif.traces.synthetic import synthetic_nodes, synthetic_pods

__all__ = [
    "CONTENDERS",
    "LIFETIMES",
    "POINTS",
    "SHARES",
    "WARM_UP",
    "Arrivals",
    "AuditError",
    "CardLocation",
    "EnginePlacer",
    "Fleet",
    "FreeResources",
    "NamedPolicies",
    "Placer",
    "Room",
    "Run",
    "RunResult",
    "Summary",
    "TraceError",
    "TraceNode",
    "TracePod",
    "TypicalPod",
    "audited",
    "churning_run",
    "fragmentation",
    "measure",
    "nodes_of_cluster",
    "parse_nodes",
    "parse_pods",
    "replay",
    "static_run",
    "synthetic_nodes",
    "synthetic_pods",
    "typical_pods",
]
