"""LeaderWorkerSet: a number of groups, each of a leader and its workers.

See https://github.com/kubernetes-sigs/lws, v0.8.0: ``pkg/controllers``, ``pkg/webhooks/pod_webhook.go`` and
``pkg/schedulerprovider/volcano_provider.go``. With ``gangSchedulingManagement`` in its configuration, which objects do
not show, its controller creates a Volcano PodGroup for each group. The template revision hash is ``new`` here.
Environment variables are left out, since nothing here reads them.
"""

from __future__ import annotations

from typing import Final

from vgpu_scheduler.groups import VOLCANO_API_VERSION
from vgpu_scheduler.kube import VOLCANO_GROUP_ANNOTATIONS, Object
from vgpu_scheduler.whatif.workloads.exclusive import COMES_LATER, exclusive, sha1_of
from vgpu_scheduler.whatif.workloads.field_reader import FieldReader, workload
from vgpu_scheduler.whatif.workloads.kubernetes import VolumeClaimTemplates
from vgpu_scheduler.whatif.workloads.workload_pods import (
    Owner,
    PodSet,
    WorkloadPods,
    checked_number,
    pod_group,
    pod_of,
    says_group,
    with_texts,
)

_OURS: Final = "leaderworkerset.sigs.k8s.io/"
_EXCLUSIVE: Final = f"{_OURS}exclusive-topology"
_SUBGROUP_EXCLUSIVE: Final = f"{_OURS}subgroup-exclusive-topology"
_GROUP_KEY: Final = f"{_OURS}group-key"
_SUBGROUP_KEY: Final = f"{_OURS}subgroup-key"
_REVISION: Final = "new"
_ASSUMED: Final = (
    "each leader is placed together with its workers, as LeaderWorkerSet's controller has it where its configuration"
    " sets gangSchedulingManagement; without that, and without a group in the templates, each pod is placed by itself"
)
_LEADER_READY: Final = "workers are created once their leader is ready; here all pods are placed"


def read_leader_worker_set(obj: Object) -> WorkloadPods:
    """Read a LeaderWorkerSet.

    Raises
    ------
    InvalidObjectsError
        If a field is malformed.
    """
    return _Set(workload(obj)).made()


