"""Evictions ask disruption budgets, whose status the tests keep: no controller runs beside these servers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.contract.client import Answer, Api, Object

VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."
WEB = {"matchLabels": {"app": "web"}}


@dataclass
class Bench:
    """A client with short forms for pods and budgets."""

    api: Api

    @property
    def budgets(self) -> str:
        return f"/apis/policy/v1/namespaces/{self.api.namespace}/poddisruptionbudgets"

    async def pod(self, name: str, *, ready: bool = True, phase: str = "Running") -> Object:
        """Create a pod of web that runs."""
        await self.api.pod(name, {"labels": {"app": "web"}})
        (await self.api.bind(name)).created()
        conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
        status = {"status": {"phase": phase, "conditions": conditions}}
        return (await self.api.merge(f"{self.api.pods}/{name}/status", status)).ok()

    async def budget(self, name: str = "web", selector: object = WEB, **status: Any) -> None:
        """Create a budget, and give it a status as its controller would."""
        spec = {"minAvailable": 1, "selector": selector, **status.pop("spec", {})}
        (await self.api.post(self.budgets, {"metadata": {"name": name}, "spec": spec})).created()
        if status:
            full = {"observedGeneration": 1, "expectedPods": 2, "currentHealthy": 2, "desiredHealthy": 1, **status}
            (await self.api.merge(f"{self.budgets}/{name}/status", {"status": full})).ok()

    async def evict(self, name: str, options: object = None, *, named: str = "", **query: str) -> Answer:
        body: Object = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": named or name}}
        body |= {} if options is None else {"deleteOptions": options}
        return await self.api.post(f"{self.api.pods}/{name}/eviction", body, **query)

    async def state(self, name: str = "web") -> Object:
        return dict((await self.api.get(f"{self.budgets}/{name}")).ok()["status"])

    async def leaves(self, name: str) -> bool:
        answer = await self.api.get(f"{self.api.pods}/{name}")
        return answer.code == 404 or "deletionTimestamp" in answer.ok()["metadata"]


@pytest.fixture
def bench(api: Api) -> Bench:
    return Bench(api)


def refused(answer: Answer) -> tuple[int, str, str]:
    """Return code, reason and cause of a refusal because of a budget."""
    (cause,) = answer.body["details"]["causes"]
    assert cause["reason"] == "DisruptionBudget"
    assert answer.message == VIOLATES
    assert answer.body["status"] == "Failure"
    return answer.code, answer.body["reason"], cause["message"]


async def test_without_a_budget_a_pod_is_deleted_and_says_why(bench: Bench) -> None:
    await bench.pod("a")
    answer = await bench.evict("a")
    assert (answer.code, answer.body["status"]) == (201, "Success")
    found = (await bench.api.get(f"{bench.api.pods}/a")).ok()
    assert found["metadata"]["deletionGracePeriodSeconds"] == 30
    condition = next(one for one in found["status"]["conditions"] if one["type"] == "DisruptionTarget")
    assert (condition["status"], condition["reason"]) == ("True", "EvictionByEvictionAPI")
    assert condition["message"] == "Eviction API: evicting"


async def test_a_budget_is_counted_down_and_then_refuses(bench: Bench) -> None:
    for name in "ab":
        await bench.pod(name)
    await bench.budget(disruptionsAllowed=1)
    assert (await bench.evict("a", {"gracePeriodSeconds": 5})).code == 201
    state = await bench.state()
    assert (state["disruptionsAllowed"], list(state["disruptedPods"])) == (0, ["a"])
    (condition,) = state["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "DisruptionAllowed", "False", "InsufficientPods",
    )  # fmt: skip
    answer = await bench.evict("b")
    text = "The disruption budget web does not allow evicting pods currently"
    assert refused(answer) == (429, "TooManyRequests", text)
    assert "retryAfterSeconds" not in answer.body["details"]
    assert not await bench.leaves("b")
    found = (await bench.api.get(f"{bench.api.pods}/a")).ok()
    assert found["metadata"]["deletionGracePeriodSeconds"] == 5


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ({"currentHealthy": 1, "desiredHealthy": 3}, "needs 3 healthy pods and has 1 currently"),
        ({"currentHealthy": 3, "desiredHealthy": 1}, "does not allow evicting pods currently"),
        (
            {"conditions": [("SyncFailed", "no scale")]},
            "does not allow evicting pods currently because it failed sync: no scale",
        ),
        (
            {"currentHealthy": 3, "conditions": [("Other", "not now")]},
            "does not allow evicting pods currently (Other): not now",
        ),
    ],
    ids=["too few are healthy", "no reason", "no sync", "another reason"],
)
async def test_a_refusal_says_why(bench: Bench, status: Object, why: str) -> None:
    await bench.pod("a")
    conditions = [
        {
            "type": "DisruptionAllowed",
            "status": "False",
            "reason": reason,
            "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        for reason, message in status.get("conditions", ())
    ]
    await bench.budget(**{**status, "disruptionsAllowed": 0, "conditions": conditions})
    assert refused(await bench.evict("a")) == (429, "TooManyRequests", f"The disruption budget web {why}")


async def test_a_budget_that_nobody_has_looked_at_yet_asks_to_come_again(bench: Bench) -> None:
    await bench.pod("a")
    await bench.budget()
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
    async with bench.api.session.post(f"{bench.api.pods}/a/eviction", json=body) as response:
        found = await response.json()
        assert (response.status, response.headers["Retry-After"]) == (429, "10")
    assert found["details"]["retryAfterSeconds"] == 10
    (cause,) = found["details"]["causes"]
    assert cause["message"] == "The disruption budget web is still being processed by the server."


async def test_several_budgets_of_one_pod_are_refused(bench: Bench) -> None:
    await bench.pod("a")
    await bench.budget(disruptionsAllowed=1)
    await bench.budget("all", {}, disruptionsAllowed=1)
    answer = await bench.evict("a")
    assert answer.code == 500
    assert "more than one PodDisruptionBudget" in answer.message
    assert "reason" not in answer.body
    assert not await bench.leaves("a")


@pytest.mark.parametrize(
    ("selector", "code"),
    [
        ({}, 429),
        (None, 201),
        ({"matchLabels": {"app": "db"}}, 201),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}, 429),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]}, 429),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, 201),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}, {"key": "x", "operator": "Exists"}]}, 201),
    ],
)
async def test_which_pods_a_budget_is_about(bench: Bench, selector: object, code: int) -> None:
    await bench.pod("a")
    await bench.budget(selector=selector, disruptionsAllowed=0)
    assert (await bench.evict("a")).code == code


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_pods_that_have_ended_go_without_asking(bench: Bench, phase: str) -> None:
    await bench.pod("a", phase=phase)
    await bench.budget(disruptionsAllowed=0)
    assert (await bench.evict("a")).code == 201
    assert await bench.leaves("a")
    assert "disruptedPods" not in await bench.state()


async def test_a_pod_that_does_not_run_yet_goes_without_asking(bench: Bench) -> None:
    await bench.api.pod("a", {"labels": {"app": "web"}})
    await bench.budget(disruptionsAllowed=0, currentHealthy=0)
    assert (await bench.evict("a")).code == 201
    assert (await bench.api.get(f"{bench.api.pods}/a")).code == 404


async def test_a_pod_that_is_being_deleted_goes_without_asking(bench: Bench) -> None:
    await bench.pod("a")
    await bench.api.delete(f"{bench.api.pods}/a")
    await bench.budget(disruptionsAllowed=0)
    assert (await bench.evict("a", {"gracePeriodSeconds": 0})).code == 201
    assert (await bench.api.get(f"{bench.api.pods}/a")).code == 404


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ({"currentHealthy": 1, "desiredHealthy": 1}, 201),
        ({"currentHealthy": 0, "desiredHealthy": 1}, 429),
        ({"currentHealthy": 1, "desiredHealthy": 0}, 429),
        ({"currentHealthy": 0, "desiredHealthy": 1, "spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}, 201),
        ({"currentHealthy": 0, "desiredHealthy": 1, "spec": {"unhealthyPodEvictionPolicy": "IfHealthyBudget"}}, 429),
    ],
)
async def test_pods_that_are_not_ready_count_only_where_others_lack(bench: Bench, status: Object, code: int) -> None:
    await bench.pod("a", ready=False)
    await bench.budget(disruptionsAllowed=0, **status)
    assert (await bench.evict("a")).code == code
    assert "disruptedPods" not in await bench.state()


async def test_a_dry_run_asks_and_changes_nothing(bench: Bench) -> None:
    await bench.pod("a")
    await bench.budget(disruptionsAllowed=1)
    before = await bench.state()
    assert (await bench.evict("a", dryRun="All")).code == 201
    assert (await bench.evict("a", {"dryRun": ["All"]})).code == 201
    assert await bench.state() == before
    found = (await bench.api.get(f"{bench.api.pods}/a")).ok()
    assert "deletionTimestamp" not in found["metadata"]
    assert "DisruptionTarget" not in {one["type"] for one in found["status"]["conditions"]}
    (await bench.api.merge(f"{bench.budgets}/web/status", {"status": {"disruptionsAllowed": 0}})).ok()
    assert (await bench.evict("a", dryRun="All")).code == 429


async def test_preconditions_are_of_the_pod(bench: Bench) -> None:
    made = await bench.pod("a")
    answer = await bench.evict("a", {"preconditions": {"uid": "another"}})
    assert (answer.code, answer.body["reason"]) == (409, "Conflict")
    assert "the UID in the precondition (another) does not match the UID in record" in answer.message
    answer = await bench.evict("a", {"preconditions": {"resourceVersion": "1"}})
    assert (answer.code, answer.body["reason"]) == (409, "Conflict")
    assert "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record" in answer.message
    assert not await bench.leaves("a")
    both = {"uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"]}
    assert (await bench.evict("a", {"preconditions": both})).code == 201
    assert await bench.leaves("a")


async def test_a_refused_precondition_has_been_counted_all_the_same(bench: Bench) -> None:
    """The budget is asked first: an eviction of a pod of the same name costs one until the controller looks again."""
    await bench.pod("a")
    await bench.budget(disruptionsAllowed=1)
    assert (await bench.evict("a", {"preconditions": {"uid": "another"}})).code == 409
    assert (await bench.state())["disruptionsAllowed"] == 0
    assert not await bench.leaves("a")


async def test_names_have_to_agree_and_pods_to_be_there(bench: Bench) -> None:
    await bench.pod("a")
    answer = await bench.evict("a", named="b")
    assert (answer.code, answer.message) == (400, "name in URL does not match name in Eviction object")
    assert (await bench.evict("none")).code == 404
