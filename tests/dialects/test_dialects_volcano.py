"""The Volcano dialect: registration, and what containers claim."""

from __future__ import annotations

import pytest
from tests.dialects.volcano_objects import A10, DIALECT, NAMES, REGISTER, container, node, pod

from vgpu_scheduler.dialects import ClaimError, CodecError, Dialect
from vgpu_scheduler.dialects.volcano import VolcanoRequests, volcano_dialect
from vgpu_scheduler.model import Claim, ClaimDefaults, Placement, claims_devices


def test_it_is_a_dialect() -> None:
    dialect: Dialect = volcano_dialect()
    assert (dialect.name, dialect.node_side.locks, dialect.node_side.lock(())) == ("volcano", (), None)
    assert dialect.allocation.labels(Placement("node")) == {}
    annotated = {name for names in dialect.claims.overrides.values() for name in names}
    assert annotated < set(dialect.claims.pod_annotations)


# Registration ------------------------------------------------------------------------------------------------------


def test_registered_cards() -> None:
    first, second = DIALECT.inventory.devices(node(A10.format(1) + "GPU-2,4,16384,NVIDIA-Tesla T4,1,odd,more"))
    assert (first.uuid, first.index, first.total, first.mode) == ("GPU-1", 0, (10, 24576, 100), "hami-core")
    assert (second.uuid, second.index, second.total, second.mode) == ("GPU-2", 1, (4, 16384, 100), "hami-core")
    assert first.healthy
    assert second.healthy
    assert (second.vendor, second.type) == ("NVIDIA", "NVIDIA-Tesla T4")


@pytest.mark.parametrize(
    ("text", "healthy"), [("true", True), ("T", True), ("false", False), ("", False), ("yes", False)]
)
def test_health(text: str, *, healthy: bool) -> None:
    (card,) = DIALECT.inventory.devices(node(A10.format(1).replace("true", text)))
    assert card.healthy is healthy


@pytest.mark.parametrize(
    ("modes", "expected"),
    [
        (("hami-core", "mps"), ("hami-core", "hami-core")),
        (("mig", "hami-core"), ("mig", "hami-core")),
        (("hami-core", "mig"), ("mig", "mig")),  # the mode of the last card is the node's
        (("MIG", ""), ("hami-core", "hami-core")),
    ],
)
def test_modes(modes: tuple[str, ...], expected: tuple[str, ...]) -> None:
    text = "".join(A10.format(i).replace("hami-core", mode) for i, mode in enumerate(modes))
    assert tuple(card.mode for card in DIALECT.inventory.devices(node(text))) == expected


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("garbage", "no card separator"),
        ("", "no card separator"),
        ("GPU-1,10,24576,NVIDIA,true:", "5 fields, not 6"),
        (A10.format(1) * 2, "listed twice"),
        (A10.format(1).replace("10,", "ten,"), "count 'ten' is not an integer"),
        (A10.format(1).replace("24576", "-1"), "memory '-1' is not an integer"),
        (A10.format(1).replace("24576", "9" * 5000), "is not an integer in range"),
        (A10.format("1;2"), "separator"),
        (A10.format("").replace("GPU-", ""), "no id"),
        ("".join(A10.format(i) for i in range(1025)), "more than a node has"),
    ],
)
def test_a_registration_that_cannot_be_read(value: str, problem: str) -> None:
    with pytest.raises(CodecError, match=problem) as caught:
        DIALECT.inventory.devices(node(value))
    assert REGISTER in str(caught.value)


@pytest.mark.parametrize("name", ["n", "mem", "cores"])
def test_a_node_that_offers_nothing_of_one_has_no_cards(name: str) -> None:
    assert DIALECT.inventory.devices(node(A10.format(1)))
    assert DIALECT.inventory.devices(node(A10.format(1), **{name: "0"})) == ()


