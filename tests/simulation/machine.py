"""The state machine: anything that can happen to a scheduler, in any order, and what must hold after each step."""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from tests.engine.builders import allocation, make_engine
from tests.simulation.cluster import OTHERS, SimCard
from tests.simulation.invariants import check_engine, check_truth, same_knowledge
from tests.simulation.makers import OTHER_CARDS
from tests.simulation.world import NAMES, REACHED, Shape, World

from vgpu_scheduler.intake import QUOTAS
from vgpu_scheduler.kube import ResourceQuota

_PALETTE: tuple[Shape, ...] = (
    *((1, 1000, 0), (1, 3000, 30), (1, 8000, 0), (2, 2000, 50), (1, 1000, 100), (0, 0, 0), (3, 1900, 0)) * 4,
    *((maker, claim) for maker in OTHER_CARDS for claim in range(3)),
)
_BROKEN = ("", "GPU-1,NVIDIA,many,0:;", "nonsense", "node-a-0,NVIDIA,1000:;")
FATES = ("succeeds", "succeeds", "succeeds", "lost", "dropped", "throttled", "refused")

picks = st.integers(0, 1 << 16)


class SchedulerMachine(World):
    """What can happen."""

    @initialize(shapes=st.lists(st.sampled_from(_PALETTE), max_size=8), bound=st.integers(0, 8))
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

    # Nodes -----------------------------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(NAMES), number=st.integers(0, 3))
    def node_comes(self, name: str, number: int) -> None:
        if name not in self.api.nodes:
            self._add_node(name, number)

    @rule(pick=picks)
    def node_is_deleted(self, pick: int) -> None:
        if node := self._a_node(pick):
            self.api.delete_node(node.name)
            REACHED["node deleted"] += 1

    @rule(pick=picks, number=st.integers(1, 3))
    def node_is_made_anew(self, pick: int, number: int) -> None:
        if node := self._a_node(pick):
            self.api.delete_node(node.name)
            self._add_node(node.name, number)

    @rule(pick=picks, change=st.sampled_from(["health", "cordon", "card cordon", "label", "unreadable", "readable"]))
    def node_changes(self, pick: int, change: str) -> None:
        node = self._a_node(pick)
        if node is None:
            return
        changed = node
        if change == "health" and node.cards:
            first, *rest = node.cards
            changed = replace(node, cards=(*rest, replace(first, healthy=not first.healthy)))
        elif change == "cordon":
            changed = replace(node, unschedulable=not node.unschedulable)
        elif change == "card cordon" and node.cards:
            changed = replace(node, cordoned=node.cordoned ^ {node.cards[pick % len(node.cards)].uuid})
        elif change == "label":
            changed = replace(node, labels={"pool": str(pick % 3)})
        elif change == "unreadable":
            changed = replace(node, registration="[{")
        elif change == "readable":
            changed = replace(node, registration="")
        self.api.put_node(changed)

    @rule(
        pick=picks,
        number=st.integers(0, 4),
        memory=st.sampled_from([8000, 8000, 4000]),
        missing=st.sampled_from(["", "", *OTHER_CARDS]),
    )
    def device_list_changes(self, pick: int, number: int, memory: int, missing: str) -> None:
        if node := self._a_node(pick):
            listed = tuple(
                SimCard(f"{node.name}-{index}", memory=memory, mig=index == 1 and memory == 8000)
                for index in range(number)
            )
            # Who sits on a card that became smaller, or that was not listed for a while, may be one too many.
            self.disturbed.update((node.name, f"{node.name}-{index}") for index in range(4))
            self.disturbed.update((node.name, other.uuid(node.name)) for other in OTHER_CARDS.values())
            self.api.put_node(replace(node, cards=listed, others=frozenset(OTHER_CARDS) - {missing}))

    # Pods ------------------------------------------------------------------------------------------------------------

    @rule(
        shapes=st.lists(st.sampled_from(_PALETTE), min_size=1, max_size=4),
        priority=st.sampled_from([0, 0, 10]),
        seen=st.sampled_from([True, True, False]),
    )
    def pods_come(self, shapes: list[Shape], priority: int, seen: bool) -> None:
        for shape in shapes:
            self.api.put_pod(self._new_pod(shape, priority=priority))
        if seen:
            self._deliver_all()

    @rule(shape=st.sampled_from(_PALETTE))
    def gated_pod_comes(self, shape: Shape) -> None:
        self.api.put_pod(self._new_pod(shape, gated=True))

    @rule(
        shape=st.sampled_from(_PALETTE),
        name=st.sampled_from(NAMES),
        index=st.integers(0, 3),
        readable=st.booleans(),
        started=st.booleans(),
    )
    def others_bind(self, shape: Shape, name: str, index: int, readable: bool, started: bool) -> None:
        if isinstance(shape[0], str):
            notes = OTHER_CARDS[shape[0]].allocation(name, readable=readable)
            REACHED[f"bound by others: {shape[0]}"] += 1
        else:
            gpu, memory, cores = shape
            notes = allocation(name, *[(f"{name}-{(index + n) % 4}", memory, cores) for n in range(gpu)])
            if not readable:
                notes = {**notes, "hami.io/vgpu-devices-allocated": _BROKEN[index]}
        phase = "Running" if started else "Pending"
        self.api.put_pod(
            self._new_pod(shape, scheduler=OTHERS, node=name, annotations=notes, started=started, phase=phase)
        )
        REACHED["bound by others, readable" if readable else "bound by others, unreadable"] += 1

    @rule(pick=picks, name=st.sampled_from(NAMES))
    def others_bind_one_of_ours(self, pick: int, name: str) -> None:
        pod = self._a_pod(pick, bound=False, terminal=False, ours=True)
        if pod is None or pod.gated or pod.deleting:
            return
        self.api.put_pod(replace(pod, node=name, annotations=allocation(name, (f"{name}-0", pod.memory, pod.cores))))
        REACHED["one of ours bound by others"] += 1

    @rule(pick=picks)
    def pod_starts(self, pick: int) -> None:
        if pod := self._a_pod(pick, bound=True, terminal=False, started=False):
            self.api.put_pod(replace(pod, started=True, phase="Running"))

    @rule(pick=picks, phase=st.sampled_from(["Succeeded", "Failed"]))
    def pod_ends(self, pick: int, phase: str) -> None:
        if pod := self._a_pod(pick, terminal=False):
            self.api.put_pod(replace(pod, phase=phase))

    @rule(pick=picks)
    def pod_is_deleted(self, pick: int) -> None:
        if pod := self._a_pod(pick):
            self.api.delete_pod(pod.uid)

    @rule(pick=picks, what=st.sampled_from(["deleting", "label", "annotation", "forged", "gate"]))
    def pod_changes(self, pick: int, what: str) -> None:
        pod = self._a_pod(pick)
        if pod is None:
            return
        changed = pod
        if what == "deleting":
            changed = replace(pod, deleting=True)
        elif what == "label":
            changed = replace(pod, labels={"app": str(pick % 3)})
        elif what == "annotation":
            changed = replace(
                pod, annotations={**pod.annotations, "nvidia.com/nouse-gpuuuid": f"{NAMES[pick % 3]}-{pick % 2}"}
            )
        elif what == "gate":
            changed = replace(pod, gated=False)
        elif not pod.node:
            forged = allocation(NAMES[pick % 3], (f"{NAMES[pick % 3]}-0", 8000, 100))
            changed = replace(pod, annotations={**pod.annotations, **forged})
            REACHED["forged on an unbound pod"] += 1
        self.api.put_pod(changed)

    @rule(pick=picks, index=st.integers(0, 3), memory=st.sampled_from([500, 6000]), readable=st.booleans())
    def allocation_of_a_bound_pod_changes(self, pick: int, index: int, memory: int, readable: bool) -> None:
        pod = self._a_pod(pick, bound=True, terminal=False)
        if pod is None:
            return
        if pod.other:
            notes = pod.other.allocation(pod.node, readable=readable)
        else:
            notes = allocation(pod.node, (f"{pod.node}-{index}", memory, 0))
            if not readable:
                notes["hami.io/vgpu-devices-allocated"] = _BROKEN[index]
        # After a restart nobody can tell any more where it really sits.
        self._disturb(pod)
        self.api.put_pod(replace(pod, annotations={**pod.annotations, **notes}))
        REACHED["allocation of a bound pod changed"] += 1

    @rule(limit=st.sampled_from(["4000", "8000", "16000", "unreadable", None]))
    def quota_changes(self, limit: str | None) -> None:
        old, self.quota = self.quota, None
        if limit is not None:
            self.quota = ResourceQuota("default", "q", {"limits.nvidia.com/gpumem": limit})
            self.observer.observe(QUOTAS, self.quota)
        elif old is not None:
            self.observer.gone(QUOTAS, old)

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
