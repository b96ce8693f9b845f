"""What is answered is what the operator decides: both are made from the same settings and see the same objects."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pytest
from tests.engine.builders import Obj, allocation, asks, cards, node_object, pod_object
from tests.fuzz.worlds import KINDS
from tests.seeds import seeds
from tests.state.test_state_selecting import selecting

from vgpu_scheduler.intake.listing import decode_as
from vgpu_scheduler.kube import SELECTING_KINDS
from vgpu_scheduler.model import Decision
from vgpu_scheduler.reading import ClusterView, make_world, settings_from_file
from vgpu_scheduler.runtime.operator import Operator
from vgpu_scheduler.settings import Settings
from vgpu_scheduler.whatif import World, simulate

HAMI = "hami-scheduler"
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
WEB = {"app": "web"}

ConditionRemedies = tuple[str, str, Any, str, float]
"""Outcome, node, cards, message and score."""


def operators(settings: Settings, objects: Iterable[Obj]) -> dict[str, ConditionRemedies]:
    """Return what the operator's engine decides about each pod that waits, the first time."""
    engine = Operator(settings).engine
    for obj in objects:
        if obj["kind"] in engine.kinds:
            engine.kinds[obj["kind"]].observe(decode_as(KINDS[obj["kind"]], json.dumps(obj).encode()), 0.0)
    found: dict[str, ConditionRemedies] = {}
    while (decision := engine.attempt(0.0)) is not None:
        found.setdefault(decision.pod, told(decision))
    return found


def world_of(overrides: Mapping[str, Any], objects: Iterable[Obj]) -> World:
    return make_world(ClusterView(list(objects), {}, settings_from_file(None, overrides), live=True))


def answered(overrides: Mapping[str, Any], objects: Iterable[Obj]) -> dict[str, ConditionRemedies]:
    """Return what is answered about each pod that waits for this scheduler."""
    world, names = world_of(overrides, objects), settings_of(overrides).scheduler_names
    waiting = [pod for pod in world.pending.values() if pod.scheduler_name in names]
    answers = simulate(world, waiting, as_they_are=True, explained=False)
    return {answer.pod.key: told(answer.decision) for answer in answers}


def settings_of(overrides: Mapping[str, Any]) -> Settings:
    return settings_from_file(None, overrides).settings


def told(decision: Decision) -> ConditionRemedies:
    placed = decision.placement
    return (
        decision.outcome.value,
        placed.node if placed else "",
        placed.containers if placed else (),
        decision.message,
        decision.score,
    )


def of_kind(kind: str, obj: Obj) -> Obj:
    return {"kind": kind, **obj}


def nominated(obj: Obj, node: str) -> Obj:
    return {**obj, "status": {**obj["status"], "nominatedNodeName": node}}


def random_settings(rng: np.random.Generator) -> dict[str, Any]:
    """Return some settings that are not the defaults."""
    choices: dict[str, Any] = {
        "scheduler_names": ["ours", "ours-too"],
        "coexist_with": [HAMI],
        "node_policy": "spread",
        "device_policy": "binpack",
        "profile": "HAMi210",
        "strict_annotations": True,
        "managed_nodes": "pool=ours",
        "exclusive_when_unspecified": True,
        "nvidia": {"default_memory": 3000},
        "scoring": {"system_spread": True, "device_weight": int(rng.integers(0, 3))},
        "bind": {"rejected_node_wait": 0},
    }
    return {name: value for name, value in choices.items() if rng.random() < 0.5}


def random_cluster(rng: np.random.Generator, ours: str) -> list[Obj]:
    """Return nodes, Services and controllers, and pods: bound, announced, nominated, and others that wait."""
    names = [f"n{number}" for number in range(rng.integers(2, 5))]
    objects = [
        of_kind("Node", node_object(
            name, cards(name, 2), allocatable={"cpu": "8"},
            labels={HOST: name, ZONE: f"z{number % 2}", "pool": "ours" if rng.random() < 0.8 else "hami"},
        ))
        for number, name in enumerate(names)
    ]  # fmt: skip
    chosen = [kind for kind in SELECTING_KINDS if rng.random() < 0.6]
    objects += [of_kind(kind, selecting(kind, "web", {"matchLabels": WEB})) for kind in chosen]
    for number in range(rng.integers(4, 12)):
        name, node = f"p{number}", str(rng.choice(names))
        memory, priority = int(rng.choice([1000, 3000, 5000, 7000])), int(rng.integers(0, 3))
        held = allocation(node, (f"{node}-gpu-{rng.integers(2)}", memory, 0))
        more: dict[str, Any] = {"labels": WEB if rng.random() < 0.7 else {}, "priority": priority}
        wants = asks(gpumem=memory, cpu=str(rng.integers(1, 4)))
        match rng.integers(6):
            case 0:
                made = pod_object(name, wants, annotations=held, scheduler=HAMI, **more)
            case 1:
                scheduler = str(rng.choice([ours, "default-scheduler"]))
                made = nominated(pod_object(name, wants, scheduler=scheduler, **more), node)
            case 2:
                made = pod_object(name, wants, annotations=held, nodeName=node, started=True, **more)
            case _:
                note = {"hami.io/node-scheduler-policy": "sprad"} if rng.random() < 0.2 else {}
                whole = {"limits": {"nvidia.com/gpu": "1"}}
                made = pod_object(
                    name, whole if rng.random() < 0.2 else wants, annotations=note, scheduler=ours, **more
                )
        objects.append(of_kind("Pod", made))
    return objects


