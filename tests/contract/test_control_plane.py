"""The real control plane: users, the audit log, kubectl, service accounts and the empty cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
