"""Whatever an object looks like, it is read or refused by name, and taken in without ending anything."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterator
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, example, given, settings
from tests.engine.builders import allocation, cards, make_engine, node_object, pod_object

from vgpu_scheduler.engine import ObservationSignals, Problem
from vgpu_scheduler.intake import (
    BUDGETS,
    CLUSTER_POLICIES,
    NAMESPACES,
    NODES,
    PODS,
    POLICIES,
    QUOTAS,
    Kind,
    Listing,
    Observer,
)
from vgpu_scheduler.intake.listing import decode_as
from vgpu_scheduler.kube import DecodeError

META = {"name": "x", "namespace": "default", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"}}
WHOLE: dict[str, tuple[Kind[Any], dict[str, Any]]] = {
    "waiting pod": (PODS, pod_object("p", annotations={"nvidia.com/use-gputype": "T4"}, nodeSelector={"a": "b"})),
    "bound pod": (
        PODS,
        pod_object(
            "p",
            annotations={**allocation("n", ("n-gpu-0", 1, 1)), "hami.io/bind-phase": "allocating"},
            nodeName="n",
            started=True,
            initContainers=[{"name": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
            tolerations=[{"key": "a", "operator": "Exists"}],
            volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        ),
    ),
    "node": (
        NODES,
        node_object(
            "n",
            cards("n", 2),
            annotations={"hami.io/mutex.lock": "2026-01-01T00:00:00Z,default,p", "hami.io/device-cordon": "n-gpu-0"},
            taints=[{"key": "a", "effect": "NoSchedule"}],
        ),
    ),
    "namespace": (NAMESPACES, {"metadata": META}),
    "quota": (QUOTAS, {"metadata": META, "spec": {"hard": {"limits.nvidia.com/gpumem": "10k"}}}),
    "budget": (BUDGETS, {"metadata": META, "spec": {"selector": {}}, "status": {"disruptedPods": {"p": None}}}),
    "policy": (POLICIES, {"metadata": META, "spec": {"nodes": {"policy": "spread"}, "selector": {"matchLabels": {}}}}),
    "cluster policy": (CLUSTER_POLICIES, {"metadata": META, "spec": {"limits": {"devicesPerPod": 2}, "priority": 3}}),
}

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from(
        ["", ";", ":", ",", "1e400", "-1", "9" * 40, "[]", "{}", "2026-01-01T00:00:00Z", "\x00", "é" * 300]
    ),
)
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(max_size=6) | st.sampled_from(["name", "uid", "metadata", "spec"]), inner, max_size=3),
    ),
    max_leaves=6,
)


def places(found: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of everything in a JSON value."""
    yield path
    inside = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    for key, value in inside:
        yield from places(value, (*path, key))


def with_another(found: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Return a JSON value with something else at a path."""
    if not path:
        return value
    changed = copy.deepcopy(found)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return changed


def read_or_refuse(kind: Kind[Any], obj: Any) -> tuple[Any, str]:
    """Return an object and why it cannot be read; one of both."""
    try:
        return decode_as(kind, obj), ""
    except DecodeError as error:
        return None, str(error)


def observe_objects(kind: Kind[Any], *objects: Any) -> list[Problem]:
    """Observe objects as dicts and as JSON, relist with them, have pods decided; return the problems."""
    problems: list[Problem] = []
    engine = make_engine(preemption=True)
    observer = Observer(engine, lambda: 0.0, ObservationSignals(), problems.append)
    listing: Listing[Any] = Listing(version=9)
    for whole in ("node", "bound pod"):
        observer.observe(WHOLE[whole][0], decode_as(*WHOLE[whole]))
    for obj in objects:
        for form in (obj, json.dumps(obj).encode()):
            found, refusal = read_or_refuse(kind, form)
            assert "internal error" not in refusal
            if refusal:
                continue
            observer.observe(kind, found)
            listing.objects.append(found)
            observer.deleted_by_watch(kind, found)
            observer.observe(kind, found)
    asyncio.run(observer.relist(kind, listing))
    while (decision := engine.attempt(0.0)) is not None:
        assert decision.error is None, decision.error
    return problems


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(sorted(WHOLE)), st.data())
def test_objects_of_which_a_part_is_anything(which: str, data: st.DataObject) -> None:
    kind, whole = WHOLE[which]
    changed = whole
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(list(places(changed))))
        changed = with_another(changed, path, data.draw(anything))
        if not isinstance(changed, dict):
            break
    for problem in observe_objects(kind, changed, whole):
        assert "internal error" not in problem.message, (problem, changed)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from([PODS, NODES, NAMESPACES, QUOTAS, BUDGETS, POLICIES, CLUSTER_POLICIES]), anything)
@example(PODS, None)
@example(POLICIES, [])
@example(NODES, {"metadata": {"name": "n", "resourceVersion": "9" * 40}})
def test_anything_at_all(kind: Kind[Any], obj: Any) -> None:
    for problem in observe_objects(kind, obj):
        assert "internal error" not in problem.message, (problem, obj)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(["waiting pod", "bound pod", "node"]), st.data())
def test_annotations_of_which_a_part_is_anything(which: str, data: st.DataObject) -> None:
    """Whoever may create pods may write annotations, and devices plugins have their faults, too."""
    kind, whole = WHOLE[which]
    changed = copy.deepcopy(whole)
    notes = changed["metadata"]["annotations"]
    for name in data.draw(st.lists(st.sampled_from(sorted(notes)), min_size=1, max_size=2)):
        text = notes[name]
        at, until = sorted(data.draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
        notes[name] = (
            text[:at] + data.draw(st.text(max_size=5) | st.sampled_from([";", ",", ":", "0" * 30])) + text[until:]
        )
    for problem in observe_objects(kind, changed):
        assert "internal error" not in problem.message, (problem, notes)
