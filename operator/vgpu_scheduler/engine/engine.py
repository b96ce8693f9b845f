"""The engine: takes observations in and returns decisions.

It owns the state and the queue and keeps them consistent: every observation that frees something requeues the pods
that it could help. Nothing here waits or reads a clock; the caller supplies the time (seconds, monotonic).
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from vgpu_scheduler.dialects import Dialects, InventoryObject
from vgpu_scheduler.engine.algorithm import SchedulingAlgorithm
from vgpu_scheduler.engine.assumed import AssumedPlacements
from vgpu_scheduler.engine.attempts import Attempts
from vgpu_scheduler.engine.budgets import DisruptionBudgets
from vgpu_scheduler.engine.closed_nodes import ClosedNodes
from vgpu_scheduler.engine.closures import StandingClosure
from vgpu_scheduler.engine.device_names import DeviceNames
from vgpu_scheduler.engine.equivalence import RefusedClass
from vgpu_scheduler.engine.equivalence_classes import EquivalenceClasses
from vgpu_scheduler.engine.group_attempts import error_decision
from vgpu_scheduler.engine.group_conditions import GroupConditions
from vgpu_scheduler.engine.group_progress import GroupProgress
from vgpu_scheduler.engine.kinds import observed_kinds
from vgpu_scheduler.engine.kubelet_rejections import KubeletRejections
from vgpu_scheduler.engine.locks import LockJudge
from vgpu_scheduler.engine.observing import ConsistentLists
from vgpu_scheduler.engine.options import EngineOptions
from vgpu_scheduler.engine.pod_groups import PodGroups
from vgpu_scheduler.engine.policy_report import PolicyTracker
from vgpu_scheduler.engine.preemption.earlier import EarlierNominations
from vgpu_scheduler.engine.preemption.evaluator import Evaluator
from vgpu_scheduler.engine.preemption.group_disruption import GroupDisruption
from vgpu_scheduler.engine.preemption.preemptions import Preemptions
from vgpu_scheduler.engine.prices import PriceLearner
from vgpu_scheduler.engine.problems import Problem
from vgpu_scheduler.engine.queue import SchedulingQueue
from vgpu_scheduler.engine.queued_pods import Requeue
from vgpu_scheduler.engine.quotas import QuotaLimits, counted_by_card
from vgpu_scheduler.engine.registrations import Registrations
from vgpu_scheduler.engine.request_warnings import RequestWarnings
from vgpu_scheduler.engine.requeuing import Requeuer, WaitingNeeds
from vgpu_scheduler.engine.storage import StorageAccess
from vgpu_scheduler.engine.unbound_pods import UnboundPods
from vgpu_scheduler.engine.unlisted_dialects import UnlistedDialects
from vgpu_scheduler.kube import Node, Pod
from vgpu_scheduler.model import ClusterEvent, Decision, EventReason, Uses
from vgpu_scheduler.policy import Policies
from vgpu_scheduler.state import State


class Engine:
    """Decides where pods go.

    Parameters
    ----------
    options
        What follows from settings.
    """

    def __init__(self, options: EngineOptions) -> None:
        self.options = options
        self.dialects = Dialects(options.dialects)
        self.scheduler_names = frozenset(options.scheduler_names)
        self.coexist_with = frozenset(options.coexist_with)
        self.system_spread = options.system_spread
        self.preemption = options.preemption
        self.state = State(
            {dialect.name: len(dialect.inventory.dimensions) for dialect in self.dialects},
            counted_by_card(self.dialects),
        )
        pending_events = self.state.pending_events
        self.policies = policies = Policies(options.defaults, pending_events)
        needs = WaitingNeeds(self.state)
        self.queue = SchedulingQueue(needs.discard, options.flush_after)
        self.groups = PodGroups(
            self.state,
            self.is_to_place,
            lambda kind: self.lists.listed(kind) > 0,
            self.queue.prioritise,
            policies,
        )
        self.group_conditions = GroupConditions(self.groups, self.scheduler_names)
        self.group_progress = GroupProgress(self.state, self.groups, policies, self.scheduler_names)
        self.unlisted_dialects = UnlistedDialects(self.dialects, options.unlisted)
        device_names = DeviceNames(self.dialects, options.renamed, self.state.listed_vendors, self.state.nodes.offered)
        self.request_warnings = RequestWarnings(
            self.dialects, self.groups.warning, self.unlisted_dialects, device_names
        )
        self.quota_limits = QuotaLimits(self.dialects, self.request_warnings, pending_events)
        self.budgets = DisruptionBudgets()
        judge = LockJudge(
            self.dialects.node_side, self.scheduler_names, options.bind_timeout, options.node_side_timeout
        )
        kubelet_rejections = KubeletRejections(options.rejected_node_wait)
        self.closed_nodes = ClosedNodes(judge, self.state, kubelet_rejections)
        self.storage = StorageAccess(pending_events)
        classes = EquivalenceClasses(self.state, self.dialects, policies, self.quota_limits)
        self.algorithm = SchedulingAlgorithm(
            classes, self.closed_nodes, self.storage, self.groups.priority, PriceLearner(classes)
        )
        self.policy_tracker = PolicyTracker(classes)
        self._requeuer = Requeuer(
            classes, self.queue, self.policy_tracker, self.quota_limits, needs, kubelet_rejections
        )
        names, protected = self.scheduler_names, options.protected_namespaces
        disruption = GroupDisruption(self.state, self.groups)
        evaluator = Evaluator(self.algorithm, policies, self.budgets.all, names, protected, disruption)
        self.preemptions = Preemptions(self.algorithm, self.queue, policies, evaluator, enabled=options.preemption)
        self.unbound_pods = UnboundPods(self.state, self.queue, self.storage, self.preemptions)
        needs_scheduling = self.unbound_pods.needs_scheduling
        self.attempts = Attempts(
            self.algorithm,
            self.queue,
            self.groups,
            self.storage,
            self.policy_tracker,
            self._requeuer,
            self.preemptions,
        )
        self.earlier_nominations = EarlierNominations(
            self.algorithm, self.groups, self.preemptions, self.is_to_place, self.attempts.gang_status
        )
        self.assumed = AssumedPlacements(
            self.algorithm, self.queue, self.policy_tracker, self.quota_limits, self.closed_nodes, needs_scheduling
        )
        self._registrations = Registrations(self.dialects, self.state)
        self.kinds = observed_kinds(self)
        """The observed kinds of objects, by name."""
        self.lists = ConsistentLists(self.kinds, self.unbound_pods.final_states_known)

    # Observations ----------------------------------------------------------------------------------------------------

    def observe_pod(self, pod: Pod, now: float) -> tuple[Problem, ...]:
        """Take in a pod that a stream or an API answer showed; older versions are ignored."""
        if self.unbound_pods.is_outdated(pod):
            return ()
        self.unbound_pods.final_state_known(pod.uid)
        before = self.state.pod(pod.uid)
        if not self._counts(pod):
            if before is not None and pod.resource_version > self.state.pod_version(pod.uid):
                self.remove_pod(pod.uid, now, pod.resource_version)
            return ()
        if before is not None and 0 < pod.resource_version <= self.state.pod_version(pod.uid):
            self.seen_unchanged(pod.uid, now)  # relists and several streams show the same version
            return ()
        if pod.scheduler_name in self.coexist_with and not pod.node_name:
            # Its scheduler announces where it will bind the pod, and relies on that: the pod counts as bound there.
            pod = msgspec.structs.replace(pod, node_name=self.dialects.announced_node(pod))
        return self._take_in(pod, before, now)

    def _take_in(self, pod: Pod, before: Pod | None, now: float) -> tuple[Problem, ...]:
        """Take in a new version of a pod.

        The order matters. The state is first, because everything else reads it. The pod's group is next, because the
        queue ranks the pod by the group's priority. The waiting pods that the change may help are last: only then does
        the queue know whether this pod is one of them, and are the nodes known that are closed by it.
        """
        uses = self.dialects.uses(pod)
        event = self.state.observe_pod(pod, uses)
        self.preemptions.on_victim_gone(pod.uid, now)
        if pod.node_name:
            self.preemptions.bound(pod.uid)
        if self.state.pod(pod.uid) is not pod:
            return ()  # it is from before the pod was removed
        if self.closed_nodes.unserved_pods.observe(pod):
            event |= ClusterEvent.NODE_ADD
        self.groups.observe(pod)
        self.state.pending_events.victims |= before is not None and self._may_be_evicted_otherwise(before, pod)
        problems: list[Problem] = []
        if pod.scheduler_name in self.scheduler_names:
            problems += self.closed_nodes.kubelet_rejections.observe(before, pod, self.state.node(pod.node_name), now)
            self.unbound_pods.observe(pod, before, now)
        self._requeuer.requeue(event, now)
        unreadable = "; ".join(usage.problem for usage in uses.values() if usage.problem)
        if unreadable:
            problems.append(
                Problem("Pod", pod.namespace, pod.name, pod.uid, EventReason.ALLOCATION_UNREADABLE, unreadable)
            )
        return tuple(problems)

    def _may_be_evicted_otherwise(self, before: Pod, now: Pod) -> bool:
        """Tell whether a placed pod's labels changed so that other preemption rules are in effect for it."""
        if not before.node_name or before.labels == now.labels:
            return False
        return self.policies.resolve(before).preemption != self.policies.resolve(now).preemption

    def uses(self, pod: Pod) -> Uses:
        """Return what a pod uses according to its objects, by dialect; only devices that its node lists count."""
        return self.state.as_listed(pod.node_name, self.dialects.uses(pod))

    def seen_unchanged(self, uid: str, now: float) -> None:
        """Note that a pod is unchanged; enqueue one of ours that is in no queue, or it would be stranded."""
        pod = self.state.pod(uid)
        if pod is not None and pod.scheduler_name in self.scheduler_names:
            self.unbound_pods.observe(pod, pod, now)

    def _counts(self, pod: Pod) -> bool:
        """Tell whether a pod matters: one of ours, of `coexist_with`, or one that is bound or nominated."""
        somewhere = bool(pod.node_name or pod.nominated_node_name)
        return somewhere or pod.scheduler_name in self.scheduler_names | self.coexist_with

    def bound_pods_synced_to(self, version: int, now: float, unreadable: Collection[str] = ()) -> list[str]:
        """Note that all pods bound up to a resource version have been shown; return the UIDs of pods that are gone.

        Parameters
        ----------
        unreadable
            ``namespace/name`` of shown pods that could not be read: a pod of that name may be bound.
        """
        gone = self.unbound_pods.gone_as_of(version, unreadable)
        for uid, left_at in gone:
            self.remove_pod(uid, now, left_at)
        return [uid for uid, _ in gone]

    def remove_pod(self, uid: str, now: float, version: int | None = None) -> None:
        """Note that a pod is deleted or no longer counts, as of a resource version."""
        self.unbound_pods.final_state_known(uid)
        self.groups.forget(uid)
        self.unbound_pods.forget(uid)
        self.policy_tracker.forget(uid)
        self.assumed.forget(uid)
        self.preemptions.forget(uid)
        self.attempts.waiting_holds.forget(uid)
        event = self.state.remove_pod(uid, version)
        self.preemptions.on_victim_gone(uid, now)
        if self.closed_nodes.unserved_pods.forget(uid):
            event |= ClusterEvent.NODE_ADD
        self._requeuer.requeue(event, now)

    def observe_node(self, node: Node, now: float) -> tuple[Problem, ...]:
        """Take in a node; a registration that cannot be decoded leaves the last good one in force."""
        devices, problems = self._registrations.read(node)
        event = self.state.observe_node(node, devices)
        if self.state.node(node.name) is node and self.closed_nodes.observe(node):
            event |= ClusterEvent.NODE_ADD
        self.preemptions.node_changed(node.name)
        self._requeuer.requeue(event, now)
        return problems

    def observe_inventory(self, node: str, inventory: InventoryObject | None, now: float) -> tuple[Problem, ...]:
        """Take in the object that lists a node's devices in some dialects; None where it is gone.

        It may come before the node.
        """
        self._registrations.put_inventory(node, inventory)
        known = self.state.node(node)
        return () if known is None else self.observe_node(known, now)

    def remove_node(self, name: str, version: int | None = None) -> None:
        """Note that a node is gone, as of a resource version (by default the node's own)."""
        self.state.pending_events.events |= self.state.remove_node(name, version)
        if self.state.node(name) is None:
            self.closed_nodes.forget(name)
            self._registrations.forget(name)
            self.preemptions.node_gone(name)
            for reservation in self.state.reservations(name):
                self.groups.unreserved(reservation.uid)

    def repair(self, name: str, now: float) -> list[str]:
        """Rebuild a node's bookings from the objects; return what was wrong, one sentence per error."""
        wrong = self.state.repair(name)
        if wrong:
            self._requeuer.requeue(ClusterEvent.DEVICE_FREED | ClusterEvent.ASSIGNED_POD_DELETE, now)
        return wrong

    def open_node(self, name: str, closure: StandingClosure, now: float) -> None:
        """Let pods go to a closed node again, and requeue the pods that wait for it."""
        if self.closed_nodes.open(name, closure):
            self._requeuer.requeue(ClusterEvent.NODE_ADD, now)

    # Attempts --------------------------------------------------------------------------------------------------------

    def attempt(self, now: float, *, explain: bool = False) -> Decision | None:
        """Attempt the next pod of the queue and return its first decision; see :meth:`schedule_next`."""
        decisions = self.schedule_next(now, explain=explain)
        return decisions[0] if decisions else None

    def request_warnings_of(self, pod: Pod) -> tuple[str, ...]:
        """Say why a pod is refused, or which of its requests are treated differently than written."""
        read = self.algorithm.classes.read(pod)
        said = (read.reason,) if isinstance(read, RefusedClass) else read.warnings
        return (*said, *self.request_warnings.of_pod(pod))

    def schedule_next(
        self, now: float, *, explain: bool = False, most_partial_attempts: float = float("inf")
    ) -> tuple[Decision, ...]:
        """Decide the next pod of the queue together with its group; placements are assumed at once.

        Parameters
        ----------
        explain
            Include the scores and verdicts of all nodes.
        most_partial_attempts
            Return after this many pods that no changed node helps, so that the caller can do something else.

        Returns
        -------
        tuple of Decision
            One per pod of the group; empty when no pod is active, or when ``most_partial_attempts`` is reached.
        """
        self._requeuer.process_cluster_events(now)
        partial_attempts = 0
        while partial_attempts < most_partial_attempts and (uid := self.queue.pop(now)) is not None:
            pod = self.state.pod(uid)
            if pod is None or self.state.reservation(uid) is not None:
                self.queue.remove(uid)
                continue
            self.preemptions.begin_attempt()
            try:
                decisions = self.attempts.attempt(pod, now, explain=explain)
            except Exception as error:  # noqa: BLE001 - any error is charged to these pods alone
                decisions = self._attempt_failed(error, now)
            if decisions:
                self.group_conditions.tried(decisions)
                return decisions
            partial_attempts += 1
        return ()

    def _attempt_failed(self, error: Exception, now: float) -> tuple[Decision, ...]:
        """Requeue the pods of an attempt that raised: one bad pod must not stop all others."""
        pods = self.attempts.in_flight
        self.preemptions.abort_attempt()
        for pod in pods:
            self.queue.pop_specific(pod.uid, now)
            if self.state.reservation(pod.uid) is None:
                self.queue.back_off(pod.uid, now)
            else:  # the pod was placed before the error
                self.unreserve(pod.uid, now)
        return tuple(error_decision(pod, error) for pod in pods)

    def decide_elsewhere(self, uid: str, slow: Collection[str]) -> Decision | None:
        """Decide anew an assumed pod that waits at a slow node; see :meth:`AssumedPlacements.decide_elsewhere`."""
        pod = self.state.pod(uid)
        return self.assumed.decide_elsewhere(uid, slow) if pod is not None and self.attempts.may_move(pod) else None

    def binding_succeeded(self, uid: str) -> None:
        """Note that the API server confirmed a pod's Binding."""
        self.state.confirm(uid)
        self.groups.bound(uid)
        self.state.write_finished(uid)
        self.unbound_pods.forget(uid)
        self.policy_tracker.forget(uid)
        self.assumed.forget(uid)
        self.preemptions.bound(uid)

    def unreserve(self, uid: str, now: float, requeue: Requeue = Requeue.BACK_OFF, at_least: float = 0.0) -> None:
        """Give back an assumed placement that will not be bound, and requeue the pod; a bound pod keeps its placement.

        Parameters
        ----------
        requeue
            Whether the pod is tried at once or backs off.
        at_least
            Minimum back-off (seconds).
        """
        reservation = self.state.reservation(uid)
        event = self.state.unreserve(uid)
        self.state.write_finished(uid)
        self.preemptions.unreserved(uid, reservation if self.state.reservation(uid) is None else None)
        self.preemptions.on_victim_gone(uid, now)
        self.assumed.forget(uid)
        self.groups.unreserved(uid)
        self._requeuer.requeue(event, now)
        self.unbound_pods.requeue(uid, now, requeue, at_least)

    def is_to_place(self, pod: Pod) -> bool:
        """Tell whether a pod is one of ours that has to be placed."""
        return pod.scheduler_name in self.scheduler_names and self.unbound_pods.needs_scheduling(pod)
