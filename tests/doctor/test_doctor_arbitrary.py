"""Whatever the objects of a cluster say, no check crashes."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.doctor.clusters import EXPECTED, Objects, healthy, look
from tests.doctor.test_doctor_findings import PLANTED
from tests.engine.builders import node_object, pod_object

from vgpu_scheduler.dialects.hami import hami_dialect
from vgpu_scheduler.dialects.koordinator import koordinator_dialect
from vgpu_scheduler.dialects.volcano import volcano_dialect
from vgpu_scheduler.engine import EngineOptions

TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["", "0", "-1", "1e400", ";", ":", ",", "[", "{}", "[null]", "9999-12-31T23:59:59Z", "a", "b", "True"]
    ),
    st.sampled_from(
        ["0001-01-01T00:00:00+23:59,default,web", "9999-12-31T23:59:59-23:59,default,web", "a-gpu-0,NVIDIA,1,1:;"]
    ),
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63), st.floats(allow_nan=False), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=5,
)
ADDED = ("Node", "Pod", "DaemonSet", "ResourceSlice", "Lease")
"""Kinds of which defects add objects; what takes something away leaves less to break."""
BROKEN = healthy()
for plant, _ in PLANTED:
    alone = healthy()
    plant(alone)
    for kind in ADDED:
        BROKEN[kind] += [obj for obj in alone[kind] if obj not in BROKEN[kind]]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of everything inside a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [path] if path else []
    for key, inner in items:
        found += places(inner, (*path, key))
    return found


VOLCANO = {"volcano.sh/vgpu-number": "10", "volcano.sh/vgpu-memory": "24576", "volcano.sh/vgpu-cores": "100"}
REGISTERED = {"volcano.sh/node-vgpu-register": "c-gpu-0,10,24576,NVIDIA-A10,true,hami-core:"}
CARD = {"type": "gpu", "minor": 0, "id": "d-gpu-0", "health": True, "resources": {"koordinator.sh/gpu-core": "100"}}
BROKEN["Node"] += [node_object("c", annotations=REGISTERED, allocatable=VOLCANO), node_object("d")]
BROKEN["Device"] = [{"metadata": {"name": "d"}, "spec": {"devices": [CARD]}}]
HELD = {"volcano.sh/vgpu-ids-new": "c-gpu-0,NVIDIA,1024,10:;", "scheduling.koordinator.sh/device-allocated": "{}"}
BROKEN["Pod"].append(
    pod_object("both", {"limits": {"volcano.sh/vgpu-number": "1"}}, annotations=HELD, started=True, nodeName="c")
)
EVERY = replace(EXPECTED, options=EngineOptions((hami_dialect(), volcano_dialect(), koordinator_dialect())))
PLACES = [place for place in places(BROKEN) if len(place) > 2 and "openAPIV3Schema" not in place[:-1]]


def put(objects: Objects, place: tuple[Any, ...], value: Any) -> None:
    """Write a value where there was another; nothing, where an earlier one has taken the place away."""
    target: Any = objects
    for key in place[:-1]:
        try:
            target = target[key]
        except (KeyError, IndexError, TypeError):
            return
    if isinstance(target, dict) or (
        isinstance(target, list) and isinstance(place[-1], int) and place[-1] < len(target)
    ):
        target[place[-1]] = value


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from(PLACES), JSON), min_size=1, max_size=4))
def test_no_object_crashes_a_check(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    objects = deepcopy(BROKEN)
    for place, value in changes:
        put(objects, place, value)
    report = look(objects, expected=EVERY)
    json.dumps([finding.as_json() for finding in report.findings])
    assert all(str(finding.ref) for finding in report.findings)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(["Node", "Pod"]), st.integers(0, 4), st.data())
def test_no_annotation_crashes_a_check(kind: str, number: int, data: st.DataObject) -> None:
    objects = healthy()
    target = objects[kind][number % len(objects[kind])]["metadata"]["annotations"]
    known = [
        "hami.io/node-nvidia-register",
        "hami.io/mutex.lock",
        "hami.io/vgpu-devices-allocated",
        "hami.io/vgpu-node",
    ]
    for key in data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=3)):
        target[key] = data.draw(TEXTS)
    look(objects)
