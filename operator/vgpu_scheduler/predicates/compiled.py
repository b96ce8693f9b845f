"""Kubernetes' node filters for one pod, evaluated for many nodes at once.

The plugins, their order and their reasons are those of kube-scheduler 1.36's default profile: NodeUnschedulable,
NodeName, TaintToleration, NodeAffinity, NodeResourcesFit. Only the first that rejects a node is reported for it.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kube import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, UNSCHEDULABLE_TAINT, LabelSelector, Pod, Taint
from vgpu_scheduler.kube.selectors import label_equals
from vgpu_scheduler.predicates.lookups import LabelLookup, TermLookup, ValueLookup, tolerates
from vgpu_scheduler.predicates.reasons import (
    AFFINITY,
    AFFINITY_CONFLICT,
    NODE_NAME,
    NOT_MANAGED,
    NOT_NAMED,
    POLICY_SELECTOR,
    TAINT,
    TOO_MANY_PODS,
    UNSCHEDULABLE,
    Reason,
    insufficient,
)
from vgpu_scheduler.state import NodeTable

__all__ = ["UNRESOLVABLE", "CompiledPredicates", "compile_predicates"]

UNRESOLVABLE: Final = 1 << 63
"""Set beside the reasons of a node that removing pods cannot help (code UnschedulableAndUnresolvable)."""

_BASE: Final = (
    UNSCHEDULABLE,
    NODE_NAME,
    TAINT,
    AFFINITY,
    NOT_NAMED,
    AFFINITY_CONFLICT,
    TOO_MANY_PODS,
    POLICY_SELECTOR,
    NOT_MANAGED,
)
_BITS: Final = {
    reason: np.uint64(1 << index | (0 if reason.resolvable else UNRESOLVABLE)) for index, reason in enumerate(_BASE)
}
_OWN_BITS: Final = 46
_ORDER: Final = {CPU: 0, MEMORY: 1, EPHEMERAL_STORAGE: 2}


class CompiledPredicates:
    """The filters of one pod over one table of nodes; made by :func:`compile_predicates`.

    Attributes
    ----------
    reasons : tuple of Reason
        The reasons that this pod can meet: reason ``i`` is bit ``i`` of a mask. It never changes.
    rejection : Reason or None
        Set if the pod contradicts itself, so that kube-scheduler would not try any node. Every row then has this
        reason, and a message quotes it without a count.
    """

    __slots__ = (
        "_managed", "_names", "_needs", "_node_name", "_nodes", "_planned", "_policy", "_requests", "_selector",
        "_taints", "_terms", "_tolerates_cordon", "_unoffered", "reasons", "rejection",
    )  # fmt: skip

    def __init__(
        self,
        pod: Pod,
        nodes: NodeTable,
        ignored_resources: frozenset[str],
        policy_selectors: Sequence[LabelSelector] = (),
        managed: LabelSelector | None = None,
    ) -> None:
        spec, affinity = pod.spec, pod.spec.node_affinity
        self._nodes = nodes
        self._node_name = pod.node_name
        self._tolerates_cordon = any(t.tolerates(UNSCHEDULABLE_TAINT) for t in spec.tolerations)
        self._taints: ValueLookup[tuple[Taint, ...]] = ValueLookup(
            absent=True, accepts=lambda taints: tolerates(spec.tolerations, taints)
        )
        self._selector = [LabelLookup(requirement) for requirement in label_equals(spec.node_selector)]
        self._policy = [
            LabelLookup(requirement) for selector in policy_selectors for requirement in selector.requirements
        ]
        self._managed = [] if managed is None else [LabelLookup(requirement) for requirement in managed.requirements]
        self._terms = None if affinity is None else [TermLookup(term) for term in affinity.terms]
        self._names = None if affinity is None else affinity.names
        self.rejection: Reason | None = AFFINITY_CONFLICT if self._names is not None and not self._names else None
        asked = {name: amount for name, amount in spec.requests.items() if name not in ignored_resources}
        self._requests = tuple(sorted(asked.items(), key=lambda item: (_ORDER.get(item[0], 3), item[0])))
        self.reasons: tuple[Reason, ...] = _BASE + _resource_reasons([name for name, _ in self._requests])
        self._plan()

    def evaluate(self, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Filter nodes.

        Parameters
        ----------
        rows
            Live rows of the table; shape (n,).

        Returns
        -------
        NDArray[uint64], shape (n,)
            0 where the pod can go; else the bits of the reasons of the first plugin that rejects the node, with
            ``UNRESOLVABLE`` set where removing pods cannot help.
        """
        if self.rejection is not None:
            return np.full(rows.shape[0], _BITS[self.rejection])
        masks = self._fit(rows)
        # From the last plugin to the first, each overwriting what comes after it. Policies have the last word: what
        # kube-scheduler would say of a node is said first.
        for labels, reason in ((self._policy, POLICY_SELECTOR), (self._managed, NOT_MANAGED)):
            allowed = np.ones(rows.shape[0], dtype=np.bool_)
            for label in labels:
                allowed &= label(self._nodes, rows)
            if labels:
                np.copyto(masks, _BITS[reason], where=~allowed & (masks == 0))
        if self._selector or self._terms is not None:
            np.copyto(masks, _BITS[AFFINITY], where=~self._matches(rows))
        np.copyto(masks, _BITS[TAINT], where=~self._taints(self._nodes.taints, rows))
        if self._node_name:
            row = self._nodes.row(self._node_name)
            np.copyto(masks, _BITS[NODE_NAME], where=rows != (-1 if row is None else row))
        if not self._tolerates_cordon:
            np.copyto(masks, _BITS[UNSCHEDULABLE], where=self._nodes.unschedulable[rows])
        if self._names is not None:
            np.copyto(masks, _BITS[NOT_NAMED], where=~self._named(rows))
        return masks

    def texts(self, mask: int) -> tuple[str, ...]:
        """Texts of the reasons in a mask."""
        return tuple(reason.text for bit, reason in enumerate(self.reasons) if mask >> bit & 1)

    def counts(self, masks: NDArray[np.uint64]) -> dict[str, int]:
        """Count the rows under each reason, for :func:`unschedulable_message`."""
        counts: dict[str, int] = {}
        distinct, occurrences = np.unique(masks, return_counts=True)
        for mask, count in zip(distinct.tolist(), occurrences.tolist(), strict=True):
            for text in self.texts(mask):
                counts[text] = counts.get(text, 0) + count
        return counts

    def _plan(self) -> None:
        """Match the needs with the resource columns that there are now."""
        columns = self._nodes.resources
        self._planned = len(columns)
        self._unoffered = np.uint64(0)
        # The pod itself takes one of the pods that a node may run.
        self._needs = [(columns[PODS], np.int64(1), _BITS[TOO_MANY_PODS])]
        for index, (name, amount) in enumerate(self._requests):
            bit = np.uint64(1 << (len(_BASE) + min(index, _OWN_BITS)))
            column = columns.get(name)
            if column is None:  # no node has ever offered it
                self._unoffered |= bit | np.uint64(UNRESOLVABLE)
            else:
                self._needs.append((column, np.int64(amount), bit))

    def _fit(self, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
        """NodeResourcesFit: every resource that is short has its bit."""
        nodes = self._nodes
        if self._planned != len(nodes.resources):
            self._plan()
        masks = np.full(rows.shape[0], self._unoffered)
        offered, used = nodes.allocatable.T, nodes.used.T
        # Column by column: temporaries of one column come from the allocator's cache, those of all columns from the
        # kernel, page fault by page fault.
        for column, need, bit in self._needs:
            allocatable = offered[column].take(rows)
            short = allocatable - used[column].take(rows) < need
            if not short.any():
                continue
            masks |= short * bit
            # Too many pods are never beyond help, not even on a node that takes none: so kube-scheduler has it.
            if bit != _BITS[TOO_MANY_PODS]:
                masks |= (allocatable < need) * np.uint64(UNRESOLVABLE)
        return masks

    def _matches(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """NodeAffinity: the node selector and one of the terms."""
        matches = np.ones(rows.shape[0], dtype=np.bool_)
        for label in self._selector:
            matches &= label(self._nodes, rows)
        if self._terms is not None:
            chosen = np.zeros(rows.shape[0], dtype=np.bool_)
            for term in self._terms:
                chosen |= term(self._nodes, rows)
            matches &= chosen
        return matches

    def _named(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which rows the affinity's ``metadata.name`` terms leave to be tried at all."""
        named = np.zeros(self._nodes.capacity, dtype=np.bool_)
        found = (self._nodes.row(name) for name in self._names or ())
        named[[row for row in found if row is not None]] = True
        return named[rows]


def _resource_reasons(names: Sequence[str]) -> tuple[Reason, ...]:
    """One reason per resource; those beyond the bits of a mask share the last one."""
    own = tuple(insufficient(name) for name in names[:_OWN_BITS])
    rest = names[_OWN_BITS:]
    return (*own, insufficient(f"one of {', '.join(rest)}")) if rest else own


def compile_predicates(
    pod: Pod,
    nodes: NodeTable,
    ignored_resources: frozenset[str],
    policy_selectors: Sequence[LabelSelector] = (),
    managed: LabelSelector | None = None,
) -> CompiledPredicates:
    """Compile the filters of a pod.

    Parameters
    ----------
    pod
        The pod; besides its spec only ``node_name`` matters.
    nodes
        The nodes to evaluate. The result follows every later change of this table; a copy needs its own.
    ignored_resources
        Resources that something else accounts for.
    policy_selectors
        Selectors over node labels that policies set; all must match.
    managed
        The nodes that this scheduler places pods on; None for all.
    """
    return CompiledPredicates(pod, nodes, ignored_resources, policy_selectors, managed)
