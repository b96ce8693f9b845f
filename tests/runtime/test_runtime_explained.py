"""Whoever does what ``explain`` says sees the running operator bind the pod; what it says fits, the operator binds."""

from __future__ import annotations

import asyncio
import copy
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest
from tests.whatif.test_whatif_remedies import CORES, GPU, MEMORY, node, pod, running

from vgpu_devcluster import DevCluster
from vgpu_devcluster.process import OperatorProcess
from vgpu_scheduler.dialects.hami import format_lock
from vgpu_scheduler.dialects.hami.codec import format_time
from vgpu_scheduler.kube import loads
from vgpu_scheduler.reading import LISTED_RESOURCES, ClusterView, make_world, settings_from_file
from vgpu_scheduler.whatif import Explanation, Remedy, RemedyType, ask, explain_pod

Object = dict[str, Any]

LOCK = "hami.io/mutex.lock"
OURS = "vgpu-scheduler"
PATHS = {
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/namespaces/{}/pods",
    "ResourceQuota": "/api/v1/namespaces/{}/resourcequotas",
    "PersistentVolumeClaim": "/api/v1/namespaces/{}/persistentvolumeclaims",
    "PersistentVolume": "/api/v1/persistentvolumes",
}
GIVEN = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")
AT_ONCE = 16
NO_CLAIM = 'persistentvolumeclaim "data" not found'
CLAIM, NOTHING = "make the claim", "nothing helps"


class Cluster:
    """A devcluster, with an operator that runs on it."""

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self.http = http
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._served: set[str] = set()

    async def call(self, method: str, path: str, body: Any = None, **more: Any) -> Object:
        async with self._gate, self.http.request(method, path, json=body, **more) as answer:
            assert answer.status < 300, f"{method} {path}: {await answer.text()}"
            return dict(await answer.json(loads=loads))

    async def create(self, *objects: Object) -> None:
        async with asyncio.TaskGroup() as tasks:
            for obj in objects:
                tasks.create_task(self._create(obj))

    async def _create(self, obj: Object) -> None:
        path, wanted = PATHS[obj["kind"]].format(obj["metadata"].get("namespace", "")), fresh(obj)
        await self.call("POST", path, wanted)
        if obj["kind"] == "Node":  # a new one has a taint until its kubelet is there
            await self.call("PUT", f"{path}/{obj['metadata']['name']}", wanted)

    async def objects(self) -> dict[str, list[Object]]:
        """Return all objects that decisions depend on, by the world that they belong to."""
        found: dict[str, list[Object]] = {}
        for kind in ("Namespace", *PATHS):
            for item in (await self.call("GET", LISTED_RESOURCES[kind].path))["items"]:
                metadata = item["metadata"]
                world = metadata["name"] if kind == "Namespace" else metadata.get("namespace") or metadata["name"]
                found.setdefault(world.partition("-")[0], []).append({"kind": kind, **item})
        return found

    async def serve(self) -> None:
        """Have the plugins of nodes serve the pods that were bound before the one that is asked about."""
        for each in (await self.call("GET", "/api/v1/pods"))["items"]:
            metadata, on = each["metadata"], each["spec"].get("nodeName", "")
            if not metadata["name"].startswith("first-") or not on or metadata["uid"] in self._served:
                continue
            self._served.add(metadata["uid"])
            patch = {"headers": {"Content-Type": "application/merge-patch+json"}}
            answered = {"metadata": {"annotations": {"hami.io/bind-phase": "success"}}}
            path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
            await self.call("PATCH", path, answered, **patch)
            await self.call("PATCH", f"/api/v1/nodes/{on}", {"metadata": {"annotations": {LOCK: None}}}, **patch)

    async def end_terminating(self, namespace: str) -> None:
        """Have the pods of a namespace end that are on their way, as their kubelets would."""
        for each in (await self.call("GET", f"/api/v1/namespaces/{namespace}/pods"))["items"]:
            if "deletionTimestamp" in each["metadata"]:
                path = f"/api/v1/namespaces/{namespace}/pods/{each['metadata']['name']}"
                await self.call("DELETE", path, {"gracePeriodSeconds": 0})

    async def asked(self) -> dict[str, Object]:
        """Return the pods that are asked about, by their worlds."""
        listed = (await self.call("GET", "/api/v1/pods"))["items"]
        return {each["metadata"]["namespace"]: each for each in listed if each["metadata"]["name"] == "asked"}


