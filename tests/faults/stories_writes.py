"""Refusals, errors, timeouts and lost answers of every kind of write, before and after it took effect."""

from __future__ import annotations

from random import Random

from tests.faults.catalogue import Fault, Story
from tests.faults.pods import OPEN, burst, pod
from tests.faults.proxy import Do, Rule, What
from tests.faults.stage import Stage

WAYS: dict[str, tuple[Do, int, float]] = {
    "409": (Do.REFUSE, 409, 0.0),
    "429": (Do.REFUSE, 429, 1.0),
    "500": (Do.REFUSE, 500, 0.0),
    "no answer": (Do.HANG, 0, 0.0),
    "500, but carried out": (Do.REFUSE_AFTER, 500, 0.0),
    "cut, but carried out": (Do.CUT_AFTER, 0, 0.0),
}
WRITES = (What.NODE, What.BINDING, What.CONDITION, What.EVENT, What.LEASE)


def story_of(what: What, do: Do, status: int, retry_after: float) -> Story:
    """Return the story of writes that fail in one way."""

    async def story(stage: Stage, random: Random) -> None:
        """A burst comes while each third write fails; one pod waits for a node that is opened later."""
        rule = Rule(what, do, status, times=4, every=random.choice((1, 2, 3)), retry_after=retry_after)
        stage.proxy.add(rule)
        await stage.come(*burst(), pod("late", nodeSelector={OPEN: "yes"}))
        await stage.until(lambda: told(stage, rule), f"a {what.value} to fail")
        await stage.patch_node("gpu-0", metadata={"labels": {OPEN: "yes"}})

    return story


async def told(stage: Stage, rule: Rule) -> bool:
    """Tell whether a write was hit, and the pod that waits says so unless that is what fails."""
    return rule.hits > 0 and (rule.what is What.CONDITION or bool(await stage.message("late")))


FAULTS = [
    Fault(
        "writes",
        f"{what.value}: {way}",
        f"up to 4 writes {do.value}{f' ({status})' if status else ''}",
        story_of(what, do, status, retry_after),
        "a pod that fits nowhere has a condition that says why, and is bound once it fits",
    )
    for what in WRITES
    for way, (do, status, retry_after) in WAYS.items()
]
