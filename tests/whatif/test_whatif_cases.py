"""Cases: how they are put together, what is compared, and what is said about those that cannot be read."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kube import storage_objects as storage
from tests.whatif.cases import CLUSTER, document, error, failures, results

from vgpu_scheduler.whatif import CaseError, CaseResult, read_cases

POD: dict[str, Any] = {"resources": {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 4096}}
SPREAD: dict[str, Any] = {
    "kind": "ClusterVGPUPolicy",
    "metadata": {"name": "spread"},
    "spec": {"nodes": {"policy": "spread"}},
}
PACK: dict[str, Any] = {
    "kind": "ClusterVGPUPolicy",
    "metadata": {"name": "pack"},
    "spec": {"nodes": {"policy": "binpack"}},
}
TOO_MUCH: dict[str, Any] = {"resources": {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 99999}}
LIMIT: dict[str, Any] = {
    "kind": "ClusterVGPUPolicy",
    "metadata": {"name": "one"},
    "spec": {"limits": {"devicesPerPod": 1}},
}
DENY: dict[str, Any] = {
    "kind": "ClusterVGPUPolicy",
    "metadata": {"name": "no"},
    "spec": {"podOverrides": {"allow": []}},
}


# Put together --------------------------------------------------------------------------------------------------------


def test_a_file_may_be_one_case() -> None:
    assert failures(CLUSTER) == []


def test_what_all_share_is_added_to() -> None:
    file = document(
        CLUSTER,
        cases=[
            {"name": "one"},
            {"name": "two", "policies": [SPREAD], "expect": {"node": "b"}},
            {"name": "three", "nodes": [{"name": "0", "cards": 1}], "running": [], "expect": {"node": "a"}},
            {"name": "four", "running": [{"node": "b", "cards": ["b-0", "b-1"]}], "expect": {"node": "a"}},
        ],
    )
    found = results(file)
    assert [(r.name, r.failures) for r in found if isinstance(r, CaseResult)] == [
        (name, ()) for name in ("one", "two", "three", "four")
    ]


def test_maps_replace_single_entries() -> None:
    only: dict[str, Any] = {"kind": "ClusterVGPUPolicy", "metadata": {"name": "x"}, "spec": {**SPREAD["spec"]}}
    only["spec"]["namespaceSelector"] = {"matchLabels": {"tier": "x"}}
    file = document(
        CLUSTER,
        namespaces={"default": {"tier": "x"}, "other": {"tier": "x"}},
        settings={"devicePolicy": "binpack"},
        policies=[only],
        cases=[
            {"expect": {"node": "b"}},
            {"namespaces": {"default": {}}, "settings": {"node_policy": "binpack"}, "expect": {"cards": "a-0"}},
        ],
    )
    assert [r.failures for r in results(file) if isinstance(r, CaseResult)] == [(), ()]


def test_a_policy_replaces_the_shared_one_of_its_name() -> None:
    file = document(CLUSTER, policies=[SPREAD], cases=[{"policies": [{**PACK, "metadata": {"name": "spread"}}]}])
    assert failures(file) == []


def test_a_case_may_do_without_a_shared_policy() -> None:
    file = document(CLUSTER, policies=[SPREAD, PACK], cases=[{"without": "pack", "expect": {"node": "b"}}])
    assert failures(file) == []
    file["cases"] = [{"without": ["pack", "spread"], "expect": {"policy": {"nodes": "settings"}}}]
    assert failures(file) == []
    file["cases"] = [{"without": "pak"}]
    assert "without: no policy that all cases share is called 'pak': there is spread, pack" in error(file)


def test_one_entry_stands_for_a_list() -> None:
    file = document(CLUSTER, policies=SPREAD, nodes={"name": "a", "cards": {"memory": "16Gi", "count": 2}})
    assert failures(file) == []


def test_each_step_finds_what_those_before_it_took() -> None:
    whole = {"resources": {"nvidia.com/gpu": 1}}
    steps = [{"pod": whole, "expect": {"cards": card}} for card in ("a-1", "b-1", "b-0")]
    steps.append({"pod": whole, "expect": {"reason": "2 CardInsufficientMemory"}})
    file = document(CLUSTER, steps=steps)
    del file["pod"], file["expect"]
    assert failures(file) == []
    steps[1]["expect"] = {"cards": "b-0"}
    assert failures(file) == ["steps[1].cards: expected b-0, found b-1"]


def test_settings_count() -> None:
    assert failures(document(CLUSTER, settings={"nodePolicy": "spread"}, expect={"node": "b"})) == []
    numa = [{"name": "a", "cards": [{"name": "x"}, {"name": "y", "numa": 1}]}]
    taken = [{"node": "a", "cards": {"card": "y", "memory": "1Gi"}}]
    for settings, card in (({}, "y"), ({"profile": "HAMi210"}, "x"), ({"deviceOrder": "ScoreFirst"}, "x")):
        file = document(CLUSTER, nodes=numa, running=taken, settings=settings, expect={"cards": card})
        assert failures(file) == [], settings
    strict = document(CLUSTER, settings={"strict_annotations": True}, expect={"reason": "middle"})
    strict["pod"] = {**POD, "annotations": {"hami.io/node-scheduler-policy": "middle"}}
    assert failures(strict) == []


def test_whole_cards_are_as_exclusive_as_the_profile_makes_them() -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "half", "namespace": "default"},
        "spec": {"hard": {"limits.nvidia.com/gpucores": "50"}},
    }
    whole = {"resources": {"nvidia.com/gpu": 1}}
    placed, refused = {"outcome": "placed"}, {"reason": "ResourceQuotaNotFit"}
    for settings, expect in (
        ({}, placed),
        ({"profile": "HAMi210"}, refused),
        ({"exclusiveWhenUnspecified": True}, refused),
        ({"profile": "HAMi210", "exclusive_when_unspecified": False}, placed),
    ):
        file = document(CLUSTER, pod=whole, objects=[quota], settings=settings, expect=expect)
        assert failures(file) == [], settings


# What is compared ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "expect", "difference"),
    [
        ({}, {"node": "b"}, "node: expected b, found a"),
        ({}, {"node": ["b", "c"]}, "node: expected b or c, found a"),
        ({}, {"node": ["a", "b"]}, None),
        ({}, {"cards": "a-0"}, "cards: expected a-0, found a-1"),
        ({}, {"cards": ["a-1"]}, None),
        ({}, {"cards": []}, "cards: expected none, found a-1"),
        ({"pod": {"resources": {"cpu": 1}}}, {"cards": []}, None),
        ({}, {"outcome": "placed"}, None),
        ({}, {"outcome": "unschedulable"}, "reason: expected outcome unschedulable, but the pod goes to a"),
        ({}, {"reason": "x"}, "reason: expected 'x', but the pod goes to a"),
        ({"pod": TOO_MUCH}, {"node": "a"}, "the pod waits: 0/2 nodes are available: 2 CardInsufficientMemory."),
        ({"pod": TOO_MUCH}, {"reason": "CardInsufficientMemory"}, None),
        ({"pod": TOO_MUCH}, {"reason": ["0/2", "Memory"], "outcome": "unschedulable"}, None),
        ({"pod": TOO_MUCH}, {"outcome": "refused"}, "outcome: expected refused, found unschedulable"),
        ({"pod": TOO_MUCH}, {"reason": ["0/2", "Core"]},
         "reason: expected 'Core', found '0/2 nodes are available: 2 CardInsufficientMemory.'"),
        ({"policies": [SPREAD]}, {"policy": {"nodes": "ClusterVGPUPolicy spread", "devices": "settings"}}, None),
        ({}, {"policy": {"nodes": "ClusterVGPUPolicy spread"}},
         "policy.nodes: expected ClusterVGPUPolicy spread, found settings"),
        ({}, {"policy": {"limits": "ClusterVGPUPolicy one"}},
         "policy.limits: expected ClusterVGPUPolicy one, found nothing"),
        ({}, {"annotations": {"hami.io/vgpu-node": "b"}}, "annotations.hami.io/vgpu-node: expected 'b', found 'a'"),
        ({}, {"annotations": {"hami.io/vgpu-devices-allocated": "a-1,NVIDIA,4096,0:;"}}, None),
        ({}, {"warning": "x"}, "warning: expected 'x', found none"),
    ],
)  # fmt: skip
def test_what_is_expected_is_compared(fields: dict[str, Any], expect: dict[str, Any], difference: str | None) -> None:
    assert failures(document(CLUSTER, **fields, expect=expect)) == ([] if difference is None else [difference])


def test_a_refused_pod_has_its_policy_and_one_of_several_sources_will_do() -> None:
    two = {**POD, "resources": {"nvidia.com/gpu": 2}}
    tenant = {"kind": "VGPUPolicy", "metadata": {"name": "mine", "namespace": "default"}, "spec": {}}
    tenant["spec"] = {"limits": {"memoryPerPod": "1Gi"}}
    for source in (
        "ClusterVGPUPolicy one",
        "VGPUPolicy default/mine",
        "VGPUPolicy default/mine, ClusterVGPUPolicy one",
    ):
        expect = {"reason": "limits.", "outcome": "refused", "policy": {"limits": source}}
        assert failures(document(CLUSTER, pod=two, policies=[LIMIT, tenant], expect=expect)) == []


def test_warnings_are_expected() -> None:
    pod = {**POD, "annotations": {"hami.io/node-scheduler-policy": "spread"}}
    file = document(CLUSTER, pod=pod, policies=[DENY], expect={"node": "a", "warning": "is not followed"})
    assert failures(file) == []


def test_a_failure_is_explained() -> None:
    file = document(CLUSTER, expect={"node": "b"})
    file["nodes"].append({"name": "c", "cards": {"memory": "1Gi"}})
    (result,) = results(file)
    assert isinstance(result, CaseResult)
    assert result.explanation.splitlines() == [
        "default/pod goes to a, a-1",
        "  devices by settings",
        "  nodes by settings",
        "  NODE  SCORE  WHY",
        "  a     3      hami 3 (10 of 100)",
        "  b     0      hami 0",
        "  c     -      1/1 CardInsufficientMemory",
    ]


def test_scores_are_explained_as_they_are_added() -> None:
    scorers = [{"name": "hami", "weight": 2, "policy": "spread"}, {"name": "binpack", "resources": {"cpu": 0}}]
    mixed = {"kind": "ClusterVGPUPolicy", "metadata": {"name": "mixed"}, "spec": {"nodes": {"scorers": scorers}}}
    pod = {"resources": {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 4096, "memory": "64Gi"}}
    (result,) = results(document(CLUSTER, policies=mixed, pod=pod, expect={"node": "a"}))
    assert isinstance(result, CaseResult)
    assert "  b     225    binpack 25 + hami 0 (100 of 100) x 2" in result.explanation
    assert "  a     205    binpack 25 + hami 3 (90 of 100) x 2" in result.explanation


def test_what_somebody_would_like_is_explained_beside_the_scorers() -> None:
    file = document(CLUSTER, expect={"node": "x"})
    file["nodes"] = [{"name": "a", "cards": 1, "taints": "k:PreferNoSchedule"}, {"name": "b", "cards": 1}]
    (result,) = results(file)
    assert isinstance(result, CaseResult)
    assert result.explanation.splitlines()[-2:] == [
        "  b     300    device 0 x 2 [device/hami 0] + TaintToleration 0 (100 of 100) x 3",
        "  a     40     device 6 (20 of 100) x 2 [device/hami 6 (20 of 100)] + TaintToleration 1 (0 of 100) x 3",
    ]


def test_the_best_node_stands_first() -> None:
    file = document(CLUSTER, expect={"node": "x"})
    file["nodes"] = [{"name": name, "cards": 2} for name in "abcd"]
    file["running"] = [
        {"node": name, "cards": {"card": f"{name}-0", "memory": f"{memory}Gi"}}
        for name, memory in zip("abcd", (2, 8, 4, 6), strict=True)
    ]
    for policies, order in (([], "bdca"), ([SPREAD], "acdb")):
        (result,) = results({**file, "policies": policies})
        assert isinstance(result, CaseResult)
        assert "".join(line.split()[0] for line in result.explanation.splitlines()[4:]) == order


def test_long_tables_are_cut() -> None:
    nodes = [{"name": f"n{number:03}", "cards": 1} for number in range(50)]
    fits, waits = (
        results(document(CLUSTER, nodes=nodes, running=[], expect={"node": "x"}, **more))[0]
        for more in ({}, {"pod": TOO_MUCH})
    )
    assert isinstance(fits, CaseResult)
    assert "and 10 more" in fits.explanation
    assert len(fits.explanation.splitlines()) < 50
    assert isinstance(waits, CaseResult)
    assert "50 nodes: n000, n001, n002, …  -      CardInsufficientMemory" in waits.explanation


# What cannot be read -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "says"),
    [
        (["a"], "a file of cases is a mapping"),
        ("text", "a file of cases is a mapping"),
        (None, "a file of cases is a mapping"),
        ({"cases": {}}, "cases: must be a list"),
        ({"cases": []}, "cases: must be a list with at least one case"),
        ({"cases": [{}], "without": "x"}, "without: set it in a case"),
    ],
)
def test_files_that_are_none(file: Any, says: str) -> None:
    with pytest.raises(CaseError, match=says):
        read_cases(file)


def test_one_bad_case_leaves_the_others() -> None:
    file = document(CLUSTER, cases=[5, {"name": "typo", "expectt": {}}, {"name": "good"}])
    bad, typo, good = read_cases(file)
    assert isinstance(bad, CaseError)
    assert (bad.case, str(bad)) == ("cases[0]", "must be a mapping")
    assert isinstance(typo, CaseError)
    assert typo.case == "typo"
    assert not isinstance(good, CaseError)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"expectt": {}}, "there is no field 'expectt': did you mean expect?"),
        ({"nods": []}, "there is no field 'nods': did you mean nodes?"),
        ({"zzz": []}, "there is no field 'zzz': it is one of dialect, "),
        ({"nodes": 5}, "nodes: must be a list"),
        ({"nodes": "file.yaml"}, "nodes: must be a list"),
        ({"nodes": [5]}, "nodes[0]: 5 is not a map"),
        ({"policies": "file.yaml"}, "policies: must be a list"),
        ({"policies": [SPREAD, 5]}, "policies[1]: 5 is not a map"),
        ({"namespaces": ["default"]}, "namespaces: must be a mapping"),
        ({"namespaces": {"default": {"a": 1}}}, "namespaces.default.a: 1 is not a text"),
        ({"settings": 5}, "settings: must be a mapping"),
        ({"settings": {"nodePolicy": "middle"}}, "settings.nodePolicy: 'middle' is not one of 'binpack' or 'spread'"),
        ({"settings": {"devicePolicy": "middle"}}, "settings.devicePolicy: 'middle' is not one of binpack, mutex, "),
        ({"settings": {"devicePolicy": "spread,spread"}}, "settings.devicePolicy: 'spread' is listed twice"),
        ({"settings": {"devicePolcy": "x"}}, "settings: there is no field 'devicePolcy': did you mean devicePolicy?"),
        ({"dialect": "hamy"}, "dialect: 'hamy' is not one of hami, volcano, koordinator"),
        (
            {"expect": {}},
            "cards, reason, policy, annotations, warning, preempts, preemptedBy",
        ),
        ({"expect": {"node": None}}, "expect: node is empty"),
        ({"expect": {"nod": "a"}}, "expect: there is no field 'nod': did you mean node?"),
        (
            {"expect": {"policy": {"nodez": "settings"}}},
            "expect: policy: there is no section 'nodez', did you mean nodes?",
        ),
        ({"expect": {"reason": "x", "node": "a"}}, "expect: a pod that waits has neither node nor cards"),
        ({"expect": {"outcome": "refused", "cards": "a-0"}}, "expect: a pod that waits has neither node nor cards"),
        ({"expect": {"outcome": "placed", "reason": "x"}}, "expect: a pod that is placed has no reason to wait"),
        ({"expect": {"reason": "x", "annotations": {"a": "b"}}}, "expect: nothing is written on a pod that waits"),
        ({"expect": 5}, "expect: 5 is not a map"),
        ({"expect": {"outcome": "lost"}}, "expect.outcome: 'lost' is not one of 'placed'"),
        ({"pod": 5}, "pod: 5 is not a map"),
        ({"without": 5}, "without: must be a list of names"),
        ({"steps": []}, "steps: set steps, or pod and expect, not both|pod: set steps|expect: set steps"),
    ],
)
def test_errors_name_the_field(fields: dict[str, Any], says: str) -> None:
    found = error(document(CLUSTER, **fields))
    assert any(part in found for part in says.split("|")), found


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (
            {"spec": {"schedulerName": "vgpu-schedular"}},
            "pod: spec.schedulerName: vgpu-schedular (is vgpu-scheduler meant",
        ),
        (
            {"spec": {"schedulerName": "hami-scheduler"}},
            "pod: spec.schedulerName: hami-scheduler is not this scheduler",
        ),
        ({"spec": {"nodeName": "b"}}, "pod: spec.nodeName: it is on node b already: write it under running"),
        ({"status": {"phase": "Succeeded"}}, "pod: it has ended, or is being deleted"),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, "pod: it has ended, or is being deleted"),
    ],
)
def test_a_pod_that_the_scheduler_does_not_look_at_is_refused(fields: dict[str, Any], says: str) -> None:
    container = {"name": "main", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", **fields.get("metadata", {})},
        "spec": {"containers": [container], **fields.get("spec", {})},
        "status": fields.get("status", {}),
    }
    assert says in error(document(CLUSTER, pod=pod))
    if name := fields.get("spec", {}).get("schedulerName"):
        assert failures(document(CLUSTER, pod=pod, settings={"schedulerNames": [name]})) == []


@pytest.mark.parametrize(
    "running",
    [
        [{"node": "a", "cards": {"card": "a-1", "memory": "99Gi"}}],
        [{"node": "a", "cards": {"card": "a-1", "cores": 130}}],
        [{"node": "a", "cards": {"card": "a-1", "cores": 60}}, {"node": "a", "cards": {"card": "a-1", "cores": 50}}],
    ],
)
def test_running_pods_that_hold_more_than_their_card_are_refused(running: list[dict[str, Any]]) -> None:
    assert error(document(CLUSTER, running=running)) == "running: the pods of node a hold more of a-1 than there is"


def test_a_case_without_a_pod() -> None:
    file = document(CLUSTER)
    del file["pod"]
    assert error(file) == "pod: is missing beside expect"
    del file["expect"]
    assert error(file) == "a case needs pod and expect, or steps"
    file["steps"] = []
    assert "steps: " in error(file)
    file["steps"] = [{"pod": POD, "expect": {"nod": "a"}}]
    assert error(file) == "steps[0].expect: there is no field 'nod': did you mean node?"


def test_pods_with_volumes_go_where_these_are() -> None:
    claim = {"kind": "PersistentVolumeClaim", **storage.claim("data", "default", volume="disk")}
    disk = {"kind": "PersistentVolume", **storage.volume("disk", bound_to=claim, nodes={"zone": ["z"]})}
    pod = {
        "metadata": {"name": "p"},
        "spec": {
            "containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1}}}],
            "volumes": [storage.claim_volume("data")],
        },
    }
    nodes = [{"name": "a", "cards": 1}, {"name": "b", "cards": 1, "labels": {"zone": "z"}}]
    case = {"name": "x", "nodes": nodes, "objects": [claim, disk], "steps": [{"pod": pod, "expect": {"node": "b"}}]}
    assert failures(case) == []
    case["objects"] = [claim]
    assert failures(case) != []