def fresh(obj: Object) -> Object:
    """Return an object as it is written when it is created anew."""
    made = {key: value for key, value in obj.items() if key != "status" or obj["kind"] == "Node"}
    made["metadata"] = {key: value for key, value in obj["metadata"].items() if key not in GIVEN}
    for container in made.get("spec", {}).get("containers", ()):
        container.setdefault("image", "example.com/image:1")
    return made


@asynccontextmanager
async def running_operator(
    folder: Path, definitions: Iterable[Object] = (), **environment: str
) -> AsyncIterator[Cluster]:
    with DevCluster.thread() as devcluster:
        kubeconfig = devcluster.kubeconfig(folder / "kubeconfig")
        operator = OperatorProcess(kubeconfig, folder / "operator.log", environment)
        async with aiohttp.ClientSession(devcluster.url) as http:
            cluster = Cluster(http)
            await cluster.call("POST", "/api/v1/namespaces", {"metadata": {"name": "vgpu-system"}})
            for definition in definitions:
                await cluster.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
            operator.start()
            try:
                await operator.until_leading()
                yield cluster
            finally:
                await asyncio.to_thread(operator.stop)


# ---------------------------------------------------------------------------------------------------- random worlds


def random_lock(rng: np.random.Generator, world: str, objects: list[Object]) -> str:
    """Return a lock that nobody uses any more, or one that closes its node."""
    now = datetime.now(UTC)
    match rng.integers(4):
        case 0:
            return format_lock(now - timedelta(minutes=int(rng.integers(0, 90))), world, "gone")
        case 1:
            return format_time(now - timedelta(minutes=30))
        case 2:
            return "nonsense"
        case _:
            holder = f"holder-{len(objects)}"
            objects.append(pod(holder, {GPU: 1}, schedulerName="hami-scheduler", metadata={"namespace": world}))
            return format_lock(now, world, holder)


