"""Where observations come from: kopf handlers for waiting pods, nodes and policies, light streams for the rest.

What runs kopf is not exported, and so not imported by commands that list and watch alone: it is in ``kopf_source``,
``policies``, ``admission`` and ``supervised``.
"""

from vgpu_scheduler.intake.final_states import FinalStateReader
from vgpu_scheduler.intake.kinds import (
    BOUND_PODS,
    BUDGETS,
    CLUSTER_POLICIES,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    POLICIES,
    QUOTAS,
    SELECTING,
    STORAGE,
    SWEPT,
    VOLUME_CLAIMS,
    VOLUMES,
    Kind,
    PodSelection,
    inventory_kind,
    pod_selections,
)
from vgpu_scheduler.intake.lister import Listing, list_all, list_changed, list_pods, read_one
from vgpu_scheduler.intake.observer import Observer
from vgpu_scheduler.intake.storage import StorageStreams
from vgpu_scheduler.intake.stream import ObjectStream

__all__ = [
    "BOUND_PODS",
    "BUDGETS",
    "CLUSTER_POLICIES",
    "NAMESPACES",
    "NODES",
    "PODS",
    "POD_GROUPS",
    "POLICIES",
    "QUOTAS",
    "SELECTING",
    "STORAGE",
    "SWEPT",
    "VOLUMES",
    "VOLUME_CLAIMS",
    "FinalStateReader",
    "Kind",
    "Listing",
    "ObjectStream",
    "Observer",
    "PodSelection",
    "StorageStreams",
    "inventory_kind",
    "list_all",
    "list_changed",
    "list_pods",
    "pod_selections",
    "read_one",
]
