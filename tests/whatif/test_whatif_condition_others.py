"""Whoever sees no node is left without an answer for no reason that there is; and whoever does what it says gets it."""

from __future__ import annotations

import copy
import re
from typing import Any

import numpy as np
import pytest
from tests.seeds import seeds
from tests.whatif.test_whatif_condition_remedies import HAMI, answer
from tests.whatif.test_whatif_remedies import node, pod, running, world_of
from tests.whatif.test_whatif_remedies_dialects import (
    BYTES,
    CORE,
    CORES,
    MEMORY,
    NUMBER,
    PERCENT,
    RATIO,
    SHARED,
    cluster,
)

from vgpu_scheduler.engine import ClosureCause, EngineOptions
from vgpu_scheduler.model import CardReason
from vgpu_scheduler.predicates import Reason
from vgpu_scheduler.predicates import reasons as filters
from vgpu_scheduler.whatif import World, make_dialect, remedies_from_condition
from vgpu_scheduler.whatif.tenant_advice.others import ADVICE_BY_REASON

Object = dict[str, Any]

REASONS = [
    *(reason.text for reason in CardReason),
    *(reason.text for reason in vars(filters).values() if isinstance(reason, Reason)),
    *(cause.text for cause in ClosureCause),
]
ASKED = re.compile(r"ask (\d+) of (\S+) .*?in container (\w+)")
LEFT_OUT = re.compile(r"leave out (\S+(?: and \S+)*) in containers? (\w+(?:, \w+)*)")
MOST_ROUNDS = 4


def containers(written: Object) -> list[Object]:
    spec = written["spec"]
    return [*spec.get("initContainers", ()), *spec["containers"]]


def done(written: Object, remedy: str) -> Object:
    """Return a pod that does what a remedy says, in whichever containers."""
    changed = copy.deepcopy(written)
    limits = {each["name"]: each["resources"]["limits"] for each in containers(changed)}
    for amount, name, container in ASKED.findall(remedy):
        limits[container][name] = amount
    for names, where in LEFT_OUT.findall(remedy):
        for container in where.split(", "):
            for name in names.split(" and "):
                limits[container].pop(name, None)
    assert changed != written, remedy
    return changed


def told_of(message: str, limits: Object, dialect: str = "hami") -> tuple[str, ...]:
    objects = cluster(dialect, [[]]) if dialect != "hami" else [node("a")]
    world, waiting = world_of(*objects, pod("asked", limits), dialect=dialect)
    return remedies_from_condition(world, waiting, message, "").remedies


@pytest.mark.parametrize("reason", [*REASONS, filters.insufficient("example.com/licence").text])
@pytest.mark.parametrize("count", ["", "3 "])
def test_there_is_no_reason_of_which_nothing_is_said(reason: str, count: str) -> None:
    """A new reason needs an entry in :data:`ADVICE_BY_REASON`, beside what is advised about what pods ask."""
    assert told_of(f"0/3 nodes are available: {count}{reason}.", {HAMI[0]: 1, HAMI[1]: 1})


def test_what_is_said_otherwise_is_said_of_each_reason_and_of_nothing_else() -> None:
    assert sorted(ADVICE_BY_REASON) == sorted(REASONS)


@pytest.mark.parametrize("seed", seeds(3, 30))
def test_a_pod_that_asks_all_compute_of_cards_in_use_leaves_some_of_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    objects = []
    for number in range(int(rng.integers(1, 3))):
        objects.append(node(f"n{number}", cards=2))
        objects += [running(f"r{number}-{n}", f"n{number}", f"GPU-n{number}-{n}", 1000) for n in range(2)]
    written = pod("asked", {HAMI[0]: int(rng.integers(1, 3)), HAMI[1]: 1000, HAMI[2]: 100})
    if rng.random() < 0.5:
        more = {HAMI[0]: "1", HAMI[1]: "500", HAMI[2]: "100"}
        written["spec"]["initContainers"] = [{"name": "first", "resources": {"limits": more}}]
    _, told = answer(world_of(*objects, written)[0])
    assert told.remedies[0].startswith(f"ask 99 of {HAMI[2]} instead of 100 in container "), told.remedies
    for _ in range(MOST_ROUNDS):
        where, told = answer(world_of(*objects, written)[0])
        if where:
            break
        written = done(written, told.remedies[0])
    assert where
    assert [each["resources"]["limits"][HAMI[2]] for each in containers(written)] == ["99"] * len(containers(written))


