"""What lets a pod preempt others: what explain tells to set makes the engine find victims."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from tests.policy.resources import policy_object
from tests.whatif.preempting_worlds import (
    INSTALL,
    NOW,
    allows,
    explained,
    random_objects,
    tenant,
    waiting,
    world,
)
from tests.whatif.test_whatif_remedies import node

from vgpu_scheduler.whatif import take_up_preemptions


def test_where_it_is_off_it_says_what_to_set_to_a_pod_that_has_a_priority_alone() -> None:
    full = (node("a", 1), tenant("low-1", "a", "GPU-a-0", 9000))
    high, plain = waiting("high", 12000, 5), waiting("high", 12000)
    installed = INSTALL
    allowed = "have a ClusterVGPUPolicy set preemption.mayPreempt for it"
    told = "Pods of lower priority are in its way, and none is evicted: {} (docs/preemption.md)."
    off, unsaid, half = (
        explained(world(*full, high, preemption=False)).text(),
        explained(world(*full, high)).text(),
        explained(world(allows(), *full, high, preemption=False)).text(),
    )
    assert off.endswith(told.format(f"{installed} and {allowed}"))
    assert unsaid.endswith(told.format(allowed))
    assert half.endswith(told.format(installed))
    for nothing_new in (world(*full, plain), world(*full, plain, preemption=False)):
        assert explained(nothing_new).preemption_outlook is None


def keeps_from_preempting(rng: np.random.Generator) -> list[dict[str, object]]:
    """Return what may be why the end of pods of lower priority is no matter of preemption, or not."""
    kind, quota = int(rng.integers(0, 4)), {"hard": {"limits.nvidia.com/gpumem": "9000"}}
    if kind == 1:
        return [policy_object("kept", {"preemption": {"preemptible": False}})]
    if kind == 2:
        metadata = {"name": "q", "namespace": "default"}
        return [{"kind": "ResourceQuota", "metadata": metadata, "spec": quota}]
    return [policy_object("later", {"preemption": {"minRuntime": 3600}})] if kind == 3 else []


@pytest.mark.parametrize("seed", range(60))
def test_what_to_set_is_told_only_where_preemption_finds_victims_then(seed: int) -> None:
    rng = np.random.default_rng(seed)
    _, *objects = random_objects(rng)
    objects = [each for each in objects if not each["metadata"]["name"].startswith("waits")]
    objects += [waiting("high", int(rng.integers(8, 17)) * 1000, int(rng.choice([1, 6, 10])))]
    for each in objects:
        if each["kind"] == "Pod" and "nodeName" in each["spec"] and rng.random() < 0.3:
            each["spec"]["schedulerName"] = "another"
    kept = keeps_from_preempting(rng)
    told = explained(world(*objects, *kept, preemption=False)).preemption_outlook
    allowing = [
        policy_object(each["metadata"]["name"], {"preemption": {**each["spec"]["preemption"], "mayPreempt": True}})
        for each in kept
        if each["kind"] != "ResourceQuota"
    ]
    quotas = [each for each in kept if each["kind"] == "ResourceQuota"]
    would = explained(world(*objects, *quotas, *(allowing or [allows()]))).preemption_outlook
    finds = would is not None and would.preemption is not None
    assert (told is not None and "install manifests/preemption" in told.remedy) == finds
    assert told is None or "preemption.mayPreempt" in told.remedy


@pytest.mark.parametrize("seed", range(60))
def test_what_is_set_lets_victims_go_at_once_or_as_is_said_later(seed: int) -> None:
    """A limit of evictions that is too low for ever is not got around by setting something else."""
    rng = np.random.default_rng(seed)
    needed, rules = int(rng.integers(1, 4)), dict[str, Any]()
    if rng.random() < 0.7:
        rules["perHour"] = int(rng.integers(0, 5))
    if rng.random() < 0.3:
        rules["delay"] = "72h"
    if rng.random() < 0.3:
        rules["minRuntime"] = "48h"
    policy = allows(**rules)
    gone = int(rng.integers(0, 3)) if rng.random() < 0.5 else 0
    evicted = {"time": "2026-01-01T23:59:00Z", "node": "a"}
    policy["status"] = {"evictions": [{**evicted, "pod": f"default/g{n}", "uid": f"g{n}"} for n in range(gone)]}
    low = [tenant(f"low-{n}", "a", f"GPU-a-{n}", 9000) for n in range(needed)]
    objects = [policy, node("a", needed), *low, waiting("high", 12000, 5, cards=needed)]
    told = explained(world(*objects, preemption=False)).preemption_outlook
    now, later = world(*objects), world(*objects)
    take_up_preemptions(later, NOW + timedelta(days=30))
    found, then = (explained(each).preemption_outlook for each in (now, later))
    assert found is not None
    assert then is not None
    assert (told is not None) == (then.preemption is not None)
    if told is not None:
        said = "" if found.preemption is not None else f" Even then no pod is evicted at once: {found.reason}"
        assert told.remedy.endswith(f"(docs/preemption.md).{said}")


@pytest.mark.parametrize("seed", range(60))
def test_all_that_forbids_preemption_is_named_and_without_it_somebody_goes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    is_on, may = bool(rng.random() < 0.6), rng.choice([True, False, None])
    own = {name: bool(rng.random() < 0.5) for name in ("p", "q")[: int(rng.integers(0, 3))]}
    others = [policy_object("other", {"preemption": {"mayPreempt": False}}, namespace="other")]
    forbidding = [name for name, forbids in own.items() if forbids]
    full = (node("a", 1), tenant("low", "a", "GPU-a-0", 9000), waiting("high", 12000, 5))

    def house(may: object) -> list[dict[str, Any]]:
        rules = {"victims": "Any", **({} if may is None else {"mayPreempt": bool(may)})}
        return [policy_object("house", {"preemption": rules})] if may is not None or seed % 2 else []

    def of_namespace(forbidding: list[str]) -> list[dict[str, Any]]:
        said = {name: {"delay": "1s", **({"mayPreempt": False} if name in forbidding else {})} for name in own}
        return [policy_object(name, {"preemption": rules}, namespace="default") for name, rules in said.items()]

    made = world(*house(may), *of_namespace(forbidding), *others, *full, preemption=is_on)
    policies = dict(made.policies)
    found = explained(made).preemption_outlook
    assert made.policies == policies
    assert found is not None
    if is_on and may and not forbidding:
        assert found.preemption is not None
        return
    asked = [
        *([] if is_on else [INSTALL]),
        *([] if may else ["have a ClusterVGPUPolicy set preemption.mayPreempt for it"]),
        *(f"remove preemption.mayPreempt: false from VGPUPolicy default/{name}" for name in forbidding),
    ]
    assert found.remedy.endswith(f"none is evicted: {' and '.join(asked)} (docs/preemption.md).")
    goes = explained(world(*house(may=True), *of_namespace([]), *others, *full)).preemption_outlook
    assert goes is not None
    assert goes.preemption is not None


@pytest.mark.parametrize("name", ["may-preempt", "may.preempt", "preempt", "a"])
@pytest.mark.parametrize("priority", [0, 5])
def test_what_to_set_is_asked_without_a_policy_being_lost(name: str, priority: int) -> None:
    others = policy_object(name, {"selector": {"matchLabels": {"a": "b"}}, "preemption": {"mayPreempt": True}})
    full = (node("a", 1), tenant("low", "a", "GPU-a-0", 9000), waiting("high", 12000, priority))
    made = world(others, *full)
    before = list(made.engine.policies.catalogue.all())
    found = explained(made).preemption_outlook
    assert (found is not None and "have a ClusterVGPUPolicy set" in found.remedy) == (priority > 0)
    assert list(made.engine.policies.catalogue.all()) == before != []
