"""Policies that keep a pod from nodes and cards, for readers with rights in one namespace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import MUTEX, WHOLE, CardReason, by_name, policy_words
from vgpu_scheduler.policy import OVERRIDES, UpperBound
from vgpu_scheduler.predicates import reasons as filters
from vgpu_scheduler.whatif.advice.corrections import corrected
from vgpu_scheduler.whatif.advice.remedy import Action, Advice, ask_for_less, do
from vgpu_scheduler.whatif.objects.amounts import is_claim
from vgpu_scheduler.whatif.objects.card_names import asks_for_cards, card_names
from vgpu_scheduler.whatif.reasons.causes import describe_selector, leaves_memory_to_cards, rules_of_cards
from vgpu_scheduler.whatif.reasons.mismatch import MODEL_WORD
from vgpu_scheduler.whatif.reasons.namespace_objects import NamespaceObjects
from vgpu_scheduler.whatif.tenant_advice.needs import PodRequest
from vgpu_scheduler.whatif.tenant_advice.nodes import is_of
from vgpu_scheduler.whatif.tenant_advice.policy_limits import denies_larger_cards, memory_limit_of
from vgpu_scheduler.whatif.world.tables import few
from vgpu_scheduler.whatif.world.world import World

_EXCLUSIVE: Final = "have spec.devices.exclusive of {} changed: it gives the pod cards of its own only"
_CHANGED: Final = "have it changed, or wait until cards are idle"


def policy_remedies(world: World, pod: Pod, message: str, namespace_objects: NamespaceObjects) -> Iterator[Advice]:
    """Yield the policy fields that may keep a pod from nodes and cards, if its condition says that policies do.

    Policies that the reader cannot see are mentioned as a possible cause, and whether the namespace or the cluster has
    them.
    """
    for reason, fields in (
        (filters.POLICY_SELECTOR.text, map(Action, _selectors(world, pod))),
        (CardReason.CardDeniedByPolicy.text, _of_cards(world, pod, namespace_objects)),
    ):
        if reason not in message:
            continue
        found: list[Advice] = [(action,) for action in fields]
        yield from found
        if hidden := namespace_objects.hidden_policy:
            yield do(f"have {hidden}, changed", "an administrator of the cluster can say which")
        elif not found:
            yield do("have a policy changed")
    if CardReason.ExclusiveDeviceAllocateConflict.text in message:
        found = list(map(do, _of_idle_cards(world, pod)))
        yield from found
        hidden = namespace_objects.hidden_policy
        if not found and hidden and not _wants_idle_cards(world, pod):
            yield do(f"if {hidden}, gives the pod idle cards only: {_CHANGED}")
    yield from map(do, _of_peers_and_numa(world, pod, message))


def _wants_idle_cards(world: World, pod: Pod) -> bool:
    """Tell whether the pod itself asks for idle cards, or for all compute of a card."""
    if MUTEX in policy_words(pod.annotations.get(OVERRIDES["devicePolicy"], "")):
        return True
    for dialect in world.engine.dialects.owners(pod):
        if is_claim(dialect, pod):
            claims = (claim for each in dialect.claims.read(pod) for claim in each.claims)
            if any(claim.amounts[dialect.inventory.cores] == WHOLE for claim in claims):
                return True
    return False


def _of_idle_cards(world: World, pod: Pod) -> Iterator[str]:
    """Yield the policies that allow a pod only idle cards."""
    for title, policy in world.policies_in_force(pod, "devices"):
        devices = policy["spec"].get("devices") or {}
        if devices.get("exclusive"):
            yield _EXCLUSIVE.format(title)
        elif MUTEX in policy_words(str(devices.get("policy") or "")):
            yield f"have spec.devices.policy of {title} changed: it gives the pod idle cards only"


def _of_peers_and_numa(world: World, pod: Pod, message: str) -> Iterator[str]:
    """Yield the policies that keep a pod from cards of its peers, or want its cards on one NUMA node."""
    by_peers, by_numa = (each.text in message for each in (CardReason.CardHeldByPeer, CardReason.NumaNotFit))
    for title, policy in world.policies_in_force(pod, "devices") if by_peers or by_numa else ():
        devices = policy["spec"].get("devices") or {}
        keys = (devices.get("apartFrom") or {}).get("matchLabelKeys")
        if by_peers and keys and pod.labels.keys() >= set(keys):
            same = f"pods of the namespace with the same {by_name('label', keys)}"
            yield f"have spec.devices.apartFrom of {title} changed or removed: it allows no cards of {same}"
            yield f"end pods of your own: {few(_peers(world, pod, keys), 'pods') or same}"
        if by_numa and devices.get("numa") == "Required":
            yield (
                f"have spec.devices.numa of {title} changed or removed: it allows only cards of one NUMA node to each"
                " container"
            )


def _peers(world: World, pod: Pod, keys: Sequence[str]) -> list[str]:
    """Return the running pods of a pod's namespace that have its values of some labels and ask for cards."""
    own, names = [pod.labels.get(key) for key in keys], card_names(world.engine.dialects)
    return sorted(
        each.key
        for each in world.bound.values()
        if each.namespace == pod.namespace
        and [each.labels.get(key) for key in keys] == own
        and asks_for_cards(names, each)
    )


