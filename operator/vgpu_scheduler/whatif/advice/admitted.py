"""What an admission webhook makes of a changed pod: this project's webhook, or HAMi's, which behaves the same."""

from __future__ import annotations

from functools import cached_property

from vgpu_scheduler.admission import completed_containers, is_exempt
from vgpu_scheduler.dialects import AdmissionDenied
from vgpu_scheduler.kube import Object, Pod, QuantityError
from vgpu_scheduler.whatif.objects.containers import containers_of
from vgpu_scheduler.whatif.objects.objects import InvalidObjectsError, annotations_in
from vgpu_scheduler.whatif.world.world import World


class AdmissionVariants:
    """The forms in which the API server may store another version of a pod.

    A recreated pod passes the webhook, if there is one: a change that the webhook refuses or overwrites is no remedy.
    Whether there is a webhook is unknown, so a change has to help both as written and as completed by the webhook;
    exempt pods stay as they are written.

    Parameters
    ----------
    world
        A world with the dialects and policies.
    written
        The pod as it is. Since it exists, no webhook has refused it, so a refusal that applies to it already is not
        held against a change.
    """

    def __init__(self, world: World, written: Object) -> None:
        self._world = world
        self._written = written

    def of(self, written: Object, *, excused: bool = True) -> tuple[Pod, ...]:
        """Return the forms in which the scheduler may see a pod: as written and, if different, as completed.

        Return nothing if the pod would be refused, or cannot be read.

        Parameters
        ----------
        excused
            Whether to ignore a refusal that applies to the pod as it is.
        """
        try:
            read = self._world.pod(written, again=True)
            completed = self._completed(written, read)
            return (read,) if completed is None else (read, self._world.pod(completed, again=True))
        except InvalidObjectsError:
            return ()
        except AdmissionDenied as refusal:
            return (read,) if excused and refusal.message == self._refusal else ()

    @cached_property
    def _refusal(self) -> str:
        """Why the pod as it is would be refused; empty if it would be admitted."""
        try:
            self._completed(self._written, self._world.pod(self._written, again=True))
        except AdmissionDenied as refusal:
            return refusal.message
        except InvalidObjectsError:
            pass
        return ""

    def _completed(self, written: Object, read: Pod) -> Object | None:
        """Return a pod as the webhook would complete it; None if that changes nothing that affects decisions.

        Raises
        ------
        AdmissionDenied
            If the webhook would refuse the pod.
        """
        engine = self._world.engine
        namespace_labels = self._world.namespaces.get(read.namespace, {})
        if is_exempt(read.labels, namespace_labels, read.namespace, engine.options.home):
            return None
        ruled = frozenset[str]().union(*(each.claims.completed_resources for each in engine.dialects.owners(read)))
        if ruled.isdisjoint(read.spec.resource_names):
            return None
        try:
            completed, _ = completed_containers(written, read, engine.dialects, engine.policies.claim_defaults(read))
        except QuantityError:
            return None  # the scheduler refuses the malformed quantity
        return completed if _decisive(completed) != _decisive(written) else None


def _decisive(pod: Object) -> object:
    """Return the parts of a pod that the webhook may complete and that affect decisions."""
    resources = [container.get("resources") or {} for _, _, container in containers_of(pod)]
    return annotations_in(pod), resources
