"""Admission on a real API server: the guard of allocations, the webhook, and the policy that needs none."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.apiserver.certificates import Authority
from tests.e2e.conftest import MANIFESTS, OLDER, OTHER_PLUGIN, TENANT, Cluster, kustomized

from vgpu_devcluster.process import OperatorProcess
from vgpu_scheduler.dialects.hami import vendors

Obj = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
GPU, MEM, CORES = "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores"


def pod(limits: Obj | None = None, annotations: Obj | None = None, **spec: Any) -> Obj:
    container = {"name": "main", "image": "example", "resources": {"limits": limits or {}}}
    metadata = {"generateName": "p-", **({"annotations": annotations} if annotations else {})}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


async def created(cluster: Cluster, body: Obj, user: str = TENANT) -> tuple[int, Obj]:
    """Try to create a pod, without storing it; return the status and the answer."""
    headers = {"Authorization": f"Bearer {cluster.plane.tokens[user]}"}
    async with cluster.http.post(PODS, json=body, params={"dryRun": "All"}, headers=headers) as answer:
        return answer.status, dict(await answer.json())


async def stored(cluster: Cluster, body: Obj) -> Obj:
    status, answer = await created(cluster, body)
    assert status == 201, answer
    return answer


def limits_of(found: Obj) -> Obj:
    return dict(found["spec"]["containers"][0]["resources"].get("limits", {}))


# The guard ---------------------------------------------------------------------------------------------------------

USERS = {
    "huawei.com/vnpu-mode": "hami-core",
    "hami.io/gpu-scheduler-policy": "spread",
    "hami.io/use-Ascend310P-uuid": "a",
    "mthreads.com/request-gpu-num": "2",
    "metax-tech.com/sgpu-qos-policy": "best-effort",
    "nvidia.com/use-gputype": "A100",
}
"""What users may write."""
FORGED = sorted({vendor.record.written[-1] for vendor in vendors()} | {"hami.io/xpu-devices-allocated"})
"""A key of each vendor."""
CONFIGURED = ["hami.io/Ascend999-devices-allocated", "hami.io/A-1-devices-to-allocate", "huawei.com/Ascend999"]
"""Keys of chips that only a configuration knows."""


async def test_no_makers_allocation_can_be_forged(cluster: Cluster) -> None:
    async def refused() -> bool:
        return (await created(cluster, pod(annotations={FORGED[0]: "x"})))[0] == 403

    await cluster.until(refused, "the guard to be in force")
    for key in (*FORGED, *CONFIGURED):
        status, answer = await created(cluster, pod(annotations={**USERS, key: "x"}))
        assert status == 403, key
        assert f"annotations that allocate devices ({key}) may only be written by" in answer["message"]
    status, answer = await created(cluster, pod({"hygon.com/dcunum": "1"}, nodeName="n"))
    assert status == 403
    assert "must not set spec.nodeName" in answer["message"]


async def test_a_device_plugin_may_write_allocations_once_it_has_the_role(cluster: Cluster) -> None:
    body = pod(annotations={FORGED[0]: "x"})
    assert (await created(cluster, body, OTHER_PLUGIN))[0] == 403
    role = "--clusterrole=vgpu-scheduler-allocation-writer"
    binding = ("clusterrolebinding", "dcu-plugin")
    cluster.plane.kubectl("create", *binding, role, "--serviceaccount=gpu-system:device-plugin")
    try:

        async def allowed() -> bool:
            return (await created(cluster, body, OTHER_PLUGIN))[0] == 201

        await cluster.until(allowed, "the role to be in force")
    finally:
        cluster.plane.kubectl("delete", *binding)


async def test_the_guard_lets_users_write_theirs_however_large_the_pod_is(cluster: Cluster) -> None:
    body = pod({GPU: "1"}, {**USERS, **{f"example.com/{number}": "x" for number in range(300)}})
    body["spec"]["containers"] += [
        {"name": f"c-{number}", "image": "example", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
        for number in range(50)
    ]
    found = await stored(cluster, body)
    assert found["metadata"]["annotations"].items() >= USERS.items()


# The webhook -------------------------------------------------------------------------------------------------------


class Webhook:
    """The shipped configuration of the webhook, with an address of this machine."""

    def __init__(self, cluster: Cluster, authority: Authority, port: int) -> None:
        self._cluster = cluster
        text = (MANIFESTS / "admission-webhook" / "webhook.yaml").read_text()
        self._body = yaml.safe_load(text)
        self._port = port
        self.trust(authority)

    def trust(self, authority: Authority) -> None:
        """Tell the API server whose certificates are right."""
        config = {"url": f"https://127.0.0.1:{self._port}/webhook", "caBundle": authority.bundle}
        self._body["webhooks"][0]["clientConfig"] = config
        self._cluster.plane.kubectl("apply", "--validate=strict", "-f", "-", stdin=yaml.safe_dump(self._body))


@pytest.fixture
async def served(cluster: Cluster, tmp_path: Path) -> AsyncIterator[tuple[OperatorProcess, Webhook]]:
    """An operator that serves the webhook, and the configuration."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    files = tmp_path / "tls.crt", tmp_path / "tls.key"
    authority = Authority(tmp_path)
    authority.sign(*files)
    operator = cluster.operator(
        VGPU_PROFILE="HAMi210",
        VGPU_ADMISSION__ENABLED="true",
        VGPU_ADMISSION__PORT=str(port),
        VGPU_ADMISSION__CERT_FILE=str(files[0]),
        VGPU_ADMISSION__KEY_FILE=str(files[1]),
        VGPU_ADMISSION__RELOAD_INTERVAL="0.2",
    )
    operator.start()
    try:
        yield operator, Webhook(cluster, authority, port)
    finally:
        operator.stop()
        cluster.plane.kubectl("delete", "mutatingwebhookconfiguration", "vgpu-scheduler", check=False)