class _Set:
    """The pods of a LeaderWorkerSet.

    Raises
    ------
    InvalidObjectsError
        If a field is malformed.
    """

    def __init__(self, written: FieldReader) -> None:
        metadata, spec = written.part("metadata"), written.part("spec")
        self._owner = Owner.of("LeaderWorkerSet", metadata.fields)
        self._annotations = metadata.texts("annotations")
        self._waits_for_leader = spec.fields.get("startupPolicy") == "LeaderReady"
        template = spec.part("leaderWorkerTemplate")
        self._worker = template.part("workerTemplate")
        self._leader = template.part("leaderTemplate") if template.has("leaderTemplate") else self._worker
        self._replicas, self._size = spec.number("replicas", 1), template.number("size", 1)
        checked_number(spec, self._replicas * self._size)
        self._claims = VolumeClaimTemplates(template)
        subgroup = template.maybe("subGroupPolicy")
        self._subgroup = subgroup.number("subGroupSize", 1) if template.has("subGroupPolicy") else 0
        self._subgroup_type = subgroup.text("subGroupPolicyType", "LeaderWorker") if self._subgroup else ""

    def made(self) -> WorkloadPods:
        """Return the objects that its controllers create."""
        sets = self._sets()
        names = [pod["metadata"]["name"] for each in sets for pod in each.pods]
        claims = [claim for name in names for claim in self._claims.claims(name, self._owner)]
        notes = [_LEADER_READY] if self._waits_for_leader and self._size > 1 else []
        groups: list[Object] = []
        if _EXCLUSIVE in self._annotations:
            notes.append(f"annotation {_EXCLUSIVE}: {COMES_LATER}")
        elif self._size > 1 and sets and not says_group(sets):
            notes.append(_ASSUMED)
            minimum = 1 if self._waits_for_leader else self._size
            names = [self._group_name(number) for number in range(self._replicas)]
            groups = [pod_group(VOLCANO_API_VERSION, name, self._owner.home, minimum) for name in names]
            sets = [PodSet([self._grouped(pod) for pod in each.pods], each.path) for each in sets]
        return WorkloadPods(sets, claims, self._controllers(), groups, notes)

    def _sets(self) -> list[PodSet]:
        numbers = [(group, worker) for group in range(self._replicas) for worker in range(self._size)]
        if self._leader is self._worker:
            return [PodSet([self._pod(*each) for each in numbers], self._worker.path)] if numbers else []
        leaders = [self._pod(*each) for each in numbers if each[1] == 0]
        workers = [self._pod(*each) for each in numbers if each[1]]
        sets = PodSet(leaders, self._leader.path), PodSet(workers, self._worker.path)
        return [each for each in sets if each.pods]

    def _pod(self, group: int, worker: int) -> Object:
        """Return a pod of a group: the leader (worker 0) or a worker."""
        leader = f"{self._owner.name}-{group}"
        name = f"{leader}-{worker}" if worker else leader
        owner = Owner.of("StatefulSet", self._owner.home, leader if worker else self._owner.name)
        group_key = sha1_of(f"{self._owner.namespace}/{leader}")
        labels = {
            f"{_OURS}name": self._owner.name,
            f"{_OURS}group-index": str(group),
            f"{_OURS}worker-index": str(worker),
            f"{_OURS}template-revision-hash": _REVISION,
            _GROUP_KEY: group_key,
            "apps.kubernetes.io/pod-index": str(worker or group),
            "statefulset.kubernetes.io/pod-name": name,
        }
        annotations = {f"{_OURS}size": str(self._size)}
        annotations |= {f"{_OURS}leader-name": leader} if worker else {}
        annotations |= {key: self._annotations[key] for key in (_EXCLUSIVE,) if self._annotations.get(key)}
        subgroup = self._subgroup_of(worker)
        subgroup_key = sha1_of(f"{leader}/{subgroup}")
        if self._subgroup:
            annotations |= self._of_subgroup(worker)
        if subgroup is not None:
            labels |= {f"{_OURS}subgroup-index": str(subgroup), _SUBGROUP_KEY: subgroup_key}
        pod = pod_of(self._worker if worker else self._leader, name, owner, labels, annotations)
        pod = self._claims.added(pod, name)
        if key := annotations.get(_EXCLUSIVE):
            pod = exclusive(pod, (_GROUP_KEY, group_key), key, is_first=not worker)
        if subgroup is not None and (key := annotations.get(_SUBGROUP_EXCLUSIVE)):
            pod = exclusive(pod, (_SUBGROUP_KEY, subgroup_key), key, is_first=True)
        return pod

    def _subgroup_of(self, worker: int) -> int | None:
        """Return the index of a pod's subgroup; None without one."""
        if not self._subgroup or (not worker and self._subgroup_type == "LeaderExcluded"):
            return None
        with_leader_beside = (self._size - 1) % self._subgroup == 0
        return max(0, worker - with_leader_beside) // self._subgroup

    def _of_subgroup(self, worker: int) -> dict[str, str]:
        """Return the annotations about subgroups."""
        found = {f"{_OURS}subgroup-size": str(self._subgroup)}
        found |= {} if worker else {f"{_OURS}subgroup-policy-type": self._subgroup_type}
        return found | {key: self._annotations[key] for key in (_SUBGROUP_EXCLUSIVE,) if self._annotations.get(key)}

    def _controllers(self) -> list[Object]:
        """Return the StatefulSets of the leaders and of each group's workers."""
        ours = {f"{_OURS}name": self._owner.name}
        leaders = Owner.of("StatefulSet", self._owner.home, self._owner.name)
        made = [leaders.selecting({"matchLabels": {**ours, f"{_OURS}worker-index": "0"}})]
        for group in range(self._replicas if self._size > 1 else 0):
            owner = Owner.of("StatefulSet", self._owner.home, f"{self._owner.name}-{group}")
            key = sha1_of(f"{self._owner.namespace}/{owner.name}")
            made.append(owner.selecting({"matchLabels": {**ours, f"{_OURS}group-index": str(group), _GROUP_KEY: key}}))
        return made

    def _group_name(self, group: object) -> str:
        return f"{self._owner.name}-{group}-{_REVISION}"

    def _grouped(self, pod: Object) -> Object:
        """Return a pod with the annotation that names its group's PodGroup."""
        group = pod["metadata"]["labels"][f"{_OURS}group-index"]
        named = {VOLCANO_GROUP_ANNOTATIONS[0]: self._group_name(group)}
        return {**pod, "metadata": with_texts(pod["metadata"], "annotations", named)}
