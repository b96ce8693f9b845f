"""Assumed placements that are not bound yet: they are checked again before that, or decided anew among other nodes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from vgpu_scheduler.engine.attempts import assume
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision, Outcome, Placement
from vgpu_scheduler.state import Phase, Reservation

if TYPE_CHECKING:
    from vgpu_scheduler.engine.engine import Engine

MOST_MOVES: Final = 3
"""How often a pod is moved away from a slow node."""


class Checked(NamedTuple):
    """An assumed placement that was found to hold, and what that rests on: nothing else is looked at for it."""

    pod: Pod
    held: Reservation
    row: int
    policies: int
    """The generation of policies and namespaces."""
    node: int
    """The version of the node, with all that is charged there."""
    limits: int
    used: int
    """The versions of quotas, and of what is held of them."""

    def still_holds(self, engine: Engine) -> bool:
        """Tell whether nothing has moved since: neither the pod, nor its node, its policy, its quota or its place."""
        state, uid = engine.state, self.pod.uid
        return (
            state.pod(uid) is self.pod
            and state.reservation(uid) is self.held
            and engine.policies.catalogue.generation == self.policies
            and state.nodes.version[self.row] == self.node
            and engine.quotas.version == self.limits
            and (state.quotas.version == self.used or not engine.quotas.limited({self.pod.namespace}))
            and not state.interpod.any_anti_affinity
            and not engine.closed_nodes.rejected
            and engine.waits(self.pod)
        )


def recheck(engine: Engine, uid: str) -> Placement | None:
    """Check an assumed placement against what is known now, just before it is bound.

    Returns
    -------
    Placement or None
        The placement if it holds, another one on the same node if only its cards had to change, or None if the pod
        does not fit there any more, its claims need something else, or it must not be bound at all; then the caller
        gives it back.
    """
    checked = engine.checked.get(uid)
    if checked is not None and checked.still_holds(engine):
        return checked.held.placement
    found = _assumed(engine, uid)
    if found is None:
        return None
    pod, held, decided = found
    if held.node in engine.closed_nodes.rejected.closed_to(pod):
        return None
    unchanged = engine.effective_policies.as_decided(pod) and engine.state.unchanged_since_assumed(uid, pod)
    with engine.state.volumes.rechecking(decided.volumes):
        if unchanged and not engine.quotas.exceeded(pod.namespace, engine.state):
            cluster = engine.cycle.shapes.cluster_part(pod)
            if cluster is None:
                _note(engine, pod, held)
                return decided
            if engine.cycle.on_node.may_stay(pod, cluster, decided):
                return decided
        return _refitted(engine, pod, held, decided)


def _note(engine: Engine, pod: Pod, held: Reservation) -> None:
    """Note that a placement holds, for as long as nothing moves: its node alone has a say."""
    row, state = engine.state.nodes.row(held.node), engine.state
    assert row is not None, f"pod {pod.key} holds something on a node that is not there"
    engine.checked[pod.uid] = Checked(
        *(pod, held, row, engine.policies.catalogue.generation, int(state.nodes.version[row])),
        *(engine.quotas.version, state.quotas.version),
    )


def _refitted(engine: Engine, pod: Pod, held: Reservation, decided: Placement) -> Placement | None:
    """Return what the pod would get of its node now, and assume that."""
    engine.effective_policies.decided(pod)
    with engine.state.without([pod.uid]):
        fits = engine.cycle.on_node.refit(pod, held.node)
    if fits is None or not fits.volumes.is_part_of(decided.volumes):
        return None
    fits = replace(fits, volumes=decided.volumes)
    if fits == decided:
        engine.state.reassure(pod.uid)
    else:
        claims = engine.cycle.shapes.claims(pod)
        _reassume(engine, pod, Decision(pod.uid, pod.key, Outcome.PLACED, placement=fits, claims=claims))
    return fits


def decide_elsewhere(engine: Engine, uid: str, slow: Collection[str]) -> Decision | None:
    """Decide an assumed pod anew that waits at a slow node, and assume that; its Binding must not have been sent.

    Parameters
    ----------
    slow
        The nodes that it must not go to.

    Returns
    -------
    Decision or None
        Where it goes now; None, and it stays where it is, if it fits nowhere else or cannot be decided, if its volumes
        were bound for its node, or if it has been moved often enough.
    """
    found = _assumed(engine, uid)
    if found is None or found[1].volumes or engine.queue.moves(uid) >= MOST_MOVES:
        return None
    pod, _, _ = found
    try:
        with engine.state.without([uid]):
            decision = engine.cycle.decide(pod, avoiding=slow)
    except Exception:  # noqa: BLE001 - whatever it is, it is this pod's: it is told when its turn comes
        return None
    if decision.outcome is not Outcome.PLACED:
        return None
    engine.effective_policies.decided(pod)
    _reassume(engine, pod, decision)
    engine.queue.moved(uid)
    return decision


def _reassume(engine: Engine, pod: Pod, decision: Decision) -> None:
    """Assume another placement of an assumed pod."""
    engine.state.wakes.hints |= engine.state.forget(pod.uid)
    engine.state.wakes.hints |= assume(engine.state, pod, decision)


def _assumed(engine: Engine, uid: str) -> tuple[Pod, Reservation, Placement] | None:
    """Return a pod that has to be placed with its assumed placement; None if it has none, or has not to be."""
    pod, held = engine.state.pod(uid), engine.state.reservation(uid)
    if pod is None or held is None or held.phase is not Phase.ASSUMED or held.placement is None:
        return None
    return (pod, held, held.placement) if engine.waits(pod) else None
