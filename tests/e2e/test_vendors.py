"""Pods of several vendors, from apply to running, with their plugins, and an operator that is killed in the middle.

One cluster and one story for all vendors: on a node of each a pod is allocating when the operator is killed, and others
wait for that node. The tests look at what has become of each vendor's pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from tests.apiserver.control_plane import ControlPlane
from tests.e2e.conftest import Cluster, dump, played

from vgpu_devcluster import (
    A100_PROFILES,
    ASCEND_910B3,
    BEHAVIOUR,
    CAMBRICON,
    ENFLAME_DRS,
    HYGON,
    MTHREADS,
    NVIDIA,
    Card,
    Vendor,
    equip,
    made_cards,
)
from vgpu_devcluster.process import OperatorProcess

Obj = dict[str, Any]

EARLY, LATE = 2, 2
"""Pods of each case that come after the one that is allocating: before the operator is killed, and after."""
WAITING = EARLY + LATE


@dataclass(frozen=True)
class Case:
    """A node of one or more vendors, and what each pod asks for; ``containers`` where that is of more than one."""

    cards: Mapping[Vendor, Callable[[str], list[Card]]]
    limits: Mapping[str, str]
    more: Mapping[str, str] = field(default_factory=dict)

    @property
    def lock(self) -> str:
        """The lock that the plugins want, empty for none."""
        return max((vendor.lock for vendor in self.cards if vendor is not MTHREADS), default="")


def placements(node: str) -> list[Card]:
    """MIG cards as plugins of 2.10 register them."""
    return [replace(card, profiles=A100_PROFILES) for card in templates(node)]


def templates(node: str) -> list[Card]:
    """MIG cards as plugins of 2.5 to 2.9 register them."""
    return equip(node, ["A100-40G"] * 2, count=7, mode="mig")


def shared(node: str) -> list[Card]:
    return equip(node, ["A10"] * 2, count=4)


def made(vendor: Vendor, memory: int, number: int = 2) -> Callable[[str], list[Card]]:
    return lambda node: made_cards(node, vendor, number, memory)


GPU = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4000"}
DCU = {"hygon.com/dcunum": "1", "hygon.com/dcumem": "4000", "hygon.com/dcucores": "25"}
MTT = {"mthreads.com/vgpu": "1", "mthreads.com/sgpu-memory": "16", "mthreads.com/sgpu-core": "4"}
CASES = {
    "hami-core": Case({NVIDIA: shared}, GPU),
    "mig-placements": Case({NVIDIA: placements}, GPU),
    "mig-templates": Case({NVIDIA: templates}, GPU),
    "ascend": Case(
        {ASCEND_910B3: made(ASCEND_910B3, 65536)},
        {"huawei.com/Ascend910B3": "1", "huawei.com/Ascend910B3-memory": "16384"},
    ),
    "hygon": Case({HYGON: made(HYGON, 16368)}, DCU),
    "mthreads": Case({MTHREADS: made(MTHREADS, 49152)}, MTT),
    "cambricon": Case(
        {CAMBRICON: made(CAMBRICON, 25600)},
        {"cambricon.com/vmlu": "1", "cambricon.com/mlu.smlu.vmemory": "20", "cambricon.com/mlu.smlu.vcore": "20"},
    ),
    "enflame-drs": Case({ENFLAME_DRS: made(ENFLAME_DRS, 49152, 3)}, {"enflame.com/drs-gcu": "3"}),
    # Hygon's plugin wants pods that are allocating, so it must not come after NVIDIA's, which ends that.
    "hygon-and-nvidia": Case({HYGON: made(HYGON, 16368), NVIDIA: shared}, DCU, GPU),
    "hygon-beside-nvidia": Case({HYGON: made(HYGON, 16368), NVIDIA: shared}, {**DCU, **GPU}),
    "nvidia-and-mthreads": Case({NVIDIA: shared, MTHREADS: made(MTHREADS, 49152)}, GPU, MTT),
}


def wants(case: str, name: str, **annotations: str) -> Obj:
    containers = [
        {"name": f"c{number}", "image": "example", "resources": {"limits": dict(limits)}}
        for number, limits in enumerate((CASES[case].limits, CASES[case].more))
        if limits
    ]
    return {
        "metadata": {"name": f"{case}-{name}", "annotations": annotations},
        "spec": {"schedulerName": "vgpu-scheduler", "nodeSelector": {"case": case}, "containers": containers},
    }


@dataclass
class Story:
    """What was seen, by pod or by node; a case's node has its name."""

    before: dict[str, Obj] = field(default_factory=dict)
    """The pods when the operator was killed."""
    locks: dict[str, str] = field(default_factory=dict)
    """The nodes' locks then."""
    held: dict[str, Obj] = field(default_factory=dict)
    """The pods when another operator had had its chance, and the plugins had not answered yet."""
    after: dict[str, Obj] = field(default_factory=dict)
    bindings: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    left: dict[str, list[str]] = field(default_factory=dict)
    """The locks on each node in the end."""
    ledger: dict[str, Any] = field(default_factory=dict)
    drift: Any = None
    handed_out: dict[str, dict[str, tuple[int, int, int]]] = field(default_factory=dict)
    slices: dict[str, dict[str, list[int]]] = field(default_factory=dict)