def test_so_does_one_that_asks_in_the_names_of_volcano() -> None:
    objects = cluster("volcano", [[(1000, 0)], [(1000, 0)]])
    written = pod("asked", {NUMBER: 1, MEMORY: 1000, CORES: 100})
    _, told = answer(world_of(*objects, written, dialect="volcano")[0])
    assert told.remedies[0].startswith(f"ask 99 of {CORES} instead of 100 in container main")
    assert answer(world_of(*objects, done(written, told.remedies[0]), dialect="volcano")[0])[0]


@pytest.mark.parametrize("limits", [{}, {HAMI[2]: 100}])
def test_a_pod_that_takes_idle_cards_only_is_not_told_to_leave_some_compute(limits: Object) -> None:
    policy = {
        "kind": "ClusterVGPUPolicy",
        "metadata": {"name": "c", "uid": "c"},
        "spec": {"devices": {"policy": "mutex"}},
    }
    objects = [policy, node("a", cards=1), running("r", "a", "GPU-a-0", 1000)]
    world, waiting = world_of(*objects, pod("asked", {HAMI[0]: 1, HAMI[1]: 1000, **limits}))
    message = "0/1 nodes are available: 1 ExclusiveDeviceAllocateConflict."
    (told,) = remedies_from_condition(world, waiting, message, "").remedies
    assert told == "wait until other pods end, or ask for a node more: the pod gets no card that others use"


@pytest.mark.parametrize("count", [5, 6])
def test_fewer_cards_are_asked_where_so_many_do_not_belong_together(count: int) -> None:
    name = "aws.amazon.com/neuron"
    amounts = {"cpu": "8", "pods": "9", name: "16", "aws.amazon.com/neuroncore": "32"}
    labels = {"node.kubernetes.io/instance-type": "trn1.32xlarge"}
    made = {
        "kind": "Node",
        "metadata": {"name": "a", "labels": labels},
        "status": {"allocatable": amounts, "capacity": amounts},
    }
    written = pod("asked", {name: count})
    _, told = answer(world_of(made, written)[0])
    assert told.remedies[0].startswith(f"ask 1 of {name} instead of {count} in container main")
    assert answer(world_of(made, done(written, told.remedies[0]))[0])[0]


@pytest.mark.parametrize("count", [2, 3])
def test_containers_that_cannot_have_the_same_card_leave_theirs_out(count: int) -> None:
    name = "metax-tech.com/gpu"
    amounts = {"cpu": "8", "pods": "9", name: "8"}
    made = {"kind": "Node", "metadata": {"name": "a"}, "status": {"allocatable": amounts, "capacity": amounts}}
    written = pod("asked", {name: 1})
    written["spec"]["containers"] += [{"name": f"c{n}", "resources": {"limits": {name: "1"}}} for n in range(1, count)]
    _, told = answer(world_of(made, written)[0])
    assert len(told.remedies) == count
    for _ in range(count - 1):
        written = done(written, answer(world_of(made, written)[0])[1].remedies[0])
    assert answer(world_of(made, written)[0])[0]


def koordinator(seed: int) -> Object:
    """Return a pod that asks in two containers for what Koordinator does not understand together."""
    rng = np.random.default_rng(seed)
    one, other = [
        ({SHARED: 1, CORE: 10, RATIO: 20}, {BYTES: "1Gi"}),
        ({PERCENT: 100}, {PERCENT: 50}),
        ({PERCENT: 50}, {RATIO: 50, CORE: 50}),
        ({SHARED: 3, CORE: 160, RATIO: 60}, {}),
        ({CORE: 200, RATIO: 50}, {CORE: 20, RATIO: 20}),
    ][seed % 5]
    written = pod("asked", one)
    limits = {name: str(amount) for name, amount in other.items()}
    written["spec"]["containers"].append({"name": "second", "resources": {"limits": limits}})
    if rng.random() < 0.5:
        written["spec"]["containers"].reverse()
    return written


