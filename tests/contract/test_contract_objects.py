"""Create, read, list, update and delete: what every client relies on."""

from __future__ import annotations

import asyncio

import pytest
from tests.contract.client import Api, Object, pod

_PAST = "2001-01-01T00:00:00Z"


async def test_create_fills_in_what_the_server_owns(api: Api) -> None:
    forged = {"uid": "mine", "creationTimestamp": _PAST, "deletionTimestamp": _PAST, "generation": 9, "labels": {}}
    created = await api.pod("b", forged)
    metadata = created["metadata"]
    assert metadata["creationTimestamp"] != _PAST
    assert "deletionTimestamp" not in metadata
    assert metadata["uid"] != "mine"
    assert metadata["generation"] == 1
    assert "labels" not in metadata
    assert int(metadata["resourceVersion"]) > 0
    assert metadata["namespace"] == api.namespace
    assert (await api.get(f"{api.pods}/b")).body == created
    old = await api.post(api.pods, pod("a", {"resourceVersion": "77"}))
    assert (old.code, old.message) == (500, "resourceVersion should not be set on objects to be created")


async def test_names_are_taken_once(api: Api) -> None:
    await api.pod("a")
    again = await api.post(api.pods, pod("a"))
    assert (again.code, again.body["reason"]) == (409, "AlreadyExists")
    assert again.message == 'pods "a" already exists'
    assert again.body["details"] == {"name": "a", "kind": "pods"}


async def test_generated_names_differ(api: Api) -> None:
    body = {"metadata": {"generateName": "gen-"}, "data": {"k": "v"}}
    names = {(await api.post(api.maps, body)).created()["metadata"]["name"] for _ in range(5)}
    assert len(names) == 5
    assert all(name.startswith("gen-") and len(name) == len("gen-") + 5 for name in names)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/api/v1/namespaces/{ns}/pods/none", 'pods "none" not found'),
        ("/api/v1/nodes/none", 'nodes "none" not found'),
        (
            "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases/none",
            'leases.coordination.k8s.io "none" not found',
        ),
        ("/api/v1/namespaces/{ns}/nonsense", "the server could not find the requested resource"),
    ],
)
async def test_missing_things_are_404(api: Api, path: str, message: str) -> None:
    answer = await api.get(path.format(ns=api.namespace))
    assert (answer.code, answer.message, answer.body["reason"]) == (404, message, "NotFound")


async def test_namespaces_must_exist_and_live(api: Api) -> None:
    answer = await api.post("/api/v1/namespaces/nowhere/pods", pod("a"))
    assert (answer.code, answer.message) == (404, 'namespaces "nowhere" not found')
    name = f"{api.namespace}-ending"
    await api.post("/api/v1/namespaces", {"metadata": {"name": name}})
    held = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
    await api.post(f"/api/v1/namespaces/{name}/configmaps", held)
    assert (await api.delete(f"/api/v1/namespaces/{name}")).ok()["status"]["phase"] == "Terminating"
    answer = await api.post(f"/api/v1/namespaces/{name}/configmaps", {"metadata": {"name": "a"}})
    assert answer.code == 403
    assert answer.message == (
        f'configmaps "a" is forbidden: unable to create new content in namespace {name} because it is being terminated'
    )


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", 400),
        ({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "x"}}, 400),
        ({"metadata": {"name": "x", "namespace": "other"}, "spec": {}}, 400),
        ({"metadata": {"name": "x"}, "spec": {"containers": []}}, 422),
        ({"metadata": {}, "spec": {"containers": [{"name": "c", "image": "i"}]}}, 422),
    ],
)
async def test_malformed_objects_are_refused(api: Api, body: object, code: int) -> None:
    assert (await api.post(api.pods, body)).code == code


# ---------------------------------------------------------------------------------------------------- list


