"""Volcano's node side: whom its device plugin can serve, by what it knows a pod, and which turns pods have lost."""

from __future__ import annotations

import pytest
from tests.dialects.volcano_objects import DIALECT, NAMES, NODE, Obj, container, pod

from vgpu_scheduler.dialects import ClaimError, UnservedPod
from vgpu_scheduler.dialects.volcano import PluginVersion, volcano_dialect

TIME, LEFT = "volcano.sh/vgpu-time", "volcano.sh/devices-to-allocate"
NUMBER = "volcano.sh/vgpu-number"
CARD = "GPU-1,NVIDIA,1000,0:"
ONE, TWO = container("first", "n=1 mem=1000"), container("second", "n=2")
SIDES = {version: volcano_dialect(NAMES, version).node_side for version in PluginVersion}
V1_10, V1_11, V1_12 = (SIDES[version] for version in PluginVersion)


def refusal(version: PluginVersion, *containers: Obj) -> str:
    asking = pod(*containers)
    try:
        SIDES[version].check(asking, DIALECT.claims.read(asking))
    except ClaimError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("version", PluginVersion)
def test_cards_in_one_container_are_served(version: PluginVersion) -> None:
    for containers in ([ONE], [container("c"), TWO], [ONE, container("c", "n=0")]):
        assert refusal(version, *containers) == ""


@pytest.mark.parametrize("limits", ["mem=1000", "mem=1000 n=0"])
@pytest.mark.parametrize("version", PluginVersion)
def test_memory_without_a_number_never_reaches_the_plugin(version: PluginVersion, limits: str) -> None:
    assert refusal(version, container("c"), container("d", limits, "n=1")) == (
        'container "d": volcano.sh/vgpu-memory without a limit of volcano.sh/vgpu-number: the device plugin would not '
        "be asked for it; add volcano.sh/vgpu-number: 1 to the limits"
    )


@pytest.mark.parametrize(("version", "served"), list(zip(PluginVersion, (False, True, False), strict=True)))
def test_cards_in_several_containers_are_served_by_one_version(version: PluginVersion, *, served: bool) -> None:
    told = refusal(version, ONE, container("c"), TWO)
    reason = (
        'containers "first" and "second": volcano.sh/vgpu-number in several containers is not served by the device '
        "plugin: claim all cards in one container (v1.11 serves them: setting volcano.plugin_version)"
    )
    assert told == ("" if served else reason)


def test_a_pod_is_known_by_its_cards_where_the_plugin_looks_at_them() -> None:
    claims = DIALECT.claims.read(pod(ONE, TWO))
    assert [side.plugin_key(claims) for side in SIDES.values()] == [NUMBER, NUMBER, f"{NUMBER}: 3"]


def written(left: str = CARD, time: str = "5", node: str = "n") -> Obj:
    return {NODE: node, TIME: time, LEFT: left}


@pytest.mark.parametrize(("phase", "started"), [("Failed", False), ("Succeeded", True), ("Running", True)])
def test_a_pod_that_was_not_served_and_will_not_be_has_lost_its_turn(phase: str, *, started: bool) -> None:
    unserved = pod(ONE, bound="n", annotations=written(f"{CARD}{CARD};;{CARD}"), phase=phase, started=started)
    assert V1_12.unserved_pod(unserved) == UnservedPod("n", f"{NUMBER}: 3")
    assert V1_11.unserved_pod(unserved) == V1_10.unserved_pod(unserved) == UnservedPod("n", NUMBER)


def test_a_pod_that_waits_for_the_plugin_has_its_turn_before_it() -> None:
    waiting = pod(ONE, bound="n", annotations=written(), phase="Pending", started=False)
    assert V1_12.unserved_pod(waiting) is None
    assert V1_12.unserved_pod(pod(ONE, annotations=written())) is None


@pytest.mark.parametrize(
    ("annotations", "by_number", "by_time"),
    [
        ({}, False, False),
        (written(time=str(2**64 - 1)), False, False),
        (written(time=str(2**64 - 2)), True, True),
        (written(time=str(2**64)), False, False),
        (written(time="9" * 5000), False, False),
        (written(time=""), False, False),
        (written(time="-1"), False, False),
        (written(time="٣"), False, False),
        (written(left=";"), False, True),
        (written(left="GPU-1:GPU-2"), False, True),
        (written(left=""), False, True),
        (written(node=""), False, False),
        (written(node="another"), True, True),
    ],
)
def test_which_pods_the_plugin_takes(annotations: Obj, *, by_number: bool, by_time: bool) -> None:
    ended = pod(ONE, bound="n", annotations=annotations, phase="Failed", started=False)
    node = annotations.get(NODE, "")
    assert V1_12.unserved_pod(ended) == (UnservedPod(node, f"{NUMBER}: 1") if by_number else None)
    assert V1_11.unserved_pod(ended) == (UnservedPod(node, NUMBER) if by_time else None)