@pytest.mark.parametrize("seed", [*range(5), *seeds(0, 20)[5:]])
def test_a_pod_that_koordinator_does_not_understand_is_told_how_it_would(seed: int) -> None:
    objects, written = cluster("koordinator", [[], [], []]), koordinator(seed)
    _, told = answer(world_of(*objects, written, dialect="koordinator")[0])
    assert told.remedies
    for remedy in told.remedies:
        assert ASKED.match(remedy) or LEFT_OUT.match(remedy), remedy
        assert answer(world_of(*objects, done(written, remedy), dialect="koordinator")[0])[0], remedy


@pytest.mark.parametrize(("asked", "meant"), [(0, 1), (101, 100), (200, 100)])
def test_what_is_no_percentage_is_told_as_the_nearest_one(asked: int, meant: int) -> None:
    names = [f"amd.com/{name}" for name in ("gpu", "gpumem", "gpucores")]
    world, _ = world_of(node("a"), pod("asked", {names[0]: 1, names[1]: 100, names[2]: asked}))
    _, told = answer(world)
    assert told.remedies == (f"ask {meant} of {names[2]} instead of {asked} in container main",)
    again, _ = world_of(node("a"), done(pod("asked", {names[0]: 1, names[1]: 100, names[2]: asked}), told.remedies[0]))
    assert "percentage" not in str(answer(again)[1])


NO_POLICY = "ClusterVGPUPolicy dev: spec.devices.numa: must be one of 'None' or 'Required'"
REFUSALS = {
    "koordinator.sh/gpu: 150 is more than one device: write up to 100": (
        "write up to 100: koordinator.sh/gpu: 150 is more than one device"
    ),
    f"PolicyNotReady: {NO_POLICY}": NO_POLICY.replace("dev: ", "dev corrected by a user who may write it: "),
    "PolicyNotReady: the labels of the namespace, which ClusterVGPUPolicy dev reads, are not known": (
        "wait until the scheduler has read the namespace: its labels, which ClusterVGPUPolicy dev reads, are not known"
    ),
    "PolicyNotReady: internal error: ValueError('x: y')": (
        "ask an administrator of the scheduler: internal error: ValueError('x: y')"
    ),
    "devices.modes: Koordinator's devices have no sharing modes; remove it": (
        "a policy changed that the dialect of the pod's cards does not follow: {}"
    ),
    "group default/g needs 3 to be placed at once, and there is room for 2": (
        "wait until other pods end, or ask for a node more, or have the group need less: {}"
    ),
    "koordinator.sh/npu is not supported by this version: remove it": "correct the reason for the refusal: {}",
    "something else is wrong": "correct the reason for the refusal: {}",
}


@pytest.mark.parametrize("why", REFUSALS)
def test_what_a_message_says_itself_is_said_again(why: str) -> None:
    (told,) = told_of(f"0/3 nodes are available: {why}.", {HAMI[0]: 1})
    assert told.removeprefix("have ") == REFUSALS[why].format(why)


def test_nothing_is_made_up_where_nobody_has_said_anything() -> None:
    assert told_of("", {HAMI[0]: 1}) == ()
    (told,) = told_of("no nodes available to schedule pods", {HAMI[0]: 1})
    assert told.startswith("have nodes added")


def test_what_is_said_of_preemption_is_no_reason_of_nodes() -> None:
    counted = "0/3 nodes are available: 3 CardCordoned. preemption: 0/3 nodes are available: 3 No victims found."
    (told,) = told_of(counted, {HAMI[0]: 1})
    assert told.startswith("wait until the nodes or the pods on them change: no request of this pod")


