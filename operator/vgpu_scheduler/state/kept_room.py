"""Room that is kept for pods that are not there yet: it is charged as if they were, and grows as others leave."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from vgpu_scheduler.model import Hint, WakeSet
from vgpu_scheduler.state.holds import Hold, Holds, kept_now
from vgpu_scheduler.state.indexes import Indexes
from vgpu_scheduler.state.reservations import Reservation

__all__ = ["KeptRoom", "Supposed"]


class Supposed(NamedTuple):
    """What is charged otherwise for the time of a question.

    Attributes
    ----------
    without
        What is charged, and is left out.
    beside
        What is not charged, and is counted.
    """

    without: list[Reservation]
    beside: list[Reservation]


class KeptRoom:
    """Keeps room, and has it follow what is held by the pods that leave it.

    Parameters
    ----------
    indexes
        What it is charged in.
    reservations
        What pods hold, by UID.
    wakes
        Where it is noted in which namespaces devices were given back for good.
    charge_devices
        Adds (1) or gives back (-1) what a reservation holds of the devices of a node row.
    """

    def __init__(
        self,
        indexes: Indexes,
        reservations: Mapping[str, Reservation],
        wakes: WakeSet,
        charge_devices: Callable[[int, Reservation, int], None],
    ) -> None:
        self.holds = Holds()
        self._indexes = indexes
        self._reservations = reservations
        self._wakes = wakes
        self._charge_devices = charge_devices

    def on(self, node: str) -> list[Reservation]:
        """Return what is kept on a node now."""
        return [self.holds.kept(hold.uid) for hold in self.holds.on(node)]

    def adopt(self, other: KeptRoom) -> None:
        """Keep the same as another one, where it is charged already."""
        self.holds = other.holds.copy()

    def keep(self, hold: Hold) -> None:
        """Keep room for a pod that is not there yet; what was kept for it before is given back."""
        self.give_up(hold.uid)
        kept = self._kept_now(hold)
        self.holds.add(hold, kept)
        self._charge_kept(kept, 1)

    def give_up(self, uid: str) -> Hint:
        """Keep no room for a pod any more; return what that may help."""
        if self.holds.get(uid) is None:
            return Hint.NONE
        kept = self.holds.kept(uid)
        self._charge_kept(kept, -1)
        self.holds.remove(uid)
        if kept.uses_devices:
            self._wakes.returned.add(kept.namespace)
        return Hint.RESOURCES | (Hint.DEVICE_FREED if kept.uses_devices else Hint.NONE)

    def follow(self, uid: str) -> None:
        """Have what is kept follow what a pod holds now that leaves for others."""
        for kept_for in self.holds.left_for(uid) if self.holds else ():
            self._keep_anew(kept_for)

    def _keep_anew(self, uid: str) -> None:
        """Have what is kept for a pod follow what is there now."""
        hold = self.holds.get(uid)
        assert hold is not None
        kept, before = self._kept_now(hold), self.holds.kept(uid)
        if kept != before:
            self._charge_kept(before, -1)
            self.holds.keep(uid, kept)
            self._charge_kept(kept, 1)

    def supposing(self, node: str, gone: Sequence[Reservation], uid: str, priority: int) -> Supposed:
        """Return what is charged otherwise for a pod if some pods of a node were gone.

        Parameters
        ----------
        gone
            What is not in use there any more; what others leave for somebody is kept for that pod instead.
        uid, priority
            The pod that is asked about: its own room is open to it, and that which is kept for lower priorities.
        """
        without, beside = list(gone), list[Reservation]()
        absent = {held.uid for held in gone}
        for hold in self.holds.on(node) if self.holds else ():
            kept = self.holds.kept(hold.uid)
            if hold.uid == uid or hold.priority < priority:
                without.append(kept)
            elif not absent.isdisjoint(hold.leaving):
                without.append(kept)
                beside.append(self._kept_now(hold, absent))
        return Supposed(without, beside)

    def _kept_now(self, hold: Hold, absent: Collection[str] = ()) -> Reservation:
        there = (self._reservations.get(uid) for uid in sorted(hold.leaving.difference(absent)))
        return kept_now(hold, [held for held in there if held is not None and held.node == hold.node])

    def _charge_kept(self, kept: Reservation, sign: int) -> None:
        """Book room that is kept (``sign`` = 1), or give it back (-1)."""
        at, row = self._indexes, self._indexes.nodes.row(kept.node)
        at.quotas.charge(kept.namespace, kept.uses, sign, kept.node)
        if row is not None:
            charge = at.nodes.charge if sign > 0 else at.nodes.discharge
            charge(row, kept.requests, kept.pods, kept.ports)
            self._charge_devices(row, kept, sign)
