"""The quirks of the vendors' twin that no recorded case shows, and its own ways where HAMi takes any."""

from __future__ import annotations

from typing import Any

import pytest
from tests.golden import hami as products
from tests.golden import hami_makers, hami_vendors
from tests.golden.__main__ import DEFAULT
from tests.golden.runner import find
from tests.naive import hami
from tests.naive.hami import Answer
from tests.naive.hami_wire import Bad
from tests.naive.vendors.gosort import _Sort, go_sort
from tests.naive.vendors.quirks import ALL

Obj = dict[str, Any]

NEURON = "aws.amazon.com/neuron"
CORE = "aws.amazon.com/neuroncore"
AWS = {"awsneuron": {"resourceCountName": NEURON, "resourceCoreName": CORE}}
VASTAI = {"vastai": {"resourceCountName": "vastaitech.com/va"}}

KUNLUN = {
    "kunlun": {
        "resourceCountName": "kunlunxin.com/xpu",
        "resourceVCountName": "kunlunxin.com/vxpu",
        "resourceVMemoryName": "kunlunxin.com/vxpu-memory",
    }
}
NVIDIA = {
    "resourceCountName": "nvidia.com/gpu",
    "resourceMemoryName": "nvidia.com/gpumem",
    "resourceMemoryPercentageName": "nvidia.com/gpumem-percentage",
    "resourceCoreName": "nvidia.com/gpucores",
    "defaultMemory": 0,
    "defaultCores": 0,
}


def case(config: Obj, node: Obj, wants: Obj, pods: list[Obj] | None = None, **annotations: str) -> Obj:
    return {
        "config": {"nodeSchedulerPolicy": "binpack", "gpuSchedulerPolicy": "spread", "deviceConfig": config},
        "nodes": [node],
        "pods": pods or [],
        "quotas": [],
        "pod": pod(wants, **annotations),
    }


def pod(wants: Obj, node: str = "", **annotations: str) -> Obj:
    return {
        "metadata": {"name": "p", "namespace": "default", "annotations": annotations},
        "spec": {"containers": [{"name": "c", "resources": {"limits": wants}}], "nodeName": node},
        "status": {"phase": "Running" if node else "Pending"},
    }


def neuron_node(devices: int) -> Obj:
    return {
        "metadata": {"name": "n", "labels": {"node.kubernetes.io/instance-type": "inf2.24xlarge"}},
        "status": {"capacity": {NEURON: str(devices), CORE: str(2 * devices)}},
    }


def tenant(*devices: tuple[int, int]) -> Obj:
    value = "".join(f"n-AWSNeuron-{index},AWSNeuron,0,{mask}:" for index, mask in devices) + ";"
    annotations = {hami.NODE: "n", "hami.io/aws-neuron-devices-allocated": value}
    return pod({CORE: str(2 * len(devices))}, "n", **annotations)


def nvidia_node(*cards: str) -> Obj:
    listed = ",".join(
        f'{{"id":"{card}","count":10,"devmem":1000,"devcore":100,"type":"NVIDIA T4","health":true}}' for card in cards
    )
    return {"metadata": {"name": "n", "annotations": {"hami.io/node-nvidia-register": f"[{listed}]"}}, "status": {}}


def agreed(given: Obj) -> Answer:
    """What this scheduler says, which the twin and the product agree on."""
    ours = hami.decide(given, frozenset())[0]
    assert products._comparable(hami_makers.placement(given)) == products._comparable(ours)
    return ours


def neurons(case: Obj, quirks: frozenset[Any]) -> str:
    answer = hami.decide(case, quirks)[0]
    return answer.failed.get("n") or answer.annotations("n")["AWS_NEURON_IDS"]


