"""Which failed pods a kubelet has not admitted."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.builders import pod_object

from vgpu_scheduler.kube import decode_pod


def rejection(phase: str, reason: str = "", message: str = "") -> str:
    body: dict[str, Any] = pod_object("p", nodeName="a")
    body["status"] = {"phase": phase, "reason": reason, "message": message}
    return decode_pod(body).rejection


@pytest.mark.parametrize(
    "reason",
    [
        "OutOfcpu", "OutOfmemory", "OutOfpods", "OutOfnvidia.com/gpu", "NodeAffinity", "NodePorts",
        "UnexpectedAdmissionError", "TopologyAffinityError", "TaintToleration", "NodeShutdown",
    ],
)  # fmt: skip
def test_reasons_that_kubelets_reject_for(reason: str) -> None:
    assert rejection("Failed", reason) == reason


def test_other_reasons_are_told_by_the_message() -> None:
    assert rejection("Failed", "NewReason", "Pod was rejected: for a reason that is new") == "NewReason"
    assert rejection("Failed", "Evicted", "Pod was rejected: The node had condition: [MemoryPressure].") == "Evicted"


@pytest.mark.parametrize(
    ("phase", "reason", "message"),
    [
        ("Failed", "Evicted", "The node was low on resource: memory."),
        ("Failed", "Preempting", "Preempted in order to admit critical pod"),
        ("Failed", "Terminated", "Pod was terminated in response to imminent node shutdown."),
        ("Failed", "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"),
        ("Failed", "", ""),
        ("Running", "OutOfcpu", ""),
    ],
)
def test_what_ran_was_not_rejected(phase: str, reason: str, message: str) -> None:
    assert rejection(phase, reason, message) == ""


def test_the_owner_is_the_controller() -> None:
    body = pod_object("p")
    body["metadata"]["ownerReferences"] = [{"uid": "x"}, {"uid": "y", "controller": True}]
    assert decode_pod(body).owner == "y"
    assert decode_pod(pod_object("p")).owner == ""
