"""Remedies for a pod that cordons of nodes and cards keep waiting: remove one cordon."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice

from vgpu_scheduler.kube import UNSCHEDULABLE_TAINT
from vgpu_scheduler.model import by_name
from vgpu_scheduler.whatif.advice.remedy import MOST_OF_A_KIND, HypotheticalPod, Remedy, RemedyType, do
from vgpu_scheduler.whatif.reasons.node_exclusions import tolerating
from vgpu_scheduler.whatif.world.nodes import is_cordoned, listed_cards, uncordoned, with_annotation
from vgpu_scheduler.whatif.world.world import World


def uncordon_nodes(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Try to uncordon each node, unless the pod would not fit even if it tolerated all cordons."""
    if waiting.node(tolerating(waiting.written, [UNSCHEDULABLE_TAINT])):
        yield from helping(waiting, cordoned_nodes(waiting.world))


def uncordon_cards(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Try to uncordon each card, or all cards of a node if no single one helps."""
    single, several = list[Remedy](), list[Remedy]()
    for *some, every in cordoned_cards(waiting.world, waiting.closed_by_cards()):
        if found := list(helping(waiting, [every])):
            several += found
            single += helping(waiting, some)
        if len(single) >= MOST_OF_A_KIND:
            break
    yield from (single or several)[:MOST_OF_A_KIND]


def cordoned_nodes(world: World) -> Iterator[Remedy]:
    """Yield the removal of each node's cordon, without checking that it helps."""
    for name, node in sorted(world.nodes.items()):
        if is_cordoned(node):
            yield Remedy(RemedyType.UNCORDON_NODE, do(f"uncordon node {name}"), "", objects=(uncordoned(node),))


def cordoned_cards(world: World, names: Iterable[str]) -> Iterator[list[Remedy]]:
    """Yield, for each node, the removal of each card's cordon, and finally of all of them."""
    keys = world.engine.dialects.cordon_annotations
    for name in names:
        node = world.nodes[name]
        for key in keys:
            cards = listed_cards(node, key)
            some = [[card] for card in cards] + [cards]
            ways = []
            for going in some if cards else ():
                staying = ",".join(card for card in cards if card not in going)
                what = do(f"uncordon {by_name('card', going)} of node {name}")
                ways.append(Remedy(RemedyType.UNCORDON_CARD, what, "", objects=(with_annotation(node, key, staying),)))
            if ways:
                yield ways


def helping(waiting: HypotheticalPod, changes: Iterable[Remedy]) -> Iterator[Remedy]:
    """Yield the first few changes with which the pod fits."""
    found = (replace(change, node=node) for change in changes if (node := waiting.node_with(*change.objects)))
    yield from islice(found, MOST_OF_A_KIND)
