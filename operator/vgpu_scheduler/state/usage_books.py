"""The books in which the usage of reservations is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vgpu_scheduler.state.interpod import InterPodCounts
from vgpu_scheduler.state.matrix import DeviceMatrix
from vgpu_scheduler.state.nodes import NodeTable
from vgpu_scheduler.state.peers import PeerIndex
from vgpu_scheduler.state.quotas import QuotaUsage
from vgpu_scheduler.state.volumes import Volumes


@dataclass(frozen=True, slots=True)
class UsageBooks:
    """The books in which the usage of reservations is kept; it is derived from the reservations alone.

    Attributes
    ----------
    nodes
        Requests and host ports by node.
    matrices
        Amounts of devices by dialect.
    quota_usage
        Amounts of devices by namespace.
    interpod
        Counts of the pods that inter-pod terms select.
    volumes
        Claims, disks and attached volumes, and the decisions about claims.
    peers
        The reservations of peers, pods that share no card with each other.
    """

    nodes: NodeTable
    matrices: Mapping[str, DeviceMatrix]
    quota_usage: QuotaUsage
    interpod: InterPodCounts
    volumes: Volumes
    peers: PeerIndex = field(default_factory=PeerIndex)
