"""What is read of Services and controllers: their selectors, and who they are."""

from __future__ import annotations

import json

import pytest

from vgpu_scheduler.kube import DecodeError, compile_label_selector, decode_selecting

WEB = {"app": "web"}
META = {"name": "web", "namespace": "ns", "uid": "u", "resourceVersion": "7", "labels": {"x": "y"}}
MORE = {"replicas": 3, "ports": [{"port": 80}], "template": {"spec": {}}, "clusterIP": "None"}


@pytest.mark.parametrize("kind", ["Service", "ReplicationController"])
def test_some_select_by_labels(kind: str) -> None:
    found = decode_selecting(kind, json.dumps({"metadata": META, "spec": {"selector": WEB, **MORE}}).encode())
    assert (found.kind, found.key, found.uid, found.resource_version) == (kind, "ns/web", "u", 7)
    assert found.selector == compile_label_selector({"matchLabels": WEB})


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet"])
def test_others_select_by_a_selector(kind: str) -> None:
    selector = {"matchLabels": WEB, "matchExpressions": [{"key": "rev", "operator": "Exists"}]}
    found = decode_selecting(kind, {"metadata": META, "spec": {"selector": selector, **MORE}})
    assert found.selector == compile_label_selector(selector)


@pytest.mark.parametrize("kind", ["Service", "ReplicaSet"])
def test_without_a_selector_nobody_is_selected(kind: str) -> None:
    assert decode_selecting(kind, {"metadata": META, "spec": dict(MORE)}).selector is None
    assert decode_selecting(kind, {"metadata": META}).selector is None


@pytest.mark.parametrize(
    ("kind", "selector", "field"),
    [
        ("Service", {"app": 1}, "spec.selector"),
        ("StatefulSet", {"matchExpressions": [{"key": "a", "operator": "Likes"}]}, "spec.selector"),
    ],
)
def test_what_cannot_be_understood_is_named(kind: str, selector: object, field: str) -> None:
    with pytest.raises(DecodeError) as raised:
        decode_selecting(kind, {"metadata": META, "spec": {"selector": selector}})
    assert field in str(raised.value)
    assert "ns/web" in str(raised.value)