# Claims ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "requests", "expected"),
    [
        ("n=1", "", (1, 0, 100, 0)),
        ("n=2 mem=4096", "", (2, 4096, 0, 0)),
        ("mem=4k", "", (1, 4000, 0, 0)),
        ("n=1 pct=50 cores=30", "", (1, 0, 50, 30)),
        ("n=1 mem=2000 pct=50", "", (1, 0, 50, 0)),  # the percentage wins
        ("n=1 mem=0", "", (1, 0, 100, 0)),
        ("n=1", "mem=2000 cores=10", (1, 2000, 0, 10)),
        ("n=1 mem=1000", "n=1 mem=2000", (1, 1000, 0, 0)),
        ("n=1 cores=100", "", (1, 0, 100, 100)),
    ],
)
def test_claims(limits: str, requests: str, expected: tuple[int, int, int, int]) -> None:
    ((claim,),) = (c.claims for c in DIALECT.claims.read(pod(container("c", limits, requests))))
    count, memory, percent, cores = expected
    assert claim == Claim("NVIDIA", count, (1, memory, cores), (0, percent, 0))


def test_without_a_name_for_it_there_is_no_percentage() -> None:
    claims = volcano_dialect().claims.read(pod(container("c", "n=1 mem=2000 pct=50")))
    assert claims[0].claims == (Claim("NVIDIA", 1, (1, 2000, 0), (0, 0, 0)),)
    assert volcano_dialect().inventory.unknown_to_kubelet == frozenset()
    assert DIALECT.inventory.unknown_to_kubelet == {NAMES.memory_percent}


@pytest.mark.parametrize("limits", ["", "n=0", "n=0 mem=1000 cores=120"])
def test_no_claim(limits: str) -> None:
    assert not claims_devices(DIALECT.claims.read(pod(container("c", limits))))


@pytest.mark.parametrize(
    ("limits", "requests", "name", "fix"),
    [
        ("cores=30", "", "vgpu-cores", "add volcano.sh/vgpu-number: 1"),
        ("pct=30", "", "vgpu-memory-percentage", "add volcano.sh/vgpu-number: 1"),
        ("", "n=1", "vgpu-number", "to the limits"),
        ("", "mem=1000", "vgpu-memory", "to the limits"),
        ("n=1 mem=1500m", "", "vgpu-memory", "write an integer"),
        ("n=1.5", "", "vgpu-number", "write an integer"),
        ("n=-1", "", "vgpu-number", "0 or more"),
        ("n=1 mem=8Gi", "", "vgpu-memory", "in bytes it would be 8192"),
        ("n=1 cores=101", "", "vgpu-cores", "write a number from 0 to 100"),
        ("n=1 pct=101", "", "vgpu-memory-percentage", "write a number from 1 to 100"),
        ("n=1 pct=0", "", "vgpu-memory-percentage", "write a number from 1 to 100"),
    ],
)
def test_refused_by_name(limits: str, requests: str, name: str, fix: str) -> None:
    with pytest.raises(ClaimError) as caught:
        DIALECT.claims.read(pod(container("first"), container("second", limits, requests)))
    assert f'container "second": volcano.sh/{name}' in str(caught.value)
    assert fix in str(caught.value)


def test_init_containers_get_no_cards() -> None:
    with pytest.raises(ClaimError, match=r'container "init": volcano\.sh/vgpu-memory is not supported in an init'):
        DIALECT.claims.read(pod(container("c", "n=1"), init=(container("init", "mem=100"),)))
    claims = DIALECT.claims.read(pod(container("c", "n=1"), container("d"), init=(container("init"),)))
    assert [entry.name for entry in claims] == ["c", "d"]


def test_defaults_of_policies() -> None:
    blocks = volcano_dialect(VolcanoRequests(memory_factor=10))
    defaults = ClaimDefaults(memory=4096 * 2**20, cores=20, exclusive=False)
    assert DIALECT.claims.read(pod(container("c", "n=1")), defaults)[0].claims[0].amounts == (1, 4096, 20)
    assert blocks.claims.read(pod(container("c", "n=1")), defaults)[0].claims[0].amounts == (1, 409, 20)
    assert blocks.inventory.memory_unit == 10 * DIALECT.inventory.memory_unit
    stated = DIALECT.claims.read(pod(container("c", "n=1 pct=10 cores=5")), defaults)[0].claims[0]
    assert (stated.amounts, stated.percent) == ((1, 0, 5), (0, 10, 0))
    alone = DIALECT.claims.read(pod(container("c", "n=1 cores=5")), ClaimDefaults(exclusive=True))[0].claims[0]
    assert alone.amounts == (1, 0, 100)
