"""Why a pod waits, or is where it is: the decision, what each card says, and what would help."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from vgpu_scheduler.engine import CardVerdict, GroupStatus, card_verdicts
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Dimension, NodeVerdict, Outcome, counted
from vgpu_scheduler.whatif.advice.group_searches import changes_for_group
from vgpu_scheduler.whatif.advice.remedies import remedies
from vgpu_scheduler.whatif.advice.remedy import Remedy, RemedyKind, do
from vgpu_scheduler.whatif.explanation.group_placement import other_members_placed
from vgpu_scheduler.whatif.explanation.holds_for_others import HoldForOther, describe_holds, holds_for_others
from vgpu_scheduler.whatif.explanation.obstacles import causes_together
from vgpu_scheduler.whatif.explanation.other_waiting_pods import describe_other_waiting_pods
from vgpu_scheduler.whatif.explanation.preempting import (
    PreemptedBy,
    PreemptionOutlook,
    group_preemption_outlook,
    preempted_by,
    preemption_outlook,
)
from vgpu_scheduler.whatif.objects.cards import card_name
from vgpu_scheduler.whatif.reasons.causes import causes
from vgpu_scheduler.whatif.reasons.groups import describe_group, group_remedies, not_found
from vgpu_scheduler.whatif.reasons.mismatch import CARD_REASONS, OTHER_CARDS, describe_mismatch
from vgpu_scheduler.whatif.world.queue_order import PodsWaitingBeside, placed, pods_waiting_beside
from vgpu_scheduler.whatif.world.simulation import PodResult, ask, created
from vgpu_scheduler.whatif.world.tables import explain, few, indented, number, rank, readable
from vgpu_scheduler.whatif.world.world import World

_MOST_ALIKE: Final = 3
"""Cards that say the same, above which there is one row for all of them."""
_MOST_RANKED: Final = 1000
"""Nodes of which it is found out how near they are."""
_MOST_NODES: Final = 8
"""Nodes whose cards are shown one by one."""
_WANTS_UUID: Final = re.compile(r"(?<!no)(?<!no-)use-.*uuid")
"""The names of annotations that name the cards which a pod wants."""
_ALONE: Final = "it does not suffice alone"
_DEPENDS: Final = {
    RemedyKind.PROVIDE_VOLUME: "where the pod goes then depends on the volume",
    RemedyKind.COMPLETE_GROUP: "where the pod goes then depends on its group",
    RemedyKind.CHANGE_SETTING: "where the pod goes then is not known: other pods are read otherwise, too",
}
_HEAD: Final = ("NODE", "CARD", "MODEL", "CONTAINER", "SAYS")


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is to be said about one pod.

    Attributes
    ----------
    answer
        What would become of it if it had been created a moment ago.
    cards
        What the cards of nodes say that are not fit because of their cards, and those of the node that it goes to.
    left_out
        Nodes whose cards are not shown.
    remedies
        What would help, for a pod that fits nowhere.
    quotas
        How its namespace stands, where quotas keep it waiting.
    held
        The cards of a bound pod with what it has of each, a line each.
    comparison
        Why a bound pod would rather go to its node than to another, or why not; empty where there is none to compare.
    models
        Which models of cards there are, where none is one that the pod takes.
    causes
        The selectors and rules behind the reasons of nodes and cards, a sentence each.
    kept
        The room that is kept for other pods.
    first
        How many pods that wait are served before it, or after it and fit; empty where that makes no difference.
    preemption_outlook
        Who would have to go for it, or is going, or why nobody has to; None where that is no question.
    preempted_by
        For whom a bound pod goes; None if it does not.
    group
        How far its group is; empty where one pod of it may run alone, or it belongs to none.
    none_proposed
        What was tried in vain for a group; empty where something helps.
    """

    answer: PodResult
    cards: Mapping[str, Sequence[CardVerdict]]
    left_out: int
    remedies: Sequence[Remedy] = ()
    quotas: str = ""
    held: Sequence[str] = ()
    comparison: str = ""
    models: str = ""
    causes: Sequence[str] = ()
    kept: Sequence[HoldForOther] = ()
    first: Sequence[str] = ()
    preemption_outlook: PreemptionOutlook | None = None
    preempted_by: PreemptedBy | None = None
    group: str = ""
    none_proposed: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            **self.answer.as_json(),
            "cards": {node: [_plain(verdict) for verdict in listed] for node, listed in self.cards.items()},
            "remedies": [remedy.as_json() for remedy in self.remedies],
            **({"group": self.group} if self.group else {}),
            **({"quotas": self.quotas} if self.quotas else {}),
            **({"held": list(self.held)} if self.held else {}),
            **({"comparison": self.comparison} if self.comparison else {}),
            **({"models": self.models} if self.models else {}),
            "causes": self._causes,
            **({"first": " ".join(self.first)} if self.first else {}),
            **({"preemption": self.preemption_outlook.as_json()} if self.preemption_outlook else {}),
        }

    def text(self, *, wide: bool = False) -> str:
        """Say it to people.

        Parameters
        ----------
        wide
            Leave no node out, and group none.
        """
        parts = [explain(self.answer, wide=wide)]
        parts += [self.group] if self.group else []
        parts += [f"  {self.quotas}"] if self.quotas else []
        parts += [f"  {self.models}"] if self.models else []
        parts += ["\n".join(f"  {cause}" for cause in self._causes)] if self._causes else []
        parts += ["\n".join(f"  {each}" for each in self.first)] if self.first else []
        parts += [self.comparison] if self.comparison else []
        rows = _rows([(node, verdict) for node, listed in self.cards.items() for verdict in listed], single=wide)
        if rows:
            parts.append("\n".join(indented([_HEAD, *rows], wide=wide)))
        if self.left_out:
            more = counted(self.left_out, "more node")
            parts.append(f"  and the cards of {more}: --node NAME shows those of one, -o wide all")
        first = [f"  - {remedy.text}" for remedy in self.remedies if not remedy.node]
        enough = [f"  - {remedy.text} (goes to {remedy.node})" for remedy in self.remedies if remedy.node]
        if first and not enough:
            parts.append("\n".join([f"This comes first; {self._rest}:", *first]))
        elif enough:
            parts.append("\n".join(["Each of these alone would help:", *enough]))
        elif self.none_proposed:
            parts.append(f"No change is proposed: {self.none_proposed}.")
        elif not self.answer.node and self.answer.decision.outcome is not Outcome.ERROR and self._nobody_goes:
            parts.append(
                "No change was found that would help, nor two together; not all pairs were searched, nor more at once."
            )
        parts += [self.preemption_outlook.text(wide=wide)] if self.preemption_outlook else []
        return "\n\n".join(parts)

    @property
    def _causes(self) -> list[str]:
        return [*self.causes, *describe_holds(self.kept)]

    @property
    def _rest(self) -> str:
        """What is to be said of remedies after which nobody can say where the pod goes."""
        kinds = {remedy.kind for remedy in self.remedies}
        return _DEPENDS.get(kinds.pop(), _ALONE) if len(kinds) == 1 else _ALONE

    @property
    def _nobody_goes(self) -> bool:
        return self.preemption_outlook is None or self.preemption_outlook.preemption is None


