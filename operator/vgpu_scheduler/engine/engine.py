"""The engine: observations in, decisions out.

It owns the state and the queue and keeps them in step: every observation that gives something back wakes the pods
that it could help. Nothing here waits or looks at a clock; the caller supplies the time (seconds, monotonic).
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from vgpu_scheduler.dialects import Dialects, InventoryObject
from vgpu_scheduler.engine.algorithm import SchedulingAlgorithm
from vgpu_scheduler.engine.assumed import AssumedPlacements
from vgpu_scheduler.engine.attempts import Attempts
from vgpu_scheduler.engine.budgets import DisruptionBudgets
from vgpu_scheduler.engine.closed_nodes import ClosedNodes, KubeletRejections, NodeClosure
from vgpu_scheduler.engine.equivalence import Refused
from vgpu_scheduler.engine.equivalence_classes import EquivalenceClasses
from vgpu_scheduler.engine.final_states import UnknownFinalStates
from vgpu_scheduler.engine.group_conditions import GroupConditions
from vgpu_scheduler.engine.group_progress import GroupProgress
from vgpu_scheduler.engine.kinds import observed_kinds
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
from vgpu_scheduler.engine.queued_pods import QueueEvent, Requeue, asks_differently
from vgpu_scheduler.engine.quotas import QuotaLimits, counted_by_card
from vgpu_scheduler.engine.registrations import Registrations
from vgpu_scheduler.engine.requeuing import Requeuer, WaitingNeeds
from vgpu_scheduler.engine.storage import StorageAccess
from vgpu_scheduler.engine.unlisted_dialects import UnlistedDialects
from vgpu_scheduler.engine.usage_warnings import UsageWarnings
from vgpu_scheduler.kube import Node, Pod
from vgpu_scheduler.model import ClusterEvent, Decision, EventReason, Placement, Uses
from vgpu_scheduler.policy import Policies
from vgpu_scheduler.predicates import gated, needs_scheduling
from vgpu_scheduler.state import Phase, State


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
        wakes = self.state.wakes
        self.policies = policies = Policies(options.defaults, wakes)
        needs = WaitingNeeds(self.state)
        self.queue = SchedulingQueue(needs.discard, options.flush_after)
        self.groups = PodGroups(
            self.state,
            self._is_ours_to_schedule,
            lambda kind: self.lists.listed(kind) > 0,
            self.queue.prioritise,
            policies,
        )
        self.group_conditions = GroupConditions(self.groups, self.scheduler_names)
        self.group_progress = GroupProgress(self.state, self.groups, policies, self.scheduler_names)
        self.unlisted_dialects = UnlistedDialects(self.dialects, options.unlisted)
        self.usage_warnings = UsageWarnings(
            self.dialects, self.groups.warning, self._listed_vendors, self.unlisted_dialects
        )
        self.quota_limits = QuotaLimits(self.dialects, self.usage_warnings, wakes)
        self.budgets = DisruptionBudgets()
        judge = LockJudge(self.dialects.node_side, self.scheduler_names, options.bind_timeout)
        kubelet_rejections = KubeletRejections(options.rejected_node_wait)
        self.closed_nodes = ClosedNodes(judge, self.state, kubelet_rejections)
        self.storage = StorageAccess(wakes)
        classes = EquivalenceClasses(self.state, self.dialects, policies, self.quota_limits)
        self.algorithm = SchedulingAlgorithm(
            classes, self.closed_nodes, self.storage, PriceLearner(classes), self.groups.priority
        )
        self.policy_tracker = PolicyTracker(classes)
        self._requeuer = Requeuer(
            classes, self.queue, self.policy_tracker, self.quota_limits, needs, kubelet_rejections
        )
        names, protected = self.scheduler_names, options.protected_namespaces
        disruption = GroupDisruption(self.state, self.groups)
        evaluator = Evaluator(self.algorithm, policies, self.budgets.all, names, protected, disruption)
        self.preemptions = Preemptions(self.algorithm, self.queue, policies, evaluator, enabled=options.preemption)
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
            self.algorithm, self.groups, self.preemptions, names, self.needs_scheduling, self.attempts.gang_status
        )
        self.assumed = AssumedPlacements(
            self.algorithm, self.queue, self.policy_tracker, self.quota_limits, self.closed_nodes, self.needs_scheduling
        )
        self._gated: set[str] = set()
        self._final_states = UnknownFinalStates()
        self._registrations = Registrations(self.dialects, self.state)
        self.kinds = observed_kinds(self)
        """The kinds of objects that are taken in, by name."""
        self.lists = ConsistentLists(self.kinds, self._final_states.clear)

    # Observations ----------------------------------------------------------------------------------------------------

    def observe_pod(self, pod: Pod, now: float) -> tuple[Problem, ...]:
        """Take in a pod as some stream or answer showed it; older versions are ignored."""
        if pod.resource_version < self._final_states.version(pod.uid):
            return ()  # from before it left the selection that it was in
        self._final_states.resolve(pod.uid)
        before = self.state.pod(pod.uid)
        if not self._counts(pod):
            if before is not None and pod.resource_version > self.state.pod_version(pod.uid):
                self._forget(pod.uid, now, pod.resource_version)
            return ()
        if before is not None and 0 < pod.resource_version <= self.state.pod_version(pod.uid):
            self.seen_unchanged(pod.uid, now)  # sweeps and several streams show the same
            return ()
        if pod.scheduler_name in self.coexist_with and not pod.node_name:
            # Its scheduler announces what it will bind, and counts on it: the pod is as good as bound there.
            pod = msgspec.structs.replace(pod, node_name=self.dialects.announced_node(pod))
        uses = self.dialects.uses(pod)
        kept_for = self.state.holds.beneficiaries_of(pod.uid)
        event = self.state.observe_pod(pod, uses)
        accepted = self.state.pod(pod.uid)
        self.preemptions.on_victim_gone(kept_for, now)
        if pod.node_name:
            self.preemptions.bound(pod.uid)
        problems: list[Problem] = []
        if accepted is pod and self.closed_nodes.unserved_pods.observe(pod):
            event |= ClusterEvent.NODE_ADD
        if accepted is pod:
            self.groups.observe(pod)
            self.state.wakes.victims |= before is not None and self._may_be_evicted_otherwise(before, pod)
        if accepted is pod and pod.scheduler_name in self.scheduler_names:
            problems += self.closed_nodes.kubelet_rejections.observe(before, pod, self.state.node(pod.node_name), now)
            self._enqueue(pod, before, now)
        self._requeuer.requeue(event, now)
        problem = "; ".join(usage.problem for usage in uses.values() if usage.problem)
        if accepted is pod and problem:
            problems.append(
                Problem("Pod", pod.namespace, pod.name, pod.uid, EventReason.ALLOCATION_UNREADABLE, problem)
            )
        return tuple(problems)

    def _may_be_evicted_otherwise(self, before: Pod, now: Pod) -> bool:
        """Tell whether a placed pod has changed labels by which policies let others evict it, or do not."""
        if not before.node_name or before.labels == now.labels:
            return False
        return self.policies.resolve(before).preemption != self.policies.resolve(now).preemption

    def uses(self, pod: Pod) -> Uses:
        """Return what a pod uses by its objects of the devices that its node lists, by dialect."""
        return self.state.as_listed(pod.node_name, self.dialects.uses(pod))

    def seen_unchanged(self, uid: str, now: float) -> None:
        """Take in that a pod is still there as it is known: one of ours that waits nowhere would be stranded."""
        pod = self.state.pod(uid)
        if pod is not None and pod.scheduler_name in self.scheduler_names:
            self._enqueue(pod, pod, now)

    def _counts(self, pod: Pod) -> bool:
        """Tell whether a pod makes any difference: others' do that hold something, or soon will."""
        somewhere = bool(pod.node_name or pod.nominated_node_name)
        return somewhere or pod.scheduler_name in self.scheduler_names | self.coexist_with

    def leave_selection(self, uid: str, version: int, now: float) -> None:
        """Take in that a pod left the selection of unbound pods that it was in, as of a resource version.

        It was bound, is gone, or does not count any more. Until that is known it is charged for what it holds.
        """
        if self.state.pod(uid) is None or self.state.pod_version(uid) >= version:
            return
        self._final_states.note(uid, version, now)
        self._gated.discard(uid)
        if self.state.reservation(uid) is None:
            self.queue.remove(uid)
            self.preemptions.withdraw(uid)

    def bound_shown_up_to(self, version: int, now: float, unreadable: Collection[str] = ()) -> list[str]:
        """Take in that all pods that were bound up to a resource version have been shown; return who is gone.

        Parameters
        ----------
        unreadable
            ``namespace/name`` of those that were shown and could not be read: a pod of that name may be bound.
        """

        def may_be_bound(uid: str) -> bool:
            pod = self.state.pod(uid)
            return pod is not None and pod.key in unreadable

        resolved = self._final_states.resolve_up_to(version, may_be_bound)
        gone = [(uid, left_at) for uid, left_at in resolved if not self._is_confirmed(uid)]
        for uid, left_at in gone:
            self._forget(uid, now, left_at)
        return [uid for uid, _ in gone]

    def unresolved(self, moment: float) -> list[Pod]:
        """Return the pods that left their selection before a moment (seconds, monotonic) and hold something still."""
        holding = self._final_states.older_than(moment, self.state.holds_something)
        pods = (self.state.pod(uid) for uid in holding if not self._is_confirmed(uid))
        return [pod for pod in pods if pod is not None]

    def _is_confirmed(self, uid: str) -> bool:
        """Tell whether the API answered that a pod is bound, which no stream has shown yet."""
        held = self.state.reservation(uid)
        return held is not None and held.phase is Phase.CONFIRMED

    def remove_pod(self, uid: str, now: float) -> None:
        """Take in that a pod is deleted."""
        self._forget(uid, now)

    def _forget(self, uid: str, now: float, version: int | None = None) -> None:
        """Forget a pod for ever, or only as it was up to a resource version."""
        self._final_states.resolve(uid)
        known = self.state.pod(uid)
        if known is not None:
            self.storage.forget(known)
        self.groups.forget(uid)
        self.queue.remove(uid)
        self._gated.discard(uid)
        self.policy_tracker.forget(uid)
        self.assumed.forget(uid)
        self.preemptions.forget(uid)
        self.attempts.waiting_holds.forget(uid)
        kept_for = self.state.holds.beneficiaries_of(uid)
        event = self.state.remove_pod(uid, version)
        self.preemptions.on_victim_gone(kept_for, now)
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
        """Take in the object beside a node that lists its devices, or that there is none any more.

        Some dialects have such an object; it may come before the node.
        """
        self._registrations.put_beside(node, inventory)
        known = self.state.node(node)
        return () if known is None else self.observe_node(known, now)

    def remove_node(self, name: str, version: int | None = None) -> None:
        """Take in that a node is gone, as of a resource version; its own unless one is given."""
        self.state.wakes.events |= self.state.remove_node(name, version)
        if self.state.node(name) is None:
            self.closed_nodes.forget(name)
            self.preemptions.node_gone(name)
            for held in self.state.reservations(name):
                self.groups.given_back(held.uid)

    def repair(self, name: str, now: float) -> list[str]:
        """Bring what is booked on a node in line with the objects; return what was wrong, a sentence each."""
        wrong = self.state.repair(name)
        if wrong:
            self._requeuer.requeue(ClusterEvent.DEVICE_FREED | ClusterEvent.ASSIGNED_POD_DELETE, now)
        return wrong

    def open_node(self, name: str, closure: NodeClosure, now: float) -> None:
        """Let pods go to a closed node again, and wake those that wait for that."""
        if self.closed_nodes.open(name, closure):
            self._requeuer.requeue(ClusterEvent.NODE_ADD, now)

    # Attempts --------------------------------------------------------------------------------------------------------

    def attempt(self, now: float, *, explain: bool = False) -> Decision | None:
        """Decide the next pod of the queue, where each is decided by itself; see :meth:`attempt_group`."""
        decisions = self.attempt_group(now, explain=explain)
        return decisions[0] if decisions else None

    def _listed_vendors(self) -> frozenset[tuple[str, str]]:
        """Return the vendors whose cards nodes have, with their dialects."""
        names = [dialect.name for dialect in self.dialects]
        return frozenset((name, vendor) for name in names for vendor in self.state.matrix(name).live_vendors())

    def usage_warnings_of(self, pod: Pod) -> tuple[str, ...]:
        """Say why a pod is refused, or what of it is followed otherwise than it looks."""
        read = self.algorithm.classes.read(pod)
        said = (read.reason,) if isinstance(read, Refused) else read.warnings
        return (*said, *self.usage_warnings.of_pod(pod))

    def attempt_group(
        self, now: float, *, explain: bool = False, most_looks: float = float("inf")
    ) -> tuple[Decision, ...]:
        """Decide the next pod of the queue with all pods of its group; placements are assumed at once.

        Parameters
        ----------
        explain
            Ask for the scores and verdicts of all nodes.
        most_looks
            After how many pods that changed nodes do not help there is a break.

        Returns
        -------
        tuple of Decision
            One for each pod of the group; empty when no pod is active, or for a break.
        """
        self._requeuer.drain(now)
        looks = 0
        while looks < most_looks and (uid := self.queue.pop(now)) is not None:
            pod = self.state.pod(uid)
            if pod is None or self.state.reservation(uid) is not None:
                self.queue.remove(uid)
                continue
            decisions = self.attempts.attempt(pod, now, explain=explain)
            if decisions:
                self.group_conditions.tried(decisions)
                return decisions
            looks += 1
        return ()

    def decide_elsewhere(self, uid: str, slow: Collection[str]) -> Decision | None:
        """Decide an assumed pod anew that waits at a slow node; see :meth:`AssumedPlacements.decide_elsewhere`."""
        pod = self.state.pod(uid)
        return self.assumed.decide_elsewhere(uid, slow) if pod is not None and self.attempts.may_move(pod) else None

    def after_recheck(self, decision: Decision, placement: Placement) -> Decision:
        """Return a decision as it stands after a re-check: with the placement and the policy that hold now."""
        pod = self.state.pod(decision.uid)
        return decision if pod is None else self.algorithm.after_recheck(pod, decision, placement)

    def binding_succeeded(self, uid: str) -> None:
        """Take in the API's answer that a pod is bound."""
        self.state.confirm(uid)
        self.groups.bound(uid)
        self.state.settled(uid)
        self.queue.remove(uid)
        self.policy_tracker.forget(uid)
        self.assumed.forget(uid)
        self.preemptions.bound(uid)
        known = self.state.pod(uid)
        if known is not None:
            self.storage.forget(known)

    def unreserve(self, uid: str, now: float, requeue: Requeue = Requeue.BACK_OFF, at_least: float = 0.0) -> None:
        """Take back an assumed placement that will not be bound, and try the pod again; one that is bound stays.

        Parameters
        ----------
        requeue
            When it is tried again.
        at_least
            Seconds that a back-off lasts at least.
        """
        kept_for, held = self.state.holds.beneficiaries_of(uid), self.state.reservation(uid)
        event = self.state.forget(uid)
        self.state.settled(uid)
        self.preemptions.unreserved(uid, held if self.state.reservation(uid) is None else None)
        self.preemptions.on_victim_gone(kept_for, now)
        self.assumed.forget(uid)
        self.groups.given_back(uid)
        self._requeuer.requeue(event, now)
        pod = self.state.pod(uid)
        if pod is None or not self.needs_scheduling(pod) or self.state.reservation(uid) is not None:
            self.queue.remove(uid)
        elif requeue is Requeue.NOW or uid not in self.queue:
            self.queue.add(uid, pod.priority, now, QueueEvent.ATTEMPT_FAILURE, created=pod.creation_timestamp)
        else:
            self.queue.back_off(uid, now, at_least)

    @property
    def gated(self) -> int:
        """How many of our pods wait behind scheduling gates."""
        return len(self._gated)

    # Inside ----------------------------------------------------------------------------------------------------------

    def needs_scheduling(self, pod: Pod) -> bool:
        """Tell whether a pod has to be placed."""
        return pod.uid not in self._final_states and needs_scheduling(pod)

    def _is_ours_to_schedule(self, pod: Pod) -> bool:
        return pod.scheduler_name in self.scheduler_names and self.needs_scheduling(pod)

    def _enqueue(self, pod: Pod, before: Pod | None, now: float) -> None:
        if gated(pod) and not pod.node_name and not pod.terminal:
            self._gated.add(pod.uid)
        elif pod.uid in self._gated:
            self._gated.remove(pod.uid)
            self.preemptions.evaluator.ungated(pod.uid, now)
        if not self.needs_scheduling(pod):
            self.storage.forget(pod)
            self.preemptions.withdraw(pod.uid)
            if self.state.reservation(pod.uid) is None or pod.node_name or pod.terminal:
                self.queue.remove(pod.uid)
            return
        if self.state.reservation(pod.uid) is not None:
            return
        self.storage.note(pod)
        if pod.uid not in self.queue or before is None or asks_differently(before, pod):
            self.queue.add(pod.uid, pod.priority, now, created=pod.creation_timestamp)
