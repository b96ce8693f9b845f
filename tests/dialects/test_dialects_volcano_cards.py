"""The Volcano dialect: which cards a pod gets, what it then holds, and that what is written is what is held."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.dialects.volcano_objects import (
    A10,
    ALLOCATED,
    DIALECT,
    NODE,
    Obj,
    container,
    node,
    pod,
    used_cards,
)

from vgpu_scheduler.allocators import CardChoice, HamiAllocator, NamedCards, ShareOrder, Strategy
from vgpu_scheduler.dialects import ClaimError, stamped
from vgpu_scheduler.dialects.volcano import decode_assignments
from vgpu_scheduler.dialects.volcano.pods import volcano_order
from vgpu_scheduler.dialects.volcano.rules import parse_rules
from vgpu_scheduler.model import NO_USAGE, Placement, claims_devices
from vgpu_scheduler.state import State

# Rules and orders --------------------------------------------------------------------------------------------------

T4, A100 = "NVIDIA-Tesla T4", "NVIDIA-NVIDIA A100-SXM4-80GB"


@pytest.mark.parametrize(
    ("annotations", "t4", "a100"),
    [
        ({}, True, True),
        ({"nvidia.com/use-gputype": "t4,A10"}, True, True),
        ({"nvidia.com/use-gputype": " T4"}, True, False),
        ({"nvidia.com/use-gputype": " A100 "}, False, False),  # blanks count
        ({"nvidia.com/nouse-gputype": "tesla"}, False, True),
        ({"nvidia.com/use-gputype": "T4", "nvidia.com/nouse-gputype": "T4"}, True, False),  # use silences nouse
        ({"volcano.sh/vgpu-mode": "hami-core"}, True, True),
        ({"volcano.sh/vgpu-mode": ""}, False, False),
        ({"volcano.sh/vgpu-mode": "mig"}, False, False),
    ],
)
def test_models_and_modes(annotations: dict[str, str], *, t4: bool, a100: bool) -> None:
    rules = parse_rules(annotations)
    assert rules.allows_model("NVIDIA", T4, "hami-core") is t4
    assert rules.allows_model("NVIDIA", A100, "hami-core") is a100
    assert not rules.allows_model("NVIDIA", A100, "mig")
    assert not rules.allows_model("NVIDIA", "AMD-MI300", "hami-core")


def test_uuids() -> None:
    rules = parse_rules({"volcano.sh/vgpu-use-gpuuuid": " a , b,", "volcano.sh/vgpu-nouse-gpuuuid": "b"})
    assert rules.named == {"NVIDIA": NamedCards(frozenset("ab"), frozenset("b"))}
    assert parse_rules({"volcano.sh/vgpu-use-gpuuuid": " ,"}).named == {}


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({"volcano.sh/vgpu-use-gpuuuid": "GPU-1,GPU-0"}, {"GPU-0", "GPU-1"}),
        ({"volcano.sh/vgpu-nouse-gpuuuid": "GPU-1"}, {"GPU-0", "GPU-2"}),
        ({"volcano.sh/vgpu-use-gpuuuid": "GPU-1,GPU-0", "volcano.sh/vgpu-nouse-gpuuuid": "GPU-0"}, {"GPU-1"}),
    ],
)
def test_only_cards_that_may_be_used_are_given(annotations: dict[str, str], expected: set[str]) -> None:
    claims = DIALECT.claims.read(pod(container("c", f"n={len(expected)} mem=10")))
    placed = DIALECT.claims.allocator(annotations, claims, CardChoice()).place(used_cards().devices, 0)
    assert placed is not None
    assert {assignment.uuid for assignment in placed[0]} == expected


def test_what_cannot_be_followed_is_refused_by_name() -> None:
    claims = DIALECT.claims.read(pod(container("c", "n=1")))
    with pytest.raises(ClaimError, match=r"devices\.numa"):
        DIALECT.claims.allocator({}, claims, CardChoice(numa_bind=True))


@pytest.mark.parametrize(("value", "odd"), [("spread", False), ("binpack", True), ("Spread", True), ("", True)])
def test_a_policy_of_the_group_that_is_none_is_said(value: str, *, odd: bool) -> None:
    annotations = {"volcano.sh/vgpu-podgroup-policy": value}
    found = list(DIALECT.claims.suspicious_annotations(annotations, DIALECT.claims.read(pod(container("c", "n=1")))))
    assert bool(found) is odd
    assert (DIALECT.claims.apart_from(annotations) is None) is odd


def picks(policy: str, limits: str, state: State | None = None, **annotations: str) -> list[str] | None:
    claims = DIALECT.claims.read(pod(container("c", limits)))
    allocator = DIALECT.claims.allocator(annotations, claims, CardChoice(policy))
    assert isinstance(allocator, HamiAllocator)
    placed = allocator.place((state or used_cards()).devices, 0)
    return None if placed is None else [assignment.uuid for assignment in placed[0]]


@pytest.mark.parametrize(
    ("policy", "limits", "expected"),
    [
        ("binpack", "n=1 mem=4000 cores=20", ["GPU-2"]),  # V19
        ("spread", "n=1 mem=4000 cores=20", ["GPU-1"]),  # V20
        ("", "n=1 mem=4000 cores=20", ["GPU-2"]),  # V21
        ("mutex", "n=1 mem=4000 cores=20", ["GPU-1"]),
        ("mutex", "n=2 mem=10", None),
        ("binpack", "n=2 mem=4000", ["GPU-2", "GPU-0"]),  # V22
        ("binpack", "n=1 mem=10000", ["GPU-0"]),  # V23
        ("binpack", "n=1 mem=1000 cores=100", ["GPU-1"]),  # V24
        ("bestFit", "n=1 mem=10000", ["GPU-0"]),
        ("spread", "n=3 mem=100", ["GPU-1", "GPU-0", "GPU-2"]),
        ("other", "n=3 mem=100", ["GPU-2", "GPU-1", "GPU-0"]),
        ("binpack", "n=4", None),  # V32
    ],
)
def test_orders(policy: str, limits: str, expected: list[str] | None) -> None:
    assert picks(policy, limits) == expected


@pytest.mark.parametrize(
    ("choice", "named"),
    [
        (CardChoice("numa"), "the card order 'numa'"),
        (CardChoice("binpack,numa"), "the card order 'binpack,numa'"),
        (CardChoice("topology-aware"), "the card order 'topology-aware'"),
        (CardChoice(weights=(1.0, 2.0, 1.0)), "devices.weights"),
        (CardChoice(device_share_order=ShareOrder(Strategy.LEAST_ALLOCATED, ())), "Koordinator's card score"),
    ],
)
def test_orders_that_have_no_meaning_under_volcano_are_left_out(choice: CardChoice, named: str) -> None:
    assert DIALECT.claims.known_choice(choice) == (CardChoice(), named)
    bound = replace(choice, numa_bind=True)
    assert DIALECT.claims.known_choice(bound)[0].numa_bind, "what restricts stays"


def test_the_orders_of_volcano_are_known() -> None:
    for word in ("binpack", "spread", "mutex", "bestFit", "other"):
        assert DIALECT.claims.known_choice(CardChoice(word)) == (CardChoice(word), "")


def test_equal_cards_go_by_the_lowest_index() -> None:
    state, known = State({"volcano": 3}), node(A10.format(0) + A10.format(1))
    state.observe_node(known, {DIALECT.name: DIALECT.inventory.devices(known)})
    assert picks("binpack", "n=2 mem=10", state) == picks("spread", "n=2 mem=10", state) == ["GPU-0", "GPU-1"]
    assert volcano_order("anything") == volcano_order("")


def test_a_percentage_is_of_the_card_it_falls_on() -> None:
    """A third of 24576 MiB, cut (V30)."""
    claims = DIALECT.claims.read(pod(container("c", "n=1 pct=33")))
    placed = DIALECT.claims.allocator({}, claims, CardChoice("spread")).place(used_cards().devices, 0)
    assert placed is not None
    assert placed[0][0].amounts == (1, 8110, 0)


def test_an_unhealthy_card_is_given_to_nobody() -> None:
    assert picks("spread", "n=1 mem=10", used_cards("GPU-1")) == ["GPU-0"]
    assert picks("spread", "n=3 mem=10", used_cards("GPU-1")) is None


# Usage -------------------------------------------------------------------------------------------------------------

READABLE = {NODE: "node", ALLOCATED: "GPU-0,NVIDIA,1000,10:"}
ONE = container("c", "n=1 mem=1000 cores=10")


def test_who_counts() -> None:
    charged = {"GPU-0": (1, 1000, 10)}
    assert DIALECT.allocation.usage(pod(ONE, annotations=READABLE, bound="node")).charges == charged
    assert DIALECT.allocation.usage(pod(ONE, annotations=READABLE, bound="node", started=False)).charges == charged
    assert DIALECT.allocation.usage(pod(ONE, annotations=READABLE)) == NO_USAGE
    assert DIALECT.allocation.usage(pod(ONE, annotations=READABLE, bound="node", phase="Succeeded")) == NO_USAGE
    assert DIALECT.allocation.usage(pod(container("c"), annotations=READABLE, bound="node")) == NO_USAGE
    assert DIALECT.allocation.usage(pod(container("c", "n=0"), annotations=READABLE, bound="node")) == NO_USAGE


@pytest.mark.parametrize(
    ("annotations", "problem"),
    [
        ({}, f"{ALLOCATED} is missing"),
        ({**READABLE, NODE: "other"}, f"{NODE} does not name node node"),
        ({**READABLE, ALLOCATED: "GPU-0,NVIDIA,1000"}, "fewer than 4 fields"),
        ({**READABLE, ALLOCATED: "GPU-0,NVIDIA,-5,10:"}, "negative"),
        ({**READABLE, ALLOCATED: ""}, "does not match"),
        ({**READABLE, ALLOCATED: "GPU-0,NVIDIA,1,1:;GPU-1,NVIDIA,1,1:"}, "does not match"),
    ],
)
def test_a_started_pod_that_cannot_be_read_may_sit_on_any_card(annotations: Obj, problem: str) -> None:
    usage = DIALECT.allocation.usage(pod(ONE, annotations=annotations, bound="node"))
    assert problem in usage.problem
    ((claim,),) = (entry.claims for entry in usage.unreadable)
    assert (claim.count, claim.amounts) == (1, (1, 1000, 10))
    assert DIALECT.allocation.usage(pod(ONE, annotations=annotations, bound="node", started=False)) == NO_USAGE


def test_where_even_the_claim_cannot_be_read_it_is_a_whole_card() -> None:
    usage = DIALECT.allocation.usage(pod(container("c", "n=1 mem=1500m"), container("d"), bound="node"))
    first, second = (entry.claims for entry in usage.unreadable)
    assert first[0].on((10, 24576, 100)) == (1, 24576, 100)
    assert second == ()


def test_entries_of_volcano_are_those_of_the_containers_that_claim() -> None:
    value = "GPU-0,NVIDIA,1000,10:;GPU-0,NVIDIA,500,5:GPU-1[0-2],NVIDIA,500,5:"
    both = (container("a"), ONE, container("b"), container("d", "n=2 mem=500 cores=5"))
    usage = DIALECT.allocation.usage(pod(*both, annotations={**READABLE, ALLOCATED: value}, bound="node"))
    assert usage.charges == {"GPU-0": (2, 1500, 15), "GPU-1": (1, 500, 5)}


# What is written ---------------------------------------------------------------------------------------------------


def test_annotations() -> None:
    claims = DIALECT.claims.read(pod(container("a"), container("b", "n=2 mem=1000 cores=10"), container("c"), ONE))
    placed = DIALECT.claims.allocator({}, claims, CardChoice("spread")).place(used_cards().devices, 0)
    assert placed is not None
    value = ";GPU-1,NVIDIA,1000,10:GPU-0,NVIDIA,1000,10:;;GPU-1,NVIDIA,1000,10:"
    assert DIALECT.allocation.annotations(Placement("node", placed), 1700000000) == {
        NODE: "node",
        "volcano.sh/vgpu-time": "1700000000",
        ALLOCATED: value,
        "volcano.sh/devices-to-allocate": value,
        "volcano.sh/bind-phase": "allocating",
        "volcano.sh/bind-time": "1700000000",
    }
    assert DIALECT.allocation.annotations(Placement("node", ((), ())), 1) == {}


@pytest.mark.parametrize(("value", "nothing"), [("", True), (";;", True), (";GPU-1,NVIDIA,1,1:", False), (None, False)])
def test_what_the_plugin_has_left_to_do(value: str | None, *, nothing: bool) -> None:
    annotations = {} if value is None else {"volcano.sh/devices-to-allocate": value}
    assert DIALECT.node_side.nothing_left(annotations) is nothing
    assert DIALECT.node_side.has_answered({"volcano.sh/bind-phase": "success"})
    assert not DIALECT.node_side.has_answered({"volcano.sh/bind-phase": "allocating"})


@pytest.mark.parametrize("seed", range(3))
def test_what_is_written_decodes_to_what_is_held(seed: int) -> None:
    """Pods one after the other: the ledger of what was decided equals that of what the pods then say."""
    rng = np.random.default_rng(seed)
    state = State({"volcano": 3})
    cards = node("".join(A10.format(i) for i in range(8)))
    state.observe_node(cards, {DIALECT.name: DIALECT.inventory.devices(cards)})
    placed = 0
    for number in range(60):
        containers = [container(f"c{i}", random_limits(rng)) for i in range(int(rng.integers(1, 4)))]
        waiting = pod(*containers, uid=f"uid-{number}")
        claims = DIALECT.claims.read(waiting)
        if not claims_devices(claims):
            continue
        policy = ("binpack", "spread", "", "bestFit")[int(rng.integers(4))]
        found = DIALECT.claims.allocator({}, claims, CardChoice(policy)).place(state.devices, 0)
        if found is None:
            continue
        placed += 1
        placement = Placement("node", found, DIALECT.name)
        state.observe_pod(waiting, {})
        state.assume(waiting.uid, placement, claims)
        before = state.ledger()
        written = DIALECT.allocation.annotations(placement, 1)
        assert stamped(DIALECT.allocation.annotations(placement, 0), 1) == written
        assert len(decode_assignments(written[ALLOCATED])) == len(containers)
        bound = pod(*containers, uid=waiting.uid, annotations=written, bound="node")
        state.observe_pod(bound, {DIALECT.name: DIALECT.allocation.usage(bound)})
        assert state.ledger() == before
        assert not state.drift()
        assert not state.over_capacity()
        if rng.random() < 0.4:
            state.remove_pod(waiting.uid)
    assert placed > 15


def random_limits(rng: np.random.Generator) -> str:
    if rng.random() < 0.3:
        return ""
    amounts = ("", " mem=500", " mem=3000", " pct=10", " pct=33 mem=7", " mem=900 cores=7", " pct=5 cores=30")
    return f"n={int(rng.integers(0, 4))}" + amounts[int(rng.integers(len(amounts)))]
