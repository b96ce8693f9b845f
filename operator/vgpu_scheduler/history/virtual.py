"""A cluster in memory whose time is told to it: an engine, with what binders, kubelets and controllers would do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any, Final, TypeVar

import msgspec

from vgpu_scheduler.engine import Engine, EngineOptions
from vgpu_scheduler.history.events import Decided
from vgpu_scheduler.kube import Pod, Versioned
from vgpu_scheduler.model import Decision, internal_error

__all__ = ["POD", "VirtualCluster", "as_bound", "known_objects"]

POD: Final = "Pod"
_EVER: Final = 2**63
"""A version that no object exceeds."""
_Value = TypeVar("_Value", bound=Versioned)


def known_objects(engine: Engine) -> Iterator[tuple[str, Versioned]]:
    """Yield the kind and the value of every object that an engine knows, kind by kind."""
    for kind, observed in engine.kinds.items():
        for value in observed.missing(frozenset(), _EVER):
            yield kind, value


class VirtualCluster:
    """An engine whose placements are bound at once, and whose victims are gone at once.

    Parameters
    ----------
    options
        What the engine is made from.

    Attributes
    ----------
    engine
        What is known there, and what is decided from it.
    lacked
        What the engine does not take in, as sentences with how often each is true.
    """

    def __init__(self, options: EngineOptions) -> None:
        self.engine = Engine(options)
        self.lacked: Counter[str] = Counter()
        self._versions = count(1)

    def observe(self, kind: str, value: Versioned, now: float) -> None:
        """Take in an object as it is from now on."""
        observed = self.engine.kinds.get(kind)
        if observed is None:
            self.lacked[f"objects of kind {kind} mean nothing with these settings"] += 1
            return
        try:
            for problem in observed.observe(self._newest(value), now):
                self.lacked[f"{kind} {observed.title(value)}: {problem.message}"] += 1
        except Exception as error:  # noqa: BLE001 - one object must not end a replay
            self.lacked[f"{kind} {observed.title(value)}: {internal_error(error)}"] += 1

    def remove(self, kind: str, value: Versioned, now: float) -> None:
        """Take in that an object is gone."""
        observed = self.engine.kinds.get(kind)
        if observed is not None:
            last = self._newest(value)
            observed.remove(last, last.resource_version, now)

    def bind(self, pod: Pod, decision: Decision, now: float) -> None:
        """Bind a pod that was placed, and let it run."""
        placement = decision.placement
        assert placement is not None
        annotations = decision.annotations
        if annotations is None:
            annotations = self.engine.dialects.encoded(placement, pod)
        self.engine.binding_succeeded(pod.uid)
        self.run(pod, placement.node, {**annotations}, now)

    def run(self, pod: Pod, node: str, annotations: dict[str, str], now: float) -> None:
        """Let a pod run on a node, with what was written on it for the node side."""
        bound = msgspec.structs.replace(
            pod,
            node_name=node,
            nominated_node_name="",
            annotations={**pod.annotations, **annotations},
            phase="Running",
            started=True,
            start_time=int(now),
        )
        self.observe(POD, bound, now)

    def depart(self, uid: str, now: float) -> None:
        """Let a pod go."""
        self.engine.remove_pod(uid, now)

    def evict(self, uid: str, now: float) -> Pod | None:
        """Let the victim of a preemption go, and return it: limits and disruption budgets let fewer go from then on."""
        engine, pod = self.engine, self.engine.state.pod(uid)
        if pod is None:
            return None
        for budget in [each for each in engine.budgets.all() if each.covers(pod)]:
            self.observe("PodDisruptionBudget", budget.after([pod], gone=True), now)
        engine.preemptions.evicted(uid)
        engine.remove_pod(uid, now)
        return pod

    def asked(self, pod: Pod) -> int:
        """Return how many cards a pod asks for, or for shares of how many; 0 where that cannot be understood."""
        claims = self.engine.algorithm.classes.claims(pod)
        return sum(claim.count for container in claims for claim in container.claims)

    def _newest(self, value: _Value) -> _Value:
        """Return an object with a version that is higher than all before: what comes later in a history is newer."""
        changed: Any = msgspec.structs.replace if isinstance(value, msgspec.Struct) else replace
        found: _Value = changed(value, resource_version=next(self._versions))
        return found


def as_bound(pod: Pod, decided: Decided) -> Pod:
    """Return a pod as it is once it has been placed."""
    return msgspec.structs.replace(
        pod,
        node_name=decided.node,
        annotations={**pod.annotations, **decided.annotations},
        phase="Running",
        started=True,
        start_time=int(decided.at),
    )
