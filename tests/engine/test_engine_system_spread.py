"""The system's spread constraints in decisions: for whom they hold, and that they cost nothing where they are off."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from tests.engine.builders import OURS, cards, node, pod
from tests.engine.test_engine_interpod import decide, foreign, placed
from tests.state.test_state_selecting import selecting

from vgpu_scheduler.dialects.hami import hami_dialect
from vgpu_scheduler.engine import Engine, EngineOptions
from vgpu_scheduler.kube import SELECTING_KINDS, decode_selecting
from vgpu_scheduler.policy import PolicyDefaults

WEB = {"app": "web"}
SELECTED = {"matchLabels": WEB}


def place(engine: Engine, name: str, owner: str = "", **more: Any) -> str:
    """Decide a pod of a controller; return its node."""
    asked = structs.replace(pod(name, **more), owner=f"uid-{owner}-web" if owner else "")
    engine.observe_pod(asked, 0.0)
    decision = decide(engine)
    assert decision.placement is not None
    return decision.placement.node


def two(*kinds: str) -> Engine:
    """Return an engine with two nodes, all of web on one of them; objects of some kinds select web."""
    engine = Engine(EngineOptions([hami_dialect()], PolicyDefaults(), [OURS], system_spread=True))
    for name in "ab":
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": name}
        engine.observe_node(node(name, cards(name, 2), labels=labels), 0.0)
    for kind in kinds:
        engine.kinds[kind].observe(decode_selecting(kind, selecting(kind, "web", SELECTED)), 0.0)
    assert placed(engine, "first", nodeSelector={"kubernetes.io/hostname": "b"}) == "b", "binpack goes on there"
    for number in range(3):
        engine.observe_pod(foreign(f"web-{number}", "b", "web"), 0.0)
    return engine


def test_pods_that_nobody_selects_are_packed() -> None:
    assert placed(two(), "p", labels=WEB) == "b"
    assert placed(two("Service"), "p", labels={"app": "db"}) == "b"
    assert placed(two("StatefulSet"), "p", labels=WEB) == "b", "it is not the pod's controller"
    assert placed(two("Service"), "p", labels=WEB, namespace="other") == "b"


@pytest.mark.parametrize("kind", SELECTING_KINDS)
def test_pods_that_are_selected_are_spread(kind: str) -> None:
    assert place(two(kind), "p", kind, labels=WEB) == "a"


@pytest.mark.parametrize("when", ["DoNotSchedule", "ScheduleAnyway"])
def test_a_constraint_of_its_own_stands_for_all(when: str) -> None:
    rule: dict[str, Any] = {"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 9, "whenUnsatisfiable": when}
    assert placed(two("Service"), "p", labels=WEB, topologySpreadConstraints=[rule]) == "b"


def test_what_is_selected_may_change() -> None:
    engine = two("Service", "StatefulSet")
    service = selecting("Service", "web", SELECTED, version=9)
    stateful = selecting("StatefulSet", "web", SELECTED, version=9)
    engine.kinds["Service"].remove(decode_selecting("Service", service), 9, 0.0)
    assert place(engine, "one", "StatefulSet", labels=WEB) == "a", "its controller selects it, too"
    engine.remove_pod("uid-one", 0.0)
    engine.kinds["StatefulSet"].remove(decode_selecting("StatefulSet", stateful), 9, 0.0)
    assert place(engine, "two", "StatefulSet", labels=WEB) == "b"


def test_where_it_is_off_nobody_is_asked() -> None:
    engine = Engine(EngineOptions([hami_dialect()], PolicyDefaults(), [OURS]))
    assert not engine.kinds.keys() & set(SELECTING_KINDS)
