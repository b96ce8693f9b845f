"""Simulations: pods as they would be created, in a world that may have its faults."""

from __future__ import annotations

from typing import Any

import pytest
from tests.whatif.test_whatif_forms import NODE, PLACED, POD

from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.whatif import InvalidObjectsError, PodResult, World, flatten, make_dialect, pods_of, simulate


def world(*objects: dict[str, Any]) -> World:
    made = World(EngineOptions([make_dialect("hami")]))
    made.add(objects)
    return made


def asked(name: str = "p", *, memory: int = 1024, **spec: Any) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(memory)}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "uid": spec.pop("uid", None)},
        "spec": {"containers": [{"name": "c", "resources": {"limits": limits}}], **spec},
    }


def answers(made: World, *pods: dict[str, Any]) -> list[tuple[str, str]]:
    return [(answer.pod.name, answer.node) for answer in simulate(made, map(made.pod, pods))]


def test_pods_come_by_priority_then_in_order() -> None:
    pods = [asked("low"), asked("urgent", priority=5), asked("low-too"), asked("named", priorityClassName="system-x")]
    made = world(NODE, {"kind": "PriorityClass", "metadata": {"name": "system-x"}, "value": 9})
    assert [name for name, _ in answers(made, *pods)] == ["named", "urgent", "low", "low-too"]


def test_each_finds_what_those_before_it_took() -> None:
    pods = [asked(str(number), memory=15000) for number in range(3)]
    assert answers(world(NODE), *pods) == [("0", "full"), ("1", "full"), ("2", "")]


def test_a_pod_that_found_no_place_is_not_tried_again() -> None:
    made = world()
    assert answers(made, asked("early")) == [("early", "")]
    made.add([NODE])
    late = [asked(str(number)) for number in range(9)]  # so many that the early one's time to wait is over
    assert answers(made, *late) == [(str(number), "full") for number in range(9)]


def test_a_pod_that_runs_already_is_asked_about_as_one_more() -> None:
    running = {**PLACED, "metadata": {**PLACED["metadata"], "uid": "same", "resourceVersion": "7"}}
    assert answers(world(NODE, running), running) == [("there", "")]
    assert answers(world(NODE), running) == [("there", "full")]
    assert answers(world(NODE), asked("a", uid="same"), asked("b", uid="same")) == [("a", "full"), ("b", "full")]
    ended = {**running, "status": {"phase": "Succeeded"}}
    assert answers(world(NODE, ended), ended) == [("there", "full")]


def test_pods_of_other_schedulers_are_asked_about_too() -> None:
    assert answers(world(NODE), asked(schedulerName="default-scheduler")) == [("p", "full")]


def test_a_gated_pod_is_answered() -> None:
    made = world(NODE)
    gated, free = simulate(made, map(made.pod, (asked("free"), asked("gated", schedulingGates=[{"name": "x"}]))))[::-1]
    assert (free.node, gated.node) == ("full", "")
    assert gated.decision.message == "waiting for scheduling gates: [x]"
    assert gated.as_json()["outcome"] == "gated"


def test_answers_are_plain_values() -> None:
    made = world(NODE)
    (answer,) = simulate(made, [made.pod(asked())])
    found = answer.as_json()
    assert (found["pod"], found["outcome"], found["node"], found["message"]) == ("default/p", "placed", "full", "")
    amounts, units = {"slots": 1, "memory": 1024, "cores": 0}, {"slots": "shares", "memory": "MiB", "cores": "percent"}
    assert found["containers"] == [[{"vendor": "NVIDIA", "device": "x", "amounts": amounts, "units": units}]]
    assert found["scores"] == {"full": [{"scorer": "hami", "raw": 0, "normalised": 0, "weight": 1, "value": 0}]}
    assert found["policy"] == {"devices": "settings", "nodes": "settings"}
    assert found["annotations"]["hami.io/vgpu-devices-allocated"] == "x,NVIDIA,1024,0:;"


# A world with faults -------------------------------------------------------------------------------------------------


def test_what_a_cluster_may_contain_is_told_and_does_not_stop_it() -> None:
    broken = {"kind": "ClusterVGPUPolicy", "metadata": {"name": "x"}, "spec": {"limits": {"devicesPerPod": "many"}}}
    unreadable = {**PLACED, "metadata": {"name": "u", "namespace": "n"}}
    lost = {**PLACED, "spec": {**PLACED["spec"], "nodeName": "gone"}}
    ghost = {**PLACED, "metadata": {"name": "g", "annotations": {
        "hami.io/vgpu-node": "full", "hami.io/vgpu-devices-allocated": "y,NVIDIA,1,0:;"}}}  # fmt: skip
    bad = {"kind": "Node", "metadata": {"name": "bad", "annotations": {"hami.io/node-nvidia-register": "[x"}}}
    made = world(NODE, bad, broken, unreadable, lost, ghost, {"kind": "Secret", "metadata": {"name": "s"}})
    assert [problem.text.split(": ")[0] for problem in made.problems] == [
        "ClusterVGPUPolicy x",
        "Node bad",
        "Pod n/u",
        "Pod default/there",
        "Pod default/g",
    ]
    assert made.ignored == {"Secret": 1}
    (answer,) = simulate(made, [made.pod(asked())])
    assert "PolicyNotReady: ClusterVGPUPolicy x: spec.limits.devicesPerPod" in answer.decision.message


