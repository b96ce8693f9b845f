"""The active pods of the scheduling queue: whose turn is next.

Pods are tried by priority, then age. That is what ``explain`` says of them, which sees only their objects.
kube-scheduler orders pods of one priority by when they were tried last instead, so that a pod that is tried again and
again does not starve the others; but then a younger pod may take the room for which an older one waits.

Here *rounds* see to it that nobody starves. A pod that was tried in a round, and is active again before the round is
over, comes in the next one, as does each pod that becomes active from then on. So each round ends, and until a pod has
its turn, each other one of its priority has two at most, but for a few looks that are no attempts. Pods back off after
an attempt: unless the scheduler is overloaded, rounds are over before anybody is tried again, and age alone decides.
"""

from __future__ import annotations

import heapq
from typing import Final

from vgpu_scheduler.engine.queued_pod import QueuedPod, Rank

__all__ = ["ActivePods"]

_NEVER: Final = 0
"""Before the first round."""


class ActivePods:
    """The pods that are tried next, by priority, round, and rank."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Rank, int, QueuedPod]] = []
        self._tickets: dict[int, dict[str, int]] = {}
        """Of the active pods, by priority and UID; what else the heap has are leftovers."""
        self._rounds: dict[int, int] = {}
        """The round that pods of a priority come in, while some are active."""
        self._last_round = _NEVER
        """The highest one of all priorities: no pod that was tried before is in one that comes."""

    def __bool__(self) -> bool:
        return bool(self._tickets)

    def add(self, pod: QueuedPod) -> None:
        """Take in a pod under its ticket."""
        now_in = self._rounds.get(pod.priority)
        if now_in is None:
            now_in = self._last_round + 1
        pod.round = self._rounds[pod.priority] = max(now_in, pod.tried_in + 1)
        self._last_round = max(self._last_round, pod.round)
        self._tickets.setdefault(pod.priority, {})[pod.uid] = pod.ticket
        heapq.heappush(self._heap, (-pod.priority, pod.round, pod.rank, pod.ticket, pod))

    def discard(self, pod: QueuedPod) -> None:
        """Take out a pod, if it is there, by the priority that it came with."""
        tickets = self._tickets.get(pod.priority)
        if tickets is None:
            return
        tickets.pop(pod.uid, None)
        if not tickets:
            del self._tickets[pod.priority], self._rounds[pod.priority]

    def pop(self) -> QueuedPod | None:
        """Take out the pod whose turn it is; None if there is none."""
        while self._heap:
            urgency, _, _, ticket, pod = heapq.heappop(self._heap)
            if self._tickets.get(-urgency, {}).get(pod.uid) == ticket:
                self.discard(pod)
                return pod
        return None

    def join(self, pod: QueuedPod) -> None:
        """Have a pod that is tried out of its turn, together with another one, be in the round that goes on."""
        pod.round = self._rounds.get(pod.priority, self._last_round)
