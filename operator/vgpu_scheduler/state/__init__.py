"""The state of the cluster: nodes, devices, pods and their usage.

Hypothetical questions use one of these; context managers restore the state at their end:

* ``State.without`` releases the reservations of some pods, ``State.having`` books one: ledger, node and cross-node
  counters change, so versions rise and cached parts of equivalence classes are computed again;
* ``State.counting_across_nodes`` leaves out or adds reservations in the cross-node counters alone (quotas, terms,
  volumes): no node and no version changes. The node in question also needs ``node_usage_if``;
* ``State.node_usage_if`` computes the hypothetical usage of one node, an argument of the fit; it changes nothing;
* ``State.adjustment_if_gone`` computes, for the previous two, which reservations to leave out and to add if some pods
  of a node were gone, considering the room that is kept there for other pods.
"""

from vgpu_scheduler.state.amounts_by_topology import Item, from_size
from vgpu_scheduler.state.device_lists import canonical
from vgpu_scheduler.state.free_volumes import VolumeRequirement
from vgpu_scheduler.state.holds import Hold
from vgpu_scheduler.state.in_use import InUse
from vgpu_scheduler.state.interpod import PodCounter
from vgpu_scheduler.state.matrix import DeviceMatrix
from vgpu_scheduler.state.node_resources import HostPorts
from vgpu_scheduler.state.nodes import NodeTable
from vgpu_scheduler.state.peers import PeerCards, PeerKeys, Peers
from vgpu_scheduler.state.quotas import QuotaUsage
from vgpu_scheduler.state.reader import UsedAmounts
from vgpu_scheduler.state.reservations import Phase, Reservation
from vgpu_scheduler.state.resident_terms import NodeCounts, ResidentTerm
from vgpu_scheduler.state.row_segments import RowSegments
from vgpu_scheduler.state.savepoint import Savepoint
from vgpu_scheduler.state.selecting import DefaultSpreadSelectors
from vgpu_scheduler.state.state import State
from vgpu_scheduler.state.storage import STORAGE_KINDS
from vgpu_scheduler.state.volumes import Volumes

__all__ = [
    "STORAGE_KINDS",
    "DefaultSpreadSelectors",
    "DeviceMatrix",
    "Hold",
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
    "RowSegments",
    "Savepoint",
    "State",
    "UsedAmounts",
    "VolumeRequirement",
    "Volumes",
    "canonical",
    "from_size",
]
