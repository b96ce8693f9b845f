"""The benchmark of packing: FGD against a plain twin, gains seed by seed, and the page."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks import packing
from benchmarks.fgd import FgdPlacer
from tests.naive import packing as naive
from tests.whatif.traces import random_nodes, random_pods

from vgpu_scheduler.cli.traces.reading import Trace, read_trace
from vgpu_scheduler.whatif.traces import (
    CONTENDERS,
    Fleet,
    NamedPolicies,
    churning_run,
    measure,
    replay,
    static_run,
    typical_pods,
)


def small() -> Trace:
    rng = np.random.default_rng(3)
    return Trace(random_nodes(rng, 8), {"one": random_pods(rng, 30), "other": random_pods(rng, 30)})


@pytest.mark.parametrize("seed", range(12))
def test_fgd_goes_where_the_twin_goes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fleet, pods = Fleet(random_nodes(rng, 7)), random_pods(rng, 40)
    run = churning_run(fleet, pods, seed, 1.2)
    mix, boxes = typical_pods(pods), naive.empty(run.fleet.nodes)
    placer = FgdPlacer(run.fleet, mix)
    where: dict[int, tuple[int, tuple[int, ...]]] = {}
    for step in run.arrivals.steps:
        if step < 0:
            if ~step in where:
                node, cards = where.pop(~step)
                naive.book(boxes[node], run.arrivals.pods[~step], cards, -1)
                placer.remove(~step)
            continue
        pod = run.arrivals.pods[step]
        expected, found = naive.descend(boxes, pod, mix), placer.place(step, pod)
        assert (found and (found.node, found.cards)) == expected
        if expected:
            where[step] = expected
            naive.book(boxes[expected[0]], pod, expected[1], 1)
    assert where


def test_one_point_is_40_thousandths_of_a_card() -> None:
    assert [naive.points(less) for less in (0.0, 4.01, 8.05, -0.01)] == [50, 51, 52, 49]


def test_policies_are_paired_with_fgd() -> None:
    found = packing.compare(small(), ["hami", "fragmentation"], range(2), None, lambda _: None)
    assert [(one.workload, one.policy) for one in found] == [
        (workload, policy) for workload in ("one", "other") for policy in ("fgd", "hami", "fragmentation")
    ]
    assert [run.arrivals.pods for run in found[0].runs] == [run.arrivals.pods for run in found[2].runs]
    fgd, _, ours = found[:3]
    assert packing.gains(ours, fgd) == pytest.approx(
        [a.points[0].allocation - b.points[0].allocation for a, b in zip(ours.results, fgd.results, strict=True)]
    )


def test_a_policy_that_keeps_pods_away_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    denying = {"devices": {"types": {"deny": ["T4", "A10"]}}}
    shy = NamedPolicies("shy", [{"kind": "ClusterVGPUPolicy", "metadata": {"name": "shy"}, "spec": denying}])
    monkeypatch.setattr(packing, "CONTENDERS", {**CONTENDERS, "shy": shy})
    with pytest.raises(packing.PackingError, match=r"one, shy: \d+ pods were rejected that had room"):
        packing.compare(small(), ["shy"], range(1), None, lambda _: None)


def test_another_fgd_than_the_published_one_is_told() -> None:
    (summary,) = packing.compare(replace(small(), workloads={"default": small().workloads["one"]}), [], [1], None, str)
    (told,) = packing.far_from_published([summary])
    assert told == f"default: FGD gives out {summary.mean(0, 'allocation'):.2f}, published 95.23"
    assert packing.far_from_published([replace(summary, workload="unknown")]) == []


def test_the_page_has_every_policy_and_workload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace, say = small(), str
    static = packing.compare(trace, ["fragmentation"], range(2), None, say)
    churning = {1.0: packing.compare(trace, ["fragmentation"], range(2), 1.0, say)}
    measured = packing.text(static, churning)
    page = tmp_path / "page.md"
    page.write_text(f"before\n{packing.MARK}\nold\n{packing.MARK}\nbehind\n")
    monkeypatch.setattr("benchmarks.page.TARGET", page)
    packing.write(measured)
    assert page.read_text() == f"before\n{packing.MARK}\n\n{measured}\n\n{packing.MARK}\nbehind\n"
    assert measured.count("| fragmentation |") == 6  # at three points, gains, how things stand, churn
    assert measured.count("| fgd |") == 5
    assert measured.count("| one | other |") == 6
    first = static[1].mean(0, "allocation")
    assert f"| fragmentation | {first:.2f} |" in measured
    assert "seeds 0 to 1" in measured


def test_without_the_trace_a_synthetic_workload_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(packing.DATA, raising=False)
    monkeypatch.setattr(packing, "measured", lambda plan, _: f"measured {plan.folder}")
    monkeypatch.setattr(sys, "argv", ["packing", "--runs", "1"])
    packing.main()
    out, err = capsys.readouterr()
    assert out == "measured synthetic\n"
    assert err.startswith("openb skipped: neither OPENB_DATA nor --data names its folder")


@pytest.mark.long
@pytest.mark.skipif(not os.environ.get(packing.DATA), reason=f"{packing.DATA} does not name the folder of openb")
@pytest.mark.parametrize("workload", packing.PUBLISHED)
def test_fgd_comes_to_what_was_published(workload: str) -> None:
    trace = read_trace(os.environ[packing.DATA], [workload], with_nodes=True)
    pods = trace.workloads[workload]
    run, mix = static_run(Fleet(trace.nodes), pods, 42), typical_pods(pods)
    found = measure(run, replay(run.arrivals, FgdPlacer(run.fleet, mix)), mix)
    assert found.withheld == 0
    assert found.points[0].allocation == pytest.approx(packing.PUBLISHED[workload], abs=0.6)
