"""What the API server may answer to an eviction, and victims that do not end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random

from tests.e2e.preempting import preemption_policy
from tests.faults.catalogue import Fault, Story, lister
from tests.faults.crowded import LOW, NODE, POLICIES, Scene, crowded, first_eviction_kept_back, tenant
from tests.faults.pods import Object, on
from tests.faults.proxy import Do, Rule, What
from tests.faults.stage import Cast, Stage

from vgpu_devcluster import BEHAVIOUR, NVIDIA

PREEMPTING = Cast(settings={"VGPU_LEASE__DURATION": "15", "VGPU_PREEMPTION": "true"})
"""An operator that waits for answers as long as it takes to do something meanwhile: a third of this."""

FAULTS: list[Fault] = []
fault = lister(FAULTS, "preemption")


def story(name: str, how: str, checked: str) -> Callable[[Story], Story]:
    """Put a story on the list."""
    return fault(name, how, checked=checked, cast=PREEMPTING, nodes=NODE, preemption=True)


# Answers -------------------------------------------------------------------------------------------------------------


@story("eviction: 404", "the victim is deleted before its eviction comes", "the pod gets its room; no other is evicted")
async def victim_gone(stage: Stage, random: Random) -> None:
    async with first_eviction_kept_back(stage) as (scene, victim, go_on):
        await stage.delete(victim, gracePeriodSeconds=0)
        go_on()
        await scene.high_is_bound()
        await scene.answered([(victim, 404)])
        assert await scene.there() == {"high", *LOW} - {victim}


@story(
    "eviction: 504, another pod has the name",
    "the victim is deleted and created again before its eviction comes",
    "the pod gets the room; the one that has the name by now is not evicted, and waits",
)
async def victim_made_anew(stage: Stage, random: Random) -> None:
    """The API server tries for ten seconds to evict a pod of another UID, which is longer than the operator allows."""
    async with first_eviction_kept_back(stage) as (scene, victim, go_on):
        await stage.delete(victim, gracePeriodSeconds=0)
        await stage.come(tenant(victim, "low", 7000))
        stage.waiting.add(victim)
        go_on()
        await scene.high_is_bound()
        await scene.answered([(victim, 504)])
        assert await scene.there() == {"high", *LOW}
        await stage.delete(victim, gracePeriodSeconds=0)
        stage.waiting.discard(victim)


@story(
    "eviction: 429, nothing evicted yet",
    "a budget comes that allows none, after the victim was chosen",
    "another victim is chosen; the one that the budget protects stays",
)
async def budget_first(stage: Stage, random: Random) -> None:
    await _another_is_chosen(stage, 429, "one")


@story(
    "eviction: 500, two budgets",
    "two budgets come that select the victim",
    "another victim is chosen; the one that both select stays",
)
async def two_budgets(stage: Stage, random: Random) -> None:
    await _another_is_chosen(stage, 500, "one", "two")


async def _another_is_chosen(stage: Stage, status: int, *budgets: str) -> None:
    async with first_eviction_kept_back(stage) as (scene, victim, go_on):
        for name in budgets:
            await scene.put_budget(name, 0 if len(budgets) == 1 else 1, name=victim)
        stage.count("budget created", len(budgets))
        go_on()
        await scene.high_is_bound()
        answers = scene.answers()
        assert (victim, status) in answers, answers
        assert victim in await scene.there()
        assert len(scene.evicted()) == 1, answers


@story(
    "eviction: 429, one evicted already",
    "a budget comes that allows one of two, after the victims were chosen",
    "the other one is asked for again until the budget allows it; no other pod is evicted",
)
async def budget_second(stage: Stage, random: Random) -> None:
    async with first_eviction_kept_back(stage, 15000) as (scene, first, go_on):
        await scene.put_budget("low", 1, app="low")
        stage.count("budget created")
        go_on()

        async def is_refused() -> bool:
            return [code for _, code in scene.answers()].count(429) > 1

        await stage.until(is_refused, "the second eviction to be refused twice")
        assert scene.evicted() == {first}
        assert len({name for name, code in scene.answers() if code == 429}) == 1
        await scene.put_budget("low", 1, app="low")
        await scene.high_is_bound()
        assert len(scene.evicted()) == 2, scene.answers()
        assert len(await scene.there()) == 3


NO_RIGHT = 'pods "low" is forbidden: User "somebody" cannot create resource "pods/eviction" in API group ""'


@story(
    "eviction: 403",
    "the first eviction is refused (403)",
    "the condition of the pod says so; a minute later it is tried again",
)
async def denied(stage: Stage, random: Random) -> None:
    async with crowded(stage) as scene:
        stage.proxy.add(Rule(What.EVICTION, Do.REFUSE, 403, message=NO_RIGHT))
        await scene.high_comes()

        async def is_said() -> bool:
            said = 'the right to evict is missing: user "somebody" cannot create pods/eviction.'
            return said in await stage.message("high")

        await stage.until(is_said, "the condition to say that a right is missing")
        assert not scene.evicted()
        await scene.high_is_bound(within=100)
        assert len(scene.evicted()) == 1


UNSURE: dict[str, tuple[Do, int]] = {
    "503": (Do.REFUSE, 503),
    "no answer": (Do.HANG, 0),
    "500, but carried out": (Do.REFUSE_AFTER, 500),
    "cut, but carried out": (Do.CUT_AFTER, 0),
}


def _unsure(do: Do, status: int) -> Story:
    async def played(stage: Stage, random: Random) -> None:
        async with crowded(stage) as scene:
            stage.proxy.add(Rule(What.EVICTION, do, status))
            await scene.high_comes()
            await scene.high_is_bound()
            assert len(scene.evicted()) == 1, scene.answers()
            assert len(await scene.there()) == len(LOW)

    return played


for _way, (_do, _status) in UNSURE.items():
    _how = f"the first eviction {_do.value}{f' ({_status})' if _status else ''}"
    story(f"eviction: {_way}", _how, "it is asked for again; one pod is evicted, and no other")(_unsure(_do, _status))


# Victims that do not end ---------------------------------------------------------------------------------------------


@asynccontextmanager
async def crowd_on(stage: Stage, node: str, *pods: Object) -> AsyncIterator[Scene]:
    """Have pods come to a node, and a policy that lets others preempt them."""
    async with stage.http.post(POLICIES, json=preemption_policy()) as answer:
        assert answer.status in {201, 409}, await answer.text()
    try:
        for each in pods:
            each["spec"] |= on(node)
        await stage.come(*pods)
        yield Scene(stage)
    finally:
        async with stage.http.delete(f"{POLICIES}/preempts") as answer:
            assert answer.status in {200, 404}, await answer.text()


@fault(
    "victim on a dead node",
    "the kubelet of the victim's node sees nothing any more; two and a half minutes later the pod is deleted by force",
    checked="an event and the metric name it; after two minutes the pod gets the room of another one on another node",
    cast=PREEMPTING,
    nodes={"gpu-0": (NVIDIA,), "gpu-1": (NVIDIA,)},
    preemption=True,
)
async def dead_node(stage: Stage, random: Random) -> None:
    async def overdue(number: int) -> bool:
        return await stage.process.metric("vgpu_scheduler_overdue_victims") == number

    dies, keeps = tenant("dies", "low", 15000), tenant("keeps", "highest", 15000)
    others = [tenant(name, "high", 15000) for name in ("mid-0", "mid-1")]
    async with crowd_on(stage, "gpu-1", dies, keeps) as scene, crowd_on(stage, "gpu-0", *others):
        await stage.some_run(4)
        stage.nodes.dead.add("gpu-1")
        stage.count("kubelet dead")
        await stage.come(tenant("comes", "highest", 15000))
        await stage.until(lambda: overdue(1), "the victim to be overdue", 60.0)
        assert scene.evicted() == {"dies"}

        async def is_told() -> bool:
            text = "pod default/dies on node gpu-1 has not ended within its grace period"
            return ("VictimOverdue", text) in await stage.events("comes")

        await stage.until(is_told, "the event about it")
        await stage.until(lambda: stage.bound("comes"), "the pod to be bound elsewhere", 150.0)
        assert await stage.bound("comes") == "gpu-0"
        assert len(scene.evicted()) == 2, scene.answers()
        assert await overdue(1), "it is counted until it is gone"
        stage.nodes.dead.clear()
        await stage.delete("dies", gracePeriodSeconds=0)
        await stage.until(lambda: overdue(0), "nobody to be overdue")


@story(
    "victim holds the lock of its node",
    "the plugin is allocating for the victim when it is evicted",
    "the lock stays the victim's until the plugin has answered; then it ends, and the pod is bound",
)
async def holds_the_lock(stage: Stage, random: Random) -> None:
    holder, keeps = tenant("holder", "low", 15000), tenant("keeps", "highest", 15000)
    holder["metadata"]["annotations"][BEHAVIOUR] = "held"

    async def lock() -> str:
        async with stage.http.get("/api/v1/nodes/gpu-0") as answer:
            return str((await answer.json())["metadata"]["annotations"].get("hami.io/mutex.lock", ""))

    async with crowd_on(stage, "gpu-0", keeps) as scene:
        await stage.some_run(1)
        await stage.come(holder)
        await stage.one_is_allocating()
        stage.count("plugin holds")
        taken = await lock()
        assert taken.endswith("holder"), taken
        await scene.high_comes(15000)
        await scene.answered([("holder", 201)])
        assert await lock() == taken
        assert not await stage.bound("high")
        stage.nodes.let_go()
        await scene.high_is_bound()
        assert await scene.there() == {"keeps", "high"}
