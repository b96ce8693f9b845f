"""The quirks of the webhook's twin that no recorded case shows."""

from __future__ import annotations

from typing import Any

import pytest
from tests.golden import hami_webhook
from tests.golden.deviations import Deviations
from tests.naive.webhook.quirks import ALL, WebhookQuirk
from tests.naive.webhook.review import review

Obj = dict[str, Any]

UNSEEN = {
    WebhookQuirk.CORES_ABOVE_WHOLE_COUNTED,
    WebhookQuirk.DEFAULT_COUNT_BESIDE_REQUEST,
    WebhookQuirk.ENV_APPENDED_AGAIN,
}
"""What no recorded case shows, and the tests here do."""

NVIDIA = {
    "resourceCountName": "nvidia.com/gpu",
    "resourceMemoryName": "nvidia.com/gpumem",
    "resourceMemoryPercentageName": "nvidia.com/gpumem-percentage",
    "resourceCoreName": "nvidia.com/gpucores",
    "resourcePriorityName": "nvidia.com/priority",
    "memoryFactor": 1,
    "defaultMemory": 0,
    "defaultCores": 0,
    "defaultGPUNum": 1,
}
ILUVATAR = {
    "commonWord": "BI-V150",
    "resourceCountName": "iluvatar.ai/BI-V150-vgpu",
    "resourceMemoryName": "iluvatar.ai/BI-V150.vMem",
    "resourceCoreName": "iluvatar.ai/BI-V150.vCore",
}


def case(config: Obj, container: Obj, hard: Obj | None = None) -> Obj:
    return {
        "config": {"deviceConfig": config},
        "pods": [],
        "quotas": [{"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": hard}}] if hard else [],
        "pod": {
            "metadata": {"name": "p", "namespace": "default", "uid": "p"},
            "spec": {"containers": [{"name": "c", **container}]},
        },
    }


def both(given: Obj) -> tuple[Obj, Obj]:
    """What HAMi says, and what this scheduler says, which the twin and the product agree on."""
    ours = review(given)[0]
    assert hami_webhook.comparable(hami_webhook.product(given)) == hami_webhook.comparable(ours)
    return review(given, ALL)[0], ours


def test_every_quirk_shows_somewhere() -> None:
    cases = {deviation.quirk: deviation.cases for deviation in Deviations.read().all}
    assert {quirk for quirk in WebhookQuirk if not cases[quirk.value]} == UNSEEN


def test_a_default_count_is_not_set_beside_a_request() -> None:
    resources = {"limits": {"nvidia.com/gpumem": "1000"}, "requests": {"nvidia.com/gpu": "2"}}
    theirs, ours = both(case({"nvidia": NVIDIA}, {"resources": resources}))
    assert theirs["pod"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert "nvidia.com/gpu" not in ours["pod"]["spec"]["containers"][0]["resources"]["limits"]


def test_a_variable_that_says_so_already_is_not_added_again() -> None:
    listed = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}]
    theirs, ours = both(case({"nvidia": {**NVIDIA, "overwriteEnv": True}}, {"env": listed}))
    assert theirs["pod"]["spec"]["containers"][0]["env"] == listed * 2
    assert ours["pod"]["spec"]["containers"][0]["env"] == listed


def test_what_an_earlier_review_gave_all_compute_still_asks_for_cards() -> None:
    config = {"nvidia": {**NVIDIA, "defaultGPUNum": 0, "overwriteEnv": True}}
    requests = {"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "100"}
    theirs, ours = both(case(config, {"resources": {"requests": requests}}))
    assert theirs == ours
    again = case(config, ours["pod"]["spec"]["containers"][0])
    theirs, ours = both(again)
    assert theirs["pod"]["spec"]["containers"][0]["env"] == [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}]
    assert "env" not in ours["pod"]["spec"]["containers"][0]


@pytest.mark.parametrize(("annotations", "allowed"), [({}, True), ({"hami.io/vgpu-node": "n"}, False)])
def test_a_quota_counts_what_a_pod_asks_for_whose_allocation_is_missing(annotations: Obj, *, allowed: bool) -> None:
    """HAMi counts nothing of it; only what runs on a node counts."""
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "600"}
    given = case({"nvidia": NVIDIA}, {"resources": {"limits": limits}}, {"limits.nvidia.com/gpumem": "1000"})
    running = {
        "metadata": {"name": "r", "namespace": "default", "uid": "r", "annotations": annotations},
        "spec": {**given["pod"]["spec"], "nodeName": "n" if annotations else ""},
        "status": {"phase": "Running", "containerStatuses": [{"name": "c"}]},
    }
    theirs, ours = both({**given, "pods": [running]})
    assert (theirs["allowed"], ours["allowed"]) == (True, allowed)
    running["spec"] = {
        **running["spec"],
        "containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
    }
    hard = {"limits.nvidia.com/gpucores": "109"}
    part = case({"nvidia": NVIDIA}, {"resources": {"limits": {**limits, "nvidia.com/gpucores": "10"}}}, hard)
    theirs, ours = both({**part, "pods": [running]})
    assert (theirs["allowed"], ours["allowed"]) == (True, allowed)


def test_memory_of_0_is_no_whole_card() -> None:
    """So that a quota of compute lets it in, as HAMi's does."""
    limits = {"nvidia.com/gpu": "2", "nvidia.com/gpumem": "0"}
    hard = {"limits.nvidia.com/gpucores": "100"}
    theirs, ours = both(case({"nvidia": NVIDIA}, {"resources": {"limits": limits}}, hard))
    assert theirs["allowed"]
    assert theirs == ours


def test_a_quota_counts_no_more_compute_than_a_card_has() -> None:
    limits = {"iluvatar.ai/BI-V150-vgpu": "2"}
    hard = {"limits.iluvatar.ai/BI-V150.vCore": "200"}
    theirs, ours = both(case({"iluvatars": [ILUVATAR]}, {"resources": {"limits": limits}}, hard))
    assert (theirs["allowed"], ours["allowed"]) == (False, True)
