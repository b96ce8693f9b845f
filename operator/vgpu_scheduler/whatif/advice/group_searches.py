"""Find changes of the cluster after which a whole group of pods fits, which is placed at once or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from vgpu_scheduler.engine import GroupStatus
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import counted
from vgpu_scheduler.whatif.advice.default_remedies import lower_defaults
from vgpu_scheduler.whatif.advice.ending import end_one_pod
from vgpu_scheduler.whatif.advice.group_corrections import members_corrected
from vgpu_scheduler.whatif.advice.group_topology import leave_topology_out
from vgpu_scheduler.whatif.advice.kept_room import give_up_holds
from vgpu_scheduler.whatif.advice.limits import raise_limits
from vgpu_scheduler.whatif.advice.managing import manage_nodes
from vgpu_scheduler.whatif.advice.new_nodes import add_nodes
from vgpu_scheduler.whatif.advice.paired_changes import both
from vgpu_scheduler.whatif.advice.policy_remedies import correct_policies, lift_restrictions
from vgpu_scheduler.whatif.advice.quota_remedies import raise_quotas
from vgpu_scheduler.whatif.advice.remedy import MOST_OF_A_KIND, HypotheticalPod, Remedy, RemedyType, do, each_once
from vgpu_scheduler.whatif.advice.repairs import repair_nodes
from vgpu_scheduler.whatif.advice.uncordoning import cordoned_nodes, helping, uncordon_cards
from vgpu_scheduler.whatif.reasons.namespace_objects import NamespaceObjects
from vgpu_scheduler.whatif.world.nodes import listed_cards
from vgpu_scheduler.whatif.world.replacing import objects_replaced
from vgpu_scheduler.whatif.world.simulation import created
from vgpu_scheduler.whatif.world.tables import few
from vgpu_scheduler.whatif.world.world import World

_MOST_NODES: Final = 16
"""The most nodes that are tried for a kind of change."""
_MOST_DECISIONS: Final = 2000
"""The most pod decisions in all questions about a group."""
_FEWEST_QUESTIONS: Final = 8
"""The fewest questions that are allowed for a large group."""


class _WaitingInGroup(HypotheticalPod):
    """A pod that is placed only together with all pods of its group."""

    together = True

    def __init__(self, world: World, pod: Pod, before: Sequence[Pod], group: Sequence[Pod]) -> None:
        super().__init__(world, pod, before)
        self.most_nodes = _MOST_NODES
        self._group = tuple(created(world, each, each.uid) for each in group) or (self.ours,)
        self._left = max(_MOST_DECISIONS // len(self._group), _FEWEST_QUESTIONS)

    @property
    def at_once(self) -> Sequence[Pod]:
        """The waiting pods of its group."""
        return self._group

    def closed_by_cards(self) -> list[str]:
        """Return the first nodes with cordoned cards, even nodes that fit one pod, since the group may need more."""
        keys = self.world.engine.dialects.cordon_annotations
        nodes = sorted(self.world.nodes.items())
        found = (name for name, node in nodes if any(listed_cards(node, key) for key in keys))
        return list(islice(found, self.most_nodes))

    def _decided(self, ours: Pod) -> str:
        if not self._left:
            return ""
        self._left -= 1
        return self.world.engine.attempts.dry_run(ours, explain=False).node


def changes_for_group(world: World, pod: Pod, group: GroupStatus, before: Sequence[Pod]) -> list[Remedy]:
    """Return single changes after which a pod is placed with its group.

    The group's topology constraints may be dropped. Smaller requests are not searched, since all pods of the group
    would have to be recreated; pods that are refused for how they are written have to be anyway. In a large cluster
    not everything is tried, since each question decides all pods of the group. Invalid policies are corrected first.

    Parameters
    ----------
    before
        The pods that are ahead of it in the queue and fit nowhere now.
    """
    corrections = list(correct_policies(_WaitingInGroup(world, pod, before, group.waiting)))
    if not corrections or corrections[0].node:
        return corrections or _changes(world, pod, group, before)
    with objects_replaced(world, corrections[0].objects):
        found = _changes(world, pod, group, before)
    return [*corrections, *(both(corrections[0], each, each.node) for each in found if each.node)]


def _changes(world: World, pod: Pod, group: GroupStatus, before: Sequence[Pod]) -> list[Remedy]:
    """Return changes after which a pod is placed with its group, whose policies are valid."""
    with members_corrected(world, group.waiting) as text:
        written = [world.pending.get(each.uid, each) for each in group.waiting]
        waiting = _WaitingInGroup(world, world.pending.get(pod.uid, pod), before, written)
        volumes = list(_provide_volumes(waiting, group.needed))
        if text and (node := waiting.node()):
            return [Remedy(RemedyType.CORRECT, do(text), node)]
        helping_all = each_once(remedy for search in _SEARCHES for remedy in islice(search(waiting), MOST_OF_A_KIND))
        found = [*volumes, *helping_all]
    first = Remedy(RemedyType.CORRECT, do(text), "")
    return [first, *(replace(each, actions=(*first.actions, *each.actions)) for each in found)] if text else found


def _provide_volumes(waiting: _WaitingInGroup, needed: int) -> Iterator[Remedy]:
    """Name the claims that keep the pod, or too many others of its group, from all nodes.

    Parameters
    ----------
    needed
        How many pods of the group are placed at once; others may miss their claims.
    """
    world, own = waiting.world, waiting.pod
    namespace_objects = NamespaceObjects.in_world(world, own.namespace)
    members = {each.uid: each for each in waiting.at_once}
    problems = {
        uid: list(namespace_objects.volume_claim_problems(world.written(each), {uid})) for uid, each in members.items()
    }
    enough = sum(not texts for texts in problems.values()) >= needed
    pods: dict[str, list[str]] = {}
    for uid, texts in problems.items():
        for text in () if enough and uid != own.uid else texts:
            pods.setdefault(text, []).append(members[uid].name)
    more = len(pods) - MOST_OF_A_KIND
    for number, (text, names) in enumerate(islice(pods.items(), MOST_OF_A_KIND), 1):
        whose = "" if names == [own.name] else f" ({'pod' if len(names) == 1 else 'pods'} {few(names, 'of its group')})"
        rest = (
            f"; and likewise {counted(more, 'more claim')} of its group"
            if number == MOST_OF_A_KIND and more > 0
            else ""
        )
        yield Remedy(RemedyType.PROVIDE_VOLUME, do(f"{text}{whose}{rest}"), "")


def _uncordon_nodes(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Try to uncordon each of the first cordoned nodes, unless uncordoning all would not help."""
    changes = list(cordoned_nodes(waiting.world))
    with objects_replaced(waiting.world, [obj for change in changes for obj in change.objects]):
        helps = bool(changes and waiting.node())
    if helps:
        yield from helping(waiting, changes[:_MOST_NODES])


_SEARCHES: Final[tuple[Callable[[HypotheticalPod], Iterator[Remedy]], ...]] = (
    leave_topology_out,
    _uncordon_nodes,
    uncordon_cards,
    manage_nodes,
    repair_nodes,
    give_up_holds,
    raise_quotas,
    raise_limits,
    lift_restrictions,
    lower_defaults,
    add_nodes,
    end_one_pod,  # last, since it takes the most questions and a large group has few
)
