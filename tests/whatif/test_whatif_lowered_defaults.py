"""Policies that give pods more than there is: the most that they may give is told, for a group, too."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from tests.seeds import seeds
from tests.whatif.group_worlds import member, named
from tests.whatif.test_whatif_defrag import world_of
from tests.whatif.test_whatif_remedies import CORES, GPU, MEMORY, node, running
from tests.whatif.test_whatif_turns import waits

from vgpu_scheduler.whatif import RemedyType, explain_pod

Object = dict[str, Any]
LOWERED = re.compile(
    r"have (?P<who>.*) lower spec\.defaults\.(?P<name>\w+) of \S+ (?:default/)?d to (\d+)(Mi)? \(it is .*\)"
)


def told(*objects: Object) -> tuple[str, list[Any]]:
    world = world_of(*objects)
    found = explain_pod(world, named(world, "p0"))
    return found.answer.node, [each for each in found.remedies if " lower spec.defaults." in each.text]


@pytest.mark.parametrize("seed", seeds(4, 60))
def test_what_a_policy_gives_is_lowered_as_little_as_is_enough(seed: int) -> None:
    rng = np.random.default_rng(seed)
    name = str(rng.choice(["memory", "cores"]))
    count, taken = int(rng.integers(1, 4)), int(rng.integers(1, 60))
    given: Any = f"{int(rng.integers(17, 40))}Gi" if name == "memory" else 100
    limits = {GPU: 1, CORES: 10} if name == "memory" else {GPU: 1, MEMORY: 1000}
    home = {"namespace": "default"} if seed % 2 else {}
    policy = {"kind": "VGPUPolicy" if home else "ClusterVGPUPolicy", "metadata": {"name": "d", **home}}
    policy["spec"] = {"defaults": {name: given}}
    objects = [node("a", 2), *(running(f"r{n}", "a", f"GPU-a-{n}", taken * 100, taken) for n in range(2))]
    pods = [waits("p0", limits, 1)]
    if count > 1:
        pods = [member(f"p{n}", n, count) for n in range(count)]
        for each in pods:
            each["spec"]["containers"][0]["resources"]["limits"] = {key: str(value) for key, value in limits.items()}
    node_now, found = told(*objects, policy, *pods)
    assert not node_now
    (remedy,) = found
    assert remedy.type is RemedyType.CHANGE_POLICY
    matched = LOWERED.fullmatch(remedy.text)
    assert matched is not None, remedy.text
    assert (matched["name"], "namespace" in matched["who"]) == (name, bool(home))
    (changed,) = remedy.objects
    assert told(*objects, changed, *pods)[0] == remedy.node == "a"
    more = int(matched[3]) + 1
    policy["spec"]["defaults"][name] = f"{more}Mi" if name == "memory" else more
    assert not told(*objects, policy, *pods)[0]


def test_no_policy_is_lowered_for_pods_that_say_what_they_want() -> None:
    policy = {"kind": "ClusterVGPUPolicy", "metadata": {"name": "d"}, "spec": {"defaults": {"memory": "30Gi"}}}
    asked = waits("p0", {GPU: 1, MEMORY: 99000}, 1)
    assert told(node("a", 1), policy, asked) == ("", [])
