"""Shares of MetaX GPUs: units of memory, classes of tenants, qualities of service, zones."""

import json

import pytest
from tests.dialects.vendors import Bench, Obj, asking

from vgpu_scheduler.dialects import ClaimError
from vgpu_scheduler.dialects.hami import VendorSection, configured, hami_dialect
from vgpu_scheduler.kube import decode_pod
from vgpu_scheduler.model import ClaimDefaults

COUNT, MEMORY, CORES = "metax-tech.com/sgpu", "metax-tech.com/vmemory", "metax-tech.com/vcore"
CLASS, QUALITY = "metax-tech.com/sgpu-app-class", "metax-tech.com/sgpu-qos-policy"
TOPOLOGY = "metax-tech.com/sgpu-topology-aware"
ALLOCATED = "hami.io/metax-sgpu-devices-allocated"

SHARE = {COUNT: "1", MEMORY: "8", CORES: "10"}
WHOLE = {COUNT: "1", CORES: "100"}


def bench(*cards: Obj) -> Bench:
    listed = [
        {"uuid": f"M{i}", "totalDevCount": 4, "totalCompute": 100, "totalVRam": 65536, "healthy": True} | card
        for i, card in enumerate(cards)
    ]
    return Bench({"metax-tech.com/node-gpu-devices": json.dumps(listed)})


def cards(node: Bench, wire: Obj) -> str:
    found = node.try_(wire, "numa")
    if isinstance(found, str):
        return found
    listed = json.loads(found["metax-tech.com/gpu-devices-allocated"])
    return ";".join(",".join(card["uuid"] for card in container) for container in listed)


@pytest.mark.parametrize(
    ("memory", "mib"),
    [("8", 8192), ("512Mi", 512), ("100M", 95), ("8Gi", 8192), ("0", 0), ("0Gi", 0), ("1024Ki", 1)],
)
def test_memory_without_a_unit_is_in_gib(memory: str, mib: int) -> None:
    ((claim,),) = (c.claims for c in hami_dialect().claims.read(decode_pod(asking({COUNT: "1", MEMORY: memory}))))
    assert claim.amounts[:3] == (1, mib, 100)
    assert claim.percent[1] == (0 if mib else 100)


@pytest.mark.parametrize(
    ("memory", "problem"),
    [
        ("1Ki", "1Ki is less than 1Mi"),
        ("8589934592", "8589934592 is more than any card has, because the unit is GiB: in bytes it would be 8"),
        ("1.5", "1.5 is not a whole number"),
        ("-1", "-1 is negative"),
    ],
)
def test_refused_by_name(memory: str, problem: str) -> None:
    with pytest.raises(ClaimError, match=f'container "c0": {MEMORY}: {problem}'):
        hami_dialect().claims.read(decode_pod(asking({COUNT: "1", MEMORY: memory})))


def test_requests_say_nothing() -> None:
    wire = asking({})
    wire["spec"]["containers"][0]["resources"]["requests"] = SHARE
    assert not hami_dialect().claims.read(decode_pod(wire))[0].claims


def test_an_online_pod_cannot_have_cards_of_its_own() -> None:
    waiting = decode_pod(asking(SHARE, {CLASS: "online"}))
    with pytest.raises(ClaimError, match=f'container "c0": {COUNT}: .* leave out annotation {CLASS}'):
        hami_dialect().claims.read(waiting, ClaimDefaults(exclusive=True))


@pytest.mark.parametrize(
    ("first", "second", "fits"),
    [
        ("", "", True),
        ("", "online", False),
        ("", "offline", False),
        ("online", "", False),
        ("offline", "", False),
        ("online", "offline", True),
        ("offline", "online", True),
        ("online", "online", True),
        ("offline", "bad", False),  # any other word is no class
        ("bad", "", True),
    ],
)
def test_tenants_with_a_class_and_without_share_no_card(first: str, second: str, *, fits: bool) -> None:
    node = bench({})
    node.take(asking(SHARE, {CLASS: first}))
    found = cards(node, asking(SHARE, {CLASS: second}))
    assert found == ("M0" if fits else "1/1 CardAppClassMismatch")


def test_an_online_pod_takes_no_cores_and_looks_at_none() -> None:
    node = bench({})
    node.take(asking({COUNT: "1", MEMORY: "8", CORES: "100"}, {CLASS: "offline"}))
    assert node.try_(asking(SHARE, {CLASS: "offline"})) == "1/1 CardInsufficientCore"
    written = node.take(asking(SHARE, {CLASS: "online"}))
    assert written[ALLOCATED] == "M0,Metax-SGPU,8192,0:;"
    assert node.used() == {"M0": (2, 16384, 100, 0, 1, 1, 0, 0, 0)}


def test_an_online_pod_goes_where_there_is_least_contention() -> None:
    node = bench({}, {}, {})
    for taken, app_class in (("M0", "offline"), ("M1", "online")):
        wire = asking(SHARE, {CLASS: app_class, "metax-tech.com/use-gpuuuid": taken})
        node.take(wire)
    assert cards(node, asking(SHARE, {CLASS: "online"})) == "M2"
    assert node.affinity == (0.0, 0.0)
    assert cards(node, asking({**SHARE, COUNT: "3"}, {CLASS: "online"})) == "M2,M0,M1"
    assert node.affinity == (-220000.0, -220000.0)


