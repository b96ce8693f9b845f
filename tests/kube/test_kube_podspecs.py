"""What pods share, what they ask for, and what they hold."""

import gc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kube.objects import container, pod
from tests.naive import predicates as naive

from vgpu_scheduler.kube import Pod, PodSpec, decode_pod
from vgpu_scheduler.model import BoundedCache


def test_equal_specs_are_one_object() -> None:
    def member(index: int, **more: object) -> Pod:
        token = {"name": f"kube-api-access-{index}", "projected": {"sources": []}}
        obj = pod(container(cpu="1"), name=f"p-{index}", volumes=[token], nodeSelector={"a": "b"}, **more)
        obj["spec"]["containers"][0]["env"] = [{"name": "INDEX", "value": str(index)}]
        return decode_pod(obj)

    one, two = member(1), member(2, nodeName="n", priority=3, schedulerName="other")
    assert one.spec is two.spec
    assert len(one.spec.fingerprint) == 16
    without_volumes = decode_pod(pod(container(cpu="1"), nodeSelector={"a": "b"}))
    assert without_volumes.spec is one.spec


@pytest.mark.parametrize(
    "change",
    [
        {"nodeSelector": {"a": "c"}},
        {"tolerations": [{"operator": "Exists"}]},
        {"affinity": {"nodeAffinity": {naive.REQUIRED: {"nodeSelectorTerms": []}}}},
        {"affinity": {"podAntiAffinity": {naive.REQUIRED: [{}]}}},
        {"overhead": {"cpu": "1"}},
        {"resources": {"requests": {"cpu": "9"}}},
        {"schedulingGates": [{"name": "g"}]},
        {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]},
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
        {"resourceClaims": [{"name": "c"}]},
        {"schedulingGroup": {"compositePodGroupName": "g"}},
        {"hostNetwork": True, "hostUsers": False},
        {"initContainers": [{"name": "i"}]},
    ],
)
def test_what_matters_is_told_apart(change: dict[str, Any]) -> None:
    plain, changed = decode_pod(pod()), decode_pod(pod(**change))
    assert plain.spec is not changed.spec
    assert plain.spec.fingerprint != changed.spec.fingerprint


def test_identity_outlives_the_table_of_recent_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    recent: BoundedCache[bytes, PodSpec] = BoundedCache(0)  # all are heavy: two are kept
    monkeypatch.setattr("vgpu_scheduler.kube.podspecs._recent", recent)
    first = decode_pod(pod(nodeSelector={"shape": "first"}))
    for index in range(5):
        decode_pod(pod(nodeSelector={"shape": str(index)}))
    gc.collect()
    assert len(recent) == 2
    assert recent.get(first.spec.fingerprint) is None
    assert decode_pod(pod(nodeSelector={"shape": "first"})).spec is first.spec


def test_requests_round_once_and_skip_zeros_and_unknown_names() -> None:
    value = decode_pod(
        pod(
            container("a", cpu="0.0005", memory="0.5"),
            {"name": "b", "resources": {"requests": {
                "cpu": "0.0005", "memory": "0.25", "nvidia.com/gpu": "0", "storage": "1", "requests.x/y": "1",
                "example.com/fpga": "1", "hugepages-2Mi": "4Mi",
            }}},
        )
    )  # fmt: skip
    assert value.spec.requests == {"cpu": 1, "memory": 1, "example.com/fpga": 1, "hugepages-2Mi": 4 << 20}


QUANTITIES = st.sampled_from(["0", "1", "0.5", "100m", "1500m", "2", "1u", "3k"])
REQUESTS = st.dictionaries(st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), QUANTITIES, max_size=3)
CONTAINERS = st.lists(REQUESTS, min_size=1, max_size=3)
INITS = st.lists(st.tuples(REQUESTS, st.booleans()), max_size=4)
POD_LEVEL = st.dictionaries(st.sampled_from(["cpu", "memory"]), QUANTITIES, max_size=2)


@given(CONTAINERS, INITS, POD_LEVEL, REQUESTS)
def test_requests_are_the_peak_over_the_phases(
    apps: list[Any], inits: list[Any], pod_level: dict[str, str], overhead: dict[str, str]
) -> None:
    obj = pod(
        *({"name": f"c{i}", "resources": {"requests": r}} for i, r in enumerate(apps)),
        initContainers=[
            {"name": f"i{i}", "resources": {"requests": r}, **({"restartPolicy": "Always"} if sidecar else {})}
            for i, (r, sidecar) in enumerate(inits)
        ],
        resources={"requests": pod_level},
        overhead=overhead,
    )
    expected = {name: naive.units(name, value) for name, value in naive.requests(obj).items() if value}
    assert decode_pod(obj).spec.requests == expected


def resized(status: dict[str, Any], *, reason: str = "") -> dict[str, int]:
    conditions = [{"type": "PodResizePending", "status": "True", "reason": reason}] if reason else []
    entry = {"name": "main", **status}
    value = decode_pod(
        pod(container(cpu="2"), nodeName="n", status={"containerStatuses": [entry], "conditions": conditions})
    )
    return dict(value.used_requests)


@pytest.mark.parametrize(
    ("status", "reason", "cpu"),
    [
        ({}, "", 2000),
        ({"allocatedResources": {"cpu": "4"}}, "", 2000),  # without status.resources nothing is compared
        ({"resources": {}}, "", 2000),
        ({"resources": {"requests": {"cpu": "2"}}, "allocatedResources": {"cpu": "2"}}, "", 2000),
        ({"resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "2"}}, "", 3000),
        ({"resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "4"}}, "", 4000),
        ({"resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "1"}}, "Deferred", 2000),
        ({"resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "1500m"}}, "Infeasible", 1500),
    ],
)
def test_resize(status: dict[str, Any], reason: str, cpu: int) -> None:
    assert resized(status, reason=reason) == {"cpu": cpu}


def test_resize_of_sidecars_counts_and_of_init_containers_does_not() -> None:
    grown = {"resources": {"requests": {"cpu": "9"}}}
    statuses = {"phase": "Running", "initContainerStatuses": [{"name": "x", **grown}]}
    sidecar = {**container("x", cpu="1"), "restartPolicy": "Always"}
    assert decode_pod(pod(initContainers=[sidecar], status=statuses)).used_requests == {"cpu": 9000}
    assert decode_pod(pod(initContainers=[container("x", cpu="1")], status=statuses)).used_requests == {"cpu": 1000}


@pytest.mark.parametrize(("reason", "cpu"), [("", 5000), ("Infeasible", 3000)])
def test_resize_at_pod_level(reason: str, cpu: int) -> None:
    conditions = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    value = decode_pod(
        pod(
            container(cpu="1"),
            resources={"requests": {"cpu": "5"}},
            status={
                "conditions": conditions,
                "containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
                "resources": {"requests": {"cpu": "3"}},
                "allocatedResources": {"cpu": "2", "memory": "1Gi"},
            },
        )
    )
    assert value.used_requests == {"cpu": cpu}
