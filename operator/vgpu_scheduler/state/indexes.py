"""What is known of who uses what, each part from its own side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vgpu_scheduler.state.interpod import InterPodCounts
from vgpu_scheduler.state.matrix import DeviceMatrix
from vgpu_scheduler.state.nodes import NodeTable
from vgpu_scheduler.state.peers import PeerIndex
from vgpu_scheduler.state.quotas import QuotaUsage
from vgpu_scheduler.state.volumes import Volumes

__all__ = ["Indexes"]


@dataclass(frozen=True, slots=True)
class Indexes:
    """What is known of who uses what, each part from its own side; all of it follows from the reservations.

    Attributes
    ----------
    nodes
        Requests and host ports by node.
    matrices
        Amounts of devices by dialect.
    quota_usage
        Amounts of devices by namespace.
    interpod
        Counts of the pods that inter-pod terms are about.
    volumes
        Claims, disks and attached volumes, and what was decided about claims.
    peers
        What is held by pods that others share no card with.
    """

    nodes: NodeTable
    matrices: Mapping[str, DeviceMatrix]
    quota_usage: QuotaUsage
    interpod: InterPodCounts
    volumes: Volumes
    peers: PeerIndex = field(default_factory=PeerIndex)