def test_a_core_that_two_pods_hold_puts_the_device_out_of_service() -> None:
    twice = case(AWS, neuron_node(1), {CORE: "1"}, [tenant((0, 1)), tenant((0, 1))])
    assert neurons(twice, ALL) == "1/1 CardTimeSlicingExhausted"
    assert neurons(twice, frozenset()) == "1/1 CardNotHealth"
    two_cores = case(AWS, neuron_node(1), {CORE: "1"}, [tenant((0, 1)), tenant((0, 2))])
    assert neurons(two_cores, ALL) == neurons(two_cores, frozenset()) == "1/1 CardTimeSlicingExhausted"


def test_another_core_of_a_device_is_given_out() -> None:
    for mask, core in ((1, "1"), (2, "0")):
        shared = case(AWS, neuron_node(1), {CORE: "1"}, [tenant((0, mask))])
        assert neurons(shared, ALL) == neurons(shared, frozenset()) == core


def test_runs_of_devices_are_neighbours_by_their_index() -> None:
    """The policy puts the device in use first, and so the ends of the row next to each other."""
    split = case(
        AWS, neuron_node(4), {NEURON: "2"}, [tenant((1, 3))], **{"hami.io/gpu-scheduler-policy": "mutex"}
    )  # the list is 1, 0, 2, 3
    assert neurons(split, ALL) == "0,2"
    assert neurons(split, frozenset()) == "2,3"


@pytest.mark.parametrize("wants", [{NEURON: "4"}, {CORE: "8"}])
def test_lists_of_devices_hold_for_several_devices_too(wants: Obj) -> None:
    device = "n-AWSNeuron-0"
    listed = case(AWS, neuron_node(6), wants, **{"aws.amazon.com/nouse-neuron-uuid": device})
    theirs, ours = hami.decide(listed, ALL)[0], agreed(listed)
    allocated = "hami.io/aws-neuron-devices-allocated"
    assert device in theirs.per_node["n"][allocated]
    assert device not in ours.per_node["n"][allocated]
    needed = case(AWS, neuron_node(4), wants, **{"aws.amazon.com/nouse-neuron-uuid": device})
    assert agreed(needed).failed == {"n": "1/4 NumaNotFit"}


def test_nvidia_says_nothing_of_enough_cards_where_none_passed() -> None:
    config = {**VASTAI, "nvidia": NVIDIA}
    wants = {"nvidia.com/gpu": "2", "nvidia.com/gpumem": "2000"}
    assert agreed(case(config, nvidia_node("a", "b"), wants)).failed == {"n": "2/2 CardInsufficientMemory"}


def test_a_container_whose_claim_nobody_can_read_is_one_tenant_that_has_the_card() -> None:
    lost = pod({"nvidia.com/gpu": "2147483648", "nvidia.com/gpumem": "10"}, "n")
    lost["status"]["containerStatuses"] = [{"name": "c"}]
    given = case({**VASTAI, "nvidia": NVIDIA}, nvidia_node("a"), {"nvidia.com/gpu": "1"}, [lost])
    assert agreed(given).failed == {"n": "1/1 CardInsufficientMemory"}


@pytest.mark.parametrize(("limit", "failed"), [("2", {"n": "2/2 ResourceQuotaNotFit"}), ("3", {})])
def test_a_quota_counts_what_a_pod_asks_for_whose_allocation_is_missing_once(limit: str, failed: Obj) -> None:
    """Whatever number of cards it may sit on."""
    count, memory, cores = "cambricon.com/vmlu", "cambricon.com/mlu.smlu.vmemory", "cambricon.com/mlu.smlu.vcore"
    config = {"cambricon": {"resourceCountName": count, "resourceMemoryName": memory, "resourceCoreName": cores}}
    node = {"metadata": {"name": "n"}, "status": {"capacity": {count: "20", memory: "8", cores: "200"}}}
    wants = {count: "1", memory: "1", cores: "10"}
    lost = pod(wants, "n")
    lost["status"]["containerStatuses"] = [{"name": "c"}]
    given = case(config, node, {**wants, memory: "2"}, [lost])
    given["quotas"] = [
        {"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": {f"limits.{memory}": limit}}}
    ]
    assert agreed(given).failed == failed


