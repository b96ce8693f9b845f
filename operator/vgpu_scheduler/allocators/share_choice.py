"""How devices that are shared by amounts are chosen, where score and amounts are not all."""

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
    ChoosyRequest,
    JointTerms,
    PartitionTerms,
    ScopeTerms,
)
from vgpu_scheduler.model import Claim
from vgpu_scheduler.state import DeviceMatrix


@dataclass(frozen=True, slots=True)
class ScopeOrder:
    """How devices are chosen by their place in the topology tree of the node, where it knows the places of all.

    Attributes
    ----------
    vendor
        Whose devices.
    whole
        Tells whether a claim takes devices whole.
    required
        The level of the largest scope that all devices of a claim must be in (``MACHINE``, ``NUMA_NODE`` or
        ``SWITCH``), or ``BY_SCORE`` where any will do. Then only claims on whole devices, or on one, go by the tree.
    """

    vendor: str
    whole: Callable[[Claim], bool]
    required: int = BY_SCORE


@dataclass(frozen=True, slots=True)
class DeviceWish:
    """What a pod says of the devices of one vendor, beside how many and how much of each.

    Attributes
    ----------
    selected
        Tells by its labels whether it wants a device; None if it wants any.
    every
        It wants all of them that a node has, so that the number that it claims says nothing.
    functions
        The vendor of devices that belong to these (their :attr:`Device.group` is its index): with each it wants one of
        them that nobody has. Empty where it wants none.
    """

    selected: Callable[[Mapping[str, str]], bool] | None = None
    every: bool = False
    functions: str = ""


_NO_WISH: Final = DeviceWish()


@dataclass(frozen=True, slots=True)
class PartitionOrder:
    """How whole devices are given out together, on nodes that have a table of such sets.

    Attributes
    ----------
    vendor
        Whose devices.
    whole
        Tells whether a claim takes devices whole.
    required
        Devices of no partition do not do, whatever the node says.
    first_only
        Only partitions of the lowest score do.
    bandwidth
        The least that the bus of the partition must carry, in bytes a second; None where that does not matter.
    """

    vendor: str
    whole: Callable[[Claim], bool]
    required: bool = False
    first_only: bool = False
    bandwidth: int | None = None


@dataclass(frozen=True, slots=True)
class JointOrder:
    """How devices of several vendors are chosen below the same switches.

    Attributes
    ----------
    vendors
        Those of the first choose the switches, the others follow.
    one_each
        The vendors that follow with a device for each switch, if there are so many, however few are claimed.
    same_switch
        All must be below the same switches.
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
        By the topology tree, if they are.
    partitions
        As partitions, if they are.
    wishes
        What the pod says of the devices of each vendor; vendors of which it says nothing are left out.
    joint
        Near each other, if they are; claims of these vendors are one container's.
    """

    scopes: ScopeOrder | None = None
    partitions: PartitionOrder | None = None
    wishes: Mapping[str, DeviceWish] = field(default_factory=dict)
    joint: JointOrder | None = None

    @property
    def looks_further(self) -> bool:
        """Whether more than what is free of a device decides whether a claim on one fits there."""
        return any(wish.every or wish.functions for wish in self.wishes.values())

    def wish(self, vendor: str) -> DeviceWish:
        """Return what the pod says of the devices of a vendor."""
        return self.wishes.get(vendor, _NO_WISH)

    def terms(self, claims: Sequence[Claim], devices: DeviceMatrix) -> ChoiceTerms | None:
        """Return how the devices of each claim are chosen; None where score and amounts are all."""
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
        """Mark the devices that the pod does not want by their labels, shape (D,)."""
        wanted = {vendor: wish.selected for vendor, wish in self.wishes.items() if wish.selected is not None}
        if not wanted:
            return np.zeros(devices.size, dtype=np.bool_)
        label_sets, numbers = devices.label_sets
        out = [vendor in wanted and not wanted[vendor](dict(labels)) for vendor, labels in label_sets]
        # Rows that no node uses come last, where the number -1 finds them.
        return np.array([*out, False], dtype=np.bool_)[numbers]

    def _goes_by_tree(self, devices: DeviceMatrix) -> bool:
        """Tell whether some claim may go by the tree; none does where no node has one, and none is required."""
        order = self.scopes
        return order is not None and (order.required != BY_SCORE or bool((devices.columns.group >= 0).any()))

    def _scope_terms(self, claims: Sequence[Claim], *, by_tree: bool) -> ScopeTerms:
        """Say which claims go by the tree."""
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
        """Say which claims go by partitions; none does where no node has any, and none is required."""
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
        """Say which claims follow which."""
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


def about(request: ChoosyRequest, cards: NDArray[np.int64]) -> ChoosyRequest:
    """Return a request about some devices, each as if it were a node by itself."""
    partitions = request.terms.partitions
    partitions = partitions._replace(table=partitions.table[cards])
    return request._replace(terms=request.terms._replace(partitions=partitions))
