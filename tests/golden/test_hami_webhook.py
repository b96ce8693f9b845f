"""The quirks of the webhook's twin that no recorded case shows."""

from __future__ import annotations

from typing import Any

import pytest
from tests.golden import hami_claims, hami_webhook
from tests.naive.webhook.quirks import ALL
from tests.naive.webhook.review import review

Obj = dict[str, Any]

NVIDIA = hami_claims.CONFIG["nvidia"]
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


# Moore Threads and Enflame -----------------------------------------------------------------------------------------


MTHREADS = hami_claims.KINDS["mthreads"]
SLICES, NEEDED, COMPUTE = hami_claims.KINDS["enflame slices"]


def reviewed(kind: str, resources: Obj) -> tuple[Obj, Obj]:
    """What HAMi and this scheduler make of the resources of a container, or why they deny it."""
    answers = both(case(hami_claims.config_of(kind), {"resources": resources}))
    found = [a["pod"]["spec"]["containers"][0]["resources"] if a["allowed"] else a["message"] for a in answers]
    return found[0], found[1]


def test_a_card_of_moore_threads_may_be_asked_for_in_requests_alone() -> None:
    count, memory, cores = MTHREADS
    theirs, ours = reviewed("mthreads", {"requests": {count: "1", cores: "1k"}})
    assert theirs == {"requests": {count: "1", cores: "1k"}, "limits": {cores: "16", memory: "96"}}
    assert ours == {"requests": {count: "1", cores: "16"}, "limits": {cores: "16", memory: "96"}}


def test_memory_that_only_a_request_names_stays_as_it_is() -> None:
    count, memory, cores = MTHREADS
    given = {"requests": {count: "1", memory: "32"}}
    theirs, ours = reviewed("mthreads", given)
    assert theirs == {**given, "limits": {cores: "16", memory: "96"}}
    assert ours == given


@pytest.mark.parametrize("count", ["0", "-1"])
def test_no_card_of_moore_threads_is_no_number_to_ask_for(count: str) -> None:
    denied = f"{MTHREADS[0]} must be greater than 0"
    assert reviewed("mthreads", {"limits": {MTHREADS[0]: count}}) == (denied, denied)


def test_a_part_of_a_card_of_moore_threads_is_a_whole_number() -> None:
    denied = reviewed("mthreads", {"limits": {MTHREADS[0]: "1", MTHREADS[1]: "1500m"}})
    assert [message.split(" value")[0] for message in denied] == ["sGPU memory request", "sGPU memory request"]


def test_slices_go_before_what_else_is_said_of_them() -> None:
    given = {"limits": {SLICES: "1", COMPUTE: "500", NEEDED: "0"}}
    completed = {**given, "requests": {SLICES: "1"}}
    assert reviewed("enflame slices", given) == (completed, completed)


@pytest.mark.parametrize("compute", ["0", "-1", "101", "1k"])
def test_compute_of_slices_is_a_percentage(compute: str) -> None:
    denied = f"{COMPUTE} must be in range (0,100]"
    assert reviewed("enflame slices", {"limits": {COMPUTE: compute}}) == (denied, denied)
