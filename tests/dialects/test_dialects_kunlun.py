"""Kunlunxin: which cards of two halves, and slices of one size."""

import pytest
from tests.dialects.vendors import Bench, Obj, asking

from vgpu_scheduler.dialects.hami import RegisteredDevice, encode_register_json, hami_dialect
from vgpu_scheduler.kube import decode_pod
from vgpu_scheduler.model import ClaimDefaults

CARDS, SLICES, MEMORY = "kunlunxin.com/xpu", "kunlunxin.com/vxpu", "kunlunxin.com/vxpu-memory"


def whole(cards: int = 8, used: tuple[int, ...] = ()) -> Bench:
    node = Bench(capacity={CARDS: str(cards)})
    if used:
        entries = "".join(f"n-kunlun-{number},kunlun,98304,100:" for number in used)
        written = {"hami.io/vgpu-node": "n", "hami.io/kunlun-allocated": f"{entries};"}
        node.book(asking({CARDS: str(len(used))}), written)
    return node


def sliced(unhealthy: tuple[int, ...] = ()) -> Bench:
    cards = [
        RegisteredDevice(f"X{i}", i, 4, 98304, 100, "XPU", numa=i // 4, health=i not in unhealthy) for i in range(8)
    ]
    return Bench({"hami.io/node-register-xpu": encode_register_json(cards)})


@pytest.mark.parametrize(
    ("used", "wanted", "found"),
    [
        ((), 1, "0"),
        ((), 2, "0,1"),
        ((), 4, "0,1,2,3"),
        ((), 8, "0,1,2,3,4,5,6,7"),
        ((), 3, "1/8 NumaNotFit"),
        ((0,), 8, "1/8 NumaNotFit"),
        ((0,), 1, "1"),  # a card of a wing with three free leaves them no more scattered
        ((4,), 1, "5"),
        ((0, 1), 1, "2"),  # two free are better broken than four
        ((0, 1, 2, 4, 5), 1, "3"),
        ((0, 4), 2, "1,2"),
        ((4, 5), 4, "0,1,2,3"),
        ((0, 4), 4, "2,3,6,7"),  # no wing has four: those linked across
        ((0, 5), 4, "2,3,6,7"),
        ((0, 1, 6), 4, "1/8 NumaNotFit"),  # only one pair is free on both sides
        ((0, 1, 2, 5, 6, 7), 2, "1/8 NumaNotFit"),
        ((0, 1, 2, 4, 5, 6), 2, "7,3"),  # in the order of the list
        ((0, 1, 2, 3, 4, 5, 6, 7), 1, "1/8 NumaNotFit"),
    ],
)
def test_whole_cards_by_halves(used: tuple[int, ...], wanted: int, found: str) -> None:
    written = whole(used=used).try_(asking({CARDS: str(wanted)}), "spread" if not used else "binpack")
    assert (written["BAIDU_COM_DEVICE_IDX"] if isinstance(written, dict) else written) == found


def test_a_node_with_fewer_cards_has_one_half() -> None:
    written = whole(2).try_(asking({CARDS: "2"}), "spread")
    assert isinstance(written, dict)
    assert written["BAIDU_COM_DEVICE_IDX"] == "0,1"
    assert whole(2).try_(asking({CARDS: "4"})) == "NodeInsufficientDevice"


@pytest.mark.parametrize(
    ("used", "wanted", "worth"),
    [
        ((), 1, 0.0),  # an empty server is broken into
        ((4, 5, 6, 7), 1, 1000.0),
        ((), 4, 2000.0),
        ((), 8, 3000.0),
        ((0,), 1, 3000.0),
        ((0, 1, 2), 1, 3000.0),
        ((0, 1), 1, 2000.0),
    ],
)
def test_what_the_cards_left_free_are_worth(used: tuple[int, ...], wanted: int, worth: float) -> None:
    node = whole(used=used)
    node.try_(asking({CARDS: str(wanted)}))
    assert node.affinity == (worth, worth)


def test_the_worth_is_of_all_containers_together() -> None:
    node = whole()
    assert isinstance(node.try_(asking({CARDS: "4"}, {}, {CARDS: "4"})), dict)
    assert node.affinity == (3000.0, 3000.0)


@pytest.mark.parametrize(
    ("limits", "memory", "cores"),
    [
        ({SLICES: "1"}, 98304, 100),
        ({SLICES: "1", MEMORY: "1"}, 24576, 25),
        ({SLICES: "1", MEMORY: "24576"}, 24576, 25),
        ({SLICES: "1", MEMORY: "24577"}, 49152, 50),
        ({SLICES: "1", MEMORY: "60000"}, 98304, 100),
        ({SLICES: "1", MEMORY: "100000"}, 98304, 100),
    ],
)
def test_sizes_of_slices(limits: Obj, memory: int, cores: int) -> None:
    ((claim,),) = (container.claims for container in hami_dialect().claims.read(decode_pod(asking(limits))))
    assert claim.amounts == (1, memory, cores)


@pytest.mark.parametrize(
    ("defaults", "memory"),
    [
        (ClaimDefaults(memory=30000 * 2**20), 49152),
        (ClaimDefaults(memory=30000 * 2**20, exclusive=True), 98304),
        (ClaimDefaults(cores=10), 98304),
    ],
)
def test_what_a_policy_says_of_slices(defaults: ClaimDefaults, memory: int) -> None:
    ((claim,),) = (
        container.claims for container in hami_dialect().claims.read(decode_pod(asking({SLICES: "1"})), defaults)
    )
    assert claim.amounts[1] == memory


def test_a_card_is_cut_into_one_size() -> None:
    node = sliced(unhealthy=(0, 1, 2, 3, 5, 6, 7))
    quarter, half = asking({SLICES: "1", MEMORY: "20000"}), asking({SLICES: "1", MEMORY: "40000"})
    node.take(quarter)
    assert node.try_(half) == "1/8 NumaNotFit"
    for _ in range(3):
        node.take(quarter)
    assert node.used() == {"X4": (4, 98304, 100)}
    assert node.try_(quarter) == "1/8 NumaNotFit"


def test_reasons_that_hami_gives() -> None:
    node = sliced(unhealthy=(0, 1))
    wire = asking({SLICES: "8", MEMORY: "20000"}, {"hami.io/no-use-xpu-uuid": "X0,X2", "baidu.com/nouse-gpuuuid": "X3"})
    assert node.try_(wire) == "3/8 CardUuidMismatch"
    node = sliced(unhealthy=(0, 1))
    node.take(asking({SLICES: "1", MEMORY: "20000"}))
    assert node.try_(asking({SLICES: "8", MEMORY: "20000"}), "mutex") == "1/8 ExclusiveDeviceAllocateConflict"


@pytest.mark.parametrize("asked", [98305, 98306, 100000, 196608, 2**30])
@pytest.mark.parametrize("count", [1, 2, 8])
def test_more_memory_than_a_card_has_is_told(asked: int, count: int) -> None:
    (container,) = decode_pod(asking({SLICES: str(count), MEMORY: str(asked)})).spec.containers
    (told,) = hami_dialect().claims.request_warnings(container, {})
    assert str(told) == f"{MEMORY}: {asked} is more than a whole card, and counts as 98304"
    assert told.refused == f"{MEMORY}: {asked} is more than a whole card: write 98304"


@pytest.mark.parametrize("asked", [1, 24576, 24577, 49152, 98303, 98304])
def test_what_a_card_has_is_not_told(asked: int) -> None:
    (container,) = decode_pod(asking({SLICES: "1", MEMORY: str(asked)})).spec.containers
    assert list(hami_dialect().claims.request_warnings(container, {})) == []
