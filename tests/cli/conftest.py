from __future__ import annotations

import json

import pytest
from tests.cli.live_cluster import Api
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, running


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

    monkeypatch.setattr("vgpu_scheduler.cli.cluster.view.connect", connect)
    return found