def random_world(rng: np.random.Generator, world: str) -> list[Object]:
    """Return nodes and pods, a quota, locks and claims, and the pod that is asked about, of one world."""
    objects: list[Object] = []
    for number in range(int(rng.integers(1, 4))):
        name, cards = f"{world}-n{number}", int(rng.integers(1, 4))
        taints = [{"key": "world", "value": world, "effect": "NoSchedule"}]
        more: dict[str, Any] = {"labels": {"pool": str(rng.choice(["x", "y"]))}, "taints": taints}
        if rng.random() < 0.15:
            more["unschedulable"] = True
        if rng.random() < 0.2:
            more["taints"].append({"key": str(rng.choice(["k", "l"])), "value": "v", "effect": "NoSchedule"})
        if rng.random() < 0.3:
            more["cordoned"] = (0,)
        made = node(name, cards, int(rng.choice([8192, 16384])), **more)
        if rng.random() < 0.25:
            made["metadata"]["annotations"][LOCK] = random_lock(rng, world, objects)
        objects.append(made)
        for card in range(cards):
            for tenant in range(int(rng.integers(0, 3))):
                memory = int(rng.integers(500, 5000))
                held = running(f"t{number}-{card}-{tenant}", name, f"GPU-{name}-{card}", memory)
                held["metadata"]["namespace"] = world
                objects.append(held)
    limits: dict[str, Any] = {GPU: int(rng.integers(1, 3)), "cpu": str(int(rng.integers(1, 6)))}
    limits[MEMORY] = int(rng.integers(3000, 17000))
    if rng.random() < 0.3:
        limits[CORES] = int(rng.integers(1, 101))
    tolerations = [{"key": "world", "operator": "Equal", "value": world, "effect": "NoSchedule"}]
    spec: dict[str, Any] = {"tolerations": tolerations, "schedulerName": OURS}
    if rng.random() < 0.3:
        spec["nodeSelector"] = {"pool": "x"}
    if rng.random() < 0.15:
        spec["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    asked = pod("asked", limits, metadata={"namespace": world}, **spec)
    if rng.random() < 0.3:
        hard = {f"limits.{MEMORY}": str(int(rng.integers(4000, 30000)))}
        metadata = {"name": "q", "namespace": world}
        objects.append({"kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}})
    objects += served_before(rng, world, objects, tolerations)
    return [*objects, asked]


def served_before(
    rng: np.random.Generator, world: str, objects: list[Object], tolerations: list[Object]
) -> list[Object]:
    """Return pods that wait, too, since before the pod that is asked about does, and fit nowhere now."""
    more: list[Object] = []
    for number in range(int(rng.integers(0, 3))):
        limits = {GPU: int(rng.integers(1, 3)), MEMORY: int(rng.integers(3000, 17000))}
        metadata = {"namespace": world}
        other = pod(f"first-{number}", limits, metadata=metadata, tolerations=tolerations, schedulerName=OURS)
        made = make_world(ClusterView([*objects, other], {}, settings_from_file(None, {}), read_at=datetime.now(UTC)))
        (waiting,) = (each for each in made.pending.values() if each.key == f"{world}/first-{number}")
        if not ask(made, waiting).node:
            more.append(other)
    return more


def bound_claim(world: str) -> list[Object]:
    """Return the claim that a pod asks for, bound to a volume that any node reaches."""
    volume = {
        "accessModes": ["ReadWriteMany"],
        "capacity": {"storage": "1Gi"},
        "nfs": {"server": "example.com", "path": "/"},
        "storageClassName": "",
        "claimRef": {"namespace": world, "name": "data"},
    }
    claim = {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "1Gi"}},
        "volumeName": f"{world}-data",
        "storageClassName": "",
    }
    return [
        {"kind": "PersistentVolume", "metadata": {"name": f"{world}-data"}, "spec": volume},
        {
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": "data",
                "namespace": world,
                "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
            },
            "spec": claim,
        },
    ]


# ------------------------------------------------------------------------------------------------------------ the test


def explained(objects: Iterable[Mapping[str, Any]]) -> Explanation:
    """Explain the pod of a world, from its objects as they are now."""
    view = ClusterView(list(objects), {}, settings_from_file(None, {}), live=True, read_at=datetime.now(UTC))
    world = make_world(view)
    (asked,) = (each for each in (*world.pending.values(), *world.bound.values()) if each.name == "asked")
    return explain_pod(world, asked)


async def carry_out(cluster: Cluster, world: str, remedy: Remedy, objects: Iterable[Object]) -> None:
    """Do what a remedy says."""
    pods = f"/api/v1/namespaces/{world}/pods"
    by_uid = {each["metadata"]["uid"]: each["metadata"]["name"] for each in objects if each["kind"] == "Pod"}
    for uid in remedy.ended:
        await cluster.call("DELETE", f"{pods}/{by_uid[uid]}", {"gracePeriodSeconds": 0})
    if remedy.pod is not None:
        await cluster.call("DELETE", f"{pods}/asked", {"gracePeriodSeconds": 0})
        await cluster.create({"kind": "Pod", **copy.deepcopy(dict(remedy.pod))})
    for each in remedy.objects:
        changed = dict(copy.deepcopy(dict(each)))
        name, path = changed["metadata"]["name"], PATHS[changed["kind"]].format(world)
        if remedy.type is RemedyType.ADD_NODE:
            await cluster.create(changed)
        else:
            changed["metadata"].pop("resourceVersion", None)
            await cluster.call("PUT", f"{path}/{name}", changed)


