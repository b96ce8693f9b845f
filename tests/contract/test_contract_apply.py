"""Server-side apply, and what is said of fields that a kind does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.contract.client import container, pod

if TYPE_CHECKING:
    from tests.contract.client import Api, Object


def config(name: str = "c", labels: Object | None = None, **data: str) -> Object:
    metadata = {"name": name, **({"labels": labels} if labels else {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def owners(obj: Object) -> dict[tuple[str, str], Object]:
    return {(one["manager"], one["operation"]): one["fieldsV1"] for one in obj["metadata"].get("managedFields", ())}


async def test_an_apply_creates_and_owns(api: Api) -> None:
    made = (await api.apply(f"{api.maps}/c", config(labels={"l": "1"}, a="1"), "one")).created()
    assert made["data"] == {"a": "1"}
    expected = {"f:metadata": {"f:labels": {"f:l": {}}}, "f:data": {"f:a": {}}}
    assert owners(made) == {("one", "Apply"): expected}
    again = (await api.apply(f"{api.maps}/c", config(labels={"l": "1"}, a="1"), "one")).ok()
    assert again == made


async def test_what_is_left_out_is_given_up(api: Api) -> None:
    await api.apply(f"{api.maps}/c", config(labels={"l": "1", "m": "2"}, a="1", b="2"), "one")
    await api.apply(f"{api.maps}/c", config(b="2", c="3"), "two")
    left = (await api.apply(f"{api.maps}/c", config(a="1"), "one")).ok()
    assert left["data"] == {"a": "1", "b": "2", "c": "3"}  # the other one owns b, too
    assert "labels" not in left["metadata"]
    left = (await api.apply(f"{api.maps}/c", config(c="3"), "two")).ok()
    assert left["data"] == {"a": "1", "c": "3"}


async def test_a_field_of_another_is_a_conflict(api: Api) -> None:
    await api.apply(f"{api.maps}/c", config(a="1", b="2"), "one")
    refused = await api.apply(f"{api.maps}/c", config(a="9", b="2"), "two")
    assert (refused.code, refused.body["reason"]) == (409, "Conflict")
    assert refused.message == 'Apply failed with 1 conflict: conflict with "one": .data.a'
    cause = {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.a"}
    assert refused.body["details"]["causes"] == [cause]
    refused = await api.apply(f"{api.maps}/c", config(a="9", b="8"), "two")
    assert refused.message == 'Apply failed with 2 conflicts: conflicts with "one":\n- .data.a\n- .data.b'
    forced = (await api.apply(f"{api.maps}/c", config(a="9", b="2"), "two", force="true")).ok()
    assert forced["data"] == {"a": "9", "b": "2"}
    assert owners(forced)["one", "Apply"] == {"f:data": {"f:b": {}}}
    assert owners(forced)["two", "Apply"] == {"f:data": {"f:a": {}, "f:b": {}}}


async def test_who_changes_a_field_owns_it(api: Api) -> None:
    await api.apply(f"{api.maps}/c", config(a="1", b="2"), "one")
    changed = (await api.merge(f"{api.maps}/c", {"data": {"b": "9", "n": "x"}}, fieldManager="editor")).ok()
    assert owners(changed)["one", "Apply"] == {"f:data": {"f:a": {}}}
    assert owners(changed)["editor", "Update"] == {"f:data": {"f:b": {}, "f:n": {}}}
    refused = await api.apply(f"{api.maps}/c", config(a="1", b="2"), "one")
    assert refused.message == 'Apply failed with 1 conflict: conflict with "editor" using v1: .data.b'
    by_agent = (await api.merge(f"{api.maps}/c", {"data": {"z": "1"}})).ok()
    assert owners(by_agent)["contract", "Update"] == {"f:data": {"f:z": {}}}
    removed = (await api.merge(f"{api.maps}/c", {"data": {"n": None}}, fieldManager="third")).ok()
    assert owners(removed)["editor", "Update"] == {"f:data": {"f:b": {}}}


async def test_lists_with_keys_merge(api: Api) -> None:
    ports = [{"containerPort": 80}, {"containerPort": 81, "protocol": "UDP"}]
    applied = pod("a", containers=[{**container(), "ports": ports, "env": [{"name": "A", "value": "1"}]}])
    head = {"apiVersion": "v1", "kind": "Pod"}
    made = (await api.apply(f"{api.pods}/a", {**head, **applied}, "one")).created()
    fields = owners(made)["one", "Apply"]["f:spec"]["f:containers"]['k:{"name":"main"}']
    assert set(fields["f:ports"]) == {
        'k:{"containerPort":80,"protocol":"TCP"}',
        'k:{"containerPort":81,"protocol":"UDP"}',
    }
    image = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "main", "image": "other"}]}}
    refused = await api.apply(f"{api.pods}/a", {**head, **image}, "two")
    assert refused.message == ('Apply failed with 1 conflict: conflict with "one": .spec.containers[name="main"].image')
    (await api.apply(f"{api.pods}/a", {**head, **image}, "two", force="true")).ok()
    found = (await api.get(f"{api.pods}/a")).ok()["spec"]["containers"]
    assert [(one["image"], len(one["ports"])) for one in found] == [("other", 2)]


async def test_a_dry_run_applies_nothing(api: Api) -> None:
    assert (await api.apply(f"{api.maps}/c", config(a="1"), "one", dryRun="All")).code == 201
    assert (await api.get(f"{api.maps}/c")).code == 404


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        ({"kind": "ConfigMap"}, 400, "invalid object type"),
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"managedFields": [{}]}}, 400, "must be nil"),
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": ["c"]}, 500, ".metadata: expected map"),
        ({"apiVersion": "v1", "kind": "Secret"}, 400, ""),
        ({"apiVersion": "v1", "kind": "ConfigMap", "dta": {"a": "b"}}, 500, ".dta: field not declared in schema"),
    ],
)
async def test_what_cannot_be_applied(api: Api, body: Object, code: int, said: str) -> None:
    refused = await api.apply(f"{api.maps}/c", body, "one")
    assert refused.code == code
    assert said in refused.message


async def test_an_apply_names_its_manager(api: Api) -> None:
    refused = await api.request("PATCH", f"{api.maps}/c", config(), "application/apply-patch+yaml")
    assert refused.code == 422
    assert refused.message == (
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
    )


# ---------------------------------------------------------------------------------------------------- unknown fields


async def test_unknown_fields_are_dropped_and_told(api: Api) -> None:
    body = {**pod("a"), "spec": {**pod("a")["spec"], "nodeselector": {"a": "b"}}, "more": 1}
    made = await api.post(api.pods, body)
    assert sorted(made.warnings) == [
        '299 - "unknown field \\"more\\""',
        '299 - "unknown field \\"spec.nodeselector\\""',
    ]
    assert "nodeselector" not in made.created()["spec"]
    assert "more" not in made.body
    silent = await api.merge(f"{api.pods}/a", {"metadata": {"lables": {}}}, fieldValidation="Ignore")
    assert (silent.code, silent.warnings) == (200, ())


async def test_strict_validation_refuses(api: Api) -> None:
    body = {**pod("a"), "more": 1}
    refused = await api.post(api.pods, body, fieldValidation="Strict")
    assert (refused.code, 'strict decoding error: unknown field "more"' in refused.message) == (400, True)
    await api.pod("a")
    for patch in (api.merge, api.strategic):
        refused = await patch(f"{api.pods}/a", {"metadata": {"lables": {}}}, fieldValidation="Strict")
        assert refused.code == 422
        assert 'strict decoding error: unknown field "metadata.lables"' in refused.message
    refused = await api.post(api.pods, body, fieldValidation="Sometimes")
    assert refused.code == 422


@pytest.mark.parametrize("body", [b"", b"{}", b"k8s\0\x0a", b"k8s\0\x0a\xff", b"k8s\0\x0f\x01"])
async def test_malformed_protobuf_is_refused(api: Api, body: bytes) -> None:
    refused = await api.request("POST", api.maps, body, "application/vnd.kubernetes.protobuf")
    assert 400 <= refused.code < 500
