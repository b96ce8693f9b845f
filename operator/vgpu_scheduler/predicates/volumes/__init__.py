"""kube-scheduler's plugins for volumes, and what is to be done about a pod's claims on the node that was chosen."""

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