async def told(cluster: Cluster) -> Story:
    """Play it: a pod of each case runs, one is allocating, others wait, the operator is killed, another goes on."""
    story, side = Story(), cluster.nodes
    for case, facts in CASES.items():
        await side.register([case], facts.cards, labels={"case": case})
    await side.start()
    mark = cluster.plane.audit_mark()
    first, second = cluster.operator(), cluster.operator()
    try:
        first.start()
        await first.until_leading()
        await cluster.create(*(wants(case, "first") for case in CASES))
        await side.until(lambda: side.counts["running"] == len(CASES))
        await cluster.create(*(wants(case, "held", **{BEHAVIOUR: "held"}) for case in CASES))
        await cluster.until(lambda: allocating(cluster), "a pod of each case to be allocating")
        await cluster.create(*(wants(case, f"early-{number}") for case in CASES for number in range(EARLY)))
        await cluster.until(lambda: waiting(first, EARLY), "the next pods to wait at their nodes")
        first.kill()
        story.before = await pods(cluster)
        story.locks = {case: (await annotations(cluster, case)).get(CASES[case].lock, "") for case in CASES}

        await cluster.create(*(wants(case, f"late-{number}") for case in CASES for number in range(LATE)))
        second.start()
        await second.until_leading()
        # One of each node is at its turn now; if it is not held back, it will be seen.
        await cluster.until(lambda: waiting(second, WAITING), "all pods to wait at their nodes")
        story.held = await pods(cluster)
        side.let_go()
        await side.until(lambda: side.counts["running"] == len(CASES) * (WAITING + 2), within=60.0)
        await cluster.until(lambda: settled(cluster, second, story), "the operator's books to equal the plugins'", 15.0)
    except (AssertionError, TimeoutError) as error:
        stuck = {name: pod["status"] for name, pod in (await pods(cluster)).items() if running(pod) != "Running"}
        pytest.fail(f"{error!r}\n{dump([stuck, side.violations, story.ledger, story.handed_out])}")
    finally:
        first.stop()
        second.stop()
    story.after = await pods(cluster)
    story.violations = side.violations
    story.left = {case: [key for key in await annotations(cluster, case) if "lock" in key] for case in CASES}
    for record in cluster.plane.audit(since=mark):
        if record.subresource == "binding" and record.code == 201:
            story.bindings[record.name] += 1
    return story


async def allocating(cluster: Cluster) -> bool:
    return len(cluster.nodes.held) == len(CASES)


