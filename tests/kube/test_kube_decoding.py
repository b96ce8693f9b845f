"""From the API's JSON to values."""

import json
from typing import Any

import pytest
from tests.kube.objects import container, node, pod

from vgpu_scheduler.kube import (
    Condition,
    DecodeError,
    HostPort,
    decode_event,
    decode_items,
    decode_node,
    decode_page,
    decode_pod,
)
from vgpu_scheduler.model import ContainerType


def as_json(obj: object) -> bytes:
    return json.dumps(obj).encode()


def test_pod() -> None:
    obj = pod(
        container(cpu="1500m", memory="1Gi"),
        initContainers=[{"name": "side", "restartPolicy": "Always"}, {"name": "init"}],
        schedulerName="vgpu-scheduler",
        nodeName="n1",
        priority=5,
        preemptionPolicy="Never",
        status={
            "phase": "Running",
            "nominatedNodeName": "n2",
            "conditions": [
                {"type": "Ready", "status": "True"},
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1"},
            ],
            "containerStatuses": [{"name": "main", "state": {"running": {}}}],
        },
    )
    obj["metadata"] |= {
        "labels": {"app": "a"},
        "annotations": {"k": "v"},
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "deletionTimestamp": "2026-01-02T00:00:00Z",
    }
    value = decode_pod(obj)
    assert (value.uid, value.key, value.resource_version) == ("uid-p", "ns/p", 7)
    assert (value.labels, value.annotations) == ({"app": "a"}, {"k": "v"})
    assert (value.scheduler_name, value.node_name, value.nominated_node_name) == ("vgpu-scheduler", "n1", "n2")
    assert (value.phase, value.priority, value.preemption_policy) == ("Running", 5, "Never")
    assert (value.creation_timestamp, value.deleting, value.started) == ("2026-01-01T00:00:00Z", True, True)
    assert value.scheduled_condition == Condition("False", "Unschedulable", "0/1")
    assert not value.terminal
    assert [(c.name, c.type) for c in value.spec.containers] == [
        ("side", ContainerType.SIDECAR),
        ("init", ContainerType.INIT),
        ("main", ContainerType.APP),
    ]
    assert [c.name for c in value.spec.init_containers] == ["init"]
    assert value.spec.requests == {"cpu": 1500, "memory": 1 << 30}
    assert value.used_requests is value.spec.requests
    assert decode_pod(as_json(obj)) == value


def test_defaults_of_a_bare_pod() -> None:
    value = decode_pod({"metadata": {"name": "p", "labels": None}, "spec": {"containers": [{"name": "c"}]}})
    assert (value.resource_version, value.priority, value.node_name, value.phase) == (0, 0, "", "")
    assert (value.scheduler_name, value.preemption_policy) == ("default-scheduler", "PreemptLowerPriority")
    assert (value.labels, value.annotations, value.started, value.deleting) == ({}, {}, False, False)
    assert value.scheduled_condition is None


@pytest.mark.parametrize(("phase", "terminal"), [("Pending", False), ("Succeeded", True), ("Failed", True)])
def test_terminal(phase: str, *, terminal: bool) -> None:
    assert decode_pod(pod(status={"phase": phase})).terminal is terminal


def test_node() -> None:
    obj = node(
        "n1",
        labels={"zone": "a"},
        unschedulable=True,
        taints=[{"key": "gpu", "effect": "NoSchedule"}],
        allocatable={"cpu": "3920m", "nvidia.com/gpu": "80", "memory": "1500m", "storage": "1"},
        status={"conditions": [{"type": "Ready", "status": "False"}]},
    )
    value = decode_node(obj)
    assert (value.name, value.uid, value.resource_version) == ("n1", "uid-n1", 9)
    assert value.allocatable == {
        "cpu": 3920, "memory": 2, "ephemeral-storage": 100 << 30, "pods": 110, "nvidia.com/gpu": 80,
    }  # fmt: skip
    assert (value.unschedulable, value.ready, value.deleting) == (True, False, False)
    assert [(t.key, t.value, t.effect) for t in value.taints] == [("gpu", "", "NoSchedule")]
    assert decode_node(as_json(obj)) == value
    assert decode_node(node()).ready is None