def test_a_neuron_device_of_which_any_core_may_be_taken_is_out_of_service() -> None:
    lost = pod({CORE: "1"}, "n")
    lost["status"]["containerStatuses"] = [{"name": "c"}]
    given = case(AWS, neuron_node(2), {CORE: "1"}, [lost])
    assert agreed(given).failed == {"n": "2/2 CardNotHealth"}
    assert hami.decide(given, ALL)[0].kind == "placed"


@pytest.mark.parametrize(
    ("annotations", "failed"),
    [
        ({}, {}),
        ({"metax-tech.com/sgpu-app-class": "offline"}, {"n": "1/1 CardAppClassMismatch"}),
        ({"metax-tech.com/sgpu-qos-policy": "burst-share"}, {"n": "1/1 CardQosPolicyMismatch"}),
    ],
)
def test_a_tenant_that_may_sit_on_any_card_is_of_its_class_and_quality_there(annotations: Obj, failed: Obj) -> None:
    count, memory, cores = "metax-tech.com/sgpu", "metax-tech.com/vmemory", "metax-tech.com/vcore"
    names = {"resourceVCountName": count, "resourceVMemoryName": memory, "resourceVCoreName": cores}
    card = '[{"uuid":"m","totalDevCount":4,"totalCompute":100,"totalVRam":65536,"healthy":true}]'
    node = {"metadata": {"name": "n", "annotations": {"metax-tech.com/node-gpu-devices": card}}, "status": {}}
    wants = {count: "1", memory: "1", cores: "10"}
    lost = pod(wants, "n", **annotations)
    lost["status"]["containerStatuses"] = [{"name": "c"}]
    given = case({"metax": {"resourceCountName": "metax-tech.com/gpu", **names}}, node, wants, [lost])
    assert agreed(given).failed == failed


VXPU, VXPU_MEMORY = "kunlunxin.com/vxpu", "kunlunxin.com/vxpu-memory"


def slices_node(cards: int = 8) -> Obj:
    listed = ",".join(
        f'{{"id":"x{i}","index":{i},"count":4,"devmem":98304,"devcore":100,"type":"XPU","numa":{i // 4},"health":true}}'
        for i in range(cards)
    )
    return {"metadata": {"name": "n", "annotations": {"hami.io/node-register-xpu": f"[{listed}]"}}, "status": {}}


def holder(*cards: int) -> Obj:
    """A pod that has a whole card of each of these indexes."""
    value = "".join(f"x{card},XPU,98304,100:" for card in cards) + ";"
    return pod({VXPU: str(len(cards))}, "n", **{hami.NODE: "n", "hami.io/xpu-devices-allocated": value})


def cards_of(answer: Answer) -> str:
    entries = answer.per_node["n"]["hami.io/xpu-devices-allocated"].rstrip(";").split(":")
    return "".join(entry.split(",")[0][1:] for entry in entries if entry)


@pytest.mark.parametrize(
    ("count", "used", "chosen"),
    [
        ("1", (3, 5, 6, 7), "4"),  # of three and of one
        ("1", (1, 2, 3, 4), "0"),
        ("1", (2, 3, 4), "5"),  # of two and of three
        ("1", (4, 5), "6"),  # of four and of two
        ("2", (3, 6, 7), "45"),  # of three and of two
        ("2", (1,), "02"),
        ("2", (0, 1, 2, 4, 5, 6), "37"),
        ("4", (0, 4), "2367"),  # the best two of three pairs
        ("4", (1, 5), "2367"),
        ("4", (2, 6), "0145"),
        ("4", (1, 2, 6, 7), ""),
        ("4", (1, 3, 5, 7), "0246"),
    ],
)
def test_slices_are_of_the_wing_whose_free_cards_suit_best(count: str, used: tuple[int, ...], chosen: str) -> None:
    """As HAMi chooses where nothing is sorted: under ``numa`` cards in use stay where they are."""
    given = case(KUNLUN, slices_node(), {VXPU: count}, [holder(*used)], **{"hami.io/gpu-scheduler-policy": "numa"})
    answers = agreed(given), hami.decide(given, ALL)[0]
    assert [cards_of(answer) if answer.best else "" for answer in answers] == [chosen, chosen]