@pytest.mark.parametrize("cause", ClosureCause)
def test_that_closed_nodes_are_waited_for_is_said_beside_what_helps_on_others(cause: ClosureCause) -> None:
    asks = {HAMI[0]: 1, HAMI[1]: 9000}
    first, last = told_of(f"0/3 nodes are available: 1 {cause.text}, 2 CardInsufficientMemory.", asks)
    assert first == f"ask for less than 9000 of {HAMI[1]} in container main"
    assert last.startswith("wait: nodes that would fit take no pods with cards now")


def test_nodes_without_cards_mean_nothing_where_others_have_them_and_are_closed() -> None:
    vmlu = "cambricon.com/vmlu"
    said = f"1 {ClosureCause.PLUGIN_SILENT.text}, 1 {filters.TAINT.text}, 11 Insufficient {vmlu}"
    told = told_of(f"0/13 nodes are available: {said}.", {vmlu: 1, "cambricon.com/mlu.smlu.vmemory": 10})
    assert told[0].startswith("wait: nodes that would fit take no pods with cards now")
    assert not any("none or too few" in each for each in told)


@pytest.mark.parametrize(
    "limits", [{"enflame.com/drs-gcu": 2}, {"enflame.com/drs-gcu": 7}, {"enflame.com/gcu-memory": 60000}]
)
def test_where_no_card_has_pieces_of_a_size_less_is_asked(limits: Object) -> None:
    ((name, amount),) = limits.items()
    said = f"0/13 nodes are available: 1 ModeNotFit, 1 {filters.TAINT.text}, 11 Insufficient {name}."
    less = f"ask for less than {amount} of {name} in container main: no card is split into pieces of that size"
    assert told_of(said, limits)[0] == less


@pytest.mark.parametrize(
    ("count", "memory", "unit"),
    [
        ("mthreads.com/vgpu", "mthreads.com/sgpu-memory", 512),
        ("cambricon.com/vmlu", "cambricon.com/mlu.smlu.vmemory", 256),
    ],
)
def test_a_unit_that_the_name_does_not_tell_is_named(count: str, memory: str, unit: int) -> None:
    (told,) = told_of("0/12 nodes are available: 12 CardInsufficientMemory.", {count: 1, memory: 64})
    assert told == f"ask for less than 64 of {memory} in container main (in units of {unit} MiB)"


def test_as_few_cards_are_asked_as_can_be() -> None:
    names = "mthreads.com/vgpu", "mthreads.com/sgpu-memory", "mthreads.com/sgpu-core"
    said = f"0/13 nodes are available: 1 NodeInsufficientDevice, 1 {filters.TAINT.text}, 11 Insufficient {names[0]}."
    told = told_of(said, dict(zip(names, (3, 18, 6), strict=True)))
    less = "ask 2 of mthreads.com/vgpu instead of 3 in container main, 1 less (more may fit, or less: "
    assert any(each.startswith(less) for each in told)
    assert any(each.startswith(f"ask for 2 cards instead of 3 in container main: 2 of {names[0]}") for each in told)


def test_fewer_cards_are_asked_where_nodes_lack_several_of_their_resources() -> None:
    lacking = f"12 Insufficient {CORE}, 12 Insufficient {RATIO}"
    told, wait = told_of(f"0/12 nodes are available: {lacking}.", {CORE: 300, RATIO: 300}, "koordinator")
    fewer = "ask for fewer than 3 cards in container main"
    assert told == f"{fewer}: nodes have none or too few of {CORE} and {RATIO} left"
    assert wait.endswith(f": they may use all that nodes have of {CORE} and {RATIO}")


def test_a_resource_that_nodes_may_not_have_at_all_is_left_out() -> None:
    percent = "volcano.sh/vgpu-memory-percentage"
    said = f"0/12 nodes are available: 12 Insufficient {percent}."
    (told,) = told_of(said, {NUMBER: 1, percent: 120}, "volcano")
    less = "or ask for less than 120 of it: nodes have none or too few of it left"
    assert told == f"leave out {percent} in container main, {less}"


