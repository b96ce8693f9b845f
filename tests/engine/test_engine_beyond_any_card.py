"""Pods that ask for more than any card has share a node part; what else each says is held against it alone."""

from __future__ import annotations

import pytest
from tests.engine.builders import asks, cards, engine_with, node, pod
from tests.engine.test_engine_interpod import decide

from vgpu_scheduler.model import Outcome
from vgpu_scheduler.policy import CLUSTER_KIND, GROUP, NAMESPACED_KIND, VERSION, decode_policy

ODD = {
    ("huawei.com/Ascend910B4", "huawei.com/Ascend910B4-memory"): ("huawei.com/vnpu-mode", "hami-core"),
    ("metax-tech.com/sgpu", "metax-tech.com/vmemory"): ("metax-tech.com/sgpu-app-class", "online"),
}
"""What a pod asks for of which there is none, and an annotation that its node would follow against the policy."""


@pytest.mark.parametrize("kind", [CLUSTER_KIND, NAMESPACED_KIND])
@pytest.mark.parametrize("resources", ODD)
@pytest.mark.parametrize("memory", [1, 4, 4000, 999_999])
@pytest.mark.parametrize("first", ["plain", "odd"])
def test_a_pod_whose_annotation_is_overruled_is_refused_whoever_asked_before(
    kind: str, resources: tuple[str, str], memory: int, first: str
) -> None:
    engine = engine_with([node("a", cards("a", 1))])
    metadata = {"name": "p", "uid": "u", **({} if kind == CLUSTER_KIND else {"namespace": "default"})}
    spec = {"podOverrides": {"allow": ["devicePolicy"]}}
    written = {"apiVersion": f"{GROUP}/{VERSION}", "kind": kind, "metadata": metadata, "spec": spec}
    engine.policy_tracker.observe(decode_policy(written))
    annotation, value = ODD[resources]
    asked = dict(zip(resources, ("1", str(memory)), strict=True))
    made = {
        "plain": pod("plain", asks(0, **asked)),
        "odd": pod("odd", asks(0, **asked), annotations={annotation: value}),
    }
    outcomes = {}
    for now, name in enumerate((first, *(made.keys() - {first}))):
        engine.observe_pod(made[name], float(now))
        decision = decide(engine, float(now))
        outcomes[name] = decision.outcome
        assert (annotation in decision.message) == (name == "odd"), decision.message
    assert outcomes == {"plain": Outcome.UNSCHEDULABLE, "odd": Outcome.REFUSED}