def explain_pod(world: World, pod: Pod, node: str = "", *, all_cards: bool = False) -> Explanation:
    """Explain a pod that waits.

    Parameters
    ----------
    node
        Show the cards of this node only, whatever is the matter with it.
    all_cards
        Show the cards of all nodes that they keep the pod from, and not of the first few.
    """
    turns = pods_waiting_beside(world, pod)
    group = world.engine.attempts.gang_status(pod)
    if group is not None:
        return _explain_together(world, pod, group, turns, node, all_cards=all_cards)
    with placed(world, turns.before) as going:
        answer = ask(world, pod)
        searched = not answer.node and answer.decision.outcome is not Outcome.ERROR
        helps = remedies(world, pod) if searched else []
        shown = [node] if node else _nodes_with_cards(world, answer)
        cards, left_out = _cards(world, answer, shown, all_cards=all_cards)
        first = describe_other_waiting_pods(world, pod, turns, len(going), changes=bool(helps), searched=searched)
        goes = preemption_outlook(world, answer)
        found = Explanation(answer, cards, left_out, helps, answer.quotas, first=first, preemption_outlook=goes)
        several = [] if any(_is_single(each) for each in helps) else causes_together(world, answer)
        why = (*causes(world, answer), *several)
        own = world.engine.groups.status_of(pod)
        return replace(
            found,
            models=describe_mismatch(world, answer),
            causes=why,
            kept=holds_for_others(world, answer),
            group=describe_group(world, own) if own is not None and own.minimum > 1 else "",
        )


