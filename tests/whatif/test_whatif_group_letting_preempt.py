"""What has to be set so that the pods of a group have others evicted, where nobody is evicted for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.engine.builders import in_group
from tests.policy.resources import policy_object
from tests.whatif.preempting_worlds import INSTALL, allows, budget, random_objects, tenant, waiting, world
from tests.whatif.test_whatif_remedies import node

from vgpu_scheduler.whatif import World
from vgpu_scheduler.whatif.explanation.explanation import explain_pod
from vgpu_scheduler.whatif.explanation.preempting import PreemptionOutlook

Obj = dict[str, Any]

TOLD = "Pods of lower priority are in the way of its group, and none is evicted: {} (docs/preemption.md)."
ALLOWED = "have a ClusterVGPUPolicy set preemption.mayPreempt for it"


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


@pytest.mark.parametrize("number", [2, 3])
@pytest.mark.parametrize("allowing", [[], [allows()]], ids=["no policy", "a policy"])
def test_a_group_is_told_that_preemption_is_off(number: int, allowing: list[Obj]) -> None:
    made = world(*allowing, *full(), *gang(number, 12000, 5), preemption=False)
    found = outlook(made)
    assert found is not None
    assert found.text() == TOLD.format(" and ".join([INSTALL, *([] if allowing else [ALLOWED])]))


def test_all_that_forbids_it_is_named_once() -> None:
    own = policy_object("own", {"preemption": {"mayPreempt": False}}, namespace="default")
    found = outlook(world(own, *full(), *gang(3, 12000, 5)))
    assert found is not None
    forbids = "remove preemption.mayPreempt: false from VGPUPolicy default/own"
    assert found.text() == TOLD.format(f"{ALLOWED} and {forbids}")


@pytest.mark.parametrize(("allowed", "lacking"), [(1, "pods gang-1, gang-2"), (2, "pod gang-2")])
def test_the_pods_that_no_policy_allows_it_are_named(allowed: int, lacking: str) -> None:
    selects = policy_object("some", {"selector": {"matchLabels": {"may": "yes"}}, "preemption": {"mayPreempt": True}})
    pods = gang(3, 12000, 5)
    for each in pods[:allowed]:
        each["metadata"]["labels"] = {"may": "yes"}
    found = outlook(world(selects, *full(), *pods))
    assert found is not None
    assert found.text() == TOLD.format(f"have a ClusterVGPUPolicy set preemption.mayPreempt for {lacking}")


@pytest.mark.parametrize("is_on", [True, False])
@pytest.mark.parametrize(
    ("number", "memory", "priority", "spec"),
    [
        (2, 12000, 0, {}),
        (2, 20000, 5, {}),
        (4, 12000, 5, {}),
        (2, 12000, 5, {"preemptionPolicy": "Never"}),
    ],
)
def test_nothing_is_told_where_it_would_not_help(
    number: int, memory: int, priority: int, spec: Obj, *, is_on: bool
) -> None:
    assert outlook(world(*full(), *gang(number, memory, priority, **spec), preemption=is_on)) is None


@pytest.mark.parametrize("is_on", [True, False])
@pytest.mark.parametrize("seed", range(40))
def test_it_is_told_exactly_where_preemption_finds_victims_then(seed: int, *, is_on: bool) -> None:
    rng = np.random.default_rng(seed)
    allowing, *objects = random_objects(rng)
    objects = [each for each in objects if not each["metadata"]["name"].startswith("waits")]
    objects += gang(int(rng.integers(2, 4)), int(rng.integers(8, 17)) * 1000, int(rng.choice([1, 6, 10])))
    rules = {**allowing["spec"]["preemption"], "mayPreempt": False}
    told = outlook(world(policy_object("house", {"preemption": rules}), *objects, preemption=is_on))
    would = outlook(world(allowing, *objects))
    finds = would is not None and would.preemption is not None
    if finds:
        assert told is not None
        assert ALLOWED in told.remedy
        assert (INSTALL in told.remedy) is not is_on
    elif told is not None:
        assert "Even then no pod is evicted at once" in told.remedy


def spared(found: PreemptionOutlook | None) -> list[str]:
    assert found is not None
    assert found.preemption is None
    return found.text().splitlines()[1:]


@pytest.mark.parametrize(
    ("rules", "says"),
    [({"minRuntime": "10000h"}, "minRuntime of {} (10000h)"), ({"preemptible": False}, "preemptible of {} (false)")],
)
def test_the_field_that_spares_the_victims_of_a_group_is_named(rules: Obj, says: str) -> None:
    field = f"spec.preemption.{says.format('ClusterVGPUPolicy house')}"
    made = world(allows(**rules), *full(), *gang(2, 12000, 5))
    assert spared(outlook(made)) == [f"If {field} allowed it, 2 pods would be evicted on nodes a, b."]


def test_the_budgets_that_spare_the_victims_of_a_group_are_named() -> None:
    found = outlook(world(allows(), budget("low", 0), *full(), *gang(2, 12000, 5)))
    head, _, *rows = spared(found)
    assert head == "If disruption budgets allowed it, 2 pods would be evicted on nodes a, b:"
    assert len(rows) == 2
    assert all("default/low" in row.split()[-1] for row in rows)


@pytest.mark.parametrize("low", [0, 5])
def test_a_group_without_victims_is_told_that_its_lowest_pod_ranks_it(low: int) -> None:
    made = gang(3, 12000, 5)
    made[1]["spec"]["priority"] = low
    found = outlook(world(allows(), *full(), *made))
    if low:
        assert found is not None
        assert found.preemption is not None
        return
    would = "3 pods would be evicted on nodes a, b, c"
    assert spared(found) == [f"Its group has priority 0, the lowest of its pods (pod gang-1): with 5, {would}."]
