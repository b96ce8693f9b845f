"""The state machine: anything that can happen to a scheduler, in any order, and what must hold after each step."""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from tests.engine.builders import make_engine
from tests.simulation.changes import PALETTE, ChangingWorld, picks
from tests.simulation.invariants import check_engine, check_truth, same_knowledge
from tests.simulation.world import NAMES, REACHED, Shape

FATES = ("succeeds", "succeeds", "succeeds", "lost", "dropped", "throttled", "refused")


class SchedulerMachine(ChangingWorld):
    """What can happen."""

    @initialize(shapes=st.lists(st.sampled_from(PALETTE), max_size=8), bound=st.integers(0, 8))
    def begin(self, shapes: list[Shape], bound: int) -> None:
        """Begin with pods at every stage: some bound, some decided, some waiting."""
        for name in NAMES[:2]:
            self._add_node(name, 2)
        for shape in shapes:
            self.api.put_pod(self._new_pod(shape))
        self._deliver_all()
        self._decide(bound)
        for uid in sorted(self.in_flight)[: bound // 2]:
            self._send(uid, "succeeds")
            self._settle(*self.answers.pop())

    # Events ----------------------------------------------------------------------------------------------------------

    @rule(number=st.integers(1, 12))
    def events_arrive(self, number: int) -> None:
        for _ in range(min(number, len(self.api.events))):
            event = self.api.events.pop(0)
            self.api.history.append(event)
            self._deliver(event)

    @rule(number=st.integers(1, 12), waiting=st.booleans())
    def one_watch_is_ahead(self, number: int, waiting: bool) -> None:
        """Deliver events of the watch of waiting pods, or of the other one, before those that came earlier."""
        for event in [event for event in self.api.events if event.waiting is waiting][:number]:
            self.api.events.remove(event)
            self.api.history.append(event)
            self._deliver(event)
        REACHED["one watch ahead"] += 1

    @precondition(lambda self: self.api.events)
    @rule(pick=picks)
    def event_arrives_out_of_turn(self, pick: int) -> None:
        event = self.api.events.pop(pick % len(self.api.events))
        self.api.history.append(event)
        self._deliver(event)
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
        self.api.events.pop(pick % len(self.api.events))
        REACHED["lost event"] += 1

    @rule()
    def list_is_read(self) -> None:
        self.listing = self.api.snapshot()

    @precondition(lambda self: self.listing)
    @rule()
    def list_is_swept(self) -> None:
        assert self.listing is not None
        self._sweep(self.listing)
        self.listing = None
        REACHED["sweep of an older list"] += 1

    @rule(pick=picks)
    def time_passes(self, pick: int) -> None:
        self.now += (0.5, 2.0, 11.0, 301.0)[pick % 4]

    # Decisions and binds ---------------------------------------------------------------------------------------------

    @rule(number=st.integers(1, 4), seen=st.booleans())
    def decide(self, number: int, seen: bool) -> None:
        if seen:
            self._deliver_all()
        self._decide(number)

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
    @rule(pick=picks, delay=st.sampled_from([None, 0.0, 5.0]))
    def give_back(self, pick: int, delay: float | None) -> None:
        uid = self._flying(pick)
        if all(uid != sent for sent, _ in self.answers):
            del self.in_flight[uid]
            self.engine.give_back(uid, self.now, delay)

    @rule(
        picks=st.lists(picks, min_size=1, max_size=4),
        fate=st.sampled_from(FATES),
        befalls=st.sampled_from(["nothing", "nothing", "deleted", "taken", "deleting", "deleted while it is bound"]),
        at_once=st.booleans(),
    )
    def binding_is_sent(self, picks: list[int], fate: str, befalls: str, at_once: bool) -> None:
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

    # Catastrophes ----------------------------------------------------------------------------------------------------

    @rule()
    def restart(self) -> None:
        """A new process: what was in flight is forgotten, everything is listed anew."""
        self.in_flight.clear()
        self.answers.clear()
        self.listing = None
        self._start_engine()
        self._sweep(self.api.snapshot())
        REACHED["restart"] += 1

    @rule()
    def back_up(self) -> None:
        self.backup = self.api.snapshot()

    @precondition(lambda self: self.backup)
    @rule()
    def store_is_restored(self) -> None:
        """Go back in time. What was sent before has long been answered or given up when the servers are back."""
        assert self.backup is not None
        self._sweep(self.api.snapshot())
        self.api.restore(self.backup)
        self.listing = None
        for pod in self.api.pods.values():
            self._disturb(pod)  # what was decided since may sit where a pod of old has come back
        for node, uuid, _ in self.api.held():
            self.disturbed.add((node, uuid))
        for placement in self.in_flight.values():
            for container in placement.containers:
                self.disturbed.update((placement.node, assignment.uuid) for assignment in container)
        answers, self.answers = self.answers, []
        for uid, _ in answers:
            self._settle(uid, "unknown")
        self._sweep(self.api.snapshot())
        REACHED["restored"] += 1

    # What must hold --------------------------------------------------------------------------------------------------

    @invariant()
    def books_are_right(self) -> None:
        self._note_held()
        check_engine(self.engine, self.in_flight, self._shown_as_bound())
        check_truth(self.api, self.disturbed)

    def teardown(self) -> None:
        """Deliver everything, settle everything, sweep: what is known is what a new process would know."""
        if not hasattr(self, "engine"):
            return
        self._deliver_all()
        while self.answers:
            self._settle(*self.answers.pop())
        for uid in sorted(self.in_flight):
            self.engine.give_back(uid, self.now)
        self.in_flight.clear()
        self._deliver_all()
        self._sweep(self.api.snapshot())
        fresh = make_engine()
        listed = self.api.snapshot()
        fresh.sweep_nodes([node.shown() for node in listed.nodes.values()], listed.version, self.now)
        fresh.sweep_pods([pod.shown() for pod in listed.pods.values()], listed.version, self.now)
        check_engine(self.engine, {}, self._shown_as_bound())
        kept = {name for name, node in self.api.nodes.items() if node.registration}
        same_knowledge(self.engine, fresh, ignoring=kept)


__all__ = ["REACHED", "SchedulerMachine"]
