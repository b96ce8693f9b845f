"""Explain why a pod waits or is where it is: the decision, the verdicts of cards, and remedies."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from vgpu_scheduler.engine import CardVerdict, GroupStatus
from vgpu_scheduler.engine.group_attempts import waits_for_group_members
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Outcome, counted
from vgpu_scheduler.whatif.advice.group_searches import changes_for_group
from vgpu_scheduler.whatif.advice.remedies import remedies
from vgpu_scheduler.whatif.advice.remedy import Remedy, RemedyType, do
from vgpu_scheduler.whatif.explanation.cards import (
    card_rows,
    held_cards,
    nodes_with_cards,
    verdict_as_json,
    verdicts_of_cards,
    without_kept_names,
)
from vgpu_scheduler.whatif.explanation.group_placement import other_members_placed
from vgpu_scheduler.whatif.explanation.kept_room import HoldForOther, describe_holds, own_room, room_for_others
from vgpu_scheduler.whatif.explanation.obstacles import causes_together
from vgpu_scheduler.whatif.explanation.other_waiting_pods import describe_other_waiting_pods
from vgpu_scheduler.whatif.explanation.preempting import (
    PreemptedBy,
    PreemptionOutlook,
    group_preemption_outlook,
    preempted_by,
    preemption_outlook,
)
from vgpu_scheduler.whatif.reasons.causes import causes
from vgpu_scheduler.whatif.reasons.groups import describe_group, group_remedies, not_found, with_gated
from vgpu_scheduler.whatif.reasons.mismatch import describe_mismatch
from vgpu_scheduler.whatif.world.queue_order import PodsBeforeAndAfter, own_turn, placing, pods_before_and_after
from vgpu_scheduler.whatif.world.simulation import PodResult, ask
from vgpu_scheduler.whatif.world.tables import explain, indented, number, rank, readable
from vgpu_scheduler.whatif.world.world import World

_ALONE: Final = "it is not enough alone"
_DEPENDS: Final = {
    RemedyType.PROVIDE_VOLUME: "where the pod goes then depends on the volume",
    RemedyType.COMPLETE_GROUP: "where the pod goes then depends on its group",
    RemedyType.CHANGE_SETTING: "where the pod goes then is not known: other pods are also interpreted differently",
    RemedyType.REPAIR_NODE: "whether it is enough is not known: the cards that the node then has are not known yet",
}
_MIXED: Final = "it may not be enough alone"
_HEAD: Final = ("NODE", "CARD", "MODEL", "CONTAINER", "SAYS")


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of one pod.

    Attributes
    ----------
    answer
        The decision about the pod as if it had just been created.
    cards
        The card verdicts of nodes that are infeasible because of their cards, and of the node that is chosen.
    left_out
        Nodes whose cards are not shown.
    remedies
        Remedies, for a pod that fits nowhere.
    quotas
        The quota status of the namespace, if quotas keep the pod waiting.
    held
        One line for each card that a bound pod holds, with the amounts.
    comparison
        Why the scheduler prefers a bound pod's node to another node, or does not; empty without another node.
    models
        The models of cards that exist, if the pod accepts none of them.
    causes
        One sentence for each selector or rule behind the reasons of nodes and cards.
    holds
        The room that is reserved for other pods.
    first
        How many pending pods are ahead of it, or are behind it and fit; empty if that makes no difference.
    preemption_outlook
        The victims of its preemption, planned or under way, or why there are none; None if preemption does not apply.
    preempted_by
        The pod that preempts a bound pod; None if none does.
    own_room
        Where room is kept for it because it has waited for long; empty if none is.
    group
        The status of its group; empty if each pod of the group may run alone, or it has no group.
    none_proposed
        What was tried in vain for its group; empty if a remedy was found.
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
    holds: Sequence[HoldForOther] = ()
    first: Sequence[str] = ()
    preemption_outlook: PreemptionOutlook | None = None
    preempted_by: PreemptedBy | None = None
    own_room: str = ""
    group: str = ""
    none_proposed: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the explanation as plain values."""
        return {
            **self.answer.as_json(),
            "cards": {node: [verdict_as_json(verdict) for verdict in listed] for node, listed in self.cards.items()},
            "remedies": [remedy.as_json() for remedy in self.remedies],
            **({"group": self.group} if self.group else {}),
            **({"quotas": self.quotas} if self.quotas else {}),
            **({"held": list(self.held)} if self.held else {}),
            **({"comparison": self.comparison} if self.comparison else {}),
            **({"models": self.models} if self.models else {}),
            "causes": self._causes,
            **({"ownRoom": self.own_room} if self.own_room else {}),
            **({"first": " ".join(self.first)} if self.first else {}),
            **({"preemption": self.preemption_outlook.as_json()} if self.preemption_outlook else {}),
        }

    def text(self, *, wide: bool = False) -> str:
        """Format the explanation for people.

        Parameters
        ----------
        wide
            Show every node in a row of its own.
        """
        parts = [explain(self.answer, wide=wide)]
        parts += [self.group] if self.group else []
        parts += [f"  {self.quotas}"] if self.quotas else []
        parts += [f"  {self.models}"] if self.models else []
        parts += ["\n".join(f"  {cause}" for cause in self._causes)] if self._causes else []
        parts += [f"  {self.own_room}"] if self.own_room else []
        parts += ["\n".join(f"  {each}" for each in self.first)] if self.first else []
        parts += [self.comparison] if self.comparison else []
        rows = card_rows([(node, verdict) for node, listed in self.cards.items() for verdict in listed], single=wide)
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
                "No change or pair of changes that would help was found; not all pairs were searched, and no "
                "larger sets."
            )
        parts += [self.preemption_outlook.text(wide=wide)] if self.preemption_outlook else []
        return "\n\n".join(parts)

    @property
    def kept_for(self) -> list[str]:
        """The pods for which room is kept on the shown cards, as namespace and name."""
        return [key for listed in self.cards.values() for verdict in listed for key in verdict.kept_for]

    def without_kept_names(self, namespaces: Collection[str]) -> Explanation:
        """Hide the names of pods for which room is kept unless their namespace is one of these."""
        cards = {
            node: [without_kept_names(verdict, namespaces) for verdict in listed] for node, listed in self.cards.items()
        }
        return replace(self, cards=cards, holds=[each.without_names(namespaces) for each in self.holds])

    @property
    def _causes(self) -> list[str]:
        return [*self.causes, *describe_holds(self.holds)]

    @property
    def _rest(self) -> str:
        """A clause about remedies after which it is unknown where the pod goes."""
        kinds = {remedy.type for remedy in self.remedies}
        if kinds.isdisjoint(_DEPENDS):
            return _ALONE
        return _DEPENDS[kinds.pop()] if len(kinds) == 1 else _MIXED

    @property
    def _nobody_goes(self) -> bool:
        return self.preemption_outlook is None or self.preemption_outlook.preemption is None


