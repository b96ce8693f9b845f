"""What somebody with rights in one namespace is told of groups: whether enough of one get in at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.live_cluster import KINDS, Api, run
from tests.cli.test_cli_tenant_quotas import held, quota
from tests.cli.test_cli_tenants import asking
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod

EVERYTHING = frozenset(KINDS.values())
ANNOTATION = "gang.scheduling.koordinator.sh"


def drawn(rng: np.random.Generator) -> list[dict[str, Any]]:
    """Return pods of two groups and of none, in any order, of different priorities."""
    needs = {name: int(rng.integers(2, 4)) for name in ("g", "h")}
    priorities = {name: int(rng.integers(0, 2)) for name in ("g", "h", "")}
    pods = []
    for number, name in enumerate(rng.permutation(["g", "g", "g", "h", "h", "h", "", ""]).tolist()):
        made = pod(f"p{number}", {GPU: 1, MEMORY: 1000}, priority=priorities[name], schedulerName="vgpu-scheduler")
        made["metadata"]["namespace"] = "team"
        if name:
            notes = {f"{ANNOTATION}/name": name, f"{ANNOTATION}/min-available": str(needs[name])}
            made["metadata"]["annotations"] = notes
        pods.append(made)
    return pods


@pytest.mark.parametrize("seed", range(60))
def test_a_group_of_which_the_quota_lets_too_few_in_waits_whole(api: Api, tmp_path: Path, seed: int) -> None:
    """As many get in as for an administrator in whose cluster nothing but the quota keeps anybody."""
    rng = np.random.default_rng(seed)
    api.objects[:] = [node("a", 4), quota(gpumem=1500 + 1000 * int(rng.integers(1, 9))), held(1000)]
    pods = drawn(rng)
    path = asking(tmp_path, *pods)
    placed = [each["pod"] for each in json.loads(run("simulate", "-f", path, "-o", "json").stdout) if each["node"]]
    api.refused = EVERYTHING
    told = json.loads(run("simulate", "-f", path, "-n", "team", "-o", "json").stdout)
    get_in = {each["pod"] for each in told if not (each["exceeded"] or each["reasons"] or each["refused"])}
    assert len(get_in) == len(placed)
    groups: dict[str, list[bool]] = {}
    for each in pods:
        if notes := each["metadata"].get("annotations"):
            groups.setdefault(" ".join(sorted(notes.values())), []).append(f"team/{each['metadata']['name']}" in get_in)
    assert all(not any(there) or sum(there) >= int(words.split()[0]) for words, there in groups.items())


POD_GROUP = "PodGroup.scheduling.x-k8s.io"


@pytest.mark.parametrize("may_list", [False, True])
def test_who_may_not_list_pod_groups_is_not_told_that_there_are_none(api: Api, *, may_list: bool) -> None:
    waiting = pod("p", {GPU: 1}, schedulerName="vgpu-scheduler")
    waiting["metadata"] |= {"namespace": "team", "labels": {"scheduling.x-k8s.io/pod-group": "ga"}}
    api.objects[:] = [waiting]
    api.refused = EVERYTHING
    api.refused_everywhere = frozenset() if may_list else frozenset({POD_GROUP})
    said = run("explain", "p", "-n", "team").stderr
    label = "label scheduling.x-k8s.io/pod-group names a PodGroup, a kind that"
    unknown = f"warning: Pod team/p: {label} may not be listed here: unless it exists, pods of this group are placed"
    assert (unknown in said) is not may_list
    assert f"{label} the API server does not serve" not in said


OF_MISSING = f"{POD_GROUP} team/ga, which says how many pods the group needs, "
FULL = "0/1 nodes are available: 1 CardInsufficientMemory."


@pytest.mark.parametrize(
    ("message", "is_proven"),
    [
        (f"{OF_MISSING}does not exist.", True),
        (f"{OF_MISSING}cannot be read.", True),
        ("waits for other pods of its group team/ga: 3 are needed before any is placed.", True),
        (f"pod team/q, which is placed together with this one: {FULL}", True),
        ("waits until the pods of its group team/ga that are placed are bound: 2 are needed.", True),
        ("0/9 nodes are available: group team/ga needs 4 pods to be placed at once, and they have room for 3.", True),
        (FULL, False),
        ("", False),
    ],
)
@pytest.mark.parametrize("number", [1, 2, 4])
def test_no_pod_is_said_to_be_placed_alone_whose_condition_proves_that_its_group_counts(
    api: Api, message: str, number: int, *, is_proven: bool
) -> None:
    api.objects[:] = []
    for name in "pqrs"[:number]:
        waiting = pod(name, {GPU: 1}, schedulerName="vgpu-scheduler")
        waiting["metadata"] |= {"namespace": "team", "labels": {"scheduling.x-k8s.io/pod-group": "ga"}, "uid": name}
        condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulerError", "message": message}
        waiting["status"] = {"phase": "Pending", "conditions": [condition] if message else []}
        api.objects.append(waiting)
    api.refused, api.refused_everywhere = EVERYTHING, frozenset({POD_GROUP})
    said = run("explain", "p", "-n", "team")
    assert ("are placed one by one" in said.stderr) is not is_proven
    assert "a kind that the API server does not serve" not in said.stderr
    assert ("create PodGroup" in said.stdout) is (message == f"{OF_MISSING}does not exist.")
    if "3 are needed" in message and number < 3:
        lacking = "1 more pod" if number == 2 else "2 more pods"
        assert f"create {lacking} of group team/ga" in said.stdout