async def test_lists_have_a_kind_and_bare_items(api: Api) -> None:
    first, second = await api.pod("b"), await api.pod("a")
    listed = (await api.get(api.pods)).ok()
    assert (listed["kind"], listed["apiVersion"]) == ("PodList", "v1")
    assert [item["metadata"]["name"] for item in listed["items"]] == ["a", "b"]
    assert "kind" not in listed["items"][0]
    assert listed["items"][1] == {key: value for key, value in first.items() if key not in {"kind", "apiVersion"}}
    assert int(listed["metadata"]["resourceVersion"]) >= int(second["metadata"]["resourceVersion"])


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("app=a", "1 3"),
        ("app==a,tier=x", "1"),
        ("app!=a", "2 4"),
        ("app in (a, b)", "1 2 3"),
        ("app notin (a)", "2 4"),
        ("tier", "1 2"),
        ("!tier", "3 4"),
        ("app in (a,b),!tier", "3"),
        ("example.com/gpus>4", "3"),
    ],
)
async def test_label_selectors(api: Api, selector: str, names: str) -> None:
    labels: dict[str, Object] = {
        "1": {"app": "a", "tier": "x"},
        "2": {"app": "b", "tier": "y"},
        "3": {"app": "a", "example.com/gpus": "8"},
        "4": {},
    }
    for name, own in labels.items():
        await api.post(api.maps, {"metadata": {"name": f"m{name}", "labels": {"set": "yes", **own}}})
    listed = (await api.get(api.maps, labelSelector=f"set=yes,{selector}")).ok()
    assert [item["metadata"]["name"][1:] for item in listed["items"]] == names.split()


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("metadata.name=a", "a"),
        ("spec.schedulerName=mine", "a b"),
        ("spec.schedulerName=mine,spec.nodeName=", "a"),
        ("spec.schedulerName==mine,spec.nodeName!=", "b"),
        ("spec.schedulerName!=mine", "c"),
        ("spec.nodeName=n1", "b"),
        ("status.phase=Pending", "a b"),
        ("status.phase!=Pending", "c"),
        ("spec.schedulerName=mine,spec.schedulerName=other", ""),
    ],
)
async def test_field_selectors(api: Api, selector: str, names: str) -> None:
    await api.pod("a", schedulerName="mine")
    await api.pod("b", schedulerName="mine")
    await api.pod("c")
    await api.bind("b")
    await api.merge(f"{api.pods}/c/status", {"status": {"phase": "Failed"}})
    listed = (await api.get(api.pods, fieldSelector=selector)).ok()
    assert [item["metadata"]["name"] for item in listed["items"]] == names.split()
    everywhere = (await api.get("/api/v1/pods", fieldSelector=f"{selector},metadata.namespace={api.namespace}")).ok()
    assert [item["metadata"]["name"] for item in everywhere["items"]] == names.split()


@pytest.mark.parametrize(
    "query",
    [
        {"fieldSelector": "spec.schedulerName in (a,b)"},
        {"fieldSelector": "spec.priority=1"},
        {"labelSelector": "a in (b"},
        {"resourceVersion": "abc"},
        {"limit": "1", "continue": "nonsense"},
    ],
)
async def test_bad_list_parameters_are_400(api: Api, query: dict[str, str]) -> None:
    assert (await api.get(api.pods, **query)).code == 400


async def test_contradicting_list_parameters(api: Api) -> None:
    assert (await api.get(api.pods, resourceVersionMatch="Exact")).code == 422
    assert (await api.get(api.pods, resourceVersionMatch="Nonsense", resourceVersion="1")).code == 422
    late = await api.get(api.pods, resourceVersion="999999999")
    assert (late.code, late.body["reason"]) == (504, "Timeout")


async def test_pages_of_a_list_show_one_snapshot(api: Api) -> None:
    for index in range(5):
        await api.post(api.maps, {"metadata": {"name": f"m{index}"}})
    page = (await api.get(api.maps, limit="2")).ok()
    assert page["metadata"]["remainingItemCount"] >= 3
    await api.delete(f"{api.maps}/m3")
    names = [item["metadata"]["name"] for item in page["items"]]
    while page["metadata"].get("continue"):
        token, revision = page["metadata"]["continue"], page["metadata"]["resourceVersion"]
        page = (await api.get(api.maps, limit="2", **{"continue": token})).ok()
        assert page["metadata"]["resourceVersion"] == revision
        names += [item["metadata"]["name"] for item in page["items"]]
    assert [name for name in names if name.startswith("m")] == ["m0", "m1", "m2", "m3", "m4"]


# ---------------------------------------------------------------------------------------------------- update


