"""What every state machine has: whatever can happen to any scheduler, in any order, and what must hold after each step.

One machine (`cards`) has cards of every vendor, another one (`neighbours`) has pods that depend on each other, on
objects of their own, and on the labels of nodes and namespaces.
"""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
from hypothesis.stateful import invariant, precondition, rule
from tests.simulation.binder import BindingWorld
from tests.simulation.cluster import Watch
from tests.simulation.invariants import (
    check_engine,
    check_placement,
    check_quota,
    check_truth,
    nobody_is_forgotten,
    same_knowledge,
)
from tests.simulation.leaders import HeldBack
from tests.simulation.world import REACHED

from vgpu_scheduler.engine import QueueName, Requeue
from vgpu_scheduler.intake import PODS
from vgpu_scheduler.state import Phase

picks = st.integers(0, 1 << 16)
FATES = ("succeeds", "succeeds", "succeeds", "lost", "dropped", "throttled", "refused")


class SchedulerMachine(BindingWorld):
    """What can happen to any scheduler."""

    # Events ----------------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.api.events)
    @rule(number=st.integers(1, 12))
    def events_arrive(self, number: int) -> None:
        for _ in range(min(number, len(self.api.events))):
            self._take_next(0)

    @precondition(lambda self: self.api.events)
    @rule(number=st.integers(1, 12), watch=st.sampled_from([None, *Watch]))
    def one_watch_is_ahead(self, number: int, watch: Watch | None) -> None:
        """Deliver events of one watch before those that came earlier."""
        for event in [event for event in self.api.events if event.watch is watch][:number]:
            self._take_next(self.api.events.index(event))
        REACHED["one watch ahead"] += 1

    @precondition(lambda self: self.api.events)
    @rule(pick=picks)
    def event_arrives_out_of_turn(self, pick: int) -> None:
        self._take_next(pick % len(self.api.events))
        REACHED["out of turn"] += 1

    @precondition(lambda self: self.api.history)
    @rule(pick=picks)
    def event_arrives_again(self, pick: int) -> None:
        event = self.api.history[-1 - pick % min(len(self.api.history), 8)]
        self._deliver(event)
        REACHED["duplicate"] += 1

    @precondition(lambda self: self.api.events)
    @rule(pick=picks)
    def event_is_lost(self, pick: int) -> None:
        lost = self.api.events.pop(pick % len(self.api.events))
        if lost.watch is Watch.BOUND:
            self._lost_up_to = max(self._lost_up_to, lost.object.version)
        REACHED["lost event"] += 1

    @rule()
    def bookmark_comes(self) -> None:
        """Tell how far the watch of bound pods is, although nothing was bound."""
        self._show_bound_up_to(self.api.version)
        REACHED["bookmark"] += 1

    @rule(number=st.integers(0, 8))
    def departed_pods_are_read(self, number: int) -> None:
        """Have those pods read of which the watches say nothing for long."""
        self._read_departed(number)

    def _read_departed(self, number: int) -> None:
        for pod in self.engine.unbound_pods.unresolved(self.now)[:number]:
            current = self.api.pods.get(pod.uid)
            if current is None:
                self.observer.absent_in_read(pod)
            else:
                self.observer.observe(PODS, current.shown())
            REACHED["read: gone" if current is None else "read: there"] += 1

    @rule()
    def list_is_read(self) -> None:
        self.listing = self._lists()

    @precondition(lambda self: self.listing)
    @rule()
    def relist_begins(self) -> None:
        assert self.listing is not None
        self._begin_to_relist(self.listing)
        self.listing = None
        REACHED["relist of an older list"] += 1

    @precondition(lambda self: self.relisting)
    @rule(slices=st.integers(1, 4))
    def relist_goes_on(self, slices: int) -> None:
        self._go_on_relisting(slices)
        REACHED["a relist that lasted"] += 1

    @rule(pick=picks)
    def time_passes(self, pick: int) -> None:
        self.now += (0.5, 2.0, 11.0, 301.0)[pick % 4]

    # Decisions and binds ---------------------------------------------------------------------------------------------

    @rule(number=st.integers(1, 4), seen=st.booleans())
    def decide(self, number: int, *, seen: bool) -> None:
        if seen:
            self._deliver_all()
        self._decide(number)

    @rule(number=st.integers(1, 8))
    def all_goes_well(self, number: int) -> None:
        """Some pods are decided and bound, and everybody else does what is due meanwhile."""
        self._deliver_all()
        self._decide(number)
        for _ in range(3):
            for uid in sorted(self.in_flight):
                if not self._was_sent(uid) and self._send(uid, "succeeds"):
                    self._settle(*self.answers.pop())
            self.do_what_is_due()
            self._deliver_all()

    def do_what_is_due(self) -> None:
        """Do what others have to do to have pods bound."""

    @rule()
    def everybody_is_tried(self) -> None:
        """Let all that is on its way come, and all back-offs end: who waits then could not be placed."""
        self._deliver_all()
        self._go_on_relisting()
        for _ in range(20):
            self._decide(50)
            places = self.engine.queue.counts()
            if not places[QueueName.ACTIVE] + places[QueueName.BACKOFF]:
                break
            self.now += 11.0
        self.check_nobody_is_forgotten()

    def check_nobody_is_forgotten(self) -> None:
        """Check that nobody waits who could be placed."""
        nobody_is_forgotten(self.engine)

    @precondition(lambda self: self.in_flight)
    @rule(pick=picks)
    def recheck(self, pick: int) -> None:
        self._recheck(self._flying(pick))

    @precondition(lambda self: self.in_flight)
    @rule(pick=picks)
    def chosen_card_fails(self, pick: int) -> None:
        uid = self._flying(pick)
        placement = self.in_flight[uid]
        chosen = {assignment.uuid for container in placement.containers for assignment in container}
        node = self.api.nodes.get(placement.node)
        if node and chosen:
            failed = tuple(replace(c, healthy=False) if c.uuid in chosen else c for c in node.cards)
            self.api.put_node(replace(node, cards=failed))
            self._deliver_all()
            self._recheck(uid)

    @precondition(lambda self: self.in_flight)
    @rule(pick=picks, requeue=st.sampled_from(Requeue), at_least=st.sampled_from([0.0, 5.0]))
    def unreserve(self, pick: int, requeue: Requeue, at_least: float) -> None:
        uid = self._flying(pick)
        if not self._was_sent(uid):
            self._unreserve(uid, requeue, at_least)

    @rule(
        picks=st.lists(picks, min_size=1, max_size=4),
        fate=st.sampled_from(FATES),
        befalls=st.sampled_from(["nothing", "nothing", "deleted", "taken", "deleting", "deleted while it is bound"]),
        at_once=st.booleans(),
    )
    def binding_is_sent(self, picks: list[int], fate: str, befalls: str, *, at_once: bool) -> None:
        """Send Bindings; something may befall the pod right before or after, and the answer may be late."""
        if not self.in_flight:
            self._decide(len(picks))
        for pick in picks:
            if self.in_flight:
                uid = self._flying(pick)
                self._befall(uid, befalls)
                sent = self._send(uid, fate)
                if befalls == "deleted while it is bound" and uid in self.api.pods:
                    self.api.delete_pod(uid)
                    self._deliver_all()
                if sent and at_once:
                    self._settle(*self.answers.pop())

    @precondition(lambda self: self.in_flight)
    @rule(pick=picks)
    def deleted_before_the_answer(self, pick: int) -> None:
        """The pod is bound and deleted, and the watch tells that before the answer to the Binding comes."""
        uid = self._flying(pick)
        if self._send(uid, "succeeds"):
            if uid in self.api.pods:
                self.api.delete_pod(uid)
            self._deliver_all()
            self._settle(*self.answers.pop())

    @precondition(lambda self: self.answers)
    @rule(picks=st.lists(picks, min_size=1, max_size=4))
    def answer_comes(self, picks: list[int]) -> None:
        for pick in picks:
            if self.answers:
                self._settle(*self.answers.pop(pick % len(self.answers)))

    # Nodes and pods --------------------------------------------------------------------------------------------------

    @rule(pick=picks, number=st.integers(0, 3))
    def node_comes(self, pick: int, number: int) -> None:
        name = self.names[pick % len(self.names)]
        if name not in self.api.nodes:
            self._add_node(name, number)

    @rule(pick=picks)
    def node_is_deleted(self, pick: int) -> None:
        if node := self._a_node(pick):
            self.api.delete_node(node.name)
            self._forget_held_back(node.name)
            REACHED["node deleted"] += 1

    @rule(pick=picks, number=st.integers(1, 3))
    def node_is_made_anew(self, pick: int, number: int) -> None:
        if node := self._a_node(pick):
            self.api.delete_node(node.name)
            self._forget_held_back(node.name)
            self._add_node(node.name, number)

    @rule(pick=picks)
    def pod_starts(self, pick: int) -> None:
        if pod := self._a_pod(pick, bound=True, terminal=False, started=False):
            self.api.put_pod(replace(pod, started=True, phase="Running", began=int(self.now)))

    @rule(pick=picks, phase=st.sampled_from(["Succeeded", "Failed"]))
    def pod_ends(self, pick: int, phase: str) -> None:
        if pod := self._a_pod(pick, terminal=False):
            self.api.put_pod(replace(pod, phase=phase))

    @rule(pick=picks)
    def pod_is_deleted(self, pick: int) -> None:
        if pod := self._a_pod(pick):
            self.api.delete_pod(pod.uid)

    @precondition(lambda self: self.in_flight)
    @rule(pick=picks, slow=st.sets(st.sampled_from(("node-a", "node-b", "node-c"))))
    def node_is_slow(self, pick: int, slow: set[str]) -> None:
        """Have a pod go to a node that is not slow, unless its Binding was sent; it stays where none fits."""
        uid = self._flying(pick)
        if self._was_sent(uid):
            return
        placement = self.in_flight[uid]
        decision = self.engine.decide_elsewhere(uid, slow | {placement.node})
        if decision is None:
            held = self.engine.state.reservation(uid)  # of a pod that others have bound it is not ours any more
            assert held is None or held.phase is not Phase.ASSUMED or held.placement == placement
            REACHED["stays at a slow node"] += 1
            return
        assert decision.placement is not None
        assert decision.placement.node not in slow | {placement.node}
        check_placement(self.engine, decision.placement)
        check_quota(self.engine, decision.placement)
        self.in_flight[uid] = decision.placement
        REACHED["goes to another node"] += 1

    # Catastrophes ----------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.in_flight)
    @rule(picks=st.lists(st.tuples(picks, st.booleans()), min_size=1, max_size=4))
    def leader_is_frozen(self, picks: list[tuple[int, bool]]) -> None:
        """Another process takes over; what this one was about to write comes whenever it goes on."""
        lanes: set[str] = set()
        for pick, claimed in picks:
            if not self.in_flight:
                break
            uid = self._flying(pick)
            if self._was_sent(uid) or not self._volumes_are_bound(uid, "succeeds"):
                continue
            placement = self._recheck(uid)
            if placement is not None and not (placement.dialect and placement.node in lanes):
                lanes.add(placement.node)
                if placement.dialect:  # what is learned of the last allocation there may have taken its cards
                    found = self._claim(uid, placement.node) if claimed else self._secure(placement.node)
                    placement = self._recheck(uid) if found else None
                if placement is not None:
                    self._hold_back(uid, placement, claimed=claimed)
        REACHED["leader frozen"] += 1
        self.restart()

    @rule(picks=st.lists(st.tuples(picks, st.booleans()), min_size=1, max_size=4), number=st.integers(1, 4))
    def leader_after_leader(self, picks: list[tuple[int, bool]], number: int) -> None:
        """One is frozen on its way, another one serves pods that are more urgent, and then the first one goes on."""
        self._deliver_all()
        self._decide(len(picks))
        if self.in_flight:
            self.leader_is_frozen(picks)
            self._more_urgent_pods_come()
            self.all_goes_well(number)
        while self.held_back:
            self.frozen_leader_goes_on(0)

    @precondition(lambda self: self.held_back)
    @rule(pick=picks)
    def frozen_leader_goes_on(self, pick: int) -> None:
        held = self.held_back.pop(pick % len(self.held_back))
        REACHED[f"held back, {self.goes_on(held)}"] += 1

    def goes_on(self, held: HeldBack) -> str:
        """Have a frozen leader write what it was about to write; return what became of it."""
        return held.send(self.api)

    @rule()
    def restart(self) -> None:
        """A new process: what was in flight is forgotten, everything is listed anew."""
        self.in_flight.clear()
        self.written.clear()
        self.answers.clear()
        self.listing = None
        self._give_up_relisting()
        self._start_engine()
        self._relist()
        REACHED["restart"] += 1

    # What must hold --------------------------------------------------------------------------------------------------

    @invariant()
    def books_are_right(self) -> None:
        self._note_held()
        check_engine(self.engine, self.in_flight, self._shown_as_bound(), self._departed())
        check_truth(self.api, self.disturbed)
        self.check_cluster()

    def check_cluster(self) -> None:
        """Check what holds in the world of one machine."""

    def _settle_all(self) -> None:
        """Leave nothing under way: answers come, and whoever has none yet is given back."""
        self._deliver_all()
        while self.answers:
            self._settle(*self.answers.pop())
        for uid in sorted(self.in_flight):
            self._unreserve(uid)

    def teardown(self) -> None:
        """Deliver everything, settle everything, relist: what is known is what a new process would know."""
        if not hasattr(self, "engine"):
            return
        self._settle_all()
        self._deliver_all()
        self._relist()
        old, departed = self.engine, self._departed()
        self._start_engine()
        self._relist()
        check_engine(old, {}, self._shown_as_bound(), departed)
        assert old.state.drift().keys() <= {held.node for held in old.state.reservations() if held.widened}
        kept = {name for name, node in self.api.nodes.items() if node.registration}
        same_knowledge(old, self.engine, ignoring=kept)
