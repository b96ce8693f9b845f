"""The node table: columns that stay true through any sequence of changes."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kube.objects import node as api_node

from vgpu_scheduler.kube import Node, decode_node
from vgpu_scheduler.model import ClusterEvent
from vgpu_scheduler.state import NodeTable

if TYPE_CHECKING:
    from collections.abc import Mapping


def make(name: str = "n", **more: object) -> Node:
    return decode_node(api_node(name, **more))


def amounts(nodes: NodeTable, name: str) -> dict[str, tuple[int, int]]:
    """Allocatable and used of a node by resource, zeros left out."""
    row = nodes.row(name)
    assert row is not None
    pairs = {
        resource: (int(nodes.allocatable[row, column]), int(nodes.used[row, column]))
        for resource, column in nodes.resources.columns.items()
    }
    return {resource: pair for resource, pair in pairs.items() if any(pair)}


def test_rows_names_and_ranks() -> None:
    nodes = NodeTable()
    for name in ("b", "c", "a"):
        nodes.upsert(make(name))
    assert len(nodes) == 3
    assert [nodes.name(row) for row in nodes.rows().tolist()] == ["b", "c", "a"]
    assert [int(nodes.name_order[row]) for row in nodes.rows().tolist()] == [1, 2, 0]
    assert nodes.row("x") is None
    assert "a" in nodes
    dead = np.flatnonzero(~nodes.alive)
    assert (nodes.name_order[dead] == nodes.capacity).all()
    with pytest.raises(LookupError):
        nodes.name(int(dead[0]))


def test_rows_are_reused_and_versions_never_return() -> None:
    nodes = NodeTable()
    nodes.upsert(make("a", labels={"zone": "x"}))
    row = nodes.row("a")
    assert row is not None
    nodes.labels.column("zone")
    nodes.charge(row, {"cpu": 5, "odd/thing": 1})
    before, generation = int(nodes.version[row]), nodes.generation
    assert nodes.remove("a")
    assert not nodes.remove("a")
    nodes.upsert(make("b"))
    assert nodes.row("b") == row
    assert nodes.version[row] > before
    assert nodes.generation > generation
    assert nodes.labels.column("zone").ids[row] == -1
    assert amounts(nodes, "b").keys() == {"cpu", "memory", "ephemeral-storage", "pods"}
    assert not nodes.used.any()
    nodes.resources.column("odd/thing")
    assert not nodes.used.any()


def test_heartbeats_change_nothing() -> None:
    nodes = NodeTable()
    nodes.upsert(make(status={"conditions": [{"type": "Ready", "status": "True"}]}))
    version, static = int(nodes.version[0]), int(nodes.static_version[0])
    assert not nodes.upsert(make(status={"conditions": [{"type": "Ready", "status": "False"}]}))
    assert (nodes.version[0], nodes.static_version[0]) == (version, static)


@pytest.mark.parametrize(
    ("change", "event"),
    [
        ({"labels": {"a": "b"}}, ClusterEvent.NODE_LABELS),
        ({"taints": [{"key": "a", "effect": "NoSchedule"}]}, ClusterEvent.NODE_TAINTS),
        ({"unschedulable": True}, ClusterEvent.NODE_TAINTS),
        ({"allocatable": {"cpu": "5"}}, ClusterEvent.NODE_ALLOCATABLE),
        ({"allocatable": {"nvidia.com/gpu": "5"}}, ClusterEvent.NODE_ALLOCATABLE),
        ({"labels": {"a": "b"}, "unschedulable": True}, ClusterEvent.NODE_LABELS | ClusterEvent.NODE_TAINTS),
        ({"status": {"declaredFeatures": ["A"]}}, ClusterEvent.NODE_FEATURES),
    ],
)
def test_changes_that_matter(change: dict[str, Any], event: ClusterEvent) -> None:
    nodes = NodeTable()
    nodes.upsert(make())
    version, static, generation = int(nodes.version[0]), int(nodes.static_version[0]), nodes.generation
    assert nodes.upsert(make(**change)) == event
    assert nodes.version[0] > version
    assert nodes.static_version[0] > static
    assert nodes.generation == generation


def test_a_node_made_anew_counts_as_changed_and_keeps_its_charges() -> None:
    nodes = NodeTable()
    nodes.upsert(make())
    nodes.charge(0, {"cpu": 100})
    anew = api_node()
    anew["metadata"]["uid"] = "another"
    assert nodes.upsert(decode_node(anew)) == ClusterEvent.NODE_ADD
    assert amounts(nodes, "n")["cpu"] == (4000, 100)


def test_charge_and_discharge() -> None:
    nodes = NodeTable()
    nodes.upsert(make())
    static, version = int(nodes.static_version[0]), int(nodes.version[0])
    nodes.charge(0, {"cpu": 1500, "memory": 1 << 30})
    assert amounts(nodes, "n")["cpu"] == (4000, 1500)
    assert amounts(nodes, "n")["pods"] == (110, 1)
    assert nodes.version[0] > version
    assert nodes.static_version[0] == static
    nodes.charge(0, {"cpu": 1}, pods=0)
    nodes.charge(0, {"cpu": 1501, "memory": 1 << 30}, sign=-1)
    assert not nodes.used.any()


def test_touch_raises_the_version_alone() -> None:
    nodes = NodeTable()
    nodes.upsert(make())
    static, version = int(nodes.static_version[0]), int(nodes.version[0])
    nodes.touch(0)
    assert (nodes.version[0], nodes.static_version[0]) == (version + 1, static)
    nodes.touch(0, static=True)
    assert (nodes.version[0], nodes.static_version[0]) == (version + 2, static + 1)


def test_pods_cannot_make_the_table_wider() -> None:
    nodes = NodeTable()
    nodes.upsert(make())
    for index in range(100):
        nodes.charge(0, {f"example.com/r{index}": 2})
    assert set(nodes.resources.columns) == {"cpu", "memory", "ephemeral-storage", "pods"}
    nodes.upsert(make(allocatable={"example.com/r7": "3"}))
    assert amounts(nodes, "n")["example.com/r7"] == (3, 2)
    nodes.charge(0, {"example.com/r7": 2, "example.com/r8": 2}, pods=2, sign=-1)
    assert amounts(nodes, "n")["example.com/r7"] == (3, 0)
    nodes.resources.column("example.com/r8")
    nodes.resources.column("example.com/r9")
    assert "example.com/r8" not in amounts(nodes, "n")
    assert amounts(nodes, "n")["example.com/r9"] == (0, 2)


def test_absurd_requests_do_not_wrap_round() -> None:
    nodes = NodeTable()
    nodes.upsert(make())
    for _ in range(1000):
        nodes.charge(0, {"memory": 2**63 - 1})
    assert amounts(nodes, "n")["memory"][1] > 0
    for _ in range(1000):
        nodes.charge(0, {"memory": 2**63 - 1}, sign=-1)
    assert not nodes.used.any()


def test_labels_as_columns() -> None:
    nodes = NodeTable()
    nodes.upsert(make("a", labels={"zone": "x"}))
    nodes.upsert(make("b", labels={"zone": "y"}))
    nodes.upsert(make("c"))
    column = nodes.labels.column("zone").ids
    assert [nodes.labels.column("zone").values[column[row]] for row in (0, 1)] == ["x", "y"]
    assert column[2] == -1
    nodes.upsert(make("c", labels={"zone": "x"}))
    assert nodes.labels.column("zone").ids[2] == nodes.labels.column("zone").ids[0]


def test_a_label_without_nodes_appears_when_a_node_has_it() -> None:
    nodes = NodeTable()
    nodes.upsert(make("a"))
    assert nodes.labels.column("late").ids[0] == -1
    assert len(nodes.labels.column("late").ids) == nodes.capacity
    nodes.upsert(make("a", labels={"late": "v"}))
    assert nodes.labels.column("late").values[nodes.labels.column("late").ids[0]] == "v"


def test_values_of_a_restless_label_do_not_pile_up() -> None:
    nodes = NodeTable()
    nodes.upsert(make("calm", labels={"tick": "same"}))
    nodes.upsert(make("restless", labels={"tick": "0"}))
    nodes.labels.column("tick")
    for index in range(1000):
        nodes.upsert(make("restless", labels={"tick": str(index)}))
    values, column = nodes.labels.column("tick").values, nodes.labels.column("tick").ids
    assert len(values) <= 64
    assert (values[column[0]], values[column[1]]) == ("same", "999")
    assert (column[2:] == -1).all()


def test_equal_taints_share_an_id() -> None:
    nodes = NodeTable()
    taints = [{"key": "gpu", "effect": "NoSchedule"}]
    for name in "abc":
        nodes.upsert(make(name, taints=[] if name == "b" else taints))
    assert nodes.taints.ids[0] == nodes.taints.ids[2] != nodes.taints.ids[1]
    assert [t.key for t in nodes.taints.values[nodes.taints.ids[0]]] == ["gpu"]
    nodes.remove("b")
    assert nodes.taints.ids[1] == -1


def snapshot(nodes: NodeTable) -> dict[str, Any]:
    """All that a table says, by name instead of by row."""
    by_name: dict[str, Any] = {}
    for row in nodes.rows().tolist():
        name = nodes.name(row)
        columns = {key: nodes.labels.column(key) for key in ("zone", "late", "pool")}
        by_name[name] = {
            "amounts": amounts(nodes, name),
            "unschedulable": bool(nodes.unschedulable[row]),
            "taints": nodes.taints.values[nodes.taints.ids[row]],
            "labels": {k: c.values[c.ids[row]] for k, c in columns.items() if c.ids[row] >= 0},
            "rank": int(nodes.name_order[row]),
        }
    return by_name


NAMES = [f"node-{index}" for index in range(20)]
RESOURCES = ["cpu", "memory", "nvidia.com/gpu", "example.com/a", "example.com/b"]
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "labels": st.dictionaries(st.sampled_from(["zone", "late", "pool"]), st.sampled_from("xyz")),
        "taints": st.lists(
            st.sampled_from([{"key": k, "effect": e} for k in "ab" for e in ("NoSchedule", "NoExecute")])
        ),
        "unschedulable": st.booleans(),
        "allocatable": st.dictionaries(st.sampled_from(RESOURCES), st.sampled_from(["0", "1", "5"])),
    },
)
REQUESTS = st.dictionaries(st.sampled_from(RESOURCES), st.integers(1, 9))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("upsert"), st.sampled_from(NAMES), SPECS),
        st.tuples(st.just("remove"), st.sampled_from(NAMES), st.none()),
        st.tuples(st.just("charge"), st.sampled_from(NAMES), REQUESTS),
        st.tuples(st.just("discharge"), st.sampled_from(NAMES), st.none()),
        st.tuples(st.just("label"), st.sampled_from(["zone", "late", "pool"]), st.none()),
    ),
    max_size=60,
)


@settings(max_examples=200)
@given(STEPS)
def test_incremental_equals_rebuilt(steps: list[tuple[str, str, Any]]) -> None:
    nodes = NodeTable()
    known: dict[str, Node] = {}
    charged: dict[str, list[Mapping[str, int]]] = {}
    versions: dict[int, tuple[int, Any]] = {}
    for kind, name, value in steps:
        row = nodes.row(name)
        if kind == "upsert":
            known[name] = make(name, **value)
            nodes.upsert(known[name])
        elif kind == "remove":
            assert nodes.remove(name) is (known.pop(name, None) is not None)
            charged.pop(name, None)
        elif kind == "label":
            nodes.labels.column(name)
        elif row is not None and kind == "charge":
            nodes.charge(row, value)
            charged.setdefault(name, []).append(value)
        elif row is not None and charged.get(name):
            nodes.charge(row, charged[name].pop(0), sign=-1)
        check_versions(nodes, versions)

    rebuilt = NodeTable()
    for name in sorted(known):
        rebuilt.upsert(known[name])
        row = rebuilt.row(name)
        assert row is not None
        for requests in charged.get(name, ()):
            rebuilt.charge(row, requests)
    for resource in RESOURCES:
        nodes.resources.column(resource)
        rebuilt.resources.column(resource)
    assert snapshot(nodes) == snapshot(rebuilt)
    assert sorted(snapshot(nodes)) == sorted(known)


def check_versions(nodes: NodeTable, seen: dict[int, tuple[int, Any]]) -> None:
    """A row whose version is the same says the same; its rank aside, which depends on others."""
    facts = snapshot(nodes)
    for row in nodes.rows().tolist():
        name = nodes.name(row)
        fact = {"name": name, **facts[name], "rank": None}
        version = int(nodes.version[row])
        if row in seen and seen[row][0] == version:
            # A label column or a resource column may appear without a change of the row.
            assert fact["unschedulable"] == seen[row][1]["unschedulable"]
            assert {**seen[row][1]["amounts"], **fact["amounts"]} == fact["amounts"]
            assert (fact["name"], fact["taints"], fact["labels"]) == tuple(
                seen[row][1][key] for key in ("name", "taints", "labels")
            )
        seen[row] = (version, fact)
