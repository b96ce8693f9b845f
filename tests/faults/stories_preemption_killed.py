"""Leaders that die after each write of a preemption."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.faults.catalogue import Fault, Story, lister
from tests.faults.crowded import LOW, NODE, crowded, first_eviction_kept_back
from tests.faults.proxy import Do, Rule, What
from tests.faults.stage import Cast, Stage
from tests.faults.stories_operator import SHORT

KILLED = Cast(settings={**SHORT, "VGPU_PREEMPTION": "true"})

FAULTS: list[Fault] = []
fault = lister(FAULTS, "preemption")


def story(name: str, how: str, checked: str) -> Callable[[Story], Story]:
    """Put a story on the list."""
    return fault(name, how, checked=checked, cast=KILLED, nodes=NODE, preemption=True)


def _killed_after(what: What, name: str = "", first: int = 0) -> Story:
    async def played(stage: Stage, random: Random) -> None:
        async with crowded(stage, perHour=2) as scene:
            rule = stage.proxy.add(Rule(what, Do.HOLD_ANSWER, name=name, first=first))
            await scene.high_comes(15000)
            await scene.killed_at(rule)
            await scene.high_is_bound()
            assert len(scene.evicted()) == 2, scene.answers()
            assert len(await scene.there()) == 3
            assert await scene.recorded() == scene.evicted()

    return played


KILLS: dict[str, tuple[What, str, int]] = {
    "the nomination": (What.CONDITION, "/high/status", 0),
    "the record of an eviction": (What.RECORD, "", 0),
    "the first of two evictions": (What.EVICTION, "", 0),
    "the last of two evictions": (What.EVICTION, "", 1),
}
for _after, (_what, _name, _first) in KILLS.items():
    story(
        f"killed after {_after}",
        "SIGKILL of the leader while the answer is on its way; the policy allows two evictions within the hour",
        "the pod is bound; its two victims are evicted and recorded once, and no other pod is",
    )(_killed_after(_what, _name, _first))


@story(
    "killed after the record of a refused eviction is taken back",
    "SIGKILL of the leader while the answer is on its way; the policy allows one eviction within the hour",
    "nothing is recorded then; the pod is decided anew and bound; one victim is evicted and recorded",
)
async def record_taken_back(stage: Stage, random: Random) -> None:
    async with crowded(stage, perHour=1) as scene:
        stage.proxy.add(Rule(What.EVICTION, Do.REFUSE, 429))
        rule = stage.proxy.add(Rule(What.RECORD, Do.HOLD_ANSWER, first=1))
        await scene.high_comes()
        await scene.killed_at(rule)
        assert await scene.recorded() == set()
        assert not scene.evicted()
        await scene.high_is_bound()
        assert len(scene.evicted()) == 1, scene.answers()
        assert await scene.recorded() == scene.evicted()
        assert await scene.there() == {"high", *LOW} - scene.evicted()


@story(
    "killed after a nomination is cleared",
    "SIGKILL of the leader while the answer is on its way; a budget that allows none had the pod decided anew",
    "the pod waits, nominated to no node; once the budget allows one it is bound, and no more than one pod is evicted",
)
async def nomination_cleared(stage: Stage, random: Random) -> None:
    async with first_eviction_kept_back(stage) as (scene, _, go_on):
        await scene.put_budget("low", 0, app="low")
        stage.count("budget created")
        rule = stage.proxy.add(Rule(What.CLEARING, Do.HOLD_ANSWER, name="/high/status"))
        go_on()
        await scene.killed_at(rule)
        await stage.leader()
        assert await scene.nominated("high") == ""
        assert not scene.evicted()
        assert await scene.there() == {"high", *LOW}
        await scene.put_budget("low", 1, app="low")
        await scene.high_is_bound()
        assert len(scene.evicted()) == 1, scene.answers()
        assert await scene.there() == {"high", *LOW} - scene.evicted()


def _killed_while_exceeding(what: What, name: str) -> Story:
    async def played(stage: Stage, random: Random) -> None:
        async with crowded(stage, budgets="Exceed") as scene:
            await scene.put_budget("low", 0, app="low")
            stage.count("budget created")
            rule = stage.proxy.add(Rule(what, Do.HOLD_ANSWER, name=name))
            await scene.high_comes()
            await scene.killed_at(rule)
            await scene.high_is_bound()
            assert len(await scene.there()) == len(LOW)

    return played


for _after, _what, _name in (
    ("the mark of a victim", What.CONDITION, "/pods/low-"),
    ("the deletion of a victim", What.OTHER, "/pods/low-"),
):
    story(
        f"killed after {_after}",
        "SIGKILL of the leader while the answer is on its way; the policy exceeds a budget that allows no disruption",
        "the pod is bound; one victim is deleted, and no other pod is",
    )(_killed_while_exceeding(_what, _name))
