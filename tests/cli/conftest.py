from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.cli.live_cluster import Api
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, running

DATA = Path(__file__).parents[1] / "whatif"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Api:
    """A cluster with a node, two pods on it and two that wait."""
    tight = node("a", cards=2, cordoned=(1,))
    tight["metadata"]["resourceVersion"] = "7"
    told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes: told before"}
    waiting = {**pod("large", {GPU: 1, MEMORY: 12000}), "status": {"phase": "Pending", "conditions": [told]}}
    waiting["spec"]["schedulerName"] = "vgpu-scheduler"
    bound = running("first", "a", "GPU-a-0", 6000)
    bound["metadata"]["annotations"]["vgpu-scheduler.io/decision"] = json.dumps(
        {"nodes": 3, "score": 1.5, "policy": {"nodes": "settings"}}
    )
    found = Api([tight, bound, waiting, pod("plain", {}, schedulerName="default-scheduler")])

    async def connect(*_: object) -> Api:
        return found

    monkeypatch.setattr("vgpu_scheduler.reading.view.connect", connect)
    return found


@pytest.fixture
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what the shell that runs the tests has set."""
    for name in list(os.environ):
        if name.upper().startswith("VGPU_"):
            monkeypatch.delenv(name)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_settings: None) -> Path:
    """Where the commands run, with a snapshot of a cluster and pods to place."""
    monkeypatch.chdir(tmp_path)
    for name in ("cluster.yaml", "pods.yaml"):
        Path(name).write_text((DATA / name).read_text())
    return tmp_path
