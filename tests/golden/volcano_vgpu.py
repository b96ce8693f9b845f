"""Golden cases of Volcano's vGPU placement: what Volcano's own code does on one node, against this scheduler.

A case is a node, the pods on it, and a pod to place. The product runs below the Kubernetes filters. Where it differs
on purpose the naive twin tells, as in the cases of HAMi.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from tests.golden.outcome import Case, Outcome, differences, responsible
from tests.golden.volcano_world import TIMES, World, annotations_of
from tests.naive import volcano as naive
from tests.naive.hami_quirks import NONE, Switches
from tests.naive.volcano import Answer, Card
from tests.naive.volcano_quirks import VOLCANO

REGISTER = "volcano.sh/node-vgpu-register"
Obj = dict[str, Any]


def run_case(case: Case) -> Outcome:
    """Place the pod of a case and compare."""
    if missing := _not_implemented(case):
        return Outcome("not_implemented", missing)
    case = _as_advertised(case)
    on, off = Switches(VOLCANO), Switches(NONE)
    theirs, ours = naive.decide(case, on), naive.decide(case, off)
    found = [*_against_vector(case, theirs), *differences("product", _comparable(ours), _comparable(product(case)))]
    if found:
        return Outcome("failed", "; ".join(found))
    asked = on.asked | off.asked
    quirks = responsible(theirs, ours, lambda some: naive.decide(case, Switches(some)), asked, VOLCANO)
    return Outcome("decided" if quirks else "passed", quirks=quirks)


def _as_advertised(case: Case) -> Case:
    """Let the node advertise the names that are configured, as its plugin does; Volcano asks for its own there."""
    case, names = copy.deepcopy(case), naive.Names.of(case)
    own = {
        "volcano.sh/vgpu-number": names.count,
        "volcano.sh/vgpu-memory": names.memory,
        "volcano.sh/vgpu-cores": names.cores,
    }
    status = case["node"]["status"]
    status["allocatable"] = {own.get(name, name): amount for name, amount in status["allocatable"].items()}
    return case


def _not_implemented(case: Case) -> str:
    """What in a case is beyond this version; empty if nothing is."""
    if "expectAny" in case:
        return "an outcome that hangs on the order of a map of Go's"
    items = (case["node"]["metadata"].get("annotations") or {}).get(REGISTER, "").split(":")
    if "" in items[:-1]:
        return "a registration with an empty item, over which Volcano breaks sooner or later"
    return ""


# The vector --------------------------------------------------------------------------------------------------------


def _against_vector(case: Case, answer: Answer) -> list[str]:
    expect = case["expect"]
    if answer.kind == "panic":
        return [] if expect.get("panic") else ["twin: it panics, and Volcano does not"]
    if expect["device"] is None or answer.kind == "no-cards":
        return list(differences("twin.cards", expect["device"], None if answer.kind == "no-cards" else answer.before))
    fits = answer.kind in ("placed", "passed")
    found = {
        "device": {"cards": vector_cards(answer.before), "mode": _mode(answer.before)},
        "hasRequest": answer.kind != "passed",
        "fit": fits,
        "code": 0 if fits else 2,
        "cardsAfter": vector_cards(answer.after),
        **({"cardsReplay": vector_cards(answer.replayed), "allocate": _allocation(answer)} if fits else {}),
    }
    expected = copy.deepcopy({key: expect[key] for key in found})
    for holder, key in ((expected["device"], "cards"), (expected, "cardsAfter"), (expected, "cardsReplay")):
        if key in holder:
            holder[key] = expected_cards(holder[key])
    return list(differences("twin", expected, found))


def _allocation(answer: Answer) -> Obj:
    """Volcano's annotations; it writes empty ones for a pod that gets nothing."""
    return {"annotations": annotations_of(answer.written, dict.fromkeys(TIMES, "<unix time>"))}


def _mode(cards: Sequence[Card]) -> str:
    """Volcano's mode of a node: that of its last card."""
    return "hami-core" if cards[-1].mig is None else "mig"


def expected_cards(cards: Sequence[Obj]) -> list[Obj]:
    """The cards of a case, in the form in which they are compared."""
    return [
        {**card, "pods": {uid: [use["usedMem"], use["usedCore"], use["podGroup"]] for uid, use in card["pods"].items()}}
        for card in cards
    ]


def cards_of(cards: Sequence[Card]) -> list[Obj]:
    """Cards as Volcano names what they have."""
    return [
        {
            "uuid": card.uuid,
            "index": card.index,
            "number": card.number,
            "memory": card.memory,
            "type": card.type,
            "health": card.healthy,
            "usedNum": card.used,
            "usedMem": card.used_memory,
            "usedCore": card.used_cores,
            "pods": {uid: [*use, card.groups[uid]] for uid, use in card.pods.items()},
        }
        for card in cards
    ]


def vector_cards(cards: Sequence[Card]) -> list[Obj]:
    """Cards as a case has them, their instances included."""
    return [
        each if card.mig is None else {**each, "mig": card.mig.as_vector()}
        for card, each in zip(cards, cards_of(cards), strict=True)
    ]


# The product -------------------------------------------------------------------------------------------------------


def product(case: Case) -> Answer:
    """What the product says about a case."""
    world = World(case, case["pods"])
    if not world.has_cards:
        return Answer("no-cards")
    before = world.cards()
    placed = world.place(case["pod"])
    if placed.placement is None:
        replayed = before if placed.kind == "passed" else []
        return Answer(placed.kind, before, after=before, replayed=replayed)
    replayed = world.copy()
    replayed.observe(placed.bound)
    world.assume(placed)
    return Answer("placed", before, placed.value, world.cards(), replayed.cards())


def comparable(cards: Sequence[Card]) -> list[Obj]:
    """Cards as both this scheduler and its twin have them."""
    return [
        {
            **each,
            "explained": card.explained,
            "instances": [card.mig.group, card.mig.positions] if card.mig is not None and card.explained else None,
        }
        for card, each in zip(cards, cards_of(cards), strict=True)
    ]


def _comparable(answer: Answer) -> Obj:
    parts = {"before": answer.before, "after": answer.after, "replayed": answer.replayed}
    return {
        "kind": answer.kind,
        "written": answer.written,
        **{part: comparable(cards) for part, cards in parts.items()},
    }
