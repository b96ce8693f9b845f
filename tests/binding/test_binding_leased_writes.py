"""Each kind of write has a time limit that the API server keeps to, and is not sent if the lease may end before."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from tests.binding.evictor_bench import EvictorBench, PolicyApi
from tests.engine.builders import asks, pod_object

from vgpu_scheduler.apiclient import MERGE_PATCH, ApiResponse
from vgpu_scheduler.binding import HookPoint
from vgpu_scheduler.binding.eviction_record import EvictionRecord
from vgpu_scheduler.binding.evictions import EvictionSender
from vgpu_scheduler.binding.fencing import AllocationFence
from vgpu_scheduler.binding.locker import NodeLocker
from vgpu_scheduler.binding.nominations import NominationWriter
from vgpu_scheduler.binding.policy_status import policy_path
from vgpu_scheduler.binding.reports import ConditionText
from vgpu_scheduler.binding.sender import BindingSender
from vgpu_scheduler.binding.status_patches import StatusPatcher
from vgpu_scheduler.binding.volumes import VolumeBinder, VolumeError, _Write
from vgpu_scheduler.kube import API_RESOURCES, Pod
from vgpu_scheduler.model import ConditionReason
from vgpu_scheduler.policy import CLUSTER_KIND, PreemptionRules
from vgpu_scheduler.runtime.replica import binder_options
from vgpu_scheduler.settings import Settings

TIMEOUT = 4.0
HIGH, LOW = "/api/v1/namespaces/default/pods/high", "/api/v1/namespaces/default/pods/low"
VOLUME = "/api/v1/persistentvolumes/disk"
RULES = PreemptionRules(may_preempt=True, eviction_limits=(((CLUSTER_KIND, "", "preempts"), 5),))


class LeaseBench(EvictorBench):
    """A pod of high priority that is to preempt one of low priority; the limits of all writes are noted.

    Attributes
    ----------
    limits
        Of each write its method, its path, and how long the API server may take.
    asked
        For how many seconds the lease had to be held.
    """

    def __init__(self) -> None:
        super().__init__(budgets="Exceed")
        self.limits: list[tuple[str, str, str | None]] = []
        self.asked: list[float] = []
        self.may_write = self._lease
        self._policies = PolicyApi(self.eviction_api.request)
        self.runs("low")
        self.decision = self.decided("high", 5)

    def _lease(self, seconds: float) -> bool:
        self.asked.append(seconds)
        return self.leads

    async def request(self, method: str, path: str, body: Any = None, **more: Any) -> ApiResponse:
        """Note a write, and carry a request out."""
        if method != "GET":
            self.limits.append((method, path, (more.get("params") or {}).get("timeout")))
        if path == VOLUME:
            return ApiResponse(503, b"{}")
        return await self._policies.request(method, path, body, **more)

    def pod(self, name: str) -> Pod:
        """Return a pod as it is known."""
        found = self.engine.state.pod(f"uid-{name}")
        assert found is not None
        return found


async def evict(b: LeaseBench) -> object:
    return await EvictionSender(b.context, TIMEOUT).evict(b.pod("low"))


async def delete(b: LeaseBench) -> object:
    assert b.decision.preemption is not None
    b.eviction_api.refusals.append(429)
    sender = EvictionSender(b.context, TIMEOUT)
    return await sender.send("uid-high", b.pod("low"), b.decision.preemption, lambda: True)


async def record(b: LeaseBench) -> object:
    return await EvictionRecord(b.context, TIMEOUT).write(RULES, b.pod("low"), set())


async def fence(b: LeaseBench) -> object:
    return await AllocationFence(b.context, TIMEOUT).fence(b.pod("high"))


async def nominate(b: LeaseBench) -> object:
    report = ConditionText(ConditionReason.UNSCHEDULABLE, "full")
    return await b.reporter.nominated(b.pod("high"), report, "n", TIMEOUT, lambda: b.context.may_write(TIMEOUT))


async def renew(b: LeaseBench) -> object:
    return await NominationWriter(b.context, TIMEOUT).renew("uid-high", "n")


async def take_back(b: LeaseBench) -> object:
    b.api.pods["other"] = pod_object("other", asks(gpumem=8000))
    b.api.pods["other"]["status"]["nominatedNodeName"] = "n"
    b.see_pod("other")
    writer = NominationWriter(b.context, TIMEOUT)
    writer.add("uid-other", "n")
    return await writer.take_back()


async def patch_status(b: LeaseBench) -> object:
    return await StatusPatcher(b.context.writer, TIMEOUT).patch(HIGH, "uid-high", {}, MERGE_PATCH)


async def lock(b: LeaseBench) -> object:
    node = b.engine.state.node("n")
    assert node is not None
    return await NodeLocker(b.context, TIMEOUT).try_take(node, b.pod("high"))


async def keep_volume(b: LeaseBench) -> object:
    options = replace(binder_options(Settings(), label_first=False), timeout=TIMEOUT)
    write = _Write(API_RESOURCES["PersistentVolume"], "", VOLUME.rpartition("/")[2], {})
    return await VolumeBinder(b.context, options)._send(write)


async def bind(b: LeaseBench) -> object:
    async def reached(_: HookPoint, __: Pod) -> None:
        pass

    b.api.pods["small"] = pod_object("small", {"limits": {"cpu": "1"}})
    b.see_pod("small")
    decision = b.tried()
    assert decision.placement is not None, decision.message
    sender = BindingSender(b.context, TIMEOUT, label_first=False, at_point=reached)
    return await sender.send(b.pod("small"), decision.placement, decision)


WRITES: list[tuple[Callable[[LeaseBench], Awaitable[object]], list[tuple[str, str]]]] = [
    (evict, [("POST", f"{LOW}/eviction")]),
    (delete, [("POST", f"{LOW}/eviction"), ("PATCH", f"{LOW}/status"), ("DELETE", LOW)]),
    (record, [("PATCH", f"{policy_path(CLUSTER_KIND, '', 'preempts')}/status")]),
    (fence, [("PATCH", f"{HIGH}/status")]),
    (nominate, [("PATCH", f"{HIGH}/status")]),
    (renew, [("PATCH", f"{HIGH}/status")]),
    (take_back, [("PATCH", "/api/v1/namespaces/default/pods/other/status")]),
    (patch_status, [("PATCH", f"{HIGH}/status")]),
    (lock, [("PATCH", "/api/v1/nodes/n")]),
    (keep_volume, [("PATCH", VOLUME)]),
    (bind, [("POST", "/api/v1/namespaces/default/pods/small/binding")]),
]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> LeaseBench:
    made = LeaseBench()
    monkeypatch.setattr(made.eviction_api, "request", made.request)
    return made


@pytest.mark.parametrize(("write", "requests"), WRITES, ids=[write.__name__ for write, _ in WRITES])
async def test_the_api_server_knows_the_limit_of_a_write(
    bench: LeaseBench, write: Callable[[LeaseBench], Awaitable[object]], requests: list[tuple[str, str]]
) -> None:
    await write(bench)
    assert bench.limits == [(method, path, f"{TIMEOUT:g}s") for method, path in requests]
    assert set(bench.asked) - {0.0} == {TIMEOUT}, "for 0 s asks who writes nothing"


@pytest.mark.parametrize("write", [write for write, _ in WRITES], ids=[write.__name__ for write, _ in WRITES])
async def test_nothing_is_written_that_may_outlive_the_lease(
    bench: LeaseBench, write: Callable[[LeaseBench], Awaitable[object]]
) -> None:
    bench.leads = False
    with suppress(VolumeError):
        await write(bench)
    assert not bench.limits
