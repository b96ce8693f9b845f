"""Advice that would leave out what a correction writes leaves out what is written, without the correction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.dialects.vendors import MIG, node
from tests.whatif.test_whatif_condition_remedies import HAMI, answer
from tests.whatif.test_whatif_remedies import pod, world_of

from vgpu_scheduler.dialects.hami import RegisteredDevice, VendorSection, configured, encode_register_json
from vgpu_scheduler.whatif import ask, remedies
from vgpu_scheduler.whatif.advice.corrected_pod import CorrectedPod, Correction
from vgpu_scheduler.whatif.advice.remedy import Action, leave_out_resources, say
from vgpu_scheduler.whatif.objects.amounts import AmountChange

Object = dict[str, Any]

VENDORS = {vendor.key: vendor for vendor in configured(VendorSection())}
MODE = "nvidia.com/vgpu-mode"
BI, MR = "iluvatar.ai/BI-V100", "iluvatar.ai/MR-V100"


def cluster_node(key: str, **offered: str) -> Object:
    there = {"kind": "Node", **node("a", [VENDORS[key]], np.random.default_rng(0))}
    there["metadata"]["annotations"].pop("hami-vnpu-core", None)
    there["status"]["allocatable"] = {"cpu": "8", "memory": "8Gi", "pods": "110"} | offered
    return there


def helping(there: Object, written: Object) -> list[str]:
    """Return the remedies with which a pod fits, and check that it does."""
    world, waiting = world_of(there, written)
    found = [each for each in remedies(world, waiting) if each.node]
    for each in found:
        if each.pod is not None:
            assert ask(*world_of(there, dict(each.pod))).node == each.node
    return [each.text for each in found]


@pytest.mark.parametrize("key", [key for key in VENDORS if key.startswith("Ascend")])
def test_a_misspelt_name_that_must_be_left_out_anyway_is_left_out(key: str) -> None:
    names = VENDORS[key].claims
    count, memory, cores = (f"huawei.com/{key}{part}" for part in ("", "-memory", "-core"))
    assert {count, memory, cores} <= set(names.resources)
    there, written = cluster_node(key, **{count: "32"}), pod("p", {count: 1, memory: 2000, cores[:-1]: 30})
    text = f"leave out {cores[:-1]} in container main"
    assert helping(there, written) == [text]
    assert answer(world_of(there, written)[0])[1].remedies == (text,)


def test_amounts_of_cards_that_no_node_has_are_left_out_as_they_are() -> None:
    written = pod("p", {f"{MR}-vgpu": 1, f"{BI}.vMem": 30, f"{MR}.vCore": 10})
    there = cluster_node("MR-V100", **{f"{MR}-vgpu": "32"})
    assert helping(there, written) == [f"leave out {BI}.vMem in container main"]


@pytest.mark.parametrize("value", ["hami", "hamicore"])
def test_an_annotation_that_no_card_satisfies_is_left_out_as_it_is(value: str) -> None:
    cards = [
        RegisteredDevice(f"GPU-{n}", n, 10, 81920, 100, "NVIDIA A100", 0, "mig", health=True, mig_profiles=MIG)
        for n in range(2)
    ]
    there = cluster_node("NVIDIA", **{HAMI[0]: "20"})
    there["metadata"]["annotations"]["hami.io/node-nvidia-register"] = encode_register_json(cards)
    written = pod("p", dict(zip(HAMI[:2], (1, 9000), strict=True)), metadata={"annotations": {MODE: value}})
    text = f"leave out its annotation {MODE} ({value})"
    assert text in helping(there, written)
    world, waiting = world_of(there, written)
    texts = [*answer(world)[1].remedies, *(each.text for each in remedies(world, waiting))]
    assert not any("write " in each and "leave out its" in each for each in texts)


def test_only_what_is_undone_is_gone() -> None:
    added = Correction(Action("add a: 1 to the limits of container x"), "x", "a")
    renamed = Correction(Action("write b instead of bb in container x"), "x", "b", "bb")
    changed = AmountChange("x", "c", "1m", "1")
    other = Correction(Action("write d instead of dd in container y"), "y", "d", "dd")
    meant = CorrectedPod({}, (added, renamed, changed, other))
    both = leave_out_resources(("a", "b", "c", "d"), ("x", "z"))
    assert [str(each) for each in meant.and_then([both])] == [
        str(other),
        "leave out bb and c and d in container x",
        "leave out a and b and c and d in container z",
    ]
    assert say(meant.and_then([leave_out_resources(("a",), ("x",))])) == say(
        CorrectedPod({}, (renamed, changed, other)).and_then()
    )
    assert CorrectedPod({}, (added,)).and_then([leave_out_resources(("a",), ("x",))]) == ()