def _explain_together(
    world: World, pod: Pod, group: GroupStatus, turns: PodsWaitingBeside, node: str, *, all_cards: bool
) -> Explanation:
    """Explain a pod that is placed together with others of its group."""
    with placed(world, turns.before) as going:
        answer = ask(world, pod)
        with other_members_placed(world, group, answer) as is_same:
            shown = ([node] if node else _nodes_with_cards(world, answer)) if is_same else []
            cards, left_out = _cards(world, answer, shown, all_cards=all_cards)
        first = [Remedy(RemedyKind.COMPLETE_GROUP, do(text), "") for text in group_remedies(world, pod)]
        worded = describe_group(world, group)
        searched = not answer.node and group.has_quorum and not first
        there = {each.uid for each in going}
        others = [each for each in turns.before if each.uid not in there]
        own = [pod] if world.engine.preemption and pod.uid in world.pending else []  # for it, too, room may be kept
        with placed(world, [*own, *turns.after]):
            helps = changes_for_group(world, pod, group, others) if searched else []
        served = describe_other_waiting_pods(world, pod, turns, len(going), changes=bool(helps), searched=searched)
        why = not_found(group) if searched and not helps else ""
        goes = group_preemption_outlook(world, answer, group)
        return Explanation(
            answer,
            cards,
            left_out,
            [*first, *helps],
            answer.quotas,
            first=served,
            group=worded,
            none_proposed=why,
            preemption_outlook=goes,
        )


def _is_single(remedy: Remedy) -> bool:
    """Tell whether a remedy is one change after which the pod goes to a node that is there."""
    return remedy.kind not in {RemedyKind.ADD_NODE, RemedyKind.TOGETHER}


def explain_bound(world: World, pod: Pod, node: str = "", *, all_cards: bool = False) -> Explanation:
    """Explain where a bound pod would go if it were created now, without itself; it is not in the world afterwards.

    Parameters
    ----------
    node
        Show the cards of this node beside those of the pod's own, and compare the two.
    all_cards
        Show the cards of all nodes that they keep the pod from, and not of the first few.
    """
    held, preempted = held_cards(world, pod), preempted_by(world, pod)
    world.remove_pod(pod.uid)
    answer = ask(world, pod)
    rival = node or answer.node
    others = [rival] if rival else _nodes_with_cards(world, answer)
    shown = [pod.node_name, *(name for name in others if name != pod.node_name)]
    cards, left_out = _cards(world, answer, shown, all_cards=all_cards)
    comparison = _compared(answer, pod.node_name, rival) if rival not in {"", pod.node_name} else ""
    is_searched = not answer.node and answer.decision.outcome is not Outcome.ERROR
    helps = remedies(world, pod, made_anew=True) if is_searched else []
    return Explanation(answer, cards, left_out, helps, held=held, comparison=comparison, preempted_by=preempted)


def _cards(
    world: World, answer: PodResult, nodes: Sequence[str], *, all_cards: bool
) -> tuple[dict[str, list[CardVerdict]], int]:
    """Return the verdicts about the cards of the first nodes, and how many nodes are left out."""
    ours = created(world, answer.pod, answer.pod.uid)
    shown = nodes if all_cards else nodes[:_MOST_NODES]
    return {name: card_verdicts(world.engine.algorithm, ours, name) for name in shown}, len(nodes) - len(shown)


