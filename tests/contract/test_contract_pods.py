"""Pods: what a scheduler notices of their defaults, every row of the Binding's table, and poisoned pods."""

from __future__ import annotations

import asyncio

import pytest
from tests.contract.client import Api, Object, container, pod


async def test_defaults_that_a_scheduler_notices(api: Api) -> None:
    made = await api.pod("a")
    assert made["spec"]["schedulerName"] == "default-scheduler"
    assert made["spec"]["restartPolicy"] == "Always"
    assert made["spec"]["priority"] == 0
    assert made["spec"]["preemptionPolicy"] == "PreemptLowerPriority"
    assert made["spec"]["terminationGracePeriodSeconds"] == 30
    assert made["spec"]["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 10000}, {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "10k"}),
        ({"nvidia.com/gpumem": "16384"}, {"nvidia.com/gpumem": "16384"}),
        ({"cpu": "0.5", "memory": "1024Mi"}, {"cpu": "500m", "memory": "1Gi"}),
        ({"cpu": "1000m", "memory": "1000000"}, {"cpu": "1", "memory": "1M"}),
        ({"cpu": "1e3", "memory": "1.5Gi"}, {"cpu": "1e3", "memory": "1536Mi"}),
        ({"cpu": "2k", "memory": "512"}, {"cpu": "2k", "memory": "512"}),
        ({"memory": "0.5Ki"}, {"memory": "512"}),
        ({"nvidia.com/gpu": "0"}, {"nvidia.com/gpu": "0"}),
        ({"cpu": "1.0001"}, {"cpu": "1001m"}),
    ],
)
async def test_quantities_are_canonical_and_requests_follow_limits(api: Api, given: Object, stored: Object) -> None:
    made = await api.pod("a", containers=[container(limits=given)], initContainers=[container("init", limits=given)])
    for one in (*made["spec"]["containers"], *made["spec"]["initContainers"]):
        assert one["resources"]["limits"] == stored
        assert one["resources"]["requests"] == stored


@pytest.mark.parametrize(
    ("limits", "requests", "code"),
    [
        ({"nvidia.com/gpu": "1x"}, None, 400),
        ({"nvidia.com/gpu": "1.5"}, None, 422),
        ({"cpu": "-1"}, None, 422),
        (None, {"nvidia.com/gpu": "1"}, 422),
        ({"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": "2"}, 422),
        ({"cpu": "1"}, {"cpu": "2"}, 422),
        ({"cpu": "2"}, {"cpu": "1"}, 201),
    ],
)
async def test_bad_resources_are_refused(api: Api, limits: Object | None, requests: Object | None, code: int) -> None:
    body = pod("a", containers=[container(limits=limits, requests=requests)])
    assert (await api.post(api.pods, body)).code == code


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ((None, None), "BestEffort"),
        (({"nvidia.com/gpu": "1"}, None), "BestEffort"),
        (({"cpu": "1", "memory": "1Gi"}, None), "Guaranteed"),
        (({"cpu": "1"}, None), "Burstable"),
        (({"cpu": "2", "memory": "1Gi"}, {"cpu": "1"}), "Burstable"),
    ],
)
async def test_quality_of_service(api: Api, resources: tuple[Object | None, Object | None], expected: str) -> None:
    limits, requests = resources
    made = await api.pod("a", containers=[container(limits=limits, requests=requests)])
    assert made["status"]["qosClass"] == expected


async def test_priorities_come_from_classes(api: Api) -> None:
    made = await api.post(
        "/api/v1/namespaces/kube-system/pods", pod(api.namespace, priorityClassName="system-node-critical")
    )
    assert made.created()["spec"]["priority"] == 2_000_001_000
    await api.delete(f"/api/v1/namespaces/kube-system/pods/{api.namespace}")
    unknown = await api.post(api.pods, pod("a", priorityClassName="none"))
    assert unknown.code == 403
    assert unknown.message == 'pods "a" is forbidden: no PriorityClass with name none was found'
    name = f"high-{api.namespace}"
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    (await api.post(path, {"metadata": {"name": name}, "value": 1000, "preemptionPolicy": "Never"})).created()
    answers = [await api.post(api.pods, pod("b", priorityClassName=name))]
    while answers[-1].code == 403:  # the real server's admission plugin learns of the class by a watch
        answers.append(await api.post(api.pods, pod("b", priorityClassName=name)))
    high = answers[-1].created()
    assert (high["spec"]["priority"], high["spec"]["preemptionPolicy"]) == (1000, "Never")


