"""What an earlier leader began: room is kept again for the pods that it nominated and evicted others for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from vgpu_scheduler.engine.algorithm import SchedulingAlgorithm
from vgpu_scheduler.engine.group_status import GroupStatus
from vgpu_scheduler.engine.pod_groups import PodGroups
from vgpu_scheduler.engine.preemption.preemptions import Preemptions
from vgpu_scheduler.engine.preemption.victims import by_importance, ends_by_preemption
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Preemption


class EarlierNominations:
    """Restores the room of pods that are nominated to nodes and for which no room is kept.

    Parameters
    ----------
    algorithm, groups, preemptions
        Collaborators.
    is_to_place
        Tells whether a pod is one of ours that has to be placed.
    gang_status
        Returns the group that a pod is decided with; None for a pod that is placed alone.
    """

    def __init__(
        self,
        algorithm: SchedulingAlgorithm,
        groups: PodGroups,
        preemptions: Preemptions,
        is_to_place: Callable[[Pod], bool],
        gang_status: Callable[[Pod], GroupStatus | None],
    ) -> None:
        self._algorithm = algorithm
        self._state = algorithm.state
        self._groups = groups
        self._preemptions = preemptions
        self._evaluator = preemptions.evaluator
        self._is_to_place = is_to_place
        self._gang_status = gang_status

    def restore(self, now: float, foreign: Collection[str] = ()) -> None:
        """Keep the room again that an earlier leader kept for nominated pods, the most important pods first.

        If pods on the nominated node are already terminating for a preemption, their room is counted as free. If that
        suffices, the room is kept; otherwise further victims on that node are searched for. If none is terminating, no
        room is kept: the nomination counts as any other does. Pods that are placed together get their room together, or
        none does: as many as the group needs must be nominated, and pods must be terminating for at least one of them.

        Parameters
        ----------
        foreign
            The UIDs of pods that another scheduler nominated: no room is kept for them.
        """
        waiting = [pod for pod in self._nominated() if pod.uid not in foreign and self._may_be_restored(pod)]
        done = set[str]()
        for pod in sorted(waiting, key=lambda pod: (-self._counted(pod).priority, pod.uid)):
            if pod.uid in done:
                continue
            group = self._gang_status(pod)
            with suppress(Exception):  # the error concerns this pod alone, and is reported when the pod is decided
                if group is None:
                    self._restore(pod, now)
                else:
                    uids = {each.uid for each in group.waiting}
                    done |= uids
                    self._restore_gang(group, [each for each in waiting if each.uid in uids], now)

    def restorable(self) -> list[tuple[str, str]]:
        """Return the pods for which :meth:`restore` would look for room, by UID, with their nominated nodes."""
        found = [pod for pod in self._nominated() if self._may_be_restored(pod)]
        wanted = {pod.uid for pod in found if self._ending(pod)}
        groups = [group for pod in found if pod.uid in wanted and (group := self._gang_status(pod)) is not None]
        wanted |= {pod.uid for group in groups for pod in group.waiting}
        return [(pod.uid, pod.nominated_node_name) for pod in found if pod.uid in wanted]

    def nominated(self) -> list[tuple[str, str]]:
        """Return our pods that are not bound and are nominated to a node, by UID, with that node.

        They include placed pods, which wait again if they cannot be bound.
        """
        return [(pod.uid, pod.nominated_node_name) for pod in self._nominated()]

    def _nominated(self) -> list[Pod]:
        nominations = self._state.nominations
        known = (self._state.pod(uid) for node in nominations for uid in nominations.on(node))
        return [pod for pod in known if pod and self._is_to_place(pod)]

    def _may_be_restored(self, pod: Pod) -> bool:
        state = self._state
        if state.reservation(pod.uid) is not None:
            return False
        is_new = state.nodes.row(pod.nominated_node_name) is not None and state.holds.get(pod.uid) is None
        return is_new and pod.preemption_policy != "Never" and self._preemptions.rules_of(pod.uid).may_preempt

    def _restore(self, pod: Pod, now: float) -> None:
        ending = self._ending(pod)
        if not ending:
            return
        answer = self._evaluator.search_on(pod, pod.nominated_node_name, now, ending)
        if answer.preemption is not None:
            self._preemptions.begin(pod, answer.preemption, now)

    def _restore_gang(self, group: GroupStatus, pods: Sequence[Pod], now: float) -> None:
        """Keep room for all of the nominated pods of a group, if they are enough, or for none."""
        if len(pods) < group.needed or not any(map(self._ending, pods)):
            return
        gang, priority, seen = tuple(pod.uid for pod in pods), self._groups.priority(pods[0]), set[str]()
        for pod in pods:
            found = self._of_member(pod, now, priority)
            if found is None:
                for uid in gang:
                    self._preemptions.withdraw(uid)
                return
            leaving = [victim.uid for victim in found.victims]
            theirs = tuple(victim for victim in found.victims if victim.uid not in seen)
            seen.update(leaving)
            whole = replace(found, victims=theirs, gang=gang)
            self._preemptions.begin(pod, whole, now, leaving, priority)

    def _of_member(self, pod: Pod, now: float, priority: int) -> Preemption | None:
        """Return the preemption of a group's pod on its nominated node; None if it gets no room there."""
        node, ending = pod.nominated_node_name, self._ending(pod)
        placement = self._algorithm.node_fit.fits_once_gone(self._counted(pod), node, ())
        if placement is not None:
            return Preemption(node, placement, ())
        return self._evaluator.search_on(pod, node, now, ending, priority).preemption

    def _ending(self, pod: Pod) -> list[Pod]:
        """Return the pods of lower priority on a pod's nominated node that are terminating for preemption."""
        return by_importance(each for each in self._ended(pod) if each.priority < self._counted(pod).priority)

    def _ended(self, pod: Pod) -> Iterator[Pod]:
        for reservation in self._state.reservations(pod.nominated_node_name):
            each = self._state.pod(reservation.uid)
            if each is not None and ends_by_preemption(each):
                yield self._counted(each)

    def _counted(self, pod: Pod) -> Pod:
        return self._evaluator.disruption.with_group_priority(pod)