def _compared(answer: PodResult, here: str, there: str) -> str:
    """Say in one sentence why a pod would rather go to one node than to another, or why not."""
    verdicts, scores = answer.decision.verdicts, answer.decision.scores
    for node in (there, here):
        if node in verdicts:
            return f"{node} does not fit: {readable(verdicts[node].detail) or ', '.join(verdicts[node].reasons)}."
    if not scores.keys() >= {here, there}:
        return f"{here} and {there} were not compared: {answer.decision.message or 'the pod is not tried'}."
    better, worse = sorted((here, there), key=lambda node: (node != answer.node, -rank(scores[node]), node))
    mine = {part.scorer: part for part in scores[better] if not part.within}
    parts = [
        f"{part.scorer} gives {number(mine[part.scorer].value)} to {better} and {number(part.value)} to {worse}"
        for part in scores[worse]
        if not part.within and part.value != mine[part.scorer].value
    ]
    if not parts:
        return f"{here} and {there} fit alike; of equals the first by name is taken."
    return f"Both fit, and {better} is better: {'; '.join(parts)}."


def _nodes_with_cards(world: World, answer: PodResult) -> list[str]:
    """Return the nodes whose cards matter to a pod that fits nowhere, the nearest first.

    Those are the nodes that are not fit because of their cards, and those that have a card which the pod pins by its
    UUID, whatever else is the matter with them. Nodes with a pinned card go first, then that of the nearest miss, then
    those with cards that the pod may have at all; then it counts how many cards fit, and how little another lacks.
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
    """Yield the nodes that have a card which a pod names as one that it wants."""
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


def _rows(listed: Sequence[tuple[str, CardVerdict]], *, single: bool) -> list[tuple[str, ...]]:
    """Return a row for each card, or for all that say the same of a container where these are many.

    Parameters
    ----------
    single
        Have a row for each.
    """
    groups: dict[tuple[str, str], list[tuple[str, CardVerdict]]] = {}
    fits = "fits" if len({verdict.container for _, verdict in listed}) < 2 else "fits by itself"  # not all together
    for node, verdict in listed:
        groups.setdefault((verdict.container, _says(verdict, fits)), []).append((node, verdict))
    rows: dict[tuple[str, ...], None] = {}  # that of many cards comes up once for each of them
    for node, verdict in listed:
        device, container, says = verdict.device, verdict.container, _says(verdict, fits)
        alike = groups[container, says]
        if single or len(alike) <= _MOST_ALIKE:
            rows[node, card_name(device.vendor, device.uuid), device.type, container, says] = None
            continue
        models = dict.fromkeys(other.device.type for _, other in alike)
        nodes = list(dict.fromkeys(name for name, _ in alike))
        rows[few(nodes), f"{len(alike)} cards", ", ".join(models), container, says] = None
    return list(rows)


def held_cards(world: World, pod: Pod) -> list[str]:
    """Return a line for each card that a bound pod holds, with what it has of it; its node need not be known."""
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
            lines.append(f"{card}: {', '.join(said)}")
        if usage.problem:
            lines.append(f"cards that are not known ({usage.problem}): it is charged on all that it may be on")
    return lines


def _amount(about: Dimension, amount: int) -> str:
    return counted(amount, "share") if about.unit == "shares" else f"{amount} {about.unit} {about.name}"


def _says(verdict: CardVerdict, fits: str) -> str:
    if verdict.reason is None:
        return fits
    lack = f": {verdict.lack}" if verdict.lack is not None else ""
    return f"{verdict.reason.text}{lack}"


def _plain(verdict: CardVerdict) -> dict[str, Any]:
    lack = verdict.lack
    return {
        "card": card_name(verdict.device.vendor, verdict.device.uuid),
        "model": verdict.device.type,
        "container": verdict.container,
        "reason": verdict.reason.text if verdict.reason is not None else "",
        "lacks": {"dimension": lack.dimension, "unit": lack.unit, "asked": lack.asked, "free": lack.free}
        if lack
        else None,
    }
