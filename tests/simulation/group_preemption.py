"""The state machine of preemption with groups: some get the room of others together, and some end whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import hypothesis.strategies as st
from hypothesis.stateful import rule
from tests.kube.objects import Obj
from tests.simulation.groups import MINIMUM, SAID, no_member_is_forgotten
from tests.simulation.machine import picks
from tests.simulation.preemption import PreemptionMachine
from tests.simulation.things import SimThing
from tests.simulation.world import REACHED, Shape

from vgpu_scheduler.engine.preemption import PreemptionResult
from vgpu_scheduler.intake import POD_GROUPS
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision

WHOLE: Final = next(kind for kind in POD_GROUPS if kind.name == "PodGroup.v1alpha2.scheduling.k8s.io")
SHAPES: Final[tuple[Shape, ...]] = ((1, 3000, 0), (1, 8000, 0), (2, 2000, 0), (1, 4000, 50))


class GroupPreemptionMachine(PreemptionMachine):
    """What can happen while some have to leave for groups, or leave with all of their own."""

    relisted = (WHOLE, *PreemptionMachine.relisted)

    @rule(size=st.integers(2, 4), shape=st.sampled_from(SHAPES), priority=st.integers(1, 3), seen=st.booleans())
    def gang_comes(self, size: int, shape: Shape, priority: int, *, seen: bool) -> None:
        """A group comes that is placed whole, perhaps with one pod more than it needs."""
        labels = {SAID: f"gang-{self.api.serial()}", MINIMUM: str(max(2, size - 1))}
        for _ in range(size):
            self.api.put_pod(self._new_pod(shape, priority=priority, labels=labels))
        if seen:
            self._deliver_all()
            self._decide(8)
            self.evictions_go_on(2)

    @rule(
        size=st.integers(1, 3),
        shape=st.sampled_from(SHAPES),
        priority=st.integers(0, 2),
        told=st.sampled_from([None, None, 0, 2]),
    )
    def whole_group_comes(self, size: int, shape: Shape, priority: int, told: int | None) -> None:
        """A group comes whose pods are placed by themselves, and end all together."""
        name = f"whole-{self.api.serial()}"
        self._put_whole(name, told, "PodGroup")
        for _ in range(size):
            of_group = {"schedulingGroup": {"podGroupName": name}}
            self.api.put_pod(self._new_pod(shape, priority=priority, asked=of_group))
        self._deliver_all()
        self._decide(size)

    @rule(pick=picks, told=st.sampled_from([None, 0, 2]), mode=st.sampled_from(["PodGroup", "PodGroup", "Pod", None]))
    def whole_group_changes(self, pick: int, told: int | None, mode: str | None) -> None:
        """The object of such a group changes, or is gone."""
        found: list[SimThing] = self.api.of(WHOLE)
        if found:
            thing = found[pick % len(found)]
            if mode is None:
                self.api.delete(thing)
            else:
                self._put_whole(thing.content["metadata"]["name"], told, mode)

    def _put_whole(self, name: str, told: int | None, mode: str) -> None:
        spec: Obj = {"schedulingPolicy": {"basic": {}}, "disruptionMode": mode}
        spec |= {} if told is None else {"priority": told}
        self.api.put(WHOLE, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})

    # What must hold --------------------------------------------------------------------------------------------------

    def _decided_together(self, decisions: Sequence[Decision]) -> None:
        for decision in decisions:
            found = decision.preemption
            if found is None:
                continue
            all_of_them = self.engine.preemptions.with_others(decision.uid)
            assert all_of_them is not None, f"{decision.pod} gets room that is not kept"
            victims = {victim.uid for victim in all_of_them.victims}
            for victim in all_of_them.victims:
                members = self._ends_with(victim.uid)
                assert members <= victims, f"{victim.pod} ends without {members - victims}"
                REACHED["victims that end whole"] += len(members) > 1
            if found.gang:
                pod = self.engine.state.pod(decision.uid)
                group = None if pod is None else self.engine.groups.status_of(pod)
                assert group is not None
                assert len(found.gang) >= group.needed, f"{decision.pod} gets room with too few others"
                REACHED["room for a group"] += len(found.gang) > 1
        super()._decided_together(decisions)

    def _ends_with(self, uid: str) -> set[str]:
        """Return the pods that end with one, by what the objects say."""
        state, pod = self.engine.state, self.engine.state.pod(uid)
        if pod is None or pod.deleting or not pod.pod_group:
            return set()
        told = self.engine.groups.stores[WHOLE.name].get(f"{pod.namespace}/{pod.pod_group}")
        if told is None or not told.disrupted_whole:
            return set()
        group = (each for each in state.pods() if each.pod_group == pod.pod_group and not each.deleting)
        return {each.uid for each in group if state.reservation(each.uid) is not None}

    def check_request(self, leader: Any, method: str, path: str, body: Obj | None) -> None:
        """Check that nobody is evicted for a group of which not all are nominated."""
        super().check_request(leader, method, path, body)
        if path.endswith("/eviction") or method == "DELETE":
            assert body is not None
            victim, state = (body.get("deleteOptions") or body)["preconditions"]["uid"], leader.engine.state
            under_way = leader.engine.preemptions.under_way()
            together = [found.gang for _, found in under_way if victim in {one.uid for one in found.victims}]
            assert any(all(map(self._is_nominated(state), uids)) for uids in together), f"{victim}: {together}"
            REACHED["eviction for a group"] += any(len(uids) > 1 for uids in together)

    def _is_nominated(self, state: Any) -> Any:
        def is_nominated(uid: str) -> bool:
            pod: Pod | None = state.pod(uid)
            hold = state.holds.get(uid)
            return pod is not None and hold is not None and bool(pod.nominated_node_name or pod.node_name)

        return is_nominated

    def check_nobody_is_forgotten(self) -> None:
        state = self.engine.state
        if all(state.holds.get(uid) for node in state.nominations for uid in state.nominations.on(node)):
            no_member_is_forgotten(self.engine)

    def could_preempt(self, pod: Pod) -> object:
        """Return what a pod that waits could have of others; None if it is nothing."""
        attempts = self.engine.attempts
        group = attempts.gang_status(pod)
        if group is None:
            return super().could_preempt(pod)
        asked = attempts.group_preemptions
        if not group.schedules_as_gang or not asked.may_preempt(group):
            return None
        found = asked.search(group, self.now)
        return None if isinstance(found, PreemptionResult) else found