def _selectors(world: World, pod: Pod) -> Iterator[str]:
    for title, policy in world.policies_in_force(pod, "nodeSelector"):
        if selector := policy["spec"].get("nodeSelector"):
            yield f"have spec.nodeSelector of {title} changed: it allows nodes with {describe_selector(selector)} only"


def _of_cards(world: World, pod: Pod, namespace_objects: NamespaceObjects) -> Iterator[Action]:
    """Yield the changes of rules that deny cards to a pod, and of its memory if a limit, or a hidden one, may do so."""
    asked = PodRequest(world, corrected(world, world.written(pod)).written)
    limit = memory_limit_of(asked)
    depends = leaves_memory_to_cards(world, pod)
    may_be_limited = depends and (limit is not None or bool(namespace_objects.unread_policies))
    if may_be_limited:
        yield from _less_memory(asked, limit, namespace_objects)
    models = _models_named(world, pod) if may_be_limited or namespace_objects.unread_policies else []
    for title, policy in world.policies_in_force(pod, "devices"):
        devices = policy["spec"].get("devices") or {}
        for field, listed, _ in rules_of_cards(devices):
            denies = field == "types.deny"
            if field != "modes" and models and not _concerns(models, listed, denies=denies):
                continue
            does = "denies" if denies else "allows no other cards than"
            yield Action(f"have spec.devices.{field} of {title} changed: it {does} {', '.join(listed)}")
        if devices.get("exclusive"):
            yield Action(_EXCLUSIVE.format(title))
    for title, policy in world.policies_in_force(pod, "limits") if depends else ():
        if most := (policy["spec"].get("limits") or {}).get("memoryPerPod"):
            allows = f"it is {most}, and larger cards would give the pod more"
            yield Action(f"have limits.memoryPerPod of {title} raised: {allows}")


def _models_named(world: World, pod: Pod) -> list[str]:
    """Return the parts of model names that a pod's annotations name."""
    ends = f"/use-gpu{MODEL_WORD}"
    given = pod.annotations
    return [
        part.strip().lower()
        for name in world.engine.dialects.pod_annotations
        if name.endswith(ends)
        for part in given.get(name, "").split(",")
        if part.strip()
    ]


def _concerns(models: Sequence[str], listed: Sequence[str], *, denies: bool) -> bool:
    """Tell whether a rule about models keeps a pod from the models that it names."""
    entries = [each.strip().lower() for each in listed]
    met = [any(entry in model or model in entry for entry in entries) for model in models]
    return any(met) if denies else not all(met)


def _less_memory(asked: PodRequest, limit: UpperBound | None, namespace_objects: NamespaceObjects) -> Iterator[Action]:
    """Yield requests of less memory where the amount depends on the card, which a limit, or a hidden one, denies.

    The amounts that a known limit allows on any card follow from the condition.
    """
    why = "the memory of a pod, and denies larger cards"
    why = f"{namespace_objects.hidden_policy}, may limit {why}" if limit is None else denies_larger_cards(limit)
    for amount in asked.amounts:
        (part, *others) = amount.parts
        known = [each.inventory.device_resources.get(part.resource) for each in asked.owners]
        if not others and any(about is not None and about.percent for about in known) and amount.steps > 1:
            if part.written and any(is_of(asked, amount, each, each.inventory.memory) for each in asked.owners):
                yield ask_for_less(amount, part, f": {why}")
        elif limit is None and amount.unsaid and any(is_of(asked, amount, d, d.inventory.memory) for d in asked.owners):
            yield ask_for_less(amount, part, f": {why}")
