"""Remedy for a pod that asks for cards in a dialect without cards in the cluster: use another dialect's names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from vgpu_scheduler.dialects import ClaimError, Dialect
from vgpu_scheduler.dialects.factory import DIALECTS
from vgpu_scheduler.dialects.hami.vendors import nvidia_names as hami
from vgpu_scheduler.dialects.koordinator.names import GPU, GPU_CORE, GPU_MEMORY, GPU_RATIO, GPU_SHARED
from vgpu_scheduler.dialects.volcano import names as volcano
from vgpu_scheduler.dialects.volcano.names import VENDOR
from vgpu_scheduler.kube import Object
from vgpu_scheduler.model import WHOLE, Claim, mib_needed
from vgpu_scheduler.whatif.advice.remedy import Action, Advice, HypotheticalPod
from vgpu_scheduler.whatif.objects.card_names import card_names
from vgpu_scheduler.whatif.objects.containers import containers_of, with_containers, without_resources
from vgpu_scheduler.whatif.objects.objects import annotations_in
from vgpu_scheduler.whatif.world.nodes import with_annotation

_CARDS: Final = frozenset({VENDOR, GPU})
"""The vendors under which several dialects may serve the same cards."""
_CHOICES: Final = (
    (hami.USE_UUID, volcano.USE_UUID),
    (hami.NO_USE_UUID, volcano.NO_USE_UUID),
    (hami.MODE, volcano.MODE),
)
"""Pairs of annotations that select cards, by their names in HAMi and in Volcano."""
_SAME_CHOICE: Final = dict(_CHOICES) | {theirs: ours for ours, theirs in _CHOICES}


@dataclass(frozen=True, slots=True)
class OtherNames:
    """A pod that asks for its cards in another dialect's names.

    Attributes
    ----------
    written
        The pod with these names.
    instead
        The resources that it asks for at present.
    asked
        The containers that ask for cards, with the names of their new resources.
    annotations
        The changes of annotations that select cards, as text.
    """

    written: Object
    instead: Sequence[str]
    asked: Mapping[str, Sequence[str]]
    annotations: Sequence[str]

    def and_then(self, advice: Advice = (), pod: Object | None = None) -> Advice:
        """Return the change of names, followed by further advice.

        Parameters
        ----------
        advice
            The further advice; changes of the renamed amounts are merged.
        pod
            The pod after both changes.
        """
        amounts = _limits(self.written if pod is None else pod)
        amounts_asked = [
            f"{', '.join(f'{amounts[container][name]} of {name}' for name in names if name in amounts[container])}"
            f" in container {container}"
            for container, names in self.asked.items()
        ]
        what = "".join((f"ask {' and '.join(amounts_asked)} instead of {', '.join(self.instead)}", *self.annotations))
        named = {name for names in self.asked.values() for name in names}
        asked = ((each, {part.resource for part in each.amount.parts} if each.amount else {""}) for each in advice)
        return (Action(what), *(each for each, names in asked if not names <= named))


def in_names_of_other_dialects(waiting: HypotheticalPod) -> Iterator[OtherNames]:
    """Yield the pod with the names of each other dialect that has cards in the cluster.

    Yield nothing if the cluster has cards of the dialect that owns the pod's names.
    """
    world, dialects = waiting.world, waiting.world.engine.dialects
    known = card_names(dialects)
    names = [name for name, amount in waiting.ours.spec.requests.items() if amount and name in known]
    there = [each for each in dialects if any(world.listed_devices(dialects=(each,)))]
    served = {each.name for each in dialects}
    every = (*dialects, *(made() for name, made in DIALECTS.items() if name not in served))
    knowing = [each for each in every if each.claims.resources.issuperset(names)]
    owners = [each for each in dialects.owners(waiting.ours) if each in knowing] or knowing
    asking = {} if not owners or any(each in there for each in owners) else _asking(waiting, owners[0])
    for dialect in there:
        asked = {container: each.in_names_of(dialect) for container, each in asking.items()}
        if not asked or not all(asked.values()) or (len(asked) > 1 and GPU in dialect.inventory.cards):
            continue  # this dialect would add up the amounts of several containers
        written = _asking_for(without_resources(waiting.written, names), asked)
        written, annotations = _choosing_alike(written, owners[0], dialect)
        if (read := waiting.read(written)) is not None and dialects.owners(read) != (dialect,):
            continue  # an earlier dialect in the settings would still own the pod
        yield OtherNames(written, names, {name: tuple(each) for name, each in asked.items()}, annotations)


def _choosing_alike(written: Object, owner: Dialect, dialect: Dialect) -> tuple[Object, list[str]]:
    """Translate the annotations that select cards to another dialect; return the pod and the changes as text."""
    given = annotations_in(written)
    changes = []
    for name in owner.claims.pod_annotations:
        if name not in given or name in dialect.claims.pod_annotations:
            continue
        other = _SAME_CHOICE.get(name, "")
        if other in dialect.claims.pod_annotations:
            written = with_annotation(with_annotation(written, name, ""), other, str(given[name]))
            changes.append(f", with annotation {other} instead of {name}")
        else:
            written = with_annotation(written, name, "")
            changes.append(f", without annotation {name} ({given[name]}), which has no other name")
    return written, changes


def _limits(written: Object) -> Mapping[str, Object]:
    """Return the limits of each container of a pod."""
    return {
        str(each.get("name", "")): (each.get("resources") or {}).get("limits") or {}
        for _, _, each in containers_of(written)
    }


def _asking_for(written: Object, asked: Mapping[str, Mapping[str, str]]) -> Object:
    """Return a pod with further limits for its containers."""

    def with_more(container: Object) -> Object:
        resources = container.get("resources") or {}
        more = asked.get(str(container.get("name", "")), {})
        return {**container, "resources": {**resources, "limits": {**(resources.get("limits") or {}), **more}}}

    return {**written, "spec": with_containers(written["spec"], with_more)}


@dataclass(frozen=True, slots=True)
class Asked:
    """What a container asks of each card: bytes or percent of memory, and percent of compute."""

    count: int
    memory: int
    percent: int
    cores: int

    @classmethod
    def of(cls, claim: Claim, dialect: Dialect) -> Self:
        """Return the request of a claim in a dialect."""
        inventory = dialect.inventory
        memory = claim.amounts[inventory.memory] * inventory.memory_unit
        return cls(claim.count, memory, claim.percent[inventory.memory], claim.amounts[inventory.cores])

    def in_names_of(self, dialect: Dialect) -> Mapping[str, str]:
        """Return the request as resources of a dialect; empty if the dialect cannot express it."""
        if GPU in dialect.inventory.cards:
            memory = mib_needed(self.memory * self.count)
            amount = {GPU_MEMORY: f"{memory}Mi"} if memory else {GPU_RATIO: str(self.percent * self.count)}
            cores = {GPU_CORE: str(self.cores * self.count)} if self.cores else {}
            return ({GPU_SHARED: str(self.count)} if self.count > 1 else {}) | amount | cores
        inventory, units = dialect.inventory, dialect.allocation.quota_resources
        names = {
            (about.dimension, about.percent): name
            for name, about in inventory.device_resources.items()
            if about.vendor == VENDOR and name in dialect.claims.resources
        }
        amounts = {(0, False): self.count}
        if self.memory and (name := names.get((inventory.memory, False))):
            unit = inventory.memory_unit * (units[name].unit if name in units else 1)
            amounts[inventory.memory, False] = -(-self.memory // unit)
        elif self.percent < WHOLE:
            amounts[inventory.memory, True] = self.percent
        if self.cores:
            amounts[inventory.cores, False] = self.cores
        return {names[key]: str(amount) for key, amount in amounts.items()} if amounts.keys() <= names.keys() else {}


def _asking(waiting: HypotheticalPod, dialect: Dialect) -> dict[str, Asked]:
    """Return the requests by container; empty if they cannot be read, or include other devices."""
    try:
        claims = [(each.name, claim) for each in dialect.claims.read(waiting.ours) for claim in each.claims]
    except ClaimError:
        return {}
    return {name: Asked.of(claim, dialect) for name, claim in claims} if {c.vendor for _, c in claims} <= _CARDS else {}
