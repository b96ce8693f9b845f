"""What the plugins for volumes have in common: a pod's claims as they are now, and nodes by selector.

A filter of these plugins is one for all pods: it keeps nothing of a pod, and reads the claims anew for each decision.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.kube import READ_WRITE_ONCE_POD, Claim, NodeSelector, Pod
from vgpu_scheduler.model import BoundedCache, bytes_of
from vgpu_scheduler.predicates.lookups import TermLookup
from vgpu_scheduler.predicates.reasons import Reason
from vgpu_scheduler.state import NodeTable, State, Wanted

__all__ = ["NamedClaim", "SelectedNodes", "VolumeFilter", "claims_of", "existing_claims", "has_claims"]

_MOST_BYTES: Final = 4 * 2**20
"""What selectors may take that are remembered."""
_LOOKUP: Final = 4 * 2**10
"""What one takes beside itself: a byte per value of the labels that it asks about."""
_PENDING: Final = "Pending"


class NamedClaim(NamedTuple):
    """A claim that a pod names; None if there is none of that name."""

    key: str
    ephemeral: bool
    claim: Claim | None

    @property
    def name(self) -> str:
        """The claim's name."""
        return self.key.partition("/")[2]


def has_claims(pod: Pod, state: State) -> Hashable | None:
    """Return a key for pods with claims: one filter serves all of them."""
    del state
    return () if pod.spec.claims else None


def claims_of(pod: Pod, state: State) -> Iterator[NamedClaim]:
    """Yield the claims of a pod as they are now, in the order of the pod, which may name one twice."""
    for volume in pod.spec.claims:
        key = f"{pod.namespace}/{volume.claim(pod.name)}"
        yield NamedClaim(key, volume.ephemeral, state.volumes.objects.claims.get(key))


def existing_claims(pod: Pod, state: State) -> Iterator[Claim]:
    """Yield the claims of a pod that are there, each once, in the order of the pod."""
    seen = set()
    for key, _, claim in claims_of(pod, state):
        if claim is not None and key not in seen:
            seen.add(key)
            yield claim


class SelectedNodes:
    """Which nodes selectors over node labels select; each condition is asked once per distinct value of a label.

    Parameters
    ----------
    nodes
        The nodes.
    """

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._lookups: BoundedCache[NodeSelector, list[TermLookup]] = BoundedCache(_MOST_BYTES)

    def __call__(self, selector: NodeSelector, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell for each of the rows whether it is selected; shape as ``rows``."""
        lookups = self._lookups.get(selector)
        if lookups is None:
            lookups = [TermLookup(term) for term in selector.terms]
            self._lookups.put(selector, lookups, bytes_of(selector) + _LOOKUP)
        selected = np.zeros(rows.shape[0], dtype=np.bool_)
        for lookup in lookups:
            selected |= lookup(self._nodes, rows)
        return selected


class VolumeFilter:
    """Base of the filters: nothing is kept for one of them alone, and nodes are to be tried unless it says otherwise.

    Parameters
    ----------
    pod
        Any pod.
    state
        What is known.
    """

    def __init__(self, pod: Pod, state: State) -> None:
        del pod
        self._state = state
        self._selected = SelectedNodes(state.nodes)

    def pre_filter(self, pod: Pod) -> Reason | None:
        """Return why no node need be tried for a pod now; None if they are to be tried."""
        del pod
        return None

    def equivalence(self, pod: Pod) -> Hashable:
        """Return the disks and claims of the pod: of claims that any volume will do for only what they ask."""
        volumes = self._state.volumes
        asked: list[Hashable] = []
        for key, ephemeral, claim in claims_of(pod, self._state):
            open_to_all = (
                claim is not None
                and not (claim.volume_name or claim.deleting)
                and claim.phase == _PENDING
                and not (ephemeral and claim.controller != pod.uid)
                and READ_WRITE_ONCE_POD not in claim.access_modes
                and volumes.selected_node(claim) is None
                and volumes.kept_for(claim) is None
            )
            asked.append((claim.class_name, Wanted.by(claim)) if claim is not None and open_to_all else key)
        return pod.spec.disks, tuple(asked)

    def close(self) -> None:
        """Give back nothing."""
