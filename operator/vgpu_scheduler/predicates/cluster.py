"""kube-scheduler's plugins that filter after those of single nodes, in its order."""

from typing import Final

from vgpu_scheduler.predicates.features import NODE_DECLARED_FEATURES_PLUGIN
from vgpu_scheduler.predicates.filters import ClusterPlugin
from vgpu_scheduler.predicates.interpod import INTER_POD_AFFINITY_PLUGIN
from vgpu_scheduler.predicates.spread import POD_TOPOLOGY_SPREAD_PLUGIN

__all__ = ["CLUSTER_PLUGINS"]

CLUSTER_PLUGINS: Final[tuple[ClusterPlugin, ...]] = (
    POD_TOPOLOGY_SPREAD_PLUGIN,
    INTER_POD_AFFINITY_PLUGIN,
    NODE_DECLARED_FEATURES_PLUGIN,
)
"""They come after the filters of single nodes; of a node only the first that rejects it is reported."""
