"""The quirks of HAMi 2.10's twin that no recorded case shows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.golden import hami
from tests.naive import hami as naive
from tests.naive.hami_quirks import ALL, NONE

Obj = dict[str, Any]

GPU, MEMORY = "nvidia.com/gpu", "nvidia.com/gpumem"
SECTION = {
    "resourceCountName": GPU,
    "resourceMemoryName": MEMORY,
    "resourceMemoryPercentageName": "nvidia.com/gpumem-percentage",
    "resourceCoreName": "nvidia.com/gpucores",
    "defaultMemory": 0,
    "defaultCores": 0,
}
PROFILE = {
    "name": "1g.5gb",
    "memoryMB": 4864,
    "core": 14,
    "sliceCount": 1,
    "placements": [{"start": start, "size": 1} for start in range(7)],
}
CARD = {
    "id": "m",
    "count": 7,
    "devmem": 40960,
    "devcore": 100,
    "type": "NVIDIA A100",
    "mode": "mig",
    "health": True,
    "migProfiles": [PROFILE],
}


def pod(limits: Obj, node: str = "", **annotations: str) -> Obj:
    return {
        "metadata": {"name": "p", "namespace": "default", "uid": str(annotations), "annotations": annotations},
        "spec": {"containers": [{"name": "c", "resources": {"limits": limits}}], "nodeName": node},
        "status": {"phase": "Running" if node else "Pending"},
    }


def tenant(entries: int, *starts: int) -> Obj:
    """A pod with entries and placements of the card."""
    placements = [
        {
            "containerIndex": 0,
            "deviceIndex": number,
            "gpuUUID": "m",
            "profile": "1g.5gb",
            "placement": {"start": start, "size": 1},
        }
        for number, start in enumerate(starts)
    ]
    written = {naive.ALLOCATED: "m,NVIDIA,4864,14:" * entries + ";", naive.MIG: json.dumps(placements)}
    return pod({GPU: str(entries)}, "n", **{naive.NODE: "n"}, **written)


def case(limits: Obj, *pods: Obj) -> Obj:
    node = {"name": "n", "annotations": {"hami.io/node-nvidia-register": json.dumps([CARD])}}
    return {
        "profile": hami.PROFILE,
        "config": {
            "nodeSchedulerPolicy": "binpack",
            "gpuSchedulerPolicy": "spread",
            "deviceConfig": {"nvidia": SECTION},
        },
        "nodes": [{"metadata": node, "status": {"allocatable": {GPU: "7"}}}],
        "pods": list(pods),
        "quotas": [],
        "pod": pod(limits),
    }


def both(given: Obj) -> tuple[naive.Answer, naive.Answer]:
    """What HAMi says, and what this scheduler says, which the twin and the product agree on."""
    ours = naive.decide(given, NONE)[0]
    assert hami._comparable(hami.product(given)) == hami._comparable(ours)
    return naive.decide(given, ALL)[0], ours


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param([tenant(2, 3)], id="a placement is missing"),
        pytest.param([tenant(1, 3), tenant(2, 3, 4)], id="two pods hold a slice"),
    ],
)
def test_a_mig_card_of_which_nobody_knows_what_is_free_is_given_to_nobody(pods: list[Obj]) -> None:
    theirs, ours = both(case({GPU: "1", MEMORY: "4000"}, *pods))
    assert theirs.kind == "placed"
    assert ours.failed == {"n": "1/1 CardNotHealth"}


def test_a_mig_card_with_a_placement_for_each_entry_is_given_out() -> None:
    theirs, ours = both(case({GPU: "1", MEMORY: "4000"}, tenant(2, 3, 4), tenant(1, 6)))
    assert theirs.per_node == ours.per_node


def test_a_number_of_cards_that_is_negative_in_32_bits_is_none_to_hami() -> None:
    theirs, ours = both(case({GPU: "2147483648"}))
    assert theirs.kind == "passthrough"
    assert ours.kind == "refused"
