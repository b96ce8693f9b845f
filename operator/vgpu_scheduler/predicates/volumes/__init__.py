"""kube-scheduler's volume plugins, and the volume plan of a pod for its chosen node."""

from vgpu_scheduler.predicates.volumes.binding import VOLUME_BINDING_PLUGIN, volume_plan
from vgpu_scheduler.predicates.volumes.filters import (
    NODE_VOLUME_LIMITS_PLUGIN,
    VOLUME_RESTRICTIONS_PLUGIN,
    VOLUME_ZONE_PLUGIN,
)

__all__ = [
    "NODE_VOLUME_LIMITS_PLUGIN",
    "VOLUME_BINDING_PLUGIN",
    "VOLUME_RESTRICTIONS_PLUGIN",
    "VOLUME_ZONE_PLUGIN",
    "volume_plan",
]
