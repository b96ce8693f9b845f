"""A cluster in memory that is changed, and asked what would be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from vgpu_scheduler.engine import EngineOptions, review_locks
from vgpu_scheduler.kube import Object, Pod
from vgpu_scheduler.whatif.objects.objects import metadata_of, read_node
from vgpu_scheduler.whatif.objects.storage import ephemeral_claims, with_default_class
from vgpu_scheduler.whatif.world.loading import LoadedCluster


class World(LoadedCluster):
    """A cluster made of objects that is changed to ask what would be.

    Parameters
    ----------
    options, strict
        As for any :class:`LoadedCluster`.

    Attributes
    ----------
    reviewed_at
        The time of day as of which locks were judged; None where they were not.
    """

    def __init__(self, options: EngineOptions, *, strict: bool = False) -> None:
        super().__init__(options, strict=strict)
        self._first_uids: dict[str, str] = {}  # of pods that were brought back
        self._served: Mapping[str, Mapping[str, str]] = {}
        self.reviewed_at: datetime | None = None

    def make_claims(self, claims: Iterable[Object]) -> None:
        """Make claims as a controller would, those that are there already aside.

        Raises
        ------
        WorldError
            If one cannot be understood.
        """
        for claim in claims:
            metadata = metadata_of(claim)
            key = f"{metadata.get('namespace', 'default')}/{metadata.get('name', '')}"
            if self.engine.state.volumes.objects.claims.get(key) is None:
                self._add_storage("PersistentVolumeClaim", with_default_class(claim, self._default_class))

    def make_controllers(self, controllers: Iterable[Object]) -> None:
        """Have there be what selects the pods of workloads, where spreading asks for it.

        Raises
        ------
        WorldError
            If one cannot be understood.
        """
        for controller in controllers if self.engine.system_spread else ():
            self._add_selecting(str(controller["kind"]), controller)

    def make_ephemeral_claims(self, pod: Pod, written_as: str) -> None:
        """Make the claims of a pod's ephemeral volumes, where they are not there; see :meth:`make_claims`.

        Parameters
        ----------
        written_as
            The UID that the pod was read with.
        """
        self.make_claims(ephemeral_claims(self._written.get(written_as, {}), pod.name, pod.namespace, pod.uid))

    def review_locks(self, now: datetime) -> None:
        """Judge the node locks as the scheduler would at a time of day; until then all are held.

        Nodes and pods must have been taken in, all of them: the lock of a pod that is not there is nobody's.
        """
        self.reviewed_at = now
        self._served = review_locks(self.engine, self._pods, now)

    def replace_node(self, obj: Object, inventory_object: Object | None = None) -> list[str]:
        """Put another version of a node in its place, and of the object beside it, if one is given.

        Returns
        -------
        list
            What of it cannot be read, for which what was known before stays in force.

        Raises
        ------
        WorldError
            If it cannot be understood.
        """
        node = read_node(obj)
        self.nodes[node.name] = obj
        if inventory_object is not None:
            self._add_device(node.name, inventory_object)
        return [problem.message for problem in self.engine.observe_node(node, 0.0)]

    def remove_node(self, name: str) -> None:
        """Take a node away, with the pods that are bound to it."""
        for pod in [pod for pod in self.bound.values() if pod.node_name == name]:
            self.remove_pod(pod.uid)
        self.nodes.pop(name, None)
        if self.inventory_objects.pop(name, None) is not None:
            self.engine.observe_inventory(name, None, 0.0)
        self.engine.remove_node(name)

    def remove_pod(self, uid: str) -> None:
        """Take a pod away: what it held is free."""
        pod = self.pending.pop(uid, None) or self.bound.pop(uid, None)
        if pod is not None:
            self._pods.pop(pod.key, None)
            self.engine.remove_pod(uid, 0.0)

    def restore_pod(self, pod: Pod) -> Pod:
        """Bring a bound pod back that was taken away, and return it: with a new UID, for the dead stay dead."""
        again = msgspec.structs.replace(pod, uid=self.new_uid(), resource_version=0)
        self._first_uids[again.uid] = self.first_uid(pod)
        self._written[again.uid] = self._written.get(pod.uid, {})
        self.bound[again.uid] = self._pods[again.key] = again
        self.engine.observe_pod(again, 0.0)
        return again

    def replace_pod(self, pod: Pod, obj: Object) -> None:
        """Put another version of a pod in its place, read from an object."""
        self.pending.pop(pod.uid, None)
        self.bound.pop(pod.uid, None)
        self._pods.pop(pod.key, None)
        self._written[pod.uid] = obj
        self._add_pod(pod)

    def forget_pod(self, key: str) -> None:
        """Take a pod away for good, whatever has become of it."""
        pod = self._pods.pop(key, None)
        if pod is not None:
            self.pending.pop(pod.uid, None)
            self.bound.pop(pod.uid, None)
            self._written.pop(pod.uid, None)
            self._first_uids.pop(pod.uid, None)
            self.engine.remove_pod(pod.uid, 0.0)

    # What is there ---------------------------------------------------------------------------------------------------

    @property
    def pods(self) -> Mapping[str, Pod]:
        """The pods by namespace and name, whatever has become of them."""
        return self._pods

    def quotas_of(self, namespace: str) -> list[Object]:
        """Return the quotas of a namespace as they were written, by name."""
        return [obj for (home, _), obj in sorted(self._quotas.items(), key=lambda each: each[0]) if home == namespace]

    def first_uid(self, pod: Pod) -> str:
        """Return the UID that a pod was read with, which is another one where it was taken away and brought back."""
        return self._first_uids.get(pod.uid, pod.uid)

    def written(self, pod: Pod) -> Object:
        """Return a pod as it was written."""
        return self._written[pod.uid]

    def served_before(self, pod: Pod, node: str) -> str | None:
        """Return whose lock a pod has to wait for on a node, empty for one that names nobody; None if for none."""
        lock = self.engine.dialects.node_side.lock(self.engine.algorithm.classes.claims(pod))
        served = None if lock is None else self._served.get(node, {}).get(lock.annotation)
        return None if served and served not in self._pods else served
