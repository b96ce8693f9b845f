"""Somebody with rights in one namespace is told why a pod waits and what would help; who does it sees the pod bound."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.live_cluster import run
from tests.e2e.conftest import OLDER, TENANT, Cluster, slice_pod
from tests.e2e.test_doctor import made
from tests.e2e.test_quotas import apply_quota
from tests.e2e.volumes import CLAIMS, VOLUMES, claim, local_volume, mounting

from vgpu_devcluster.process import OperatorProcess

pytestmark = pytest.mark.skipif(OLDER, reason="what tenants read does not depend on the API server")

Object = dict[str, Any]

PODS = "/api/v1/namespaces/default/pods"
ROLE_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
VIEWS = {
    "metadata": {"name": "views"},
    "subjects": [{"kind": "User", "name": TENANT, "apiGroup": "rbac.authorization.k8s.io"}],
    "roleRef": {"kind": "ClusterRole", "name": "system:aggregate-to-view", "apiGroup": "rbac.authorization.k8s.io"},
}
HELD = {"one": ((9000, 30), (5000, 60)), "two": ((12000, 80), (3000, 10)), "kept": ((1000, 0),)}
"""What is held of the cards of each node: MiB and percent."""
ASK = re.compile(
    r"(?:^|and )ask (?P<amount>\d+)(?P<unit>m|Mi)? of (?P<resource>\S+) (?:(?!and ask ).)*?"
    r"in container (?P<container>[^\s,]+)"
)
ANNOTATION = re.compile(r"leave out its annotation (\S+) ")
FIELD = re.compile(r"leave out its .* \(spec\.([\w.]+)\)")
CLAIM = re.compile(r"create the PersistentVolumeClaim (\S+), or")
MOST_ROUNDS = 6


def with_spec(pod: Object, **spec: Any) -> Object:
    return {**pod, "spec": {**pod["spec"], **spec}}


def of_nvidia(pod: Object, name: str, value: str) -> Object:
    return {**pod, "metadata": {**pod["metadata"], "annotations": {f"nvidia.com/{name}": value}}}


def two_containers(pod: Object) -> Object:
    (first,) = pod["spec"]["containers"]
    return with_spec(pod, containers=[first, {**first, "name": "side"}])


def on_node(name: str) -> Object:
    term = {"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [term]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def waiting(rng: np.random.Generator, kind: str, name: str) -> Object:
    """Return a pod that fits nowhere in the cluster of this module, for a reason of some kind."""

    def some(low: int, high: int) -> int:
        return int(rng.integers(low, high))

    pod = slice_pod(name, gpu=1, gpumem=some(100, 900))
    match kind:
        case "memory":
            return slice_pod(name, gpu=1, gpumem=some(12500, 40000))
        case "cores":
            return slice_pod(name, gpu=1, gpumem=some(100, 900), gpucores=some(91, 101))
        case "memory and cores":
            return slice_pod(name, gpu=1, gpumem=some(12500, 15000), gpucores=some(91, 101))
        case "whole card":
            return slice_pod(name, gpu=1)
        case "percent":
            return slice_pod(name, **{"gpu": 1, "gpumem-percentage": some(83, 101)})
        case "number":
            return slice_pod(name, gpu=some(3, 9), gpumem=some(100, 900))
        case "number and memory":
            return slice_pod(name, gpu=2, gpumem=some(10500, 15000))
        case "two containers":
            return two_containers(slice_pod(name, gpu=1, gpumem=some(12500, 15000)))
        case "quota":
            return slice_pod(name, gpu=some(1, 3), gpumem=some(2100, 3000))
        case "quota, whole card":
            return slice_pod(name, gpu=1)
        case "model":
            return of_nvidia(pod, "use-gputype", str(rng.choice(["H100", "L40S", "V100"])))
        case "card":
            return of_nvidia(pod, "use-gpuuuid", f"GPU-{some(0, 99)}")
        case "selector":
            return with_spec(pod, nodeSelector={"pool": f"p{some(0, 99)}"})
        case "affinity":
            return with_spec(pod, affinity=on_node(f"n{some(0, 99)}"))
        case "taint":
            return with_spec(pod, nodeSelector={"kubernetes.io/hostname": "kept"})
        case _:
            return mounting(pod, f"data-{name}")


KINDS = {
    "memory": 6,
    "cores": 4,
    "memory and cores": 5,
    "whole card": 1,
    "percent": 4,
    "number": 5,
    "number and memory": 5,
    "two containers": 4,
    "model": 4,
    "card": 3,
    "selector": 4,
    "affinity": 3,
    "taint": 3,
    "claim": 4,
    "quota": 5,
    "quota, whole card": 1,
}
QUOTA = 32000
"""The cluster's holders have all of it but 2,000 MiB."""


