"""What has to be set so that the pods of a group have others evicted, where nobody is evicted for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.engine.builders import in_group
from tests.policy.resources import policy_object
from tests.whatif.preempting_worlds import allows, random_objects, tenant, waiting, world
from tests.whatif.test_whatif_remedies import node

from vgpu_scheduler.whatif import World
from vgpu_scheduler.whatif.explanation.explanation import explain_pod
from vgpu_scheduler.whatif.explanation.preempting import PreemptionOutlook

Obj = dict[str, Any]

TOLD = "Pods of lower priority are in the way of its group, and none is evicted: {} (docs/preemption.md)."
ALLOWED = "have a ClusterVGPUPolicy say preemption.mayPreempt for it"


def gang(number: int, memory: int, priority: int, **spec: Any) -> list[Obj]:
    """Return the pods of a group that waits, all of which are needed."""
    made = [waiting(f"gang-{each}", memory, priority) for each in range(number)]
    for each in made:
        each["metadata"]["annotations"] = in_group("gang", number)
        each["spec"] |= spec
    return made


def full(nodes: str = "abc") -> list[Obj]:
    return [obj for name in nodes for obj in (node(name, 1), tenant(f"low-{name}", name, f"GPU-{name}-0", 9000))]


def outlook(made: World) -> PreemptionOutlook | None:
    pod = next(each for each in made.pending.values() if each.name == "gang-0")
    return explain_pod(made, pod).preemption_outlook


@pytest.mark.parametrize("number", [2, 3])
def test_a_group_is_told_that_a_policy_has_to_allow_it(number: int) -> None:
    made = world(*full(), *gang(number, 12000, 5))
    before = list(made.engine.policies.catalogue.all())
    found = outlook(made)
    assert found is not None
    assert found.text() == TOLD.format(ALLOWED)
    assert found.as_json() == {"remedy": TOLD.format(ALLOWED)}
    assert list(made.engine.policies.catalogue.all()) == before
    with_policy = outlook(world(allows(), *full(), *gang(number, 12000, 5)))
    assert with_policy is not None
    assert with_policy.preemption is not None


def test_all_that_forbids_it_is_named_once() -> None:
    own = policy_object("own", {"preemption": {"mayPreempt": False}}, namespace="default")
    found = outlook(world(own, *full(), *gang(3, 12000, 5)))
    assert found is not None
    forbids = "have VGPUPolicy default/own not say preemption.mayPreempt: false"
    assert found.text() == TOLD.format(f"{ALLOWED} and {forbids}")


@pytest.mark.parametrize(
    ("number", "memory", "priority", "spec"),
    [
        (2, 12000, 0, {}),
        (2, 20000, 5, {}),
        (4, 12000, 5, {}),
        (2, 12000, 5, {"preemptionPolicy": "Never"}),
    ],
)
def test_nothing_is_told_where_it_would_not_help(number: int, memory: int, priority: int, spec: Obj) -> None:
    assert outlook(world(*full(), *gang(number, memory, priority, **spec))) is None


@pytest.mark.parametrize("seed", range(40))
def test_it_is_told_exactly_where_preemption_finds_victims_then(seed: int) -> None:
    rng = np.random.default_rng(seed)
    allowing, *objects = random_objects(rng)
    objects = [each for each in objects if not each["metadata"]["name"].startswith("waits")]
    objects += gang(int(rng.integers(2, 4)), int(rng.integers(8, 17)) * 1000, int(rng.choice([1, 6, 10])))
    rules = {**allowing["spec"]["preemption"], "mayPreempt": False}
    told = outlook(world(policy_object("house", {"preemption": rules}), *objects))
    would = outlook(world(allowing, *objects))
    finds = would is not None and would.preemption is not None
    if finds:
        assert told is not None
        assert ALLOWED in told.remedy
    elif told is not None:
        assert "Even then nobody goes at once" in told.remedy
