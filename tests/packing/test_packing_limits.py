"""Where the rest of packing is lost: what each lifted limit leaves as it was, and the table."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from benchmarks import packing, packing_limits
from tests.whatif.traces import random_nodes, random_pods

from vgpu_scheduler.cli.traces.reading import Trace
from vgpu_scheduler.whatif.traces import CONTENDERS, Fleet, NamedPolicies, TraceNode, TracePod, static_run

ALL_LIMITS = tuple(packing_limits.LIMITS)
SEEDS = pytest.mark.parametrize("seed", range(8))
HALF, CARD = TracePod(1000, 1, 1, 50), TracePod(1000, 1, 1, 100)
FOUR = TracePod(4002, 1027, 4, 100, ("A10",))


def pods(seed: int) -> list[TracePod]:
    return random_pods(np.random.default_rng(seed), 60)


def small() -> Trace:
    rng = np.random.default_rng(3)
    return Trace(random_nodes(rng, 8), {"one": random_pods(rng, 30), "other": random_pods(rng, 30)})


@SEEDS
def test_the_order_alone_changes_where_the_largest_come_first(seed: int) -> None:
    found = packing_limits.largest_first(pods(seed))
    assert Counter(found) == Counter(pods(seed))
    assert all(one.demand >= other.demand for one, other in pairwise(found))


@SEEDS
@pytest.mark.parametrize("limit", packing_limits.LIMITS)
def test_as_much_of_cards_and_memory_is_asked_for_whatever_is_lifted(limit: str, seed: int) -> None:
    found = packing_limits.LIMITS[limit](pods(seed))
    assert sum(pod.demand for pod in found) == sum(pod.demand for pod in pods(seed))
    assert sum(pod.memory for pod in found) == sum(pod.memory for pod in pods(seed))
    cpu = 0 if limit in {"no cpu", packing_limits.ALL} else sum(pod.cpu for pod in pods(seed))
    assert sum(pod.cpu for pod in found) == cpu


def test_the_cards_of_a_pod_share_its_cpu_and_memory_out() -> None:
    one, other = replace(FOUR, cards=1, cpu=1001, memory=257), replace(FOUR, cards=1, cpu=1000, memory=257)
    assert packing_limits.on_several_nodes([FOUR]) == [one, replace(one), other, replace(other, memory=256)]
    plain, half = TracePod(3, 5), TracePod(3, 5, 1, 50)
    assert packing_limits.on_several_nodes([plain, half]) == [plain, half]


def test_each_limit_costs_what_it_keeps_from_being_given_out() -> None:
    """One card is asked for by each pod that a limit keeps out."""
    limits = packing_limits.LIMITS
    nodes = [TraceNode("a", 1000, 10**6, ("T4",)), TraceNode("b", 1000, 10**6, ("A10",))]
    out_of_cpu = [TracePod(2000, 0, 1, 100), TracePod(0, 0, 1, 100)]
    pinned = [TracePod(0, 0, 1, 100, ("T4",)), TracePod(0, 0, 1, 100, ("T4",))]
    pair = [TracePod(0, 0, 2, 100)]
    for asked, limit in ((out_of_cpu, "no cpu"), (pinned, "any model"), (pair, "cards on several nodes")):
        for name in limits:
            task = packing_limits.Task(nodes, asked, "one", "fgd", name, [1])
            (placed,) = packing_limits.place_all(task)
            assert (placed.percent == 100) == (name in {limit, packing_limits.ALL}), (limit, name)
            (bound,) = packing_limits.at_most(task)
            assert bound.percent == pytest.approx(placed.percent, abs=0.02), (limit, name)


@SEEDS
def test_pods_come_until_all_cards_were_asked_for(seed: int) -> None:
    rng = np.random.default_rng(seed)
    run = static_run(Fleet(random_nodes(rng, 6)), random_pods(rng, 40), seed)
    found = packing_limits.until_all_is_asked_for(run.fleet, run.arrivals.pods)
    demand, expected = 0, []
    for pod in run.arrivals.pods:
        demand += pod.demand
        if demand > run.fleet.capacity:
            break
        expected.append(pod)
    assert found == expected


def test_a_policy_that_keeps_pods_away_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    denying = {"devices": {"types": {"deny": ["T4", "A10"]}}}
    shy = NamedPolicies("shy", [{"kind": "ClusterVGPUPolicy", "metadata": {"name": "shy"}, "spec": denying}])
    monkeypatch.setattr(packing, "CONTENDERS", {**CONTENDERS, "shy": shy})
    trace = small()
    task = packing_limits.Task(trace.nodes, trace.workloads["one"], "one", "shy", packing_limits.AS_IT_IS, [1])
    with pytest.raises(packing.PackingError, match=r"one, shy: \d+ pods were rejected that had room"):
        packing_limits.place_all(task)


def test_the_table_has_every_policy_and_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    found = packing_limits.compare(small(), range(2), told.append)
    policies, limits = len(packing_limits.POLICIES), len(packing_limits.LIMITS)
    assert len(told) == len(found) == 2 * (policies + 1) * limits  # two bounds, one of which knows no order
    measured = packing_limits.text(found)
    assert measured.count("| one | ") == measured.count("| other | ") == policies + 2
    assert "the mean of seeds 0 to 1." in measured
    first, second = found[0].mean, found[1].mean
    assert f"| one | fgd | {first:.2f} | {second:.2f} ({second - first:+.2f}) |" in measured
    page = tmp_path / "page.md"
    page.write_text(f"before\n{packing_limits.MARK}\nold\n{packing_limits.MARK}\nbehind\n")
    monkeypatch.setattr("benchmarks.page.TARGET", page)
    packing_limits.write_between(packing_limits.MARK, measured)
    assert page.read_text().count(measured) == 1


def test_who_refuses_a_pod_last_is_the_measure_of_the_bound() -> None:
    trace = small()
    found = packing_limits.compare(trace, range(2), lambda _: None)
    of_one = [one for one in found if one.workload == "one" and one.limit == packing_limits.AS_IT_IS]
    fgd, ours, bound, so_far = of_one
    assert [one.before for one in so_far.placed] == [
        max(pair) for pair in zip(*([one.before for one in policy.placed] for policy in (fgd, ours)), strict=True)
    ]
    assert so_far.mean <= bound.mean + 0.02


def test_more_than_can_be_is_told() -> None:
    task = packing_limits.Task([], [], "one", "fgd", packing_limits.LARGEST, [1])
    bound = replace(task, policy=packing_limits.BOUND, limit=packing_limits.AS_IT_IS)
    placed = [(task, [packing_limits.Placed(50.1, 3)]), (bound, [packing_limits.Placed(50.0, 3)])]
    with pytest.raises(packing.PackingError, match="one, fgd, largest first: more was given out than can be"):
        packing_limits._check(placed)
    packing_limits._check([(task, [packing_limits.Placed(50.0, 3)]), placed[1]])


@pytest.mark.parametrize("pods", [[HALF, CARD], [CARD, HALF]])
def test_the_same_pods_in_the_same_order_are_placed_once(pods: list[TracePod]) -> None:
    asked: list[tuple[str, str]] = []

    def counted(task: packing_limits.Task) -> list[packing_limits.Placed]:
        asked.append((task.policy, task.limit))
        return [packing_limits.Placed(float(len(asked)), 0)]

    tasks = [packing_limits.Task([], pods, "one", policy, limit, [1]) for policy in "ab" for limit in ALL_LIMITS]
    found = {(task.policy, task.limit): placed[0].percent for task, placed in packing_limits._each(counted, tasks, map)}
    assert len(asked) == 2 * 3  # as it is, in another order, and without cpu
    for policy in "ab":
        assert found[policy, "any model"] == found[policy, "cards on several nodes"] == found[policy, "as it is"]
        assert found[policy, packing_limits.ALL] == found[policy, "no cpu"] != found[policy, "as it is"]
    assert len(set(found.values())) == len(asked)


def test_a_difference_that_rounding_makes_is_none() -> None:
    of = [
        packing_limits.Allocation("one", "fgd", limit, [1], [packing_limits.Placed(50 - 1e-9 * at, 0)])
        for at, limit in enumerate(ALL_LIMITS)
    ]
    assert packing_limits.text(of).endswith("| one | fgd | 50.00" + 5 * " | 50.00 (+0.00)" + " |")
