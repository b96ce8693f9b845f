"""The makers whose cards are chosen in ways of their own against their naive twin: random pods, one after another."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from tests.dialects.makers import bound, node, pod
from tests.golden import hami_makers, hami_vendors
from tests.naive.hami_quirks import NONE
from tests.naive.vendors import cluster

from vgpu_scheduler.dialects.hami import Section, configured

SECTIONS: dict[str, dict[str, Any]] = {
    "metax": {
        "resourceCountName": "metax-tech.com/gpu",
        "resourceVCountName": "metax-tech.com/sgpu",
        "resourceVMemoryName": "metax-tech.com/vmemory",
        "resourceVCoreName": "metax-tech.com/vcore",
        "sgpuTopologyAware": True,
    },
    "kunlun": {
        "resourceCountName": "kunlunxin.com/xpu",
        "resourceVCountName": "kunlunxin.com/vxpu",
        "resourceVMemoryName": "kunlunxin.com/vxpu-memory",
    },
    "enflame": {
        "resourceNameGCU": "enflame.com/gcu",
        "resourceNameDRSGCU": "enflame.com/drs-gcu",
        "resourceNameGCUMemory": "enflame.com/gcu-memory",
        "resourceNameGCUCore": "enflame.com/gcu-core",
    },
    "awsneuron": {"resourceCountName": "aws.amazon.com/neuron", "resourceCoreName": "aws.amazon.com/neuroncore"},
}
KINDS = {"Metax-SGPU": "metax", "kunlun": "kunlun", "XPU": "kunlun", "Enflame": "enflame", "AWSNeuron": "awsneuron"}
ALONE = {"Metax-SGPU"}
"""Whose pods have one container here: the twin tells other reasons for a card that an earlier one took whole."""
POLICIES = ("binpack", "spread", "mutex", "numa")
CLUSTERS, PODS = 8, 20


@pytest.mark.parametrize("key", KINDS)
def test_the_product_decides_as_its_twin(key: str) -> None:
    config = {KINDS[key]: SECTIONS[KINDS[key]]}
    (maker,) = (v for v in configured(Section(config), others=False) if v.key == key)
    outcomes: Counter[str] = Counter()
    for seed in range(CLUSTERS):
        rng = np.random.default_rng(seed)
        nodes = [node(f"n{number}", [maker], rng) for number in range(2)]
        pods: list[dict[str, Any]] = []
        for number in range(PODS):
            wire = pod(f"p{number}", [maker], rng)
            if key in ALONE:
                containers = wire["spec"]["initContainers"] + wire["spec"]["containers"]
                wire["spec"] = {"containers": containers[:1]}
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
            outcomes[made.kind] += 1
            if made.best:
                pods.append(bound(wire, made.best[0], twin.annotations(made.best[0])))
    assert outcomes["placed"] > PODS
    assert outcomes["unschedulable"] > PODS
