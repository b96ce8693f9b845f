"""The vendors whose cards are chosen in ways of their own against their naive twin: random pods, one after another."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.dialects.vendors import bound, node, pod
from tests.golden import hami_claims, hami_makers, hami_vendors
from tests.naive.hami_quirks import NONE
from tests.naive.vendors import cluster
from tests.naive.vendors.quirks import ALL

from vgpu_scheduler.dialects.hami import VendorSection, configured

KINDS = {
    "Metax-SGPU": "metax shared", "Metax-GPU": "metax", "kunlun": "kunlun", "XPU": "kunlun slices",
    "Enflame": "enflame slices", "GCU": "enflame", "AWSNeuron": "awsneuron", "DCU": "hygon", "MLU": "cambricon",
    "Mthreads": "mthreads", "AMD": "amd", "Vastai": "vastai", "Biren": "biren", "BI-V150": "iluvatars",
    "Ascend910B2": "vnpus",
}  # fmt: skip
"""What is asked of each vendor."""
ALONE = {"Metax-SGPU"}
"""Whose pods have one container here: the twin tells other reasons for a card that an earlier one took whole."""
POLICIES = ("binpack", "spread", "mutex", "numa")
GROUPS: dict[str, Callable[[int], dict[str, Any]]] = {
    "Ascend910B2": lambda number: {"NetworkID": number % 3},
    "Vastai": lambda number: {"DeviceStrategy": "die", "AIC": str(number % 3)},
}
"""What the cards of some nodes say of which are close to each other."""
COLON = {"DCU", "BI-V150"}
"""Whose plugins register their cards in colon format; the twin reads nothing else of them."""
ODD = 0.08
"""How often a container asks for amounts that nobody should write."""
CLUSTERS, PODS = 8, 20


@pytest.mark.parametrize("key", KINDS)
def test_the_product_decides_as_its_twin(key: str) -> None:
    config = hami_claims.config_of(KINDS[key])
    (maker,) = (v for v in configured(VendorSection(config), others=False) if v.key == key)
    outcomes: Counter[str] = Counter()
    for seed in range(CLUSTERS):
        rng = np.random.default_rng(seed)
        nodes = [as_registered(node(f"n{number}", [maker], rng), key, rng) for number in range(2)]
        pods: list[dict[str, Any]] = []
        for number in range(PODS):
            wire = pod(f"p{number}", [maker], rng)
            if key in ALONE:
                containers = wire["spec"]["initContainers"] + wire["spec"]["containers"]
                wire["spec"] = {"containers": containers[:1]}
            if rng.random() < ODD:
                wire["spec"]["containers"] += [{"name": "odd", "resources": hami_claims.resources(KINDS[key], rng)}]
            wire["metadata"]["annotations"]["hami.io/gpu-scheduler-policy"] = str(rng.choice(POLICIES))
            case = {
                "config": {
                    "nodeSchedulerPolicy": str(rng.choice(["binpack", "spread"])),
                    "gpuSchedulerPolicy": "spread",
                    "deviceConfig": config,
                },
                "nodes": nodes,
                "pods": pods,
                "quotas": [],
                "pod": wire,
            }
            twin, _ = cluster.decide(case, NONE)
            made = hami_makers.placement(case)
            assert not list(hami_vendors._product_against(twin, made)), f"seed {seed}, pod {number}"
            cluster.decide(case, ALL)
            outcomes[made.kind] += 1
            if made.best:
                pods.append(bound(wire, made.best[0], twin.annotations(made.best[0])))
    assert outcomes["placed"] > PODS
    assert outcomes["unschedulable"] > PODS


def as_registered(wire: dict[str, Any], key: str, rng: np.random.Generator) -> dict[str, Any]:
    """A node whose cards are registered in any order, as the vendor's plugin writes them."""
    annotations, grouped = wire["metadata"]["annotations"], rng.random() < 0.5
    wire["status"]["capacity"].setdefault(hami_claims.KINDS[KINDS[key]][0], "8")  # as the kubelet says it
    for name, value in annotations.items():
        if not value.startswith("["):
            continue
        listed = json.loads(value)
        listed = [listed[number] for number in rng.permutation(len(listed))]
        if key in GROUPS and grouped:
            for number, card in enumerate(listed):
                card["custominfo"] = GROUPS[key](number)
        annotations[name] = "".join(map(in_colons, listed)) if key in COLON else json.dumps(listed)
    return wire


def in_colons(card: dict[str, Any]) -> str:
    amounts = (card["id"], card["count"], card["devmem"], card["devcore"], card["type"], card.get("numa", 0))
    return ",".join(map(str, amounts)) + ",true," + f"{card.get('index', 0)},hami-core:"
