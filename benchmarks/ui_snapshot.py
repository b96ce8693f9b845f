"""A made-up cluster for the page, and what stands for its API server: it lists, and tells watches what happens."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
from aiohttp import web

from benchmarks.cluster import CARDS, SLICE, node_name, registered_node
from benchmarks.footprint import bound_pod
from vgpu_devcluster import equip, registration

Object = dict[str, Any]
NODES: Final = 5_000
PODS: Final = 20_000
WAITING: Final = 2_000
NAMESPACES: Final = 20
OTHER_MODEL: Final = "L40S"
"""The cards of each tenth node."""
TENANT: Final = "team-0"
"""The namespace that whoever logs in sees."""
_TIME: Final = "2026-01-01T00:00:00Z"
_REASONS: Final = (
    f"0/{NODES} nodes are available: {NODES} CardInsufficientMemory.",
    f"0/{NODES} nodes are available: {NODES} CardTypeMismatch.",
    f"0/{NODES} nodes are available: 2500 CardInsufficientCore, 2500 CardInsufficientMemory.",
    f"0/{NODES} nodes are available: {NODES} node(s) didn't match Pod's node affinity/selector.",
)
_ASKS: Final[tuple[Mapping[str, Any], ...]] = (
    {"gpumem": "81000"},
    {"gpumem": "8192"},
    {"gpumem": "70000", "gpucores": "100"},
    {"gpumem": "4096"},
)


def nodes() -> list[Object]:
    """Return the nodes; each tenth has cards of another model."""
    found = []
    for number in range(NODES):
        node = registered_node(number, NODES)
        if number % 10 == 0:
            cards = registration(equip(node_name(number, NODES), (OTHER_MODEL,) * len(CARDS)))
            node["metadata"]["annotations"]["hami.io/node-nvidia-register"] = cards
        node["metadata"] |= {"creationTimestamp": _TIME, "managedFields": _owned("kubelet", node)}
        found.append(node)
    return found


def pods() -> list[Object]:
    """Return the pods that are bound, and those that wait."""
    found = [pod for number in range(PODS) if (pod := running(number))]
    return [*found, *(waiting(number) for number in range(WAITING))]


def running(number: int) -> Object:
    """Return a pod that runs."""
    pod = bound_pod(number, NODES)
    if number % NODES % 10 == 0 and "hami.io/vgpu-devices-allocated" in pod["metadata"]["annotations"]:
        node = node_name(number % NODES, NODES)
        card = equip(node, (OTHER_MODEL,) * len(CARDS))[number // NODES % len(CARDS)].uuid
        pod["metadata"]["annotations"]["hami.io/vgpu-devices-allocated"] = f"{card},NVIDIA,4096,10:;"
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    state = {"name": "main", "ready": True, "restartCount": 0, "state": {"running": {"startedAt": _TIME}}}
    pod["status"] = {
        "phase": "Running",
        "conditions": [{"type": kind, "status": "True", "lastTransitionTime": _TIME} for kind in kinds],
        "containerStatuses": [state | {"image": "registry.example/service:1.0", "imageID": f"sha256:{number:064x}"}],
        "hostIP": "10.0.0.1",
        "podIP": f"10.1.{number // 250}.{number % 250}",
        "startTime": _TIME,
    }
    return _written(pod, f"running-{number}")


def waiting(number: int) -> Object:
    """Return a pod that waits, for one of four reasons."""
    kind = number % len(_REASONS)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": _TIME}
    limits = {"nvidia.com/gpu": "1", **{f"nvidia.com/{name}": amount for name, amount in _ASKS[kind].items()}}
    notes = {"nvidia.com/use-gputype": "H200"} if kind == 1 else {}
    spec: Object = {
        "schedulerName": "vgpu-scheduler",
        "containers": [{"name": "main", "image": "registry.example/job:1.0", "resources": {"limits": limits}}],
    }
    if kind == 3:
        spec["nodeSelector"] = {"zone": "none"}
    metadata = {"name": f"waits-{number}", "namespace": f"team-{number % NAMESPACES}", "annotations": notes}
    status = {"phase": "Pending", "conditions": [condition | {"message": _REASONS[kind]}]}
    return _written({"metadata": metadata, "spec": spec, "status": status}, f"waiting-{number}")


def bound(number: int, card: int) -> Object:
    """Return a pod of the tenant that is bound now, to the first node of the first model."""
    node = node_name(1, NODES)
    uuid = equip(node, CARDS)[card % len(CARDS)].uuid
    notes = {"hami.io/vgpu-devices-allocated": f"{uuid},NVIDIA,64,1:;", "hami.io/vgpu-node": node}
    resources = {"limits": SLICE | {"nvidia.com/gpumem": "64", "nvidia.com/gpucores": "1"}}
    spec = {
        "schedulerName": "vgpu-scheduler",
        "nodeName": node,
        "containers": [{"name": "main", "image": "example", "resources": resources}],
    }
    metadata = {"name": f"new-{number}", "namespace": TENANT, "annotations": notes}
    return _written({"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}, f"new-{number}")


def budget(version: int) -> Object:
    """Return a budget of the tenant whose status says something else with each version."""
    selector = {"matchLabels": {"app": "service-0000"}}
    status = {"disruptionsAllowed": version % 2, "currentHealthy": 10, "desiredHealthy": 9, "expectedPods": 10}
    metadata = {"name": "budget", "namespace": TENANT, "uid": "budget", "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": {"minAvailable": 9, "selector": selector}, "status": status}


def _written(pod: Object, uid: str) -> Object:
    """Return a pod with what the API server adds to it."""
    pod["metadata"] |= {"uid": uid, "resourceVersion": "1", "creationTimestamp": _TIME}
    pod["metadata"]["managedFields"] = _owned("kube-controller-manager", pod)
    return pod


def _owned(manager: str, obj: Object) -> list[Object]:
    """Return who owns the fields of an object."""

    def fields(value: Any) -> Object:
        if isinstance(value, Mapping):
            return {f"f:{key}": fields(inner) for key, inner in value.items()}
        return {}

    mine = {f"f:{part}": fields(obj[part]) for part in ("metadata", "spec") if part in obj}
    theirs = {"f:status": fields(obj.get("status", {}))}
    each = {"apiVersion": "v1", "fieldsType": "FieldsV1", "operation": "Update", "time": _TIME}
    return [
        {**each, "manager": manager, "fieldsV1": mine},
        {**each, "manager": "kubelet", "subresource": "status", "fieldsV1": theirs},
    ]


class MadeUp:
    """Stands for the API server of a cluster."""

    def __init__(self, listed: Mapping[str, Iterable[Object]]) -> None:
        self._listed = {path: [json.dumps(obj).encode() for obj in objects] for path, objects in listed.items()}
        self._watches: defaultdict[str, list[asyncio.Queue[bytes]]] = defaultdict(list)
        self._version = 1

    def tell(self, path: str, kind: str, obj: Object) -> None:
        """Tell the watches of a path what has happened to an object."""
        self._version += 1
        obj["metadata"]["resourceVersion"] = str(self._version)
        for queue in self._watches[path]:
            queue.put_nowait(json.dumps({"type": kind, "object": obj}).encode() + b"\n")

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request."""
        if request.method == "POST":
            return web.json_response(self._review(request.path, await request.json()), status=201)
        if request.query.get("watch"):
            return await self._watch(request)
        if "/namespaces/" in request.path:
            return web.json_response({"kind": "Status", "code": 404, "message": "not found"}, status=404)
        items = self._listed.get(request.path, [])
        limit, begin = int(request.query.get("limit", "500")), int(request.query.get("continue", "0"))
        end = begin + limit
        metadata = {"resourceVersion": str(self._version), **({"continue": str(end)} if end < len(items) else {})}
        head = json.dumps({"kind": "List", "apiVersion": "v1", "metadata": metadata})[:-1].encode()
        body = head + b', "items": [' + b",".join(items[begin:end]) + b"]}"
        return web.Response(body=body, content_type="application/json")

    @staticmethod
    def _review(path: str, body: Object) -> Object:
        if path.endswith("/tokenreviews"):
            user = {"username": body["spec"]["token"], "groups": [], "uid": "1"}
            return {"status": {"authenticated": True, "user": user}}
        asked = body["spec"]["resourceAttributes"]
        allowed = "user" not in body["spec"] or asked.get("namespace") == TENANT
        return {"status": {"allowed": allowed}}

    async def _watch(self, request: web.BaseRequest) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._watches[request.path].append(queue)
        try:
            while True:
                await answer.write(await queue.get())
        finally:
            self._watches[request.path].remove(queue)


@asynccontextmanager
async def made_up(folder: Path) -> AsyncIterator[tuple[MadeUp, Path]]:
    """Serve the cluster; yield it and a kubeconfig."""
    cluster = MadeUp(
        {
            "/api/v1/nodes": nodes(),
            "/api/v1/pods": pods(),
            "/api/v1/namespaces": [{"metadata": {"name": f"team-{n}", "uid": f"ns-{n}"}} for n in range(NAMESPACES)],
            "/apis/policy/v1/poddisruptionbudgets": [budget(1)],
        }
    )
    runner = web.ServerRunner(web.Server(cluster.answer, handler_cancellation=True, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server = f"http://127.0.0.1:{runner.addresses[0][1]}"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "made-up", "cluster": {"server": server}}],
        "users": [{"name": "me", "user": {}}],
        "contexts": [{"name": "made-up", "context": {"cluster": "made-up", "user": "me"}}],
        "current-context": "made-up",
    }
    file = folder / "kubeconfig"
    file.write_bytes(msgspec.json.encode(config))
    try:
        yield cluster, file
    finally:
        await runner.cleanup()
