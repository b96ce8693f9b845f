"""Rules for choosing devices that are shared by amounts, in addition to score and amounts (Koordinator)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kernels import (
    BY_SCORE,
    MACHINE,
    NO_CARD,
    NO_TABLE,
    NO_VENDOR,
    ChoiceScratch,
    ChoiceTerms,
    ConstrainedShareRequest,
    JointTerms,
    PartitionTerms,
    ScopeTerms,
)
from vgpu_scheduler.model import Claim
from vgpu_scheduler.state import DeviceMatrix


@dataclass(frozen=True, slots=True)
class ScopeOrder:
    """Choice by the topology tree of a node, on nodes where the places of all devices are known.

    Attributes
    ----------
    vendor
        The vendor of the devices.
    whole
        Tells whether a claim takes whole devices.
    required
        The level of the largest scope that all devices of a claim must be in (``MACHINE``, ``NUMA_NODE`` or
        ``SWITCH``), or ``BY_SCORE`` for no requirement; then only claims on whole devices, or on one, use the tree.
    """

    vendor: str
    whole: Callable[[Claim], bool]
    required: int = BY_SCORE


@dataclass(frozen=True, slots=True)
class DeviceWish:
    """A pod's further requirements on the devices of one vendor.

    Attributes
    ----------
    selected
        Tells by its labels whether the pod selects a device; None if it selects all.
    every
        The pod wants all devices of a node, whatever number it claims.
    functions
        The vendor of the virtual functions of these devices (their :attr:`Device.group` is the device's index): the pod
        wants an unused one with each device. Empty for none.
    """

    selected: Callable[[Mapping[str, str]], bool] | None = None
    every: bool = False
    functions: str = ""


_NO_WISH: Final = DeviceWish()


@dataclass(frozen=True, slots=True)
class PartitionOrder:
    """Choice by partition for whole devices, on nodes with a partition table.

    Attributes
    ----------
    vendor
        The vendor of the devices.
    whole
        Tells whether a claim takes whole devices.
    required
        Devices outside partitions are not accepted, whatever the node allows.
    first_only
        Only partitions of the lowest score are accepted.
    bandwidth
        The minimum bandwidth of the partition's bus, in bytes a second; None for no requirement.
    """

    vendor: str
    whole: Callable[[Claim], bool]
    required: bool = False
    first_only: bool = False
    bandwidth: int | None = None


@dataclass(frozen=True, slots=True)
class JointOrder:
    """Joint choice of devices of several vendors below the same switches.

    Attributes
    ----------
    vendors
        Devices of the first vendor determine the switches; the others follow.
    one_each
        The following vendors of which the pod gets one device per switch, if there are enough, even if it claims fewer.
    same_switch
        Whether all devices must be below the same switches.
    """

    vendors: tuple[str, ...]
    one_each: frozenset[str] = frozenset()
    same_switch: bool = False


@dataclass(frozen=True, slots=True)
class ShareChoice:
    """How the devices of one pod are chosen.

    Attributes
    ----------
    scopes
        Choice by the topology tree, or None.
    partitions
        Choice by partition, or None.
    wishes
        The pod's further requirements on devices, by vendor.
    joint
        Joint choice, or None; all claims on these vendors are of one container.
    """

    scopes: ScopeOrder | None = None
    partitions: PartitionOrder | None = None
    wishes: Mapping[str, DeviceWish] = field(default_factory=dict)
    joint: JointOrder | None = None

    @property
    def looks_further(self) -> bool:
        """Whether the fit of a claim on one device depends on more than that device's usage."""
        return any(wish.every or wish.functions for wish in self.wishes.values())

    def wish(self, vendor: str) -> DeviceWish:
        """Return the pod's further requirements on the devices of a vendor."""
        return self.wishes.get(vendor, _NO_WISH)

    def terms(self, claims: Sequence[Claim], devices: DeviceMatrix) -> ChoiceTerms | None:
        """Return the kernel's terms for choosing devices; None if only score and amounts matter."""
        by_tree = self._goes_by_tree(devices)
        partitions = self._partition_terms(claims, devices)
        wishes = [self.wish(claim.vendor) for claim in claims]
        joint = self._joint_terms(claims)
        if not (by_tree or partitions.claims.any() or self.looks_further or joint.follows.any()):
            return None
        most = max(devices.most_cards, 1)
        functions = [devices.vendor_number(wish.functions) if wish.functions else NO_VENDOR for wish in wishes]
        return ChoiceTerms(
            scopes=self._scope_terms(claims, by_tree=by_tree),
            every=np.array([wish.every for wish in wishes], dtype=np.bool_),
            functions=np.array(functions, dtype=np.int64),
            partitions=partitions,
            joint=joint,
            scratch=ChoiceScratch(
                picked=np.zeros(len(claims), dtype=np.int64),
                functions=np.full((len(claims), most), NO_CARD, dtype=np.int64),
                turn=np.zeros(most, dtype=np.int64),
            ),
        )

    def not_selected(self, devices: DeviceMatrix) -> NDArray[np.bool_]:
        """Mark the devices whose labels the pod does not select, shape (D,)."""
        wanted = {vendor: wish.selected for vendor, wish in self.wishes.items() if wish.selected is not None}
        if not wanted:
            return np.zeros(devices.size, dtype=np.bool_)
        label_sets, numbers = devices.label_sets
        out = [vendor in wanted and not wanted[vendor](dict(labels)) for vendor, labels in label_sets]
        # The entry for unused rows comes last, because their number is -1.
        return np.array([*out, False], dtype=np.bool_)[numbers]

    def _goes_by_tree(self, devices: DeviceMatrix) -> bool:
        """Tell whether claims may use the topology tree: a scope is required, or some node has a tree."""
        order = self.scopes
        return order is not None and (order.required != BY_SCORE or bool((devices.columns.group >= 0).any()))

    def _scope_terms(self, claims: Sequence[Claim], *, by_tree: bool) -> ScopeTerms:
        """Return which claims use the topology tree."""
        order = self.scopes
        if order is None or not by_tree:
            return ScopeTerms(np.full(len(claims), BY_SCORE), np.zeros(len(claims), dtype=np.bool_), required=False)
        levels = [
            order.required or (MACHINE if order.whole(claim) or claim.count == 1 else BY_SCORE)
            if claim.vendor == order.vendor
            else BY_SCORE
            for claim in claims
        ]
        whole = [order.whole(claim) for claim in claims]
        return ScopeTerms(
            np.array(levels, dtype=np.int64), np.array(whole, dtype=np.bool_), required=order.required != BY_SCORE
        )

    def _partition_terms(self, claims: Sequence[Claim], devices: DeviceMatrix) -> PartitionTerms:
        """Return which claims are placed by partition; none if no node has a table and none is required."""
        order = self.partitions
        tables, numbers = devices.partitions
        there = order is not None and (order.required or bool((numbers != NO_TABLE).any()))
        whole = [order is not None and claim.vendor == order.vendor and order.whole(claim) for claim in claims]
        return PartitionTerms(
            tables=tables,
            table=numbers,
            claims=np.array(whole, dtype=np.bool_) & there,
            required=order is not None and order.required,
            first_only=order is not None and order.first_only,
            bandwidth=-1 if order is None or order.bandwidth is None else order.bandwidth,
        )

    def _joint_terms(self, claims: Sequence[Claim]) -> JointTerms:
        """Return the order of the claims, and which of them follow the first."""
        vendors = () if self.joint is None else self.joint.vendors
        one_each = frozenset[str]() if self.joint is None else self.joint.one_each
        ranks = [vendors.index(claim.vendor) if claim.vendor in vendors else len(vendors) for claim in claims]
        order = sorted(range(len(claims)), key=ranks.__getitem__)
        follows = [0 < rank < len(vendors) for rank in ranks]
        own = [claim.vendor in one_each for claim in claims]
        return JointTerms(
            order=np.array(order, dtype=np.int64),
            first=order[0],
            follows=np.array(follows, dtype=np.bool_),
            one_each=np.array(own, dtype=np.bool_),
            same=self.joint is not None and self.joint.same_switch,
        )


def narrowed_to(request: ConstrainedShareRequest, cards: NDArray[np.int64]) -> ConstrainedShareRequest:
    """Return a request for some devices, each treated as a node of its own."""
    partitions = request.terms.partitions
    partitions = partitions._replace(table=partitions.table[cards])
    return request._replace(terms=request.terms._replace(partitions=partitions))
