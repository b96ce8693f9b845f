"""Two cards that pods of low priority share, and a policy that lets others preempt these."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import groupby

from tests.apiserver.control_plane import ControlPlane
from tests.e2e.conftest import OPERATOR
from tests.e2e.preempting import budget, preemption_policy
from tests.faults.pods import Object, pod
from tests.faults.proxy import Do, Rule, What
from tests.faults.stage import Stage

from vgpu_devcluster import NVIDIA

NODE = {"gpu-0": (NVIDIA,)}
LOW = ("low-0", "low-1", "low-2", "low-3")
POLICIES = "/apis/vgpu-scheduler.io/v1alpha1/clustervgpupolicies"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
_MOST_EVICTIONS = 100
_MERGE = {"Content-Type": "application/merge-patch+json"}


def tenant(name: str, of: str, memory: int) -> Object:
    """Return a pod of a class of priority; two of 7000 MiB fill a card."""
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(memory)}
    made = pod(name, NVIDIA, limits=limits, priorityClassName=of, terminationGracePeriodSeconds=1)
    made["metadata"]["labels"] = {"app": "low" if of == "low" else name, "name": name}
    return made


class Scene:
    """Two cards that four pods of low priority share, and what becomes of them."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        assert isinstance(stage.plane, ControlPlane)
        self._plane = stage.plane
        self._mark = self._plane.audit_mark()

    def answers(self) -> list[tuple[str, int]]:
        """Return the pods for whose evictions the operator asked, and the answers of the API server."""
        sent = self._plane.audit(since=self._mark)
        return [(r.name, r.code) for r in sent if r.user == OPERATOR and r.subresource == "eviction"]

    async def answered(self, answers: list[tuple[str, int]]) -> None:
        """Wait until these, and no others, are the answers; one that comes again at once counts once."""

        async def same() -> bool:
            return [answer for answer, _ in groupby(self.answers())] == answers

        try:
            await self.stage.until(same, f"{answers} to be answered", 30.0)
        except AssertionError as error:
            raise AssertionError(f"{error}, not {self.answers()}") from error

    def evicted(self) -> set[str]:
        """Return the pods that were evicted."""
        return {name for name, code in self.answers() if code < 300}

    async def there(self) -> set[str]:
        """Return the pods that are there and are not ending."""
        return {p["metadata"]["name"] for p in await self.stage.pods() if "deletionTimestamp" not in p["metadata"]}

    async def high_comes(self, memory: int = 7000) -> None:
        """Have a pod of high priority come."""
        await self.stage.come(tenant("high", "high", memory))

    async def high_is_bound(self, within: float = 60.0) -> None:
        """Wait until the pod of high priority is bound."""
        await self.stage.until(lambda: self.stage.bound("high"), "the pod of high priority to be bound", within)

    async def killed_at(self, rule: Rule) -> None:
        """Wait until a rule keeps an answer back, kill the leader, and let the answer go on."""
        await asyncio.wait_for(rule.held.wait(), 30)
        self.stage.process.kill()
        self.stage.count("operator killed")
        rule.go_on.set()

    async def recorded(self) -> set[str]:
        """Return the pods whose evictions the policy has recorded."""
        async with self.stage.http.get(f"{POLICIES}/preempts") as answer:
            status = (await answer.json()).get("status") or {}
        evictions = status.get("evictions") or []
        names = {one["pod"].partition("/")[2] for one in evictions}
        assert len(names) == len(evictions), evictions
        return names

    async def nominated(self, name: str) -> str:
        """Return the node that a pod is nominated to; empty if there is none."""
        (found,) = [p for p in await self.stage.pods() if p["metadata"]["name"] == name]
        return str(found["status"].get("nominatedNodeName", ""))

    async def put_budget(self, called: str, allowed: int, /, **labels: str) -> None:
        """Have a disruption budget that allows so many disruptions now."""
        made = budget(called, minAvailable=1)
        made["spec"]["selector"] = {"matchLabels": labels}
        async with self.stage.http.post(BUDGETS, json=made) as answer:
            assert answer.status in {201, 409}, await answer.text()
        status = {"observedGeneration": 1, "disruptionsAllowed": allowed, "expectedPods": 4}
        patch = {"status": {**status, "currentHealthy": 4, "desiredHealthy": 3}}
        async with self.stage.http.patch(f"{BUDGETS}/{called}/status", json=patch, headers=_MERGE) as answer:
            assert answer.status == 200, await answer.text()


@asynccontextmanager
async def crowded(stage: Stage, **rules: object) -> AsyncIterator[Scene]:
    """Have two cards shared by four pods of low priority, and a policy that lets others preempt them."""
    async with stage.http.post(POLICIES, json=preemption_policy(**rules)) as answer:
        assert answer.status == 201, await answer.text()
    try:
        await stage.come(*(tenant(name, "low", 7000) for name in LOW))
        await stage.some_run(len(LOW))
        yield Scene(stage)
    finally:
        for path in (f"{POLICIES}/preempts", BUDGETS):
            async with stage.http.delete(path) as answer:
                assert answer.status in {200, 404}, await answer.text()


@asynccontextmanager
async def first_eviction_kept_back(
    stage: Stage, memory: int = 7000
) -> AsyncIterator[tuple[Scene, str, Callable[[], None]]]:
    """Have a pod of high priority come, and keep its first eviction back: of whom, and what lets it go on."""
    async with crowded(stage) as scene:
        rule = stage.proxy.add(Rule(What.EVICTION, Do.HOLD, times=_MOST_EVICTIONS))  # it may be sent again meanwhile
        await scene.high_comes(memory)
        await asyncio.wait_for(rule.held.wait(), 30)
        yield scene, rule.path.split("/")[-2], rule.go_on.set
