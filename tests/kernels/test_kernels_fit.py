"""The fit kernel against its twin: many random worlds, and a few hundred that shrink."""

import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.kernels.interpreted import run_interpreted
from tests.kernels.worlds import MODES, POLICIES, TYPES, VENDORS, check, random_world
from tests.naive.hami_quota import Quota
from tests.naive.hami_values import UNSET, Ask, Card, Container, Rules, Wish
from tests.seeds import seeds

from vgpu_scheduler.model import CardReason

WORLDS = 1500
OF_SINGLE_MAKERS = {
    CardReason.CardNotFoundCustomFilterRule,
    CardReason.ModeNotFit,
    CardReason.CardUnhealthy,
    CardReason.CardAppClassMismatch,
    CardReason.CardQosPolicyMismatch,
    CardReason.CardLabelMismatch,
    CardReason.CardVirtualFunctionsExhausted,
    CardReason.CardPartitionNotFit,
}
NOT_YET = {CardReason.NodeUnregistered, CardReason.CardHeldByPeer} | OF_SINGLE_MAKERS
"""The others that kernels do not give: allocators count them."""


@pytest.mark.long
@pytest.mark.parametrize("seed", seeds(1, 4))
def test_many_worlds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    outcomes: Counter[str] = Counter()
    for _ in range(WORLDS):
        outcomes += check(*random_world(rng))
    assert outcomes["fits"] > WORLDS / 2
    assert {reason.text for reason in CardReason if reason not in NOT_YET} <= outcomes.keys()


@st.composite
def cards(draw: st.DrawFn, uuid: str, position: int) -> Card:
    card = Card(
        uuid=uuid,
        vendor=draw(st.sampled_from(VENDORS)),
        type=draw(st.sampled_from(TYPES)),
        position=position,
        index=draw(st.integers(0, 3)),
        numa=draw(st.integers(-1, 2)),
        mode=draw(st.sampled_from(MODES)),
        healthy=draw(st.booleans()),
        count=draw(st.integers(0, 3)),
        memory=draw(st.sampled_from([0, 1, 1000, 16384, 2**31 - 1])),
        cores=draw(st.sampled_from([0, 99, 100, 200])),
        cordoned=draw(st.booleans()),
    )
    card.used = draw(st.integers(0, 4))
    card.used_memory = draw(st.integers(0, card.memory + 1))
    card.used_cores = draw(st.integers(0, card.cores + 1))
    return card


@st.composite
def nodes(draw: st.DrawFn) -> list[list[Card]]:
    lengths = draw(st.lists(st.integers(0, 5), min_size=1, max_size=3))
    return [[draw(cards(f"{node}/{i}", i)) for i in range(length)] for node, length in enumerate(lengths)]


asks = st.builds(
    Ask,
    st.sampled_from(VENDORS),
    st.integers(1, 4),
    st.integers(0, 3) | st.sampled_from([1000, 16384, 2**31 - 1]),
    st.integers(1, 100) | st.just(UNSET),
    st.integers(0, 101) | st.just(2**40),
)


limits = st.none() | st.integers(0, 6) | st.sampled_from([1000, 3000, 100000, 2**40])
quotas = st.builds(Quota, limits, limits, st.integers(0, 3), st.integers(0, 3))


@st.composite
def wishes(draw: st.DrawFn) -> Wish:
    kinds = [*draw(st.lists(st.sampled_from(["init", "sidecar"]), max_size=2)), "app", "app"]
    containers = [Container(f"c{i}", kind, tuple(draw(st.lists(asks, max_size=2)))) for i, kind in enumerate(kinds)]
    containers.append(Container("last", "app", (draw(asks),)))
    uuids = st.lists(st.sampled_from(["0/0", "0/1", "1/0"]), max_size=2).map(tuple)
    types = st.lists(st.sampled_from(["a100", "NVIDIA", "T4"]), max_size=1).map(tuple)
    modes = st.none() | st.sampled_from(["hami-core", "mps,hami-core", ""])
    return Wish(
        tuple(containers),
        draw(st.builds(Rules, types, types, uuids, uuids, modes, st.booleans())),
        draw(st.sampled_from(POLICIES)),
        draw(st.booleans()),
        draw(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 10**11))),
        quotas=draw(st.dictionaries(st.sampled_from(VENDORS), quotas, max_size=2)),
    )


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(nodes(), wishes())
def test_small_worlds(world: list[list[Card]], wish: Wish) -> None:
    check(world, wish)


def test_the_same_without_the_compiler() -> None:
    """What the interpreter makes of the kernel, with overflow and division as errors."""
    printed = run_interpreted("worlds", 60)
    assert re.fullmatch(r"60 worlds, \d\d+ nodes fit, interpreted\n", printed), printed
