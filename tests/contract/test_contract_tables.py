"""The forms in which kubectl asks for objects: tables, rows of a watch, and metadata alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
import yaml
from tests.contract.client import TABLE, pod

from vgpu_devcluster.ages import human
from vgpu_devcluster.jsonpath import find
from vgpu_scheduler.policy import crds

if TYPE_CHECKING:
    from tests.contract.client import Api

KINDS = (
    *("/api/v1/pods", "/api/v1/nodes", "/api/v1/namespaces", "/api/v1/events", "/api/v1/configmaps"),
    *("/api/v1/serviceaccounts", "/api/v1/resourcequotas", "/api/v1/limitranges"),
    "/api/v1/persistentvolumeclaims",
    *("/api/v1/persistentvolumes", "/apis/events.k8s.io/v1/events", "/apis/coordination.k8s.io/v1/leases"),
    *("/apis/scheduling.k8s.io/v1/priorityclasses", "/apis/policy/v1/poddisruptionbudgets"),
    *(f"/apis/storage.k8s.io/v1/{kind}" for kind in ("storageclasses", "csinodes", "csidrivers")),
    *(f"/apis/storage.k8s.io/v1/{kind}" for kind in ("csistoragecapacities", "volumeattachments")),
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
)
# what kubectl prints of each on a real API server: -o wide shows those with a plus
COLUMNS = yaml.safe_load("""
pods: Name Ready Status Restarts Age IP+ Node+ Nominated_Node+ Readiness_Gates+
nodes: Name Status Roles Age Version Internal-IP+ External-IP+ OS-Image+ Kernel-Version+ Container-Runtime+
namespaces: Name Status Age
events: Last_Seen Type Reason Object Subobject+ Source+ Message First_Seen+ Count+ Name+
configmaps: Name Data Age
serviceaccounts: Name Age
resourcequotas: Name Request Limit Age
limitranges: Name Created_At:date
persistentvolumeclaims: >-
  Name Status Volume Capacity Access_Modes StorageClass VolumeAttributesClass Age VolumeMode+
persistentvolumes: >-
  Name Capacity Access_Modes Reclaim_Policy Status Claim StorageClass VolumeAttributesClass Reason Age VolumeMode+
leases: Name Holder Age
priorityclasses: Name Value:integer Global-Default:boolean Age PreemptionPolicy
poddisruptionbudgets: Name Min_Available Max_Unavailable Allowed_Disruptions:integer Age
storageclasses: Name Provisioner ReclaimPolicy VolumeBindingMode AllowVolumeExpansion Age
csinodes: Name Drivers:integer Age
csidrivers: >-
  Name AttachRequired:boolean PodInfoOnMount:boolean StorageCapacity:boolean TokenRequests RequiresRepublish:boolean
  Modes Age
