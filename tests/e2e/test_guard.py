"""The guard of allocations cannot be got around: not by any verb, kind of patch or subresource."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterator
from posixpath import normpath
from typing import Any

import pytest
import yaml
from tests.e2e.conftest import MANIFESTS, TENANT, Cluster, kustomized

Obj = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
GUARD = "vgpu-scheduler-allocations"
GUARDED, OURS = "hami.io/vgpu-devices-allocated", "example.com/note"
BEFORE = {GUARDED: "GPU-1,NVIDIA,1024,10:;", OURS: "a"}
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
JSON_PATCH, APPLY = "application/json-patch+json", "application/apply-patch+yaml"
RULES = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: every-way-to-a-pod}
rules:
  - apiGroups: [""]
    resources: [pods, pods/status, pods/binding, pods/ephemeralcontainers, pods/resize, bindings]
    verbs: ["*"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: every-way-to-a-pod}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: every-way-to-a-pod}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tenant}]
"""


def a_pod(name: str, annotations: dict[str, str]) -> Obj:
    container = {"name": "main", "image": "example", "resources": {"requests": {"cpu": "1"}}}
    metadata = {"name": name, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


def the_guard(manifests: str) -> Obj:
    found: Obj = next(one for one in yaml.safe_load_all(manifests) if one["metadata"]["name"] == GUARD)
    return found


def put_back_the_guard(cluster: Cluster) -> None:
    """Apply the guard as it is shipped; the other policies may be those of an overlay, and stay."""
    shipped = the_guard((MANIFESTS / "admission.yaml").read_text())
    cluster.plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(shipped))


async def as_tenant(
    cluster: Cluster, method: str, path: str, body: object, kind: str = "application/json"
) -> tuple[int, str]:
    """Send something as a tenant; return the answer's code and text."""
    headers = {"Authorization": f"Bearer {cluster.plane.tokens[TENANT]}", "Content-Type": kind}
    params = {"fieldManager": "tenant", "force": "true"} if kind == APPLY else {}
    async with cluster.http.request(method, path, data=json.dumps(body), params=params, headers=headers) as answer:
        return answer.status, await answer.text()


@pytest.fixture
async def bold(cluster: Cluster) -> Cluster:
    """A cluster where a tenant may do everything to pods but write allocations, and a pod that has one."""
    cluster.plane.kubectl("apply", "-f", "-", stdin=RULES)
    await cluster.create(a_pod("p", BEFORE))

    async def in_force() -> bool:
        note = {"metadata": {"annotations": {OURS: str(asyncio.get_running_loop().time())}}}
        allowed, _ = await as_tenant(cluster, "PATCH", f"{PODS}/p/status", note, MERGE)
        refused, _ = await as_tenant(cluster, "POST", PODS, a_pod("q", BEFORE))
        return (allowed, refused) == (200, 403)

    await cluster.until(in_force, "the role and the guard to be in force")
    note = {"metadata": {"annotations": {OURS: "a"}}}
    assert (await as_tenant(cluster, "PATCH", f"{PODS}/p", note, MERGE))[0] == 200, "users write their own"
    return cluster


@pytest.fixture(autouse=True)
def _rights(cluster: Cluster) -> Iterator[None]:
    yield
    cluster.plane.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=RULES)


def ways() -> Iterator[tuple[str, str, Obj | list[Obj], str]]:
    """Yield method, what of the pod is written, body and content type of every way to change a guarded annotation."""
    pointer = f"/metadata/annotations/{GUARDED.replace('/', '~1')}"
    for path in ("", "/status"):
        for value in ("GPU-2,NVIDIA,1024,10:;", None):
            change = {"metadata": {"annotations": {GUARDED: value}}}
            yield "PATCH", path, change, MERGE
            yield "PATCH", path, change, STRATEGIC
            operation = {"op": "remove", "path": pointer} if value is None else {"op": "replace", "path": pointer}
            yield "PATCH", path, [operation if value is None else {**operation, "value": value}], JSON_PATCH
        yield "PATCH", path, {"metadata": {"annotations": None}}, MERGE
        yield "PATCH", path, {"metadata": {"annotations": {"hami.io/bind-phase": "success"}}}, MERGE
        applied = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": {GUARDED: "GPU-3:;"}}}
        yield "PATCH", path, applied, APPLY
    yield "PATCH", "/../applied", {**a_pod("applied", {GUARDED: "GPU-3:;"})}, APPLY
    binding = {"apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": "n"}}
    for forged in ({GUARDED: "GPU-2:;"}, {"vgpu-scheduler.io/last-allocated": "x"}):
        body = {**binding, "metadata": {"name": "p", "annotations": forged}}
        for path in ("/binding", "/../../bindings"):
            yield "POST", path, body, "application/json"


async def test_no_way_of_writing_gets_past_the_guard(bold: Cluster) -> None:
    for method, path, body, kind in ways():
        code, text = await as_tenant(bold, method, normpath(f"{PODS}/p{path}"), body, kind)
        assert (code, "may only be written by" in text) == (403, True), (method, path, body, text)
    for path in ("", "/status"):
        for changed in ({OURS: "a"}, {**BEFORE, GUARDED: "GPU-2:;"}, {}):
            found = await bold.pod("p")
            found["metadata"]["annotations"] = changed
            code, text = await as_tenant(bold, "PUT", f"{PODS}/p{path}", found)
            assert (code, "may only be written by" in text) == (403, True), (path, changed, text)
    assert (await bold.pod("p"))["metadata"]["annotations"] == BEFORE


