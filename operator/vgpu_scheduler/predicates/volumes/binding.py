"""Volumes for claims: kube-scheduler's VolumeBinding for many nodes at once, and the plan for one.

Volumes of bound claims must be reachable from the node. Claims that wait for their first consumer are matched with the
smallest suitable free volume, the smallest claim first; for the other claims a volume must be provisionable there.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kube import WAIT_FOR_FIRST_CONSUMER, NodeSelector, PersistentVolumeClaim, Pod, Volume
from vgpu_scheduler.model import NO_VOLUMES, VolumePlan
from vgpu_scheduler.predicates.filters import ClusterPlugin, FilterError
from vgpu_scheduler.predicates.reasons import (
    NO_STORAGE,
    NO_VOLUME,
    UNBOUND_IMMEDIATE,
    VOLUME_ELSEWHERE,
    VOLUME_GONE,
    Reason,
    Rejection,
    RejectionCodes,
    volume_problem,
)
from vgpu_scheduler.predicates.volumes.claim_messages import (
    MissingVolumeClaim,
    awaited_claim,
    deleted_claim,
    lost_claim,
)
from vgpu_scheduler.predicates.volumes.filters import (
    NamedClaim,
    VolumeFilter,
    existing_volume_claims,
    has_volume_claims,
    volume_claims_of,
)
from vgpu_scheduler.state import Item, State, VolumeRequirement, from_size

_NAME: Final = "VolumeBinding"
_REASONS: Final = (VOLUME_ELSEWHERE, NO_VOLUME, NO_STORAGE, VOLUME_GONE)
_ELSEWHERE, _NONE, _FULL, _GONE = 1, 2, 4, 8

Mask = NDArray[np.bool_]
Rows = NDArray[np.int64]


def _rejections() -> RejectionCodes:
    """Return codes in which each reason is one bit."""
    found = RejectionCodes()
    for bits in range(1, 1 << len(_REASONS)):
        reasons = tuple(reason for bit, reason in enumerate(_REASONS) if bits >> bit & 1)
        assert found.code(Rejection(reasons, resolvable=False)) == bits
    return found


@dataclass(frozen=True, slots=True)
class _Unbound:
    """The claims of a pod that wait for their first consumer.

    Attributes
    ----------
    selected
        Claims whose volume is being provisioned, each with the selected node.
    others
        Claims that still need a volume, the smallest first.
    """

    selected: Sequence[tuple[PersistentVolumeClaim, str]]
    others: Sequence[PersistentVolumeClaim]


def _bound(pod: Pod, state: State) -> Iterator[PersistentVolumeClaim]:
    return (claim for claim in existing_volume_claims(pod, state) if claim.bound)


def _unbound(pod: Pod, state: State) -> _Unbound:
    selected, others = [], []
    for claim in existing_volume_claims(pod, state):
        if claim.bound:
            continue
        node = state.volumes.selected_node(claim)
        if node is None:
            others.append(claim)
        else:
            selected.append((claim, node))
    others.sort(key=lambda claim: claim.requested or 0)
    return _Unbound(selected, others)


def _claim_problem(pod: Pod, named: NamedClaim) -> str:
    """Return the problem of a claim that does not depend on the node; empty if there is none."""
    claim = named.claim
    if claim is None:
        if named.ephemeral:
            return awaited_claim(named.name)
        return str(MissingVolumeClaim(named.name))
    if claim.phase == "Lost":
        return lost_claim(claim.name, claim.volume_name)
    if claim.deleting:
        return deleted_claim(claim.name)
    if named.ephemeral and claim.controller != pod.uid:
        return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"
    return ""


class _Binding(VolumeFilter):
    """Rejects nodes where the volume of a claim is unreachable, or a claim cannot get a volume."""

    rejections: Final = _rejections()

    def pre_filter(self, pod: Pod) -> Reason | None:
        """Return the reason why a claim of the pod cannot be used on any node.

        Raises
        ------
        FilterError
            If the class of a claim has no volume binding mode.
        """
        for named in volume_claims_of(pod, self._state):
            if problem := _claim_problem(pod, named):
                return volume_problem(_NAME, problem)
        # Check all claims, so that an error is raised whatever the other claims are.
        waiting = [self._waits(claim) for claim in existing_volume_claims(pod, self._state) if not claim.bound]
        return None if all(waiting) else UNBOUND_IMMEDIATE

    def _waits(self, claim: PersistentVolumeClaim) -> bool:
        """Tell whether a claim that is not bound waits for its first consumer."""
        found = self._state.volumes.objects.class_of(claim)
        if found is None:
            return False
        if found.binding_mode is None:
            raise FilterError(f'VolumeBindingMode not set for StorageClass "{found.name}"')
        return found.binding_mode == WAIT_FOR_FIRST_CONSUMER and not claim.volume_name

    def evaluate(self, pod: Pod, rows: Rows) -> NDArray[np.int32] | None:
        """Filter nodes; see :class:`ClusterFilter`.

        Raises
        ------
        FilterError
            If an in-tree disk cannot be translated for a node where its plugin is migrated.
        """
        codes = np.zeros(rows.shape[0], dtype=np.int32)
        for claim in _bound(pod, self._state):
            self._check_bound(claim, rows, codes)
        unbound = _unbound(pod, self._state)
        if unbound.selected or unbound.others:
            codes |= self._check_unbound(unbound, rows)
        return codes if codes.any() else None

    # Bound claims ----------------------------------------------------------------------------------------------------

    def _check_bound(self, claim: PersistentVolumeClaim, rows: Rows, codes: NDArray[np.int32]) -> None:
        """Write a code where a bound claim's volume is unreachable, unless an earlier claim has written one."""
        volume = self._state.volumes.objects.volumes.get(claim.volume_name)
        undecided = codes == RejectionCodes.PASSES
        if volume is None:
            codes[undecided] = _GONE
        elif (reached := self._reached(volume, rows, undecided)) is not None:
            codes[undecided & ~reached] = _ELSEWHERE

    def _reached(self, volume: Volume, rows: Rows, asked: Mask) -> Mask | None:
        """Return the nodes that a volume can be reached from; None for all."""
        reached = None if volume.node_affinity is None else self._selected(volume.node_affinity, rows)
        if volume.disk is None or (volume.migrated_affinity is None and not volume.disk.problem and reached is None):
            return reached
        migrated = self._migrated(volume.disk.plugin, rows)
        if volume.disk.problem and (migrated & asked).any():
            raise FilterError(f"could not translate pv: {volume.disk.problem}")
        if not migrated.any():
            return reached
        everywhere = np.ones(rows.shape[0], dtype=np.bool_)
        instead = everywhere if volume.migrated_affinity is None else self._selected(volume.migrated_affinity, rows)
        return np.where(migrated, instead, everywhere if reached is None else reached)

    def _migrated(self, plugin: str, rows: Rows) -> Mask:
        """Return the nodes where an in-tree plugin is migrated."""
        column = self._state.volumes.attached.migrated_column(self._state.nodes.capacity)
        answers = np.array([*(plugin in plugins for plugins in column.values), False])
        return answers.take(column.ids.take(rows))

    # Claims that wait for their first consumer -----------------------------------------------------------------------

    def _check_unbound(self, unbound: _Unbound, rows: Rows) -> NDArray[np.int32]:
        """Return a code for each row, that of the first unbound claim that cannot get a volume there."""
        codes = np.zeros(rows.shape[0], dtype=np.int32)
        undecided = np.ones(rows.shape[0], dtype=np.bool_)
        for _, node in unbound.selected:
            undecided &= rows == self._row(node)
        codes[~undecided] = _NONE
        for claim, _ in unbound.selected:
            self._check_provision(claim, rows, codes, undecided)
        for claim, matched in zip(unbound.others, self._match(unbound.others, rows, undecided), strict=True):
            self._check_provision(claim, rows, codes, undecided & ~matched)
            undecided &= codes == RejectionCodes.PASSES
        return codes

    def _row(self, node: str) -> int:
        row = self._state.nodes.row(node)
        return -1 if row is None else row

    def _check_provision(
        self, claim: PersistentVolumeClaim, rows: Rows, codes: NDArray[np.int32], needed: Mask
    ) -> None:
        """Write a code where no volume can be provisioned for a claim, and clear these rows in ``needed``."""
        if not needed.any():
            return
        possible = self._can_be_made(claim, rows)
        if possible is not None:
            codes[needed & ~possible] = _NONE
            needed &= possible
        room = self._has_room(claim, rows)
        if room is not None:
            codes[needed & ~room] = _FULL
            needed &= room

    def _can_be_made(self, claim: PersistentVolumeClaim, rows: Rows) -> Mask | None:
        """Return the nodes where the class of a claim allows provisioning; None for all."""
        found = self._state.volumes.objects.class_of(claim)
        if found is None:
            raise FilterError(f'failed to find storage class "{claim.class_name}"')
        if not found.provisions:
            return np.zeros(rows.shape[0], dtype=np.bool_)
        return None if found.allowed_topologies is None else self._selected(found.allowed_topologies, rows)

    def _has_room(self, claim: PersistentVolumeClaim, rows: Rows) -> Mask | None:
        """Return the nodes where a driver reports enough storage capacity; None if capacity is not checked."""
        objects = self._state.volumes.objects
        if claim.key in self._state.volumes.being_made:
            return None
        found = objects.class_of(claim)
        driver = objects.csi_drivers.get(found.provisioner) if found is not None else None
        if found is None or claim.requested is None or driver is None or not driver.storage_capacity:
            return None
        places = objects.capacities_of(found.name)
        if places is None:
            return np.zeros(rows.shape[0], dtype=np.bool_)
        return places.count(self._state.nodes, rows, self._selected, claim.requested) > 0

    def _match(self, claims: Sequence[PersistentVolumeClaim], rows: Rows, asked: Mask) -> list[Mask]:
        """Return, for each claim, the nodes that have a matching volume which no earlier claim of the pod takes."""
        matched: dict[str, Mask] = {}
        by_kind: dict[Hashable, list[tuple[PersistentVolumeClaim, VolumeRequirement]]] = {}
        for claim in claims:
            kept = self._state.volumes.kept_for(claim)
            if kept is not None:
                matched[claim.key] = self._kept_reached(kept, rows)
            else:
                wanted = VolumeRequirement.by(claim)
                by_kind.setdefault(wanted.kind, []).append((claim, wanted))
        for group in by_kind.values():
            counts = [self._free(wanted, rows, len(group)) for _, wanted in group]
            if len({wanted.of_any_size for _, wanted in group}) == 1:
                found = _found_of_one_kind(counts)
            else:
                found = self._found_of_many_kinds([claim for claim, _ in group], counts, rows, asked)
            matched.update(zip((claim.key for claim, _ in group), found, strict=True))
        return [matched[claim.key] for claim in claims]

    def _free(self, wanted: VolumeRequirement, rows: Rows, at_most: int) -> NDArray[np.int64]:
        places = self._state.volumes.free(wanted)
        return places.count(self._state.nodes, rows, self._selected, wanted.size, at_most)

    def _found_of_many_kinds(
        self, claims: Sequence[PersistentVolumeClaim], counts: Sequence[NDArray[np.int64]], rows: Rows, asked: Mask
    ) -> list[Mask]:
        """Return where volumes are found for claims that may compete for some of the same volumes."""
        # Earlier claims take at most one volume each: if a node has more suitable volumes than that, one is left.
        matched = [count > before for before, count in enumerate(counts)]
        unsure = np.zeros(rows.shape[0], dtype=np.bool_)
        for before, count in enumerate(counts):
            unsure |= (count > 0) & (count <= before)
        for position in np.flatnonzero(unsure & asked).tolist():
            found = _assign(claims, self._state, int(rows[position]))
            for mask, volume in zip(matched, found, strict=True):
                mask[position] = volume is not None
        return matched

    def _kept_reached(self, kept: Volume, rows: Rows) -> Mask:
        if kept.node_affinity is None:
            return np.ones(rows.shape[0], dtype=np.bool_)
        return self._selected(kept.node_affinity, rows)


