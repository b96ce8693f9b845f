"""When prices of cards are learned, and from what: the pods that hold devices now.

Prices follow from the state alone: from the claims of bound and assumed pods under the policies in effect, and from
what is free. So a restarted scheduler has its predecessor's prices as soon as it knows the same pods.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_scheduler.allocators import Allocator
from vgpu_scheduler.engine.equivalence import RefusedClass, ResolvedClaims
from vgpu_scheduler.engine.equivalence_classes import EquivalenceClasses
from vgpu_scheduler.engine.node_parts import make_node_part, without_node
from vgpu_scheduler.kernels import CardPrices
from vgpu_scheduler.kube import CPU, Pod
from vgpu_scheduler.predicates import CompiledPredicates
from vgpu_scheduler.scorers import FragmentationScorer, RequestClass, WeightedScorer, learn_prices, same_prices
from vgpu_scheduler.state import Phase, Reservation

EVERY: Final = 256
"""Number of decisions between two updates of prices."""

_LEARNED: Final = FragmentationScorer(learned=True)
_Version = tuple[int, int, int]
_Known = tuple[Reservation, Pod | None, ResolvedClaims | None]
"""A reservation, its pod if it holds devices, and the pod's claims."""


@dataclass(slots=True, eq=False)
class _Request:
    """The cards that pods with the same request may use.

    Attributes
    ----------
    cpu
        CPU request of each pod, milli.
    reach
        Number of cards of each model that they may use, at ``version`` of the nodes and their devices.
    """

    cpu: int
    predicates: CompiledPredicates
    allocator: Allocator
    version: _Version | None = None
    reach: NDArray[np.int64] | None = None


class PriceLearner:
    """Replaces the prices of a state at fixed counts of decisions.

    Parameters
    ----------
    classes
        Reads what pods claim, and has the state whose prices are replaced.
    """

    def __init__(self, classes: EquivalenceClasses) -> None:
        self._state = classes.state
        self._classes = classes
        self._priced = [d.name for d in classes.dialects if not d.claims.scorers((WeightedScorer(_LEARNED),))[1]]
        self._decisions = 0
        self._read_under = -1
        self._claims: dict[str, _Known] = {}
        """The claims of pods with reservations, by UID."""
        self._requests: dict[ResolvedClaims, _Request | None] = {}

    def before(self, claimed: ResolvedClaims) -> None:
        """Count a decision about a pod, and learn prices if they are due."""
        if not any(entry.weight and entry.scorer == _LEARNED for entry in claimed.scorers):
            return
        if self._decisions % EVERY == 0:
            self.learn()
        self._decisions += 1

    def learn(self) -> None:
        """Learn prices from the present state, and replace those in effect where they differ."""
        holders, versions = self._holders(), {name: self._version(name) for name in self._priced}
        asked: dict[str, list[RequestClass]] = {name: [] for name in self._priced}
        for claimed, pods in holders.items():
            request = self._requests[claimed]
            if request is not None and claimed.dialect in asked:
                reach = self._reach(claimed.dialect, request, versions[claimed.dialect])
                asked[claimed.dialect].append(RequestClass(claimed.claims, request.cpu, pods, reach))
        found: dict[str, CardPrices] = {}
        for name in self._priced:
            prices = learn_prices(self._state.matrix(name), self._state.nodes, asked[name])
            if prices is not None:
                found[name] = prices
        known = self._state.prices
        if any(not same_prices(known.get(name), found.get(name)) for name in self._priced):
            self._state.replace_prices(found)

    def _holders(self) -> dict[ResolvedClaims, int]:
        """Count the pods that hold devices by their claims."""
        generation = self._classes.policies.catalogue.generation
        if self._read_under != generation:
            self._read_under = generation
            self._claims, self._requests = {}, {}
        before, self._claims = self._claims, {}
        holders: dict[ResolvedClaims, int] = {}
        for reservation in self._state.reservations():
            known = before.get(reservation.uid)
            # Observing a bound pod replaces its reservation; the object of an assumed pod may change without that.
            if (
                known is None
                or known[0] is not reservation
                or (reservation.phase is not Phase.BOUND and self._changed(known))
            ):
                pod = self._state.pod(reservation.uid) if reservation.uses_devices else None
                known = (reservation, pod, None if pod is None else self._claimed(pod))
            self._claims[reservation.uid] = known
            claimed = known[2]
            if claimed is not None:
                holders[claimed] = holders.get(claimed, 0) + 1
        self._requests = {claimed: self._requests[claimed] for claimed in holders}
        return holders

    def _changed(self, known: _Known) -> bool:
        reservation, pod, _ = known
        return pod is not None and self._state.pod(reservation.uid) is not pod

    def _claimed(self, pod: Pod) -> ResolvedClaims | None:
        """Return what a pod claims of devices, one object for equal claims; None if its claims are refused."""
        claimed = self._classes.read(pod)
        if isinstance(claimed, RefusedClass) or not claimed.dialect:
            return None
        if claimed not in self._requests:
            part = make_node_part(without_node(pod), claimed, self._classes.dialects, self._state)
            if isinstance(part, RefusedClass) or part.allocator is None:
                self._requests[claimed] = None
            else:
                cpu = pod.spec.requests.get(CPU, 0)
                self._requests[claimed] = _Request(cpu, part.predicates, part.allocator)
        return claimed

    def _version(self, dialect: str) -> _Version:
        """Return a value that changes when pods may be able to use other cards."""
        nodes = self._state.nodes
        return self._state.matrix(dialect).layout, nodes.generation, int(nodes.static_version.sum())

    def _reach(self, dialect: str, request: _Request, version: _Version) -> NDArray[np.int64]:
        """Return how many cards of each model pods with a request may use, at a version."""
        devices, nodes = self._state.matrix(dialect), self._state.nodes
        if request.reach is None or request.version != version:
            rows = nodes.rows()
            may_go = np.zeros(nodes.capacity, dtype=np.bool_)
            may_go[rows] = request.predicates.may_go(rows)
            numbers, row_of = devices.listed_numbers()
            columns, may_use = devices.columns, request.allocator.may_use(devices)
            usable = columns.in_service(numbers) & may_use[numbers] & may_go[row_of]
            request.reach = np.bincount(columns.model[numbers[usable]], minlength=len(devices.models))
            request.version = version
        return request.reach
