"""The one owner of what is known: nodes, devices, pods, and who uses what."""

from vgpu_scheduler.state.amounts_by_topology import Item, from_size
from vgpu_scheduler.state.attached import UNLIMITED
from vgpu_scheduler.state.device_lists import canonical, distinct
from vgpu_scheduler.state.free_volumes import VolumeRequirement
from vgpu_scheduler.state.holds import Hold, Holds
from vgpu_scheduler.state.in_use import InUse
from vgpu_scheduler.state.interpod import InterPodCounts, PodCounter
from vgpu_scheduler.state.matrix import DeviceMatrix
from vgpu_scheduler.state.node_resources import HostPorts
from vgpu_scheduler.state.nodes import NodeTable
from vgpu_scheduler.state.peers import HeldCards, PeerKeys, Peers
from vgpu_scheduler.state.quotas import QuotaUsage
from vgpu_scheduler.state.reservations import Phase, Reservation
from vgpu_scheduler.state.resident_terms import NodeCounts, ResidentTerm
from vgpu_scheduler.state.rollback import StateBeforeRollback
from vgpu_scheduler.state.row_segments import RowSegments
from vgpu_scheduler.state.selecting import SelectingObjects
from vgpu_scheduler.state.state import State, UsedAmounts
from vgpu_scheduler.state.storage import STORAGE_KINDS
from vgpu_scheduler.state.volumes import Volumes

__all__ = [
    "STORAGE_KINDS",
    "UNLIMITED",
    "DeviceMatrix",
    "HeldCards",
    "Hold",
    "Holds",
    "HostPorts",
    "InUse",
    "InterPodCounts",
    "Item",
    "NodeCounts",
    "NodeTable",
    "PeerKeys",
    "Peers",
    "Phase",
    "PodCounter",
    "QuotaUsage",
    "Reservation",
    "ResidentTerm",
    "RowSegments",
    "SelectingObjects",
    "State",
    "StateBeforeRollback",
    "UsedAmounts",
    "VolumeRequirement",
    "Volumes",
    "canonical",
    "distinct",
    "from_size",
]
