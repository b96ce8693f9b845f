"""Unschedulable pods that each node rejects for what it is by itself: only nodes that change are looked at for them."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.engine.cycle import Cycle
from vgpu_scheduler.engine.effective_policies import EffectivePolicies
from vgpu_scheduler.engine.parked import GroupKey
from vgpu_scheduler.engine.queue import Diagnosis, SchedulingQueue
from vgpu_scheduler.engine.waiting_needs import WaitingNeeds
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Hint

__all__ = ["WaitingForNodes"]

_FEW: Final = 32
"""As long as no more groups wait, each is tried on all nodes when a change could help it: what it says stays exact."""
_OF_ROOM: Final = Hint.NODE | Hint.RESOURCES | Hint.DEVICES | Hint.DEVICE_FREED | Hint.ALLOCATABLE
"""Changes after which a node helps whom it has room for."""
_MOST_LOOKED_AT: Final = 1024
"""If more nodes have changed, all are asked."""


class WaitingForNodes:
    """Tells which waiting pods a change may help, and which nodes to look at for them.

    Whatever alters a decision about a node raises that node's version. So versions say which nodes have changed, and
    nobody who gives a hint has to.

    Parameters
    ----------
    cycle, queue, needs, policies
        What it works with; the queue tells the needs which groups have gone.
    """

    def __init__(self, cycle: Cycle, queue: SchedulingQueue, needs: WaitingNeeds, policies: EffectivePolicies) -> None:
        self._state = cycle.state
        self._cycle = cycle
        self._queue = queue
        self._needs = needs
        self._policies = policies
        self._told_of = 0
        """The version of the nodes up to which their changes were held against the waiting pods."""

    def hint(self, hints: Hint, now: float) -> None:
        """Wake the pods that a change could help; of those that nodes reject only whom a changed node has room for."""
        if not hints:
            return
        few = len(self._needs) <= _FEW
        helped = [key for key in self._needs if key.waits_for & hints] if few else self._helped(hints)
        self._told_of = self._state.nodes.clock
        self._queue.hint(hints, now, helped, anew=few)

    def _helped(self, hints: Hint) -> list[GroupKey]:
        """Return whom the nodes that changed may help, and whom they reject for something else now."""
        found = self._needs.helped_by(self._state.nodes.changed_since(self._told_of))
        others = hints & ~_OF_ROOM
        if others:
            found += [key for key in self._needs if key.waits_for & others]
        return list(dict.fromkeys(found))

    def note(self, pod: Pod, group: GroupKey | None) -> None:
        """Note what the pods of a group need, of which one was just found unschedulable."""
        if group is not None and group.per_node:
            self._needs.put(group, pod, *self._cycle.need(pod))

    def changed_since(self, pod: Pod, diagnosis: Diagnosis) -> NDArray[np.int64] | None:
        """Return the nodes that may have come to help a pod since it was rejected; None if all have to be asked."""
        if self._state.nominations or not self._policies.as_decided(pod):
            return None
        rows = self._state.nodes.changed_since(diagnosis.clock)
        return rows if rows.size <= _MOST_LOOKED_AT else None