@dataclass
class Told:
    """What came of the questions about one pod."""

    name: str
    kind: str
    remedies: list[list[str]] = field(default_factory=list)
    near_miss: bool = False
    quota: bool = False
    bound: str = ""


async def do(cluster: Cluster, pod: Object, remedy: str) -> Object:
    """Do what a remedy says, and return the pod as it is to be created again."""
    if ASK.match(remedy):
        for found in ASK.finditer(remedy):  # what is joined has to be done together
            for container in pod["spec"]["containers"]:
                if container["name"] == found["container"]:
                    container["resources"]["limits"][found["resource"]] = found["amount"] + (found["unit"] or "")
    elif found := ANNOTATION.match(remedy):
        del pod["metadata"]["annotations"][found[1]]
    elif found := FIELD.match(remedy):
        outer, _, inner = found[1].partition(".")
        if inner:
            del pod["spec"][outer][inner]
        else:
            del pod["spec"][outer]
    elif found := CLAIM.match(remedy):
        name = found[1]
        volume, wanted = local_volume(name, "none", "one"), claim(name, "none")
        volume["spec"]["claimRef"] = {"namespace": "default", "name": name}
        wanted["spec"]["volumeName"] = name
        wanted["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        for path, obj in ((VOLUMES, volume), (CLAIMS, wanted)):
            async with cluster.http.post(path, json=obj) as answer:
                assert answer.status == 201, await answer.text()
    else:
        raise AssertionError(remedy)
    return pod


def actionable(remedies: list[str]) -> Iterator[str]:
    """Yield what the one who asks can do."""
    for remedy in remedies:
        if any(pattern.match(remedy) for pattern in (ASK, ANNOTATION, FIELD, CLAIM)):
            yield remedy


class Story:
    """Asks about pods, one at a time, as the tenant, and does what is said."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.config = folder / "kubeconfig-of-tenant"
        shutil.copy(cluster.plane.kubeconfig(TENANT), self.config)
        self.made: list[str] = []
        """Claims that it has made; the operator may hear of a pod before it hears of them."""

    async def gone(self, name: str) -> None:
        async with self.cluster.http.delete(f"{PODS}/{name}", json={"gracePeriodSeconds": 0}) as answer:
            assert answer.status == 200, await answer.text()

    async def explain(self, name: str, output: str = "json") -> tuple[int, str]:
        words = ("explain", name, "-n", "default", "-o", output, "--kubeconfig", str(self.config))
        result = await asyncio.to_thread(run, *words)
        return result.exit_code, result.stdout

    async def told(self, kind: str, pod: Object) -> Told:
        name = pod["metadata"]["name"]
        found = Told(name, kind)
        for _ in range(MOST_ROUNDS):
            await self.cluster.create(pod)

            async def settled(name: str = name) -> bool:
                if await self.cluster.bound(name):
                    return True
                events = [reason for reason, _ in await self.cluster.events(name)]
                message = await self.cluster.message(name)
                heard = not any(f'"{claimed}" not found' in message for claimed in self.made)
                return heard and "FailedScheduling" in events

            await self.cluster.until(settled, f"{name} to be told about")
            found.bound = await self.cluster.bound(name)
            if found.bound:
                break
            status, out = await self.explain(name)
            answer = json.loads(out)
            assert (status, answer["condition"]["message"]) == (1, await self.cluster.message(name))
            found.remedies.append(answer["remedies"])
            found.near_miss |= bool(answer["near_miss"])
            found.quota |= bool(answer["quotas"])
            remedy = next(actionable(answer["remedies"]), None)
            await self.gone(name)
            if remedy is None:
                return found
            name = f"{found.name}-{len(found.remedies)}"  # events outlive their pods
            if claimed := CLAIM.match(remedy):
                self.made.append(claimed[1])
            pod = await do(self.cluster, pod, remedy)
            pod["metadata"]["name"] = name
        await self.gone(name)
        return found


async def hold(cluster: Cluster) -> None:
    """Have pods on cards, so that each node has some room and none has a whole card."""
    for node, cards in HELD.items():
        for number, (memory, cores) in enumerate(cards):
            asks = {"gpumem": memory, "gpucores": cores} if cores else {"gpumem": memory}
            held = slice_pod(f"held-{node}-{number}", gpu=1, **asks)
            uuid = cluster.nodes.cards(node)[number].uuid
            spec: dict[str, Any] = {"nodeSelector": {"kubernetes.io/hostname": node}}
            if node == "kept":
                spec["tolerations"] = [{"key": "kept", "operator": "Exists"}]
            await cluster.create(with_spec(of_nvidia(held, "use-gpuuuid", uuid), **spec))
            await cluster.until(lambda name=f"held-{node}-{number}": cluster.bound(name), "a card to be held")


async def test_who_does_what_a_tenant_is_told_sees_the_pod_bound(
    cluster: Cluster, operator: OperatorProcess, tmp_path: Path
) -> None:
    del operator
    rng = np.random.default_rng(10)
    await cluster.nodes.register(["one", "two"], ("T4", "T4"))
    await cluster.nodes.register(["kept"], ("T4",), taints=[{"key": "kept", "value": "y", "effect": "NoSchedule"}])
    await cluster.nodes.start()
    await hold(cluster)
    story, told = Story(cluster, tmp_path), []
    async with made(cluster, ROLE_BINDINGS, VIEWS):
        try:
            for kind, count in KINDS.items():
                if kind == "quota":
                    apply_quota(cluster, "team", QUOTA)
                    await asyncio.sleep(1)  # the operator sees it before the pods
                for number in range(count):
                    pod = waiting(rng, kind, f"{re.sub('[^a-z]+', '-', kind)}-{number}")
                    told.append(await story.told(kind, pod))
        finally:
            cluster.plane.kubectl("delete", "resourcequota", "--all", "-n", "default", check=False)
            cluster.plane.kubectl("delete", "pvc,pv", "--all", "-n", "default", "--wait=false", check=False)
    assert len(told) >= 60
    assert not [each for each in told if not each.remedies], "they were to fit nowhere"
    assert not [each for each in told if not each.bound]
    wanting: dict[str, Callable[[Told], bool]] = {
        **dict.fromkeys(("memory", "cores", "memory and cores", "percent", "two containers"), lambda it: it.near_miss),
        "quota": lambda it: it.quota,
    }
    assert not [each for each in told if each.kind in wanting and not wanting[each.kind](each)]


@pytest.mark.parametrize("words", [("explain", "waits"), ("simulate", "-f"), ("top",), ("top", "pods", "-n", "other")])
async def test_nothing_ends_in_forbidden_alone(cluster: Cluster, tmp_path: Path, words: tuple[str, ...]) -> None:
    """Without an operator, a condition or a node, too."""
    await cluster.create(slice_pod("waits"))
    story = Story(cluster, tmp_path)
    if words[-1] == "-f":
        (tmp_path / "pod.yaml").write_text(json.dumps({"kind": "Pod", **slice_pod("new")}))
        words = (*words, str(tmp_path / "pod.yaml"))
    async with made(cluster, ROLE_BINDINGS, VIEWS):
        result = await asyncio.to_thread(run, *words, "--kubeconfig", str(story.config))
    assert result.exit_code in {1, 2}
    assert "you may not list nodes" in result.output or "you may not list pods" in result.output
    assert "forbidden" not in result.output
