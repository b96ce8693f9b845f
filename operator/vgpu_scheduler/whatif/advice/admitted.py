"""What an admission webhook makes of a pod that is changed: our own, or HAMi's, of which it is the copy."""

from __future__ import annotations

from functools import cached_property

from vgpu_scheduler.admission import completed_containers
from vgpu_scheduler.dialects import Refusal
from vgpu_scheduler.kube import Object, Pod, QuantityError
from vgpu_scheduler.whatif.objects.containers import containers_of
from vgpu_scheduler.whatif.objects.objects import WorldError
from vgpu_scheduler.whatif.world.world import World

__all__ = ["AdmissionVariants"]


class AdmissionVariants:
    """In which forms a pod may be stored that is written otherwise.

    A pod that is created anew meets the webhook, where there is one: a change that it refuses, or that it overwrites,
    helps nobody. Whether there is one is not known, so a change has to help both as it is written and as it is
    completed.

    Parameters
    ----------
    world
        Knows the dialects and the policies.
    written
        The pod as it is. It exists: if a webhook would refuse it, none has seen it, so a change is not held against
        that same refusal.
    """

    def __init__(self, world: World, written: Object) -> None:
        self._world = world
        self._written = written

    def of(self, written: Object, *, excused: bool = True) -> tuple[Pod, ...]:
        """Return how the scheduler may get to see a pod: as it is written, and as it is completed if that is different.

        Empty where it is not let in, or cannot be read.

        Parameters
        ----------
        excused
            Whether what the pod would be refused for as it is is not held against a change.
        """
        try:
            read = self._world.pod(written, again=True)
            completed = self._completed(written, read)
            return (read,) if completed is None else (read, self._world.pod(completed, again=True))
        except WorldError:
            return ()
        except Refusal as refusal:
            return (read,) if excused and refusal.message == self._refusal else ()

    @cached_property
    def _refusal(self) -> str:
        """What the pod would be refused for as it is; empty where it would be let in."""
        try:
            self._completed(self._written, self._world.pod(self._written, again=True))
        except Refusal as refusal:
            return refusal.message
        except WorldError:
            pass
        return ""

    def _completed(self, written: Object, read: Pod) -> Object | None:
        """Return a pod as it would be completed; None where nothing that a decision rests on would be changed.

        Raises
        ------
        Refusal
            If it would not be let in.
        """
        engine = self._world.engine
        ruled = frozenset[str]().union(*(each.claims.completed_resources for each in engine.dialects.owners(read)))
        if ruled.isdisjoint(read.spec.resource_names):
            return None
        try:
            completed, _ = completed_containers(written, read, engine.dialects, engine.policies.claim_defaults(read))
        except QuantityError:
            return None  # the scheduler refuses it
        return completed if _decisive(completed) != _decisive(written) else None


def _decisive(pod: Object) -> object:
    """Return what decisions rest on of all that may be completed."""
    resources = [container.get("resources") or {} for _, _, container in containers_of(pod)]
    return (pod.get("metadata") or {}).get("annotations") or {}, resources
