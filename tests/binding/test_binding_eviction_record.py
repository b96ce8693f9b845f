"""What the status of a policy says of the pods that are evicted under it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.engine.builders import pod_object

from vgpu_devcluster import DevCluster
from vgpu_scheduler.apiclient import ApiClient, connect
from vgpu_scheduler.binding.context import BindContext
from vgpu_scheduler.binding.eviction_record import EvictionRecord, RecordOutcome
from vgpu_scheduler.binding.leased_writes import LeasedWriter
from vgpu_scheduler.binding.policy_status import policy_path
from vgpu_scheduler.kube import decode_pod
from vgpu_scheduler.policy import CLUSTER_KIND, NAMESPACED_KIND, PolicyKey, PreemptionRules, crds

KEYS: dict[str, PolicyKey] = {
    "the cluster's": (CLUSTER_KIND, "", "house"),
    "its own": (NAMESPACED_KIND, "default", "mine"),
    "another's": (NAMESPACED_KIND, "team-a", "theirs"),
}


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[ApiClient]:
    with DevCluster.thread() as cluster:
        api = await connect(str(cluster.kubeconfig(tmp_path / "kubeconfig")), None, "record")
        for definition in crds():
            await api.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        await api.request("POST", "/api/v1/namespaces", {"metadata": {"name": "team-a"}})
        for kind, namespace, name in KEYS.values():
            path = policy_path(kind, namespace, name).rpartition("/")[0]
            metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
            body = {"kind": kind, "metadata": metadata, "spec": {"preemption": {"perHour": 5}}}
            made = await api.request("POST", path, body)
            assert made.ok, made.message
        yield api
        await api.close()


async def test_a_policy_of_a_namespace_does_not_name_the_pods_of_others(api: ApiClient) -> None:
    clock = SimpleNamespace(now=lambda: datetime(2026, 1, 1, tzinfo=UTC), monotonic=lambda: 0.0)
    context = cast(BindContext, SimpleNamespace(api=api, clock=clock, writer=LeasedWriter(api, lambda _: True)))
    victim = decode_pod(pod_object("secret", node="n"))
    rules = PreemptionRules(may_preempt=True, eviction_limits=tuple((key, 5) for key in KEYS.values()))
    assert await EvictionRecord(context, 5.0).write(rules, victim, set()) is RecordOutcome.RECORDED
    named: dict[str, Any] = {}
    for whose, key in KEYS.items():
        (entry,) = (await api.request("GET", policy_path(*key))).json()["status"]["evictions"]
        assert entry["uid"] == victim.uid
        named[whose] = entry["pod"]
    assert named == {"the cluster's": victim.key, "its own": victim.key, "another's": victim.uid}
