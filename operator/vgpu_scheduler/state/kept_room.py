"""Room that is kept for pods that are not there yet: it is charged as if they were, and grows as others leave."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
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
        nothing = replace(hold.claim, uses={}, requests={}, ports=(), pods=0)
        self.holds.add(hold, nothing)
        self._keep_anew(hold.node)

    def give_up(self, uid: str) -> Hint:
        """Keep no room for a pod any more; return what that may help."""
        if self.holds.get(uid) is None:
            return Hint.NONE
        kept = self.holds.kept(uid)
        self._charge_kept(kept, -1)
        self._keep_anew(self.holds.remove(uid).node)
        if kept.uses_devices:
            self._wakes.returned.add(kept.namespace)
        return Hint.RESOURCES | (Hint.DEVICE_FREED if kept.uses_devices else Hint.NONE)

    def follow(self, uid: str) -> None:
        """Have what is kept follow what a pod holds now that leaves for others."""
        for node in self.holds.nodes_left_by(uid) if self.holds else ():
            self._keep_anew(node)

    def _keep_anew(self, node: str) -> None:
        """Have what is kept on a node follow what is there now."""
        holds = self.holds.on(node)
        for hold, kept in zip(holds, self._kept_now(holds), strict=True):
            before = self.holds.kept(hold.uid)
            if kept != before:
                self._charge_kept(before, -1)
                self.holds.keep(hold.uid, kept)
                self._charge_kept(kept, 1)

    def supposing(self, node: str, gone: Sequence[Reservation], open_: Collection[str]) -> Supposed:
        """Return what is charged otherwise if some pods of a node were gone.

        Parameters
        ----------
        gone
            What is not in use there any more; what others leave for somebody is kept for that pod instead.
        open_
            The UIDs of the pods whose room is free for the pod that is asked about.
        """
        without, beside, absent = list(gone), list[Reservation](), {held.uid for held in gone}
        holds = self.holds.on(node) if self.holds else []
        without += [self.holds.kept(hold.uid) for hold in holds if hold.uid in open_]
        others = [hold for hold in holds if hold.uid not in open_]
        for hold, kept in zip(others, self._kept_now(others, absent), strict=True):
            now = self.holds.kept(hold.uid)
            if kept != now:
                without.append(now)
                beside.append(kept)
        return Supposed(without, beside)

    def _kept_now(self, holds: Sequence[Hold], absent: Collection[str] = ()) -> list[Reservation]:
        """Return what is kept for pods while those are there that leave for them, some aside."""
        uids = {uid for hold in holds for uid in hold.leaving}.difference(absent)
        there = {uid: held for uid in sorted(uids) if (held := self._reservations.get(uid)) is not None}
        return kept_now(holds, there)

    def _charge_kept(self, kept: Reservation, sign: int) -> None:
        """Book room that is kept (``sign`` = 1), or give it back (-1)."""
        at, row = self._indexes, self._indexes.nodes.row(kept.node)
        at.quotas.charge(kept.namespace, kept.uses, sign, kept.node)
        if row is not None:
            charge = at.nodes.charge if sign > 0 else at.nodes.discharge
            charge(row, kept.requests, kept.pods, kept.ports)
            self._charge_devices(row, kept, sign)
