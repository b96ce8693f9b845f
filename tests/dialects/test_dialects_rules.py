"""What a pod's annotations allow, and the node lock."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from vgpu_scheduler.allocators import NamedCards
from vgpu_scheduler.dialects import LockValue
from vgpu_scheduler.dialects.hami import format_lock, parse_lock, vendors
from vgpu_scheduler.dialects.hami.rules import DeviceRules, VendorRules, parse_rules

A100, T4 = "NVIDIA A100-SXM4-80GB", "NVIDIA-Tesla T4"


def allows(model: str, mode: str = "hami-core", **annotations: str) -> bool:
    keys = {name.replace("_", "-"): value for name, value in annotations.items()}
    rules = parse_rules({f"nvidia.com/{name}": value for name, value in keys.items()}, vendors())
    return rules.allows_model("NVIDIA", model, mode)


@pytest.mark.parametrize(
    ("value", "a100", "t4"),
    [
        ("A100", True, False),
        ("a100", True, False),
        ("A100,T4", True, True),
        (" tesla , ", False, True),
        ("", True, True),
        (" , ,", True, True),
        ("H100", False, False),
    ],
)
def test_models(value: str, *, a100: bool, t4: bool) -> None:
    assert (allows(A100, use_gputype=value), allows(T4, use_gputype=value)) == (a100, t4)
    if value.strip(", "):
        assert (allows(A100, nouse_gputype=value), allows(T4, nouse_gputype=value)) == (not a100, not t4)


def test_exclusion_wins() -> None:
    assert not allows(A100, use_gputype="A100", nouse_gputype="SXM4")
    assert not allows(A100, use_gputype="A100,T4", nouse_gputype="a")
    assert allows(T4, use_gputype="A100,T4", nouse_gputype="A100")


@pytest.mark.parametrize(
    ("value", "mode", "allowed"),
    [
        ("hami-core", "hami-core", True),
        ("hami-core", "mps", False),
        ("hami-core,mps", "mps", True),
        ("HAMI-CORE", "hami-core", False),
        ("mps", "", True),
        ("", "hami-core", False),
        ("mig", "mig", True),
        ("hami-core,mig", "mig", True),
        ("mps,hami-core", "mig", False),
    ],
)
def test_modes(value: str, mode: str, *, allowed: bool) -> None:
    assert allows(A100, mode, vgpu_mode=value) is allowed


def test_rules_are_about_the_cards_of_one_maker() -> None:
    assert DeviceRules({"NVIDIA": VendorRules(use_types=("a100",))}).allows_model("ACME", "anything", "any")


@pytest.mark.parametrize(
    ("use", "no_use", "named"),
    [
        ("", "", {}),
        (" ,", ",", {}),
        ("a", "", {"NVIDIA": NamedCards(frozenset("a"))}),
        (" a , b,", "", {"NVIDIA": NamedCards(frozenset("ab"))}),
        ("", "a", {"NVIDIA": NamedCards(None, frozenset("a"))}),
        ("a,b", "b", {"NVIDIA": NamedCards(frozenset("ab"), frozenset("b"))}),
    ],
)
def test_uuids(use: str, no_use: str, named: dict[str, NamedCards]) -> None:
    rules = parse_rules({"nvidia.com/use-gpuuuid": use, "nvidia.com/nouse-gpuuuid": no_use}, vendors())
    assert rules.named == named


@pytest.mark.parametrize("value", ["1", "t", "T", "TRUE", "true", "True"])
def test_numa_bind(value: str) -> None:
    assert parse_rules({"nvidia.com/numa-bind": value}, vendors()).numa_bind


@pytest.mark.parametrize("value", ["", "0", "false", "yes", "tRUE", " true", "2"])
def test_no_numa_bind(value: str) -> None:
    assert not parse_rules({"nvidia.com/numa-bind": value}, vendors()).numa_bind
    assert not parse_rules({}, vendors()).numa_bind


# The lock ----------------------------------------------------------------------------------------------------------

MOMENT = datetime(2026, 8, 21, 6, 20, 39, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "taken_at", "owner"),
    [
        ("2026-08-21T06:20:39Z,default,pod-a", MOMENT, "default/pod-a"),
        ("2026-08-21T14:20:39+08:00,ns,p", MOMENT, "ns/p"),
        ("2026-08-21T06:20:39.25Z,ns,p", MOMENT + timedelta(milliseconds=250), "ns/p"),
        ("2026-08-21T06:20:39Z", MOMENT, ""),
        ("2026-08-21T06:20:39Z,,", MOMENT, ""),
    ],
)
def test_a_lock_is_read(value: str, taken_at: datetime, owner: str) -> None:
    lock = parse_lock(value)
    assert (lock.taken_at, lock.owner) == (taken_at, owner)


@pytest.mark.parametrize(
    "value",
    [
        "", ",", ",,", "garbage", "garbage,a,b", "2026-08-21T06:20:39Z,a", "2026-08-21T06:20:39Z,a,b,c",
        "2026-08-21 06:20:39,a,b", "2026-08-21T06:20:39,a,b", "2026-08-21t06:20:39z,a,b", "2026-02-30T00:00:00Z,a,b",
        "2026-08-21T24:00:00Z,a,b", "2026-08-21T06:20:60Z,a,b", "2026-08-21T06:20:39-0700,a,b",
        " 2026-08-21T06:20:39Z,a,b",
    ],
)  # fmt: skip
def test_a_malformed_lock_is_nobodys(value: str) -> None:
    with pytest.raises(ValueError, match="lock value"):
        parse_lock(value)


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=8)), timezone(timedelta(hours=-3, minutes=-30))])
def test_a_lock_is_written_in_utc(zone: timezone) -> None:
    value = format_lock(MOMENT.astimezone(zone) + timedelta(microseconds=5), "team-a", "pod-0")
    assert value == "2026-08-21T06:20:39Z,team-a,pod-0"
    assert parse_lock(value) == LockValue(MOMENT, "team-a", "pod-0")
