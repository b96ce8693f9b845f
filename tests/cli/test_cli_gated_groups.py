"""What is told of groups of which some or all pods have scheduling gates: how many are needed, and which exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from tests.cli.live_cluster import KINDS, Api, run
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod

from vgpu_scheduler.engine.group_attempts import needed_pods_in

Object = dict[str, Any]
GATE = "kueue.x-k8s.io/admission"
POD_GROUP = "PodGroup.scheduling.x-k8s.io"


def member(name: str, total: int, form: str, *, gated: bool) -> Object:
    """Return a pod of the group team/g, which declares its size, or leaves that to an object."""
    gates: Object = {"schedulingGates": [{"name": GATE}]} if gated else {}
    made = pod(name, {GPU: 1, MEMORY: 1000}, schedulerName="vgpu-scheduler", **gates)
    metadata = {"name": name, "namespace": "team", "uid": f"uid-{name}"}
    labels, annotations = {"kueue.x-k8s.io/pod-group-name": "g"}, {"kueue.x-k8s.io/pod-group-total-count": str(total)}
    if form == "koordinator":
        prefix = "gang.scheduling.koordinator.sh"
        labels, annotations = {}, {f"{prefix}/name": "g", f"{prefix}/min-available": str(total)}
    if form == "object":
        labels, annotations = {"scheduling.x-k8s.io/pod-group": "g"}, {}
    made["metadata"] = {**metadata, "labels": labels, "annotations": annotations}
    return made


@pytest.mark.parametrize("form", ["kueue", "koordinator", "object"])
@pytest.mark.parametrize("seed", range(30))
def test_of_gated_pods_the_gates_are_to_go_and_only_pods_that_are_missing_are_to_be_created(
    api: Api, tmp_path: Path, seed: int, form: str
) -> None:
    rng = np.random.default_rng(seed)
    total, there = int(rng.integers(2, 5)), int(rng.integers(1, 5))
    gated = int(rng.integers(1, there + 1))
    members = [member(f"p{n}", total, form, gated=n < gated) for n in range(there)]
    described = {"kind": POD_GROUP, "metadata": {"name": "g", "namespace": "team", "uid": "g"}}
    others = [{**described, "spec": {"minMember": total}}] if form == "object" else []
    api.objects[:] = [node("a", 6), *others, *members]
    absent, open_ = max(total - there, 0), there - gated
    texts = []
    for each in members:
        name = each["metadata"]["name"]
        texts.append(run("explain", name, "-n", "team").stdout)
        if open_ < total:
            assert f"of which at least {total} pods run, or none" in texts[-1]
            assert f"waits for other pods of its group team/g: {total} are needed before any is placed" in texts[-1]
        assert "to be placed at once: \n" not in texts[-1]
    api.refused = frozenset(KINDS.values())
    texts += [run("explain", each["metadata"]["name"], "-n", "team").stdout for each in members]
    texts += run("simulate", "--pending", "-n", "team").stdout.splitlines()
    if form != "object":
        api.objects[:] = []
        (tmp_path / "p.yaml").write_text(yaml.safe_dump_all(members))
        texts += run("simulate", "-f", str(tmp_path / "p.yaml"), "-n", "team").stdout.splitlines()
    for text in texts:
        created = re.findall(r"create (\d+) more pods? of group team/g", text)
        assert created == ([str(absent)] if absent else []), text
        waits = "wait until the scheduling gates of" in text
        assert waits is (open_ < total), text
        assert "or include others" not in text
        assert not waits or f"p0 ({GATE})" in text


@pytest.mark.parametrize("form", ["koordinator", "object", "kueue"])
@pytest.mark.parametrize("there", [1, 2, 3])
def test_of_a_group_that_needs_a_single_pod_the_singular_is_used(api: Api, there: int, form: str) -> None:
    members = [member(f"p{n}", 1, form, gated=True) for n in range(there)]
    described = {"kind": POD_GROUP, "metadata": {"name": "g", "namespace": "team", "uid": "g"}}
    others = [{**described, "spec": {"minMember": 1}}] if form == "object" else []
    api.objects[:] = [node("a", 6), *others, *members]
    text = run("explain", "p0", "-n", "team").stdout
    waits = "waits for other pods of its group team/g: 1 is needed before any is placed"
    assert waits in text
    assert "at least 1 pod runs, or none" in text
    assert "1 more pod needed before any is placed; it has scheduling gates" in text
    assert not re.search(r"\b1 (pods|more pods|are)\b", text)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": f"{waits}."}
    members[0]["status"] = {"phase": "Pending", "conditions": [condition]}
    api.refused = frozenset(KINDS.values())
    told = run("explain", "p0", "-n", "team").stdout
    assert not re.search(r"\b1 (pods|more pods|are)\b", told)
    assert needed_pods_in(waits) == ("team/g", 1)
