"""``vgpu-scheduler doctor``: what it asks an API server, and what it makes of the answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.doctor.clusters import KUBE_SYSTEM, NOW, Obj, Objects, found, healthy, workload
from tests.doctor.planted import PLANTED, Plant, group_under_namespace_labels
from tests.engine.builders import cards, node_object

from vgpu_scheduler.apiclient import ApiResponse, ApiUnreachableError
from vgpu_scheduler.cli.doctor.show import as_json, as_text
from vgpu_scheduler.doctor import EXAMINED_KINDS, OF_A_NAMESPACE, ROLE_KINDS, DoctorInput, ListedKind, Report, examine
from vgpu_scheduler.reading import (
    ClusterOptions,
    ClusterView,
    UnauthorizedError,
    read_doctor_input,
    read_doctor_input_with_view,
    settings_from_file,
)
from vgpu_scheduler.reading.lists import ListResult, MissingList
from vgpu_scheduler.reading.view import SELECTING_RESOURCES, listed_resources

CONFIG_MAPS = "/api/v1/namespaces/vgpu-system/configmaps"
DEPLOYMENT = "/apis/apps/v1/namespaces/vgpu-system/deployments/vgpu-scheduler"
REVIEW = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
SELF_REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
BY_PATH: dict[str, ListedKind] = {fact.resource.path: fact for fact in (*EXAMINED_KINDS, *ROLE_KINDS)}
ALL_LISTED = {**listed_resources(settings_from_file(None)), **SELECTING_RESOURCES}
BY_KIND = {fact.kind: fact for fact in EXAMINED_KINDS}
DENIED = ApiResponse(403, b'{"message": "forbidden"}')
REFUSED = ListResult(refusal=DENIED)
VERSION = ApiResponse(200, b'{"major": "1", "minor": "36+"}', date="Wed, 04 Mar 2026 05:06:07 GMT")


@dataclass
class Server:
    """Stands for the client: answers from objects in memory.

    Attributes
    ----------
    objects
        By kind.
    paths
        Single objects by path.
    refused
        Kinds that may not be seen.
    broken
        Kinds for which the server answers something else.
    may_review
        Whether it may be asked who may do what; it then allows everything.
    reviews
        What it answers all the same where it is asked about others.
    """

    objects: Objects
    paths: dict[str, Obj] = field(default_factory=dict)
    refused: frozenset[str] = frozenset()
    broken: dict[str, ApiResponse | ApiUnreachableError] = field(default_factory=dict)
    may_review: bool = True
    reviews: ApiResponse | None = None
    version: ApiResponse = VERSION
    asked: list[tuple[str, str]] = field(default_factory=list)
    page: int = 2
    gone: int = 0

    @property
    def credentials(self) -> Server:
        return self

    server = "https://example"

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        accept: str = "",
        params: Mapping[str, str] | None = None,
        timeout: float = 30.0,  # noqa: ASYNC109 - as the client has it
    ) -> ApiResponse:
        del accept, timeout
        self.asked.append((method, path))
        if path == "/version":
            return self.version
        if path == REVIEW and self.reviews is not None:
            return self.reviews
        if path in {REVIEW, SELF_REVIEW}:
            return (
                answer({"status": {"allowed": self.may_review}}) if path == SELF_REVIEW or self.may_review else DENIED
            )
        if path in self.paths:
            return answer(self.paths[path])
        collection, _, name = path.rpartition("/")
        fact = BY_PATH.get(path) or BY_PATH.get(collection)
        if fact is None:
            return ApiResponse(404, b"{}")
        if fact.kind in self.refused:
            return DENIED
        if fact.kind in self.broken:
            found = self.broken[fact.kind]
            if isinstance(found, ApiUnreachableError):
                raise found
            return found
        objects = self.objects.get(fact.kind, [])
        if fact.names:
            return next((answer(o) for o in objects if o["metadata"]["name"] == name), ApiResponse(404, b"{}"))
        return self.list(objects, int((params or {}).get("continue", 0)))

    def list(self, objects: list[Obj], first: int) -> ApiResponse:
        if first and self.gone:
            self.gone -= 1
            return ApiResponse(410, b'{"message": "expired"}')
        last = first + self.page
        token = {"continue": str(last)} if last < len(objects) else {}
        return answer({"items": objects[first:last], "metadata": token})


def answer(obj: Any) -> ApiResponse:
    return ApiResponse(200, json.dumps(obj).encode())


def config_map(**settings: Any) -> dict[str, Obj]:
    return {f"{CONFIG_MAPS}/vgpu-scheduler": {"data": {"settings.yaml": yaml.safe_dump(settings)}}}


async def look(server: Server, config: Path | None = None) -> tuple[DoctorInput, Report]:
    doctor_input = await read_doctor_input(server, ClusterOptions(None, None, "vgpu-system", config))  # type: ignore[arg-type]
    report = examine(doctor_input)
    assert not [skipped for skipped in report.skipped if "internal error" in skipped.reason], report.skipped
    return doctor_input, report


def ids(report: Report) -> set[str]:
    return {finding.diagnosis.id for finding in report.findings}


async def test_what_is_listed_in_pages_is_seen_as_a_whole() -> None:
    doctor_input, report = await look(Server(healthy(), config_map()))
    assert len(doctor_input.pods) == 5
    assert doctor_input.server.now == NOW
    assert doctor_input.server.version == (1, 36)
    assert ids(report) == {"clock-skew"}  # the server's is that of the objects, ours is not
    assert report.complete


async def test_a_list_that_expires_between_two_pages_is_begun_again() -> None:
    doctor_input, _ = await look(Server(healthy(), gone=1))
    assert len({pod.uid for pod in doctor_input.pods}) == len(doctor_input.pods) == 5


async def test_rights_are_asked_of_the_server_where_it_may_be_asked() -> None:
    server = Server(healthy(), config_map())
    server.objects["ClusterRole"] = []
    _, report = await look(server)
    assert "right-missing" not in ids(report)
    assert sum(path == REVIEW for _, path in server.asked) > 30
    assert ("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles") not in server.asked


@pytest.mark.parametrize(
    "reviews", [ApiResponse(500, b'{"message": "etcd"}'), answer({"status": []})], ids=["fails", "garbles"]
)
async def test_rights_of_which_the_server_says_nothing_are_not_called_missing(reviews: ApiResponse) -> None:
    _, report = await look(Server(healthy(), config_map(), reviews=reviews))
    assert "right-missing" not in ids(report)
    assert {one.check for one in report.skipped} == {"scheduler-rights", "plugin-accounts"}


async def test_rights_are_read_from_roles_where_the_server_may_not_be_asked() -> None:
    server = Server(healthy(), config_map(), may_review=False)
    _, report = await look(server)
    assert "right-missing" not in ids(report)
    server.objects["ClusterRole"] = []
    _, report = await look(server)
    assert "right-missing" in ids(report)


async def test_rights_that_nobody_may_tell_are_skipped() -> None:
    _, report = await look(Server(healthy(), config_map(), may_review=False, refused=frozenset({"ClusterRole"})))
    skipped = {one.check: one.reason for one in report.skipped}
    right = "create subjectaccessreviews.authorization.k8s.io (or list clusterroles.rbac.authorization.k8s.io)"
    assert skipped == {"scheduler-rights": right, "plugin-accounts": right}


@pytest.mark.parametrize("fact", EXAMINED_KINDS, ids=lambda fact: fact.kind)
async def test_a_kind_that_may_not_be_seen_is_named(fact: ListedKind) -> None:
    objects = healthy()
    if fact.kind == "Namespace":
        group_under_namespace_labels(objects)
    _, report = await look(Server(objects, config_map(), refused=frozenset({fact.kind})))
    assert report.skipped
    assert all(fact.right in skipped.reason for skipped in report.skipped)


async def test_policies_and_quotas_of_one_namespace_are_listed_there() -> None:
    server = Server({})
    await read_doctor_input(server, ClusterOptions(None, None, "vgpu-system", None), "team")  # type: ignore[arg-type]
    asked = {path for _, path in server.asked}
    for kind, fact in BY_KIND.items():
        if not fact.names:
            group, _, plural = fact.resource.path.rpartition("/")
            listed = f"{group}/namespaces/team/{plural}" if kind in OF_A_NAMESPACE else fact.resource.path
            assert listed in asked, kind
            assert kind not in OF_A_NAMESPACE or fact.resource.path not in asked


@pytest.mark.parametrize(
    "broken", [ApiResponse(500, b'{"message": "etcd"}'), ApiUnreachableError("GET: etcd")], ids=["answers", "is silent"]
)
async def test_a_server_that_fails_in_between_is_said(broken: ApiResponse | ApiUnreachableError) -> None:
    _, report = await look(Server(healthy(), config_map(), broken={"Lease": broken}))
    depend = {"scheduler", "leaders", "waiting-pods", "lease-clock", "hami-scheduler", "other-schedulers"}
    assert {skipped.check for skipped in report.skipped} == depend
    assert all("etcd" in skipped.reason for skipped in report.skipped)


async def test_a_user_who_is_not_known_sees_nothing() -> None:
    with pytest.raises(UnauthorizedError, match="https://example: Unauthorized"):
        await look(Server({}, version=ApiResponse(401, b'{"message": "Unauthorized"}')))


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"major": null, "minor": 1}', b'{"major": "", "minor": "x"}'])
async def test_a_server_without_a_version_is_looked_at_all_the_same(body: bytes) -> None:
    doctor_input, report = await look(Server(healthy(), config_map(), version=ApiResponse(200, body)))
    assert doctor_input.server.version is None
    assert "kubernetes-too-old" not in ids(report)


def healthy_as_it_is(_: Objects) -> None:
    """Plant nothing."""


ALREADY = ("Node", "Pod", "ResourceQuota", "ClusterVGPUPolicy", "VGPUPolicy")


async def beside(server: Server) -> Report:
    """Look at a cluster of which some kinds were read already."""
    known = [kind for kind in ALREADY if kind not in server.refused]
    objects = [{"kind": kind, **obj} for kind in known for obj in server.objects[kind]]
    missing = {kind: MissingList.of(BY_KIND[kind].resource, REFUSED) for kind in ALREADY if kind in server.refused}
    settings = settings_from_file(None)
    view = ClusterView(objects, missing, settings, live=True, read_at=NOW, kinds=frozenset(known))
    return examine(await read_doctor_input_with_view(server, view, "vgpu-system"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "plant", [healthy_as_it_is, *(plant for plant, _ in PLANTED)], ids=lambda plant: plant.__name__
)
async def test_what_was_read_already_is_not_read_again_and_the_same_is_found(plant: Plant) -> None:
    server = Server(healthy(), may_review=False)
    plant(server.objects)
    _, report = await look(server)
    server.asked.clear()
    again = await beside(server)
    assert (found(again), again.skipped) == (found(report), report.skipped)
    assert {method for method, _ in server.asked} == {"GET"}
    assert {path for _, path in server.asked}.isdisjoint(BY_KIND[kind].resource.path for kind in ALREADY)


async def test_what_was_refused_already_and_what_is_refused_now_is_named() -> None:
    report = await beside(Server(healthy(), refused=frozenset({"ResourceQuota", "DaemonSet", "ClusterRole"})))
    reasons = {skipped.check: skipped.reason for skipped in report.skipped}
    assert reasons["quotas"] == "list resourcequotas in all namespaces"
    assert reasons["scheduler-rights"] == "list clusterroles.rbac.authorization.k8s.io"
    assert "list daemonsets.apps in all namespaces" in reasons.values()


# Settings ------------------------------------------------------------------------------------------------------------


def hami_beside() -> Objects:
    objects = healthy()
    hami = workload("hami-scheduler", "projecthami/hami:v2.10.0")
    hami["metadata"]["labels"] = {"app.kubernetes.io/component": "hami-scheduler"}
    objects["Deployment"].append(hami)
    return objects


async def test_settings_come_from_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VGPU_COEXIST_WITH", "what-this-machine-says")
    doctor_input, report = await look(Server(hami_beside(), config_map(coexist_with=["hami-scheduler"])))
    assert doctor_input.expected.source == "ConfigMap vgpu-system/vgpu-scheduler"
    assert doctor_input.expected.options.coexist_with == ("hami-scheduler",)
    assert "hami-scheduler-uncounted" not in ids(report)


async def test_the_environment_of_the_deployment_ranks_above_the_file() -> None:
    container = {"env": [{"name": "VGPU_COEXIST_WITH", "value": "hami-scheduler"}, {"name": "VGPU_X", "valueFrom": {}}]}
    deployment = {DEPLOYMENT: {"spec": {"template": {"spec": {"containers": [container]}}}}}
    doctor_input, _ = await look(Server(hami_beside(), config_map(coexist_with=[]) | deployment))
    assert doctor_input.expected.options.coexist_with == ("hami-scheduler",)


async def test_flags_of_the_deployment_rank_above_all() -> None:
    args = ["run", "--config=/etc/vgpu-scheduler/settings.yaml", "--scheduler-name=gpus", "--node-label-selector=a=b"]
    container = {"args": args, "env": [{"name": "VGPU_SCHEDULER_NAMES", "value": "others"}]}
    deployment = {DEPLOYMENT: {"spec": {"template": {"spec": {"containers": [container]}}}}}
    doctor_input, report = await look(Server(healthy(), config_map(scheduler_names=["more"]) | deployment))
    assert doctor_input.expected.options.scheduler_names == ("gpus",)
    assert doctor_input.expected.options.defaults.managed is not None
    assert "settings-unreadable" not in ids(report)
    args.append("--http-port=many")
    _, report = await look(Server(healthy(), config_map() | deployment))
    assert "settings-unreadable" in ids(report)


async def test_settings_may_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("coexist_with: [hami-scheduler]\n")
    doctor_input, _ = await look(Server(hami_beside(), config_map()), file)
    assert (doctor_input.expected.source, doctor_input.expected.options.coexist_with) == (
        f"file {file}",
        ("hami-scheduler",),
    )


async def test_defaults_are_assumed_and_said_where_there_are_no_settings() -> None:
    doctor_input, report = await look(Server(hami_beside()))
    assert doctor_input.expected.source == "assumed defaults"
    assert "hami-scheduler-uncounted" in ids(report)
    assert list(as_text(doctor_input, report))[-1].endswith("settings of assumed defaults")


@pytest.mark.parametrize(
    "text", ["a: [", "- a", "no_such_setting: 1", "hami_devices: {nvidia: {resourceCountName: 1}}"]
)
async def test_settings_that_cannot_be_understood_are_found(text: str) -> None:
    doctor_input, report = await look(
        Server(healthy(), {f"{CONFIG_MAPS}/vgpu-scheduler": {"data": {"settings.yaml": text}}})
    )
    found = [finding for finding in report.findings if finding.diagnosis.id == "settings-unreadable"]
    assert [str(finding.ref) for finding in found] == ["ConfigMap vgpu-system/vgpu-scheduler"]
    assert doctor_input.expected.source == "assumed defaults"


async def test_names_of_resources_are_those_of_hamis_device_configuration() -> None:
    objects = healthy()
    objects["Node"].append(
        node_object("c", cards("c", 1), allocatable={"nvidia.com/gpu": "0", "example.com/gpu": "10"})
    )
    paths = config_map(hami_device_config="/etc/hami/device-config.yaml")
    doctor_input, report = await look(Server(objects, paths))
    assert "with the defaults for HAMi's device configuration, which could not be read" in doctor_input.expected.source
    assert "plugin-silent" in ids(report)
    devices = {"data": {"device-config.yaml": "nvidia: {resourceCountName: example.com/gpu}"}}
    for node in objects["Node"]:
        node["status"]["allocatable"]["example.com/gpu"] = "10"
    _, report = await look(Server(objects, paths | {f"{CONFIG_MAPS}/hami-scheduler-device": devices}))
    assert "plugin-silent" not in ids(report)


async def test_names_of_resources_are_those_of_volcanos_device_configuration() -> None:
    objects = healthy()
    listed = {"volcano.sh/node-vgpu-register": "v-0,10,24576,NVIDIA-A10,true,hami-core:"}
    offered = {"example.com/vgpu": "10", "volcano.sh/vgpu-memory": "24576", "volcano.sh/vgpu-cores": "100"}
    objects["Node"].append(node_object("v", annotations=listed, allocatable=offered))
    paths = config_map(dialects=["hami", "volcano"], volcano_device_config="/etc/volcano/device-config.yaml")
    doctor_input, _ = await look(Server(objects, paths))
    assert (
        "with the defaults for Volcano's device configuration, which could not be read" in doctor_input.expected.source
    )
    assert cards_of(doctor_input, "v") == []
    devices = {"data": {"device-config.yaml": "nvidia: {resourceCountName: example.com/vgpu}"}}
    doctor_input, _ = await look(Server(objects, paths | {f"{CONFIG_MAPS}/volcano-vgpu-device-config": devices}))
    assert cards_of(doctor_input, "v") == ["v-0"]
    broken = {"data": {"device-config.yaml": "nvidia: {gpuMemoryFactor: ten}"}}
    _, report = await look(Server(objects, paths | {f"{CONFIG_MAPS}/volcano-vgpu-device-config": broken}))
    [finding] = [finding for finding in report.findings if finding.diagnosis.id == "settings-unreadable"]
    assert "nvidia.gpuMemoryFactor" in finding.message


def cards_of(doctor_input: DoctorInput, name: str) -> list[str]:
    volcano = doctor_input.expected.options.dialects[1]
    [node] = [node for node in doctor_input.nodes if node.name == name]
    return [device.uuid for device in volcano.inventory.devices(node)]


async def test_a_card_that_two_dialects_register_is_found() -> None:
    objects = healthy()
    amounts = {"volcano.sh/vgpu-number": "10", "volcano.sh/vgpu-memory": "24576", "volcano.sh/vgpu-cores": "100"}
    both = node_object("c", cards("c", 1), allocatable=amounts)
    both["metadata"]["annotations"]["volcano.sh/node-vgpu-register"] = "c-gpu-0,10,24576,NVIDIA-A10,true,hami-core:"
    objects["Node"].append(both)
    doctor_input, report = await look(Server(objects, config_map(dialects=["hami", "volcano", "koordinator"])))
    assert [d.name for d in doctor_input.expected.options.dialects] == ["hami", "volcano", "koordinator"]
    found = {(finding.diagnosis.id, str(finding.ref)) for finding in report.findings}
    assert ("device-registered-twice", "Node c") in found
    assert not [skipped for skipped in report.skipped if skipped.check == "registrations"]


# What is shown -------------------------------------------------------------------------------------------------------


async def test_many_findings_of_one_kind_are_counted_in_the_text_and_listed_for_scripts() -> None:
    objects = healthy()
    objects["DaemonSet"] += [
        workload(f"plugin-{number}", "projecthami/dcu-device-plugin", KUBE_SYSTEM) for number in range(13)
    ]
    doctor_input, report = await look(Server(objects, config_map(), may_review=False))
    text = "\n".join(as_text(doctor_input, report))
    assert text.count("plugin-refused)") == 10
    assert "and 3 more of plugin-refused: -o json has them all" in text
    listed = as_json(doctor_input, report)["findings"]
    assert sum(finding["id"] == "plugin-refused" for finding in listed) == 13


IN_NO_NAMESPACE = frozenset(
    {
        "CSIDriver",
        "CSINode",
        "ClusterRole",
        "ClusterRoleBinding",
        "ClusterVGPUPolicy",
        "CustomResourceDefinition",
        "Namespace",
        "Node",
        "PersistentVolume",
        "PriorityClass",
        "ResourceSlice",
        "StorageClass",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "VolumeAttachment",
    }
)
"""As Kubernetes and our definitions have it; all others are in namespaces."""


@pytest.mark.parametrize("fact", [*EXAMINED_KINDS, *ROLE_KINDS], ids=lambda fact: fact.kind)
@pytest.mark.parametrize("namespace", ["", "team"])
def test_a_right_says_in_which_namespaces_it_is_needed_where_that_makes_a_difference(
    fact: ListedKind, namespace: str
) -> None:
    where = {"": " in all namespaces", "team": " in namespace team"}[namespace]
    is_namespaced = fact.kind not in IN_NO_NAMESPACE
    assert replace(fact, namespace=namespace).right.endswith(where) is is_namespaced


@pytest.mark.parametrize("kind", sorted(ALL_LISTED))
def test_a_list_that_is_refused_says_in_which_namespaces_it_was_asked_for(kind: str) -> None:
    expected = "" if kind in IN_NO_NAMESPACE else " in all namespaces"
    resource = ALL_LISTED[kind]
    assert str(MissingList.of(resource, REFUSED)) == f"list {resource.plural}{expected}"
    failed = ListResult(refusal=ApiResponse(502, b'{"message": "no backend"}'))
    assert str(MissingList.of(resource, failed)) == f"list {resource.plural}{expected}: no backend"
