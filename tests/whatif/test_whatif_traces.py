"""Traces: their format, what arrives when, the replay through the engine, its audit and its measures."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from tests.naive import packing as naive
from tests.whatif.traces import NODES, PODS, random_nodes, random_pods

from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.model import WHOLE
from vgpu_scheduler.whatif import InvalidObjectsError, World, make_dialect
from vgpu_scheduler.whatif.traces import (
    CONTENDERS,
    Arrivals,
    AuditError,
    CardLocation,
    EnginePlacer,
    Fleet,
    Room,
    Run,
    RunResult,
    Summary,
    TraceError,
    TraceNode,
    TracePod,
    churning_run,
    fragmentation,
    measure,
    nodes_of_cluster,
    parse_nodes,
    parse_pods,
    replay,
    static_run,
    synthetic_nodes,
    synthetic_pods,
    typical_pods,
)

NONE = np.zeros(0)
CARD = TracePod(1000, 1024, 1, 100)
HALF = TracePod(1000, 1024, 1, 50)
PLAIN = TracePod(1000, 1024)


def node(cards: int = 2, *, name: str = "n", cpu: int = 8000, memory: int = 16384, model: str = "T4") -> TraceNode:
    return TraceNode(name, cpu, memory, (model,) * cards)


def result(fleet: Fleet, pods: list[TracePod], locations: list[CardLocation | None]) -> RunResult:
    return measure(Run(0, fleet, Arrivals(pods, range(len(pods)), NONE)), locations, typical_pods(pods))


# The format ----------------------------------------------------------------------------------------------------------


def test_lists_are_read() -> None:
    assert parse_nodes(NODES, "nodes.csv") == [
        TraceNode("a", 8000, 16384, ("T4", "T4")),
        TraceNode("b", 8000, 16384, ()),
    ]
    assert parse_pods(PODS, "pods.csv") == [
        TracePod(1000, 1024, 1, 100),
        TracePod(1000, 1024, 1, 60, ("A10", "T4")),
        TracePod(2000, 1024),
    ]


def test_smaller_parts_than_a_percent_are_rounded_up() -> None:
    (pod,) = parse_pods("cpu_milli,memory_mib,num_gpu,gpu_milli\n1,1,1,331\n", "pods.csv")
    assert pod.share == 34


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "gpu,model",
            "cards,model",
            "nodes.csv:1: there is no column gpu; it has sn, cpu_milli, memory_mib, cards, model",
        ),
        (
            "8000,16384,2",
            "8 cores,16384,2",
            "nodes.csv:2: cpu_milli: '8 cores' is not a whole number from 0 to 1000000000",
        ),
        ("8000,16384,2", "8000,-1,2", "nodes.csv:2: memory_mib: '-1' is not a whole number from 0 to 1000000000"),
        ("8000,16384,2", "8000,16384,65", "nodes.csv:2: gpu: 65 is more than 64"),
        ("2,T4", "2,", "nodes.csv:2: model: it is empty, and the node has cards"),
        ("b,8000,16384,0,", "b,8000,16384", "nodes.csv:3: gpu: the row ends before it"),
        ("b,8000,16384,0,", "b,8000,16384,0,,x", "nodes.csv:3: model: the row has more cells"),
        ("\nb,", "\na,", "nodes.csv:3: sn: a is given twice"),
        ("\nb,", "\n,", "nodes.csv:3: sn: it is empty"),
        ("b,8000", '"b,8000', "nodes.csv:3: not valid CSV: unexpected end of data"),
        (NODES.partition("\n")[2], "", "nodes.csv: there is no node in it"),
        (NODES, "", "nodes.csv:1: there is no column sn; it has none"),
    ],
)
def test_malformed_nodes_are_named(old: str, new: str, message: str) -> None:
    assert old in NODES
    with pytest.raises(TraceError) as raised:
        parse_nodes(NODES.replace(old, new, 1), "nodes.csv")
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "gpu_milli",
            "milli",
            "there is no column gpu_milli; it has name, cpu_milli, memory_mib, num_gpu, milli, gpu_spec, qos",
        ),
        ("1,600", "1,1001", "gpu_milli: 1001 is more than 1000"),
        ("1,600", "1,0", "gpu_milli: it is 0, and num_gpu is 1"),
        ("1,600", "1.5,600", "num_gpu: '1.5' is not a whole number from 0 to 64"),
        ("1,600", "65,600", "num_gpu: 65 is more than 64"),
        ("1,600", "1,٦", "gpu_milli: '٦' is not a whole number from 0 to 1000"),
        (PODS.partition("\n")[2], "", "there is no pod in it"),
    ],
)
def test_malformed_pods_are_named(old: str, new: str, message: str) -> None:
    assert old in PODS
    with pytest.raises(TraceError, match=r"^pods.csv(:[13])?: ") as raised:
        parse_pods(PODS.replace(old, new, 1), "pods.csv")
    assert str(raised.value).endswith(f": {message}")


def test_a_fleet_without_cards_is_refused() -> None:
    with pytest.raises(TraceError, match="no node has a card"):
        Fleet([node(0)])
    with pytest.raises(TraceError, match="no pod of the workload asks for a card"):
        static_run(Fleet([node()]), [PLAIN], 1)


# What arrives --------------------------------------------------------------------------------------------------------


def test_the_synthetic_workload_has_the_published_shares() -> None:
    pods = synthetic_pods()
    kinds = Counter((pod.cards, pod.share < WHOLE) for pod in pods)
    assert len(pods) == 10_000
    shares = {(0, True): 13.3, (1, True): 37.8, (1, False): 48.0, (2, False): 0.2, (4, False): 0.2, (8, False): 0.5}
    assert kinds.keys() == shares.keys()
    assert all(abs(kinds[kind] / 100 - share) < 0.05 for kind, share in shares.items())
    fleet = Fleet(synthetic_nodes())
    assert (len(fleet.nodes), fleet.capacity) == (1213, 621_200)


def test_arrivals_are_a_function_of_the_seed() -> None:
    rng = np.random.default_rng(7)
    fleet, pods = Fleet(random_nodes(rng, 20)), random_pods(rng, 50)
    one, again, other = (static_run(fleet, pods, seed) for seed in (1, 1, 2))
    assert (one.arrivals.pods, one.fleet.nodes) == (again.arrivals.pods, again.fleet.nodes)
    assert one.arrivals.pods != other.arrivals.pods
    assert one.fleet.nodes != other.fleet.nodes
    assert sorted(one.fleet.nodes, key=str) == sorted(fleet.nodes, key=str)
    assert static_run(fleet, pods, 1, shuffled=False).fleet.nodes == fleet.nodes
    first, second = churning_run(fleet, pods, 1, 1.0).arrivals, churning_run(fleet, pods, 1, 1.0).arrivals
    assert (first.pods, first.steps, first.times.tolist()) == (second.pods, second.steps, second.times.tolist())


@pytest.mark.parametrize("count", [3, 300])
def test_as_much_arrives_as_130_percent_of_the_cards(count: int) -> None:
    fleet = Fleet([node(4, name=f"n-{number}") for number in range(5)])
    pods = static_run(fleet, [HALF] * count, 3).arrivals.pods
    assert sum(pod.demand for pod in pods) == 2600


def test_churn_is_as_heavy_as_its_load() -> None:
    fleet = Fleet([node(8, name=f"n-{number}") for number in range(50)])
    arrivals = churning_run(fleet, [HALF, CARD], 1, 0.8).arrivals
    demand = at_end = 0.0
    lasting = np.diff(arrivals.times, append=5.0)
    for step, lasts in zip(arrivals.steps, lasting, strict=True):
        at_end += arrivals.pods[step].demand if step >= 0 else -arrivals.pods[~step].demand
        demand += at_end * lasts * (arrivals.times[-1] > 0)
    # a fleet that is empty at first has 1 - exp(-t) of its load after t lifetimes: 0.80 of it on average over five
    assert demand / 5 / fleet.capacity == pytest.approx(0.8 * (1 - (1 - np.exp(-5)) / 5), rel=0.1)
    assert np.all(np.diff(arrivals.times) >= 0)
    assert min(arrivals.steps) < 0


# The audit -----------------------------------------------------------------------------------------------------------


def test_a_replay_by_hand() -> None:
    """Three of five pods fit on one node with two cards: demand 50, 100, 100, 200 and 250 of 200 percent."""
    fleet = Fleet([node(2), node(1, name="m", model="A10")])
    pods = [HALF, replace(HALF, models=("A10",)), PLAIN, TracePod(0, 0, 2, 100), HALF]
    locations = [CardLocation(0, (0,)), CardLocation(1, (0,)), CardLocation(0, ()), None, CardLocation(0, (0,))]
    found = result(fleet, pods, locations)
    # demand in percent of 300: 16.7, 33.3, 33.3, 100, 116.7; given out: 50, 100, 100, 100, 150
    assert found.curve[16] == 0.0
    assert found.curve[17] == pytest.approx(100 * 50 / 300)
    assert found.curve[33] == pytest.approx(100 * 100 / 300)  # the mean of both arrivals there
    assert found.curve[99] == pytest.approx(100 * 100 / 300)
    assert found.curve[130] == pytest.approx(50.0)
    at_100, at_110, at_130 = found.points
    assert (at_100.demand, at_100.rejected, at_100.idle_nodes, at_100.idle_cards) == (100, 1, 0, 1)
    assert at_100.allocation == pytest.approx(100 / 3)
    assert at_110.allocation == pytest.approx(100 / 3)  # that of the arrival before
    assert (at_110.idle_cards, at_130.allocation) == (1, pytest.approx(50.0))
    assert (found.arrived, found.withheld) == (5, 0)


def test_a_churn_by_hand() -> None:
    fleet, pods = Fleet([node(2)]), [CARD, HALF, CARD]
    times = np.array([1.0, 2.0, 4.0, 4.5])
    run = Run(0, fleet, Arrivals(pods, [0, 1, ~0, 2], times), 0.7)
    found = measure(run, [CardLocation(0, (0,)), CardLocation(0, (1,)), CardLocation(0, (0,))], typical_pods(pods))
    # from 3 to 4: 150 of 200, to 4.5: 50, to 5: 150
    (end,) = found.points
    assert end.allocation == pytest.approx(100 * (150 * 1 + 50 * 0.5 + 150 * 0.5) / 2 / 200)
    assert (end.demand, found.curve) == (70, [])


@pytest.mark.parametrize(
    ("pods", "locations", "message"),
    [
        ([CARD, HALF], [CardLocation(0, (0,)), CardLocation(0, (0,))], "50 more percent of card 0 than there is"),
        ([replace(CARD, cpu=9000)], [CardLocation(0, (0,))], "1000 more millicores of cpu than there is"),
        ([replace(PLAIN, memory=16385)], [CardLocation(0, ())], "1 more MiB of memory than there is"),
        ([TracePod(0, 0, 1, 1)] * 11, [CardLocation(0, (1,))] * 11, "1 more shares of card 1 than there is"),
        ([PLAIN] * 4, [CardLocation(1, ())] * 4, "1 more pods than there is"),
        ([replace(CARD, cards=2)], [CardLocation(0, (0,))], "it asked for 2 cards"),
        ([replace(CARD, cards=2)], [CardLocation(0, (1, 1))], "it asked for 2 cards"),
        ([PLAIN], [CardLocation(0, (0,))], "it asked for 0 cards"),
        ([CARD], [CardLocation(0, (2,))], "there is no card 2"),
        ([replace(CARD, models=("A10",))], [CardLocation(0, (1,))], "card 1 is of model T4"),
    ],
)
def test_the_audit_finds_what_cannot_be(
    pods: list[TracePod], locations: list[CardLocation | None], message: str
) -> None:
    fleet = Fleet([node(2), replace(node(0, name="few"), pods=3)])
    with pytest.raises(AuditError, match=message):
        result(fleet, pods, locations)


def test_the_audit_gives_back_what_leaves() -> None:
    fleet, pods = Fleet([node(1)]), [CARD, CARD]
    both = [CardLocation(0, (0,)), CardLocation(0, (0,))]
    gone = Run(0, fleet, Arrivals(pods, [0, ~0, 1], np.array([1.0, 2.0, 3.0])), 1.0)
    assert measure(gone, both, typical_pods(pods)).points[0].rejected == 0
    with pytest.raises(AuditError):
        measure(replace(gone, arrivals=Arrivals(pods, [0, 1, ~0], np.array([1.0, 2.0, 3.0]))), both, typical_pods(pods))


def test_the_audit_finds_pods_that_were_kept_from_a_node_with_room() -> None:
    fleet = Fleet([node(2)])
    assert result(fleet, [CARD, CARD, CARD], [CardLocation(0, (0,)), None, None]).withheld == 2
    assert result(fleet, [CARD, CARD, CARD], [CardLocation(0, (0,)), CardLocation(0, (1,)), None]).withheld == 0


@pytest.mark.parametrize("seed", range(20))
def test_fragmentation_is_what_the_paper_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fleet, pods = Fleet(random_nodes(rng, 6)), random_pods(rng, 40)
    mix, room, boxes = typical_pods(pods), Room.of(fleet), naive.empty(fleet.nodes)
    for row, box in enumerate(boxes):
        box.cpu = room.cpu[row] = int(rng.integers(0, box.cpu))
        box.left = [int(left) for left in rng.integers(0, WHOLE + 1, len(box.left))]
        room.cards[row, : len(box.left)] = box.left
    assert fragmentation(fleet, room, mix) == pytest.approx(sum(naive.fragments(box, mix) for box in boxes))


def test_typical_pods_are_the_most_frequent() -> None:
    pods = [CARD] * 90 + [replace(CARD, memory=1)] * 4 + [HALF] * 4 + [PLAIN] * 2
    assert [(one.pod, one.weight) for one in typical_pods(pods)] == [
        (replace(CARD, memory=0), 94 / 98),
        (replace(HALF, memory=0), 4 / 98),
    ]


# The engine ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONTENDERS)
@pytest.mark.parametrize("load", [None, 1.5])
def test_the_engine_gives_no_card_twice_and_rejects_nobody_who_fits(name: str, load: float | None) -> None:
    rng = np.random.default_rng(11)
    fleet, pods = Fleet(random_nodes(rng, 12)), random_pods(rng, 60)
    run = static_run(fleet, pods, 5) if load is None else churning_run(fleet, pods, 5, load)
    locations = replay(run.arrivals, EnginePlacer(run.fleet, CONTENDERS[name].policies))
    found = measure(run, locations, typical_pods(pods))
    assert found.withheld == 0
    assert 0 < found.points[0].rejected < found.arrived
    assert any(location is not None and len(location.cards) > 1 for location in locations)


def test_models_are_whole_names() -> None:
    fleet = Fleet([node(1, model="A100"), node(1, name="m", model="A10")])
    placer = EnginePlacer(fleet, CONTENDERS["fragmentation"].policies)
    wanted = replace(CARD, models=("A10",))
    assert [placer.place(0, wanted), placer.place(1, wanted)] == [CardLocation(1, (0,)), None]


def test_equal_nodes_go_by_their_order() -> None:
    fleet = Fleet([node(1, name="z"), node(1, name="a")])
    assert EnginePlacer(fleet, CONTENDERS["fragmentation"].policies).place(0, CARD) == CardLocation(0, (0,))


def test_policies_hold_and_what_they_keep_away_is_counted() -> None:
    denies = {
        "kind": "ClusterVGPUPolicy",
        "metadata": {"name": "no-t4"},
        "spec": {"devices": {"types": {"deny": ["T4"]}}},
    }
    fleet, pods = Fleet([node(2)]), [HALF]
    run = Run(0, fleet, Arrivals(pods, [0], NONE))
    assert measure(run, replay(run.arrivals, EnginePlacer(fleet, [denies])), typical_pods(pods)).withheld == 1
    with pytest.raises(InvalidObjectsError, match="no-t4"):
        EnginePlacer(fleet, [{**denies, "spec": {"devices": {"policy": "nearest"}}}])


def test_what_left_makes_room() -> None:
    placer = EnginePlacer(Fleet([node(1)]), [])
    assert placer.place(0, CARD) == CardLocation(0, (0,))
    assert placer.place(1, CARD) is None
    placer.remove(0)
    assert placer.place(2, CARD) == CardLocation(0, (0,))


def test_a_summary_is_the_mean_of_its_seeds() -> None:
    fleet, pods = Fleet([node(1)]), [CARD]
    run = Run(4, fleet, Arrivals(pods, [0], NONE))
    results = [measure(run, locations, typical_pods(pods)) for locations in ([CardLocation(0, (0,))], [None])]
    summary = Summary("w", "p", [run, replace(run, seed=5)], results)
    assert (summary.mean(0, "allocation"), summary.deviation(0, "allocation")) == (50.0, 50.0)
    found = summary.as_json()
    assert found["points"][0] == {
        "demand": 100,
        "allocation": 50.0,
        "fragmentation": 0.0,
        "rejected": 0.5,
        "idle_nodes": 0.5,
        "idle_cards": 0.5,
    }
    assert [(each["seed"], each["withheld"]) for each in found["runs"]] == [(4, 0), (5, 1)]
    assert found["curve"][99:] == [0.0] + [50.0] * 31


# Nodes of a cluster --------------------------------------------------------------------------------------------------


def test_the_nodes_of_a_cluster_are_taken_without_their_pods() -> None:
    from tests.whatif.test_whatif_remedies import node as written  # noqa: PLC0415
    from tests.whatif.test_whatif_remedies import running  # noqa: PLC0415

    world = World(EngineOptions([make_dialect("hami")]))
    closed, plain = written("closed"), written("plain", cards=0)
    closed["spec"]["unschedulable"] = True
    tainted = written("tainted", cards=0)
    tainted["spec"]["taints"] = [{"key": "control-plane", "effect": "NoSchedule"}]
    world.add([written("a", cards=2, cordoned=(1,)), closed, plain, tainted, running("p", "a", "GPU-a-0", 6000)])
    nodes, left_out = nodes_of_cluster(world)
    assert [(found.name, len(found.models)) for found in nodes] == [("a", 1), ("plain", 0)]
    assert left_out == ["node closed is cordoned", "node tainted has no cards, and taints"]
    assert nodes[0].cpu > 0
    assert nodes[0].card_memory % 100 == 0
    placer = EnginePlacer(Fleet(nodes), CONTENDERS["fragmentation"].policies)
    assert placer.place(0, replace(CARD, cpu=1, memory=1)) == CardLocation(0, (0,))
