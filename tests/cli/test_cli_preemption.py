"""What commands say about who would be evicted, and to whom."""

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
    assert "For it 2 pods would be evicted, on node a (ClusterVGPUPolicy house allows it):" in text
    assert "theirs-1" not in text
    assert "secret" not in text
    assert f"  {HIDDEN}  2         GPU-a-0  (a budget of its namespace)" in text
    assert "  mine/mine-1                      0         GPU-a-0  -" in text
    assert [each["pod"] for each in found("explain", "mine/high")["preemption"]["victims"]] == ["", "mine/mine-1"]
    preempting.deletable = lambda _: True
    text = run("explain", "mine/high").stdout
    assert "  theirs/theirs-1  2         GPU-a-0  theirs/secret" in text


def test_explain_names_the_budgets_that_protect_to_those_alone_who_may_delete_their_pods(preempting: Api) -> None:
    preempting.objects[0] = allows()
    text = run("explain", "mine/high").stdout
    assert "If disruption budgets allowed it, 2 pods would be evicted on node a:" in text
    assert f"  {HIDDEN}  2         GPU-a-0  (a budget of its namespace)" in text
    assert "theirs-1" not in text
    assert "secret" not in text
    protected = found("explain", "mine/high")["preemption"]["protected"]
    assert [each["pod"] for each in protected["victims"]] == ["", "mine/mine-1"]
    preempting.deletable = lambda _: True
    assert "  theirs/theirs-1  2         GPU-a-0  theirs/secret" in run("explain", "mine/high").stdout


def test_explain_names_who_preempted_a_pod_to_those_alone_who_may_delete_it(preempting: Api) -> None:
    preempting.objects[-1]["status"]["nominatedNodeName"] = "a"
    terminating(preempting.objects[3])
    preempting.deletable = lambda namespace: namespace == "theirs"
    text = run("explain", "theirs/theirs-1").stdout
    assert "It was evicted, and a pod of another team, of priority 5, is nominated to its node" in text
    assert found("explain", "theirs/theirs-1")["preemptedBy"] == {"node": "a", "pod": "", "priority": 5}
    preempting.deletable = lambda _: True
    assert "It was evicted, and mine/high, of priority 5, is" in run("explain", "theirs/theirs-1").stdout


def test_simulate_says_who_would_have_to_go_for_all_that_wait(preempting: Api) -> None:
    preempting.objects.append(waiting("next", 4000, 1, metadata={"namespace": "mine"}))
    args = ("simulate", "--pending", "-n", "mine")
    without = run(*args)
    assert without.exit_code == 1
    assert not any("preempts" in each for each in found(*args))
    told = run(*args, "--preempt")
    lines = [line.split() for line in told.stdout.splitlines()]
    assert lines[1][:4] == ["mine/high", "preempts", "a", "GPU-a-0"]
    assert lines[2][:3] == ["mine/next", "unschedulable", "-"]
    assert ["mine/mine-1", "0", "GPU-a-0", "-", "a", "mine/high"] in lines
    assert "Pods that would be evicted (2 pods):" in told.stdout
    assert HIDDEN in told.stdout
    assert "theirs-1" not in told.stdout
    first, _ = found(*args, "--preempt")
    assert (first["outcome"], first["node"]) == ("preempts", "a")
    assert first["preempts"][1] == {"pod": "mine/mine-1", "priority": 0, "cards": ["GPU-a-0"], "budgets": []}
    preempting.objects[-2]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpumem"] = "5000"
    assert [each["outcome"] for each in found(*args, "--preempt")] == ["preempts", "placed"], "theirs need not go"
    assert run(*args, "--preempt").exit_code == 0


def test_simulate_has_a_preemption_that_is_under_way_end(preempting: Api) -> None:
    preempting.objects[-1]["status"]["nominatedNodeName"] = "a"
    for each in preempting.objects[2:4]:
        terminating(each)
    (answer,) = found("simulate", "--pending", "-n", "mine", "--preempt")
    assert (answer["outcome"], len(answer["preempts"])) == ("preempts", 2)


def test_simulate_says_that_the_setting_is_off_and_goes_by_policies_all_the_same(preempting: Api) -> None:
    preempting.settings = "preemption: false"
    told = run("simulate", "--pending", "-n", "mine", "--preempt")
    assert "the setting preemption is off: no pod is evicted until manifests/preemption is installed" in told.stderr
    assert "preempts" in told.stdout
    preempting.objects.pop(0)
    assert "preempts" not in run("simulate", "--pending", "-n", "mine", "--preempt").stdout
    refused = run("simulate", "--preempt", "--count", "3", "-f", __file__)
    assert "--count is for how many copies fit, and --preempt for which pods would be evicted" in refused.stderr


def test_explain_says_from_a_pod_alone_that_room_is_made_for_it_or_that_it_goes(preempting: Api) -> None:
    preempting.objects[-1]["status"]["nominatedNodeName"] = "a"
    terminating(preempting.objects[2])
    preempting.refused = frozenset({"Node", "Pod"})
    assert (
        "Room is made for it on node a: pods of lower priority are evicted from it."
        in run("explain", "mine/high").stdout
    )
    assert found("explain", "mine/high")["nominatedNode"] == "a"
    assert "  It is being deleted: its condition DisruptionTarget says EvictionByEvictionAPI." in (
        run("explain", "mine/mine-1").stdout
    )
    assert found("explain", "mine/mine-1")["disruption"] == "EvictionByEvictionAPI"


def test_explain_of_a_victim_and_of_its_preemptor_says_of_each_what_it_says_of_it_alone(preempting: Api) -> None:
    preempting.deletable = lambda _: True
    preempting.objects[-1]["status"]["nominatedNodeName"] = "a"
    for name, obj in (("away", preempting.objects[2]), ("theirs", preempting.objects[3])):
        terminating(obj)["metadata"]["name"] = name  # before high by name, and after it
    for obj in (*preempting.objects[2:4], preempting.objects[-1]):
        obj["metadata"] |= {"namespace": "mine", "labels": {"app": "x"}}
    preempting.requests.clear()
    told = run("explain", "-l", "app=x", "-n", "mine").stdout
    assert sum("accessreviews" in asked for asked in preempting.requests) == 1  # it is one namespace
    assert "mine/away is bound to a." in told
    assert "2 of 2 pods still there." in told
    assert told.count("and mine/high, of priority 5, is nominated to its node") == 2
    assert [each["pod"] for each in found("explain", "-l", "app=x", "-n", "mine")] == [
        "mine/away",
        "mine/high",
        "mine/theirs",
    ]