@pytest.mark.parametrize(
    ("registered", "wanted", "limits", "fits"),
    [
        ("", "fixed-share", SHARE, True),
        ("fixed-share", "fixed-share", SHARE, True),
        ("fixed-share", "best-effort", SHARE, False),
        ("fixed-share", "", SHARE, False),
        ("fixed-share", "best-effort", WHOLE, True),  # but that the card is in use, which is another reason
    ],
)
def test_a_card_in_use_keeps_its_quality(registered: str, wanted: str, limits: Obj, *, fits: bool) -> None:
    wire = asking(limits, {QUALITY: wanted})
    assert cards(bench({"qosPolicy": registered}), wire) == "M0"
    node = bench({"qosPolicy": registered})
    node.take(asking(SHARE, {QUALITY: registered}))
    found = cards(node, wire)
    if limits is WHOLE:
        assert found == "1/1 CardInsufficientMemory"
    else:
        assert found == ("M0" if fits else "1/1 CardQosPolicyMismatch")


@pytest.mark.parametrize(
    ("first", "second", "fits"),
    [
        ("fixed-share", "best-effort", False),
        ("fixed-share", "fixed-share", True),
        ("fixed-share", "", False),
        ("", "best-effort", True),  # who does not ask has what the plugin says
        ("", "burst-share", False),
    ],
)
def test_a_card_has_the_quality_of_its_tenants_before_the_plugin_says_so(
    first: str, second: str, *, fits: bool
) -> None:
    node = bench({"qosPolicy": "best-effort"})
    node.take(asking(SHARE, {QUALITY: first}))
    assert cards(node, asking(SHARE, {QUALITY: second})) == ("M0" if fits else "1/1 CardQosPolicyMismatch")


def test_containers_of_one_pod_agree_on_an_idle_card() -> None:
    node = bench({"qosPolicy": "fixed-share"})
    assert cards(node, asking(SHARE, {QUALITY: "best-effort"}, {}, SHARE)) == "M0;;M0"


def test_online_pods_do_not_look_at_the_quality() -> None:
    node = bench({"qosPolicy": "fixed-share"})
    node.take(asking(SHARE, {QUALITY: "fixed-share", CLASS: "offline"}))
    assert cards(node, asking(SHARE, {QUALITY: "best-effort", CLASS: "online"})) == "M0"


ZONES = tuple({"linkZone": zone} for zone in (1, 1, 1, 2, 2, 0, 1))


@pytest.mark.parametrize(
    ("count", "found"),
    [("1", "M5"), ("2", "M4,M3"), ("3", "M6,M2,M1"), ("5", "M6,M5,M4,M3,M2"), ("7", "M6,M5,M4,M3,M2,M1,M0")],
)
def test_whole_cards_come_from_the_smallest_zone(count: str, found: str) -> None:
    assert cards(bench(*ZONES), asking({**WHOLE, COUNT: count})) == found
    first = ",".join(f"M{6 - i}" for i in range(int(count)))
    assert cards(bench(*ZONES), asking({**SHARE, COUNT: count})) == first


@pytest.mark.parametrize(
    ("count", "worth"),
    [
        ("1", 0.0),  # a card of no zone
        ("2", 1000000.0),  # one link
        ("3", 2700000.0),  # three, and three are torn to the fourth
        ("4", 6000000.0),
    ],
)
def test_links_of_whole_cards_are_worth_something_if_asked_for(count: str, worth: float) -> None:
    node = bench(*ZONES)
    for annotations, expected in (({TOPOLOGY: "true"}, worth), ({}, 0.0), ({TOPOLOGY: "no"}, 0.0)):
        node.try_(asking({**WHOLE, COUNT: count}, annotations), "numa")
        assert node.affinity == (expected, expected)
    node.try_(asking({**SHARE, COUNT: count}, {TOPOLOGY: "1"}), "numa")
    assert node.affinity == (0.0, 0.0)


@pytest.mark.parametrize(
    ("config", "annotation", "aware"), [(True, None, True), (True, "f", False), (False, "T", True)]
)
def test_who_is_aware_of_links(*, config: bool, annotation: str | None, aware: bool) -> None:
    makers = configured(VendorSection({"metax": {"sgpuTopologyAware": config}}), others=False)
    vendor = next(vendor for vendor in makers if vendor.key == "Metax-SGPU")
    assert bool(vendor.fit_for({} if annotation is None else {TOPOLOGY: annotation}).choice_weight) == aware


def test_an_unhealthy_card_has_a_reason_of_its_own() -> None:
    assert cards(bench({"healthy": False}), asking(SHARE)) == "1/1 CardUnhealthy"


@pytest.mark.parametrize(
    ("inits", "worth"),
    [
        ((), (1990.0, -1700.0)),
        (("1",), (1980.0, -1600.0)),
        (("2",), (2000.0, -2000.0)),  # four cards of two: nothing is told of that
    ],
)
def test_whole_gpus_are_worth_what_is_told_of_as_many_as_all_containers_take(
    inits: tuple[str, ...], worth: tuple[float, float]
) -> None:
    tables = {"losses": {"2": 10, "3": 20}, "scores": {"2": 300, "3": 400}}
    told = {f"metax-tech.com/gpu.topology.{name}": json.dumps(table) for name, table in tables.items()}
    node = Bench(told, capacity={"metax-tech.com/gpu": "3" if inits == ("1",) else "2"})
    wire = asking({"metax-tech.com/gpu": "2"})
    limits = [{"metax-tech.com/gpu": count} for count in inits]
    wire["spec"]["initContainers"] = [{"name": f"i{i}", "resources": {"limits": e}} for i, e in enumerate(limits)]
    node.take(wire)
    assert node.affinity == worth
