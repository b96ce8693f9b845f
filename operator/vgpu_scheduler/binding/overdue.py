"""Overdue victims: reported and counted until they are gone, even if no pod waits for them any more."""

from __future__ import annotations

from collections.abc import Collection

from vgpu_scheduler.binding.context import BindContext
from vgpu_scheduler.engine import GIVEN_UP_AFTER, OVERDUE_AFTER
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import EventReason, Victim, worded_pod


class OverdueVictims:
    """The victims that have not ended within their grace period.

    Parameters
    ----------
    context
        The shared context of binding.
    """

    def __init__(self, context: BindContext) -> None:
        self._context = context
        self._state = context.engine.state
        self._known: set[str] = set()
        """The UIDs of victims that were found overdue, until they are gone."""

    def __len__(self) -> int:
        """Return the number of overdue victims."""
        return len(self._known)

    def check(self, uid: str, victims: Collection[Victim]) -> Victim | None:
        """Report the overdue victims of a pod on that pod; return a victim that is given up, None if there is none."""
        moment, given_up = self._context.clock.now().timestamp(), None
        for victim in victims:
            pod = self._state.pod(victim.uid)
            late = 0.0 if pod is None or pod.ends_by is None else moment - pod.ends_by
            if pod is None or late < OVERDUE_AFTER:
                continue
            self._known.add(victim.uid)
            waiting = self._state.pod(uid)
            if waiting is not None:
                self._tell(waiting, pod)
            if late >= GIVEN_UP_AFTER:
                given_up = victim
        return given_up

    def forget_gone(self) -> None:
        """Forget the victims that have ended."""
        self._known = {uid for uid in self._known if (pod := self._state.pod(uid)) is not None and not pod.terminal}

    def _tell(self, waiting: Pod, victim: Pod) -> None:
        whom = worded_pod(waiting.namespace, victim.key, victim.uid)
        text = f"{whom} on node {victim.node_name} has not ended within its grace period"
        self._context.reporter.warning(waiting, text, EventReason.VICTIM_OVERDUE)
