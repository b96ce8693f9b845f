"""What the kubelet writes to nodes and pods."""

from __future__ import annotations

from typing import Any

from .clock import now

Object = dict[str, Any]

CAPACITY = {"cpu": "64", "memory": "512Gi", "pods": "110", "ephemeral-storage": "1Ti"}
"""A node's capacity besides cards."""


def ready() -> Object:
    """Return the condition of a node that is ready."""
    stamp = now()
    return {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "kubelet is posting ready status",
        "lastHeartbeatTime": stamp,
        "lastTransitionTime": stamp,
    }


def running() -> Object:
    """Return the state of a container that runs."""
    return {"running": {"startedAt": now()}}


def pod_status(pod: Object, phase: str, state: Object) -> Object:
    """Return the status of a pod: phase, conditions and the state of the containers."""
    ready = phase == "Running"
    word = "True" if ready else "False"
    stamp = now()
    conditions = [
        {"type": kind, "status": value, "lastTransitionTime": stamp}
        for kind, value in (("Initialized", "True"), ("Ready", word), ("ContainersReady", word))
    ]
    statuses = [
        {
            "name": container["name"],
            "image": container.get("image", ""),
            "imageID": "",
            "ready": ready,
            "started": ready,
            "restartCount": 0,
            "state": state,
        }
        for container in pod["spec"]["containers"]
    ]
    status: Object = {"phase": phase, "conditions": conditions, "containerStatuses": statuses}
    if ready:
        status["startTime"] = stamp
    return status
