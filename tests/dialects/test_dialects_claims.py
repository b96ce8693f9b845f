"""What containers claim, and what is refused by name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgpu_scheduler.dialects import ClaimError
from vgpu_scheduler.dialects.hami import NvidiaRequests, hami_dialect
from vgpu_scheduler.kube import Container, decode_pod
from vgpu_scheduler.model import Claim, ContainerType

NAMES = NvidiaRequests()
SHORT = {"gpu": NAMES.count, "mem": NAMES.memory, "pct": NAMES.memory_percent, "cores": NAMES.cores}


def container(limits: str = "", requests: str = "", name: str = "main") -> Container:
    """A container from short texts such as ``gpu=1 mem=4k``."""

    def parsed(text: str) -> dict[str, str]:
        return {SHORT[item.partition("=")[0]]: item.partition("=")[2] for item in text.split()}

    return Container(name, ContainerType.APP, parsed(limits), parsed(requests))


def claim_of(asking: Container, names: NvidiaRequests = NAMES) -> Claim:
    claim = names.read("NVIDIA", asking)
    assert claim is not None
    return claim


@pytest.mark.parametrize(
    ("limits", "requests", "expected"),
    [
        ("gpu=1", "", (1, 0, 100, 0)),
        ("gpu=2 mem=4096", "", (2, 4096, 0, 0)),
        ("gpu=1 mem=4k", "", (1, 4000, 0, 0)),
        ("gpu=1 mem=1Ki", "", (1, 1024, 0, 0)),
        ("gpu=1 mem=1e3", "", (1, 1000, 0, 0)),
        ("gpu=1 pct=50 cores=30", "", (1, 0, 50, 30)),
        ("gpu=1 pct=150", "", (1, 0, 100, 0)),
        ("gpu=1 pct=0", "", (1, 0, 100, 0)),
        ("gpu=1 mem=0", "", (1, 0, 100, 0)),
        ("gpu=1 mem=2000 pct=50", "", (1, 2000, 50, 0)),
        ("gpu=1 cores=120", "", (1, 0, 100, 120)),
        ("gpu=1", "gpu=4 mem=2000", (1, 2000, 0, 0)),
        ("", "gpu=2 mem=1024 cores=10", (2, 1024, 0, 10)),
        ("mem=1024", "gpu=1", (1, 1024, 0, 0)),
    ],
)
def test_claims(limits: str, requests: str, expected: tuple[int, int, int, int]) -> None:
    claim = claim_of(container(limits, requests), NAMES)
    count, memory, percent, cores = expected
    assert claim == Claim("NVIDIA", count, (1, memory, cores), (0, percent, 0))


@pytest.mark.parametrize("limits", ["", "gpu=0", "gpu=0 mem=1000 cores=10"])
def test_no_claim(limits: str) -> None:
    assert NAMES.read("NVIDIA", container(limits)) is None
    assert not NAMES.asks(container(limits))


def test_defaults_and_units() -> None:
    names = NvidiaRequests(memory_factor=1024, default_memory=3000, default_cores=25)
    by_default = claim_of(container("gpu=1"), names)
    assert (by_default.amounts, by_default.percent) == ((1, 3000, 25), (0, 0, 0))  # not times the factor
    given_memory = claim_of(container("gpu=1 mem=16 cores=0"), names)
    assert given_memory.amounts == (1, 16384, 0)
    given_percent = claim_of(container("gpu=1 pct=10"), names)
    assert (given_percent.amounts, given_percent.percent) == ((1, 0, 25), (0, 10, 0))


def refusal(limits: str, names: NvidiaRequests = NAMES) -> str:
    with pytest.raises(ClaimError) as refused:
        names.read("NVIDIA", container(limits, name="trainer"))
    return str(refused.value)


@pytest.mark.parametrize(
    ("limits", "cores"),
    [
        ({}, 100),
        ({"nvidia.com/gpumem-percentage": "100"}, 100),
        ({"nvidia.com/gpumem-percentage": "100", "nvidia.com/gpumem": "0"}, 100),
        ({"nvidia.com/gpumem-percentage": "0"}, 0),
        ({"nvidia.com/gpumem": "0"}, 0),
        ({"nvidia.com/gpumem-percentage": "50"}, 0),
        ({"nvidia.com/gpumem": "1000"}, 0),
        ({"nvidia.com/gpucores": "0"}, 0),
    ],
)
def test_whole_cards_are_those_of_which_no_memory_is_named(limits: dict[str, str], cores: int) -> None:
    container = Container("c", ContainerType.APP, {"nvidia.com/gpu": "1", **limits}, {})
    claim = NvidiaRequests(whole_is_exclusive=True).read("NVIDIA", container)
    assert claim is not None
    assert claim.amounts[2] == cores


def test_bytes_for_mebibytes() -> None:
    message = refusal("gpu=1 mem=16Gi")
    assert message.startswith('container "trainer": nvidia.com/gpumem: 16Gi is more than any card has')
    assert "in bytes it would be 16384" in message
    assert "the unit is MiB" in message
    assert "in bytes it would be 16" in refusal("gpu=1 mem=16Gi", NvidiaRequests(memory_factor=1024))
    assert "the unit is 1024 MiB: write a smaller number" in refusal("gpu=1 mem=4M", NvidiaRequests(memory_factor=1024))


@pytest.mark.parametrize("given_name", ["mem", "pct", "cores"])
def test_an_amount_without_a_count(given_name: str) -> None:
    message = refusal(f"{given_name}=30")
    assert message.startswith(f'container "trainer": {SHORT[given_name]} is given without nvidia.com/gpu')
    assert "add nvidia.com/gpu: 1" in message


@pytest.mark.parametrize("resource", ["gpu", "mem", "pct", "cores"])
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("-1", "is negative"),
        ("500m", "is not a whole number"),
        ("1.5", "is not a whole number"),
        ("many", "is not a quantity"),
        ("1Zi", "is not a quantity"),
        ("10E", "is more than any node has"),
    ],
)
def test_malformed_amounts(resource: str, text: str, problem: str) -> None:
    given_too = "" if resource == "gpu" else "gpu=1 "
    message = refusal(f"{given_too}{resource}={text}")
    assert message.startswith(f'container "trainer": {SHORT[resource]}: {text} {problem}')
    assert NAMES.asks(container(f"{given_too}{resource}={text}"))


@pytest.mark.parametrize("text", ["2147483648", "2Gi", "3G", "1E"])
def test_more_memory_than_fits(text: str) -> None:
    assert "more than any card has" in refusal(f"gpu=1 mem={text}")
    claim = claim_of(container("gpu=1 mem=2147483647"), NAMES)
    assert claim.amounts[1] == 2147483647


def test_other_names() -> None:
    names = NvidiaRequests(count="example.com/vgpu", memory="example.com/vmem")
    limits = {"example.com/vgpu": "1", "example.com/vmem": "1000", "nvidia.com/gpu": "bad"}
    claim = claim_of(Container("c", ContainerType.APP, limits, {}), names)
    assert claim.amounts == (1, 1000, 0)
    assert set(names.unadvertised) == {"example.com/vmem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores",
                             "nvidia.com/priority"}  # fmt: skip


def test_one_entry_per_container_init_containers_first() -> None:
    gpu = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    pod = decode_pod({
        "metadata": {"name": "p", "uid": "u"},
        "spec": {
            "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always", **gpu}],
            "containers": [{"name": "a", **gpu}, {"name": "b"}],
        },
    })  # fmt: skip
    claims = hami_dialect().claims.read(pod)
    assert [(c.name, c.type.name, len(c.claims)) for c in claims] == [
        ("i", "INIT", 0), ("s", "SIDECAR", 1), ("a", "APP", 1), ("b", "APP", 0),
    ]  # fmt: skip


quantities = st.one_of(
    st.none(),
    st.sampled_from(["0", "1", "2", "100", "4k", "16Gi", "-1", "500m", "x", "", "1e20", "10E", "2147483648"]),
    st.integers(-5, 2**40).map(str),
)


@given(quantities, quantities, quantities, quantities, st.integers(1, 4096))
def test_a_claim_makes_sense_or_is_refused_by_name(
    gpu: str | None, mem: str | None, pct: str | None, cores: str | None, factor: int
) -> None:
    given_amounts = {"gpu": gpu, "mem": mem, "pct": pct, "cores": cores}
    limits = {SHORT[name]: text for name, text in given_amounts.items() if text is not None}
    trainer, problem = Container("trainer", ContainerType.APP, limits, {}), ""
    try:
        claim = NvidiaRequests(memory_factor=factor).read("NVIDIA", trainer)
    except ClaimError as error:
        problem = str(error)
    if problem:
        assert problem.startswith('container "trainer": nvidia.com/')
        return
    assert bool(claim) == (gpu not in (None, "0"))
    if claim:
        assert claim.count > 0
        assert min(claim.amounts) >= 0
        assert claim.amounts[1] <= 2**31 - 1
        assert claim.amounts[1] > 0 or 1 <= claim.percent[1] <= 100