@pytest.mark.parametrize(
    ("obj", "kind", "key", "field"),
    [
        (pod(container(cpu="1K")), "Pod", "ns/p", "spec.containers[0].resources.requests[cpu]"),
        (
            pod(initContainers=[container("i", cpu="x")]),
            "Pod",
            "ns/p",
            "spec.initContainers[0].resources.requests[cpu]",
        ),
        (pod(overhead={"cpu": "NaN"}), "Pod", "ns/p", "spec.overhead[cpu]"),
        (pod(resources={"requests": {"memory": "1 Gi"}}), "Pod", "ns/p", "spec.resources.requests[memory]"),
        (pod(priority="high"), "Pod", "ns/p", "spec.priority"),
        (pod({"image": "x"}), "Pod", "ns/p", "spec.containers[0]"),
        ({"metadata": {"name": "p"}}, "Pod", "p", ""),
        ({"metadata": 1}, "Pod", "", "metadata"),
        ({"spec": {"containers": []}}, "Pod", "", ""),
    ],
)
def test_undecodable_pod(obj: dict[str, Any], kind: str, key: str, field: str) -> None:
    for form in (obj, as_json(obj)):
        with pytest.raises(DecodeError) as caught:
            decode_pod(form)
        assert (caught.value.kind, caught.value.key, caught.value.field) == (kind, key, field)
        assert key in str(caught.value)
        assert field in str(caught.value)


def test_bad_limit_is_found_though_only_requests_are_summed() -> None:
    broken = {"name": "c", "resources": {"limits": {"nvidia.com/gpumem": "4096MB"}}}
    with pytest.raises(DecodeError, match=r"spec\.containers\[0\]\.resources\.limits\[nvidia\.com/gpumem\].*'4096MB'"):
        decode_pod(pod(broken))


def test_undecodable_node() -> None:
    with pytest.raises(DecodeError, match=r"Node n: status\.allocatable\[cpu\]: 'lots' is not a quantity"):
        decode_node(node(allocatable={"cpu": "lots"}))
    broken = node()
    broken["metadata"]["resourceVersion"] = "v1"
    with pytest.raises(DecodeError, match=r"Node n: metadata\.resourceVersion"):
        decode_node(broken)


@pytest.mark.parametrize("data", [b"", b"{", b'{"metadata": {"name": "\xff"}}', b"[]"])
def test_garbage(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_pod(data)


def test_lists() -> None:
    page = {"metadata": {"resourceVersion": "42", "continue": "next"}, "items": [pod(name="a"), pod(name="b")]}
    pods = decode_page(as_json(page))
    assert (pods.resource_version, pods.continue_token) == ("42", "next")
    assert [found.name for found in decode_items(pods, decode_pod)] == ["a", "b"]
    nodes = decode_page(as_json({"metadata": {"resourceVersion": "1"}, "items": [node("x")]}))
    assert (nodes.resource_version, nodes.continue_token) == ("1", "")
    assert [found.name for found in decode_items(nodes, decode_node)] == ["x"]
    assert decode_items(decode_page(as_json({"metadata": {}, "items": None})), decode_node) == []


def test_a_bad_item_of_a_list_is_named() -> None:
    page = decode_page(as_json({"metadata": {}, "items": [pod(name="good"), pod(name="bad", priority="x")]}))
    with pytest.raises(DecodeError, match=r"Pod ns/bad: spec\.priority"):
        decode_items(page, decode_pod)


def test_events() -> None:
    event = decode_event(as_json({"type": "MODIFIED", "object": pod(name="a")}), decode_pod)
    assert event.object is not None
    assert (event.type, event.object.name, event.resource_version, event.status) == ("MODIFIED", "a", "7", None)
    bookmark = decode_event(
        as_json({"type": "BOOKMARK", "object": {"kind": "Node", "metadata": {"resourceVersion": "99"}}}), decode_node
    )
    assert (bookmark.type, bookmark.object, bookmark.resource_version) == ("BOOKMARK", None, "99")
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    error = decode_event(as_json({"type": "ERROR", "object": status}), decode_node)
    assert error.status is not None
    assert (error.object, error.status.code, error.status.reason) == (None, 410, "Expired")
    assert decode_event(as_json({"type": "DELETED", "object": node("x")}), decode_node).object == decode_node(node("x"))
    with pytest.raises(DecodeError, match="Pod ns/a"):
        decode_event(as_json({"type": "ADDED", "object": pod(name="a", priority="x")}), decode_pod)


def test_host_ports() -> None:
    ports = [{"containerPort": 1}, {"hostPort": 80, "hostIP": "10.0.0.1", "protocol": "UDP"}]
    value = decode_pod(
        pod(
            {"name": "c", "ports": ports},
            initContainers=[
                {"name": "i", "ports": [{"hostPort": 1}]},
                {"name": "s", "restartPolicy": "Always", "ports": [{"hostPort": 443}]},
            ],
        )
    )
    assert value.spec.host_ports == (
        HostPort("TCP", "0.0.0.0", 443),
        HostPort("UDP", "10.0.0.1", 80),
    )
