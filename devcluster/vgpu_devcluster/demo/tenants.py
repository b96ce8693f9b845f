"""The content of the kept demo cluster: tenants with running pods, and pods that wait for different reasons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vgpu_devcluster.demo.cluster import POOL, SYSTEM, DemoCluster
from vgpu_devcluster.demo.pods import pod_of

Manifest = dict[str, Any]

RESEARCH, SERVING = "research", "serving"
WAITING = ("research/needs-memory", "research/wrong-model", "serving/too-many-cards")
"""The waiting pods: for memory, for a model that no node has, and because of a policy's limit."""
_POLICY = "serving-limits"
_RESERVED: Mapping[str, Any] = {"nodeSelector": POOL, "tolerations": [{"key": "pool", "operator": "Exists"}]}
_WITHIN = 60.0


async def create_tenants(cluster: DemoCluster) -> None:
    """Fill the cluster of the demo.

    Raises
    ------
    TimeoutError
        If pods that fit are not running in time, or the waiting pods have no condition in time.
    """
    await cluster.clear()
    for namespace in (RESEARCH, SERVING):
        await cluster.create_namespace(namespace)
    await cluster.create_settings(SYSTEM)
    selector = {"matchLabels": {"kubernetes.io/metadata.name": SERVING}}
    limits = {"devicesPerPod": 1}
    await cluster.set_policy(_POLICY, {"namespaceSelector": selector, "limits": limits, "nodes": {"policy": "spread"}})
    running = [*_research(), *_serving()]
    await cluster.create(running)
    await cluster.until_async(lambda: _run(cluster, len(running)), "the tenants' pods to run", _WITHIN)
    await cluster.create(_waiting())
    await cluster.until_async(lambda: _say_why(cluster), "the waiting pods to say why", _WITHIN)


def _research() -> list[Manifest]:
    whole = {"gpu": 4, "gpumem-percentage": 100, "gpucores": 100}
    training = [pod_of(f"training-{n}", whole, namespace=RESEARCH) for n in range(2)]
    notebooks = [pod_of(f"notebook-{n}", {"gpu": 1, "gpumem": 10240}, namespace=RESEARCH) for n in range(12)]
    tenant = {"gpu": 2, "gpumem": 49152, "gpucores": 50}
    return [*training, *notebooks, pod_of("tenant", tenant, spec=_RESERVED, namespace=RESEARCH)]


def _serving() -> list[Manifest]:
    slices = {"gpu": 1, "gpumem": 6144, "gpucores": 15}
    return [pod_of(f"model-{n}", slices, namespace=SERVING) for n in range(40)]


def _waiting() -> list[Manifest]:
    model = {"nvidia.com/use-gputype": "H200"}
    return [
        pod_of("needs-memory", {"gpu": 1, "gpumem": 40960}, spec=_RESERVED, namespace=RESEARCH),
        pod_of("wrong-model", {"gpu": 1, "gpumem": 8192}, annotations=model, namespace=RESEARCH),
        pod_of("too-many-cards", {"gpu": 2, "gpumem": 4096}, namespace=SERVING),
    ]


async def _run(cluster: DemoCluster, number: int) -> bool:
    return await cluster.running() >= number


async def _say_why(cluster: DemoCluster) -> bool:
    return sorted(pod.name for pod in (await cluster.look()).waiting if pod.why) == sorted(WAITING)
