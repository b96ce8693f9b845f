"""Golden cases of sequences on one node of Volcano's: placements and ends of pods on one ledger.

After every step what the product keeps is held against what it makes of the annotations alone: whatever has happened,
a restart finds the same books.
"""

from __future__ import annotations

from typing import Any

from tests.golden.outcome import Case, Outcome, differences, responsible
from tests.golden.volcano_vgpu import comparable, expected_cards, vector_cards
from tests.golden.volcano_world import TIMES, World, annotations_of
from tests.naive import volcano_sequence as naive
from tests.naive.hami_quirks import NONE, Switches
from tests.naive.volcano_quirks import VOLCANO
from tests.naive.volcano_sequence import Step

Obj = dict[str, Any]


def run_case(case: Case) -> Outcome:
    """Take the steps of a case and compare after each."""
    on, off = Switches(VOLCANO), Switches(NONE)
    theirs, ours = naive.decide(case, on), naive.decide(case, off)
    found = [
        text
        for number, (step, answer) in enumerate(zip(case["steps"], theirs, strict=True))
        for text in _against_vector(f"twin.steps[{number}]", step, answer)
    ]
    found += differences("product", _comparable(ours), _comparable(product(case)))
    if found:
        return Outcome("failed", "; ".join(found))
    asked = on.asked | off.asked
    quirks = responsible(theirs, ours, lambda some: naive.decide(case, Switches(some)), asked, VOLCANO)
    return Outcome("decided" if quirks else "passed", quirks=quirks)


def _against_vector(what: str, step: Obj, answer: Step) -> list[str]:
    expected: Obj = {"cards": expected_cards(step["cards"])}
    found: Obj = {"cards": vector_cards(answer.cards)}
    if step["op"] == "place":
        expected["fit"], found["fit"] = step["fit"], answer.kind in ("placed", "passed")
        if step["fit"]:
            expected["annotations"] = step["annotations"]
            found["annotations"] = annotations_of(answer.written, dict.fromkeys(TIMES, "<unix time>"))
    return list(differences(what, expected, found))


def product(case: Case) -> list[Step]:
    """What the product says about a case."""
    world = World(case)
    held: dict[str, Obj] = {}
    steps = []
    for step in case["steps"]:
        uid = step["pod"]["metadata"]["uid"]
        if step["op"] == "remove":
            kind, value = "removed", ""
            if held.pop(uid, None):
                world.forget(uid)
        else:
            placed = world.place(step["pod"])
            kind, value = placed.kind, placed.value
            if placed.placement is not None:
                world.assume(placed)
                world.observe(placed.bound)
                held[uid] = placed.bound
        steps.append(Step(kind, value, world.cards(), World(case, held.values()).cards()))
    return steps


def _comparable(steps: list[Step]) -> list[Obj]:
    return [
        {
            "kind": step.kind,
            "written": step.written,
            "cards": comparable(step.cards),
            "rebuilt": comparable(step.rebuilt),
        }
        for step in steps
    ]
