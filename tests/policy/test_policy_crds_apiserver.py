"""The CRDs on a real API server: what it accepts and refuses, and that the models agree with it."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.policy.malformed_policies import MALFORMED
from tests.policy.policy_cases import (
    CLUSTER,
    GOOD,
    NAMESPACED,
    Case,
    policy,
    rule_messages,
)
from tests.policy.random_policies import random_spec

from vgpu_scheduler.policy.evictions import EvictionEntry
from vgpu_scheduler.policy.models import PolicyCondition, PolicyStatus, decode_policy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.apiserver.control_plane import ControlPlane

ROOT = Path(__file__).parents[2]
API = "/apis/vgpu-scheduler.io/v1alpha1"
PATHS = {NAMESPACED: f"{API}/namespaces/default/vgpupolicies", CLUSTER: f"{API}/clustervgpupolicies"}
CRDS = ("crd/vgpupolicies.vgpu-scheduler.io", "crd/clustervgpupolicies.vgpu-scheduler.io")
RBAC = "/apis/rbac.authorization.k8s.io/v1"
TENANT, OPERATOR = "tenant", "scheduler"
TRY = "?dryRun=All&fieldValidation=Strict"


def until(condition: Callable[[], bool], what: str, timeout: float = 30.0) -> None:
    deadline, tick = time.monotonic() + timeout, threading.Event()
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {timeout:g} s"
        tick.wait(0.05)


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The control plane with the CRDs, which go away again with all policies."""
    try:
        control_plane.kubectl("apply", "-k", str(ROOT / "crds"))
        control_plane.kubectl("wait", "--for=condition=Established", "--timeout=120s", *CRDS)
        until(lambda: all(control_plane.request("GET", path)[0] == 200 for path in PATHS.values()), "serving policies")
        yield control_plane
    finally:
        control_plane.kubectl("delete", "--ignore-not-found", "--timeout=120s", "-k", str(ROOT / "crds"))


@pytest.fixture
def policies(plane: ControlPlane) -> Iterator[Policies]:
    """Create, read and remove policies."""
    yield Policies(plane)
    for path in PATHS.values():
        plane.request("DELETE", path)


