"""Volumes: the storage objects, which pods on nodes use them, and what reservations have decided about them.

A reservation holds its volume decisions (a volume taken for a claim, a node selected for a claim) and gives them back
when it is released. Decisions that were written to the API meanwhile are in the objects, and stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from typing import Final, NamedTuple

from vgpu_scheduler.kube import (
    AttachedVolume,
    ClaimReference,
    CSINode,
    DiskKey,
    InlineDisk,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
    StorageObject,
    Volume,
    VolumeAttachment,
)
from vgpu_scheduler.model import NO_VOLUMES, ClusterEvent, VolumePlan
from vgpu_scheduler.state.amounts_by_topology import AmountsByTopology
from vgpu_scheduler.state.attached import AttachedVolumes
from vgpu_scheduler.state.free_volumes import FreeVolumes, VolumeRequirement
from vgpu_scheduler.state.storage import StorageObjects, helps, same


class DiskUse(NamedTuple):
    """How many pods on a node use a disk."""

    writers: int
    readers: int


class _Use(NamedTuple):
    """The claims and disks of a pod on a node, and the volume decisions of its reservation."""

    node: str
    claims: tuple[tuple[str, bool], ...]
    disks: tuple[InlineDisk, ...]
    plan: VolumePlan


class _Counted(NamedTuple):
    """How a claim in use counts towards attach limits, and the UID of the pod that controls it, if any."""

    attached: AttachedVolume | None
    controller: str


_NOTHING: Final = _Counted(None, "")
_UNUSED: Final = DiskUse(0, 0)


class Volumes:
    """Storage objects and their use.

    Notes
    -----
    All of it is a pure function of the objects, of the bound or assumed, non-terminal pods with the plans of those that
    are assumed, and of the nodes that are there.

    Attributes
    ----------
    objects
        The storage objects.
    attached
        What is attached to which node.
    being_made
        While an assumed pod is checked again: its claims whose volumes are being provisioned. The reported storage
        capacity of the node may already exclude them.
    """

    def __init__(self) -> None:
        self.objects = StorageObjects()
        self.attached = AttachedVolumes()
        self._uses: dict[str, _Use] = {}
        self._users: dict[str, dict[tuple[str, bool], str]] = {}  # by claim: UID and whether ephemeral, to node
        self._counted: dict[str, _Counted] = {}
        self._attached_by: dict[str, tuple[str, AttachedVolume]] = {}  # by VolumeAttachment
        self._disks: dict[DiskKey, dict[str, DiskUse]] = {}
        self._taken: dict[str, dict[str, int]] = {}  # by volume: claims, and how many reservations say so
        self._taken_for: dict[str, dict[str, int]] = {}  # the same by claim
        self._selected: dict[str, dict[str, int]] = {}  # by claim: nodes
        self._free = FreeVolumes()
        self.being_made: frozenset[str] = frozenset()

    @contextmanager
    def rechecking(self, plan: VolumePlan) -> Iterator[None]:
        """Set ``being_made`` to the claims that a plan provisions volumes for, inside the ``with`` block."""
        self.being_made = frozenset(plan.provisioned)
        try:
            yield
        finally:
            self.being_made = frozenset()

    # Questions -------------------------------------------------------------------------------------------------------

    def selected_node(self, claim: PersistentVolumeClaim) -> str | None:
        """Return the node that a claim's volume is provisioned for, as written or as decided; None if there is none."""
        if claim.selected_node is not None:
            return claim.selected_node
        nodes = self._selected.get(claim.key)
        return min(nodes) if nodes else None

    def reference(self, volume: Volume) -> ClaimReference | None:
        """Return the claim that a volume is bound to or kept for, as written or as decided; None if it is free."""
        if volume.claim is not None:
            return volume.claim
        claims = self._taken.get(volume.name)
        if not claims:
            return None
        namespace, _, name = min(claims).partition("/")
        return ClaimReference(namespace, name, "")

    def kept_for(self, claim: PersistentVolumeClaim) -> Volume | None:
        """Return the first volume by name that is reserved for an unbound claim and suits it, or None."""
        names = {*self.objects.kept_for(claim.key), *self._taken_for.get(claim.key, ())}
        if not names:
            return None
        wanted = VolumeRequirement.by(claim)
        for name in sorted(names):
            volume = self.objects.volumes.get(name)
            reference = None if volume is None else self.reference(volume)
            if volume is not None and reference is not None and reference.is_about(claim) and wanted.fits(volume):
                return volume
        return None

    def free(self, wanted: VolumeRequirement) -> AmountsByTopology:
        """Return the free volumes that suit a claim apart from their size, by the nodes that reach them.

        The result lists sizes and names, and stays up to date.
        """
        return self._free.like(wanted, (each for each in self.objects.volumes if self.reference(each) is None))

    def pods_of(self, claim: str) -> Iterable[str]:
        """Return the nodes of the pods that use a claim by its name; ephemeral volumes do not count."""
        return (node for (_, ephemeral), node in self._users.get(claim, {}).items() if not ephemeral)

    def disk_use(self, key: DiskKey) -> Mapping[str, DiskUse]:
        """Return for each node how many pods use a disk."""
        return self._disks.get(key, {})

    # Pods ------------------------------------------------------------------------------------------------------------

    def add(self, pod: Pod, node: str, plan: VolumePlan = NO_VOLUMES) -> ClusterEvent:
        """Take in that a pod is on a node, with the decisions about its claims; also when either has changed.

        Returns
        -------
        ClusterEvent
            Whether this may help pods that attach limits keep away.
        """
        self._put(pod.uid, _use_of(pod, node, plan))
        return self._freed()

    def remove(self, uid: str) -> ClusterEvent:
        """Take in that a pod has left its node, and give back the decisions about its claims.

        Returns
        -------
        ClusterEvent
            Whether this may help pods that attach limits keep away.
        """
        self._put(uid, None)
        return self._freed()

    def _put(self, uid: str, use: _Use | None) -> None:
        """Replace what a pod uses, if that has changed."""
        before = self._uses.get(uid)
        if before == use:
            return
        if before is not None:
            self._take_off(uid, before)
        if use is None:
            return
        self._uses[uid] = use
        for claim, ephemeral in use.claims:
            self._users.setdefault(claim, {})[uid, ephemeral] = use.node
            if claim not in self._counted:
                self._counted[claim] = self._count(claim)
            self._use(claim, uid, ephemeral=ephemeral, node=use.node, change=1)
        self._use_disks(use, 1)
        self._decide(use.plan, use.node, 1)

    def _take_off(self, uid: str, use: _Use) -> None:
        del self._uses[uid]
        for claim, ephemeral in use.claims:
            self._use(claim, uid, ephemeral=ephemeral, node=use.node, change=-1)
            users = self._users[claim]
            del users[uid, ephemeral]
            if not users:
                del self._users[claim], self._counted[claim]
        self._use_disks(use, -1)
        self._decide(use.plan, use.node, -1)

    def uses_any(self, uid: str) -> bool:
        """Tell whether a pod on a node uses claims or disks."""
        return uid in self._uses

    # Objects ---------------------------------------------------------------------------------------------------------

    def observe(self, obj: StorageObject) -> ClusterEvent:
        """Take in an object, unless it is older than the known version or removed; return the cluster event."""
        store = self.objects.store(type(obj))
        before = store.get(obj.key)
        return self._changed(before, obj) if store.put(obj.key, obj) else ClusterEvent.NONE

    def forget(self, obj: StorageObject, version: int) -> ClusterEvent:
        """Take in that an object is gone as of a resource version; return the cluster event."""
        store = self.objects.store(type(obj))
        before = store.get(obj.key)
        return self._changed(before, None) if store.remove(obj.key, obj.uid, version) else ClusterEvent.NONE

    def _changed(self, before: StorageObject | None, after: StorageObject | None) -> ClusterEvent:
        if before is not None and after is not None and same(before, after):
            return ClusterEvent.NONE
        if isinstance(before, Volume):
            self._place(before, add=False)
        if isinstance(after, Volume):
            self._place(after, add=True)
        self.objects.changed(before, after)
        found = before if after is None else after
        for claim in self._claims_about(found):
            self._recount(claim)
        for attachment in self._attachments_about(found):
            self._reattach(attachment)
        if isinstance(found, CSINode):
            self.attached.observe_node(found.name, None if after is None else found)
        return helps(before, after) | self._freed()

    def _freed(self) -> ClusterEvent:
        """Return the event for pods that attach limits keep away, if a node can attach more now."""
        return ClusterEvent.ATTACH_LIMIT if self.attached.take_freed() else ClusterEvent.NONE

    def _place(self, volume: Volume, *, add: bool) -> None:
        """Add a volume to the free ones, or discard it from them, if it is free."""
        if self.reference(volume) is None:
            place = self._free.add if add else self._free.discard
            place(volume)

    def _claims_about(self, obj: StorageObject | None) -> Iterable[str]:
        """Return the claims whose counting may change when an object changes."""
        match obj:
            case PersistentVolumeClaim():
                return (obj.key,)
            case Volume():
                return tuple(self.objects.claims_of(obj.name))
            case StorageClass():
                claims = ((key, self.objects.claims.get(key)) for key in self._counted)
                return tuple(key for key, claim in claims if claim is not None and claim.class_name == obj.name)
        return ()

    def _attachments_about(self, obj: StorageObject | None) -> Iterable[str]:
        match obj:
            case VolumeAttachment():
                return (obj.name,)
            case Volume():
                return tuple(self.objects.attachments_of(obj.name))
        return ()

    # Nodes -----------------------------------------------------------------------------------------------------------

    def node_came(self, node: str, row: int) -> None:
        """Take in that a node is there now."""
        self.attached.node_came(node, row)

    def node_went(self, node: str) -> None:
        """Take in that a node is not there any more."""
        self.attached.node_went(node)

    # The whole -------------------------------------------------------------------------------------------------------

    def as_values(self) -> object:
        """Return everything derived from objects, pods and nodes, for comparison."""
        return deepcopy((
            self.objects.as_values(), self.attached.as_values(), self._uses, self._users, self._counted,
            self._attached_by, self._disks, self._taken, self._taken_for, self._selected,
        ))  # fmt: skip

    # Inside ----------------------------------------------------------------------------------------------------------

    def _count(self, key: str) -> _Counted:
        claim = self.objects.claims.get(key)
        return _NOTHING if claim is None else _Counted(self.objects.attached_as(claim), claim.controller)

    def _use(self, claim: str, uid: str, *, ephemeral: bool, node: str, change: int) -> None:
        """Count a use of a claim as attached; for an ephemeral volume only if the pod controls the claim."""
        attached, controller = self._counted[claim]
        if attached is not None and (not ephemeral or controller == uid):
            self.attached.use(node, attached, change)

    def _recount(self, claim: str) -> None:
        before = self._counted.get(claim)
        after = self._count(claim)
        if before is None or before == after:
            return
        for counted, change in ((before, -1), (after, 1)):
            self._counted[claim] = counted
            for (uid, ephemeral), node in self._users[claim].items():
                self._use(claim, uid, ephemeral=ephemeral, node=node, change=change)

    def _reattach(self, name: str) -> None:
        before, after = self._attached_by.pop(name, None), self.objects.attachment(name)
        if before is not None:
            self.attached.attach(*before, -1)
        if after is not None:
            self._attached_by[name] = after
            self.attached.attach(*after, 1)

    def _use_disks(self, use: _Use, change: int) -> None:
        for disk in use.disks:
            for key in disk.keys:
                nodes = self._disks.setdefault(key, {})
                writers, readers = nodes.get(use.node, _UNUSED)
                now = DiskUse(writers, readers + change) if disk.read_only else DiskUse(writers + change, readers)
                if any(now):
                    nodes[use.node] = now
                else:
                    del nodes[use.node]
                if not nodes:
                    del self._disks[key]
            if disk.migrated is not None and disk.migrated.handle:
                self.attached.use(use.node, (disk.migrated.driver, disk.migrated.handle), change)

    def _decide(self, plan: VolumePlan, node: str, change: int) -> None:
        """Record the volume decisions of a reservation (``change`` = 1), or take them back (-1)."""
        for claim, name in plan.matched.items():
            volume = self.objects.volumes.get(name)
            if volume is not None:
                self._place(volume, add=False)
            _tally(self._taken, name, claim, change)
            _tally(self._taken_for, claim, name, change)
            if volume is not None:
                self._place(volume, add=True)
        for claim in plan.provisioned:
            _tally(self._selected, claim, node, change)


def _use_of(pod: Pod, node: str, plan: VolumePlan) -> _Use | None:
    """Return what a pod uses on a node; None if it is nothing."""
    spec = pod.spec
    if not (spec.volume_claims or spec.disks or plan):
        return None
    claims = {(f"{pod.namespace}/{each.claim(pod.name)}", each.ephemeral): None for each in spec.volume_claims}
    return _Use(node, tuple(claims), spec.disks, plan)


def _tally(counts: dict[str, dict[str, int]], key: str, name: str, change: int) -> None:
    names = counts.setdefault(key, {})
    count = names.get(name, 0) + change
    if count:
        names[name] = count
    else:
        del names[name]
    if not names:
        del counts[key]
