"""Golden cases of Volcano's sessions: what its exclusive rules say of each node, against policies that say the same.

A rule is a map of labels: pods that match it share no card with each other. Here it is a policy for pods with these
labels that keeps them apart by the keys. What Volcano's plugins score is not compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.golden.outcome import Case, Outcome, differences, responsible
from tests.golden.volcano_world import TIMES, World, annotations_of
from tests.naive import volcano as naive
from tests.naive.hami_quirks import NONE, Switches
from tests.naive.volcano_quirks import VOLCANO, VolcanoQuirk

from vgpu_scheduler.state import PeerKeys

Obj = dict[str, Any]
Answers = dict[str, tuple[bool, str]]
"""By node: whether the pod fits, and what is written for it."""
_ARGUMENTS = "deviceshare."


def run_case(case: Case) -> Outcome:
    """Ask each node of a case and compare."""
    if "exclusive-rules" not in case["tags"]:
        return Outcome("not_implemented", "what Volcano's plugins score is not added up here")
    on, off = Switches(VOLCANO), Switches(NONE)
    theirs, ours = twin(case, on), twin(case, off)
    found = [*_against_vector(case, theirs), *differences("product", ours, product(case))]
    if found:
        return Outcome("failed", "; ".join(found))
    asked = on.asked | off.asked
    quirks = responsible(theirs, ours, lambda some: twin(case, Switches(some)), asked, VOLCANO)
    return Outcome("decided" if quirks else "passed", quirks=quirks)


def _against_vector(case: Case, answers: Answers) -> Iterator[str]:
    for node, expected in case["expect"]["nodes"].items():
        fits, written = answers[node]
        yield from differences(f"twin.{node}.fit", expected["fit"], fits)
        if "allocate" in expected and fits:
            value = {**annotations_of(written, dict.fromkeys(TIMES, "<unix time>")), naive.NODE: node}
            yield from differences(f"twin.{node}.allocate", expected["allocate"], {"annotations": value})


def _rules(case: Case) -> list[Obj]:
    """The rules that the pod of a case matches; Volcano leaves out what is no list of maps of texts."""
    rules = case["args"]["deviceshare"]["arguments"][f"{_ARGUMENTS}GPUExclusiveRules"]
    return [rule for rule in rules if _matches(case["pod"], rule)] if isinstance(rules, list) else []


def _matches(pod: Obj, rule: Obj) -> bool:
    labels = pod["metadata"].get("labels") or {}
    return all(labels.get(key) == value for key, value in rule.items())


def _on_nodes(case: Case) -> Iterator[tuple[str, Case]]:
    """Each node with the pods on it, as a case of its own."""
    policy = case["args"]["deviceshare"]["arguments"].get(f"{_ARGUMENTS}SchedulePolicy", "")
    for node in case["nodes"]:
        name = node["metadata"]["name"]
        pods = [pod for pod in case["pods"] if pod["spec"]["nodeName"] == name]
        yield name, {**case, "node": node, "pods": pods, "args": {**case["args"], "schedulePolicy": policy}}


def twin(case: Case, switch: Switches) -> Answers:
    """What the twin says."""
    return {name: _on_node(each, switch) for name, each in _on_nodes(case)}


def _on_node(case: Case, switch: Switches) -> tuple[bool, str]:
    names, pod = naive.Names.of(case), case["pod"]
    cards = naive.node_cards(case["node"], names, naive.nvidia_of(case))
    asked = naive.asks(pod, names, switch)
    if not cards:
        passes = asked is not None and not naive.has_request(pod, names, switch)
        return passes or switch(VolcanoQuirk.NODE_WITHOUT_CARDS_PASSES), ""
    for other in case["pods"]:
        ends = "deletionTimestamp" in other["metadata"]
        if not (ends and switch(VolcanoQuirk.TERMINATING_CARD_FREE)):
            naive.charge(cards, other, names, switch)
    if asked is None:
        return False, ""
    if not naive.has_request(pod, names, switch):
        return True, ""
    held = {
        entry[0]
        for other in case["pods"]
        if any(_matches(other, rule) for rule in _rules(case))
        for entry in naive.entries((other["metadata"].get("annotations") or {}).get(naive.ALLOCATED, ""))
        if entry is not None
    }
    for card in cards:
        card.number = card.used if card.uuid in held else card.number
    picks, _ = naive.place(cards, pod, asked, case["args"]["schedulePolicy"], switch)
    return (False, "") if picks is None else (True, naive.encode(picks, switch))


def product(case: Case) -> Answers:
    """What the product says, with a policy for each rule."""
    apart = tuple(PeerKeys(labels=tuple(sorted(rule))) for rule in _rules(case))
    answers: Answers = {}
    for name, each in _on_nodes(case):
        placed = World(each, each["pods"]).place(case["pod"], apart)
        answers[name] = placed.kind in ("placed", "passed"), placed.value
    return answers
