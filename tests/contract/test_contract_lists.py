"""Lists of several kinds by kubectl, and namespaces that are deleted with what is in them: both servers do the same."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from tests.contract.kubectl import pod

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.contract.client import Server
    from tests.contract.kubectl import Kubectl

Object = dict[str, Any]

pytestmark = pytest.mark.long

THINGS: dict[str, Object] = {
    "configmaps": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}},
    "pods": {key: value for key, value in pod("a").items() if key != "metadata"},
    "resourcequotas": {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": {"pods": "7"}}},
    "leases": {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"holderIdentity": "me"}},
    "poddisruptionbudgets": {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": {"minAvailable": 1}},
}
"""Claims are not here: their protection holds them until another controller has looked at them."""
GROUPS = [names for size in (1, 2, 3) for names in itertools.combinations(THINGS, size)]
LATE = "because it is being terminated"


def thing(name: str, of: str = "a", namespace: str = "", **metadata: object) -> Object:
    where = {"namespace": namespace} if namespace else {}
    return {**THINGS[name], "metadata": {"name": of, **where, **metadata}}


def as_list(*items: Object) -> Object:
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


def two_each(names: tuple[str, ...], namespace: str = "") -> Object:
    return as_list(*(thing(name, of, namespace) for name in names for of in ("a", "b")))


@pytest.mark.parametrize("names", GROUPS, ids="+".join)
def test_a_list_is_applied_got_and_deleted(kubectl: Kubectl, names: tuple[str, ...]) -> None:
    what = two_each(names)
    applied = kubectl("apply", "-f", "-", stdin=what).splitlines()
    assert len(applied) == 2 * len(names)
    assert all(line.endswith(" created") for line in applied)
    again = kubectl("apply", "-f", "-", stdin=what).splitlines()
    assert all(line.endswith((" unchanged", " configured")) for line in again)
    got = kubectl("get", "-f", "-", "-o", "name", stdin=what).splitlines()
    assert [line.rpartition("/")[2] for line in got] == ["a", "b"] * len(names)
    assert "AlreadyExists" in kubectl.fails("create", "-f", "-", stdin=what)
    kubectl("delete", "-f", "-", "--timeout=30s", stdin=what)
    for name in names:
        assert "/a" not in kubectl("get", name, "-o", "name")


@pytest.mark.parametrize("name", THINGS)
def test_a_list_is_created_and_applied_by_the_server(kubectl: Kubectl, name: str) -> None:
    what = two_each((name,))
    assert len(kubectl("create", "-f", "-", stdin=what).splitlines()) == 2
    applied = kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=what).splitlines()
    assert all(line.endswith(" serverside-applied") for line in applied)


@pytest.mark.parametrize("command", [("create",), ("apply",), ("apply", "--server-side")], ids=" ".join)
@pytest.mark.parametrize("name", THINGS)
def test_an_item_with_an_unknown_field_is_refused(kubectl: Kubectl, name: str, command: tuple[str, ...]) -> None:
    what = as_list(thing(name), {**thing(name, "b"), "nonsense": 1})
    assert "nonsense" in kubectl.fails(*command, "-f", "-", stdin=what)


def test_lists_of_nothing_and_of_nobody(kubectl: Kubectl) -> None:
    assert "no objects passed" in kubectl.fails("apply", "-f", "-", stdin=as_list())
    stranger = {"apiVersion": "example.com/v1", "kind": "Stranger", "metadata": {"name": "a"}}
    refused = kubectl.fails("apply", "-f", "-", stdin=as_list(thing("configmaps"), stranger))
    assert 'no matches for kind "Stranger"' in refused


# ------------------------------------------------------------------------------------------------- namespaces that end


@pytest.fixture
def ends(server: Server, request: pytest.FixtureRequest) -> Iterator[None]:
    """The controller that ends namespaces; the embedded server does it itself."""
    if server.name == "devcluster":
        yield
        return
    with request.getfixturevalue("control_plane").controllers("namespace-controller"):
        yield


@pytest.mark.parametrize("names", [(), *((name,) for name in THINGS), tuple(THINGS)], ids="+".join)
def test_a_deleted_namespace_goes_with_what_is_in_it_and_comes_back_empty(
    kubectl: Kubectl, ends: None, names: tuple[str, ...]
) -> None:
    namespace = f"{kubectl.namespace}-ends"
    kubectl("create", "namespace", namespace)
    for item in two_each(names, namespace)["items"]:
        kubectl("create", f"--namespace={namespace}", "-f", "-", stdin=item)
    kubectl("delete", "namespace", namespace, "--timeout=60s")
    assert "not found" in kubectl.fails("get", "namespace", namespace)
    kubectl("create", "namespace", namespace)
    assert kubectl.get("namespace", namespace)["status"] == {"phase": "Active"}
    for name in THINGS:
        assert "/a" not in kubectl("get", name, f"--namespace={namespace}", "-o", "name")


@pytest.mark.parametrize("name", THINGS)
def test_what_has_a_finalizer_holds_its_namespace(kubectl: Kubectl, ends: None, name: str) -> None:
    namespace = f"{kubectl.namespace}-held"
    kubectl("create", "namespace", namespace)
    for item in (thing(name, "held", namespace, finalizers=["example.com/hold"]), thing(name, "free", namespace)):
        kubectl("create", f"--namespace={namespace}", "-f", "-", stdin=item)
    kubectl("delete", "namespace", namespace, "--wait=false")
    kubectl("wait", f"--namespace={namespace}", "--for=delete", f"{name}/free", "--timeout=30s")
    assert kubectl.get("namespace", namespace)["status"]["phase"] == "Terminating"
    late = thing("configmaps", "late", namespace)
    assert LATE in kubectl.fails("create", f"--namespace={namespace}", "-f", "-", stdin=late)
    patch = '{"metadata":{"finalizers":null}}'
    kubectl("patch", name, "held", f"--namespace={namespace}", "--type=merge", "-p", patch)
    kubectl("wait", "--for=delete", f"namespace/{namespace}", "--timeout=60s")
