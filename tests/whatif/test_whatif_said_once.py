"""An advice is given once, and names what is to be asked of a resource once."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from tests.whatif.test_whatif_less_of_several import quota
from tests.whatif.test_whatif_remedies import CORES, GPU, MEMORY, PERCENT, node, pod, running, world_of

from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.whatif import RemedyType, World, ask, make_dialect, quotas_of, remedies, remedies_from_condition
from vgpu_scheduler.whatif.advice.corrected_pod import CorrectedPod, Correction
from vgpu_scheduler.whatif.advice.paired_changes import both
from vgpu_scheduler.whatif.advice.remedy import Action, Remedy, ask_for, do, each_once, say
from vgpu_scheduler.whatif.objects.amounts import Amount, AmountChange, ResourceStep
from vgpu_scheduler.whatif.tenant_advice.quotas import QuotaStatus
from vgpu_scheduler.whatif.tenant_advice.remedies import OtherRemedies

Object = dict[str, Any]

ASKED = re.compile(r"ask (?:for )?\S+ of (\S+?)[ ,].*?in container (\w+)")


def told_to_a_tenant(*objects: Object) -> tuple[str, list[str]]:
    """Return where a pod goes, and what somebody is told who sees its namespace alone."""
    world, waiting = world_of(*objects)
    decision = ask(world, waiting).decision
    alone = World(EngineOptions([make_dialect("hami")]))
    alone.add([each for each in objects[:-1] if each["kind"] != "Node"])
    reports = quotas_of(alone, "default")
    found = remedies_from_condition(
        alone, alone.pod(world.written(waiting)), decision.message, "", QuotaStatus(reports)
    )
    return decision.placement.node if decision.placement else "", list(found.remedies)


@pytest.mark.parametrize("seed", range(60))
def test_a_tenant_is_told_each_change_once_whatever_it_is_for(seed: int) -> None:
    rng = np.random.default_rng(seed)
    memory, cores = int(rng.integers(2000, 9000)), int(rng.integers(20, 90))
    limits = quota("q", gpumem=int(rng.integers(memory, 2 * memory)), gpucores=int(rng.integers(cores, 2 * cores)))
    taken = [running(f"r{n}", "a", f"GPU-a-{n}", 100, 0) for n in range(2)]
    full = [
        {**each, "metadata": {**each["metadata"], "namespace": "other"}} for each in taken[: int(rng.integers(0, 2))]
    ]
    asked = pod("asked", {GPU: 2, MEMORY: memory, CORES: cores})
    node_, told = told_to_a_tenant(node("a", int(rng.integers(1, 3))), limits, *full, asked)
    assert not node_
    bare = [re.sub(r" \([^)]*\)", "", text) for text in told]
    assert len(set(bare)) == len(bare), told


@pytest.mark.parametrize("seed", range(60))
def test_a_percentage_under_a_quota_is_told_the_amount_that_it_leaves(seed: int) -> None:
    rng = np.random.default_rng(seed)
    left, percent, count = int(rng.integers(100, 6000)), int(rng.integers(50, 101)), int(rng.integers(1, 3))
    asked = pod("asked", {GPU: count, PERCENT: percent})
    objects = [node("a", 3), quota("q", gpumem=1000 + left), running("r", "a", "GPU-a-2", 1000)]
    node_, told = told_to_a_tenant(*objects, asked)
    assert not node_
    amount = left // count
    assert told[0].startswith(f"ask {amount} of {MEMORY} in container main instead of {percent} of {PERCENT} (")
    for more, fits in ((0, True), (1, False)):
        made, waiting = world_of(*objects, pod("asked", {GPU: count, MEMORY: amount + more}))
        assert bool(ask(made, waiting).node) is fits


@pytest.mark.parametrize("seed", range(60))
def test_what_is_corrected_and_asked_otherwise_is_said_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    by_quota = bool(seed % 2)
    amounts: Object = {GPU: f"{int(rng.integers(1, 3))}500m", MEMORY: int(rng.integers(100, 9000))}
    if by_quota:
        amounts = {GPU: 1, MEMORY: f"{int(rng.integers(2, 9))}Gi"}
    limits = [quota("q", gpumem=int(rng.integers(500, 2000)))] if by_quota else []
    world, waiting = world_of(node("a", 1), *limits, pod("asked", amounts))
    found = remedies(world, waiting)
    assert any(remedy.node and remedy.text.startswith("ask ") for remedy in found)
    for remedy in found:
        asked = ASKED.findall(remedy.text)
        assert len(set(asked)) == len(asked), remedy.text
        if remedy.node and remedy.pod is not None and not remedy.objects:
            again, otherwise = world_of(node("a", 1), *limits, dict(remedy.pod))
            assert ask(again, otherwise).node == remedy.node


@pytest.mark.parametrize("seed", range(12))
def test_fewer_cards_than_are_meant_by_a_fraction_are_said_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = f"{int(rng.integers(2, 9))}{int(rng.integers(1, 1000)):03}m"
    world, waiting = world_of(node("a", 1), pod("asked", {GPU: count, MEMORY: int(rng.integers(100, 9000))}))
    reason = str(rng.choice(["NodeInsufficientDevice", "AllocatedCardsInsufficientRequest"]))
    message = f"0/1 nodes are available: 1 {reason}."
    told = remedies_from_condition(world, waiting, message, "").remedies
    less = "" if reason.startswith("All") else ", or less: it is not known how much the cards have left"
    assert f"ask 1 of {GPU} instead of {count} in container main (more may fit{less})" in told
    for text in told:
        asked = ASKED.findall(text)
        assert len(set(asked)) == len(asked), text


@pytest.mark.parametrize("seed", range(40))
def test_what_is_asked_otherwise_is_not_corrected_before_and_all_else_is(seed: int) -> None:
    rng = np.random.default_rng(seed)
    names, quantities = ("c", "c-1", "c.1"), ("3500m", "8Gi", "8")
    container, resource, written = (str(rng.choice(each)) for each in (names, (GPU, MEMORY, GPU + "x"), quantities))
    change = AmountChange(container, resource, written, "8", str(rng.choice(["", "in MiB"])))
    whose, what = str(rng.choice(names)), str(rng.choice([GPU, MEMORY, GPU + "x"]))
    steps = ResourceStep(what, 1, "", "8", str(rng.choice(quantities)))
    amount = Amount("containers", 0, whose, (steps,), 8)
    then = (*do("have it so"), ask_for(amount, int(rng.integers(1, 8))), *do(str(change)))
    same = (whose, what, steps.mistaken) == (container, resource, written)
    before = [Action("more")] if same else [Action(str(change)), Action("more")]
    assert CorrectedPod({}, (change, Correction(Action("more")))).and_then(then) == (*before, *then)


def test_what_users_write_is_not_taken_for_words_of_ours() -> None:
    said = "A100: whoever may (at most: one); or not"
    asked = pod("asked", {GPU: 1, MEMORY: 2000}, metadata={"annotations": {"nvidia.com/use-gputype": said}})
    world, waiting = world_of(quota("q", gpumem=1000), asked)
    message = "0/1 nodes are available: 1 CardTypeMismatch, 1 ResourceQuotaNotFit."
    found = remedies_from_condition(world, waiting, message, "", QuotaStatus(quotas_of(world, "default"))).remedies
    text = f"leave out its annotation nvidia.com/use-gputype ({said})"
    assert [each for each in found if each.startswith(f"{text} and ")], found
    first, second = (Remedy(RemedyType.TOGETHER, do(each), "a") for each in (text, "tolerate a taint"))
    assert both(first, second, "a").text == f"{text} and tolerate a taint"


@pytest.mark.parametrize("seed", range(50))
def test_advice_whose_parts_stand_in_another_order_is_told_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = [Action(f"leave out constraint {n} of pod p{n % 3}") for n in range(int(rng.integers(1, 5)))]
    ways = [tuple(parts[n] for n in rng.permutation(len(parts))) for _ in range(4)]
    other = (*parts, Action("end 1 pod on node a: x"))
    ways.insert(1, other)
    found = each_once(Remedy(RemedyType.TOGETHER, way, f"n{n}") for n, way in enumerate(ways))
    assert [(each.actions, each.node) for each in found] == [(ways[0], "n0"), (other, "n1")]
    world, waiting = world_of(node("a"), pod("p", {GPU: 9}))
    said = remedies_from_condition(world, waiting, "", "", others=OtherRemedies(ways)).remedies
    assert said[:2] == (say(ways[0]), say(other))
    assert len(said) == 2