def explain_pod(world: World, pod: Pod, node: str = "", *, all_cards: bool = False) -> Explanation:
    """Explain a pending pod.

    Parameters
    ----------
    node
        Show only the cards of this node, for whatever reason it is infeasible.
    all_cards
        Show the cards of all nodes that are infeasible because of them, not only of the first few.
    """
    turns = pods_before_and_after(world, pod)
    group = world.engine.attempts.gang_status(pod)
    if group is not None:
        return _explain_together(world, pod, group, turns, node, all_cards=all_cards)
    with placing(world, turns.before) as going:
        answer = ask(world, pod)
        searched = not answer.node and answer.decision.outcome is not Outcome.ERROR
        helps = remedies(world, pod) if searched else []
        shown = [node] if node else nodes_with_cards(world, answer)
        cards, left_out = verdicts_of_cards(world, answer, shown, all_cards=all_cards)
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
            holds=room_for_others(world, answer),
            own_room=own_room(world, answer),
            group=describe_group(world, own) if own is not None and own.minimum > 1 else "",
        )


def _explain_together(
    world: World, pod: Pod, group: GroupStatus, turns: PodsBeforeAndAfter, node: str, *, all_cards: bool
) -> Explanation:
    """Explain a pod that is scheduled as a gang with others of its group."""
    with placing(world, turns.before) as going:
        answer = _with_gated_members(world, ask(world, pod), group)
        with other_members_placed(world, group, answer) as is_same:
            shown = ([node] if node else nodes_with_cards(world, answer)) if is_same else []
            cards, left_out = verdicts_of_cards(world, answer, shown, all_cards=all_cards)
        first = [Remedy(RemedyType.COMPLETE_GROUP, do(text), "") for text in group_remedies(world, pod)]
        worded = describe_group(world, group)
        searched = not answer.node and group.has_quorum and not first
        there = {each.uid for each in going}
        others = [each for each in turns.before if each.uid not in there]
        with placing(world, [*own_turn(world, pod), *turns.after]):
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
            own_room=own_room(world, answer),
            group=worded,
            none_proposed=why,
            preemption_outlook=goes,
        )


def _with_gated_members(world: World, answer: PodResult, group: GroupStatus) -> PodResult:
    """Return the answer about a pod that waits for members, with the number that its gated members declare."""
    pod, decision = answer.pod, answer.decision
    if decision.message != waits_for_group_members(pod, group).message:
        return answer
    told = waits_for_group_members(pod, with_gated(world, group)[0])
    return replace(answer, decision=replace(decision, message=told.message))


def _is_single(remedy: Remedy) -> bool:
    """Tell whether a remedy is a single change after which the pod goes to an existing node."""
    return remedy.type not in {RemedyType.ADD_NODE, RemedyType.TOGETHER}


def explain_bound(world: World, pod: Pod, node: str = "", *, all_cards: bool = False) -> Explanation:
    """Explain where a bound pod would go if it were recreated now.

    Parameters
    ----------
    node
        Show the cards of this node beside those of the pod's own node, and compare the two.
    all_cards
        Show the cards of all nodes that are infeasible because of them, not only of the first few.
    """
    held, preempted = held_cards(world, pod), preempted_by(world, pod)
    with world.without(pod):
        answer = ask(world, pod)
        rival = node or answer.node
        others = [rival] if rival else nodes_with_cards(world, answer)
        shown = [pod.node_name, *(name for name in others if name != pod.node_name)]
        cards, left_out = verdicts_of_cards(world, answer, shown, all_cards=all_cards)
        comparison = ""
        if pod.node_name not in world.nodes:
            comparison = f"There is no node {pod.node_name} any more."
        elif rival not in {"", pod.node_name}:
            comparison = _compared(answer, pod.node_name, rival)
        is_searched = not answer.node and answer.decision.outcome is not Outcome.ERROR
        helps = remedies(world, pod, made_anew=True) if is_searched else []
    return Explanation(answer, cards, left_out, helps, held=held, comparison=comparison, preempted_by=preempted)


def _compared(answer: PodResult, here: str, there: str) -> str:
    """Say in one sentence why the scheduler prefers one node to another, or does not."""
    verdicts, scores = answer.decision.verdicts, answer.decision.scores
    for node in (there, here):
        if node in verdicts:
            return f"{node} does not fit: {readable(verdicts[node].detail) or verdicts[node].text}."
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
        return f"{here} and {there} fit equally well; the first by name is chosen."
    return f"Both fit, and {better} is better: {'; '.join(parts)}."