def test_quotas_hold_as_in_a_cluster() -> None:
    limit = {"kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"limits.nvidia.com/gpumem": "1500"}}}
    made = world(limit, NODE)
    (first, second) = simulate(made, [made.pod(asked()), made.pod(asked("q"))])
    assert (first.node, second.node) == ("full", "")
    assert "ResourceQuotaNotFit" in second.decision.message
    assert made.ignored == {}
    broken = {**limit, "spec": {"hard": {"limits.nvidia.com/gpumem": "many"}}}
    made = world(NODE, broken)
    assert answers(made, asked()) == [("p", "")]
    assert [problem.text.split(": ")[0] for problem in made.problems] == ["ResourceQuota default/q"]
    with pytest.raises(InvalidObjectsError, match="ResourceQuota default/q"):
        World(EngineOptions([make_dialect("hami")]), strict=True).add([broken])


def test_a_namespace_that_is_not_there_has_no_labels() -> None:
    spec = {"namespaceSelector": {"matchLabels": {"tier": "x"}}, "limits": {"devicesPerPod": 0}}
    limit = {"kind": "ClusterVGPUPolicy", "metadata": {"name": "limit"}, "spec": spec}
    assert answers(world(NODE), asked()) == [("p", "full")]
    made = world(NODE, limit)
    assert answers(made, asked(), asked("q")) == [("p", "full"), ("q", "full")]
    assert [str(each) for each in made.problems] == [
        "Namespace default does not exist: it is assumed to have no labels"
    ]
    made = world(NODE, limit, {"kind": "Namespace", "metadata": {"name": "default", "labels": {"tier": "x"}}})
    assert answers(made, asked()) == [("p", "")]
    assert made.problems == []


def test_a_policy_of_a_later_file_replaces_its_namesake() -> None:
    def limit(most: int, version: str) -> dict[str, Any]:
        metadata = {"name": "limit", "uid": f"u{version}", "resourceVersion": version}
        return {"kind": "ClusterVGPUPolicy", "metadata": metadata, "spec": {"limits": {"devicesPerPod": most}}}

    assert answers(world(NODE, limit(0, "230"), limit(1, "")), asked()) == [("p", "full")]
    assert answers(world(NODE, limit(1, "230"), limit(0, "7")), asked()) == [("p", "")]


def test_pods_that_are_not_bound_do_not_count() -> None:
    waiting = {**PLACED, "spec": {"containers": PLACED["spec"]["containers"]}}
    assert answers(world(NODE, waiting), asked(memory=40960)) == [("p", "full")]


@pytest.mark.parametrize(
    ("obj", "says"),
    [
        (5, "'5' is not a Kubernetes object"),
        ({"kind": "Pod"}, "Pod: metadata is missing"),
        ({**PLACED, "spec": {"nodeName": "n", "containers": [{"name": "c", "ports": [{"hostPort": 2**70}]}]}},
         "Pod default/there: spec.containers[0].ports[0].hostPort: 1180591620717411303424 is beyond 64 bits"),
        ({}, "an object: metadata is missing"),
        ({**NODE, "status": {"allocatable": {"cpu": "many"}}}, "Node full: status.allocatable[cpu]: 'many'"),
        ({**PLACED, "spec": {**PLACED["spec"], "containers": [{"name": "c", "resources": {"requests": {"cpu": "x"}}}]}},
         "Pod default/there: spec.containers[0].resources.requests[cpu]: 'x' is not a quantity"),
    ],
)  # fmt: skip
def test_what_no_api_server_would_say_is_an_error(obj: Any, says: str) -> None:
    with pytest.raises(InvalidObjectsError) as caught:
        World(EngineOptions([make_dialect("hami")]), strict=True).add([obj])
    assert says in str(caught.value)
    if isinstance(obj, dict):
        (problem,) = world(obj).problems
        assert says in problem.text
        assert problem.text.endswith(": it is ignored, as by the scheduler")


def test_lists_are_taken_apart_in_an_order_that_makes_sense() -> None:
    policy = {"kind": "ClusterVGPUPolicy", "metadata": {"name": "x"}}
    rank = {"kind": "PriorityClass", "metadata": {"name": "x"}}
    nested = {"kind": "List", "items": [PLACED, rank, {"kind": "NodeList", "items": [NODE]}, policy]}
    assert [obj["kind"] for obj in flatten([nested])] == ["PriorityClass", "ClusterVGPUPolicy", "Node", "Pod"]


@pytest.mark.parametrize("empty", ["", None])
def test_an_empty_namespace_is_the_default_one(empty: str | None) -> None:
    def unnamed(obj: dict[str, Any]) -> dict[str, Any]:
        return {**obj, "metadata": {**obj["metadata"], "namespace": empty}}

    quota = {"kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"requests.nvidia.com/gpu": "9"}}}
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": {}}
    made = world(NODE, *map(unnamed, (PLACED, quota, claim)))
    assert not made.problems
    key = f"default/{PLACED['metadata']['name']}"
    assert key in made.pods
    assert made.pod(unnamed(asked())).namespace == "default"
    assert [each["metadata"]["name"] for each in made.quotas_of("default")] == ["q"]
    assert "default/c" in made.engine.state.volumes.objects.claims
    for each in flatten([unnamed(workload("Deployment", 1))]):
        (pod,) = pods_of(each)
        assert made.pod(pod).namespace == "default"


@pytest.mark.parametrize("namespace", ["", None, "elsewhere"])
def test_the_pods_of_a_workload_are_in_its_namespace_whatever_its_template_says(namespace: str | None) -> None:
    deployment = workload("Deployment", 1, namespace="team")
    deployment["spec"]["template"]["metadata"]["namespace"] = namespace
    assert [pod["metadata"]["namespace"] for pod in pods_of(deployment)] == ["team"]


# Workloads -----------------------------------------------------------------------------------------------------------


def workload(kind: str, number: Any, **metadata: Any) -> dict[str, Any]:
    field = "parallelism" if kind == "Job" else "replicas"
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": []}}
    spec = {field: number, "template": template} if number is not None else {"template": template}
    return {"kind": kind, "metadata": {"name": "w", **metadata}, "spec": spec}


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "Job"])
def test_workloads_stand_for_their_pods(kind: str) -> None:
    made = pods_of(workload(kind, 2, namespace="n"))
    owner, labels = {"kind": kind, "name": "w", "uid": f"{kind}-n-w", "controller": True}, {"app": "x"}
    if kind == "Deployment":
        owner |= {"kind": "ReplicaSet", "name": "w-new", "uid": "Deployment-n-w-new"}
        labels |= {"pod-template-hash": "new"}
    assert [pod["metadata"] for pod in made] == [
        {"name": f"w-{number}", "namespace": "n", "labels": labels, "ownerReferences": [owner]} for number in (0, 1)
    ]
    assert all(pod["kind"] == "Pod" and pod["spec"] == {"containers": []} for pod in made)
    assert len(pods_of(workload(kind, None))) == 1
    assert pods_of(workload(kind, 0)) == []
    assert pods_of(asked()) == [asked()]


