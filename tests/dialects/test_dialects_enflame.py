"""Enflame's slices: which profile a claim gets, and what is told of it."""

import json

import pytest
from tests.dialects.vendors import Bench, Obj, asking

from vgpu_scheduler.dialects import ClaimError, RegistrationError
from vgpu_scheduler.dialects.hami import hami_dialect
from vgpu_scheduler.kube import decode_node, decode_pod

SLICES, MEMORY, CORES = "enflame.com/drs-gcu", "enflame.com/gcu-memory", "enflame.com/gcu-core"
ALLOCATED = "hami.io/enflame-vgpu-devices-allocated"
PROFILES = {"3g.20gb": "1", "1g.6gb": "0", "6g.40gb": "2", "odd": "9"}


def capacity(*cards: Obj, profiles: Obj = PROFILES) -> Obj:
    return {"enflame.com/gcu-drs-capacity": json.dumps({"devices": cards, "profiles": profiles})}


def bench(cards: int = 1, slices: int = 6) -> Bench:
    return Bench(capacity(*({"index": str(i), "minor": str(i + 4), "capacity": slices} for i in range(cards))))


@pytest.mark.parametrize(
    ("limits", "profile"),
    [
        ({SLICES: "1"}, "1g.6gb"),
        ({SLICES: "3"}, "3g.20gb"),
        ({SLICES: "2"}, "1/1 ModeNotFit"),
        ({MEMORY: "6"}, "1g.6gb"),
        ({MEMORY: "7"}, "3g.20gb"),
        ({MEMORY: "99"}, "1/1 ModeNotFit"),  # GiB
        ({MEMORY: "100"}, "1g.6gb"),  # MiB
        ({MEMORY: "6145"}, "3g.20gb"),
        ({CORES: "17"}, "1g.6gb"),
        ({CORES: "18"}, "3g.20gb"),
        ({MEMORY: "6", CORES: "51"}, "6g.40gb"),
        ({SLICES: "1", MEMORY: "40"}, "1g.6gb"),  # slices say it all
    ],
)
def test_the_smallest_profile_that_is_enough(limits: Obj, profile: str) -> None:
    found = bench().try_(asking(limits))
    if isinstance(found, dict):
        found = json.loads(found["assigned-containers"])["c0"]["profileName"]
    assert found == profile


def test_the_plugin_is_told_of_the_first_container_and_of_all() -> None:
    written = bench().try_(asking({SLICES: "3"}, {}, {}, {SLICES: "1"}))
    assert isinstance(written, dict)
    assert written[ALLOCATED] == "n-enflame-drs-0,Enflame,20480,50:;;n-enflame-drs-0,Enflame,6144,17:;"
    assert written["enflame.com/gcu-assigned-minor"] == "4"
    assert written["enflame.com/gcu-request-size"] == "3"
    assert json.loads(written["assigned-containers"]) == {
        "c0": {"allocated": False, "request": 3, "profileID": "1", "profileName": "3g.20gb"},
        "c2": {"allocated": False, "request": 1, "profileID": "0", "profileName": "1g.6gb"},
    }


def test_slices_are_booked_as_shares_with_memory_and_cores() -> None:
    node = bench()
    node.take(asking({SLICES: "3"}))
    assert node.used() == {"n-enflame-drs-0": (3, 20480, 50, 3)}
    assert node.try_(asking({SLICES: "6"})) == "1/1 CardInsufficientMemory"
    for _ in range(2):
        node.take(asking({SLICES: "1"}))
    assert node.try_(asking({SLICES: "1"})) == "1/1 CardInsufficientCore"  # 17 percent each are more than a card has


def test_no_more_slices_than_the_card_has() -> None:
    node = bench(slices=4)  # fewer than the largest profile
    node.take(asking({SLICES: "3"}))
    assert node.try_(asking({SLICES: "3"})) == "1/1 CardTimeSlicingExhausted"


def test_what_does_not_say_its_slices_puts_the_card_out_of_service() -> None:
    node = bench()
    wire = asking({SLICES: "1"})
    written = node.try_(wire)
    assert isinstance(written, dict)
    for told in ("", "{", "[]", '{"c0": {"request": "1"}}', '{"c0": {"request": 0}}', '{"c1": {"request": 1}}'):
        other = bench()
        other.book(wire, written | {"assigned-containers": told})
        assert other.try_(wire) == "1/1 CardNotHealth", told


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        ({SLICES: "500m"}, f"{SLICES}: 500m is not a whole number"),
        ({SLICES: "3000000000"}, f"{SLICES}: 3000000000 is more than any node has"),
        ({SLICES: "1", MEMORY: "-4"}, f"{MEMORY}: -4 is negative"),
        ({CORES: "101"}, f"{CORES}: 101 is more than a card has: write 100 or less"),
    ],
)
def test_refused_by_name(limits: Obj, problem: str) -> None:
    with pytest.raises(ClaimError, match=f'container "c0": {problem}'):
        hami_dialect().claims.read(decode_pod(asking(limits)))


@pytest.mark.parametrize("limits", [{SLICES: "0"}, {SLICES: "0", MEMORY: "4"}, {MEMORY: "0", CORES: "0"}])
def test_nothing_is_claimed(limits: Obj) -> None:
    assert not hami_dialect().claims.read(decode_pod(asking(limits)))[0].claims


@pytest.mark.parametrize(
    ("annotations", "problem"),
    [
        ({"enflame.com/gcu-drs-capacity": "[]"}, "not an object"),
        (capacity(), "no device"),
        (capacity({"index": "0", "capacity": 6}, profiles={"odd": "1"}), "no profile"),
        (capacity({"index": "0", "capacity": 0}), "device 0 has no capacity"),
        (capacity({"index": "0", "capacity": "six"}), "device 0 has no capacity"),
        (capacity({"index": "0", "capacity": 6}, {"index": "0", "capacity": 6}), "listed twice"),
    ],
)
def test_capacities_that_cannot_be_read(annotations: Obj, problem: str) -> None:
    node = decode_node({"metadata": {"name": "n", "annotations": annotations}, "status": {}})
    with pytest.raises(RegistrationError, match=f"enflame.com/gcu-drs-capacity: .*{problem}"):
        hami_dialect().inventory.devices(node)


def test_numbers_of_cards_may_be_missing_and_capacities_texts() -> None:
    annotations = capacity({"index": "x", "capacity": "6"}, {"capacity": 6})
    node = decode_node({"metadata": {"name": "n", "annotations": annotations}, "status": {}})
    assert [device.uuid for device in hami_dialect().inventory.devices(node)] == ["n-enflame-drs-0", "n-enflame-drs-1"]


@pytest.mark.parametrize("limits", [{SLICES: "1"}, {MEMORY: "6"}, {CORES: "10"}])
def test_cards_on_which_somebody_runs_who_lost_his_allocation_are_given_to_nobody(limits: Obj) -> None:
    node = bench(2)
    wire = asking(limits)
    wire["metadata"] |= {"name": "lost", "uid": "lost"}
    wire["spec"]["nodeName"] = "n"
    wire["status"] = {
        "phase": "Running",
        "containerStatuses": [{"name": "c0", "started": True, "state": {"running": {}}}],
    }
    lost = decode_pod(wire)
    node.state.observe_pod(lost, {node.dialect.name: node.dialect.allocation.usage(lost)})
    assert node.try_(asking({SLICES: "1"})) == "2/2 CardNotHealth"
