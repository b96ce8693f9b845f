"""``vgpu-scheduler defrag`` on a live cluster: plans of moves, and for whom room can be made."""

from __future__ import annotations

import json

import pytest
from tests.cli.live_cluster import Api, run
from tests.whatif.test_whatif_remedies import node, running


def evicting(namespace: str, name: str) -> str:
    """Return the command that evicts a pod."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"namespace": namespace, "name": name}}
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
    return f"echo '{json.dumps(body)}' | kubectl create -f - --raw {path}"


def test_a_plan_of_moves(api: Api) -> None:
    api.objects[0] = node("a", cards=2)
    made = running("more", "a", "GPU-a-1", 6000)
    made["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}]
    result_without = run("defrag")
    told = "No card can be freed: 1 is idle already, and waiting pods that fit take it now.\n"
    assert (result_without.exit_code, result_without.stdout) == (1, told)
    api.objects.append(made)
    result = run("defrag", "--cards", "1")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "1 move frees 1 card.",
        "",
        "1. Cordon, so that no other pod is placed there:",
        "   vgpu-scheduler cordon card a/GPU-a-1",
        "",
        "2. Evict these pods, each when the one before it runs again:",
        "   -  POD           FROM       TO".replace("-", " ", 1),
        "   1  default/more  a/GPU-a-1  a/GPU-a-0",
        "",
        "   Evict each by this command, which respects disruption budgets:",
        f"   {evicting('NAMESPACE', 'NAME')}",
        "",
        "3. Uncordon:",
        "   vgpu-scheduler uncordon card a/GPU-a-1",
        "",
        "These cards become free:",
        "   a/GPU-a-1   # taken at once by default/large, which waits",
    ]
    assert "1 pod waits for cards, and would take 1 of those that become free." in result.stderr.splitlines()
    found = json.loads(run("defrag", "-o", "json").stdout)
    assert found["freed"] == [{"node": "a", "card": "GPU-a-1"}]
    assert run("defrag", "--cards", "1", "-o", "wide").stdout == result.stdout
    more = run("defrag", "--cards", "3").stdout.splitlines()[0]
    assert more == "1 move frees 1 card of the 3 that were asked for: no moves that free more were found."
    assert found["moves"][0]["to"] == {"node": "a", "cards": ["GPU-a-0"]}


def test_a_plan_of_moves_for_one_pod(api: Api) -> None:
    api.objects[0] = node("a", cards=2)
    made = running("more", "a", "GPU-a-1", 6000)
    made["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}]
    without = run("defrag", "--for", "large")
    assert without.exit_code == 0
    assert without.stdout == "default/large fits now, on a/GPU-a-1: no pod has to move.\n"
    api.objects.append(made)
    result = run("defrag", "--for", "default/large")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "1 move makes room for default/large on a/GPU-a-1. Fewer are not enough.",
        "",
        "1. vgpu-scheduler cordon card a/GPU-a-1",
        "2. Evict default/more from a/GPU-a-1, and wait until it runs again, on a/GPU-a-0.",
        f"   {evicting('default', 'more')}",
        "3. vgpu-scheduler uncordon card a/GPU-a-1",
    ]
    for command in (("defrag", "--for"), ("explain",)):
        elsewhere = run(*command, "default/large", "-n", "team")
        assert (elsewhere.exit_code, "default/large names another namespace than -n team" in elsewhere.stderr) == (
            2,
            True,
        )
    found = json.loads(run("defrag", "--for", "large", "-o", "json").stdout)
    assert found["to"] == {"node": "a", "cards": ["GPU-a-1"]}
    assert [step["do"] for step in found["steps"]] == ["cordon", "evict", "uncordon"]
    assert (found["moves"], found["fewest"], found["takenBy"]) == (1, True, [])
    del made["metadata"]["ownerReferences"]
    stays = run("defrag", "--for", "large")
    assert stays.exit_code == 1
    assert stays.stdout.startswith(
        "No moves make room for default/large: even without all pods that can be moved, 0/1 nodes are available: "
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--for", "nobody"), "there is no pod default/nobody that waits"),
        (("--for", "small"), "there is no pod default/small that waits"),
        (("--for", "large", "--cards", "1"), "--cards and --for exclude each other"),
    ],
)
def test_who_no_room_can_be_made_for(api: Api, words: tuple[str, ...], told: str) -> None:
    result = run("defrag", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert told in result.stderr
