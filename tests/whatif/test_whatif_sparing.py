"""Where policies spare those that would be evicted, their fields are named; without these somebody would go."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.policy.resources import policy_object
from tests.whatif.preempting_worlds import allows, explained, tenant, waiting, world
from tests.whatif.test_whatif_remedies import node

Object = dict[str, Any]

SPARING: dict[str, Any] = {"minRuntime": "48h", "victims": "Own", "preemptible": False}
"""What spares a pod of another scheduler that runs for a day."""


@pytest.mark.parametrize("seed", range(60))
def test_the_fields_that_spare_those_who_would_go_are_named(seed: int) -> None:
    rng = np.random.default_rng(seed)
    chosen = [field for field in SPARING if rng.random() < 0.5] or ["victims"]
    rules = {"victims": "Any", **{field: SPARING[field] for field in chosen}}
    if "victims" in chosen and rng.random() < 0.5:
        del rules["victims"]  # that is what it is where nothing is said
    held = tenant("x-1", "a", "GPU-a-0", int(rng.integers(9000, 16000)))
    held["spec"]["schedulerName"] = "hami-scheduler"
    objects = [node("a", 1), held, waiting("high", 12000, 5)]
    before = world(allows(**rules), *objects)
    policies = dict(before.policies)
    found = explained(before)
    assert before.policies == policies
    goes = found.preemption_outlook
    assert goes is not None
    assert goes.preemption is None
    (said,) = goes.why
    for field, value in SPARING.items():
        shown = str(value).lower() if isinstance(value, bool) else value
        assert (f"spec.preemption.{field} of ClusterVGPUPolicy house ({shown})" in said) is (field in chosen)
    assert said.endswith("allowed it, 1 pod would be evicted on node a.")
    assert said in found.text()
    without = explained(world(allows(victims="Any"), *objects)).preemption_outlook
    assert without is not None
    assert without.preemption is not None
    assert [each.pod for each in without.preemption.victims] == ["default/x-1"]


def test_a_policy_of_the_namespace_of_the_victim_is_named() -> None:
    more = policy_object("mine", {"preemption": {"victims": "Own"}}, namespace="default")
    held = tenant("x-1", "a", "GPU-a-0", 9000)
    held["spec"]["schedulerName"] = "hami-scheduler"
    goes = explained(
        world(allows(victims="Any"), more, node("a", 1), held, waiting("high", 12000, 5))
    ).preemption_outlook
    assert goes is not None
    assert goes.why == (
        "If spec.preemption.victims of VGPUPolicy default/mine (Own) allowed it, 1 pod would be evicted on node a.",
    )


def test_as_few_fields_as_suffice_are_named_and_of_policies_that_matter_alone() -> None:
    """What other policies say, or cannot be understood, changes nothing; nor does a field that spares nobody."""
    others = [policy_object(f"p{n}", {"preemption": {"minRuntime": "48h"}}, namespace=f"team-{n}") for n in range(40)]
    broken = [
        policy_object("text", {"preemption": "x"}, namespace="t"),
        policy_object("list", {"preemption": [1]}, namespace="t"),
    ]
    held = tenant("x-1", "a", "GPU-a-0", 9000)
    asked = waiting("high", 12000, 5)
    rules = allows(victims="Any", minRuntime="48h", preemptible=False)
    mine = policy_object("mine", {"preemption": {"minRuntime": "0m"}}, namespace="default")
    goes = explained(world(rules, mine, *others, *broken, node("a", 1), held, asked)).preemption_outlook
    assert goes is not None
    title = "spec.preemption.preemptible of ClusterVGPUPolicy house (false)"
    assert goes.why == (f"If {title} allowed it, 1 pod would be evicted on node a.",)


def test_nothing_is_named_where_nobody_would_go_all_the_same() -> None:
    full = (node("a", 1), tenant("x-1", "a", "GPU-a-0", 9000, 9), waiting("high", 12000, 5))
    goes = explained(world(allows(minRuntime="48h"), *full)).preemption_outlook
    assert goes is not None
    assert goes.why == ()