class Policies:
    """The policies on an API server."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    def create(self, resource: dict[str, Any], flags: str = "?fieldValidation=Strict") -> tuple[int, Any]:
        """Create a policy; return the status and the answer."""
        return self._plane.request("POST", PATHS[resource["kind"]] + flags, resource)

    def created(self, resource: dict[str, Any]) -> dict[str, Any]:
        """Create a policy that must be accepted, and return it as it is read back."""
        status, answer = self.create(resource)
        assert status == 201, answer["message"]
        status, found = self._plane.request("GET", f"{PATHS[resource['kind']]}/{resource['metadata']['name']}")
        assert status == 200
        read: dict[str, Any] = found
        return read


# ------------------------------------------------------------------------------------------------ accepted, refused


@pytest.mark.parametrize("case", MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_policies_are_refused_with_the_path_of_the_field(policies: Policies, case: Case) -> None:
    status, answer = policies.create(case.policy(), TRY)
    assert status in (400, 422)
    assert case.path in answer["message"]
    error = decode_policy(case.policy()).error
    assert all(message in answer["message"] for message in rule_messages() if message in error)


@pytest.mark.parametrize("case", GOOD.values(), ids=GOOD.keys())
def test_good_policies_are_accepted_and_read_back_as_the_models_read_them(policies: Policies, case: Case) -> None:
    found = policies.created(case.policy())
    assert contains(found["spec"], case.policy()["spec"])
    read = decode_policy(found)
    assert not read.error
    assert read.spec == decode_policy(case.policy()).spec  # the server's defaults are the models' defaults
    assert (read.kind, read.name, read.generation) == (case.kind, case.name, 1)
    assert read.resource_version > 0


def contains(stored: Any, given: Any) -> bool:
    """Whether everything that was given is stored; defaults may be there besides."""
    if isinstance(given, dict):
        return all(key in stored and contains(stored[key], value) for key, value in given.items())
    if isinstance(given, list):
        return len(stored) == len(given) and all(map(contains, stored, given))
    return bool(stored == given)


def test_defaults_are_filled_in(policies: Policies) -> None:
    spec = {
        "nodes": {"scorers": [{"name": "deviceshare", "scoringStrategy": {"resources": [{"name": "x"}]}}]},
        "devices": {"exclusive": False},
        "nodeSelector": {},
    }
    found = policies.created(policy(spec))["spec"]
    assert found == {
        "priority": 0,
        "nodes": {
            "scorers": [
                {
                    "name": "deviceshare",
                    "scoringStrategy": {"type": "LeastAllocated", "resources": [{"name": "x", "weight": 1}]},
                }
            ]
        },
        "devices": {"exclusive": False},
        "nodeSelector": {},
    }
    weights = policies.created(policy({"devices": {"weights": {}}}, NAMESPACED))["spec"]["devices"]["weights"]
    assert weights == {"slots": 1, "memory": 1, "cores": 1}


def test_the_models_agree_with_the_api_server_about_random_policies(policies: Policies) -> None:
    dice = random.Random(11)
    accepted = 0
    for _ in range(400):
        resource = policy(random_spec(dice))
        status, answer = policies.create(resource, TRY)
        error = decode_policy(resource).error
        assert (status == 201) == (not error), f"{resource['spec']}\nAPI server: {answer}\nmodels: {error}"
        accepted += status == 201
    assert 80 < accepted < 320  # or the test says little


def test_a_quantity_that_takes_for_ever_to_compute_is_refused_at_once(policies: Policies) -> None:
    """The API server computes 1e99999999999 digit by digit until the request times out, if it gets that far."""
    started = time.monotonic()
    for section in ({"defaults": {"memory": "1e99999999999"}}, {"limits": {"memoryPerPod": "1E-9999999999"}}):
        status, answer = policies.create(policy(section), TRY)
        assert status == 422
        assert "must be a quantity" in answer["message"]
    assert time.monotonic() - started < 20


def test_unknown_fields_are_dropped_where_a_client_is_not_strict(policies: Policies) -> None:
    status, answer = policies.create(policy({"nodes": {"policy": "spread"}, "nodePolicy": "x"}), "")
    assert status == 201
    assert answer["spec"] == {"nodes": {"policy": "spread"}, "priority": 0}


def test_a_policy_that_is_changed_is_checked_as_well(policies: Policies, plane: ControlPlane) -> None:
    found = policies.created(policy({"nodes": {"policy": "spread"}}))
    found["spec"]["nodes"]["scorers"] = [{"name": "hami"}]
    status, answer = plane.request("PUT", f"{PATHS[CLUSTER]}/case", found)
    assert status == 422
    assert "spec.nodes: Invalid value: set exactly one of policy" in answer["message"]


# ----------------------------------------------------------------------------------------------------------- kubectl


@pytest.mark.parametrize(
    ("field", "said"),
    [
        (
            "vgpupolicy.spec.nodes.scorers",
            ["scorers whose weighted scores are added", "0 switches the scorer off", "-required-"],
        ),
        ("vgp.spec.devices.policy", ["mutex: only idle cards", "bestFit"]),
        ("clustervgpupolicy.spec", ["a policy of a namespace can tighten them", "namespaceSelector", "priority"]),
        ("cvgp", ["ClusterVGPUPolicy chooses how pods"]),
    ],
)
def test_kubectl_explain_is_the_manual(plane: ControlPlane, field: str, said: list[str]) -> None:
    until(lambda: plane.kubectl("explain", field, check=False).returncode == 0, f"kubectl explain {field}")
    text = " ".join(plane.kubectl("explain", field).stdout.split())
    for words in said:
        assert words in text


def test_kubectl_get_shows_what_users_look_for(policies: Policies, plane: ControlPlane) -> None:
    policies.created(policy({"nodes": {"policy": "binpack"}, "priority": 7}, NAMESPACED, "pack"))
    policies.created(policy({"nodes": {"policy": "spread"}}, CLUSTER, "all"))
    set_status(plane, f"{PATHS[NAMESPACED]}/pack")
    heading, row = plane.kubectl("get", "vgp").stdout.splitlines()
    assert heading.split() == ["NAME", "READY", "PRIORITY", "NODES", "DEVICES", "PODS", "AGE"]
    assert row.split()[:6] == ["pack", "True", "7", "binpack", "spread", "12"]
    heading, row = plane.kubectl("get", "vgp", "-o", "wide").stdout.splitlines()
    assert heading.split()[-1] == "REASON"
    assert row.split()[-2:] == ["mayPreempt", "Accepted"]
    (row,) = plane.kubectl("get", "cvgp", "--no-headers").stdout.splitlines()
    assert row.split()[:2] == ["all", "0"]  # no status yet
    both = plane.kubectl("get", "vgpu", "-o", "name").stdout.split()
    assert both == ["clustervgpupolicy.vgpu-scheduler.io/all", "vgpupolicy.vgpu-scheduler.io/pack"]


# ------------------------------------------------------------------------------------------------ status and rights


def set_status(plane: ControlPlane, path: str, user: str = "admin") -> dict[str, Any]:
    """Write a whole status as the operator would, and return the answer."""
    ready = PolicyCondition(
        type="Ready",
        status="True",
        reason="Accepted",
        message="in force for 12 pods",
        last_transition_time="2026-01-01T00:00:00Z",
        observed_generation=1,
    )
    evicted = EvictionEntry(time="2026-01-01T00:00:00Z", pod="team/p", uid="u", node="n")
    status = PolicyStatus(
        observed_generation=1,
        conditions=(ready,),
        pods=12,
        nodes="binpack",
        devices="spread",
        preemption="mayPreempt",
        evictions=(evicted,),
    )
    written = status.model_dump(by_alias=True, exclude_none=True, mode="json")
    _, found = plane.request("GET", path)
    code, answer = plane.request(
        "PUT", f"{path}/status?fieldValidation=Strict", {**found, "status": written}, user=user
    )
    assert code == 200, answer
    assert answer["status"] == written
    read: dict[str, Any] = answer
    return read


def test_status_and_spec_are_written_apart(policies: Policies, plane: ControlPlane) -> None:
    path = f"{PATHS[CLUSTER]}/case"
    found = policies.created({**policy({"nodes": {"policy": "binpack"}}), "status": {"pods": 99}})
    assert "status" not in found
    code, found = plane.request("PUT", path, {**found, "status": {"pods": 99}})
    assert (code, "status" in found) == (200, False)
    written = set_status(plane, path)
    assert written["metadata"]["generation"] == 1
    changed = {**written, "spec": {"nodes": {"policy": "spread"}}, "status": {**written["status"], "pods": 13}}
    code, found = plane.request("PUT", f"{path}/status", changed)
    assert code == 200
    assert (found["spec"]["nodes"], found["status"]["pods"]) == ({"policy": "binpack"}, 13)


def test_a_status_is_checked(policies: Policies, plane: ControlPlane) -> None:
    path = f"{PATHS[CLUSTER]}/case/status"
    found = policies.created(policy({"nodes": {"policy": "binpack"}}))
    for status, field in (({"conditions": [{"type": "Ready"}]}, "conditions[0].reason"), ({"pods": -1}, "pods")):
        code, answer = plane.request("PUT", path, {**found, "status": status})
        assert code == 422
        assert f"status.{field}" in answer["message"]


@pytest.fixture
def roles(plane: ControlPlane) -> Iterator[None]:
    """The shipped roles, bound: the tenant edits its namespace, the operator has its own role."""
    documents = [
        document
        for name in ("policy-roles.yaml", "rbac.yaml")
        for document in yaml.safe_load_all((ROOT / "manifests" / name).read_text())
        if document["kind"] == "ClusterRole"
    ]
    paths = [f"{RBAC}/clusterroles/{document['metadata']['name']}" for document in documents]
    for document in documents:
        assert plane.request("POST", f"{RBAC}/clusterroles", document)[0] == 201
    for name, role, user, scope in (
        ("t-edit", "vgpu-scheduler-policy-editor", TENANT, "namespaces/default/rolebindings"),
        ("t-view", "vgpu-scheduler-policy-viewer", TENANT, "clusterrolebindings"),
        ("t-operator", "vgpu-scheduler", OPERATOR, "clusterrolebindings"),
    ):
        binding = {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        }
        assert plane.request("POST", f"{RBAC}/{scope}", binding)[0] == 201
        paths.append(f"{RBAC}/{scope}/{name}")
    watched = [(TENANT, PATHS[CLUSTER]), (TENANT, PATHS[NAMESPACED]), (OPERATOR, PATHS[CLUSTER])]
    until(lambda: all(plane.request("GET", path, user=user)[0] == 200 for user, path in watched), "the roles' effect")
    yield
    for path in paths:
        plane.request("DELETE", path)


@pytest.mark.usefixtures("roles")
def test_a_tenant_writes_its_own_policies_only(policies: Policies, plane: ControlPlane) -> None:
    cluster, own = policy({"nodes": {"policy": "spread"}}, CLUSTER), policy({"nodes": {"policy": "spread"}}, NAMESPACED)
    assert plane.request("POST", PATHS[NAMESPACED], own, user=TENANT)[0] == 201
    assert plane.request("POST", PATHS[CLUSTER], cluster, user=TENANT)[0] == 403
    policies.created(cluster)
    assert plane.request("GET", f"{PATHS[CLUSTER]}/case", user=TENANT)[0] == 200
    assert plane.request("DELETE", f"{PATHS[CLUSTER]}/case", user=TENANT)[0] == 403
    assert plane.request("PUT", f"{PATHS[NAMESPACED]}/case/status", own, user=TENANT)[0] == 403
    assert plane.request("POST", f"{API}/namespaces/kube-system/vgpupolicies", own, user=TENANT)[0] == 403
    assert plane.request("DELETE", f"{PATHS[NAMESPACED]}/case", user=TENANT)[0] == 200


@pytest.mark.usefixtures("roles")
def test_the_operator_writes_the_status_only(policies: Policies, plane: ControlPlane) -> None:
    def may(verb: str, resource: str, *flags: str) -> bool:
        who = (f"--as={OPERATOR}", "--all-namespaces")
        answer = plane.kubectl("auth", "can-i", verb, resource, *who, *flags, check=False)
        return answer.stdout.strip() == "yes"

    for kind in ("vgpupolicies", "clustervgpupolicies"):
        assert may("watch", f"{kind}.vgpu-scheduler.io")
        assert may("patch", f"{kind}.vgpu-scheduler.io", "--subresource=status")
        assert not may("patch", f"{kind}.vgpu-scheduler.io")
        assert not may("delete", f"{kind}.vgpu-scheduler.io")
    assert may("watch", "namespaces")
    assert may("watch", "customresourcedefinitions.apiextensions.k8s.io")
    assert not may("get", "secrets")