def test_a_pair_across_the_wings_comes_as_the_cards_are_sorted() -> None:
    """Under ``spread`` the list ends with what is in use least, and HAMi begins where it begins."""
    half = "hami.io/xpu-devices-allocated"
    lone = pod({VXPU: "1", VXPU_MEMORY: "49152"}, "n", **{hami.NODE: "n", half: "x7,XPU,49152,50:;"})
    lone["metadata"]["uid"] = "lone"
    given = case(KUNLUN, slices_node(), {VXPU: "2", VXPU_MEMORY: "49152"}, [holder(0, 1, 2, 4, 5, 6), lone])
    assert cards_of(agreed(given)) == cards_of(hami.decide(given, ALL)[0]) == "73"


DRS = {
    "enflame": {
        "resourceNameGCU": "enflame.com/gcu",
        "resourceNameDRSGCU": "enflame.com/drs-gcu",
        "resourceNameGCUMemory": "enflame.com/gcu-memory",
        "resourceNameGCUCore": "enflame.com/gcu-core",
    }
}


def drs(memory: str) -> Obj:
    value = '{"devices":[{"index":"0","minor":"0","capacity":6}],"profiles":{"1g.6gb":"0","6g.40gb":"2"}}'
    node = {"metadata": {"name": "n", "annotations": {"enflame.com/gcu-drs-capacity": value}}, "status": {}}
    return case(DRS, node, {"enflame.com/gcu-memory": memory})


def test_memory_of_slices_is_in_mib_from_a_hundred_on_whatever_the_node_has() -> None:
    assert agreed(drs("90")).failed == {"n": "1/1 ModeNotFit"}
    theirs = hami.decide(drs("90"), ALL)[0].per_node["n"]["enflame.com/gcu-request-size"]
    assert theirs == agreed(drs("6144")).per_node["n"]["enflame.com/gcu-request-size"] == "1"


def test_who_asks_for_no_slices_gets_none() -> None:
    none = drs("6")
    none["pod"]["spec"]["containers"][0]["resources"]["limits"]["enflame.com/drs-gcu"] = "0"
    assert agreed(none).kind == "passthrough"
    assert hami.decide(none, ALL)[0].per_node["n"]["enflame.com/gcu-request-size"] == "1"


def test_who_asks_for_no_memory_of_slices_gets_none() -> None:
    assert agreed(drs("0")).kind == "passthrough"
    assert hami.decide(drs("0"), ALL)[0].per_node["n"]["enflame.com/gcu-request-size"] == "1"


@pytest.mark.parametrize("count", ["1", "2", "4"])
def test_a_server_of_more_than_two_wings_of_cards_is_taken_for_two(count: str) -> None:
    name = "kunlunxin.com/xpu"
    node = {"metadata": {"name": "n"}, "status": {"capacity": {name: "32"}}}
    assert agreed(case(KUNLUN, node, {name: count})).kind == "placed"


@pytest.mark.parametrize(
    ("wants", "bad"),
    [({CORE: "3"}, CORE), ({CORE: "-1"}, CORE), ({NEURON: "500m"}, NEURON), ({NEURON: "4294967297"}, NEURON)],
)
def test_what_cannot_be_given_is_refused(wants: Obj, bad: str) -> None:
    refused = case(AWS, neuron_node(4), wants)
    assert hami.decide(refused, frozenset())[0].refused == {Bad("c", bad)}
    assert hami.decide(refused, ALL)[0].kind != "refused"


