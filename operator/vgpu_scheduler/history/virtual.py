"""A cluster in memory with a virtual clock: an engine, with the effects of binders, kubelets and controllers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Final, TypeVar

import msgspec

from vgpu_scheduler.dialects import Dialects
from vgpu_scheduler.engine import Engine, EngineOptions
from vgpu_scheduler.history.events import Decided
from vgpu_scheduler.kube import Pod, Versioned, with_version
from vgpu_scheduler.model import Decision, internal_error, number_of_cards

POD: Final = "Pod"
_EVER: Final = 2**63
"""A version above that of any object."""
_Value = TypeVar("_Value", bound=Versioned)


def known_objects(engine: Engine) -> Iterator[tuple[str, Versioned]]:
    """Yield the kind and value of every object that an engine knows, kind by kind."""
    for kind, observed in engine.kinds.items():
        for value in observed.missing(frozenset(), _EVER):
            yield kind, value


class VirtualCluster:
    """An engine whose placements are bound at once, and whose victims end at once.

    Parameters
    ----------
    options
        The options for the engine.

    Attributes
    ----------
    engine
        The engine, with the state of the cluster.
    lacked
        What the engine cannot observe, as sentences with the number of times each applies.
    """

    def __init__(self, options: EngineOptions) -> None:
        self.engine = Engine(options)
        self.lacked: Counter[str] = Counter()
        self._versions = count(1)

    def observe(self, kind: str, value: Versioned, now: float) -> None:
        """Observe an added or changed object."""
        observed = self.engine.kinds.get(kind)
        if observed is None:
            self.lacked[f"objects of kind {kind} have no meaning with these settings"] += 1
            return
        try:
            for problem in observed.observe(self._newest(value), now):
                self.lacked[f"{kind} {observed.title(value)}: {problem.message}"] += 1
        except Exception as error:  # noqa: BLE001 - one object must not end a replay
            self.lacked[f"{kind} {observed.title(value)}: {internal_error(error)}"] += 1

    def remove(self, kind: str, value: Versioned, now: float) -> None:
        """Observe that an object was deleted."""
        observed = self.engine.kinds.get(kind)
        if observed is not None:
            last = self._newest(value)
            observed.remove(last, last.resource_version, now)

    def bind(self, pod: Pod, decision: Decision, now: float) -> None:
        """Bind a placed pod, and let it run."""
        annotations = annotations_of(decision, self.engine.dialects, pod)
        self.engine.binding_succeeded(pod.uid)
        self.run(pod, decision.node, annotations, now)

    def run(self, pod: Pod, node: str, annotations: Mapping[str, str], now: float) -> None:
        """Let a pod run on a node, with the annotations for the node side."""
        self.observe(POD, as_bound(pod, Decided(now, pod.uid, node, annotations)), now)

    def depart(self, uid: str, now: float) -> None:
        """Remove a pod."""
        self.engine.remove_pod(uid, now)

    def evict(self, uid: str, now: float) -> Pod | None:
        """Evict a victim and return it, charging the eviction to limits and disruption budgets."""
        engine, pod = self.engine, self.engine.state.pod(uid)
        if pod is None:
            return None
        for budget in [each for each in engine.budgets.all() if each.covers(pod)]:
            self.observe("PodDisruptionBudget", budget.after([pod], gone=True), now)
        engine.preemptions.evicted(uid)
        engine.remove_pod(uid, now)
        return pod

    def asked(self, pod: Pod) -> int:
        """Return the number of cards, or of shares of cards, that a pod asks for; 0 if its claims cannot be read."""
        return number_of_cards(self.engine.algorithm.classes.claims(pod))

    def _newest(self, value: _Value) -> _Value:
        """Return an object with a version above all earlier ones, since later events are newer."""
        return with_version(value, next(self._versions))


def annotations_of(decision: Decision, dialects: Dialects, pod: Pod) -> Mapping[str, str]:
    """Return the annotations that a placement writes on a pod for the node side."""
    assert decision.placement is not None
    return dialects.encoded(decision.placement, pod) if decision.annotations is None else decision.annotations


def as_bound(pod: Pod, decided: Decided) -> Pod:
    """Return a pod as it is after a decision was carried out."""
    return msgspec.structs.replace(
        pod,
        node_name=decided.node,
        nominated_node_name="",
        annotations={**pod.annotations, **decided.annotations},
        phase="Running",
        started=True,
        start_time=int(decided.at),
    )