async def test_gated_pods_say_so_and_may_be_opened(api: Api) -> None:
    gated = await api.pod("a", schedulingGates=[{"name": "example.com/gate"}])
    [condition] = gated["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "SchedulingGated")
    narrowed = {"spec": {"nodeSelector": {"pool": "a"}}}
    assert (await api.merge(f"{api.pods}/a", narrowed)).code == 200
    opened = (await api.merge(f"{api.pods}/a", {"spec": {"schedulingGates": None}})).ok()
    assert "schedulingGates" not in opened["spec"]
    assert (await api.merge(f"{api.pods}/a", {"spec": {"nodeSelector": {"pool": "b"}}})).code == 422


# ---------------------------------------------------------------------------------------------------- Binding


async def test_a_binding_writes_everything_in_one_transaction(api: Api) -> None:
    labels = {"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r", "other": "o"}
    node = (await api.node("n", {"labels": labels}))["metadata"]["name"]
    made = await api.pod("a", {"annotations": {"keep": "1", "forged": "2"}, "labels": {"l": "old"}})
    metadata = {
        "uid": made["metadata"]["uid"],
        "annotations": {"forged": "3", "new": "4"},
        "labels": {"l": "new", "m": "5"},
    }
    bound = await api.bind("a", node, metadata)
    assert bound.code == 201
    assert bound.body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "code": 201,
    }
    after = (await api.get(f"{api.pods}/a")).ok()
    assert after["spec"]["nodeName"] == node
    assert after["metadata"]["annotations"] == {"keep": "1", "forged": "3", "new": "4"}
    assert after["metadata"]["labels"] == {
        "l": "new",
        "m": "5",
        "topology.kubernetes.io/zone": "z",
        "topology.kubernetes.io/region": "r",
    }
    [condition] = after["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    assert after["metadata"]["generation"] == made["metadata"]["generation"]
    async with api.watch(api.pods, resourceVersion=made["metadata"]["resourceVersion"]) as events:
        kind, first = await events.next()  # one event, so one transaction
    assert (kind, first["metadata"]["resourceVersion"]) == ("MODIFIED", after["metadata"]["resourceVersion"])


async def test_preconditions_of_a_binding(api: Api) -> None:
    made = await api.pod("a")
    await api.merge(f"{api.pods}/a", {"metadata": {"labels": {"k": "v"}}})
    wrong = await api.bind("a", metadata={"uid": "other"})
    assert (wrong.code, wrong.body["reason"]) == (409, "Conflict")
    uid, key = made["metadata"]["uid"], f"/registry/pods/{api.namespace}/a"
    assert wrong.message == (
        f'Operation cannot be fulfilled on pods "a": StorageError: invalid object, Code: 4, Key: {key}, '
        "ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: "
        f"UID in precondition: other, UID in object meta: {uid}"
    )
    stale = await api.bind("a", metadata={"resourceVersion": made["metadata"]["resourceVersion"]})
    assert stale.code == 409
    assert "Precondition failed: ResourceVersion in precondition: " in stale.message
    current = (await api.get(f"{api.pods}/a")).revision
    assert (await api.bind("a", metadata={"uid": uid, "resourceVersion": current})).code == 201


async def test_refusals_of_a_binding(api: Api) -> None:
    await api.pod("bound")
    await api.bind("bound", "n1")
    again = await api.bind("bound", "n2")
    assert again.code == 409
    assert again.message == (
        'Operation cannot be fulfilled on pods/binding "bound": pod bound is already assigned to node "n1"'
    )
    assert again.body["details"] == {"name": "bound", "kind": "pods/binding"}
    await api.pod("gated", schedulingGates=[{"name": "example.com/gate"}])
    gated = await api.bind("gated")
    assert gated.code == 409
    assert gated.message.endswith("pod gated has non-empty .spec.schedulingGates")
    await api.pod("leaving", {"finalizers": ["example.com/a"]})
    await api.delete(f"{api.pods}/leaving")
    leaving = await api.bind("leaving")
    assert leaving.code == 409
    assert leaving.message.endswith("pod leaving is being deleted, cannot be assigned to a host")
    await api.merge(f"{api.pods}/leaving", {"metadata": {"finalizers": None}})
    gone = await api.bind("gone")
    assert (gone.code, gone.message) == (404, 'pods "gone" not found')


async def test_invalid_targets_are_server_errors(api: Api) -> None:
    await api.pod("a")
    nameless = await api.bind("a", "")
    assert (nameless.code, nameless.message) == (500, "target.name: Required value")
    body = {"metadata": {"name": "a"}, "target": {"kind": "Pod", "name": "n1"}}
    assert (await api.post(f"{api.pods}/a/binding", body)).code == 500
    other = {"metadata": {"name": "b"}, "target": {"kind": "Node", "name": "n1"}}
    assert (await api.post(f"{api.pods}/a/binding", other)).code == 400
    assert "nodeName" not in (await api.get(f"{api.pods}/a")).ok()["spec"]


async def test_neither_node_nor_time_are_looked_at(api: Api) -> None:
    await api.pod("a")
    assert (await api.bind("a", "no-such-node", timeout="2s")).code == 201


async def test_a_dry_binding_changes_nothing(api: Api) -> None:
    made = await api.pod("a")
    dry = await api.bind("a", metadata={"annotations": {"k": "v"}}, dryRun="All")
    assert (dry.code, dry.body["status"]) == (201, "Success")
    assert (await api.get(f"{api.pods}/a")).ok() == made
    assert (await api.bind("a", metadata={"uid": "other"}, dryRun="All")).code == 409


async def test_of_many_binders_one_wins(api: Api) -> None:
    await api.pod("a")
    answers = await asyncio.gather(*(api.bind("a", f"n{index}") for index in range(10)))
    assert sorted(answer.code for answer in answers) == [201] + [409] * 9


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {"hami.io/vgpu-node": "x" * 64}},
        {"annotations": {"not a key": "x"}},
        {"annotations": {"big": "x" * 300_000}},
    ],
)
async def test_a_binding_can_poison_a_pod(api: Api, metadata: Object) -> None:
    await api.pod("a")
    assert (await api.bind("a", metadata=metadata)).code == 201
    for path in (f"{api.pods}/a", f"{api.pods}/a/status"):
        refused = await api.merge(path, {"metadata": {"annotations": {"k": "v"}}, "status": {"phase": "Running"}})
        assert (refused.code, refused.body["reason"]) == (422, "Invalid")
    assert (await api.delete(f"{api.pods}/a", {"gracePeriodSeconds": 0})).code == 200


async def test_an_eviction_deletes(api: Api) -> None:
    await api.pod("a")
    await api.bind("a")
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
    assert (await api.post(f"{api.pods}/a/eviction", body)).code == 201
    assert "deletionTimestamp" in (await api.get(f"{api.pods}/a")).ok()["metadata"]
