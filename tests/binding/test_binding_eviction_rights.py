"""Rights that are missing stop those who need them; what is refused to one pod stops nobody else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.binding.evictor_bench import EvictorBench, bench, some_looks
from tests.engine.builders import asks, cards, node_object, pod_object
from tests.policy.resources import policy

from vgpu_scheduler.apiclient import ApiResponse
from vgpu_scheduler.intake import NODES, PODS

NARROWED = (
    "pods \"first\" is forbidden: ValidatingAdmissionPolicy 'vgpu-scheduler-conditions' with binding "
    "'vgpu-scheduler-conditions' denied request: the scheduler changes nothing of a pod's status but the condition"
)


def two_nodes(b: EvictorBench) -> None:
    """Have a card on each of two nodes, both of them taken."""
    b.runs("low")
    b.api.nodes["m"] = node_object("m", cards("m", 1))
    b.see(NODES, b.api.nodes["m"])
    b.runs("other", "m")


def answers(b: EvictorBench, monkeypatch: pytest.MonkeyPatch, *refused: tuple[str, str, int, str]) -> None:
    """Have requests refused by method and by what their paths end with."""
    request = b.eviction_api.request

    async def answering(method: str, path: str, body: Any = None, **more: Any) -> ApiResponse:
        for of, end, status, message in refused:
            if method == of and path.endswith(end):
                return ApiResponse(status, json.dumps({"kind": "Status", "message": message}).encode())
        return await request(method, path, body, **more)

    monkeypatch.setattr(b.eviction_api, "request", answering)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (422, 'Pod "first" is invalid: metadata.labels: must be no more than 63 characters'),
        (403, 'admission webhook "policy" denied the request: pods of this team stay as they are'),
    ],
)
async def test_a_pod_to_which_nothing_may_be_written_waits_and_others_go_on(
    monkeypatch: pytest.MonkeyPatch, status: int, message: str
) -> None:
    async with bench(monkeypatch) as b:
        two_nodes(b)
        answers(b, monkeypatch, ("PATCH", "/first/status", status, message))
        b.evictor.submit(b.decided("first", 5))
        await b.until(lambda: b.engine.preemptions.of("uid-first") is None)
        second = b.decided("second", 5)
        assert second.preemption is not None, second.message
        b.evictor.submit(second)
        await b.until(lambda: [one for one in b.eviction_api.wrote if one.endswith("/eviction")])
        assert b.engine.attempt(b.clock.monotonic() + 50.0) is None, "it is not tried again and again"
        b.engine.queue.flush_due(b.clock.monotonic() + 61.0)
        again = b.engine.attempt(b.clock.monotonic() + 61.0)
        assert again is not None
        assert again.uid == "uid-first"


@pytest.mark.parametrize(
    ("status", "message"),
    [(403, 'pods "first" is forbidden: User "us" cannot patch resource "pods/status"'), (422, NARROWED)],
    ids=["no role", "no component"],
)
async def test_the_right_to_nominate_stops_everybody_if_it_is_missing_and_names_nobodys_pod(
    monkeypatch: pytest.MonkeyPatch, status: int, message: str
) -> None:
    async with bench(monkeypatch) as b:
        two_nodes(b)
        answers(b, monkeypatch, ("PATCH", "/first/status", status, message))
        b.evictor.submit(b.decided("first", 5))
        await b.until(lambda: b.engine.preemptions.of("uid-first") is None)
        await some_looks()
        told = b.decided("second", 5)
        assert told.preemption is None
        user = 'user "us"' if status == 403 else "this scheduler"
        missing = f"the right to evict is missing: {user} cannot patch pods/status (nominatedNodeName)."
        assert told.message.endswith(missing), told.message
        assert not b.eviction_api.wrote


@pytest.mark.parametrize(
    ("refused", "missing"),
    [
        (
            ("DELETE", "", 403, 'pods "low" is forbidden: User "us" cannot delete resource "pods" in API group ""'),
            'user "us" cannot delete pods.',
        ),
        (
            ("PATCH", "/other/status", 422, NARROWED),
            "this scheduler cannot patch pods/status (the condition DisruptionTarget).",
        ),
    ],
    ids=["no role", "no component"],
)
async def test_who_keeps_to_budgets_goes_on_where_the_right_to_exceed_them_is_missing(
    monkeypatch: pytest.MonkeyPatch, refused: tuple[str, str, int, str], missing: str
) -> None:
    async with bench(monkeypatch) as b:
        section = {"mayPreempt": True, "budgets": "Exceed"}
        rules = {"priority": 9, "selector": {"matchLabels": {"may": "exceed"}}, "preemption": section}
        b.engine.policy_tracker.observe(policy("exceeds", rules))
        two_nodes(b)
        answers(b, monkeypatch, refused)
        b.eviction_api.refusals.append(429)

        def come(name: str, **labels: str) -> None:
            b.api.pods[name] = pod_object(name, asks(gpumem=8000), priority=5, labels=labels)
            b.see(PODS, b.api.pods[name])

        come("exceeds", may="exceed")
        decision = b.tried()
        assert decision.preemption is not None
        b.evictor.submit(decision)
        await b.until(lambda: b.engine.preemptions.of("uid-exceeds") is None)
        await some_looks()
        come("exceeds-too", may="exceed")
        told = b.tried()
        assert told.preemption is None
        assert told.message.endswith(f"the right to evict is missing: {missing}"), told.message
        come("respects")
        respects = b.tried()
        assert respects.preemption is not None, respects.message
