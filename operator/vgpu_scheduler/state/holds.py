"""Room that is kept on a node for a pod that is not there yet, while those that have to leave it are still there.

What is kept is what the pod will hold less what the leaving pods hold now, of each card and each amount, and never less
than nothing. So usage never exceeds what there is, and as pods leave, what they held is kept instead of being free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from vgpu_scheduler.model import Amounts, Usage, Uses, add
from vgpu_scheduler.state.reservations import Reservation

__all__ = ["Hold", "Holds"]


@dataclass(frozen=True, slots=True)
class Hold:
    """Room for a pod that is not bound yet.

    Attributes
    ----------
    claim
        What the pod will hold: its phase is ``HELD``.
    priority
        That of the pod: only pods of this priority or a lower one are kept away.
    leaving
        The UIDs of the pods that have to leave; those that hold nothing any more have left.
    """

    claim: Reservation
    priority: int
    leaving: frozenset[str] = frozenset()

    @property
    def uid(self) -> str:
        """The UID of the pod."""
        return self.claim.uid

    @property
    def node(self) -> str:
        """The name of the node."""
        return self.claim.node


class Holds:
    """The room that is kept, by pod and by node."""

    def __init__(self) -> None:
        self._holds: dict[str, Hold] = {}
        self._kept: dict[str, Reservation] = {}
        self._on_node: dict[str, dict[str, None]] = {}
        self._left_for: dict[str, dict[str, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._holds)

    def __iter__(self) -> Iterator[Hold]:
        return iter(self._holds.values())

    def get(self, uid: str) -> Hold | None:
        """Return what is kept for a pod, or None."""
        return self._holds.get(uid)

    def kept(self, uid: str) -> Reservation:
        """Return what is kept now for a pod that room is kept for."""
        return self._kept[uid]

    def on(self, node: str) -> list[Hold]:
        """Return the holds on a node, in the order in which they began."""
        return [self._holds[uid] for uid in self._on_node.get(node, ())]

    def looked_past(self, node: str, uid: str, priority: int) -> list[Reservation]:
        """Return what is kept on a node and does not keep a pod away: its own room, and that of lower priorities."""
        holds = self.on(node) if self._on_node else ()
        return [self._kept[hold.uid] for hold in holds if hold.uid == uid or hold.priority < priority]

    def nodes(self) -> Iterable[str]:
        """Return the names of the nodes with holds, sorted."""
        return sorted(self._on_node)

    def left_for(self, uid: str) -> Iterable[str]:
        """Return the UIDs of the pods for which a pod has to leave."""
        return tuple(self._left_for.get(uid, ()))

    def add(self, hold: Hold, kept: Reservation) -> None:
        """Take a hold in, with what is kept now; the pod must have none."""
        assert hold.uid not in self._holds, f"room is kept for pod {hold.claim.pod} already"
        self._holds[hold.uid], self._kept[hold.uid] = hold, kept
        self._on_node.setdefault(hold.node, {})[hold.uid] = None
        for uid in sorted(hold.leaving):
            self._left_for.setdefault(uid, {})[hold.uid] = None

    def keep(self, uid: str, kept: Reservation) -> None:
        """Keep another amount for a pod from now on."""
        self._kept[uid] = kept

    def remove(self, uid: str) -> Hold:
        """Forget a hold."""
        hold = self._holds.pop(uid)
        del self._kept[uid]
        _discard(self._on_node, hold.node, uid)
        for leaving in hold.leaving:
            _discard(self._left_for, leaving, uid)
        return hold

    def copy(self) -> Holds:
        """Return an independent copy."""
        twin = Holds()
        twin._holds, twin._kept = dict(self._holds), dict(self._kept)
        twin._on_node = {node: dict(uids) for node, uids in self._on_node.items()}
        twin._left_for = {uid: dict(uids) for uid, uids in self._left_for.items()}
        return twin


def _discard(sets: dict[str, dict[str, None]], key: str, uid: str) -> None:
    sets[key].pop(uid, None)
    if not sets[key]:
        del sets[key]


def kept_now(
    hold: Hold,
    leaving: Iterable[Reservation],
    charges: Callable[[str, Reservation], Mapping[str, Amounts]],
    sharing: Sequence[tuple[Reservation, Reservation]] = (),
) -> Reservation:
    """Return what has to be kept while some pods are still there.

    Where several wait for the end of one pod, what that pod holds is theirs together, once: what is kept for all of
    them is what they will hold less what the leaving pods hold, so it never grows by more than one of these leaves.

    Parameters
    ----------
    hold
        The room.
    leaving
        What those hold that have to leave and are still on the node; those of the earlier holds, too.
    charges
        Returns what a reservation is charged on each listed device of a dialect.
    sharing
        What is claimed and what is kept by earlier holds that wait for some of the same pods.
    """
    claim, there = hold.claim, list(leaving)
    if not there:
        return claim
    requests, ports = dict(claim.requests), set(claim.ports)
    for other, kept in sharing:
        for name in requests:
            requests[name] += other.requests.get(name, 0) - kept.requests.get(name, 0)
    for held in there:
        ports.difference_update(held.ports)
        for name, amount in held.requests.items():
            if name in requests:
                requests[name] -= amount
    uses: Uses = {
        dialect: _less(
            usage,
            [charges(dialect, held) for held in there] + [_charges(kept, dialect) for _, kept in sharing],
            [_charges(other, dialect) for other, _ in sharing],
        )
        for dialect, usage in claim.uses.items()
    }
    pods = claim.pods + sum(other.pods - kept.pods for other, kept in sharing) - len(there)
    return replace(
        claim,
        uses={dialect: usage for dialect, usage in uses.items() if usage.charges},
        requests={name: min(amount, claim.requests[name]) for name, amount in requests.items() if amount > 0},
        ports=tuple(port for port in claim.ports if port in ports),
        pods=min(max(pods, 0), claim.pods),
    )


def _charges(held: Reservation, dialect: str) -> Mapping[str, Amounts]:
    usage = held.uses.get(dialect)
    return {} if usage is None else usage.charges


def _less(usage: Usage, others: Iterable[Mapping[str, Amounts]], beside: Iterable[Mapping[str, Amounts]] = ()) -> Usage:
    """Return what is used, with what is used beside it, beyond what others use of the same devices."""
    left = dict(usage.charges)
    for claimed in beside:
        for uuid, amounts in claimed.items():
            if uuid in left:
                left[uuid] = add(left[uuid], amounts)
    for charged in others:
        for uuid, amounts in charged.items():
            if uuid in left:
                mine = left[uuid]
                theirs = amounts + (0,) * (len(mine) - len(amounts))
                left[uuid] = tuple(own - other for own, other in zip(mine, theirs, strict=False))
    charges = {
        uuid: tuple(min(max(amount, 0), most) for amount, most in zip(amounts, usage.charges[uuid], strict=False))
        for uuid, amounts in left.items()
    }
    return Usage({uuid: amounts for uuid, amounts in charges.items() if any(amounts)}, vendors=usage.vendors)