@pytest.mark.parametrize("reason", [filters.INTER_POD_AFFINITY, filters.SPREAD_LABEL])
def test_nodes_without_cards_mean_nothing_where_a_constraint_keeps_the_pod_from_others(reason: Reason) -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "none"}}}
    spread = {**term, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    field = {
        filters.INTER_POD_AFFINITY: {
            "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        },
        filters.SPREAD_LABEL: {"topologySpreadConstraints": [spread]},
    }[reason]
    world, asked = world_of(node("a"), pod("asked", {HAMI[0]: 1}, **field))
    said = f"0/12 nodes are available: 4 {reason.text}, 8 Insufficient {HAMI[0]}."
    told = remedies_from_condition(world, asked, said, "").remedies
    assert told
    assert next(iter(field)) in told[0]
    assert not any("none or too few" in each for each in told)


def test_a_pod_that_asks_for_cards_apart_from_its_group_is_told_to_leave_that_out() -> None:
    world = World(EngineOptions([make_dialect("volcano")]))
    name = "volcano.sh/vgpu-podgroup-policy"
    notes = {"scheduling.k8s.io/group-name": "g", name: "spread"}
    written = {**pod("asked", {"volcano.sh/vgpu-number": 1}, metadata={"annotations": notes})}
    said = "0/1 nodes are available: 1 CardHeldByPeer."
    found = remedies_from_condition(world, world.pod(written), said, "")
    assert f"leave out its annotation {name} (spread)" in found.remedies, found.remedies


@pytest.mark.parametrize("message", ["", "0/1 nodes are available: 1 CardInsufficientMemory."])
def test_of_a_card_of_which_an_event_says_nothing_that_is_known_no_empty_advice_is_given(
    message: str,
) -> None:
    world, waiting = world_of(node("a", cards=1), pod("asked", {HAMI[0]: 1, HAMI[1]: 2000}))
    found = remedies_from_condition(world, waiting, message, "nearest: 3 of 4 parts free on a/GPU-a-0")
    assert found.near_miss is not None
    assert not found.near_miss.shortages
    assert all(found.advice)
    assert bool(found.advice) is bool(message)


@pytest.mark.parametrize("cordoned", [0, 1, 40])
@pytest.mark.parametrize("tainted", [0, 2])
@pytest.mark.parametrize(
    ("spec", "reason", "keeps"),
    [
        ({"nodeSelector": {"pool": "x"}}, "node(s) didn't match Pod's node affinity/selector", "nodeSelector"),
        ({}, "CardTypeMismatch", "nvidia.com/use-gputype"),
        ({}, "Insufficient cpu", "of cpu"),
        ({}, "", ""),
    ],
)
def test_nodes_that_are_cordoned_may_be_the_ones_that_fit(
    spec: dict[str, Any], reason: str, keeps: str, cordoned: int, tainted: int
) -> None:
    asked = pod("p", {HAMI[0]: 1, "cpu": "4"}, **spec)
    asked["metadata"]["annotations"] = {"nvidia.com/use-gputype": "H100"}
    world, waiting = world_of(node("a"), asked)
    taint, cordon = "node(s) had untolerated taint(s)", "node(s) were unschedulable"
    counts = ((3 if reason else 0, reason), (tainted, taint), (cordoned, cordon))
    told = ", ".join(f"{number} {why}" for number, why in counts if number)
    if not told:
        return
    total = sum(number for number, _ in counts)
    remedies = remedies_from_condition(world, waiting, f"0/{total} nodes are available: {told}.", "").remedies
    uncordoned = sum("have cordoned nodes uncordoned, or wait until they are" in each for each in remedies)
    assert uncordoned == bool(cordoned), remedies
    assert any("tolerate a taint" in each for each in remedies) is (bool(tainted) and reason != "Insufficient cpu")
    assert not keeps or any(keeps in each for each in remedies)
