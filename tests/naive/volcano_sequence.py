"""The naive twin of a sequence on one node of Volcano's: placements and ends of pods, one after the other."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from tests.naive import volcano as naive
from tests.naive.hami_quirks import Switches
from tests.naive.volcano import Card, Names
from tests.naive.volcano_mig import split
from tests.naive.volcano_quirks import VolcanoQuirk

Obj = dict[str, Any]


@dataclass
class Step:
    """What became of one step.

    Attributes
    ----------
    kind
        As of an answer, or ``removed``.
    written
        The allocation of a pod that was placed.
    cards
        The ledger that is kept from step to step.
    rebuilt
        The ledger as the annotations of the pods that are there make it.
    """

    kind: str
    written: str = ""
    cards: list[Card] = field(default_factory=list)
    rebuilt: list[Card] = field(default_factory=list)


def decide(case: Obj, switch: Switches) -> list[Step]:
    """Take all steps of a case."""
    names, policy = Names.of(case), case["args"]["schedulePolicy"]
    cards = naive.node_cards(case["node"], names, naive.nvidia_of(case))
    empty, held, steps = copy.deepcopy(cards), dict[str, tuple[Obj, str]](), list[Step]()
    for step in case["steps"]:
        uid = step["pod"]["metadata"]["uid"]
        if step["op"] == "remove":
            made = Step("removed")
            release(cards, uid, held.pop(uid)[1] if uid in held else "", switch)
        else:
            kind, written, cards = _place(cards, step["pod"], names, policy, switch)
            made = Step(kind, written)
            if kind == "placed":
                held[uid] = step["pod"], written
        made.cards, made.rebuilt = copy.deepcopy(cards), copy.deepcopy(empty)
        for pod, value in held.values():
            naive.replay(made.rebuilt, pod, naive.entries(value), switch)
        steps.append(made)
    return steps


def _place(cards: list[Card], pod: Obj, names: Names, policy: str, switch: Switches) -> tuple[str, str, list[Card]]:
    asked = naive.asks(pod, names, switch)
    if asked is None:
        return "refused", "", cards
    if not naive.has_request(pod, names, switch):
        return "passed", "", cards
    picks, after = naive.place(cards, pod, asked, policy, switch)
    if picks is None:
        return "unfit", "", cards  # the cases let Volcano allocate only where it has found room
    return "placed", naive.encode(picks, switch), after


def release(cards: list[Card], uid: str, value: str, switch: Switches) -> None:
    """Take what a pod has off the ledger."""
    for entry in naive.entries(value):
        assert entry is not None, value
        name, memory, cores = entry
        uuid, instance = split(name)
        for card in cards:
            if uuid != card.uuid:
                continue
            if uid not in card.pods and switch(VolcanoQuirk.SECOND_ENTRY_NOT_RELEASED):
                continue
            if card.mig is not None and instance is not None:
                found = card.mig.find(*instance)
                assert found is not None
                booked = card.mig.memory(found[1])
                memory = booked if card.mig.give_back(*found, switch) else 0
            card.used -= 1
            card.used_memory -= memory
            card.used_cores -= cores
            if switch(VolcanoQuirk.SECOND_ENTRY_NOT_RELEASED):
                card.pods.pop(uid, None)
                card.groups.pop(uid, None)
    for card in cards:
        card.pods.pop(uid, None)
        card.groups.pop(uid, None)
