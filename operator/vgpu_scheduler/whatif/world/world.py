"""A cluster in memory that can be changed and asked hypothetical questions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

from vgpu_scheduler.engine import EngineOptions, review_locks
from vgpu_scheduler.kube import NodeInventory, Object, Pod
from vgpu_scheduler.whatif.objects.objects import metadata_of, namespace_of, read_node
from vgpu_scheduler.whatif.objects.storage import ephemeral_volume_claims, newest_class, with_default_class
from vgpu_scheduler.whatif.world.loading import LoadedCluster


class World(LoadedCluster):
    """A cluster made of objects, which can be changed to ask hypothetical questions.

    Parameters
    ----------
    options, strict
        As for any :class:`LoadedCluster`.

    Attributes
    ----------
    reviewed_at
        The time of day for which node locks were reviewed; None if they were not.
    """

    def __init__(self, options: EngineOptions, *, strict: bool = False) -> None:
        super().__init__(options, strict=strict)
        self._served: Mapping[str, Mapping[str, str]] = {}
        self.reviewed_at: datetime | None = None

    @property
    def default_class(self) -> str:
        """The storage class of claims that name none; empty if there is no default class."""
        return newest_class(self._default_classes)

    def ignores(self, obj: Object) -> bool:
        """Tell whether objects of an object's kind are ignored when they are added."""
        return str(obj.get("kind", "")) not in self._takers

    def make_volume_claims(self, claims: Iterable[Object]) -> None:
        """Make volume claims as a controller would, unless they exist already.

        Raises
        ------
        InvalidObjectsError
            If a claim cannot be understood.
        """
        for claim in claims:
            metadata = metadata_of(claim)
            key = f"{namespace_of(metadata)}/{metadata.get('name', '')}"
            if self.engine.state.volumes.objects.claims.get(key) is None:
                self._add_storage("PersistentVolumeClaim", with_default_class(claim, self.default_class))

    def make_controllers(self, controllers: Iterable[Object]) -> None:
        """Add the objects that select the pods of workloads, if the system's default spreading needs them.

        Raises
        ------
        InvalidObjectsError
            If an object cannot be understood.
        """
        for controller in controllers if self.engine.system_spread else ():
            self._add_selecting(str(controller["kind"]), controller)

    def make_ephemeral_volume_claims(self, pod: Pod, written_as: str) -> None:
        """Make the missing claims of a pod's ephemeral volumes; see :meth:`make_volume_claims`.

        Parameters
        ----------
        written_as
            The UID with which the pod was read.
        """
        self.make_volume_claims(
            ephemeral_volume_claims(self._written.get(written_as, {}), pod.name, pod.namespace, pod.uid)
        )

    def review_locks(self, now: datetime) -> None:
        """Review the node locks as the scheduler would at a time of day; before that, all count as held.

        All nodes and pods must have been added before: a lock of a pod that is not there counts as orphaned.
        """
        self.reviewed_at = now
        self._served = review_locks(self.engine, self._pods, now)

    def replace_node(self, obj: Object, inventory_object: Object | None = None) -> list[str]:
        """Replace a node by another version and, if given, the object beside it that lists its devices.

        Returns
        -------
        list
            What cannot be read of the node; for that, the earlier version stays in force.

        Raises
        ------
        InvalidObjectsError
            If the node cannot be understood.
        """
        node = read_node(obj)
        self.nodes[node.name] = obj
        if inventory_object is not None:
            self._observe_inventory(node.name, inventory_object)
        return [problem.message for problem in self.engine.observe_node(node, 0.0)]

    def remove_node(self, name: str) -> None:
        """Remove a node, with the pods that are bound to it."""
        for pod in [pod for pod in self.bound.values() if pod.node_name == name]:
            self.remove_pod(pod.uid)
        self.nodes.pop(name, None)
        if (beside := self.inventory_objects.pop(name, None)) is not None:
            self.engine.kinds[str(beside["kind"])].remove(NodeInventory(name, beside), 0, 0.0)
        self.engine.remove_node(name)

    def remove_pod(self, uid: str) -> None:
        """Remove a pod and free what it holds."""
        pod = self.pending.pop(uid, None) or self.bound.pop(uid, None)
        if pod is not None:
            self._pods.pop(pod.key, None)
            self.engine.remove_pod(uid, 0.0, max(pod.resource_version - 1, 0))  # the same version can be restored

    def restore_pod(self, pod: Pod) -> None:
        """Restore a bound pod that was removed."""
        self.bound[pod.uid] = self._pods[pod.key] = pod
        self.engine.observe_pod(pod, 0.0)

    @contextmanager
    def without(self, pod: Pod) -> Iterator[None]:
        """Remove a bound pod for the time of a question: what it holds is free meanwhile."""
        try:
            self.remove_pod(pod.uid)
            yield
        finally:
            self.restore_pod(pod)

    def replace_pod(self, pod: Pod, obj: Object) -> None:
        """Replace a pod by another version, read from an object."""
        self.pending.pop(pod.uid, None)
        self.bound.pop(pod.uid, None)
        self._pods.pop(pod.key, None)
        self._written[pod.uid] = obj
        self._add_pod(pod)

    def forget_pod(self, key: str) -> None:
        """Remove a pod for good, whether pending, bound or ended."""
        pod = self._pods.pop(key, None)
        if pod is not None:
            self.pending.pop(pod.uid, None)
            self.bound.pop(pod.uid, None)
            self._written.pop(pod.uid, None)
            self.engine.remove_pod(pod.uid, 0.0)

    # Contents ---------------------------------------------------------------------------------------------------------

    @property
    def pods(self) -> Mapping[str, Pod]:
        """The pods by namespace and name, whether pending, bound or ended."""
        return self._pods

    @property
    def present_pods(self) -> tuple[Pod, ...]:
        """The pods that have not ended: the pending ones, then the bound ones."""
        return (*self.pending.values(), *self.bound.values())

    def quotas_of(self, namespace: str) -> list[Object]:
        """Return the quotas of a namespace as they were written, by name."""
        return [obj for (home, _), obj in sorted(self._quotas.items(), key=lambda each: each[0]) if home == namespace]

    def written(self, pod: Pod) -> Object:
        """Return a pod as it was written."""
        return self._written[pod.uid]

    def written_alike(self, pod: Pod) -> Object:
        """Return a pod of the same spec as it was written: one of which this may be a copy."""
        return self._written_specs[pod.spec]

    def served_before(self, pod: Pod, node: str) -> str | None:
        """Return the pod whose lock on a node a pod has to wait for: empty if the lock names none, None without one."""
        lock = self.engine.dialects.node_side.lock(self.engine.algorithm.classes.claims(pod))
        served = None if lock is None else self._served.get(node, {}).get(lock.annotation)
        return None if served and served not in self._pods else served
