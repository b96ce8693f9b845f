"""Pods that count as alike get the same answer: of any two of them either both fit somewhere or none does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from typing import Any

import numpy as np
import pytest
from tests.engine.builders import asks, cards, engine_with, node, pod
from tests.engine.test_engine_interpod import away, foreign, near, term
from tests.engine.volume_builders import CLAIM, CLASS, LOCAL, VOLUME, local, take, using
from tests.kube.storage_objects import claim, storage_class

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.engine.equivalence import SchedulableClass
from vgpu_scheduler.kube import Pod

SPREAD = {
    "topologySpreadConstraints": [
        {
            "topologyKey": "host",
            "maxSkew": 1,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
    ]
}
SPECS: list[dict[str, Any]] = [{}, {}, away(term("web", "host")), near(term("db", "host")), SPREAD]
DISKS = [{"name": "d", "gcePersistentDisk": {"pdName": f"disk-{number}"}} for number in range(2)]


def world(rng: np.random.Generator) -> Engine:
    """Return two nodes with room for some, claims in all states, and pods of others that keep some away."""
    engine = engine_with([
        node(name, cards(name, int(rng.integers(0, 2))), labels={"host": name}) for name in ("a", "b")
    ])  # fmt: skip
    take(engine, CLASS, LOCAL, storage_class("made"))
    take(engine, VOLUME, *(local(f"v{number}", "ab"[number % 2]) for number in range(int(rng.integers(0, 3)))))
    for number in range(4):
        kind = ("local", "made", "local")[int(rng.integers(0, 3))]
        bound = f"v{number}" if rng.random() < 0.3 else ""
        modes = ["ReadWriteOncePod"] if rng.random() < 0.2 else ["ReadWriteOnce"]
        take(engine, CLAIM, claim(f"c{number}", "default", storage_class=kind, volume=bound, accessModes=modes))
    for number in range(int(rng.integers(0, 3))):
        more = (away(term("web", "host")), {}, {"volumes": [DISKS[0]]}, using("c0"))[int(rng.integers(0, 4))]
        app = ("web", "db")[int(rng.integers(0, 2))]
        engine.observe_pod(foreign(f"other-{number}", "ab"[int(rng.integers(0, 2))], app, **more), 0.0)
    return engine


def asking(rng: np.random.Generator, number: int) -> Pod:
    spec = dict(SPECS[int(rng.integers(0, len(SPECS)))])
    volumes = rng.random()
    if volumes < 0.4:
        spec |= using(f"c{int(rng.integers(0, 5))}")
    elif volumes < 0.5:
        spec |= {"volumes": [DISKS[int(rng.integers(0, 2))]]}
    labels = {"app": ("web", "db", "x")[int(rng.integers(0, 3))], "unique": str(number)}
    return pod(f"p{number}", asks(1, (1000, 8000)[int(rng.integers(0, 2))]), labels=labels, **spec)


def test_those_who_are_alike_get_the_same_answer() -> None:
    rng, compared = np.random.default_rng(1), 0
    for _ in range(150):
        engine = world(rng)
        groups: dict[Hashable, list[tuple[Pod, bool]]] = defaultdict(list)
        for number in range(25):
            asked = asking(rng, number)
            pod_class = engine.algorithm.classes.of(asked)
            assert isinstance(pod_class, SchedulableClass)
            groups[pod_class.equivalence(asked)].append((asked, engine.algorithm.decide(asked).placement is not None))
        for members in groups.values():
            compared += len(members) - 1
            assert len({fits for _, fits in members}) == 1, [each.name for each, _ in members]
    assert compared > 1000, "labels that nobody asks about must not set pods apart"


# Who is tried -------------------------------------------------------------------------------------------------------


def waiting(*specs: dict[str, Any], nodes: tuple[str, ...] = ("a", "b")) -> Engine:
    """Return full nodes, and pods that wait for a card."""
    engine = engine_with([node(name, cards(name, 1), labels={"host": name}) for name in nodes])
    for name in nodes:
        engine.observe_pod(pod(f"holder-{name}", asks(1, 8000), nodeSelector={"host": name}), 0.0)
        engine.attempt(0.0)
    take(engine, CLASS, LOCAL, storage_class("made"))
    for number, spec in enumerate(specs):
        engine.observe_pod(pod(f"p{number}", asks(1, 8000), labels={"unique": str(number)}, **spec), 0.0)
        assert engine.attempt(0.0) is not None
    return engine


def tried(engine: Engine, now: float) -> list[str]:
    names = []
    while (decision := engine.attempt(now)) is not None:
        names.append(decision.pod.removeprefix("default/"))
    return names


def test_pods_whose_volumes_are_elsewhere_are_tried_by_themselves() -> None:
    engine = waiting()
    for name, host in (("c0", "a"), ("c1", "b")):
        take(engine, CLAIM, claim(name, "default", storage_class="local", volume=f"v-{host}"))
        take(engine, VOLUME, local(f"v-{host}", host, bound_to=claim(name, "default")))
    for number in range(2):
        engine.observe_pod(pod(f"p{number}", asks(1, 8000), **using(f"c{number}")), 0.0)
        engine.attempt(0.0)
    engine.remove_pod("uid-holder-b", 20.0)
    assert "p1" in tried(engine, 20.0)
    held = engine.state.reservation("uid-p1")
    assert held is not None
    assert held.node == "b"


@pytest.mark.parametrize("with_claims", [False, True])
def test_labels_of_their_own_and_claims_that_any_volume_serves_do_not_set_pods_apart(*, with_claims: bool) -> None:
    count = 50
    engine = waiting()
    take(engine, CLAIM, *(claim(f"c{number}", "default", storage_class="made") for number in range(count)))
    engine.observe_pod(foreign("coredns", "a", "dns", **away(term("dns", "host"))), 0.0)
    for number in range(count):
        spec = using(f"c{number}") if with_claims else {}
        engine.observe_pod(pod(f"p{number}", asks(1, 8000), labels={"name": str(number)}, **spec), 0.0)
        engine.attempt(0.0)
    engine.remove_pod("uid-holder-a", 20.0)
    assert len(tried(engine, 20.0)) == 2


def test_a_pod_that_nobody_asks_about_wakes_nobody() -> None:
    engine = engine_with([node(name, cards(name, 1), labels={"host": name}) for name in ("a", "b")])
    for name in ("a", "b"):
        engine.observe_pod(foreign(f"web-{name}", name, "web"), 0.0)
    engine.observe_pod(pod("apart", asks(1), **away(term("web", "host"))), 0.0)
    assert engine.attempt(0.0) is not None
    engine.observe_pod(foreign("unrelated", "a", "other"), 20.0)
    engine.remove_pod("uid-unrelated", 20.0)
    assert not tried(engine, 20.0)
    engine.remove_pod("uid-web-a", 20.0)
    assert tried(engine, 20.0) == ["apart"]


def test_a_claim_of_one_pod_alone_is_free_when_the_node_of_its_pod_is_gone() -> None:
    engine = engine_with([node(name, cards(name, 1), labels={"host": name}) for name in ("a", "b")])
    take(engine, CLASS, storage_class("made"))
    take(engine, CLAIM, claim("c0", "default", volume="v", accessModes=["ReadWriteOncePod"]))
    take(engine, VOLUME, local("v", "b", bound_to=claim("c0", "default")))
    engine.observe_pod(foreign("holder", "a", **using("c0")), 0.0)
    engine.observe_pod(pod("waits", asks(1), **using("c0")), 0.0)
    assert engine.attempt(0.0) is not None
    assert engine.attempt(20.0) is None
    engine.remove_node("a")
    assert tried(engine, 20.0) == ["waits"]
