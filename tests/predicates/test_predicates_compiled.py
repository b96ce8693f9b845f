"""The vectorised filters against the plain twin, and their corners."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kube.objects import Obj, container, node, pod
from tests.naive import predicates as naive

from vgpu_scheduler.kube import decode_node, decode_pod
from vgpu_scheduler.model import ClusterEvent
from vgpu_scheduler.predicates import CompiledPredicates, Reason
from vgpu_scheduler.predicates.reasons import TAINT, TOO_MANY_PODS, UNSCHEDULABLE, insufficient
from vgpu_scheduler.state import NodeTable


def table(*nodes: Obj) -> NodeTable:
    result = NodeTable()
    for obj in nodes:
        result.upsert(decode_node(obj))
    return result


def verdicts(compiled: CompiledPredicates, nodes: NodeTable) -> dict[str, naive.Verdict | None]:
    rows = nodes.rows()
    return {
        nodes.name(row): verdict(compiled, mask)
        for row, mask in zip(rows.tolist(), compiled.evaluate(rows).tolist(), strict=True)
    }


def verdict(compiled: CompiledPredicates, code: int) -> naive.Verdict | None:
    if not code:
        return None
    rejection = compiled.rejections[code]
    (plugin,) = {reason.plugin for reason in rejection.reasons}
    return plugin, naive.U if rejection.resolvable else naive.UU, frozenset(rejection.texts)


NAMES = ["a", "b", "c", "d"]
KEYS = ["zone", "gen", "absent"]
VALUES = ["1", "2", "10", "x", "", "-3", "007", "not/valid", "9223372036854775808"]
EFFECTS = ["NoSchedule", "NoExecute", "PreferNoSchedule"]
QUANTITIES = ["0", "1", "0.5", "250m", "3", "1e1"]
RESOURCES = ["cpu", "memory", "nvidia.com/gpu", "nvidia.com/gpumem"]

taints = st.fixed_dictionaries(
    {"key": st.sampled_from("kl"), "effect": st.sampled_from(EFFECTS)}, optional={"value": st.sampled_from("vw")}
)
tolerations = st.fixed_dictionaries(
    {},
    optional={
        "key": st.sampled_from(["k", "l", "node.kubernetes.io/unschedulable"]),
        "operator": st.sampled_from(["Equal", "Exists", "Gt"]),
        "value": st.sampled_from("vw"),
        "effect": st.sampled_from(EFFECTS),
    },
)
ports = st.lists(
    st.fixed_dictionaries(
        {"hostPort": st.sampled_from([0, 80, 81])},
        optional={
            "protocol": st.sampled_from(["TCP", "UDP"]),
            "hostIP": st.sampled_from(["", "0.0.0.0", "::", "10.0.0.1", "10.0.0.2"]),
        },
    ),
    max_size=2,
)
quantities = st.dictionaries(st.sampled_from(RESOURCES), st.sampled_from(QUANTITIES))
expressions = st.one_of(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(KEYS),
            "operator": st.sampled_from(["In", "NotIn"]),
            "values": st.lists(st.sampled_from(VALUES), min_size=1, max_size=3),
        }
    ),
    st.fixed_dictionaries({"key": st.sampled_from(KEYS), "operator": st.sampled_from(["Exists", "DoesNotExist"])}),
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(KEYS),
            "operator": st.sampled_from(["Gt", "Lt"]),
            "values": st.sampled_from(VALUES).map(lambda value: [value]),
        }
    ),
)
fields = st.fixed_dictionaries(
    {
        "key": st.just("metadata.name"),
        "operator": st.sampled_from(["In", "NotIn"]),
        "values": st.sampled_from([*NAMES, "gone"]).map(lambda name: [name]),
    }
)
terms = st.fixed_dictionaries(
    {}, optional={"matchExpressions": st.lists(expressions, max_size=2), "matchFields": st.lists(fields, max_size=2)}
)


@st.composite
def api_nodes(draw: st.DrawFn, name: str) -> Obj:
    labels = draw(st.dictionaries(st.sampled_from(KEYS[:2]), st.sampled_from(VALUES[:7])))
    spec = {"taints": draw(st.lists(taints, max_size=2)), "unschedulable": draw(st.sampled_from([False, False, True]))}
    offered = draw(st.dictionaries(st.sampled_from(RESOURCES), st.sampled_from(["1", "2", "4", "12"])))
    return node(name, labels=labels, allocatable={"pods": draw(st.sampled_from(["0", "1", "3"])), **offered}, **spec)


@st.composite
def api_pods(draw: st.DrawFn) -> Obj:
    spec: dict[str, Any] = {
        "initContainers": [
            {
                "name": f"i{index}",
                "resources": {"requests": requests},
                "ports": taken,
                **({"restartPolicy": "Always"} if side else {}),
            }
            for index, (requests, taken, side) in enumerate(
                draw(st.lists(st.tuples(quantities, ports, st.booleans()), max_size=2))
            )
        ]
    }
    if draw(st.booleans()):
        spec["tolerations"] = draw(st.lists(tolerations, max_size=3))
    if draw(st.integers(0, 3)) == 0:
        spec["nodeSelector"] = draw(st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=1))
    if draw(st.booleans()):
        selector = {"nodeSelectorTerms": draw(st.lists(terms, max_size=3))}
        spec["affinity"] = {"nodeAffinity": {naive.REQUIRED: selector}}
    if draw(st.integers(0, 5)) == 0:
        spec["nodeName"] = draw(st.sampled_from([*NAMES, "gone"]))
    return pod({"name": "c", "resources": {"requests": draw(quantities)}, "ports": draw(ports)}, **spec)


@settings(max_examples=200)
@given(st.data())
def test_agrees_with_the_naive_twin(data: st.DataObject) -> None:
    objects = {name: data.draw(api_nodes(name)) for name in data.draw(st.lists(st.sampled_from(NAMES), unique=True))}
    ignored = frozenset(data.draw(st.sets(st.sampled_from(RESOURCES), max_size=1)))
    incoming = data.draw(api_pods())
    nodes = table(*objects.values())
    neighbours: dict[str, list[Obj]] = {name: [] for name in objects}
    compiled = CompiledPredicates(decode_pod(incoming), nodes, ignored)
    for _ in range(3):
        expected = {name: naive.verdict(incoming, objects[name], neighbours[name], ignored) for name in objects}
        assert verdicts(compiled, nodes) == expected
        if not objects:
            break
        # What was compiled follows the nodes as they change.
        changed = data.draw(st.sampled_from(sorted(objects)))
        row = nodes.row(changed)
        assert row is not None
        other = {"name": "c", "resources": {"requests": data.draw(quantities)}, "ports": data.draw(ports)}
        neighbours[changed].append(pod(other))
        decoded = decode_pod(neighbours[changed][-1])
        nodes.charge(row, decoded.used_requests, ports=decoded.spec.host_ports)
        objects[changed] = data.draw(api_nodes(changed))
        nodes.upsert(decode_node(objects[changed]))


def test_reasons_say_what_can_help() -> None:
    assert TAINT.helped_by == UNSCHEDULABLE.helped_by == ClusterEvent.NODE_TAINTS
    assert (
        insufficient("cpu").helped_by
        == TOO_MANY_PODS.helped_by
        == ClusterEvent.NODE_ALLOCATABLE | ClusterEvent.ASSIGNED_POD_DELETE
    )
    assert TOO_MANY_PODS.resolvable
    assert not UNSCHEDULABLE.resolvable


def test_beyond_help_or_not() -> None:
    nodes = table(node("a"))
    compiled = CompiledPredicates(decode_pod(pod(container(cpu="3"))), nodes, frozenset())
    nodes.charge(0, {"cpu": 2000})
    assert verdicts(compiled, nodes)["a"] == ("NodeResourcesFit", naive.U, frozenset({"Insufficient cpu"}))
    nodes.upsert(decode_node(node("a", allocatable={"cpu": "2"})))
    assert verdicts(compiled, nodes)["a"] == ("NodeResourcesFit", naive.UU, frozenset({"Insufficient cpu"}))


def test_an_exact_fit_fits() -> None:
    nodes = table(node("a"))
    nodes.charge(0, {"cpu": 1000})
    assert verdicts(CompiledPredicates(decode_pod(pod(container(cpu="3"))), nodes, frozenset()), nodes) == {"a": None}
    one_more = CompiledPredicates(decode_pod(pod(container(cpu="3001m"))), nodes, frozenset())
    assert verdicts(one_more, nodes)["a"] is not None


def test_a_resource_that_nobody_offers_until_somebody_does() -> None:
    nodes = table(node("a"))
    compiled = CompiledPredicates(
        decode_pod(pod({"name": "c", "resources": {"requests": {"x/y": "1"}}})), nodes, frozenset()
    )
    assert verdicts(compiled, nodes)["a"] == ("NodeResourcesFit", naive.UU, frozenset({"Insufficient x/y"}))
    assert "x/y" not in nodes.resources.columns
    nodes.upsert(decode_node(node("a", allocatable={"x/y": "1"})))
    assert verdicts(compiled, nodes) == {"a": None}


@pytest.mark.parametrize("offered", [True, False])
def test_more_resources_than_bits_of_a_word(*, offered: bool) -> None:
    names = [f"example.com/r{index:03}" for index in range(200)]
    nodes = table(node("a", allocatable={name: "1" for name in names if offered}))
    compiled = CompiledPredicates(
        decode_pod(pod({"name": "c", "resources": {"requests": dict.fromkeys(names, "2")}})), nodes, frozenset()
    )
    texts = frozenset(f"Insufficient {name}" for name in names)
    assert verdicts(compiled, nodes) == {"a": ("NodeResourcesFit", naive.UU, texts)}


def test_conflicting_names_reject_the_pod() -> None:
    named = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in "ab"]
    affinity = {"nodeAffinity": {naive.REQUIRED: {"nodeSelectorTerms": [{"matchFields": named}]}}}
    compiled = CompiledPredicates(decode_pod(pod(affinity=affinity)), table(node("a")), frozenset())
    assert compiled.rejection is not None
    assert compiled.rejection.text == "pod affinity terms conflict"
    assert CompiledPredicates(decode_pod(pod()), table(), frozenset()).rejection is None


def test_counts() -> None:
    nodes = table(node("a"), node("b", unschedulable=True), node("c", allocatable={"cpu": "1", "memory": "1"}))
    compiled = CompiledPredicates(decode_pod(pod(container(cpu="2", memory="2"))), nodes, frozenset())
    expected: dict[Reason, int] = {UNSCHEDULABLE: 1, insufficient("cpu"): 1, insufficient("memory"): 1}
    assert compiled.rejections.count(compiled.evaluate(nodes.rows())) == expected


def test_any_rows_in_any_order() -> None:
    nodes = table(*(node(f"n{index}", unschedulable=index % 2 == 0) for index in range(40)))
    compiled = CompiledPredicates(decode_pod(pod()), nodes, frozenset())
    rows = np.array([7, 2, 7, 39], dtype=np.int64)
    assert (compiled.evaluate(rows) != 0).tolist() == [False, True, False, False]
    assert compiled.evaluate(np.zeros(0, dtype=np.int64)).shape == (0,)


def test_labels_that_come_and_change_after_compiling() -> None:
    nodes = table(node("a"))
    compiled = CompiledPredicates(decode_pod(pod(nodeSelector={"tick": "5"})), nodes, frozenset())
    assert verdicts(compiled, nodes)["a"] is not None
    for tick in [*range(300), 5]:
        nodes.upsert(decode_node(node("a", labels={"tick": str(tick)})))
        assert (verdicts(compiled, nodes)["a"] is None) is (tick == 5)
