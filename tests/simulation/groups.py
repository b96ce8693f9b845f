"""The state machine of groups: pods that are placed together or not at all, some of them near each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import hypothesis.strategies as st
from hypothesis.stateful import initialize, precondition, rule
from tests.policy.resources import policy
from tests.simulation.cluster import OTHERS, SimPod
from tests.simulation.machine import picks
from tests.simulation.restored import RestoringMachine
from tests.simulation.things import SimThing
from tests.simulation.world import NAMES, REACHED, RELISTED_KINDS, Shape

from vgpu_scheduler.engine import Engine, QueueName, Requeue
from vgpu_scheduler.groups import membership
from vgpu_scheduler.intake import POD_GROUPS
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision

OBJECTS: Final = next(kind for kind in POD_GROUPS if kind.name == "PodGroup.scheduling.x-k8s.io")
SAID, MINIMUM = "pod-group.scheduling.sigs.k8s.io", "pod-group.scheduling.sigs.k8s.io/min-available"
DESCRIBED, NEAR, PATIENT = "scheduling.x-k8s.io/pod-group", "near", "patient"
RACKS: Final = {"node-a": "r1", "node-b": "r1", "node-c": "r2"}
SHAPES: Final[tuple[Shape, ...]] = ((1, 1000, 0), (1, 3000, 30), (1, 8000, 0), (2, 2000, 50), (0, 0, 0))


class GroupsMachine(RestoringMachine):
    """What can happen to pods of groups."""

    relisted = (OBJECTS, *RELISTED_KINDS)

    def __init__(self) -> None:
        self.together: dict[str, frozenset[str]] = {}
        """The pods that were decided with each, itself included."""
        self.kept: dict[str, str] = {}
        """The nodes where room is kept for pods that wait, by UID."""
        self.told: set[str] = set()
        """The pods whose Bindings were sent, unless it is known that they were not carried out."""
        super().__init__()

    def _start_engine(self) -> None:
        self.together, self.told, self.kept = {}, set(), {}
        super()._start_engine()
        near = {"policy": "binpack", "together": {"key": "rack", "mode": "Required"}}
        racks = policy("racks", {"selector": {"matchLabels": {NEAR: "rack"}}, "nodes": near})
        self.engine.policy_tracker.observe(racks)
        kept = {"selector": {"matchLabels": {PATIENT: "yes"}}, "groups": {"holdAfter": "0s"}}
        self.engine.policy_tracker.observe(policy("kept", kept))

    def _add_node(self, name: str, number: int) -> None:
        super()._add_node(name, number)
        self.api.put_node(replace(self.api.nodes[name], labels={"rack": RACKS[name]}))

    @initialize(sizes=st.lists(st.integers(2, 4), max_size=3), shape=st.sampled_from(SHAPES), bound=st.integers(0, 6))
    def begin(self, sizes: list[int], shape: Shape, bound: int) -> None:
        """Begin with groups at every stage."""
        for name in NAMES:
            self._add_node(name, 2)
        self._relist()  # from then on it is known which kinds of objects there are
        for size in sizes:
            self.group_comes(size, size, shape, how="label", near=False, priority=0, seen=False, patient=True)
        self._deliver_all()
        self._decide(bound)
        for uid in sorted(self.in_flight)[:bound]:
            if uid in self.in_flight and self._send(uid, "succeeds"):
                self._settle(*self.answers.pop())

    # Groups ----------------------------------------------------------------------------------------------------------

    @rule(
        size=st.integers(1, 4),
        minimum=st.sampled_from([1, 1, 2, 3, 4, 5]),
        shape=st.sampled_from((*SHAPES, *((1, 8000, 0),) * 3)),
        how=st.sampled_from(["label", "label", "object", "object later"]),
        near=st.booleans(),
        priority=st.sampled_from([0, 0, 10]),
        seen=st.booleans(),
        patient=st.booleans(),
    )
    def group_comes(
        self, size: int, minimum: int, shape: Shape, *, how: str, near: bool, priority: int, seen: bool, patient: bool
    ) -> None:
        name = f"group-{self.api.serial()}"
        labels = {SAID: name, MINIMUM: str(minimum)} if how == "label" else {DESCRIBED: name}
        labels |= {NEAR: "rack"} if near else {}
        labels |= {PATIENT: "yes"} if patient else {}
        if how == "object":
            self._put_group(name, minimum)
        for _ in range(size):
            self.api.put_pod(self._new_pod(shape, labels=labels, priority=priority))
        if how == "object later":
            self._put_group(name, minimum)
        if seen:
            self._deliver_all()

    def _put_group(self, name: str, minimum: int) -> None:
        self.api.put(OBJECTS, {"metadata": {"name": name, "namespace": "default"}, "spec": {"minMember": minimum}})

    @rule(pick=picks, number=st.integers(1, 2))
    def group_grows(self, pick: int, number: int) -> None:
        """A controller makes more pods, as where some have failed."""
        if (pod := self._a_pod(pick, ours=True)) and self._is_of_a_group(pod):
            for _ in range(number):
                self.api.put_pod(pod.anew(self.api.serial()))

    @rule(pick=picks, minimum=st.integers(0, 5))
    def minimum_changes(self, pick: int, minimum: int) -> None:
        if thing := self._a_group(pick):
            self._put_group(thing.content["metadata"]["name"], minimum)

    @rule(pick=picks)
    def object_is_deleted(self, pick: int) -> None:
        if thing := self._a_group(pick):
            self.api.delete(thing)

    def _a_group(self, pick: int) -> SimThing | None:
        found = self.api.of(OBJECTS)
        return found[pick % len(found)] if found else None

    def _is_of_a_group(self, pod: SimPod) -> bool:
        return SAID in pod.labels or DESCRIBED in pod.labels

    # Everything else -------------------------------------------------------------------------------------------------

    @rule(shape=st.sampled_from(SHAPES), priority=st.sampled_from([0, 0, 10]), patient=st.booleans())
    def pod_comes(self, shape: Shape, priority: int, *, patient: bool) -> None:
        labels = {PATIENT: "yes"} if patient else {}
        self.api.put_pod(self._new_pod(shape, priority=priority, labels=labels))

    @rule(pick=picks, what=st.sampled_from(["health", "cordon", "rack"]))
    def node_changes(self, pick: int, what: str) -> None:
        if node := self._a_node(pick):
            if what == "health" and node.cards:
                first, *rest = node.cards
                self.api.put_node(replace(node, cards=(*rest, replace(first, healthy=not first.healthy))))
            elif what == "cordon":
                self.api.put_node(replace(node, unschedulable=not node.unschedulable))
            elif what == "rack":
                self.api.put_node(replace(node, labels={"rack": f"r{pick % 3}"} if pick % 4 else {}))

    @rule(pick=picks, what=st.sampled_from(["deleting", "gated", "open", "leaves its group", "other scheduler"]))
    def pod_changes(self, pick: int, what: str) -> None:
        pod = self._a_pod(pick)
        if pod is None:
            return
        if what == "deleting":
            self.api.put_pod(replace(pod, deleting=True))
        elif what == "open":
            self.api.put_pod(replace(pod, gated=False))
        elif what == "gated":
            self.api.put_pod(replace(pod.anew(self.api.serial()), gated=True))
        elif what == "leaves its group":
            self.api.put_pod(replace(pod, labels={}))
        else:
            self.api.put_pod(replace(pod.anew(self.api.serial()), scheduler=OTHERS, node=NAMES[pick % 3]))

    @precondition(lambda self: self.in_flight)
    @rule(pick=picks, slow=st.sets(st.sampled_from(NAMES)))
    def node_is_slow(self, pick: int, slow: set[str]) -> None:
        """Only pods that were decided by themselves go elsewhere."""
        if len(self.together.get(self._flying(pick), ())) < 2:
            super().node_is_slow(pick, slow)

    # The binder ------------------------------------------------------------------------------------------------------

    def _decided_together(self, decisions: Sequence[Decision]) -> None:
        placed = frozenset(each.uid for each in decisions if each.placement is not None)
        for uid in placed:
            self.together[uid] = placed
        for uid in placed:
            pod = self.engine.state.pod(uid)
            assert pod is not None
            self._check_group(pod)
        REACHED["placed together"] += len(placed) > 1
        self._note_kept(decisions)
        REACHED["waits for others of its group"] += any("waits for other pods" in each.message for each in decisions)

    def _unreserve(self, uid: str, requeue: Requeue = Requeue.BACK_OFF, at_least: float = 0.0) -> None:
        """Give a pod back, and those decided with it as long as no Binding of theirs was sent."""
        members = self.together.get(uid, frozenset({uid}))
        given_back = members & self.in_flight.keys() if not members & self.told else {uid}
        REACHED["given back together"] += len(given_back) > 1
        for each in sorted(given_back):
            super()._unreserve(each, requeue, at_least)

    def _send(self, uid: str, fate: str) -> bool:
        members = self.together.get(uid, frozenset({uid}))
        if not members & self.told:
            for each in sorted(members & self.in_flight.keys()):
                if each in self.in_flight and self._recheck(each) is None:
                    return False
        if uid not in self.in_flight or not super()._send(uid, fate):
            return False
        self.told.add(uid)
        return True

    def _settle(self, uid: str, answer: str) -> None:
        super()._settle(uid, answer)
        if self.engine.state.reservation(uid) is None:
            self.told.discard(uid)
            members = self.together.get(uid, frozenset())
            if not members & self.told:
                for each in sorted(members & self.in_flight.keys()):
                    super()._unreserve(each)

    def _note_kept(self, decisions: Sequence[Decision]) -> None:
        """Note for whom room is kept, and who gets it."""
        waiting = self.engine.preemptions.held_without_eviction
        for uid, node in [(uid, node) for uid, node in self.kept.items() if uid not in waiting]:
            del self.kept[uid]
            placed = next((each.placement for each in decisions if each.uid == uid), None)
            REACHED["placed where room was kept"] += placed is not None and placed.node == node
        for uid in waiting.keys() - self.kept.keys():
            hold = self.engine.state.holds.get(uid)
            assert hold is not None, f"room is said to be kept for {uid}"
            self.kept[uid] = hold.node
            REACHED["room kept while others are there"] += 1

    def teardown(self) -> None:
        """Keep no room any more, nor that of pods which are given back: a new process would not know of it."""
        if hasattr(self, "engine"):
            self._settle_all()
            for hold in list(self.engine.state.holds):
                self.engine.preemptions.withdraw(hold.uid)
        super().teardown()

    # What must hold --------------------------------------------------------------------------------------------------

    def _check_group(self, pod: Pod) -> None:
        """Check that the group of a pod that was just placed has what it needs, and is within one rack."""
        said, state = membership(pod), self.engine.state
        if said is None:
            return
        members = [each for each in state.pods() if (of := membership(each)) is not None and of.key == said.key]
        placed = [each for each in members if state.reservation(each.uid) is not None]
        placed = [each for each in placed if not each.deleting and not each.terminal]
        done = [each for each in members if each.phase == "Succeeded"]
        stores = [self.engine.groups.stores[kind.name] for kind in POD_GROUPS]
        described = next((found for store in stores if (found := store.get(str(said.key)))), None)
        minimum = said.minimum if said.minimum is not None else described.minimum if described else None
        if minimum is None:
            raise AssertionError(f"{pod.key} is placed, and nobody knows how many its group needs")
        assert len(placed) + len(done) >= minimum, f"{pod.key}: {len(placed)} placed of {minimum}"
        if pod.labels.get(NEAR):
            on = {held.node for each in placed if (held := state.reservation(each.uid)) is not None}
            rows = [row for node in on if (row := state.nodes.row(node)) is not None]
            racks = {int(state.nodes.labels.column("rack").ids[row]) for row in rows}
            assert len(racks) == 1, f"{pod.key}: its group is on {sorted(on)}"
            assert -1 not in racks
            REACHED["placed within one rack"] += len(on) > 1

    def check_nobody_is_forgotten(self) -> None:
        """Check that nobody waits who could be placed, alone or with the group, and no room is kept for nothing."""
        preemptions, queue = self.engine.preemptions, self.engine.queue
        for hold in self.engine.state.holds:
            rests = queue.place(hold.uid) is QueueName.UNSCHEDULABLE
            known = hold.uid in preemptions.held_without_eviction or preemptions.of(hold.uid) is not None
            assert known or not rests, f"room is kept for {hold.reservation.pod}, and nobody knows why"
        no_member_is_forgotten(self.engine)


def no_member_is_forgotten(engine: Engine) -> None:
    """Check that nobody waits who could be placed, alone or with the group."""
    for uid in list(engine.queue.unschedulable()):
        pod = engine.state.pod(uid)
        assert pod is not None
        if not engine.storage.decisions_before_sync([pod]):
            decision = engine.attempts.dry_run(pod)
            assert decision.placement is None, f"{pod.key} waits in vain for {engine.queue.place(uid)}"
