"""Short forms: what they stand for, in every dialect, and what is said about those that make no sense."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tests.whatif.cases import CLUSTER, document, error, failures, results

from vgpu_scheduler.whatif import CaseError

POD: dict[str, Any] = {"resources": {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 4096}}
REGISTER = (
    '[{"id":"x","index":0,"count":10,"devmem":40960,"devcore":100,"type":"NVIDIA A100","numa":0,'
    '"mode":"hami-core","health":true}]'
)
NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "full", "annotations": {"hami.io/node-nvidia-register": REGISTER}},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10", "nvidia.com/gpu": "10"}},
}
PLACED: dict[str, Any] = {
    "kind": "Pod",
    "metadata": {
        "name": "there",
        "namespace": "default",
        "annotations": {"hami.io/vgpu-node": "full", "hami.io/vgpu-devices-allocated": "x,NVIDIA,40960,0:;"},
    },
    "spec": {
        "nodeName": "full",
        "containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
    },
    "status": {"phase": "Running", "containerStatuses": [{"name": "c"}]},
}


def case(nodes: Any, expect: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"nodes": nodes, "pod": POD, "expect": expect, **fields}


# Nodes and cards -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cards", "taken"),
    [
        (1, "a-0"),
        ({"count": 1}, "a-0"),
        ([{"count": 2}, {"count": 1, "model": "NVIDIA T4"}], "a-2"),
        ([{"name": "gpu", "count": 2}], "gpu-1"),
        ([{"name": "only"}], "only"),
        ([{"name": "x", "memory": 4096}, {"name": "y", "memory": "4095Mi"}], "x"),
        ([{"name": "x", "memory": "4096"}, {"name": "y", "memory": "1Gi"}], "x"),
        ([{"name": "x"}, {"name": "y", "healthy": False}], "x"),
        ([{"name": "x"}, {"name": "y", "shares": 0}], "x"),
        ([{"name": "x"}, {"name": "y", "mode": "mps"}], "y"),
        ([{"name": "x", "numa": 1}, {"name": "y"}], "x"),
    ],
)
def test_cards(cards: Any, taken: str) -> None:
    assert failures(case([{"name": "a", "cards": cards}], {"cards": taken})) == []


def test_a_node_without_cards_takes_plain_pods_only() -> None:
    nothing: tuple[Any, ...] = (0, [])
    for cards in nothing:
        assert failures(case([{"name": "a", "cards": cards}], {"reason": "nvidia.com/gpu"})) == []
        plain = case([{"name": "a", "cards": cards}], {"node": "a", "cards": []}, pod={"resources": {"cpu": 1}})
        assert failures(plain) == []


@pytest.mark.parametrize(
    ("node", "pod", "reason"),
    [
        ({"taints": "gpu=yes:NoSchedule"}, {}, "untolerated taint"),
        ({"taints": ["gpu:NoExecute"]}, {}, "untolerated taint"),
        ({"taints": {"key": "gpu", "effect": "NoSchedule"}}, {}, "untolerated taint"),
        ({"taints": "gpu=yes:NoSchedule"}, {"tolerations": [{"key": "gpu", "operator": "Exists"}]}, None),
        ({"unschedulable": True}, {}, "unschedulable"),
        ({"labels": {"pool": "a"}}, {"nodeSelector": {"pool": "b"}}, "didn't match Pod's node affinity/selector"),
        ({"labels": {"pool": "a"}}, {"nodeSelector": {"pool": "a"}}, None),
        ({}, {"resources": {**POD["resources"], "cpu": 65}}, "Insufficient cpu"),
        ({"allocatable": {"cpu": 96}}, {"resources": {**POD["resources"], "cpu": 65}}, None),
        ({"allocatable": {"nvidia.com/gpu": 0}}, {}, "Insufficient nvidia.com/gpu"),
        ({}, {"resources": {"limits": {**POD["resources"], "cpu": 65}, "requests": {"cpu": 1}}}, None),
        ({}, {"resources": {"limits": {**POD["resources"], "cpu": 65}}}, "Insufficient cpu"),
        ({"annotations": {"hami.io/device-cordon": "a-0"}}, {}, "CardCordoned"),
    ],
)
def test_nodes_and_pods(node: dict[str, Any], pod: dict[str, Any], reason: str | None) -> None:
    expect = {"node": "a"} if reason is None else {"reason": reason}
    assert failures(case([{"name": "a", "cards": 1, **node}], expect, pod={**POD, **pod})) == []


def test_full_objects_are_taken_as_they_are() -> None:
    pod = {"spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}
    file = case([NODE, {"name": "short", "cards": 1}], {"node": "short"}, running=[PLACED], pod=pod)
    assert failures(file) == []
    assert failures({**file, "running": [], "expect": {"node": "full", "cards": "x"}}) == []
    everything = {"objects": [NODE, PLACED], "pod": POD, "expect": {"reason": "CardInsufficientMemory"}}
    assert failures(everything) == []
    assert failures({**everything, "objects": {"kind": "List", "items": [PLACED, NODE]}}) == []


def test_what_the_api_server_would_fill_in_is_filled_in() -> None:
    containers = [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1, "cpu": 65}}}]
    file = case([{"name": "a", "cards": 1}], {"reason": "Insufficient cpu"}, pod={"spec": {"containers": containers}})
    assert failures(file) == []
    file["pod"] = {"spec": {"initContainers": containers, "containers": [{"name": "d"}]}}
    assert failures(file) == []
    file["pod"] = {"spec": {"priorityClassName": "x", "containers": containers}}
    assert error(file) == "Pod default/pod: there is no PriorityClass x"
    file["objects"] = [{"kind": "PriorityClass", "metadata": {"name": "x"}, "value": 7}]
    assert failures(file) == []
    file["pod"]["spec"] |= {"priority": 0, "priorityClassName": "y"}
    assert failures(file) == []
    file["objects"][0]["value"] = "7"
    assert error(file) == "PriorityClass x: value: '7' is not an integer"


# Running pods --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cards", "reason"),
    [
        ("a-0", "1/1 CardInsufficientMemory"),
        ({"card": "a-0", "memory": "37Gi"}, "1/1 CardInsufficientMemory"),
        ({"card": "a-0", "memory": 36864}, None),
        ({"card": "a-0", "cores": 100}, "1/1 CardComputeUnitsExhausted"),
        ([], None),
    ],
)
def test_what_runs_has_what_it_was_given(cards: Any, reason: str | None) -> None:
    expect = {"node": "a"} if reason is None else {"reason": reason.removeprefix("1/1 ")}
    assert failures(case([{"name": "a", "cards": 1}], expect, running=[{"node": "a", "cards": cards}])) == []


def test_what_runs_takes_cpu_too() -> None:
    running = {"node": "a", "resources": {"cpu": 64}}
    pod = {"resources": {**POD["resources"], "cpu": 1}}
    file = case([{"name": "a", "cards": 1}], {"reason": "Insufficient cpu"}, running=running, pod=pod)
    assert failures(file) == []


# Dialects ------------------------------------------------------------------------------------------------------------


DIALECTS: dict[str, dict[str, Any]] = {
    "volcano": {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 8192},
    "koordinator": {"koordinator.sh/gpu-memory": "8Gi"},
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_cards_of_other_dialects(dialect: str) -> None:
    file = {
        "dialect": dialect,
        "nodes": [{"name": "a", "cards": 2}, {"name": "b", "cards": {"memory": "4Gi"}}],
        "running": [{"node": "a", "cards": {"card": "a-0", "memory": "36Gi", "cores": 30}}],
        "pod": {"resources": DIALECTS[dialect]},
        "expect": {"node": "a", "cards": "a-1"},
    }
    assert failures(file) == []
    file["running"] = [{"node": "a", "cards": ["a-0", {"card": "a-1", "whole": True}]}]
    file["expect"] = {"outcome": "unschedulable"}
    assert failures(file) == []
    file["running"] = []
    file["nodes"] = [{"name": "a", "cards": {"healthy": False}}]
    file["expect"] = {"outcome": "unschedulable"}
    assert failures(file) == []
    file["nodes"] = [{"name": "a"}]
    assert failures(file) == []


def test_what_runs_takes_the_nodes_own_amounts_too() -> None:
    file = {
        "dialect": "koordinator",
        "nodes": [{"name": "a", "cards": 2}],
        "running": [{"node": "a", "cards": ["a-0", {"card": "a-1", "memory": "36Gi", "cores": 90}]}],
        "pod": {"resources": {"koordinator.sh/gpu-core": 20, "koordinator.sh/gpu-memory": "8Gi"}},
        "expect": {"reason": ["1 Insufficient koordinator.sh/gpu-core", "1 Insufficient koordinator.sh/gpu-memory"]},
    }
    assert failures(file) == []


def test_what_runs_counts_for_volcanos_binpack() -> None:
    binpack = {"name": "binpack", "resources": {"volcano.sh/vgpu-memory": 1}}
    policy = {"kind": "ClusterVGPUPolicy", "metadata": {"name": "p"}, "spec": {"nodes": {"scorers": [binpack]}}}
    file = {
        "dialect": "volcano",
        "nodes": [{"name": "a", "cards": 2}, {"name": "b", "cards": 2}],
        "running": [{"node": "b", "cards": {"card": "b-0", "memory": "8Gi"}}],
        "policies": policy,
        "pod": {"resources": DIALECTS["volcano"]},
        "expect": {"node": "b"},
    }
    assert failures(file) == []
    file["running"] = [{"node": "a", "cards": {"card": "a-0", "memory": "8Gi"}}]
    file["expect"] = {"node": "a"}
    assert failures(file) == []


def test_what_a_dialect_does_not_register_is_refused() -> None:
    def of(dialect: str, *cards: dict[str, Any]) -> str:
        return error({**case([{"name": "a", "cards": list(cards)}], {"node": "a"}), "dialect": dialect})

    assert of("volcano", {"numa": 1}) == "nodes[0] (a).cards[0].numa: volcano does not register it"
    assert of("koordinator", {"mode": "mps"}) == "nodes[0] (a).cards[0].mode: koordinator does not register it"
    assert of("koordinator", {}, {"model": "T4"}) == "nodes[0] (a).cards: koordinator knows one model per node"


# What makes no sense -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"nodes": [{"cards": 1}]}, "nodes[0].name: is required"),
        ({"nodes": [{"name": "a", "cards": -1}]}, "nodes[0] (a).cards[0].count: -1 is not 1 or more"),
        ({"nodes": [{"name": "a", "cards": "many"}]}, "nodes[0] (a).cards[0]: "),
        ({"nodes": [{"name": "a", "cards": {"memroy": 1}}]},
         "nodes[0] (a).cards[0]: there is no field 'memroy': did you mean memory?"),
        ({"nodes": [{"name": "a", "cards": {"memory": "lots"}}]}, "nodes[0] (a).cards[0].memory: 'lots' is not a quan"),
        ({"nodes": [{"name": "a", "cards": {"memory": "512Ki"}}]},
         "nodes[0] (a).cards[0].memory: 512Ki is not a whole number of MiB"),
        ({"nodes": [{"name": "a", "taints": "gpu"}]}, "taints[0]: 'gpu' is not of the form key=value:Effect"),
        *(({"nodes": [{"name": "a", "taints": f"gpu=yes:{effect}"}]},
           f"nodes[0] (a).taints[0]: '{effect}' is not an effect of a taint: these are NoSchedule, PreferNoSchedule")
          for effect in ("NoSchedul", "noschedule", "", "NoExecut", "Prefer")),
        ({"nodes": [{"name": "a", "taints": [{"key": "gpu"}]}]},
     "nodes[0] (a).taints[0]: '' is not an effect of a taint"),
        ({"nodes": [{**NODE, "spec": {"taints": [{"key": "k", "effect": "NoSchedul"}]}}]},
         "nodes[0].spec.taints[0]: 'NoSchedul' is not an effect of a taint"),
        ({"pod": {"tolerations": [{"key": "k", "operator": "Exist"}]}},
         "tolerations[0]: 'Exist' is not a toleration's operator: these are Exists, Equal"),
        ({"pod": {"tolerations": [{"operator": "Exists", "effect": "NoSchedul"}]}},
         "tolerations[0]: 'NoSchedul' is not a toleration's effect"),
        *(({"nodes": [{"name": "a", "cards": {"mode": mode}}]},
           f"nodes[0] (a).cards[0].mode: '{mode}' is not a mode of a card: these are hami-core, mps")
          for mode in ("hami", "MPS", "shared", "")),
        ({"nodes": [{"name": "a", "labels": {"pool": 1}}]}, "nodes[0] (a).labels.pool: 1 is not a text"),
        ({"nodes": [{"name": "a", "allocatable": {"cpu": "x"}, "cards": 1}]},
         "Node a: status.allocatable[cpu]: 'x' is not a quantity"),
        ({"nodes": [{"name": "a", "cards": [{"name": "x"}, {"name": "x"}]}]},
         "nodes[0] (a).cards: two are named x"),
        ({"nodes": [{"name": "a", "cards": {"name": "x"}}, {"name": "b", "cards": {"name": "x"}}]},
         "Node b: card x is on node a, too"),
        ({"nodes": [{"name": "a"}, {"name": "a"}]}, "Node a is there twice"),
        ({"nodes": [{"metadata": {"name": "a", "annotations": {"hami.io/node-nvidia-register": "[x"}}}]},
         "Node a: annotation hami.io/node-nvidia-register: "),
        ({"nodes": [{"metadata": 5}]}, "Node: metadata is missing"),
        ({"running": [{"cards": "a-0"}]}, "running[0].node: is required"),
        ({"running": [{"node": "z"}]}, "running[0].node: there is no node z"),
        ({"running": [{"node": "a", "name": "p", "cards": ["a-1", "b-0"]}]},
         "running[0] (p).cards[1].card: node a has no card b-0"),
        ({"running": [{"node": "a", "cards": {"memory": 1}}]}, "running[0].cards[0].card: is required"),
        ({"running": [PLACED]}, "Pod default/there: there is no node full"),
        ({"nodes": [NODE], "running": [{**PLACED, "metadata": {**PLACED["metadata"], "annotations": {}}}]},
         "Pod default/there: annotation hami.io/vgpu-devices-allocated is missing"),
        ({"nodes": [NODE], "running": [{**PLACED, "metadata": {**PLACED["metadata"], "annotations": {
            "hami.io/vgpu-node": "full", "hami.io/vgpu-devices-allocated": "y,NVIDIA,1,0:;"}}}]},
         "Pod default/there: node full has no card y"),
        ({"pod": {"resources": {"nvidia.com/gpu": "one"}}}, "nvidia.com/gpu"),
        ({"pod": {"labls": {}}}, "pod: there is no field 'labls': did you mean labels?"),
        ({"pod": {"name": "p", "nodeSelector": "x"}}, "pod (p).nodeSelector: "),
        ({"pod": {"resources": {"cpu": [1]}}}, "pod.resources.limits.cpu: [1] is not a text"),
        ({"pod": {"resources": 5}}, "pod.resources: "),
        ({"pod": {"kind": "Node", "metadata": {"name": "n"}}}, "pod: Node is not a Pod"),
        ({"pod": {"spec": {"containers": 5}}}, "Pod default/pod: spec.containers: Expected `array"),
        ({"objects": [{"kind": "ConfigMap", "metadata": {"name": "x"}}]}, "ConfigMap cannot be used here"),
        ({"objects": [{"metadata": {"name": "x"}}]}, "an object without a kind cannot be used here"),
        ({"objects": [{"kind": "Namespace", "metadata": {"name": "x", "labels": "y"}}]},
         "Namespace x: metadata.labels is not a map of strings"),
        ({"objects": [{"kind": "Namespace", "metadata": {"name": "x", "labels": {"tier": 1}}}]},
         "Namespace x: metadata.labels is not a map of strings"),
        ({"policies": [{"kind": "VGPUPolicy", "metadata": {"name": "p", "namespace": "n"}, "spec": {"nodes": {}}}]},
         "VGPUPolicy n/p: spec.nodes: set exactly one of policy"),
        ({"policies": [{"kind": "ClusterVGPUPolicy", "spec": {}}]}, "ClusterVGPUPolicy: metadata is missing"),
    ],
)  # fmt: skip
def test_errors_name_the_object_and_the_field(fields: dict[str, Any], says: str) -> None:
    found = error(document(CLUSTER, **{"running": [], **fields}))
    assert says in found


# ------------------------------------------------------------------------------------------------ what is said of it

WHOLE = """
nodes:
  - name: a
    labels: {pool: x}
    taints: ["k=v:NoSchedule"]
    unschedulable: false
    cards: [{count: 2, memory: 16Gi, model: A100}]
