"""Explain a pod by cards: the nodes whose cards matter, the verdict of each card, and the cards that a pod holds."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from vgpu_scheduler.engine import CardVerdict, card_verdicts
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Device, Dimension, NodeVerdict, counted, first_of, shown_needed, shown_unit
from vgpu_scheduler.whatif.objects.cards import card_name
from vgpu_scheduler.whatif.reasons.mismatch import CARD_REASONS, OTHER_CARDS
from vgpu_scheduler.whatif.world.simulation import PodResult, created
from vgpu_scheduler.whatif.world.tables import few
from vgpu_scheduler.whatif.world.world import World

_MOST_ALIKE: Final = 3
"""The number of cards with the same verdict above which they share one row."""
_MOST_RANKED: Final = 1000
"""The most nodes that are ranked by how close they are to fitting the pod."""
_MOST_NODES: Final = 8
"""The most nodes whose cards are shown one by one."""
_WANTS_UUID: Final = re.compile(r"(?<!no)(?<!no-)use-.*uuid")
"""Matches annotations that name the cards a pod wants by UUID."""


def nodes_with_cards(world: World, answer: PodResult) -> list[str]:
    """Return the nodes whose cards matter to an unschedulable pod, the closest to fitting first.

    These are the nodes that are infeasible because of their cards, and all nodes with a card that the pod pins by UUID.
    Nodes with a pinned card come first, then the node of the near miss, then nodes with cards that the pod could use
    at all; these are ordered by the number of cards that fit, and by how little the best other card lacks.
    """
    decision = answer.decision
    nearest = decision.near_miss.node if decision.near_miss else ""
    pinning = set(_pinning(world, answer.pod))
    shown = [node for node, verdict in sorted(decision.verdicts.items()) if _is_about_cards(verdict) or node in pinning]
    if len(shown) <= 1:
        return shown
    ours = created(world, answer.pod, answer.pod.uid)

    def distance(node: str) -> tuple[bool, bool, bool, int, float]:
        verdicts = card_verdicts(world.engine.algorithm, ours, node)
        lacks = [(lack.asked - lack.free) / lack.asked for each in verdicts if (lack := each.lack) and lack.asked]
        others = all(each.reason in OTHER_CARDS for each in verdicts)
        fit = sum(each.reason is None for each in verdicts)
        return node not in pinning, node != nearest, others, -fit, min(lacks, default=math.inf)

    first = [node for node in shown if node in pinning]
    ranked = [*first, *(node for node in shown if node not in pinning)]
    looked_at = sorted(ranked[:_MOST_RANKED], key=distance)
    return [*looked_at, *ranked[_MOST_RANKED:]]


def _pinning(world: World, pod: Pod) -> Iterator[str]:
    """Yield the nodes with a card that a pod pins by UUID."""
    named = [
        text
        for name, text in pod.annotations.items()
        if name in world.engine.dialects.pod_annotations and _WANTS_UUID.search(name)
    ]
    wanted = {word.strip() for text in named for word in text.split(",")}
    for node in world.nodes if wanted else ():
        if any(device.uuid in wanted for _, _, device in world.listed_devices(nodes=(node,))):
            yield node


def _is_about_cards(verdict: NodeVerdict) -> bool:
    return not CARD_REASONS.isdisjoint(verdict.reasons)


def verdicts_of_cards(
    world: World, answer: PodResult, nodes: Sequence[str], *, all_cards: bool
) -> tuple[dict[str, list[CardVerdict]], int]:
    """Return the verdicts of the cards of the first nodes, and the number of nodes left out."""
    ours = created(world, answer.pod, answer.pod.uid)
    shown = nodes if all_cards else nodes[:_MOST_NODES]
    return {name: card_verdicts(world.engine.algorithm, ours, name) for name in shown}, len(nodes) - len(shown)


def card_rows(listed: Sequence[tuple[str, CardVerdict]], *, single: bool) -> list[tuple[str, ...]]:
    """Return a row for each card, or one for all cards with the same verdict about a container if there are many.

    Parameters
    ----------
    single
        Give each card a row of its own.
    """
    groups: dict[tuple[str, str], list[tuple[str, CardVerdict]]] = {}
    fits = "fits" if len({verdict.container for _, verdict in listed}) < 2 else "fits by itself"  # others may take it
    for node, verdict in listed:
        groups.setdefault((verdict.container, _verdict_text(verdict, fits)), []).append((node, verdict))
    rows: dict[tuple[str, ...], None] = {}  # deduplicated: a shared row comes up once for each of its cards
    for node, verdict in listed:
        device, container, says = verdict.device, verdict.container, _verdict_text(verdict, fits)
        alike = groups[container, says]
        if single or len(alike) <= _MOST_ALIKE:
            rows[node, card_name(device.vendor, device.uuid), device.type, container, says] = None
            continue
        models = dict.fromkeys(other.device.type for _, other in alike)
        nodes = list(dict.fromkeys(name for name, _ in alike))
        rows[few(nodes), f"{len(alike)} cards", ", ".join(models), container, says] = None
    return list(rows)


def held_cards(world: World, pod: Pod) -> list[str]:
    """Return a line for each card that a bound pod holds, with the amounts; the pod's node may be unknown."""
    lines, unknown = [], " (not on the node now)" if world.has_node(pod.node_name) else ""
    for name, usage in world.engine.uses(pod).items():
        dimensions = world.engine.dialects[name].inventory.dimensions
        devices = {device.uuid: device for device in world.devices(pod.node_name, name)}
        for uuid, amounts in usage.charges.items():
            device = devices.get(uuid)
            if device is not None and device.part:
                lines.append(f"{card_name(device.vendor, uuid)} (a virtual function)")
                continue
            card = f"{card_name(device.vendor, uuid)} ({device.type})" if device else f"{uuid}{unknown}"
            known = zip(dimensions, amounts, strict=False)
            said = [_amount(about, amount) for about, amount in known if not about.internal]
            said += [f"instance {name}" for name in instances_of(device, amounts)] if device else []
            lines.append(f"{card}: {', '.join(said)}")
        if usage.problem:
            lines.append(f"cards that are not known ({usage.problem}): it is charged on all that it may be on")
    return lines


