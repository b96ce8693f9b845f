"""Where a policy allows fewer evictions within an hour than are needed at once, waiting does not help: it is told."""

from __future__ import annotations

from copy import deepcopy

import pytest
from tests.policy.resources import policy_object
from tests.whatif.preempting_worlds import Obj, allows, explained, tenant, waiting, world
from tests.whatif.test_whatif_group_letting_preempt import full, gang, outlook
from tests.whatif.test_whatif_remedies import node

from vgpu_scheduler.whatif import World

ADMINISTRATOR = "an administrator of the cluster"
TOLD = (
    "Waiting does not help: spec.preemption.perHour of ClusterVGPUPolicy house is {}, and {} evictions are needed at"
    f" once. If {ADMINISTRATOR} set it to {{}}, {{}} would be evicted on {{}}."
)


def recorded(policy: Obj, number: int, time: str = "2026-01-01T23:50:00Z") -> Obj:
    """Return a policy that has recorded evictions."""
    made = [{"time": time, "pod": "x/y", "uid": f"gone-{each}", "node": "n"} for each in range(number)]
    return {**policy, "status": {"evictions": made}}


def why(made: World) -> tuple[str, ...]:
    found = outlook(made)
    assert found is not None
    return tuple(found.why)


@pytest.mark.parametrize(("limit", "number"), [(1, 2), (1, 3), (2, 3), (0, 2)])
@pytest.mark.parametrize("gone", [0, 1])
def test_a_group_is_told_the_limit_that_it_needs(limit: int, number: int, gone: int) -> None:
    nodes = "abc"[:number]
    policy = recorded(allows(perHour=limit), gone)
    objects = [*full(nodes), *gang(number, 12000, 5)]
    where = f"nodes {', '.join(nodes)}"
    assert why(world(policy, *objects)) == (TOLD.format(limit, number, number + gone, f"{number} pods", where),)
    raised = deepcopy(policy)
    raised["spec"]["preemption"]["perHour"] = number + gone
    found = outlook(world(raised, *objects))
    assert found is not None
    assert found.preemption is not None
    raised["spec"]["preemption"]["perHour"] -= 1
    again = outlook(world(raised, *objects))
    assert again is not None
    assert again.preemption is None, "it is the smallest limit that is enough"


def test_a_limit_that_is_used_up_now_is_waited_for() -> None:
    assert why(world(recorded(allows(perHour=2), 1), *full("ab"), *gang(2, 12000, 5))) == ()


def test_a_pod_is_told_it_too() -> None:
    there = [tenant(f"low-{number}", "a", "GPU-a-0", 5000) for number in range(3)]
    found = explained(world(allows(perHour=1), node("a", 1), *there, waiting("high", 16384, 5))).preemption_outlook
    assert found is not None
    assert found.why == (TOLD.format(1, 3, 3, "3 pods", "node a"),)
    assert found.why[0] in found.text()


def test_a_limit_of_a_namespace_is_raised_by_who_may_write_it() -> None:
    mine = policy_object("mine", {"preemption": {"perHour": 1}}, namespace="default")
    (told,) = why(world(allows(perHour=5), mine, *full("ab"), *gang(2, 12000, 5)))
    assert "perHour of VGPUPolicy default/mine is 1, and 2 evictions are needed at once." in told
    assert "If a user who may write policies in namespace default set it to 2, 2 pods would be evicted" in told


def test_several_limits_are_raised_together() -> None:
    mine = policy_object("mine", {"preemption": {"perHour": 1}}, namespace="default")
    first, second = why(world(allows(perHour=1), mine, *full("ab"), *gang(2, 12000, 5)))
    assert "set it to 2, and raised that of VGPUPolicy default/mine, 2 pods would be evicted" in first
    assert "set it to 2, and raised that of ClusterVGPUPolicy house, 2 pods would be evicted" in second


def test_nothing_is_said_of_a_limit_where_nobody_would_go_anyway() -> None:
    assert why(world(allows(perHour=1, preemptible=False), *full("ab"), *gang(2, 20000, 5))) == ()
