"""The three kinds of patches, the isolation of the status, and the node lock."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.contract.client import Api, Object

LOCK = "/metadata/annotations/hami.io~1mutex.lock"


def _test(path: str, value: object) -> Object:
    return {"op": "test", "path": path, "value": value}


def _add(path: str, value: object) -> Object:
    return {"op": "add", "path": path, "value": value}


async def test_merge_patches_set_and_remove_keys(api: Api) -> None:
    await api.pod("a", {"annotations": {"keep": "1", "drop": "2"}})
    patch = {"metadata": {"annotations": {"drop": None, "new": "3"}, "labels": {"l": "x"}}}
    patched = (await api.merge(f"{api.pods}/a", patch)).ok()["metadata"]
    assert patched["annotations"] == {"keep": "1", "new": "3"}
    assert patched["labels"] == {"l": "x"}
    emptied = (await api.merge(f"{api.pods}/a", {"metadata": {"annotations": None}})).ok()["metadata"]
    assert "annotations" not in emptied


async def test_a_revision_in_a_patch_is_a_precondition(api: Api) -> None:
    made = await api.pod("a")
    revision = made["metadata"]["resourceVersion"]
    path = f"{api.pods}/a"
    assert (await api.merge(path, {"metadata": {"resourceVersion": revision, "labels": {"k": "1"}}})).code == 200
    stale = await api.merge(path, {"metadata": {"resourceVersion": revision, "labels": {"k": "2"}}})
    assert (stale.code, stale.body["reason"]) == (409, "Conflict")


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        ({"metadata": {"uid": "other"}}, 422),
        ({"metadata": {"name": "other"}}, 400),
        ({"metadata": {"annotations": {"k": 1}}}, 422),
        ({"metadata": {"labels": {"k": "x" * 64}}}, 422),
        ({"metadata": {"labels": {"bad key": "x"}}}, 422),
        ({"metadata": {"annotations": {"k": "x" * 300_000}}}, 422),
        ({"spec": {"nodeName": "n1"}}, 422),
        ({"spec": {"schedulerName": "other"}}, 422),
        ({"spec": {"containers": None}}, 422),
    ],
)
async def test_what_a_patch_may_not_do(api: Api, patch: Object, code: int) -> None:
    made = await api.pod("a")
    assert (await api.merge(f"{api.pods}/a", patch)).code == code
    assert (await api.get(f"{api.pods}/a")).ok() == made


async def test_patches_need_a_known_type_and_json(api: Api) -> None:
    await api.pod("a")
    assert (await api.request("PATCH", f"{api.pods}/a", {}, "application/json")).code == 415
    assert (await api.put(api.pods, {"metadata": {"name": "a"}})).code == 405
    assert (await api.post(f"{api.pods}/a", {"metadata": {"name": "a"}})).code == 405
    assert (await api.request("PATCH", f"{api.pods}/a", b"{", "application/merge-patch+json")).code == 400
    assert (await api.merge(f"{api.pods}/none", {"metadata": {"labels": {"k": "v"}}})).code == 404


# ---------------------------------------------------------------------------------------------------- JSON patch


@pytest.mark.parametrize(
    ("operations", "code"),
    [
        ([_test("/metadata/annotations/k", "v")], 200),
        ([_test("/metadata/annotations/k", "w")], 422),
        ([_test("/metadata/annotations/none", None)], 200),
        ([_test("/metadata/annotations/k", None)], 422),
        ([_test("/metadata/annotations/none", "v")], 422),
        ([_test("/metadata/labels/none", None)], 422),  # the map itself is missing
        ([_add("/metadata/labels/l", "v")], 422),
        ([_add("/metadata/labels", {"l": "v"})], 200),
        ([_add("/metadata/labels", {}), _add("/metadata/labels/l", "v")], 200),
        ([_test("/metadata/annotations/none", None), _add("/metadata/annotations/none", "v")], 200),
        ([_add("/metadata/annotations/n", "v"), _test("/metadata/annotations/n", "w")], 422),
        ([{"op": "remove", "path": "/metadata/annotations/k"}], 200),
        ([{"op": "remove", "path": "/metadata/annotations/none"}], 422),
        ([{"op": "replace", "path": "/metadata/annotations/k", "value": "w"}], 200),
        ([{"op": "replace", "path": "/metadata/annotations/none", "value": "w"}], 200),
        ([{"op": "copy", "from": "/metadata/annotations/k", "path": "/metadata/annotations/c"}], 200),
        ([{"op": "move", "from": "/metadata/annotations/k", "path": "/metadata/annotations/c"}], 200),
        ([{"op": "nonsense", "path": "/metadata/annotations/k"}], 422),
        ([_add("/metadata/finalizers", ["example.com/a"]), _add("/metadata/finalizers/-", "example.com/b")], 200),
        ([_add("/metadata/finalizers/-", "example.com/b")], 422),
    ],
)
async def test_json_patches(api: Api, operations: list[Object], code: int) -> None:
    made = (await api.post(api.maps, {"metadata": {"name": "a", "annotations": {"k": "v"}}})).created()
    answer = await api.json_patch(f"{api.maps}/a", *operations)
    assert answer.code == code
    if code == 422:
        assert answer.body["reason"] == "Invalid"
        assert answer.message == "the server rejected our request due to an error in our request"
        assert (await api.get(f"{api.maps}/a")).ok() == made
    await api.merge(f"{api.maps}/a", {"metadata": {"finalizers": None}})


async def test_json_patches_do_what_they_say(api: Api) -> None:
    await api.post(api.maps, {"metadata": {"name": "a", "annotations": {"k": "v"}, "finalizers": ["example.com/a"]}})
    operations: list[Object] = [
        {"op": "copy", "from": "/metadata/annotations/k", "path": "/metadata/annotations/copied"},
        {"op": "move", "from": "/metadata/annotations/k", "path": "/metadata/annotations/a~1b"},
        {"op": "replace", "path": "/metadata/annotations/copied", "value": "w"},
        _add("/metadata/finalizers/-", "example.com/c"),
        _add("/metadata/finalizers/1", "example.com/b"),
        {"op": "remove", "path": "/metadata/finalizers/0"},
        _test("/metadata/finalizers", ["example.com/b", "example.com/c"]),
    ]
    patched = (await api.json_patch(f"{api.maps}/a", *operations)).ok()["metadata"]
    assert patched["annotations"] == {"copied": "w", "a/b": "v"}
    assert patched["finalizers"] == ["example.com/b", "example.com/c"]
    await api.merge(f"{api.maps}/a", {"metadata": {"finalizers": None}})


async def test_of_twenty_takers_one_gets_the_lock(api: Api) -> None:
    node = await api.node("n", {"annotations": {"other": "x"}})
    path = f"/api/v1/nodes/{node['metadata']['name']}"
    values = [f"2026-08-21T06:20:39Z,{api.namespace},pod-{index}" for index in range(20)]
    takes = [api.json_patch(path, _test(LOCK, None), _add(LOCK, value)) for value in values]
    answers = await asyncio.gather(*takes)
    assert sorted(answer.code for answer in answers) == [200] + [422] * 19
    [winner] = [value for value, answer in zip(values, answers, strict=True) if answer.code == 200]
    held = (await api.get(path)).ok()["metadata"]["annotations"]
    assert held == {"other": "x", "hami.io/mutex.lock": winner}
    foreign = await api.json_patch(path, _test(LOCK, "someone else's"), {"op": "remove", "path": LOCK})
    assert foreign.code == 422
    released = (await api.json_patch(path, _test(LOCK, winner), {"op": "remove", "path": LOCK})).ok()
    assert released["metadata"]["annotations"] == {"other": "x"}


async def test_the_lock_needs_a_map_to_live_in(api: Api) -> None:
    node = await api.node("n")
    path = f"/api/v1/nodes/{node['metadata']['name']}"
    assert (await api.json_patch(path, _test(LOCK, None), _add(LOCK, "v"))).code == 422
    with_map = [_test("/metadata/annotations", None), _add("/metadata/annotations", {"hami.io/mutex.lock": "v"})]
    assert (await api.json_patch(path, *with_map)).code == 200


# ---------------------------------------------------------------------------------------------------- strategic merge


async def test_conditions_merge_by_type(api: Api) -> None:
    node = await api.node("n")
    path = f"/api/v1/nodes/{node['metadata']['name']}/status"
    for kind, value in (("Ready", "False"), ("DiskPressure", "False"), ("Ready", "True")):
        patch = {"status": {"conditions": [{"type": kind, "status": value}]}}
        answer = await api.strategic(path, patch)
    conditions = {one["type"]: one["status"] for one in answer.ok()["status"]["conditions"]}
    assert conditions == {"Ready": "True", "DiskPressure": "False"}
    gone = {"status": {"conditions": [{"type": "DiskPressure", "$patch": "delete"}]}}
    assert [one["type"] for one in (await api.strategic(path, gone)).ok()["status"]["conditions"]] == ["Ready"]
    replaced = (await api.merge(path, {"status": {"conditions": [{"type": "A", "status": "True"}]}})).ok()
    assert [one["type"] for one in replaced["status"]["conditions"]] == ["A"]


async def test_containers_merge_by_name(api: Api) -> None:
    two = [{"name": "a", "image": "example.com/a:1"}, {"name": "b", "image": "example.com/b:1"}]
    await api.pod("p", containers=two)
    patch = {"spec": {"containers": [{"name": "b", "image": "example.com/b:2"}]}}
    patched = (await api.strategic(f"{api.pods}/p", patch)).ok()
    assert {one["name"]: one["image"] for one in patched["spec"]["containers"]} == {
        "a": "example.com/a:1",
        "b": "example.com/b:2",
    }
    assert patched["metadata"]["generation"] == 2


async def test_taints_are_replaced_as_a_whole(api: Api) -> None:
    node = await api.node("n", spec={"taints": [{"key": "a", "effect": "NoSchedule"}]})
    assert len(node["spec"]["taints"]) == 2  # admission adds the one that says not ready
    path = f"/api/v1/nodes/{node['metadata']['name']}"
    patched = (await api.strategic(path, {"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}})).ok()
    assert [taint["key"] for taint in patched["spec"]["taints"]] == ["b"]
    assert (await api.merge(path, {"spec": {"taints": [{"key": "b", "effect": "Never"}]}})).code == 422
    cleared = (await api.merge(path, {"spec": {"taints": None}})).ok()
    assert "taints" not in cleared["spec"]


async def test_finalizers_are_united_and_removed_by_directive(api: Api) -> None:
    await api.pod("p", {"finalizers": ["example.com/a"]})
    path = f"{api.pods}/p"
    united = (await api.strategic(path, {"metadata": {"finalizers": ["example.com/b"]}})).ok()
    assert sorted(united["metadata"]["finalizers"]) == ["example.com/a", "example.com/b"]
    less = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}}
    assert (await api.strategic(path, less)).ok()["metadata"]["finalizers"] == ["example.com/b"]
    await api.merge(path, {"metadata": {"finalizers": None}})


# ---------------------------------------------------------------------------------------------------- status


async def test_the_status_of_a_pod_is_written_through_its_subresource(api: Api) -> None:
    made = await api.pod("a")
    path = f"{api.pods}/a"
    ignored = (await api.merge(path, {"status": {"phase": "Running"}})).ok()
    assert ignored["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    patch = {
        "metadata": {"annotations": {"through": "status"}, "labels": {"also": "labels"}},
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Running"},
    }
    written = (await api.merge(f"{path}/status", patch)).ok()
    assert written["status"]["phase"] == "Running"
    assert written["metadata"]["annotations"] == {"through": "status"}
    assert written["metadata"]["labels"] == {"also": "labels"}
    assert "nodeName" not in written["spec"]
    assert written["metadata"]["generation"] == 1


async def test_the_status_of_a_node_is_written_through_its_subresource(api: Api) -> None:
    node = await api.node("n", status={"capacity": {"cpu": "4000m", "nvidia.com/gpu": 10000}})
    assert node["status"]["capacity"] == {"cpu": "4", "nvidia.com/gpu": "10k"}
    assert node["status"]["allocatable"] == node["status"]["capacity"]
    path = f"/api/v1/nodes/{node['metadata']['name']}"
    ignored = (await api.merge(path, {"status": {"capacity": {"cpu": "8"}}})).ok()
    assert ignored["metadata"]["resourceVersion"] == node["metadata"]["resourceVersion"]
    patch = {"spec": {"unschedulable": True}, "status": {"allocatable": {"nvidia.com/gpu": "80"}}}
    written = (await api.strategic(f"{path}/status", patch)).ok()
    assert written["status"]["allocatable"]["nvidia.com/gpu"] == "80"
    assert "unschedulable" not in written["spec"]
    assert (await api.merge(path, {"spec": {"unschedulable": True}})).ok()["spec"]["unschedulable"] is True
