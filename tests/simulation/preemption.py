"""The state machine of preemption: few cards, four priorities, and all that can happen to those that have to leave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import hypothesis.strategies as st
from hypothesis.stateful import initialize, precondition, rule
from tests.kube.objects import Obj
from tests.simulation.cluster import OTHERS, SimCard, SimNode, SimPod
from tests.simulation.evictions import policy_of, recorded
from tests.simulation.evictor import PROTECTED, EvictingWorld, Request
from tests.simulation.kept_room import check_kept_room, check_sent, check_settled, on_cards
from tests.simulation.leaders import HeldBack
from tests.simulation.machine import SchedulerMachine, picks
from tests.simulation.records import COUNTS_FOR, note_conflict, note_failure, note_records
from tests.simulation.things import SimThing
from tests.simulation.world import NAMES, REACHED, Shape

from vgpu_scheduler.intake import BUDGETS, CLUSTER_POLICIES, POLICIES
from vgpu_scheduler.kube import MANAGER, Pod

PALETTE: Final = ((1, 3000, 0), (1, 8000, 0), (2, 2000, 50), (1, 4000, 50), (1, 1000, 100), (1, 2000, 0), (0, 0, 0))
POLICY: Final = "preempts"
RULES: Final[tuple[Obj | None, ...]] = (
    {"mayPreempt": True},
    {"mayPreempt": True},
    {"mayPreempt": True, "perHour": 1},
    {"mayPreempt": True, "perHour": 3},
    {"mayPreempt": True, "budgets": "Exceed"},
    {"mayPreempt": True, "victims": "Any"},
    {"mayPreempt": True, "minRuntime": "10s"},
    {"mayPreempt": True, "delay": "5s"},
    {"mayPreempt": False},
    None,
)
OF_A_NAMESPACE: Final[tuple[Obj | None, ...]] = (
    {"perHour": 1},
    {"perHour": 2},
    {"perHour": 5},
    {"minRuntime": "5s"},
    None,
)
"""What a policy of the namespace says, which may only tighten what the cluster policy says."""
DRAINING: Final = "EvictionByEvictionAPI"
FATES: Final = (*("succeeds",) * 6, "lost", "dropped", "403", "404", "409", "422", "429", "500", "503")
_MIG_CARD: Final = f"{NAMES[1]}-1"


class PreemptionMachine(EvictingWorld, SchedulerMachine):
    """What can happen while some have to leave for others.

    No store is restored here: a backup brings back pods that were evicted, and forgets the nominations they left for.
    """

    def __init__(self) -> None:
        self.unforeseen: set[tuple[str, str]] = set()
        """Cards that a former leader gave to somebody of whom the present one could not know."""
        self.quotas: dict[str, tuple[float, tuple[tuple[str, int], ...]]] = {}
        """By victim, when its eviction was sent, and how many the policies allowed, by their UIDs."""
        self.evicted: list[tuple[float, str, str]] = []
        self.victims: set[str] = set()
        """Those who were evicted, whatever limits it."""
        """When evictions were sent, whose, and under which policy."""
        self.conflicts = Counter[str]()
        self.excused: set[str] = set()
        """Pods of which a policy may say that they were evicted, although nobody can tell, and policies that may."""
        super().__init__()

    @initialize(
        shapes=st.lists(st.sampled_from(PALETTE), min_size=4, max_size=10),
        urgent=st.lists(st.sampled_from(PALETTE), max_size=3),
        nodes=st.integers(1, 2),
        others=st.integers(0, 4),
        rules=st.sampled_from(RULES[:6]),
        tightened=st.sampled_from([None, None, *OF_A_NAMESPACE]),
    )
    def begin(
        self, shapes: list[Shape], urgent: list[Shape], nodes: int, others: int, rules: Obj, tightened: Obj | None
    ) -> None:
        """Begin with policies, nodes that are in use, and pods that want them."""
        self.policy_of_the_namespace_changes(tightened)
        for name in NAMES[:nodes]:
            self._add_node(name, 2)
            for _ in range(others):
                self.others_bind(name, 0)
        self._put_policy(POLICY, rules)
        for shape in shapes:
            self.api.put_pod(self._new_pod(shape))
        self._deliver_all()
        self.begin_to_lead()
        self._decide(len(shapes))
        for uid in sorted(self.in_flight):
            self._send(uid, "succeeds")
            self._settle(*self.answers.pop())
        self._deliver_all()
        for shape in urgent:
            self.api.put_pod(self._new_pod(shape, priority=2))
        self._deliver_all()
        self._decide(len(urgent))

    def _add_node(self, name: str, number: int) -> None:
        names = [f"{name}-{index}" for index in range(number)]
        cards = tuple(SimCard(each, mig=each == _MIG_CARD) for each in names)
        self.api.put_node(SimNode(name, f"{name}-{self.api.serial()}", 0, cards, others=frozenset()))

    def restart(self) -> None:
        """A new process, which goes on with what the last one began; what that has recorded stays."""
        for policy in self.policies():
            self.excused.update(recorded(policy))
        super().restart()
        self.excused.update(one.uid for _, found in self.under_way() for one in found.victims)
        self.begin_to_lead()

    # Pods ------------------------------------------------------------------------------------------------------------

    @rule(
        shapes=st.lists(st.sampled_from(PALETTE), min_size=1, max_size=4),
        priority=st.integers(0, 3),
        more=st.sampled_from(["", "", "", "", "db", "kept", "never", "static", "protected"]),
        seen=st.sampled_from([True, True, False]),
    )
    def pods_come(self, shapes: list[Shape], priority: int, more: str, *, seen: bool) -> None:
        for shape in shapes:
            asked: dict[str, Any] = {"labels": {"app": more}} if more in {"db", "kept"} else {}
            if more == "never":
                asked = {"asked": {"preemptionPolicy": "Never"}}
            elif more == "static":
                asked = {"annotations": {"kubernetes.io/config.mirror": "x"}}
            elif more == "protected":
                asked = {"namespace": PROTECTED}
            self.api.put_pod(self._new_pod(shape, priority=priority, **asked))
        if seen:
            self._deliver_all()

    @rule(number=st.integers(1, 3), shape=st.sampled_from(PALETTE), priority=st.integers(1, 3))
    def urgent_pods_come(self, number: int, shape: Shape, priority: int) -> None:
        """Pods come, are decided, and their nominations are written."""
        for _ in range(number):
            self.api.put_pod(self._new_pod(shape, priority=priority))
        self._deliver_all()
        self._decide(8)
        for request in [each for each in self.requests() if each.path.endswith("/status")]:
            self.finish(request)

    @rule(name=st.sampled_from(NAMES), priority=st.integers(0, 2))
    def others_bind(self, name: str, priority: int) -> None:
        """Have a pod of another scheduler begin to run, which asks for no card."""
        running: dict[str, Any] = {"phase": "Running", "started": True, "began": int(self.now)}
        self.api.put_pod(self._new_pod((0, 0, 0), priority=priority, scheduler=OTHERS, node=name, **running))

    @rule(pick=picks, anew=st.booleans())
    def victim_ends(self, pick: int, *, anew: bool) -> None:
        """A pod that was evicted ends; its controller may make it anew."""
        ending = [pod for _, pod in sorted(self.api.pods.items()) if pod.deleting]
        if ending:
            self._end(ending[pick % len(ending)], anew=anew)

    @rule(pick=picks, other=picks, takes_over=st.booleans())
    def another_program_makes_room(self, pick: int, other: int, *, takes_over: bool) -> None:
        """A node is drained, and an autoscaler nominates a pod of ours to it; perhaps a new leader finds that."""
        running = [pod for _, pod in sorted(self.api.pods.items()) if pod.node and not (pod.terminal or pod.deleting)]
        waiting = [
            pod
            for _, pod in sorted(self.api.pods.items())
            if pod.ours and not (pod.node or pod.terminal or pod.deleting or pod.nominated) and pod.priority > 0
        ]
        if running and waiting:
            drained, pod = running[pick % len(running)], waiting[other % len(waiting)]
            ends_by = int(self.now) + 30
            self.api.put_pod(replace(drained, deleting=True, ends_by=ends_by, disruption=DRAINING))
            self.api.put_pod(replace(pod, nominated=drained.node, nominated_by="karpenter"))
            REACHED["nominated by another program"] += 1
            if takes_over:
                self._deliver_all()
                self.restart()

    @rule(pick=picks)
    def pod_is_being_deleted(self, pick: int) -> None:
        if pod := self._a_pod(pick):
            self.api.put_pod(replace(pod, deleting=True, ends_by=pod.ends_by or int(self.now) + 30))

    def _end(self, pod: SimPod, *, anew: bool) -> None:
        self.api.delete_pod(pod.uid)
        REACHED["victim ended"] += bool(pod.disruption)
        if anew:
            self.api.put_pod(pod.anew(self.api.serial()))

    # Policies and budgets --------------------------------------------------------------------------------------------

    def _put_policy(self, name: str, rules: Obj, **spec: Any) -> None:
        known = self.api.get(CLUSTER_POLICIES, name)
        content = {
            "apiVersion": "vgpu-scheduler.io/v1alpha1",
            "kind": "ClusterVGPUPolicy",
            "metadata": {"name": name, "generation": self.api.serial()},
            "spec": {"preemption": rules, **spec},
            "status": known.content["status"] if known else {},
        }
        self.api.put(CLUSTER_POLICIES, content)

    @rule(rules=st.sampled_from(RULES))
    def policy_changes(self, rules: Obj | None) -> None:
        known = self.api.get(CLUSTER_POLICIES, POLICY)
        if rules is not None:
            self._put_policy(POLICY, rules)
        elif known is not None:
            self.api.delete(known)

    def policies(self) -> list[SimThing]:
        """Return the policies that there are."""
        return [*self.api.of(CLUSTER_POLICIES), *self.api.of(POLICIES)]

    @rule(rules=st.sampled_from(OF_A_NAMESPACE))
    def policy_of_the_namespace_changes(self, rules: Obj | None) -> None:
        known = self.api.get(POLICIES, "default/tightens")
        if rules is not None:
            metadata = {"name": "tightens", "namespace": "default", "generation": self.api.serial()}
            status = known.content["status"] if known else {}
            kind = {"apiVersion": "vgpu-scheduler.io/v1alpha1", "kind": "VGPUPolicy"}
            self.api.put(POLICIES, {**kind, "metadata": metadata, "spec": {"preemption": rules}, "status": status})
        elif known is not None:
            self.api.delete(known)

    @rule(there=st.booleans())
    def some_pods_are_protected(self, *, there: bool) -> None:
        """A policy that protects some pods comes or goes; those that are protected may preempt, too."""
        known = self.api.get(CLUSTER_POLICIES, "keeps")
        if there:
            rules = {"mayPreempt": True, "preemptible": False}
            self._put_policy("keeps", rules, priority=9, selector={"matchLabels": {"app": "kept"}})
        elif known is not None:
            self.api.delete(known)

    @rule(name=st.sampled_from(["one", "two"]), allowed=st.sampled_from([0, 0, 1, 2, None]))
    def budget_changes(self, name: str, allowed: int | None) -> None:
        known = self.api.get(BUDGETS, f"default/{name}")
        if allowed is not None:
            spec = {"selector": {"matchLabels": {"app": "db"}}}
            metadata = {"name": name, "namespace": "default"}
            self.api.put(BUDGETS, {"metadata": metadata, "spec": spec, "status": {"disruptionsAllowed": allowed}})
        elif known is not None:
            self.api.delete(known)

    @precondition(lambda self: self._evictions())
    @rule(pick=picks, names=st.sampled_from([("one",), ("one", "two")]))
    def budgets_come_before_an_eviction(self, pick: int, names: tuple[str, ...]) -> None:
        """A victim gets a label that budgets select right before its eviction comes."""
        requests = self._evictions()
        request = requests[pick % len(requests)]
        victim = self.api.pods.get(request.body["deleteOptions"]["preconditions"]["uid"])
        if victim is not None and victim.namespace == "default":
            self.api.put_pod(replace(victim, labels={"app": "db"}))
            for name in names:
                self.budget_changes(name, 0)
            self.finish(request)

    @precondition(lambda self: self._evictions())
    @rule(pick=picks)
    def victim_is_made_anew_under_its_name(self, pick: int) -> None:
        """A victim is replaced by another pod of its name right before its eviction comes, as StatefulSets do it."""
        requests = self._evictions()
        request = requests[pick % len(requests)]
        victim = self.api.pods.get(request.body["deleteOptions"]["preconditions"]["uid"])
        if victim is not None:
            self.api.delete_pod(victim.uid)
            self.api.put_pod(replace(victim.anew(self.api.serial()), name=victim.name))
            self.finish(request)

    @rule(allowed=st.sampled_from([0, 0, 1]))
    def budgets_are_exceeded(self, allowed: int) -> None:
        """A policy lets victims end against a budget that protects them."""
        self._put_policy(POLICY, {"mayPreempt": True, "budgets": "Exceed"})
        self.budget_changes("one", allowed)
        for pod in [pod for pod in self.api.pods.values() if pod.node and pod.ours and pod.namespace == "default"]:
            self.api.put_pod(replace(pod, labels={"app": "db"}))
        self._deliver_all()
        self.urgent_pods_come(1, PALETTE[1], 3)
        self.evictions_go_on(8)

    @precondition(lambda self: self._evictions())
    @rule(pick=picks, fate=st.sampled_from(["403", "403", "429", "500"]))
    def eviction_is_refused(self, pick: int, fate: str) -> None:
        requests = self._evictions()
        self.finish(requests[pick % len(requests)], fate)

    @precondition(lambda self: self._recordings())
    @rule(pick=picks)
    def eviction_is_forbidden_once_a_policy_has_refused_its_record(self, pick: int) -> None:
        requests = self._recordings()
        self.finish(requests[pick % len(requests)], "422")
        self.policy_changes({"mayPreempt": False})
        self._deliver_all()
        for _ in range(3):
            self.now += 2.0
            self.loop.turn()
            self.evictions_go_on(4)

    def _recordings(self) -> list[Request]:
        found = [each for each in self.requests() if each.method == "PATCH" and each.leader.leads]
        return [request for request in found if policy_of(self, request) is not None]

    def _evictions(self) -> list[Request]:
        return [request for request in self.requests() if request.path.endswith("/eviction")]

    # The evictor -----------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.requests())
    @rule(choices=st.lists(picks, min_size=1, max_size=5), fate=st.sampled_from(FATES))
    def request_is_answered(self, choices: list[int], fate: str) -> None:
        for pick in choices:
            if found := self.requests():
                self.finish(found[pick % len(found)], fate)

    @rule(turns=st.integers(1, 6))
    def evictions_go_on(self, turns: int) -> None:
        """All that is sent is answered, as far as that goes, without anything else."""
        for _ in range(turns):
            for request in self.requests():
                self.finish(request)

    def do_what_is_due(self) -> None:
        self.evictions_go_on(4)
        for pod in [pod for pod in self.api.pods.values() if pod.disruption and pod.deleting]:
            self._end(pod, anew=False)

    def goes_on(self, held: HeldBack) -> str:
        """Note the cards that a frozen leader gives away after all."""
        outcome = super().goes_on(held)
        if outcome == "binding: 201":
            cards = {assignment.uuid for container in held.placement.containers for assignment in container}
            self.unforeseen.update((held.placement.node, uuid) for uuid in cards)
        return outcome

    def check_request(self, leader: Any, method: str, path: str, body: Obj | None) -> None:
        """Check an eviction when it is sent."""
        if path.endswith("/eviction") or method == "DELETE":
            assert body is not None
            victim = (body.get("deleteOptions") or body)["preconditions"]["uid"]
            quotas = check_sent(self, leader.engine, victim)
            evicted = self.api.ever[victim]
            REACHED["victim of another scheduler"] += not evicted.ours
            REACHED["victim on a MIG card"] += any(card == _MIG_CARD for _, card in on_cards(evicted.placement))
            uids = (
                (self.api.get(POLICIES, f"{space}/{name}") if space else self.api.get(CLUSTER_POLICIES, name), limit)
                for (_, space, name), limit in quotas
            )
            self.quotas[victim] = self.now, tuple((policy.uid, limit) for policy, limit in uids if policy)

    def note_eviction(self, request: Request, victim: str) -> None:
        """Check that no more are evicted than policies allow, whoever leads."""
        self.victims.add(victim)
        sent, quotas = self.quotas[victim]
        for policy, limit in quotas:
            self.evicted.append((sent, victim, policy))
            recent = {uid for at, uid, of in self.evicted if of == policy and abs(sent - at) < COUNTS_FOR}
            assert len(recent) <= limit, f"{sorted(recent)} within an hour, and {limit} are allowed"
            REACHED["eviction that counts"] += 1
        REACHED["eviction that counts in two policies"] += len(quotas) > 1

    def check_restored(self, uids: list[str]) -> None:
        """Check that no more is kept for a pod than it requests where another program has nominated it."""
        for uid in uids:
            pod = self.api.ever[uid]
            if pod.nominated and pod.nominated_by != MANAGER:
                self.wrong.append(AssertionError(f"room is kept for {pod.name}, which {pod.nominated_by} nominated"))

    def note_records(self, request: Request, policy: SimThing, before: Mapping[str, str]) -> None:
        note_records(self, request, policy, before)

    def note_conflict(self, policy: str) -> None:
        note_conflict(self, policy)

    def note_failure(self, request: Request) -> None:
        note_failure(self, request)

    # What must hold --------------------------------------------------------------------------------------------------

    def check_cluster(self) -> None:
        self.loop.turn()
        for failure in (*self.wrong, *self.loop.failures):
            raise failure
        check_kept_room(self.api, self.under_way(), self.disturbed | self.unforeseen)
        REACHED.update(Counter(f"answer to an eviction: {a.value}" for a in self._answers()))

    def check_nobody_is_forgotten(self) -> None:
        """Check that nobody waits who could be placed, unless nominations are about to be taken back."""
        state = self.engine.state
        if all(state.holds.get(uid) for node in state.nominations for uid in state.nominations.on(node)):
            super().check_nobody_is_forgotten()

    def could_preempt(self, pod: Pod) -> object:
        """Return what a pod that waits could have of others; None if it is nothing."""
        return self.engine.preemptions.evaluator.search(pod, self.now).preemption

    def _answers(self) -> list[Any]:
        assert self.leader is not None
        answers = self.leader.evictor.stats.answers
        found = [answer for answer in answers if answers[answer]]
        answers.clear()
        return found

    def teardown(self) -> None:
        """Let everything come to rest: nobody waits for room that nobody leaves, and nothing is kept for nobody."""
        try:
            if hasattr(self, "engine"):
                check_settled(self)
            super().teardown()
        finally:
            self.close()