@pytest.mark.parametrize("completions", [None, 0, 1, 2, 3, 9])
@pytest.mark.parametrize("parallelism", [None, 0, 1, 2, 5])
def test_no_more_pods_of_a_job_run_than_have_to_complete(parallelism: int | None, completions: int | None) -> None:
    job = workload("Job", parallelism)
    job["spec"]["completions"] = completions
    runs = 1 if parallelism is None else parallelism
    assert len(pods_of(job)) == (runs if completions is None else min(runs, completions))


@pytest.mark.parametrize(
    ("obj", "says"),
    [
        (
            {"kind": "DaemonSet", "metadata": {"name": "d"}},
            "DaemonSet d: only pods and the pods of these kinds can be placed: Deploy",
        ),
        ({"metadata": {"name": "d"}}, "an object without a kind d: only pods"),
        ({"kind": "Deployment"}, "Deployment: metadata is missing"),
        ({"kind": "Deployment", "metadata": {"name": "d"}, "spec": 5}, "Deployment d: spec is not a mapping"),
        ({"kind": "Deployment", "metadata": {"name": "d"}, "spec": {}}, "Deployment d: spec.template is missing"),
        (workload("Job", "many"), "Job w: spec.parallelism: 'many' is not a number up to 10000"),
        (workload("Job", -1), "Job w: spec.parallelism: -1 is not a number"),
        (workload("Job", 10**6), "Job w: spec.parallelism: 1000000 is not a number"),
    ],
)
def test_what_is_no_workload(obj: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidObjectsError) as caught:
        pods_of(obj)
    assert says in str(caught.value)


def test_the_same_question_has_the_same_answer() -> None:
    def once() -> list[PodResult]:
        made = world(NODE, PLACED)
        return simulate(made, [made.pod(asked()), made.pod(asked("q"))])

    assert [answer.as_json() for answer in once()] == [answer.as_json() for answer in once()]
    assert POD["resources"]["nvidia.com/gpumem"] == 4096
