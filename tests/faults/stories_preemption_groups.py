"""Leaders that die after each write of a preemption for a group: all of its pods get their room, or decide anew."""

from __future__ import annotations

from random import Random

from tests.engine.builders import in_group
from tests.faults.catalogue import Fault, Story, lister
from tests.faults.crowded import LOW, NODE, Scene, crowded, tenant
from tests.faults.proxy import Do, Rule, What
from tests.faults.stage import Cast, Stage
from tests.faults.stories_operator import SHORT

KILLED = Cast(settings={**SHORT, "VGPU_PREEMPTION": "true"})
GANG = ("gang-0", "gang-1")

FAULTS: list[Fault] = []
fault = lister(FAULTS, "preemption")


async def comes(scene: Scene, name: str) -> None:
    """Have a pod of a group come, each of whose two pods needs a card for itself."""
    made = tenant(name, "high", 15000)
    made["metadata"]["annotations"] = in_group("gang", len(GANG))
    await scene.stage.come(made)


def _killed_after(what: What, name: str = "", first: int = 0) -> Story:
    async def played(stage: Stage, random: Random) -> None:
        async with crowded(stage, perHour=len(LOW)) as scene:
            await comes(scene, GANG[0])

            async def waits() -> bool:
                (found,) = [pod for pod in await stage.pods() if pod["metadata"]["name"] == GANG[0]]
                return bool(found["status"].get("conditions"))

            await stage.until(waits, "the first pod to wait for the other one", 30.0)
            rule = stage.proxy.add(Rule(what, Do.HOLD_ANSWER, name=name, first=first))
            await comes(scene, GANG[1])
            await scene.killed_at(rule)
            for each in GANG:

                async def is_bound(each: str = each) -> object:
                    return await stage.bound(each)

                await stage.until(is_bound, f"{each} to be bound", 60.0)
            assert scene.evicted() == set(LOW), scene.answers()
            assert await scene.there() == set(GANG)
            assert await scene.recorded() == set(LOW)

    return played


KILLS: dict[str, tuple[What, str, int]] = {
    "the nomination of one pod of a group": (What.CONDITION, "/gang-0/status", 0),
    "the nomination of all pods of a group": (What.CONDITION, "/gang-1/status", 0),
    "the first eviction for a group": (What.EVICTION, "", 0),
    "the third eviction for a group": (What.EVICTION, "", 2),
}
for _after, (_what, _name, _first) in KILLS.items():
    fault(
        f"killed after {_after}",
        "SIGKILL of the leader while the answer is on its way; four pods have to leave, as many as the policy allows",
        checked="all pods of the group are bound; each victim is evicted and recorded once, and no other pod is",
        cast=KILLED,
        nodes=NODE,
        preemption=True,
    )(_killed_after(_what, _name, _first))