def was_bound(asked: Object) -> bool:
    return bool(asked["spec"].get("nodeName"))


def was_told(asked: Object) -> bool:
    """Tell whether a pod is bound, or its condition says why it waits."""
    conditions = asked.get("status", {}).get("conditions") or ()
    return was_bound(asked) or any(each["type"] == "PodScheduled" for each in conditions)


def was_helped(asked: Object, done: str) -> bool:
    """Tell whether a pod is bound, or the operator has seen the claim that was made for it."""
    conditions = asked.get("status", {}).get("conditions") or ()
    claim_seen = not any(NO_CLAIM in each.get("message", "") for each in conditions)
    return was_bound(asked) or done == NOTHING or (done == CLAIM and claim_seen)


async def do_what_is_said(cluster: Cluster, world: str, objects: list[Object], rng: np.random.Generator) -> str:
    """Do one of the things that help a pod by what explain says; return which, its kind first."""
    found = explained(objects)
    assert not found.answer.node, f"{world}: explain says that the pod fits, and it waits"
    if NO_CLAIM in found.answer.decision.message:
        await cluster.create(*bound_claim(world))
        return CLAIM
    if not found.remedies:
        return NOTHING
    remedy = found.remedies[int(rng.integers(len(found.remedies)))]
    await carry_out(cluster, world, remedy, objects)
    return f"{remedy.type}: {remedy.text}"


@pytest.mark.long
@pytest.mark.parametrize(
    ("count", "seed"), [(25, 1), pytest.param(150, 2, marks=pytest.mark.long)], ids=["a few", "all"]
)
async def test_what_explain_says_helps_on_the_running_operator(tmp_path: Path, count: int, seed: int) -> None:
    rng, done = np.random.default_rng(seed), Counter[str]()
    worlds = {f"w{number}": random_world(rng, f"w{number}") for number in range(count)}
    async with running_operator(tmp_path) as cluster:
        for world in worlds:
            await cluster.call("POST", "/api/v1/namespaces", {"metadata": {"name": world}})
        for phase in (False, True):  # the pods that are asked about come when all else is known
            for objects in worlds.values():
                await cluster.create(*(obj for obj in objects if (obj["metadata"]["name"] == "asked") is phase))
            await asyncio.sleep(1.0)

        async def until(holds: Any, what: str) -> None:
            async with asyncio.timeout(240):
                await cluster.serve()
                while wrong := [world for world, asked in (await cluster.asked()).items() if not holds(world, asked)]:
                    print(f"{what}: {len(wrong)} are left, {wrong[:5]}")
                    await asyncio.sleep(0.5)
                    await cluster.serve()

        await until(lambda _, asked: was_told(asked), "told")
        done["bound at once"] = sum(map(was_bound, (await cluster.asked()).values()))
        chosen: dict[str, str] = {}
        for _ in range(2):  # there is something else to be said about a pod once its claim is there
            now = await cluster.objects()
            for world, asked in (await cluster.asked()).items():
                if not was_bound(asked) and chosen.get(world) != NOTHING:
                    chosen[world] = await do_what_is_said(cluster, world, now[world], rng)
                    done[chosen[world].partition(":")[0]] += 1
            try:
                await until(lambda world, asked: was_helped(asked, chosen.get(world, NOTHING)), "helped")
            except TimeoutError:
                waiting = {world: asked for world, asked in (await cluster.asked()).items() if not was_bound(asked)}
                told = {world: (chosen[world], waiting[world]["status"]) for world in chosen.keys() & waiting.keys()}
                pytest.fail(f"what explain says did not help: {told}")
        print(dict(done))
    assert done["bound at once"] > count / 20
    if count > 100:
        assert len(done) >= 9, done
