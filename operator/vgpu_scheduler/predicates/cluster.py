"""kube-scheduler's plugins that filter by more than single nodes, and its score plugins, in its order."""

from typing import Final

from vgpu_scheduler.predicates.compiled import NODE_AFFINITY_SCORE, TAINT_TOLERATION_SCORE
from vgpu_scheduler.predicates.filters import ClusterPlugin
from vgpu_scheduler.predicates.interpod import INTER_POD_AFFINITY_PLUGIN, INTER_POD_AFFINITY_SCORE
from vgpu_scheduler.predicates.refusals import NODE_DECLARED_FEATURES_PLUGIN
from vgpu_scheduler.predicates.scores import ScorePlugin
from vgpu_scheduler.predicates.spread import POD_TOPOLOGY_SPREAD_PLUGIN, POD_TOPOLOGY_SPREAD_SCORE
from vgpu_scheduler.predicates.volumes import (
    NODE_VOLUME_LIMITS_PLUGIN,
    VOLUME_BINDING_PLUGIN,
    VOLUME_RESTRICTIONS_PLUGIN,
    VOLUME_ZONE_PLUGIN,
)

CLUSTER_PLUGINS: Final[tuple[ClusterPlugin, ...]] = (
    VOLUME_RESTRICTIONS_PLUGIN,
    NODE_VOLUME_LIMITS_PLUGIN,
    VOLUME_BINDING_PLUGIN,
    VOLUME_ZONE_PLUGIN,
    POD_TOPOLOGY_SPREAD_PLUGIN,
    INTER_POD_AFFINITY_PLUGIN,
    NODE_DECLARED_FEATURES_PLUGIN,
)
"""They run after the filters of single nodes; only the first that rejects a node is reported."""

SCORE_PLUGINS: Final[tuple[ScorePlugin, ...]] = (
    TAINT_TOLERATION_SCORE,
    NODE_AFFINITY_SCORE,
    POD_TOPOLOGY_SPREAD_SCORE,
    INTER_POD_AFFINITY_SCORE,
)
"""The plugins that score nodes by preferences; a node's score is the weighted sum of their points."""