def instances_of(device: Device, amounts: Sequence[int]) -> tuple[str, ...]:
    """Return the profiles of the pieces of a card that together have these amounts; empty if no pieces have them."""
    known = {piece.amounts: piece.profile for piece in device.pieces if piece.profile}

    def made_of(left: tuple[int, ...], first: int) -> tuple[str, ...] | None:
        if not any(left):
            return ()
        for number, (piece, profile) in enumerate([*known.items()][first:], first):
            rest = tuple(have - of_piece for have, of_piece in zip(left, piece, strict=True))
            if min(rest) >= 0 and (others := made_of(rest, number)) is not None:
                return (profile, *others)
        return None

    return (made_of(tuple(amounts), 0) if known and len(amounts) == len(next(iter(known))) else ()) or ()


def _amount(dimension: Dimension, amount: int) -> str:
    if dimension.unit == "shares":
        return counted(amount, "share")
    return f"{shown_needed(amount, dimension.unit)} {shown_unit(dimension.unit)} {dimension.name}"


def _verdict_text(verdict: CardVerdict, fits: str) -> str:
    if verdict.reason is None:
        return fits
    lack = f": {verdict.lack}" if verdict.lack is not None else ""
    kept = f"; room is kept for {first_of(_whom(verdict), 1)}" if verdict.kept_for else ""
    return f"{verdict.reason.text}{lack}{kept}"


def _whom(verdict: CardVerdict) -> list[str]:
    return [f"pod {key}" if key else "another pod" for key in verdict.kept_for]


def without_kept_names(verdict: CardVerdict, namespaces: Collection[str]) -> CardVerdict:
    """Hide the names of the pods for which room is kept unless their namespace is one of these."""
    kept = (key if key.partition("/")[0] in namespaces else "" for key in verdict.kept_for)
    return replace(verdict, kept_for=tuple(kept)) if verdict.kept_for else verdict


def verdict_as_json(verdict: CardVerdict) -> dict[str, Any]:
    """Return a verdict as plain values."""
    lack = verdict.lack
    return {
        "card": card_name(verdict.device.vendor, verdict.device.uuid),
        "model": verdict.device.type,
        "container": verdict.container,
        "reason": verdict.reason.text if verdict.reason is not None else "",
        "lacks": {"dimension": lack.dimension, "unit": lack.unit, "asked": lack.asked, "free": lack.free}
        if lack
        else None,
        **({"keptFor": _whom(verdict)} if verdict.kept_for else {}),
    }
