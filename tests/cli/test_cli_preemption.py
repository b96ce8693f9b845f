"""What commands say about who would have to go, and to whom."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.cli.live_cluster import Api, run
from tests.whatif.preempting_worlds import allows, budget, tenant, terminating, waiting
from tests.whatif.test_whatif_remedies import node

HIDDEN = "(a pod that you may not delete)"


@pytest.fixture
def preempting(api: Api) -> Api:
    """Where two teams share a card, and a pod of one of them waits for more of it."""
    api.settings = "preemption: true"
    api.objects = [
        allows(budgets="Exceed"),
        node("a", 1),
        tenant("mine-1", "a", "GPU-a-0", 6000, metadata={"namespace": "mine"}),
        tenant("theirs-1", "a", "GPU-a-0", 6000, 2, metadata={"namespace": "theirs"}),
        {**budget("theirs", 0), "metadata": {"name": "secret", "namespace": "theirs", "uid": "u"}},
        waiting("high", 16000, 5, metadata={"namespace": "mine"}),
    ]
    api.deletable = lambda namespace: namespace == "mine"
    return api


def found(*arguments: str) -> Any:
    return json.loads(run(*arguments, "-o", "json").stdout)


def test_explain_names_the_victims_to_those_alone_who_may_delete_them(preempting: Api) -> None:
    text = run("explain", "mine/high").stdout
    assert "For it 2 pods would have to go, on node a (ClusterVGPUPolicy house allows it):" in text
    assert "theirs-1" not in text
    assert "secret" not in text
    assert f"  {HIDDEN}  2         GPU-a-0  (a budget of its namespace)" in text
    assert "  mine/mine-1                      0         GPU-a-0  -" in text
    assert [each["pod"] for each in found("explain", "mine/high")["preemption"]["victims"]] == ["", "mine/mine-1"]
    preempting.deletable = lambda _: True
    text = run("explain", "mine/high").stdout
    assert "  theirs/theirs-1  2         GPU-a-0  theirs/secret" in text


def test_explain_names_who_displaced_a_pod_to_those_alone_who_may_delete_it(preempting: Api) -> None:
    preempting.objects[-1]["status"]["nominatedNodeName"] = "a"
    terminating(preempting.objects[3])
    preempting.deletable = lambda namespace: namespace == "theirs"
    text = run("explain", "theirs/theirs-1").stdout
    assert "It was evicted, and a pod of another team, of priority 5, is nominated to its node" in text
    assert found("explain", "theirs/theirs-1")["displacedBy"] == {"node": "a", "pod": "", "priority": 5}
    preempting.deletable = lambda _: True
    assert "It was evicted, and mine/high, of priority 5, is" in run("explain", "theirs/theirs-1").stdout
