"""Small API objects for tests."""

from typing import Any

Obj = dict[str, Any]


def container(name: str = "main", **requests: str) -> Obj:
    return {"name": name, "resources": {"requests": {key.replace("_", "-"): value for key, value in requests.items()}}}


def pod(*containers: Obj, name: str = "p", namespace: str = "ns", status: Obj | None = None, **spec: object) -> Obj:
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": "7"},
        "spec": {"containers": list(containers) or [container()], **spec},
        "status": status or {"phase": "Pending"},
    }


def node(
    name: str = "n",
    *,
    labels: Obj | None = None,
    allocatable: Obj | None = None,
    status: Obj | None = None,
    **spec: object,
) -> Obj:
    offered = {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "100Gi", "pods": "110", **(allocatable or {})}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "9", "labels": labels or {}},
        "spec": spec,
        "status": {"allocatable": offered, **(status or {})},
    }
