"""The review of a pod: what is common to all vendors, tables of their rules, and properties that hold for any pod."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.builders import make_engine

from vgpu_scheduler.admission import AdmissionRules, review
from vgpu_scheduler.dialects import Dialects
from vgpu_scheduler.dialects.hami import VendorSection, configured, hami_dialect
from vgpu_scheduler.engine.request_warnings import RequestWarnings
from vgpu_scheduler.model import ClaimDefaults

Obj = dict[str, Any]

GPU, MEM, CORES = "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores"
RULES = AdmissionRules(Dialects([hami_dialect()]), ("vgpu-scheduler", "second"))


def rules_with(**sections: Obj) -> AdmissionRules:
    return AdmissionRules(Dialects([hami_dialect(configured(VendorSection(sections)))]), ("vgpu-scheduler",))


def container(limits: Obj | None = None, **more: Any) -> Obj:
    return {"name": "c", "image": "i", "resources": {"limits": limits or {}}, **more}


def pod(*containers: Obj, annotations: Obj | None = None, **spec: Any) -> Obj:
    metadata = {"generateName": "p-", **({"annotations": annotations} if annotations else {})}
    return {"metadata": metadata, "spec": {"containers": list(containers), **spec}}


def reviewed(given: Obj, rules: AdmissionRules = RULES) -> Obj:
    verdict = review(given, "team-a", rules)
    assert verdict.pod is not None, verdict.message
    return dict(verdict.pod)


# What is common ----------------------------------------------------------------------------------------------------


def test_a_pod_that_asks_for_cards_gets_the_schedulers_name() -> None:
    for name in ({}, {"schedulerName": ""}, {"schedulerName": "default-scheduler"}):
        assert reviewed(pod(container({GPU: "1"}), **name))["spec"]["schedulerName"] == "vgpu-scheduler"


@pytest.mark.parametrize("name", ["vgpu-scheduler", "second"])
def test_a_name_of_ours_stays(name: str) -> None:
    assert reviewed(pod(container({MEM: "1000"}), schedulerName=name))["spec"]["schedulerName"] == name


@pytest.mark.parametrize(
    "given",
    [
        pod(container({"cpu": "1"})),
        pod(container({GPU: "1"}), schedulerName="volcano"),
        pod(container({"cpu": "1"}), nodeName="n1"),
        pod(container(securityContext={"privileged": True})),
    ],
)
def test_other_pods_are_left_alone(given: Obj) -> None:
    verdict = review(given, "team-a", RULES)
    assert verdict.allowed
    assert not verdict.changed
    assert verdict.pod == given


def test_the_default_schedulers_pods_may_be_left_to_it() -> None:
    rules = AdmissionRules(Dialects([hami_dialect()]), ("vgpu-scheduler",), overwrite_default=False)
    assert not review(pod(container({MEM: "1"}), schedulerName="default-scheduler"), "a", rules).changed


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (pod(), "pod has no containers"),
        (pod(container({GPU: "1"}), nodeName="n1"), "pod has node assigned"),
        (
            pod(container({GPU: "1"}), {"name": "root", "securityContext": {"privileged": True}}),
            "container root is privileged",
        ),
        (
            pod(container({GPU: "1"}), initContainers=[{"name": "i", "securityContext": {"privileged": True}}]),
            "container i is privileged",
        ),
    ],
)
def test_what_is_refused(given: Obj, message: str) -> None:
    verdict = review(given, "team-a", RULES)
    assert (verdict.pod, verdict.message, verdict.code) == (None, message, 403)


def test_a_quota_is_asked_about_the_namespace_of_the_request() -> None:
    asked = []

    def over_quota(namespace: str, claims: Any) -> str:
        asked.append((namespace, sum(claim.amounts[1] for c in claims for claim in c.claims)))
        return "by 5"

    verdict = review(pod(container({GPU: "1", MEM: "500"})), "team-a", RULES, over_quota)
    assert (verdict.allowed, verdict.message) == (False, "exceeding resource quota: by 5")
    assert asked == [("team-a", 500)]


def test_an_amount_that_the_scheduler_will_refuse_is_warned_of() -> None:
    verdict = review(pod(container({GPU: "1", MEM: "16Gi"})), "team-a", RULES)
    assert verdict.allowed
    assert "nvidia.com/gpumem: 16Gi is more than any card has" in verdict.warnings[0]


def test_a_pod_that_cannot_be_read_is_let_in_with_a_warning() -> None:
    given = pod(container({GPU: "one"}))
    verdict = review(given, "team-a", RULES)
    assert verdict.pod == given
    assert "not looked at by vgpu-scheduler" in verdict.warnings[0]


# The vendors' rules, where the recorded cases do not show them -------------------------------------------------------


def test_whole_cards_are_exclusive_only_where_that_is_set() -> None:
    given = pod(container({GPU: "1"}))
    assert CORES not in reviewed(given)["spec"]["containers"][0]["resources"]["limits"]
    exclusive = rules_with(nvidia={"wholeIsExclusive": True})
    assert reviewed(given, exclusive)["spec"]["containers"][0]["resources"]["limits"][CORES] == "100"
    for defaults in (None, ClaimDefaults(cores=20), ClaimDefaults(memory=2**30)):
        claimed = replace(exclusive, defaults=lambda _, defaults=defaults: defaults)
        completed = reviewed(given, claimed)
        assert CORES not in completed["spec"]["containers"][0]["resources"]["limits"], "a policy's default goes before"
    only_requests = {"name": "c", "resources": {"requests": {GPU: "1"}}}
    assert reviewed(pod(only_requests), exclusive)["spec"]["schedulerName"] == "vgpu-scheduler"


def test_modules_of_ascend_chips_come_in_pairs() -> None:
    name = "huawei.com/Ascend910C"
    limits = reviewed(pod(container({name: "1"})))["spec"]["containers"][0]["resources"]["limits"]
    assert limits[name] == "2"
    verdict = review(pod(container({name: "3"})), "a", RULES)
    assert verdict.message == "Ascend910C device request must be 1 or 2*n, got 3"


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"amd.com/gpu": "1", "amd.com/gpucores": "101"}, "must be an integer percentage between 1 and 100"),
        ({"amd.com/gpu": "1", "amd.com/gpucores": "500m"}, "must be an integer percentage between 1 and 100"),
        ({"mthreads.com/vgpu": "1", "mthreads.com/sgpu-memory": "3"}, "valid values are [2, 4, 8, 16, 32, 64, 96]"),
        ({"huawei.com/Ascend310P": "1", "huawei.com/Ascend310P-memory": "24577"}, "24577 is invalid"),
    ],
)
def test_what_makers_refuse(limits: Obj, message: str) -> None:
    verdict = review(pod(container(limits)), "a", RULES)
    assert verdict.code == 500
    assert message in verdict.message


def test_a_variable_of_another_value_is_overruled() -> None:
    rules = rules_with(nvidia={"overwriteEnv": True})
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    told = reviewed(pod(container(env=env)), rules)["spec"]["containers"][0]["env"]
    assert told == [*env, {"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}]


def test_a_runtime_class_of_the_users_stays() -> None:
    rules = rules_with(nvidia={"runtimeClassName": "nvidia"})
    assert reviewed(pod(container({GPU: "1"})), rules)["spec"]["runtimeClassName"] == "nvidia"
    assert reviewed(pod(container({GPU: "1"}), runtimeClassName="own"), rules)["spec"]["runtimeClassName"] == "own"


# Any pod ------------------------------------------------------------------------------------------------------------

RESOURCES = sorted(name for vendor in RULES.dialects.first.claims.vendors for name in vendor.claims.resources)
QUANTITIES = st.sampled_from(["0", "1", "2", "3", "100", "500m", "8Gi", "-1", "4k", "24576", "4294967297"])
AMOUNTS = st.dictionaries(st.sampled_from([*RESOURCES, "cpu"]), QUANTITIES, max_size=5)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
ANNOTATIONS = st.dictionaries(
    st.sampled_from(["huawei.com/vnpu-mode", "metax-tech.com/sgpu-app-class"]), st.sampled_from(["hami-core", "x"])
)
CONTAINERS = st.fixed_dictionaries(
    {"name": st.sampled_from(["a", "b"])},
    optional={
        "resources": st.fixed_dictionaries({}, optional={"limits": AMOUNTS, "requests": AMOUNTS}),
        "env": st.none() | JUNK | st.lists(st.fixed_dictionaries({"name": st.just("NVIDIA_VISIBLE_DEVICES")})),
        "securityContext": JUNK | st.just({"privileged": True}),
    },
)
PODS = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries({}, optional={"annotations": st.none() | ANNOTATIONS}),
        "spec": st.fixed_dictionaries(
            {"containers": st.lists(CONTAINERS, max_size=3)},
            optional={"initContainers": st.none() | st.lists(CONTAINERS, max_size=2), "schedulerName": st.text()},
        ),
    }
)
LOUD, STRICT = (
    rules_with(
        nvidia={
            "wholeIsExclusive": True,
            "overwriteEnv": True,
            "gpuCorePolicy": "force",
            "runtimeClassName": "nvidia",
            "defaultGPUNum": count,
        }
    )
    for count in (1, 0)
)


@given(PODS, st.sampled_from([RULES, LOUD, STRICT]))
def test_a_second_review_changes_nothing(given_pod: Obj, rules: AdmissionRules) -> None:
    before = copy.deepcopy(given_pod)
    verdict = review(given_pod, "team-a", rules)
    assert given_pod == before
    if verdict.pod is None:
        assert verdict.message
        return
    assert verdict.changed == (verdict.pod != before)
    again = review(verdict.pod, "team-a", rules)
    if again.message == "vNPU not supported for multiple devices":  # HAMi gives a part of one chip as parts of two
        assert _asks_for_part_of_module(given_pod)
        return
    assert (again.pod, again.changed) == (verdict.pod, False)


def _asks_for_part_of_module(pod: Obj) -> bool:
    """Tell whether a container asks for one chip, and for memory, of chips that come in modules of two."""
    containers = [*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or [])]
    amounts = [each.get("resources", {}).get(part, {}) for each in containers for part in ("limits", "requests")]
    return any("huawei.com/Ascend910C" in each for each in amounts) and any(
        "huawei.com/Ascend910C-memory" in each for each in amounts
    )


def test_a_part_of_a_chip_that_comes_in_modules_is_refused_by_a_second_review() -> None:
    """HAMi checks the memory before it doubles the count, and so refuses the doubled count in a later review."""
    limits = {"huawei.com/Ascend910C-memory": "16384", "huawei.com/Ascend910C": "1"}
    given_pod = {"metadata": {}, "spec": {"containers": [{"name": "a", "resources": {"limits": limits}}]}}
    verdict = review(given_pod, "team-a", RULES)
    assert verdict.pod is not None
    assert verdict.pod["spec"]["containers"][0]["resources"]["limits"]["huawei.com/Ascend910C"] == "2"
    again = review(verdict.pod, "team-a", RULES)
    assert (again.pod, again.message) == (None, "vNPU not supported for multiple devices")


PARTS = [
    ("metadata",), ("metadata", "annotations"), ("spec",), ("spec", "containers"), ("spec", "initContainers"),
    ("spec", "schedulerName"), ("spec", "nodeName"),
]  # fmt: skip


@st.composite
def broken(draw: st.DrawFn) -> Obj:
    """A pod of which any part may be anything."""
    whole = draw(PODS)
    for path in draw(st.lists(st.sampled_from(PARTS), max_size=2)):
        holder: Any = whole
        for key in path[:-1]:
            holder = holder[key] if isinstance(holder, dict) else {}
        if isinstance(holder, dict):
            holder[path[-1]] = draw(JUNK)
    return dict(whole)


@given(broken())
def test_nothing_that_comes_in_is_too_much(given_pod: Obj) -> None:
    review(given_pod, "team-a", LOUD)


@given(st.dictionaries(st.text(max_size=5), JUNK))
def test_no_json_is_too_much(anything: Obj) -> None:
    assert review(anything, "team-a", LOUD).pod in (anything, None)


@pytest.mark.parametrize(
    ("limits", "annotations", "says"),
    [
        ({"nvidia.com/gpumem-percentage": "0"}, {}, "container c: nvidia.com/gpumem-percentage: 0 is not an amount"),
        ({MEM: "1000", "nvidia.com/gpumem-percentage": "5"}, {}, "gpumem-percentage has no effect beside"),
        ({}, {"nvidia.com/numa-bind": "yes"}, "annotation nvidia.com/numa-bind: 'yes' is not a boolean"),
        ({}, {"nvidia.com/vgpu-mode": "mgi"}, "ModeNotFit: annotation nvidia.com/vgpu-mode: 'mgi' names no mode"),
        ({}, {"hami.io/node-scheduler-policy": "binpak"}, "'binpak' is unknown, binpack is used"),
        ({}, {"nvidia.com/use-gputyp": "A100"}, "annotation nvidia.com/use-gputyp has no effect, did you mean"),
    ],
)
def test_whoever_creates_a_pod_is_warned_of_what_is_followed_otherwise(
    limits: Obj, annotations: Obj, says: str
) -> None:
    engine = make_engine()
    rules = replace(RULES, request_warnings_of=engine.request_warnings_of)
    verdict = review(pod(container({GPU: "1", **limits}), annotations=annotations), "team-a", rules)
    assert verdict.allowed
    (warning,) = verdict.warnings
    assert says in warning


def test_nobody_is_warned_of_a_pod_that_means_what_it_says_or_asks_for_no_card() -> None:
    rules = replace(RULES, request_warnings_of=make_engine().request_warnings_of)
    assert review(pod(container({GPU: "1", MEM: "1000"})), "team-a", rules).warnings == ()
    plain = pod(container({"cpu": "1"}), annotations={"hami.io/node-scheduler-policy": "binpak"})
    assert review(plain, "team-a", rules).warnings == ()


@pytest.mark.parametrize("asks", [True, False])
@pytest.mark.parametrize("name", ["nvida.com/gpu", "nvidia.com/gpus", "vastaitech.com/v", "nvidia.com/gpumen"])
def test_misspelt_resources_are_warned_of_whether_or_not_the_pod_asks_for_cards(name: str, *, asks: bool) -> None:
    dialects = Dialects([hami_dialect()])
    found = RequestWarnings(dialects)
    rules = AdmissionRules(
        dialects, ("vgpu-scheduler",), request_warnings_of=found.of_pod, misspelt_of=found.of_misspelt_resources
    )
    limits = {name: "1", **({GPU: "1"} if asks else {})}
    verdict = review(pod(container(limits)), "team-a", rules)
    assert verdict.allowed
    (text,) = [each for each in verdict.warnings if "there is no device resource" in each]
    assert f"there is no device resource {name}, did you mean " in text


@pytest.mark.parametrize(
    "name", ["cpu", "memory", "example.com/gpu", "mthreads.com/gpu", "nvidia.com/gpu.shared", "rdma/hca"]
)
def test_pods_of_others_are_not_warned_of(name: str) -> None:
    dialects = Dialects([hami_dialect()])
    found = RequestWarnings(dialects)
    rules = AdmissionRules(
        dialects, ("vgpu-scheduler",), request_warnings_of=found.of_pod, misspelt_of=found.of_misspelt_resources
    )
    assert review(pod(container({name: "1"})), "team-a", rules).warnings == ()
