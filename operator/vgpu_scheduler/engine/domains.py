"""Topology domains: nodes with the same value of a label, and the order in which a group is tried on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.model import TopologyConstraint
from vgpu_scheduler.state import NodeTable


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """Nodes that are near each other.

    Attributes
    ----------
    name
        The label values that they have in common; empty where no labels are asked for.
    rows
        Their rows, ascending, shape (n,).
    """

    name: str
    rows: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class GroupRoom:
    """Upper bounds of how many pods of a group nodes have room for.

    Attributes
    ----------
    waiting
        Number of waiting pods of each kind, shape (kinds,).
    max_pods
        Upper bound for each kind and node row, shape (kinds, capacity).
    followed_by
        Number of pods that are placed one by one after these.
    """

    waiting: NDArray[np.int64]
    max_pods: NDArray[np.int64]
    followed_by: int = 0

    def is_for_all(self, within: int, max_pods: int) -> bool:
        """Tell whether there is room for all pods, including those that follow.

        Parameters
        ----------
        within
            Upper bound for the waiting pods.
        max_pods
            Upper bound for pods of these kinds, however many wait.
        """
        waiting = int(self.waiting.sum())
        return within >= waiting and max_pods >= waiting + self.followed_by

    def within(self, rows: NDArray[np.int64]) -> int:
        """Return an upper bound of how many of the waiting pods fit on the given nodes."""
        return int(np.minimum(self.max_pods[:, rows].sum(axis=1), self.waiting).sum())

    def max_pods_within(self, rows: NDArray[np.int64]) -> int:
        """Return an upper bound of how many pods of these kinds, however many wait, fit on the given nodes."""
        return int(self.max_pods[:, rows].sum())


def domains(nodes: NodeTable, keys: Sequence[str], rows: NDArray[np.int64]) -> list[Domain]:
    """Return the domains of some labels, by name; nodes that lack one of the labels are in no domain.

    Parameters
    ----------
    rows
        The nodes, ascending, shape (n,).
    """
    if not keys:
        return [Domain("", rows)] if rows.size else []
    ids = np.stack([nodes.labels.column(key).ids[rows] for key in keys])
    has_all = (ids >= 0).all(axis=0)
    rows, ids = rows[has_all], ids[:, has_all]
    if not rows.size:
        return []
    distinct, inverse = np.unique(ids, axis=1, return_inverse=True)
    order = np.argsort(inverse.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(inverse.ravel(), minlength=distinct.shape[1]))
    values = [nodes.labels.column(key).values for key in keys]
    found = [
        Domain(", ".join(of[number] for of, number in zip(values, numbers, strict=True)), of_domain)
        for numbers, of_domain in zip(distinct.T.tolist(), np.split(rows[order], ends[:-1]), strict=True)
    ]
    return sorted(found, key=lambda domain: domain.name)


def candidate_domains(
    nodes: NodeTable,
    constraints: Sequence[TopologyConstraint],
    room: GroupRoom,
    needed: int,
    placed: NDArray[np.int64],
) -> Iterator[Domain]:
    """Yield the domains that may have room for a group, in the order in which they are tried.

    The smallest domain with room for all waiting pods comes first; then the domains with room for as many as are
    needed, the largest first. Domains of preferred labels come before the larger domains that contain them.

    Parameters
    ----------
    needed
        How many pods have to be placed at once.
    placed
        The rows of nodes on which pods of the group are already, shape (n,): required labels must have their values.
    """
    required = tuple(dict.fromkeys(each.key for each in constraints if each.required))
    preferred = tuple(dict.fromkeys(each.key for each in constraints if not each.required and each.key not in required))
    around = _by_room(_around(domains(nodes, required, nodes.rows()), placed, nodes.capacity), room, needed)
    if preferred:
        near = [Domain(_named(each, one), one.rows) for each in around for one in domains(nodes, preferred, each.rows)]
        ranked = _by_room(near, room, needed)
        yield from sorted(ranked, key=lambda each: -np.isin(placed, each.rows).sum()) if placed.size else ranked
    for each in around:
        if preferred:
            yield _fewest(each, domains(nodes, preferred, each.rows), room)
        yield each


def domains_by_free_room(
    nodes: NodeTable, constraints: Sequence[TopologyConstraint], room: GroupRoom, placed: NDArray[np.int64]
) -> list[Domain]:
    """Return the domains that a group may be placed in, the one with the most room first, whatever is in use there.

    Preferred labels are ignored.

    Parameters
    ----------
    placed
        The rows of nodes on which pods of the group are already, shape (n,).
    """
    required = tuple(dict.fromkeys(each.key for each in constraints if each.required))
    around = _around(domains(nodes, required, nodes.rows()), placed, nodes.capacity)
    return sorted(around, key=lambda each: (-room.within(each.rows), each.name))


def _named(outer: Domain, inner: Domain) -> str:
    return f"{outer.name}, {inner.name}" if outer.name else inner.name


def _around(found: Sequence[Domain], placed: NDArray[np.int64], capacity: int) -> Sequence[Domain]:
    """Return the domain that contains all given rows; all domains if there are no rows, none if no domain does."""
    if not placed.size:
        return found
    domain_of = np.full(capacity, -1, dtype=np.int64)
    for number, each in enumerate(found):
        domain_of[each.rows] = number
    theirs = np.unique(domain_of[placed]).tolist()
    return [found[theirs[0]]] if len(theirs) == 1 and theirs[0] >= 0 else []


def _by_room(found: Sequence[Domain], room: GroupRoom, needed: int) -> list[Domain]:
    """Return the domains with room for as many pods as are needed, in the order in which they are tried."""
    if not found:
        return []
    starts = np.cumsum([0, *(each.rows.shape[0] for each in found[:-1])])
    sums = np.add.reduceat(room.max_pods[:, np.concatenate([each.rows for each in found])], starts, axis=1)
    most, max_pods = np.minimum(sums, room.waiting[:, np.newaxis]).sum(axis=0).tolist(), sums.sum(axis=0).tolist()
    ranked = [
        ((0, max_pods[number]) if room.is_for_all(most[number], max_pods[number]) else (1, -max_pods[number]), number)
        for number in range(len(found))
        if most[number] >= needed
    ]
    return [found[number] for _, number in sorted(ranked)]


def _fewest(outer: Domain, inner: Sequence[Domain], room: GroupRoom) -> Domain:
    """Return the union of the fewest inner domains, largest first, that together have room for all waiting pods."""
    rows, taken = outer.rows[:0], list[NDArray[np.int64]]()
    for each in sorted(inner, key=lambda each: (-room.max_pods_within(each.rows), each.name)):
        taken.append(each.rows)
        rows = np.sort(np.concatenate(taken))
        if room.is_for_all(room.within(rows), room.max_pods_within(rows)):
            return Domain(outer.name, rows)
    return outer
