"""The state machine of cards: nodes with cards of every vendor, whose lists and pods change in every way."""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
from hypothesis.stateful import initialize, precondition, rule
from tests.engine.builders import ALLOCATED_NODE, allocation
from tests.simulation.cluster import ANNOUNCING, OTHERS, SimCard
from tests.simulation.machine import picks
from tests.simulation.restored import RestoringMachine
from tests.simulation.vendors import OTHER_CARDS
from tests.simulation.world import NAMES, REACHED, Shape

from vgpu_scheduler.intake import QUOTAS
from vgpu_scheduler.kube import ResourceQuota

PALETTE: tuple[Shape, ...] = (
    *((1, 1000, 0), (1, 3000, 30), (1, 8000, 0), (2, 2000, 50), (1, 1000, 100), (0, 0, 0), (3, 1900, 0)) * 4,
    *((vendor, claim) for vendor in OTHER_CARDS for claim in range(3)),
)
_BROKEN = ("", "GPU-1,NVIDIA,many,0:;", "nonsense", "node-a-0,NVIDIA,1000:;")


class CardsMachine(RestoringMachine):
    """What others can do to cards."""

    @precondition(lambda self: self.engine.unbound_pods.unresolved(self.now))
    @rule(number=st.integers(1, 8))
    def departed_pods_are_read(self, number: int) -> None:
        """Have pods be read only where there are any: that one is gone then is rare."""
        self._read_departed(number)

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

    # Nodes -----------------------------------------------------------------------------------------------------------

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
        shapes=st.lists(st.sampled_from(PALETTE), min_size=1, max_size=4),
        priority=st.sampled_from([0, 0, 10]),
        seen=st.sampled_from([True, True, False]),
    )
    def pods_come(self, shapes: list[Shape], priority: int, *, seen: bool) -> None:
        for shape in shapes:
            self.api.put_pod(self._new_pod(shape, priority=priority))
        if seen:
            self._deliver_all()

    @rule(shape=st.sampled_from(PALETTE))
    def gated_pod_comes(self, shape: Shape) -> None:
        self.api.put_pod(self._new_pod(shape, gated=True))

    @rule(
        shape=st.sampled_from(PALETTE),
        name=st.sampled_from(NAMES),
        index=st.integers(0, 3),
        readable=st.booleans(),
        started=st.booleans(),
    )
    def others_bind(self, shape: Shape, name: str, index: int, *, readable: bool, started: bool) -> None:
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

    @rule(
        name=st.sampled_from(NAMES),
        index=st.integers(0, 3),
        scheduler=st.sampled_from([ANNOUNCING, ANNOUNCING, OTHERS]),
        announced=st.booleans(),
        nominated=st.booleans(),
    )
    def pod_of_others_comes(self, name: str, index: int, scheduler: str, *, announced: bool, nominated: bool) -> None:
        """Come unbound: with what its scheduler announces, nominated, or neither."""
        notes = allocation(name, (f"{name}-{index}", 1000, 10)) if announced else {}
        pod = self._new_pod((1, 1000, 10), scheduler=scheduler, annotations=notes, nominated=name if nominated else "")
        self.api.put_pod(pod)
        REACHED["pod of others comes unbound"] += 1

    @rule(pick=picks, announced=st.booleans())
    def other_scheduler_changes_its_mind(self, pick: int, *, announced: bool) -> None:
        pod = self._a_pod(pick, bound=False, terminal=False, ours=False)
        if pod is not None:
            name = NAMES[pick % 3]
            notes = allocation(name, (f"{name}-{pick % 4}", 2000, 10)) if announced else {}
            self.api.put_pod(replace(pod, annotations=notes))

    @rule(pick=picks, node=st.sampled_from((*NAMES, "")))
    def pod_is_nominated(self, pick: int, node: str) -> None:
        """Some scheduler makes room for a pod of its own, or gives it up."""
        if (pod := self._a_pod(pick, bound=False, terminal=False, ours=False)) and pod.scheduler == OTHERS:
            self.api.put_pod(replace(pod, nominated=node))

    @rule(pick=picks)
    def others_bind_where_they_said(self, pick: int) -> None:
        """Others bind a pod that is announced, or nominated, or neither."""
        if pod := self._a_pod(pick, bound=False, terminal=False, ours=False):
            node = pod.annotations.get(ALLOCATED_NODE) or pod.nominated or self.names[pick % len(self.names)]
            self.api.put_pod(replace(pod, node=node))

    @rule(pick=picks, name=st.sampled_from(NAMES))
    def others_bind_one_of_ours(self, pick: int, name: str) -> None:
        pod = self._a_pod(pick, bound=False, terminal=False, ours=True)
        if pod is None or pod.gated or pod.deleting:
            return
        self.api.put_pod(replace(pod, node=name, annotations=allocation(name, (f"{name}-0", pod.memory, pod.cores))))
        REACHED["one of ours bound by others"] += 1

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
    def allocation_of_a_bound_pod_changes(self, pick: int, index: int, memory: int, *, readable: bool) -> None:
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
            self.observer.deleted_by_watch(QUOTAS, old)