async def test_subresources_that_the_guard_does_not_see_write_no_annotation(bold: Cluster) -> None:
    resources = {"requests": {"cpu": "2"}}
    debug = {"ephemeralContainers": [{"name": "debug", "image": "example"}]}
    forged = {"metadata": {"annotations": {GUARDED: "GPU-2:;", "hami.io/bind-phase": "success", OURS: "b"}}}
    for subresource, spec in (
        ("ephemeralcontainers", debug),
        ("resize", {"containers": [{"name": "main", "resources": resources}]}),
    ):
        body = {**forged, "spec": spec}
        code, text = await as_tenant(bold, "PATCH", f"{PODS}/p/{subresource}", body, STRATEGIC)
        assert code == 200, text
    found = await bold.pod("p")
    assert found["metadata"]["annotations"] == BEFORE
    assert found["spec"]["ephemeralContainers"], "the rest of the patch was carried out"


@pytest.mark.parametrize("bindings", [f"{PODS}/p/binding", "/api/v1/namespaces/default/bindings"])
async def test_what_changes_no_annotation_is_not_judged(bold: Cluster, bindings: str) -> None:
    condition = {"status": {"conditions": [{"type": "example.com/ready", "status": "True"}]}}
    code, text = await as_tenant(bold, "PATCH", f"{PODS}/p/status", condition, STRATEGIC)
    assert code == 200, text
    same = {"metadata": {"annotations": {GUARDED: BEFORE[GUARDED]}, "labels": {"a": "b"}}}
    code, text = await as_tenant(bold, "PATCH", f"{PODS}/p", same, MERGE)
    assert code == 200, text
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    code, text = await as_tenant(bold, "POST", bindings, binding)
    assert code == 201, text


async def test_the_components_of_other_dialects_guard_their_annotations_and_resources(bold: Cluster) -> None:
    guard = the_guard(kustomized(bold.plane, "volcano", "koordinator"))
    keys = ("volcano.sh/vgpu-ids-new", "volcano.sh/bind-phase", "scheduling.koordinator.sh/device-allocated")

    placed = [a_pod("q", {}) for _ in range(2)]
    for pod, asked in zip(placed, ("volcano.sh/vgpu-number", "koordinator.sh/gpu"), strict=True):
        pod["spec"]["nodeName"] = "n"
        pod["spec"]["containers"][0]["resources"] = {"limits": {asked: "1"}}
    asking = [*(a_pod("q", {key: "x"}) for key in keys), *placed]

    async def answers() -> list[int]:
        return [(await as_tenant(bold, "POST", f"{PODS}?dryRun=All", pod))[0] for pod in asking]

    async def refused() -> bool:
        return await answers() == [403] * len(asking)

    assert await answers() == [201] * len(asking)
    bold.plane.kubectl("apply", "--validate=strict", "-f", "-", stdin=yaml.safe_dump(guard))
    try:
        await bold.until(refused, "the guard to know the annotations")
    finally:
        put_back_the_guard(bold)


async def test_updates_of_a_status_cost_less_than_without_the_condition(bold: Cluster) -> None:
    """The API server's own measure of what validating policies cost it, with and without what ends the guard early."""
    path = f"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{GUARD}"
    listed = {f"example.com/{number}": "x" * 100 for number in range(100)}
    await bold.create(a_pod("busy", {**BEFORE, **listed}))

    async def spent() -> tuple[float, float]:
        async with bold.http.get("/metrics") as answer:
            text = await answer.text()
        of = r"apiserver_admission_controller_admission_duration_seconds_(\w+)\{([^}]*)\} (\S+)"
        series: Counter[str] = Counter()
        for part, labels, value in re.findall(of, text):
            if 'name="ValidatingAdmissionPolicy"' in labels and 'operation="UPDATE"' in labels:
                series[part] += float(value)  # type: ignore[assignment]  # counts of rejected requests are apart
        return series["sum"], series["count"]

    async def burst(number: int) -> float:
        seconds, count = await spent()
        for turn in range(number):
            status = {"conditions": [{"type": "example.com/turn", "status": "True", "reason": f"T{turn}"}]}
            code, text = await as_tenant(bold, "PATCH", f"{PODS}/busy/status", {"status": status}, STRATEGIC)
            assert code == 200, text
        after, counted = await spent()
        assert counted - count >= number
        return (after - seconds) / (counted - count)

    async def conditions(value: object) -> None:
        async with bold.http.patch(
            path, json={"spec": {"matchConditions": value}}, headers={"Content-Type": MERGE}
        ) as a:
            assert a.status == 200, await a.text()
        await asyncio.sleep(2.0)

    async with bold.http.get(path) as answer:
        shipped = (await answer.json())["spec"]["matchConditions"]
    await burst(20)
    pairs = []
    try:
        for _ in range(2):
            await conditions(None)
            without = await burst(60)
            await conditions(shipped)
            pairs.append((without, await burst(60)))
    finally:
        put_back_the_guard(bold)
    assert min(after / before for before, after in pairs) < 0.7, pairs