csistoragecapacities: Name Created_At:date
volumeattachments: Name Attacher PV Node Attached:boolean Age
customresourcedefinitions: Name Created_At:date
""")


@pytest.mark.parametrize("path", KINDS)
async def test_every_kind_has_its_columns(api: Api, path: str) -> None:
    table = (await api.table(path)).ok()
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    shown = []
    for column in table["columnDefinitions"]:
        name = column["name"].replace(" ", "_")
        kind = "" if column["type"] == "string" else f":{column['type']}"
        shown.append(f"{name}{kind}{'+' * column['priority']}")
        assert column["format"] == ("name" if name in {"Name", "Attacher"} else "")
    assert " ".join(shown) == COLUMNS[path.rsplit("/", 1)[1]]


async def test_a_row_is_cells_and_as_much_of_the_object_as_was_asked_for(api: Api) -> None:
    await api.pod("a", {"labels": {"k": "v"}})
    path = f"{api.pods}/a"
    for include, found in (("", "PartialObjectMetadata"), ("Object", "Pod")):
        table = (await api.table(path, **({"includeObject": include} if include else {}))).ok()
        (row,) = table["rows"]
        assert row["cells"][:4] == ["a", "0/1", "Pending", "0"]
        assert row["object"]["kind"] == found
        assert row["object"]["metadata"]["labels"] == {"k": "v"}
        assert ("spec" in row["object"]) is (include == "Object")
    assert (await api.table(path, includeObject="None")).ok()["rows"][0]["object"] is None
    listed = (await api.table(api.pods, limit="1")).ok()
    assert listed["metadata"]["resourceVersion"]


async def test_a_watch_names_its_columns_once(api: Api) -> None:
    await api.pod("a")
    async with api.watch(api.pods, accept=TABLE) as events:
        kind, table = await events.next()
        assert (kind, table["kind"], table["rows"][0]["cells"][0]) == ("ADDED", "Table", "a")
        assert table["columnDefinitions"][0]["name"] == "Name"
        await api.pod("b")
        kind, table = await events.next()
        assert (kind, table["columnDefinitions"], table["rows"][0]["cells"][0]) == ("ADDED", None, "b")


async def test_metadata_alone(api: Api) -> None:
    await api.pod("a")
    accept = {"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}
    async with api.session.get(api.pods, headers=accept) as response:
        listed = await response.json()
    assert listed["kind"] == "PartialObjectMetadataList"
    assert [set(item) - {"kind", "apiVersion"} for item in listed["items"]] == [{"metadata"}]


async def test_forms_that_nobody_serves(api: Api) -> None:
    nonsense = "application/json;as=Picture;v=v1;g=meta.k8s.io"
    async with api.session.get(api.pods, headers={"Accept": nonsense}) as response:
        assert response.status == 406
    async with api.session.get(api.pods, headers={"Accept": f"{nonsense},application/json"}) as response:
        assert (await response.json())["kind"] == "PodList"


STATES = [
    ({"phase": "Pending"}, {}, "Pending"),
    ({"phase": "Failed", "reason": "UnexpectedAdmissionError"}, {}, "UnexpectedAdmissionError"),
    ({"phase": "Running"}, {"running": {}}, "Running"),
    ({"phase": "Pending"}, {"waiting": {"reason": "ContainerCreating"}}, "ContainerCreating"),
    ({"phase": "Succeeded"}, {"terminated": {"exitCode": 0, "reason": "Completed"}}, "Completed"),
    ({"phase": "Failed"}, {"terminated": {"exitCode": 3}}, "ExitCode:3"),
    ({"phase": "Failed"}, {"terminated": {"exitCode": 137, "signal": 9}}, "Signal:9"),
]


@pytest.mark.parametrize(("status", "state", "word"), STATES)
async def test_the_word_for_a_pod(api: Api, status: dict[str, object], state: dict[str, object], word: str) -> None:
    await api.pod("a")
    container = {"name": "main", "image": "i", "imageID": "", "ready": False, "restartCount": 2, "state": state}
    full = {**status, **({"containerStatuses": [container]} if state else {})}
    (await api.merge(f"{api.pods}/a/status", {"status": full})).ok()
    cells = (await api.table(f"{api.pods}/a")).ok()["rows"][0]["cells"]
    assert cells[2] == word
    assert cells[3] == ("2" if state else "0")


async def test_a_gated_pod_says_so(api: Api) -> None:
    (await api.post(api.pods, pod("a", schedulingGates=[{"name": "wait"}]))).created()
    assert (await api.table(f"{api.pods}/a")).ok()["rows"][0]["cells"][2] == "SchedulingGated"


async def test_ages(api: Api) -> None:
    for number, passed in enumerate(AGES):
        stamp = (datetime.now(UTC) - timedelta(seconds=passed, milliseconds=-300)).strftime("%Y-%m-%dT%H:%M:%SZ")
        event = {
            "metadata": {"name": f"e{number}"},
            "involvedObject": {"namespace": api.namespace, "kind": "Pod", "name": "a"},
            "lastTimestamp": stamp,
        }
        path = f"/api/v1/namespaces/{api.namespace}/events"
        (await api.post(path, event)).created()
        shown = (await api.table(f"{path}/e{number}")).ok()["rows"][0]["cells"][0]
        assert shown in {human(passed), human(passed + 1), human(passed - 1)}, passed


AGES = (5, 130, 599, 640, 10790, 10900, 28000, 29000, 172000, 180000, 691000, 700000, 63000000, 64000000, 260000000)


def test_json_paths() -> None:
    obj = {"a": {"b": [{"type": "x", "v": 1}, {"type": "y", "v": 2}]}, "k.x/y": 3}
    assert find(".a.b[0].v", obj) == [1]
    assert find('.a.b[?(@.type=="y")].v', obj) == [2]
    assert find(".a.b[*].v", obj) == [1, 2]
    assert find(r".k\.x/y", obj) == [3]
    assert find("['k.x/y']", obj) == [3]
    assert find(".a.c[0].d", obj) == []
    with pytest.raises(ValueError, match="not understood"):
        find(".a[(1+1)]", obj)


async def test_custom_columns_come_from_the_definition(api: Api) -> None:
    (definition,) = (one for one in crds() if one["spec"]["names"]["plural"] == "vgpupolicies")
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    made = await api.post(path, definition)
    assert made.code in {201, 409}
    policies = f"/apis/vgpu-scheduler.io/v1alpha1/namespaces/{api.namespace}/vgpupolicies"
    while (await api.get(policies)).code == 404:  # a definition is served a moment later
        pass
    body = {
        "apiVersion": "vgpu-scheduler.io/v1alpha1",
        "kind": "VGPUPolicy",
        "metadata": {"name": "p"},
        "spec": {"priority": 7, "nodes": {"policy": "binpack"}},
    }
    (await api.post(policies, body)).created()
    table = (await api.table(f"{policies}/p")).ok()
    names = [column["name"] for column in table["columnDefinitions"]]
    cells = dict(zip(names, table["rows"][0]["cells"], strict=True))
    assert names[:3] == ["Name", "Ready", "Priority"]
    assert (cells["Name"], cells["Ready"], cells["Priority"]) == ("p", None, 7)
    await api.delete(f"{path}/{definition['metadata']['name']}")
