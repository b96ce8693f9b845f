"""The real control plane: users, the audit log, kubectl, service accounts and the empty cluster."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.apiserver.audit import end_of_lines, parse_lines

if TYPE_CHECKING:
    from tests.apiserver.control_plane import ControlPlane


def test_users_are_told_apart_and_counted(control_plane: ControlPlane) -> None:
    mark = control_plane.audit_mark()
    assert control_plane.request("GET", "/api/v1/nodes", user="scheduler")[0] == 403
    assert control_plane.request("GET", "/api/v1/nodes")[0] == 200
    refused, served = [record for record in control_plane.audit(since=mark) if record.resource == "nodes"]
    assert (refused.user, refused.verb, refused.code) == ("scheduler", "list", 403)
    assert (served.user, served.verb, served.code) == ("admin", "list", 200)
    assert served.user_agent.startswith("Python-urllib")


def test_kubectl_works(control_plane: ControlPlane) -> None:
    assert "default" in control_plane.kubectl("get", "namespaces", "-o", "name").stdout
    control_plane.kubectl(
        "apply", "-f", "-", stdin='{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"applied"}}'
    )
    failed = control_plane.kubectl("get", "nonsense", check=False)
    assert failed.returncode != 0


def test_the_empty_cluster_is_empty(empty_control_plane: ControlPlane) -> None:
    body = {"metadata": {"name": "n", "finalizers": []}}
    assert empty_control_plane.request("POST", "/api/v1/nodes", body)[0] == 201
    pod = {
        "metadata": {"name": "p", "finalizers": ["example.com/f"]},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
    }
    assert empty_control_plane.request("POST", "/api/v1/namespaces/default/pods", pod)[0] == 201
    empty_control_plane.clear()
    for path in ("/api/v1/nodes", "/api/v1/pods"):
        assert empty_control_plane.request("GET", path)[1]["items"] == []


def test_service_accounts_are_admitted(sa_control_plane: ControlPlane) -> None:
    sa_control_plane.create_namespace("team")
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    code, made = sa_control_plane.request("POST", "/api/v1/namespaces/team/pods", pod)
    assert code == 201
    assert made["spec"]["serviceAccountName"] == "default"
    assert made["spec"]["volumes"][0]["name"].startswith("kube-api-access-")
    path = "/api/v1/namespaces/team/serviceaccounts/default/token"
    token = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    assert sa_control_plane.request("POST", path, token)[0] == 201  # the generated key signs


def test_a_line_that_is_being_written_belongs_to_what_follows_the_mark() -> None:
    first, second = (audit_line(name) for name in ("one", "two"))
    half = first + second[:100]
    mark = end_of_lines(half)
    assert mark == len(first)
    assert [record.name for record in parse_lines(half)] == ["one"]
    assert [record.name for record in parse_lines((first + second)[mark:])] == ["two"]


def audit_line(name: str) -> bytes:
    """Return a line of the log for a read of the node."""
    event = {
        "verb": "get",
        "user": {"username": "admin"},
        "userAgent": "next line: \x85",
        "objectRef": {"resource": "nodes", "name": name},
        "responseStatus": {"code": 200},
        "requestURI": f"/api/v1/nodes/{name}",
        "requestReceivedTimestamp": "2026-11-25T21:00:00.000000Z",
        "stageTimestamp": "2026-11-25T21:00:00.000001Z",
    }
    return json.dumps(event, ensure_ascii=False).encode() + b"\n"
