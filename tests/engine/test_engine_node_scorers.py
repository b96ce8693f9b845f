"""kube-scheduler's scorers in decisions, where a policy names them."""

from __future__ import annotations

from typing import Any

from tests.engine.builders import asks, cards, engine_with, node_object, node_part, pod, pod_object
from tests.engine.test_engine_interpod import decide
from tests.engine.test_engine_policies import with_policies

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.kube import Node, decode_node, decode_pod
from vgpu_scheduler.policy import PolicyDefaults

MIB = 1 << 20


def having(name: str, images: dict[str, int], version: int = 1, **more: Any) -> Node:
    """Return a node with a card and with images of these sizes (bytes)."""
    obj = node_object(name, cards(name, 1), version=version, **more)
    obj["status"]["images"] = [{"names": [image], "sizeBytes": size} for image, size in images.items()]
    return decode_node(obj)


def running(name: str, image: str, resources: dict[str, Any] | None = None, **more: Any) -> Any:
    obj = pod_object(name, resources, **more)
    obj["spec"]["containers"][0]["image"] = image
    return decode_pod(obj)


def scored(engine: Engine, asking: Any) -> dict[str, float]:
    """Return what each node is ranked by; the explanation, which is made anew, must say the same."""
    engine.observe_pod(asking, 0.0)
    decision, nodes = engine.algorithm.decide(asking, explain=True), engine.state.nodes
    part = node_part(engine.algorithm, asking)
    found = {nodes.name(row): float(part.score[row]) for row in nodes.rows().tolist() if part.feasible[row]}
    assert found == {name: parts[0].raw for name, parts in decision.scores.items()}
    return found


def by(*names: str, **more: Any) -> list[dict[str, Any]]:
    return [{"nodes": {"scorers": [{"name": name, **more} for name in names]}}]


def test_images_that_come_and_go_rank_the_next_pod() -> None:
    """What a node has is worth as much as there are nodes that have it, so that all nodes are ranked anew."""
    nodes = [having(name, {"big:1": 1000 * MIB} if name == "b" else {}) for name in ("a", "b")]
    engine = with_policies(engine_with(nodes), *by("imageLocality"))
    assert scored(engine, running("p", "big:1")) == {"a": 0.0, "b": 48.0}
    assert scored(engine, running("q", "other:1")) == {"a": 0.0, "b": 0.0}
    engine.observe_node(having("a", {"big:1": 1000 * MIB}, version=2), 1.0)
    assert scored(engine, running("p", "big:1")) == {"a": 100.0, "b": 100.0}
    engine.observe_node(having("b", {}, version=2), 1.0)
    assert scored(engine, running("p", "big:1")) == {"a": 48.0, "b": 0.0}
    engine.observe_node(having("c", {}), 1.0)
    assert scored(engine, running("p", "big:1")) == {"a": 31.0, "b": 0.0, "c": 0.0}
    engine.remove_node("c", 2.0)
    assert scored(engine, running("p", "big:1")) == {"a": 48.0, "b": 0.0}


def test_an_image_moves_no_version_and_wakes_nobody() -> None:
    engine = engine_with([having("a", {})])
    before = engine.state.nodes.version.copy()
    engine.observe_node(having("a", {"big:1": MIB}, version=2), 1.0)
    assert (engine.state.nodes.version == before).all()


def test_pods_with_other_images_share_what_is_known_of_nodes_unless_images_rank() -> None:
    for specs, classes in (([], 1), (by("binpack"), 1), (by("imageLocality"), 2)):
        engine = with_policies(engine_with([having("a", {})]), *specs)
        parts = {id(engine.algorithm.classes.of(running(image, image)).node) for image in ("x:1", "y:1")}  # type: ignore[union-attr]
        assert len(parts) == classes, specs


def test_the_strategies_of_node_resources_fit_choose_opposite_nodes() -> None:
    for name, where in (("leastAllocated", "a"), ("mostAllocated", "b"), ("requestedToCapacityRatio", "b")):
        nodes = [having("a", {}), having("b", {})]
        engine = with_policies(engine_with(nodes, [pod("t", asks(0, cpu="4"), nodeName="b", started=True)]), *by(name))
        engine.observe_pod(pod("p", asks(cpu="1")), 0.0)
        decision = decide(engine)
        assert decision.placement is not None
        assert (decision.placement.node, decision.scores[where][0].scorer) == (where, name)


def test_pods_that_request_nothing_are_taken_to_use_something() -> None:
    nodes = [having("a", {}), having("b", {})]
    idle = [pod(f"t{number}", asks(0), nodeName="a", started=True) for number in range(8)]
    engine = with_policies(engine_with(nodes, idle), *by("leastAllocated"))
    found = scored(engine, pod("p", asks(0)))
    assert found["a"] < found["b"]
    for number in range(8):
        engine.remove_pod(f"uid-t{number}", 1.0)
    assert len(set(scored(engine, pod("p", asks(0))).values())) == 1


def test_a_shape_of_points_ranks_by_the_function_between_them() -> None:
    shape = [{"utilization": 0, "score": 0}, {"utilization": 25, "score": 10}, {"utilization": 100, "score": 0}]
    nodes = [having("a", {}), having("b", {})]
    engine = with_policies(
        engine_with(nodes, [pod("t", asks(0, cpu="8"), nodeName="b", started=True)]),
        *by("requestedToCapacityRatio", shape=shape, resources={"memory": 0}),
    )
    assert scored(engine, pod("p", asks(cpu="4"))) == {"a": 100.0, "b": 34.0}


def test_scorers_are_one_plugin_beside_wishes() -> None:
    expression = {"key": "zone", "operator": "Exists"}
    likes = {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "preference": {"matchExpressions": [expression]}}]}}}  # fmt: skip
    nodes = [having("a", {}, labels={"zone": "x"}), having("b", {})]
    engine = engine_with(nodes, defaults=PolicyDefaults(device_weight=1))
    with_policies(engine, {"nodes": {"scorers": [
        {"name": "leastAllocated", "weight": 3}, {"name": "mostAllocated", "weight": 1}]}})  # fmt: skip
    asking = pod("p", asks(cpu="4"), **likes)
    engine.observe_pod(asking, 0.0)
    decision = engine.algorithm.decide(asking, explain=True)
    for parts in decision.scores.values():
        device, wish, *made_of = parts
        assert (device.scorer, wish.scorer) == ("device", "NodeAffinity")
        assert device.normalised == sum(part.value for part in made_of) / 4
    assert decision.score == decision.scores["a"][0].normalised + 200
