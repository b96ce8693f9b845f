"""The sources of observations: kopf handlers for waiting pods, nodes and policies, and watches of all other kinds.

Modules that import kopf are not exported, so that commands that only list and watch do not import it: these are
``kopf_source``, ``kopf_json``, ``kopf_storage``, ``policies``, ``admission`` and ``supervised``.
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
    RELISTED_KINDS,
    SELECTING,
    STORAGE,
    VOLUME_CLAIMS,
    VOLUMES,
    Absence,
    Kind,
    PodSelection,
    inventory_kind,
    pod_selections,
)
from vgpu_scheduler.intake.listing import Listing, get_one, list_all, list_changed, list_pods
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
    "RELISTED_KINDS",
    "SELECTING",
    "STORAGE",
    "VOLUMES",
    "VOLUME_CLAIMS",
    "Absence",
    "FinalStateReader",
    "Kind",
    "Listing",
    "ObjectStream",
    "Observer",
    "PodSelection",
    "StorageStreams",
    "get_one",
    "inventory_kind",
    "list_all",
    "list_changed",
    "list_pods",
    "pod_selections",
]