async def waiting(operator: OperatorProcess, pods: int) -> bool:
    """Tell whether so many pods wait at each node; the one at its turn is not counted."""
    return await operator.metric("vgpu_scheduler_bind_queue_depth") >= len(CASES) * (pods - 1)


async def settled(cluster: Cluster, operator: OperatorProcess, story: Story) -> bool:
    """Tell whether what the operator has booked is what the plugins have handed out."""
    page = await operator.ledger()
    story.ledger, story.drift = page["ledger"], page["drift"]
    for case in CASES:
        used = cluster.nodes.used(case)
        story.handed_out[case] = {card: (held.slots, held.memory, held.cores) for card, held in used.items()}
        story.slices[case] = cluster.nodes.slices(case)
    return not story.drift and all(booked(story, case) == story.handed_out[case] for case in CASES)


def booked(story: Story, case: str) -> dict[str, tuple[int, ...]]:
    return {card: tuple(used[:3]) for card, used in story.ledger.get(case, {}).items()}


def running(pod: Obj) -> str:
    return str(pod["status"].get("phase", ""))


def of_case(pods: Mapping[str, Obj], case: str) -> dict[str, Obj]:
    return {name: pod for name, pod in pods.items() if pod["spec"]["nodeSelector"]["case"] == case}


async def pods(cluster: Cluster) -> dict[str, Obj]:
    return {pod["metadata"]["name"]: pod for pod in await cluster.pods()}


async def annotations(cluster: Cluster, node: str) -> dict[str, str]:
    return dict((await cluster.node(node))["metadata"].get("annotations", {}))


@pytest.fixture(scope="module")
def story(installed_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Story:
    """What was seen; the cluster is gone again."""
    return played(installed_plane, tmp_path_factory.mktemp("vendors"), told)


@pytest.mark.parametrize("case", CASES)
def test_a_pod_is_allocating_when_the_operator_is_killed(story: Story, case: str) -> None:
    pod = story.before[f"{case}-held"]
    assert pod["spec"]["nodeName"] == case
    assert pod["metadata"]["annotations"]["hami.io/bind-phase"] == "allocating"
    assert running(pod) == "Pending"
    lock = story.locks[case]
    assert bool(lock) is bool(CASES[case].lock)
    if CASES[case].lock == "hami.io/mutex.lock":
        assert lock.endswith(f",default,{case}-held")


@pytest.mark.parametrize("case", CASES)
def test_nobody_is_bound_before_the_plugin_has_answered(story: Story, case: str) -> None:
    bound = {name: pod["spec"].get("nodeName", "") for name, pod in of_case(story.held, case).items()}
    assert len(bound) == WAITING + 2
    assert {name for name, node in bound.items() if node} == {f"{case}-first", f"{case}-held"}


@pytest.mark.parametrize("case", CASES)
def test_every_pod_runs_once(story: Story, case: str) -> None:
    mine = of_case(story.after, case)
    assert {name: running(pod) for name, pod in mine.items()} == dict.fromkeys(mine, "Running")
    assert {name: story.bindings[name] for name in mine} == dict.fromkeys(mine, 1)
    assert mine[f"{case}-held"]["metadata"]["uid"] == story.before[f"{case}-held"]["metadata"]["uid"]
    assert [text for text in story.violations if f" on {case}: " in text] == []


@pytest.mark.parametrize("case", CASES)
def test_no_lock_is_left_behind(story: Story, case: str) -> None:
    assert story.left[case] == []


@pytest.mark.parametrize("case", CASES)
def test_the_books_are_those_of_the_plugins(story: Story, case: str) -> None:
    assert booked(story, case) == story.handed_out[case]
    assert sum(slots for slots, *_ in story.handed_out[case].values()) >= WAITING + 2
    slices = {card: [n for n, taken in enumerate(used[4:]) if taken] for card, used in story.ledger[case].items()}
    assert {card: taken for card, taken in slices.items() if taken} == story.slices[case]
    assert bool(story.slices[case]) is case.startswith("mig-")
