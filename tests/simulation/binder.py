"""What a binder does between the engine and the API: volumes first, then the re-check, the Binding, and its answer."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from tests.kube.objects import Obj
from tests.kube.storage_objects import SELECTED_NODE
from tests.simulation.cluster import SimPod
from tests.simulation.leaders import LeadersWorld
from tests.simulation.things import SimThing
from tests.simulation.world import REACHED

from vgpu_scheduler.engine import Requeue
from vgpu_scheduler.intake import VOLUME_CLAIMS, VOLUMES, Kind
from vgpu_scheduler.kube import PersistentVolumeClaim, Volume
from vgpu_scheduler.model import Placement


class VolumeError(Exception):
    """The volumes of a pod cannot be bound as decided."""


class BindingWorld(LeadersWorld):
    """Plays the binder."""

    def __init__(self) -> None:
        super().__init__()
        self.written: set[str] = set()
        """The pods whose volumes were written as decided, which may still have to be bound."""

    # Volumes ---------------------------------------------------------------------------------------------------------

    def _volumes_are_bound(self, uid: str, fate: str) -> bool:
        """Have the volumes of a pod bound; False where it has to wait for that, or was given back."""
        try:
            bound = self._bind_volumes(uid, self.in_flight[uid], fate)
        except VolumeError:
            REACHED["volumes: given back"] += 1
            self._unreserve(uid)
            return False
        REACHED["volumes: waited for"] += not bound
        return bound

    def _bind_volumes(self, uid: str, placement: Placement, fate: str) -> bool:
        if not placement.volumes or self._was_sent(uid):
            return True
        if uid not in self.written:
            self._write_volumes(placement, fate)
            self.written.add(uid)
        if self._all_bound(placement):
            REACHED["volumes: bound"] += 1
            return True
        if self.engine.assumed.recheck(uid) is None:
            raise VolumeError("the placement does not hold any more")
        return False

    def _write_volumes(self, placement: Placement, fate: str) -> None:
        known = self.engine.state.volumes.objects
        for key, name in placement.volumes.matched.items():
            claim, volume = known.claims.get(key), known.volumes.get(name)
            if claim is None or volume is None:
                raise VolumeError(f"{key} or {name} is gone")
            if volume.claim is not None and not volume.claim.is_about(claim):
                raise VolumeError(f"{name} was taken for another claim")
            if not claim.bound and (volume.claim is None or volume.claim.uid != claim.uid):
                current = self._as_decided_on(VOLUMES, volume)
                _check_free(current, claim)
                reference = {"namespace": claim.namespace, "name": claim.name, "uid": claim.uid}
                self._write(current, fate, {**current.content, "spec": {**current.spec, "claimRef": reference}})
        for key in placement.volumes.provisioned:
            claim = known.claims.get(key)
            if claim is None:
                raise VolumeError(f"{key} is gone")
            if claim.selected_node not in (None, placement.node):
                raise VolumeError(f"the volume of {key} is made for {claim.selected_node}")
            if not claim.bound and claim.selected_node is None:
                current = self._as_decided_on(VOLUME_CLAIMS, claim)
                self._write(current, fate, noted(current, {SELECTED_NODE: placement.node}))

    def _as_decided_on(self, kind: Kind[Any], known: PersistentVolumeClaim | Volume) -> SimThing:
        key = known.key if isinstance(known, PersistentVolumeClaim) else known.name
        current = self.api.get(kind, key)
        if current is None or (current.uid, current.version) != (known.uid, known.resource_version):
            raise VolumeError("it has changed")
        return current

    def _write(self, current: SimThing, fate: str, content: Obj) -> None:
        if fate not in {"succeeds", "lost"}:
            raise VolumeError(fate)
        written = self.api.put(current.kind, content)
        if fate == "lost":
            raise VolumeError("who knows")
        self.observer.observe_answer(current.kind, json.dumps(written.as_object()).encode())

    def _all_bound(self, placement: Placement) -> bool:
        plan, known = placement.volumes, self.engine.state.volumes.objects
        bound = True
        for key in (*plan.matched, *plan.provisioned):
            claim = known.claims.get(key)
            if claim is None or claim.deleting:
                raise VolumeError(f"{key} is gone or being deleted")
            if claim.bound:
                continue
            bound = False
            if key in plan.matched:
                volume = known.volumes.get(plan.matched[key])
                if volume is None or volume.claim is None or not volume.claim.is_about(claim):
                    raise VolumeError(f"{plan.matched[key]} is not kept for {key} any more")
            elif claim.selected_node != placement.node:
                raise VolumeError(f"no volume could be made for {key}")
        return bound

    # The Binding -----------------------------------------------------------------------------------------------------

    def _was_sent(self, uid: str) -> bool:
        return any(uid == sent for sent, _ in self.answers)

    def _unreserve(self, uid: str, requeue: Requeue = Requeue.BACK_OFF, at_least: float = 0.0) -> None:
        del self.in_flight[uid]
        self.written.discard(uid)
        self.engine.unreserve(uid, self.now, requeue, at_least)

    def _flying(self, pick: int) -> str:
        flying = sorted(self.in_flight)
        return flying[pick % len(flying)]

    def _recheck(self, uid: str) -> Placement | None:
        """Check a placement as the binder does right before it sends; one that was sent is left alone."""
        if self._was_sent(uid):
            return None
        before = self.in_flight[uid]
        unmoved = self.engine.assumed.is_unmoved(uid)
        self.engine.assumed.forget(uid)
        placement = self.engine.assumed.recheck(uid)
        if unmoved:
            REACHED["recheck: nothing has moved"] += 1
            assert placement == before, "something has moved, and was not seen"
        if placement is None:
            self._unreserve(uid)
            REACHED["recheck: given back"] += 1
            return None
        REACHED["recheck: holds" if placement == before else "recheck: refitted"] += 1
        self.in_flight[uid] = placement
        self._check(uid)
        return placement

    def _befall(self, uid: str, what: str) -> None:
        pod = self.api.pods.get(uid)
        if pod is None:
            return
        if what == "deleted":
            self.api.delete_pod(uid)
        elif what == "taken" and not pod.node:
            self.api.put_pod(replace(pod, node=self.names[0]))
        elif what == "deleting":
            self.api.put_pod(replace(pod, deleting=True))

    def _send(self, uid: str, fate: str) -> bool:
        placement = self._recheck(uid) if self._volumes_are_bound(uid, fate) else None
        if placement is None:
            return False
        if placement.dialect:
            if not self._claim(uid, placement.node):
                self._unreserve(uid)
                return False
            placement = self._recheck(uid)  # what was learned of others' allocations may have taken its cards
            if placement is None:
                return False
        code, pod = 0, self.engine.state.pod(uid)
        assert pod is not None
        if fate in {"succeeds", "lost"}:
            annotations = self.engine.dialects.annotations(placement, 0, pod)
            code = self.api.bind(uid, pod.resource_version, placement, annotations)
        said = {201: "bound", 404: "gone", 409: "conflict"}
        answer = {"succeeds": said.get(code, ""), "lost": "unknown", "dropped": "unknown"}.get(fate, fate)
        self.answers.append((uid, answer))
        return True

    def _settle(self, uid: str, answer: str) -> None:
        """Do what the binder does with an answer."""
        placement = self.in_flight.pop(uid)
        self.written.discard(uid)
        current = self.api.pods.get(uid)
        if answer == "unknown":
            answer = self._find_out(current, placement)
            REACHED[f"unknown: {answer}"] += 1
        REACHED[f"answer: {answer}"] += 1
        if answer == "bound":
            REACHED["bound, but deleted meanwhile"] += self.engine.state.was_removed(uid)
            self.engine.binding_succeeded(uid)
            return
        if answer == "gone":
            self.engine.remove_pod(uid, self.now)
        elif answer == "conflict" and current is not None:
            self.engine.observe_pod(current.shown(), self.now)
        self.engine.unreserve(uid, self.now, at_least=1.0 if answer == "throttled" else 0.0)

    def _find_out(self, current: SimPod | None, placement: Placement) -> str:
        if current is None:
            return "gone"
        self.engine.observe_pod(current.shown(), self.now)
        if not current.node:
            return "throttled"
        return "bound" if current.node == placement.node else "conflict"

    def _shown_as_bound(self) -> set[str]:
        return {pod.uid for pod in self.api.pods.values() if pod.node}


def noted(thing: SimThing, notes: Obj) -> Obj:
    """Return an object with other annotations; None takes one away."""
    merged = {key: value for key, value in {**thing.notes, **notes}.items() if value is not None}
    return {**thing.content, "metadata": {**thing.content["metadata"], "annotations": merged}}


def _check_free(volume: SimThing, claim: PersistentVolumeClaim) -> None:
    """Check that no volume is given to a claim that another one has."""
    reference = volume.spec.get("claimRef")
    if reference is not None:
        assert (reference["namespace"], reference["name"]) == (claim.namespace, claim.name)
        assert reference.get("uid", "") in ("", claim.uid), f"{volume.key} is taken from another claim"
