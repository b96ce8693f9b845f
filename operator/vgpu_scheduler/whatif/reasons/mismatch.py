"""Describe the models and modes of existing cards, if only these keep a pod from all cards.

HAMi has a single reason for both, ``CardTypeMismatch``, if an annotation of the pod names a mode. Which of the two it
is, is found by deciding the pod without these annotations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from vgpu_scheduler.engine import card_verdicts
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import CardReason, Device
from vgpu_scheduler.whatif.reasons.node_exclusions import obstacles_of
from vgpu_scheduler.whatif.world.nodes import with_annotation
from vgpu_scheduler.whatif.world.simulation import PodResult, created
from vgpu_scheduler.whatif.world.tables import few
from vgpu_scheduler.whatif.world.world import World

_MOST_NODES: Final = 64
"""The most closed nodes whose cards are considered."""
MODEL_WORD, MODE_WORD = "type", "mode"
"""What the names of the annotations have in them that are about models and modes."""
_MISMATCHES: Final = frozenset({CardReason.CardTypeMismatch, CardReason.ModeNotFit})
OTHER_CARDS: Final = frozenset(
    {
        CardReason.CardTypeMismatch,
        CardReason.CardUuidMismatch,
        CardReason.CardLabelMismatch,
        CardReason.ModeNotFit,
        CardReason.CardDeniedByPolicy,
        CardReason.CardNotHealth,
        CardReason.CardCordoned,
    }
)
"""What cards say that a pod cannot have, however little is on them."""
CARD_REASONS: Final = frozenset(CardReason)


def describe_mismatch(world: World, answer: PodResult) -> str:
    """Describe the models and modes that exist; empty if something else also keeps the pod from cards.

    Suitable cards on nodes that are closed to the pod are named as well.
    """
    reasons = CARD_REASONS.intersection(answer.decision.reasons)
    if not reasons or not reasons <= _MISMATCHES:
        return ""
    nodes = [node for node, verdict in answer.decision.verdicts.items() if not reasons.isdisjoint(verdict.reasons)]
    if sizes := _describe_sizes(world, answer.pod, nodes):
        return sizes
    of_mode, of_model = (_some_match(world, answer.pod, word, nodes) for word in (MODE_WORD, MODEL_WORD))
    if of_mode == of_model:
        what = "has a model and a mode that it takes"
    elif of_model:
        what = "is of a model that it takes"
    else:
        what = f"{'of its models ' if annotations_about(world, answer.pod, MODEL_WORD) else ''}has a mode that it takes"
    with_mode = of_mode or not of_model
    devices = world.listed_devices(nodes=nodes, dialects=world.engine.dialects.owners(answer.pod))
    there = _listed((device for _, _, device in devices), with_mode=with_mode)
    elsewhere = list(_on_closed_nodes(world, answer, with_mode=with_mode))
    subject = "No card of the nodes that it can use" if elsewhere else "No card"
    return " ".join([f"{subject} {what}; there are {there}.", *elsewhere])


def _describe_sizes(world: World, pod: Pod, nodes: Collection[str]) -> str:
    """Describe the sizes of slices that cards offer, if none is as large as the pod asks for.

    This concerns cards without modes, of which a claim takes one piece of exactly its size.
    """
    claims = world.engine.algorithm.classes.claims(pod)
    asked = {(claim.vendor, claim.amounts[0]) for container in claims for claim in container.claims}
    cards = [card for card in world.listed_devices(nodes=nodes) if card.device.pieces and not card.device.mode]
    for vendor, size in sorted(asked):
        theirs = [card.device for card in cards if card.device.vendor == vendor]
        counts = Counter(tuple(sorted({piece.size for piece in device.pieces})) for device in theirs)
        if counts and not any(size in sizes for sizes in counts):
            there = ", ".join(
                f"{vendor} in slices of {' or '.join(map(str, sizes))} ({number})"
                for sizes, number in sorted(counts.items())
            )
            return f"No card is allocated in slices of {size}, as it asks; there are {there}."
    return ""


def _on_closed_nodes(world: World, answer: PodResult, *, with_mode: bool) -> Iterator[str]:
    """Yield sentences about suitable cards on nodes that are closed to the pod, with the obstacles of these nodes."""
    closed: dict[str, tuple[list[str], list[Device]]] = {}
    ours = created(world, answer.pod, answer.pod.uid)
    others = [node for node, verdict in answer.decision.verdicts.items() if CARD_REASONS.isdisjoint(verdict.reasons)]
    for node in others[:_MOST_NODES]:
        verdicts = card_verdicts(world.engine.algorithm, ours, node)
        taken = {each.device.uuid: each.device for each in verdicts if each.reason not in OTHER_CARDS}
        if taken:
            closing = " and ".join(map(str, obstacles_of(world, ours, node, answer.decision.verdicts[node])))
            nodes, devices = closed.setdefault(closing, ([], []))
            nodes.append(node)
            devices += taken.values()
    for closing, (nodes, devices) in closed.items():
        each = ", which" if len(nodes) == 1 else "; each of these nodes"
        yield f"It would take {_listed(devices, with_mode=with_mode)} on {few(nodes)}{each} {closing}."


def _listed(devices: Iterable[Device], *, with_mode: bool) -> str:
    counts = Counter(_describe_card(device, with_mode=with_mode) for device in devices)
    return ", ".join(f"{card} ({count})" for card, count in sorted(counts.items()))


def _describe_card(device: Device, *, with_mode: bool) -> str:
    if device.lacks_geometry:  # the dialect does not know the model
        return f"{device.type} in mode {device.mode}, without a geometry that is known and allowed"
    if not with_mode:
        return device.type
    return f"{device.type} in mode {device.mode}" if device.mode else f"{device.type} without a mode"


def annotations_about(world: World, pod: Pod, word: str) -> list[str]:
    """Return the annotations of a pod that dialects read and whose names contain a word."""
    return [name for name in world.engine.dialects.pod_annotations if word in name and name in pod.annotations]


def _some_match(world: World, pod: Pod, word: str, nodes: Collection[str]) -> bool:
    """Tell whether some card matches in model and mode once the pod's annotations of one kind are removed."""
    written = world.written(pod)
    names = annotations_about(world, pod, word)
    for name in names:
        written = with_annotation(written, name, "")
    if not names:
        return False
    ours = created(world, world.pod(written, again=True), pod.uid)
    verdicts = (verdict for node in nodes for verdict in card_verdicts(world.engine.algorithm, ours, node))
    return any(verdict.reason is None or verdict.reason not in _MISMATCHES for verdict in verdicts)