async def test_updates_are_optimistic(api: Api) -> None:
    old = (await api.post(api.maps, {"metadata": {"name": "m"}, "data": {"k": "1"}})).created()
    new = (await api.put(f"{api.maps}/m", {**old, "data": {"k": "2"}})).ok()
    assert new["metadata"]["uid"] == old["metadata"]["uid"]
    assert int(new["metadata"]["resourceVersion"]) > int(old["metadata"]["resourceVersion"])
    stale = await api.put(f"{api.maps}/m", {**old, "data": {"k": "3"}})
    assert (stale.code, stale.body["reason"]) == (409, "Conflict")
    assert stale.message == (
        'Operation cannot be fulfilled on configmaps "m": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    unconditional = {"metadata": {"name": "m"}, "data": {"k": "4"}}
    assert (await api.put(f"{api.maps}/m", unconditional)).ok()["data"] == {"k": "4"}
    assert (await api.put(f"{api.maps}/m", {**unconditional, "metadata": {"name": "other"}})).code == 400
    other = {**unconditional, "metadata": {"name": "m", "uid": "other"}}
    mismatch = await api.put(f"{api.maps}/m", other)
    assert mismatch.code == 409
    assert "Precondition failed: UID in precondition: other" in mismatch.message


async def test_a_write_that_changes_nothing_is_none(api: Api) -> None:
    old = await api.pod("a", {"labels": {"k": "v"}})
    path = f"{api.pods}/a"
    for answer in (
        await api.put(path, old),
        await api.merge(path, {"metadata": {"labels": {"k": "v"}}}),
        await api.merge(path, {"metadata": {"annotations": {}}}),
        await api.strategic(path, {"metadata": {"labels": {"k": "v"}}}),
        await api.json_patch(path, {"op": "replace", "path": "/metadata/labels/k", "value": "v"}),
        await api.strategic(f"{path}/status", {"status": {"phase": "Pending"}}),
    ):
        assert answer.ok()["metadata"]["resourceVersion"] == old["metadata"]["resourceVersion"]


async def test_leases_are_updated_conditionally_only(api: Api) -> None:
    spec = {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}
    lease = (await api.post(api.leases, {"metadata": {"name": "l"}, "spec": spec})).created()
    assert (await api.post(api.leases, {"metadata": {"name": "l"}, "spec": spec})).code == 409
    blind = await api.put(f"{api.leases}/l", {"metadata": {"name": "l"}, "spec": spec})
    assert blind.code == 422
    assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in blind.message
    renewed = {**lease, "spec": {**spec, "holderIdentity": "b"}}
    assert (await api.put(f"{api.leases}/l", renewed)).ok()["spec"]["holderIdentity"] == "b"
    lost = await api.put(f"{api.leases}/l", {**lease, "spec": {**spec, "holderIdentity": "c"}})
    assert lost.code == 409
    assert lost.message.startswith('Operation cannot be fulfilled on leases.coordination.k8s.io "l": the object has')


async def test_of_many_conditional_writers_one_wins(api: Api) -> None:
    lease = (await api.post(api.leases, {"metadata": {"name": "l"}, "spec": {"holderIdentity": ""}})).created()
    bids = [{**lease, "spec": {"holderIdentity": f"bidder-{index}"}} for index in range(20)]
    answers = await asyncio.gather(*(api.put(f"{api.leases}/l", bid) for bid in bids))
    assert sorted(answer.code for answer in answers) == [200] + [409] * 19


# ---------------------------------------------------------------------------------------------------- delete


async def test_plain_objects_are_deleted_at_once(api: Api) -> None:
    made = (await api.post(api.maps, {"metadata": {"name": "m"}})).created()
    wrong = await api.delete(f"{api.maps}/m", {"preconditions": {"uid": "other"}})
    assert wrong.code == 409
    assert "the UID in the precondition (other) does not match the UID in record" in wrong.message
    gone = (await api.delete(f"{api.maps}/m")).ok()
    assert gone["status"] == "Success"
    assert gone["details"] == {"name": "m", "kind": "configmaps", "uid": made["metadata"]["uid"]}
    assert (await api.delete(f"{api.maps}/m")).code == 404


async def test_finalizers_hold_an_object(api: Api) -> None:
    await api.post(api.maps, {"metadata": {"name": "m", "finalizers": ["example.com/a", "example.com/b"]}})
    marked = (await api.delete(f"{api.maps}/m")).ok()
    assert marked["metadata"]["deletionTimestamp"]
    more = await api.merge(f"{api.maps}/m", {"metadata": {"finalizers": ["example.com/a", "example.com/c"]}})
    assert more.code == 422
    assert "no new finalizers can be added if the object is being deleted" in more.message
    left = (await api.merge(f"{api.maps}/m", {"metadata": {"finalizers": ["example.com/b"]}})).ok()
    assert left["metadata"]["finalizers"] == ["example.com/b"]
    assert (await api.merge(f"{api.maps}/m", {"metadata": {"finalizers": None}})).code == 200
    assert (await api.get(f"{api.maps}/m")).code == 404


async def test_a_bound_pod_waits_for_its_kubelet(api: Api) -> None:
    await api.pod("a")
    await api.bind("a")
    bound = (await api.get(f"{api.pods}/a")).ok()
    # A deletion looks at the API server's cache first, and lets a pod that is unbound there go at once.
    await api.get(f"{api.pods}/a", resourceVersion=bound["metadata"]["resourceVersion"])
    marked = (await api.delete(f"{api.pods}/a")).ok()
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
    assert marked["metadata"]["generation"] == 2
    longer = (await api.delete(f"{api.pods}/a", {"gracePeriodSeconds": 60})).ok()
    assert longer["metadata"]["resourceVersion"] == marked["metadata"]["resourceVersion"]
    shorter = (await api.delete(f"{api.pods}/a", gracePeriodSeconds="5")).ok()
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 5
    assert (await api.merge(f"{api.pods}/a", {"metadata": {"labels": {"k": "v"}}})).code == 200
    assert (await api.delete(f"{api.pods}/a", {"gracePeriodSeconds": 0})).ok()["kind"] == "Pod"
    assert (await api.get(f"{api.pods}/a")).code == 404


@pytest.mark.parametrize("phase", ["", "Succeeded"])
async def test_unbound_and_finished_pods_go_at_once(api: Api, phase: str) -> None:
    await api.pod("a")
    if phase:
        await api.bind("a")
        await api.merge(f"{api.pods}/a/status", {"status": {"phase": phase}})
    gone = (await api.delete(f"{api.pods}/a")).ok()
    assert gone["metadata"]["deletionGracePeriodSeconds"] == 0
    assert (await api.get(f"{api.pods}/a")).code == 404


async def test_a_pod_with_a_finalizer_outlives_its_kubelet(api: Api) -> None:
    await api.pod("a", {"finalizers": ["example.com/a"]})
    await api.bind("a")
    await api.delete(f"{api.pods}/a", {"gracePeriodSeconds": 0})
    held = (await api.get(f"{api.pods}/a")).ok()
    assert held["metadata"]["deletionGracePeriodSeconds"] == 0
    await api.json_patch(f"{api.pods}/a", {"op": "remove", "path": "/metadata/finalizers"})
    assert (await api.get(f"{api.pods}/a")).code == 404


async def test_collections_are_deleted_by_selector(api: Api) -> None:
    for name, label in (("a", "x"), ("b", "y"), ("c", "x")):
        await api.post(api.maps, {"metadata": {"name": name, "labels": {"k": label}}})
    await api.delete(api.maps, labelSelector="k=x")
    listed = (await api.get(api.maps, labelSelector="k")).ok()
    assert [item["metadata"]["name"] for item in listed["items"]] == ["b"]


# ---------------------------------------------------------------------------------------------------- dry run, events


async def test_a_dry_run_leaves_nothing(api: Api) -> None:
    body = {"metadata": {"name": "m"}, "data": {"k": "1"}}
    dry = (await api.post(api.maps, body, dryRun="All")).created()
    assert dry["metadata"]["uid"]
    assert "resourceVersion" not in dry["metadata"]
    assert (await api.get(f"{api.maps}/m")).code == 404
    kept = (await api.post(api.maps, body)).created()
    assert (await api.merge(f"{api.maps}/m", {"data": {"k": "2"}}, dryRun="All")).ok()["data"] == {"k": "2"}
    assert (await api.put(f"{api.maps}/m", {**body, "data": {"k": "3"}}, dryRun="All")).code == 200
    assert (await api.delete(f"{api.maps}/m", dryRun="All")).code == 200
    assert (await api.get(f"{api.maps}/m")).ok() == kept
    assert (await api.post(api.maps, body, dryRun="Some")).code == 422


async def test_events_have_two_faces(api: Api) -> None:
    new = f"/apis/events.k8s.io/v1/namespaces/{api.namespace}/events"
    core = f"/api/v1/namespaces/{api.namespace}/events"
    body = {
        "metadata": {"generateName": "e-"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "me",
        "reportingInstance": "me-0",
        "action": "Binding",
        "reason": "Scheduled",
        "type": "Normal",
        "regarding": {"kind": "Pod", "namespace": api.namespace, "name": "a"},
        "note": "hello",
    }
    made = (await api.post(new, body)).created()
    assert (made["apiVersion"], made["note"]) == ("events.k8s.io/v1", "hello")
    listed = (await api.get(core, fieldSelector="involvedObject.name=a,reason=Scheduled")).ok()
    [item] = listed["items"]
    assert (item["message"], item["reportingComponent"]) == ("hello", "me")
    assert (await api.post(new, {**body, "eventTime": None})).code == 422
    old = {
        "metadata": {"name": "old"},
        "involvedObject": {"kind": "Pod", "namespace": api.namespace, "name": "b"},
        "message": "by the older way",
        "source": {"component": "me"},
        "type": "Warning",
    }
    (await api.post(core, old)).created()
    assert (await api.get(f"{new}/old")).ok()["note"] == "by the older way"
