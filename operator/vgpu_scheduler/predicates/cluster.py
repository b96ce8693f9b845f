"""kube-scheduler's plugins that filter by more than a single node, in its order."""

from typing import Final

from vgpu_scheduler.predicates.filters import ClusterPlugin
from vgpu_scheduler.predicates.interpod import INTER_POD_AFFINITY_PLUGIN
from vgpu_scheduler.predicates.spread import POD_TOPOLOGY_SPREAD_PLUGIN
from vgpu_scheduler.predicates.volumes import (
    NODE_VOLUME_LIMITS_PLUGIN,
    VOLUME_BINDING_PLUGIN,
    VOLUME_RESTRICTIONS_PLUGIN,
    VOLUME_ZONE_PLUGIN,
)

__all__ = ["CLUSTER_PLUGINS"]

CLUSTER_PLUGINS: Final[tuple[ClusterPlugin, ...]] = (
    VOLUME_RESTRICTIONS_PLUGIN,
    NODE_VOLUME_LIMITS_PLUGIN,
    VOLUME_BINDING_PLUGIN,
    VOLUME_ZONE_PLUGIN,
    POD_TOPOLOGY_SPREAD_PLUGIN,
    INTER_POD_AFFINITY_PLUGIN,
)
"""They come after the filters of single nodes; of a node only the first that rejects it is reported."""
