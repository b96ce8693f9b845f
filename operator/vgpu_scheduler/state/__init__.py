"""The one owner of what is known: nodes, devices, pods, and who uses what.

A question about what would be is asked in one of these ways, each for the time of the question:

* ``State.without`` releases what some pods hold, ``State.having`` has one pod hold something: ledger, node and all that
  spans nodes change, so that versions rise and every part of a class that is asked meanwhile is computed anew;
* ``State.counting_across_nodes`` leaves out or adds reservations in what spans nodes alone (quotas, terms, volumes): no
  node and no version changes. The node that is asked about has to be asked with ``node_usage_if``, too;
* ``State.node_usage_if`` computes what would be in use of one node: an argument of the fit, which changes nothing;
* ``State.adjustment_if_gone`` computes, for both of these, which reservations to leave out and to add if some pods of a
  node were gone, since room is kept there for others.
"""

from vgpu_scheduler.state.amounts_by_topology import Item, from_size
from vgpu_scheduler.state.device_lists import canonical, distinct
from vgpu_scheduler.state.free_volumes import VolumeRequirement
from vgpu_scheduler.state.holds import RoomReservation
from vgpu_scheduler.state.in_use import InUse
from vgpu_scheduler.state.interpod import PodCounter
from vgpu_scheduler.state.matrix import DeviceMatrix
from vgpu_scheduler.state.node_resources import HostPorts
from vgpu_scheduler.state.nodes import NodeTable
from vgpu_scheduler.state.peers import PeerCards, PeerKeys, Peers
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
    "DeviceMatrix",
    "HostPorts",
    "InUse",
    "Item",
    "NodeCounts",
    "NodeTable",
    "PeerCards",
    "PeerKeys",
    "Peers",
    "Phase",
    "PodCounter",
    "QuotaUsage",
    "Reservation",
    "ResidentTerm",
    "RoomReservation",
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