def test_of_equal_groups_the_one_tried_first_is_taken() -> None:
    dies = ",".join(
        f'{{"id":"d{i}","index":{i},"count":1,"devmem":1,"devcore":1,"type":"Vastai","health":true,'
        f'"custominfo":{{"DeviceStrategy":"die","AIC":"{i // 2}"}}}}'
        for i in range(6)
    )
    node = {"metadata": {"name": "n", "annotations": {"hami.io/node-va-register": f"[{dies}]"}}, "status": {}}
    answer = hami.decide(case(VASTAI, node, {"vastaitech.com/va": "2"}), frozenset())[0]
    assert answer.per_node["n"]["hami.io/Vastai-devices-allocated"] == "d5,Vastai,0,0:d4,Vastai,0,0:;"


@pytest.mark.parametrize("kind", sorted(hami_vendors.KINDS))
def test_the_product_is_held_against_the_twin_without_quirks(kind: str) -> None:
    """With the twin in place of the product every case passes or is decided, with HAMi some fail."""
    how = hami_vendors.KINDS[kind]
    cases = [found for _, found in find(DEFAULT / "hami") if isinstance(found, dict) and hami_vendors.runs(found)]
    cases = [found for found in cases if (found.get("op") or found["kind"]) == kind][::9]
    twin = how._replace(product=lambda found: how.twin(found, frozenset())[0], shared=lambda answer: answer)
    assert {hami_vendors.compare(found, twin).status for found in cases} <= {"passed", "decided"}
    theirs = how._replace(product=lambda found: how.twin(found, ALL)[0], shared=lambda answer: answer)
    failed = [hami_vendors.compare(found, theirs).status == "failed" for found in cases]
    assert any(failed) == (kind != "node_devices")


def test_the_sort_sorts_and_keeps_few_equal_items_in_order() -> None:
    for length in (0, 1, 12, 13, 16, 30, 49, 50, 100, 700):
        items = [(number * 7 % 5, number) for number in range(length)]
        found = list(items)
        go_sort(found, lambda item: item[0])
        assert [item[0] for item in found] == sorted(item[0] for item in items)
        if length <= 12:
            assert found == sorted(items)


GO = [
    (
        [number * 7 % 5 for number in range(60)],
        (
            "40 25 55 30 20 5 0 10 15 45 35 50 58 13 38 8 48 33 18 43 53 3 28 23 31 36 26 1 56 51 21 6 46 11 41 "
            "16 49 24 14 39 59 34 54 4 44 9 29 19 47 7 37 32 52 17 42 2 22 57 27 12"
        ),
    ),
    (
        [(60 - number) // 4 for number in range(60)],
        (
            "59 58 57 56 55 54 53 49 52 51 50 48 45 47 46 42 44 43 41 40 39 38 37 33 36 35 34 30 31 29 32 26 28 "
            "27 25 24 23 22 21 17 20 19 18 16 15 14 13 9 12 11 10 8 7 6 5 4 3 2 1 0"
        ),
    ),
    (
        [number // 4 if number != 30 else 0 for number in range(60)],
        (
            "0 1 2 3 30 6 5 7 4 8 9 10 11 14 12 15 13 16 17 18 19 20 22 23 21 24 25 26 27 29 28 31 32 33 34 35 36 "
            "37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59"
        ),
    ),
]


def test_equal_items_of_a_long_list_end_as_in_go() -> None:
    """What Go 1.26 made of the same lists: one of few kinds, one that falls, one that is nearly sorted."""
    for keys, expected in GO:
        found = list(range(60))
        go_sort(found, lambda item, keys=keys: keys[item])
        assert found == [int(item) for item in expected.split()]


def test_the_heap_sort_of_a_list_that_resists_sorts_too() -> None:
    keys = [number * 7 % 5 for number in range(40)]
    hard = _Sort(list(range(40)), list(keys))
    hard.sort(0, 40, 0)
    assert hard.keys == sorted(keys)
    assert [keys[item] for item in hard.items] == sorted(keys)
