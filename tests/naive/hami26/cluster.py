"""The naive twin of HAMi 2.6's placement: a whole case from its raw JSON objects to an answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from tests.naive import hami
from tests.naive.hami import ALLOCATED, UNREGISTERED, Answer
from tests.naive.hami26 import pods
from tests.naive.hami26.cards import place
from tests.naive.hami26.quirks import Quirk26
from tests.naive.hami_cards import node_score
from tests.naive.hami_mig import Held
from tests.naive.hami_quirks import NONE, Switches
from tests.naive.hami_values import Card, Wish, words
from tests.naive.hami_wire import Bad, Names, Obj, decode_pod, weights

UNFIT = "NodeUnfitPod"
WEIGHTS = "hami.io/device-scoring-weights"

_INSTANCE = re.compile(r"(.*)\[([0-9]+)-([0-9]+)\]")
_LATER = frozenset({"topology-aware", "mutex", "numa"})


@dataclass
class Answer26(Answer):
    """What becomes of a pod; ``logged`` are the reasons that HAMi 2.6 keeps for its log."""

    logged: dict[str, str] = field(default_factory=dict)


def decide(case: Obj, quirks: Iterable[Enum] = NONE) -> tuple[Answer26, set[Enum]]:
    """Decide a placement case; also tell which quirks were asked for."""
    switch = Switches(quirks)
    return _decide(case, switch), switch.asked


def _decide(case: Obj, switch: Switches) -> Answer26:
    names = Names.of(case)
    containers, refused = pods.containers_of(case["pod"], names, switch)
    annotations = case["pod"]["metadata"].get("annotations") or {}
    policy = annotations.get("hami.io/gpu-scheduler-policy", case["config"]["gpuSchedulerPolicy"])
    weighting: tuple[int, int, int] | None = (1, 1, 1)
    later = WEIGHTS in annotations or "," in policy or _LATER.intersection(words(policy))
    if later and not switch(Quirk26.LATER_POLICIES_UNKNOWN):
        weighting = weights(annotations[WEIGHTS]) if WEIGHTS in annotations else weighting
    elif later:
        policy = "spread" if policy != "binpack" else policy
    if weighting is None:
        refused.add(Bad("", WEIGHTS))
    if refused or weighting is None:
        return Answer26("refused", refused=frozenset(refused))
    if not any(container.asks for container in containers):
        return Answer26("passthrough")
    limits = hami.quotas(case, case["pod"]["metadata"]["namespace"], names, switch)
    if limits and switch(Quirk26.QUOTAS_IGNORED):
        limits = {}
    wish = Wish(
        tuple(containers), pods.rules_of(annotations, switch), policy, numa_first=True, weights=weighting, quotas=limits
    )
    spread = annotations.get("hami.io/node-scheduler-policy", case["config"]["nodeSchedulerPolicy"]) == "spread"
    return _over_nodes(ledger(case, names, switch), wish, spread=spread, switch=switch)


def _over_nodes(nodes: Mapping[str, Sequence[Card]], wish: Wish, *, spread: bool, switch: Switches) -> Answer26:
    answer = Answer26("unschedulable")
    for name, cards in nodes.items():
        if not cards:
            answer.failed[name] = UNREGISTERED
            continue
        fit = place(cards, wish, switch)
        if fit.fits:
            answer.scores[name] = node_score(cards)
            answer.per_node[name] = {ALLOCATED: pods.allocation(fit.picks, switch)}
        elif switch(Quirk26.REASONS_ONLY_LOGGED):
            answer.failed[name], answer.logged[name] = UNFIT, fit.text
        else:
            answer.failed[name] = fit.text
    if answer.scores:
        best = (min if spread else max)(answer.scores.values())
        answer.kind = "placed"
        answer.best = tuple(sorted(name for name, score in answer.scores.items() if score == best))
    return answer


# Ledger ------------------------------------------------------------------------------------------------------------


def ledger(case: Obj, names: Names, switch: Switches) -> dict[str, list[Card]]:
    """The cards of every node in the order registered, with what the existing pods use of them."""
    templates = geometries(case)
    nodes = {node["metadata"]["name"]: node_cards(node, names, templates, switch) for node in case["nodes"]}
    for pod in case["pods"]:
        where, charges, blanket = hami.usage(without_instances(pod), names, switch)
        cards = nodes.get(where, [])
        if charges:
            _hold_instances(pod, cards, switch)
        for card in cards:
            charge = hami.on_any_card(blanket, card) if blanket else charges.get(card.uuid)
            card.healthy = card.healthy and not (blanket and card.mode == "mig")
            if charge:
                card.used += charge[0]
                card.used_memory += charge[1]
                card.used_cores += charge[2]
    for card in [card for cards in nodes.values() for card in cards]:
        if not explained(card) and not switch(Quirk26.MIG_STATE_BELIEVED):
            card.healthy = False
    return nodes


def geometries(case: Obj) -> list[tuple[list[str], tuple[tuple[int, ...], ...]]]:
    """Parts of model names, and the sizes of the instances of each template."""
    return [
        (
            listed["models"],
            tuple(
                tuple(kind["memory"] for kind in kinds for _ in range(kind["count"]))
                for kinds in listed["allowedGeometries"]
            ),
        )
        for listed in case["config"]["deviceConfig"]["nvidia"].get("knownMigGeometries", ())
    ]


def node_cards(
    node: Obj, names: Names, known: Sequence[tuple[list[str], tuple[tuple[int, ...], ...]]], switch: Switches
) -> list[Card]:
    """The cards that a node registers, MIG cards with the templates of their model."""
    cards = hami.node_cards(node, names, switch)
    for card in cards:
        card.healthy = card.healthy or switch(Quirk26.HEALTH_IGNORED)
        card.cordoned = card.cordoned and not switch(Quirk26.CORDON_IGNORED)
        if card.mode == "mig":
            found = (sizes for models, sizes in known if any(model in card.type for model in models))
            card.templates = next(found, ())
    return cards


def without_instances(pod: Obj) -> Obj:
    """The pod with the cards in its allocation instead of their instances."""
    annotations = pod["metadata"].get("annotations") or {}
    if ALLOCATED not in annotations:
        return pod
    bare = re.sub(r"\[[0-9]+-[0-9]+\]", "", annotations[ALLOCATED])
    return {**pod, "metadata": {**pod["metadata"], "annotations": {**annotations, ALLOCATED: bare}}}


def _hold_instances(pod: Obj, cards: Sequence[Card], switch: Switches) -> None:
    entries = decode_pod(pod["metadata"]["annotations"][ALLOCATED], switch)
    for entry in [entry for container in entries for entry in container]:
        found = _INSTANCE.fullmatch(entry.uuid)
        for card in cards:
            if found and card.uuid == found[1]:
                card.in_use.append(Held("", int(found[3]), 1, int(found[2])))


def explained(card: Card) -> bool:
    """Whether everything in use of a MIG card is an instance of one template, each used once; nothing of another is."""
    if card.mode != "mig":
        return not card.in_use
    if not card.in_use:
        return not card.used
    slots = [held.start for held in card.in_use]
    template = card.in_use[0].template
    return (
        len(slots) == len(set(slots)) == card.used
        and {held.template for held in card.in_use} == {template}
        and template < len(card.templates)
        and max(slots) < len(card.templates[template])
    )