async def completes(cluster: Cluster) -> bool:
    return limits_of(await stored(cluster, pod({MEM: "1000"}))).get(GPU) == "1"


async def leaves_alone(cluster: Cluster) -> bool:
    return not await completes(cluster)


async def test_the_webhook(cluster: Cluster, served: tuple[OperatorProcess, Webhook], tmp_path: Path) -> None:
    operator, webhook = served
    await cluster.until(lambda: completes(cluster), "the webhook to be asked")

    whole = await stored(cluster, pod({GPU: "1"}))
    assert whole["spec"]["schedulerName"] == "vgpu-scheduler"
    assert limits_of(whole) == {GPU: "1", CORES: "100"}
    assert whole["spec"]["containers"][0]["resources"]["requests"] == {GPU: "1", CORES: "100"}
    plain = await stored(cluster, pod({"cpu": "1"}))
    assert plain["spec"]["schedulerName"] == "default-scheduler"
    ignored = pod({MEM: "1000"})
    ignored["metadata"]["labels"] = {"hami.io/webhook": "ignore"}
    assert GPU not in limits_of(await stored(cluster, ignored))

    odd = yaml.safe_dump(
        {"apiVersion": "v1", "kind": "Pod"}
        | pod({GPU: "1", "nvidia.com/gpumem-percentage": "0"}, {"nvidia.com/numa-bind": "yes"})
    )
    said = cluster.plane.kubectl("create", "-n", "default", "--dry-run=server", "-f", "-", stdin=odd).stderr
    assert "Warning: annotation nvidia.com/numa-bind: 'yes' is not a boolean, and counts as false" in said
    assert "Warning: container main: nvidia.com/gpumem-percentage: 0 is not an amount" in said

    privileged = pod({GPU: "1"})
    privileged["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    status, answer = await created(cluster, privileged)
    assert (status, answer["message"].partition("denied the request: ")[2]) == (403, "container main is privileged")

    hard = {"hard": {f"limits.{MEM}": "500"}}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"}, "spec": hard}
    cluster.plane.kubectl("apply", "-n", "default", "-f", "-", stdin=yaml.safe_dump(quota))

    async def over_quota() -> bool:
        status, answer = await created(cluster, pod({GPU: "1", MEM: "1000"}))
        return status == 403 and "exceeding resource quota" in answer["message"]

    await cluster.until(over_quota, "the quota to be known")
    cluster.plane.kubectl("delete", "resourcequota", "team", "-n", "default")
    await cluster.until(lambda: completes(cluster), "the quota to be gone")

    # Only certificates of a new authority are trusted; pods are let in as they are until the webhook has one.
    other = Authority(tmp_path, "other")
    webhook.trust(other)
    await cluster.until(lambda: leaves_alone(cluster), "the old certificate to be of no use")
    other.sign(tmp_path / "tls.crt", tmp_path / "tls.key")
    await cluster.until(lambda: completes(cluster), "the new certificate to be served")
    assert await operator.metric("vgpu_scheduler_admission_reviews_total", result="denied") >= 2
    assert await operator.metric("vgpu_scheduler_admission_reviews_total", result="failed") == 0

    # Nobody answers: pods are created all the same.
    operator.kill()
    assert GPU not in limits_of(await stored(cluster, pod({MEM: "1000"})))


@pytest.mark.long
@pytest.mark.alone
async def test_a_standby_answers_as_well(
    cluster: Cluster, operator: OperatorProcess, served: tuple[OperatorProcess, Webhook]
) -> None:
    await cluster.until(lambda: completes(cluster), "the standby to be asked")
    assert await operator.metric("vgpu_scheduler_leader") == 1
    assert await served[0].metric("vgpu_scheduler_leader") == 0


# The policy --------------------------------------------------------------------------------------------------------


@pytest.fixture
def policy(cluster: Cluster) -> Iterator[None]:
    folder = str(MANIFESTS / "admission-policy")
    cluster.plane.kubectl("apply", "--validate=strict", "-k", folder)
    try:
        yield
    finally:
        cluster.plane.kubectl("delete", "--ignore-not-found", "-k", folder)


@pytest.mark.usefixtures("policy")
@pytest.mark.skipif(OLDER, reason="MutatingAdmissionPolicy is served as v1 since Kubernetes 1.36")
async def test_the_policy(cluster: Cluster) -> None:
    await cluster.until(lambda: completes(cluster), "the policy to be in force")
    two = pod({MEM: "1000"}, initContainers=[{"name": "init", "image": "example"}])
    two["spec"]["containers"].append({"name": "side", "image": "example", "resources": {"limits": {"cpu": "1"}}})
    two["spec"]["initContainers"][0]["resources"] = {"limits": {CORES: "10", "cpu": "1"}}
    found = await stored(cluster, two)
    assert found["spec"]["schedulerName"] == "vgpu-scheduler"
    [init], [main, side] = found["spec"]["initContainers"], found["spec"]["containers"]
    assert main["resources"] == {"limits": {GPU: "1", MEM: "1k"}, "requests": {GPU: "1", MEM: "1k"}}
    assert init["resources"]["limits"] == {GPU: "1", CORES: "10", "cpu": "1"}
    assert side["resources"] == {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}
    assert limits_of(await stored(cluster, pod({GPU: "2", MEM: "1000"}))) == {GPU: "2", MEM: "1k"}
    for maker in ("huawei.com/Ascend310P", "amd.com/gpu", "kunlunxin.com/vxpu"):
        found = await stored(cluster, pod({maker: "1"}))
        assert (found["spec"]["schedulerName"], limits_of(found)) == ("vgpu-scheduler", {maker: "1"})
    for others in (pod({"cpu": "1"}), pod({MEM: "1000"}, schedulerName="volcano")):
        found = await stored(cluster, others)
        assert found["spec"]["schedulerName"] == others["spec"].get("schedulerName", "default-scheduler")
        assert GPU not in limits_of(found)


# The manifests -----------------------------------------------------------------------------------------------------


def test_the_components_add_up(cluster: Cluster) -> None:
    """The webhook and HAMi's configuration are added to the base as the documents say."""
    text = kustomized(cluster.plane, "admission-webhook", "admission-webhook/cert-manager", "hami-config")
    found = {(item["kind"], item["metadata"]["name"]): item for item in yaml.safe_load_all(text)}
    container = found["Deployment", "vgpu-scheduler"]["spec"]["template"]["spec"]["containers"][0]
    assert {port["name"] for port in container["ports"]} == {"http", "admission"}
    variables = {variable["name"]: variable["value"] for variable in container["env"]}
    assert {"NUMBA_CACHE_DIR", "VGPU_ADMISSION__ENABLED", "VGPU_PROFILE"} <= variables.keys()
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert str(Path(variables["VGPU_HAMI_DEVICE_CONFIG"]).parent) in mounts
    assert str(Path(variables["VGPU_ADMISSION__CERT_FILE"]).parent) in mounts
    webhook = found["MutatingWebhookConfiguration", "vgpu-scheduler"]
    certificate = found["Certificate", "vgpu-scheduler-admission"]
    assert (
        webhook["metadata"]["annotations"]["cert-manager.io/inject-ca-from"] == "vgpu-system/vgpu-scheduler-admission"
    )
    service = webhook["webhooks"][0]["clientConfig"]["service"]
    assert certificate["spec"]["dnsNames"] == [f"{service['name']}.{service['namespace']}.svc"]
    port = found["Service", service["name"]]["spec"]["ports"][0]
    assert (port["port"], port["targetPort"]) == (443, "admission")  # 443 is the API server's default