def _found_of_one_kind(counts: Sequence[NDArray[np.int64]]) -> list[Mask]:
    """Return where volumes are found for claims that differ only in size, the smallest claim first.

    Each claim takes the smallest volume that is large enough, so the largest volumes are left for the next claim, one
    less than before. The next claim is larger: the number of volumes that it can use is the smaller of the number left
    and the number large enough for it.
    """
    found = []
    left = counts[0]
    for count in counts:
        left = np.minimum(left, count)
        found.append(left > 0)
        left = np.maximum(left - 1, 0)
    return found


def _assign(claims: Sequence[PersistentVolumeClaim], state: State, row: int) -> list[str | None]:
    """Return the volume that each claim gets on a node, None for claims without one."""
    node = state.node(state.nodes.name(row))
    assert node is not None
    taken: set[str] = set()
    found: list[str | None] = []
    for claim in claims:
        kept = state.volumes.kept_for(claim)
        if kept is not None:
            reached = _reaches(kept.node_affinity, node.labels)
            found.append(kept.name if reached else None)
            continue
        wanted = VolumeRequirement.by(claim)
        firsts = (_first(items, wanted.size, taken) for items in state.volumes.free(wanted).at(node.labels))
        best = min((item for item in firsts if item is not None), default=None)
        found.append(None if best is None else best[1])
        if best is not None:
            taken.add(best[1])
    return found


def _first(items: Sequence[Item], size: int, taken: Set[str]) -> Item | None:
    """Return the first of some sorted volumes that is large enough and not taken."""
    positions = range(from_size(items, size), len(items))
    return next((items[position] for position in positions if items[position][1] not in taken), None)


def _reaches(selector: NodeSelector | None, labels: Mapping[str, str]) -> bool:
    return selector is None or selector.matches("", labels)


def volume_plan(pod: Pod, row: int, state: State) -> VolumePlan:
    """Return which volumes to match and which to provision for a pod on a feasible node."""
    if not pod.spec.volume_claims:
        return NO_VOLUMES
    unbound = _unbound(pod, state)
    if not unbound.selected and not unbound.others:
        return NO_VOLUMES
    matched, provisioned = {}, [claim.key for claim, _ in unbound.selected]
    for claim, volume in zip(unbound.others, _assign(unbound.others, state, row), strict=True):
        if volume is None:
            provisioned.append(claim.key)
        else:
            matched[claim.key] = volume
    return VolumePlan(matched, tuple(provisioned))


VOLUME_BINDING_PLUGIN: Final = ClusterPlugin(_NAME, has_volume_claims, _Binding)
