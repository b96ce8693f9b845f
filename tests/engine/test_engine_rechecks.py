"""A placement is looked at again before it is bound if anything moved that it rests on, and only then."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.engine.builders import allocation, asks, cards, engine_with, node, node_object, pod
from tests.policy.resources import policy

from vgpu_scheduler.engine import Engine
from vgpu_scheduler.engine.policy_report import PolicyTracker
from vgpu_scheduler.kube import Pod, ResourceQuota, decode_node

TERM = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
APART = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}
MEMORY = "limits.nvidia.com/gpumem"


def assumed() -> Engine:
    """Return an engine with two nodes and a pod that was decided and checked."""
    engine = engine_with([node("a", cards("a", 2)), node("b", cards("b", 2))])
    engine.observe_pod(pod("p"), 0.0)
    decision = engine.attempt(0.0)
    assert decision is not None
    assert decision.placement is not None
    assert engine.assumed.recheck("uid-p") == decision.placement
    return engine


def on_node(engine: Engine) -> str:
    held = engine.state.reservation("uid-p")
    assert held is not None
    return held.node


def looks(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how often a re-check looks at what the placement rests on."""
    number, look = 0, PolicyTracker.policy_unchanged_since_decision

    def counted(policies: PolicyTracker, about: Pod) -> bool:
        nonlocal number
        number += 1
        return look(policies, about)

    monkeypatch.setattr(PolicyTracker, "policy_unchanged_since_decision", counted)
    engine.assumed.recheck("uid-p")
    return number


def cordoned(engine: Engine) -> None:
    engine.observe_node(node(on_node(engine), cards(on_node(engine), 2), version=2, unschedulable=True), 1.0)


def unhealthy(engine: Engine) -> None:
    engine.observe_node(node(on_node(engine), cards(on_node(engine), 2, healthy=False), version=2), 1.0)


def pod_changed(engine: Engine) -> None:
    engine.observe_pod(pod("p", version=2, labels={"new": "label"}), 1.0)


def neighbour(engine: Engine) -> None:
    name = on_node(engine)
    notes = allocation(name, (f"{name}-gpu-0", 8000, 0))
    engine.observe_pod(pod("n", nodeName=name, annotations=notes, started=True), 1.0)


def policy_came(engine: Engine) -> None:
    engine.policy_tracker.observe(policy("p", {"devices": {"exclusive": True}}))


def quota_came(engine: Engine) -> None:
    engine.quota_limits.observe(ResourceQuota("default", "q", {MEMORY: "500"}, "u", 1))


def anti_affinity_came(engine: Engine) -> None:
    guard = pod("g", asks(0), scheduler="default-scheduler", nodeName="b", affinity=APART)
    engine.observe_pod(guard, 1.0)


def node_gone(engine: Engine) -> None:
    engine.remove_node(on_node(engine))


def nothing(engine: Engine) -> None:
    del engine


def lock_taken(engine: Engine) -> None:
    """Nothing that the placement rests on: it is the pod's own lock."""
    wire = node_object(on_node(engine), cards(on_node(engine), 2), version=2)
    wire["metadata"]["annotations"]["hami.io/mutex.lock"] = "2026-01-01T00:00:00Z,default,p"
    engine.observe_node(decode_node(wire), 1.0)


def elsewhere(engine: Engine) -> None:
    other = "b" if on_node(engine) == "a" else "a"
    engine.observe_node(node(other, cards(other, 1), version=2), 1.0)


@pytest.mark.parametrize(
    "move", [cordoned, unhealthy, pod_changed, neighbour, policy_came, quota_came, anti_affinity_came, node_gone]
)
def test_what_moves_in_between_is_seen(move: Callable[[Engine], None], monkeypatch: pytest.MonkeyPatch) -> None:
    engine = assumed()
    move(engine)
    assert looks(engine, monkeypatch) == 1


@pytest.mark.parametrize("move", [nothing, lock_taken, elsewhere])
def test_what_has_nothing_to_do_with_it_costs_no_second_look(
    move: Callable[[Engine], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = assumed()
    move(engine)
    assert looks(engine, monkeypatch) == 0


def test_in_a_limited_namespace_what_others_use_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = assumed()
    engine.quota_limits.observe(ResourceQuota("default", "q", {MEMORY: "3000"}, "u", 1))
    assert engine.assumed.recheck("uid-p") is not None
    engine.observe_pod(pod("other", nodeName="b", annotations=allocation("b", ("b-gpu-0", 2500, 0)), started=True), 1.0)
    assert looks(engine, monkeypatch) == 1
    assert engine.assumed.recheck("uid-p") is None


def test_what_was_given_back_is_not_taken_for_checked() -> None:
    engine = assumed()
    engine.unreserve("uid-p", 1.0)
    assert engine.assumed.recheck("uid-p") is None
    assert not engine.assumed.is_unmoved("uid-p")
    engine = assumed()
    engine.unbound_pods.leave_selection("uid-p", 2, 0.0)
    assert engine.assumed.recheck("uid-p") is None


@pytest.mark.parametrize(
    "broken", ["vgpu_scheduler.state.state.Usage.of_placement", "vgpu_scheduler.state.state.State.assume"]
)
def test_a_pod_that_cannot_be_moved_goes_on_to_hold_what_it_held(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = assumed()
    before = engine.state.ledger()

    def fails(*_: object) -> None:
        raise RuntimeError("an error of this program")

    with monkeypatch.context() as patched:
        patched.setattr(broken, fails)
        with pytest.raises(RuntimeError):
            engine.decide_elsewhere("uid-p", {on_node(engine)})
    assert engine.state.ledger() == before
    assert not engine.state.drift()
    assert engine.assumed.recheck("uid-p") is not None
    assert engine.decide_elsewhere("uid-p", {on_node(engine)}) is not None