namespaces: {default: {tier: shared}}
policies:
  - kind: VGPUPolicy
    metadata: {name: p}
    spec: {nodes: {policy: spread}}
running:
  - {name: r, node: a, cards: {card: a-0, memory: 8Gi, cores: 30}}
cases:
  - name: one
    pod: {name: p, resources: {nvidia.com/gpu: 1}}
    expect: {node: a, cards: [a-0], policy: {nodes: VGPUPolicy}, warning: [x]}
  - name: two
    steps:
      - {pod: {resources: {nvidia.com/gpu: 1}}, expect: {outcome: placed}}
"""
ODD_VALUES: tuple[Any, ...] = (5, "x y", None, True, 1.5, [], {}, [1], {"a": 1}, [None], {"a": [1]}, "", -1)
PYDANTICS = re.compile(
    r"Input should|Field required|[Vv]alid (tuple|dict|string|integer|number|list)|Extra inputs|type="
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths to all values of a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield (*path, key)
        yield from places(each, (*path, key))


def remedies_from_condition(document: dict[str, Any]) -> list[str]:
    try:
        return [str(each) for each in results(document) if isinstance(each, CaseError)]
    except CaseError as problem:
        return [str(problem)]


@pytest.mark.long
def test_errors_are_in_plain_words_whatever_stands_anywhere() -> None:
    whole = yaml.safe_load(WHOLE)
    assert remedies_from_condition(whole) == []
    wrong, tried = [], 0
    for path in places(whole):
        for odd in ODD_VALUES:
            changed = copy.deepcopy(whole)
            around = changed
            for key in path[:-1]:
                around = around[key]
            around[path[-1]] = odd
            said = remedies_from_condition(changed)
            tried += bool(said)
            wrong += [f"{path} = {odd!r}: {text}" for text in dict.fromkeys(said) if PYDANTICS.search(text)][:1]
    assert tried > 300
    assert not wrong, f"{len(wrong)} of {tried}: " + "\n".join(wrong[:20])