@pytest.mark.parametrize("part", seeds(1, 3))
def test_random_clusters_and_settings_get_the_same_decisions(part: int) -> None:
    rng, seen = np.random.default_rng(20 + part), Counter[str]()
    for number in range(50):
        overrides = random_settings(rng)
        objects = random_cluster(rng, overrides.get("scheduler_names", ["vgpu-scheduler"])[0])
        decided = operators(settings_of(overrides), objects)
        assert answered(overrides, objects) == decided, f"cluster {number}, {overrides}"
        seen.update(outcome for outcome, *_ in decided.values())
    assert min(seen["placed"], seen["unschedulable"], seen["refused"]) > 5, seen


def test_what_another_scheduler_announced_is_not_free() -> None:
    taken = pod_object("theirs", asks(gpumem=7000), annotations=allocation("n", ("n-gpu-0", 7000, 0)), scheduler=HAMI)
    objects = [
        of_kind("Node", node_object("n", cards("n", 1))),
        of_kind("Pod", taken),
        of_kind("Pod", pod_object("p", asks(gpumem=3000))),
    ]
    (remedies_from_condition,) = answered({"coexist_with": [HAMI]}, objects).values()
    assert remedies_from_condition[0] == "unschedulable"
    assert remedies_from_condition[3] == "0/1 nodes are available: 1 CardInsufficientMemory."
    assert answered({}, objects)["default/p"][0] == "placed", "nobody said that they announce"


@pytest.mark.parametrize("scheduler", ["default-scheduler", "vgpu-scheduler"])
def test_room_that_is_kept_for_a_nominated_pod_is_not_free(scheduler: str) -> None:
    first = pod_object("first", asks(0, cpu="12"), scheduler=scheduler, priority=10)
    last = {"nodeSelector": {"is": "no"}} if scheduler == "vgpu-scheduler" else {}
    first["spec"].update(last)  # so that it waits on when it was tried
    objects = [
        of_kind("Node", node_object("n", cards("n", 1))),
        of_kind("Pod", nominated(first, "n")),
        of_kind("Pod", pod_object("p", asks(0, cpu="8"))),
    ]
    decided = answered({}, objects)
    assert decided["default/p"][0] == operators(settings_of({}), objects)["default/p"][0] == "unschedulable"


@pytest.mark.parametrize("kind", SELECTING_KINDS)
def test_pods_of_a_service_are_spread_where_the_operator_does(kind: str) -> None:
    owner = [{"kind": kind, "name": "web", "uid": f"uid-{kind}-web", "controller": True}]
    waits = pod_object("p", asks(), labels=WEB)
    waits["metadata"]["ownerReferences"] = owner
    objects = [
        *(of_kind("Node", node_object(name, cards(name, 2), labels={HOST: name, ZONE: name})) for name in "ab"),
        of_kind(kind, selecting(kind, "web", {"matchLabels": WEB})),
        *(
            of_kind("Pod", pod_object(f"w{number}", asks(), labels=WEB, nodeName="b", started=True,
                                      annotations=allocation("b", ("b-gpu-0", 1000, 0))))
            for number in range(3)
        ),
        of_kind("Pod", waits),
    ]  # fmt: skip
    assert answered({}, objects)["default/p"][1] == "b"
    assert answered({"scoring": {"system_spread": True}}, objects)["default/p"][1] == "a"


def test_what_is_ignored_is_said_only_where_it_has_no_effect() -> None:
    service = [of_kind("Service", selecting("Service", "web", {"matchLabels": WEB}))]
    assert world_of({}, service).ignored == {"Service": 1}
    assert world_of({"scoring": {"system_spread": True}}, service).ignored == {}
