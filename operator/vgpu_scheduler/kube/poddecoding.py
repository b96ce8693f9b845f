"""Reads pods."""

from sys import intern
from typing import Final

import msgspec

from vgpu_scheduler.kube.decoding import Encoded, decode_object
from vgpu_scheduler.kube.objects import Condition, Pod
from vgpu_scheduler.kube.podspecs import intern_pod_spec, resized_requests
from vgpu_scheduler.kube.rejections import kubelet_rejection
from vgpu_scheduler.kube.sharing import SharedMaps
from vgpu_scheduler.kube.wire import WireMeta, WirePod, WirePodSpec, WirePodStatus

_pods: Final = msgspec.json.Decoder(WirePod)
_labels: Final = SharedMaps()


def decode_pod(obj: Encoded) -> Pod:
    """Read a pod.

    Parameters
    ----------
    obj
        The object as a dict (as kopf hands it out) or as JSON.

    Raises
    ------
    DecodeError
        If a field that is read has the wrong type, or a quantity is none.
    """
    return decode_object(obj, "Pod", _pods, _pod)


def _pod(wire: WirePod) -> Pod:
    meta, pod, status = wire.metadata, wire.spec, wire.status
    spec = intern_pod_spec(pod)
    reported = bool(status.container_statuses or status.init_container_statuses)
    return Pod(
        uid=meta.uid,
        namespace=intern(meta.namespace),
        name=meta.name,
        resource_version=meta.version,
        labels=_labels.get(meta.labels),
        annotations=meta.annotations or {},
        scheduler_name=intern(pod.scheduler_name),
        node_name=intern(pod.node_name),
        nominated_node_name=status.nominated_node_name,
        phase=intern(status.phase),
        priority=pod.priority or 0,
        preemption_policy=pod.preemption_policy or "PreemptLowerPriority",
        creation_timestamp=meta.creation_timestamp or "",
        deleting=meta.deletion_timestamp is not None,
        started=reported,
        init_finished=_init_finished(pod, status),
        scheduled_condition=_scheduled(status),
        spec=spec,
        resized_requests=resized_requests(pod, status, spec) if reported else None,
        generation=meta.generation,
        owner=_owner(meta),
        rejection=kubelet_rejection(status) if status.reason else "",
    )


def _owner(meta: WireMeta) -> str:
    """Return the UID of the controller: one text for all the pods that it owns."""
    return next((intern(owner.uid) for owner in meta.owner_references or () if owner.controller), "")


def _init_finished(pod: WirePodSpec, status: WirePodStatus) -> bool:
    expected = {c.name for c in pod.init_containers or () if c.restart_policy != "Always"}
    if not expected:
        return True
    for entry in status.init_container_statuses or ():
        ended = entry.state.terminated if entry.state else None
        if ended is not None and ended.exit_code == 0:
            expected.discard(entry.name)
    return not expected


def _scheduled(status: WirePodStatus) -> Condition | None:
    for condition in status.conditions or ():
        if condition.type == "PodScheduled":
            return Condition(condition.status, condition.reason or "", condition.message or "")
    return None
