"""The fields of pods and policies behind the reasons of nodes and cards, with their values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from vgpu_scheduler.engine import ExceededLimit, card_verdicts, check_limits, pod_sums
from vgpu_scheduler.engine.registrations import registered_by_several
from vgpu_scheduler.kube import Object, Pod, in_binary_units
from vgpu_scheduler.model import MUTEX, CardReason, Device, names_model, policy_words
from vgpu_scheduler.policy import POD, SETTINGS, LimitField, shown_titles
from vgpu_scheduler.predicates import reasons as filters
from vgpu_scheduler.whatif.objects.expressions import describe_expression
from vgpu_scheduler.whatif.reasons.claim_labels import describe_labels
from vgpu_scheduler.whatif.reasons.mismatch import MODEL_WORD, annotations_about
from vgpu_scheduler.whatif.reasons.node_exclusions import describe_managed_nodes
from vgpu_scheduler.whatif.reasons.volume_causes import volume_causes
from vgpu_scheduler.whatif.world.simulation import PodResult, created
from vgpu_scheduler.whatif.world.tables import few
from vgpu_scheduler.whatif.world.world import World

_OF_MIG: Final = frozenset({CardReason.CardMigTopologyInfeasible, CardReason.CardTypeMismatch, CardReason.ModeNotFit})
"""What cards in MIG mode say of which no geometry is known."""
_OWN_CARDS: Final = (
    "A card counts as its own if it asks for all compute or all memory of the card, as a container does that names no"
    " memory, or if it wants idle cards only."
)
_MOST_NODES: Final = 64
"""The most nodes whose cards are considered."""
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def causes(world: World, answer: PodResult) -> tuple[str, ...]:
    """Return sentences about the selectors, rules and missing resources that keep a pod from nodes and cards."""
    reasons = answer.decision.reasons
    found: list[str] = []
    if filters.AFFINITY in reasons:
        found += _of_pod(world.written(answer.pod))
    if filters.POLICY_SELECTOR in reasons:
        found += _selectors_of_policies(world, answer)
    if filters.NOT_MANAGED in reasons:
        found.append(describe_managed_nodes(world, answer.pod))
    if CardReason.CardDeniedByPolicy in reasons:
        found += _denials(world, answer)
    is_of_own_cards = any(
        field == LimitField.EXCLUSIVE_CARDS for field, *_ in ExceededLimit.found_in(answer.decision.message)
    )
    if is_of_own_cards or CardReason.ExclusiveDeviceAllocateConflict in reasons:
        idle = list(_idle_cards(world, answer))
        found += idle or ([_OWN_CARDS] if is_of_own_cards else [])
    found += describe_labels(world, answer)
    found += volume_causes(world, answer.pod, reasons)
    if CardReason.CardCordoned in reasons:
        found += _registered_twice(world, answer)
    if not _OF_MIG.isdisjoint(reasons):
        found += _without_geometry(world, answer)
    return (*found, *_not_offered(world, answer))


def _without_geometry(world: World, answer: PodResult) -> Iterator[str]:
    """Say which nodes have cards in MIG mode that cannot be used because no geometry of them is known."""
    nodes: dict[str, set[str]] = {}
    owners = world.engine.dialects.owners(answer.pod)
    for node, _, device in world.listed_devices(nodes=answer.decision.verdicts, dialects=owners):
        if device.lacks_geometry and _would_take(world, answer, node):
            nodes.setdefault(device.type, set()).add(node)
    for model, there in sorted(nodes.items()):
        yield (
            f"Cards of model {model} on {few(sorted(there), 'nodes')} are in MIG mode, and not allocated until "
            "the file that hami_device_config or volcano_device_config names has that model in "
            "knownMigGeometries, and"
            " allows one of its profiles."
        )


def _would_take(world: World, answer: PodResult, node: str) -> bool:
    """Tell whether a pod may be kept from a node's cards by their MIG mode alone."""
    reasons = answer.decision.verdicts[node].reasons
    names_model = bool(annotations_about(world, answer.pod, MODEL_WORD))  # it may be the model then
    return CardReason.CardMigTopologyInfeasible in reasons or (not names_model and not _OF_MIG.isdisjoint(reasons))


def _registered_twice(world: World, answer: PodResult) -> Iterator[str]:
    """Say which nodes have cards that several dialects register: like cordoned cards, no pod gets them."""
    nodes: dict[str, list[str]] = {}
    for node in answer.decision.verdicts:
        listed = world.engine.state.devices_by_dialect(node)
        for names in dict.fromkeys(registered_by_several(world.engine.dialects, listed).values()):
            nodes.setdefault(" and by ".join(names), []).append(node)
    for who, there in nodes.items():
        yield (
            f"Cards of {few(there, 'nodes')} are registered by {who}, and not allocated until only one device "
            "plugin registers them: stop the other, and remove its annotation from the node."
        )


def not_offered(world: World, answer: PodResult) -> list[str]:
    """Return the resources that a pod requests and no node offers."""
    offered = world.engine.state.nodes.offered()
    reasons = answer.decision.reasons
    return [name for name in answer.pod.spec.requests if name not in offered and filters.insufficient(name) in reasons]


def _not_offered(world: World, answer: PodResult) -> Iterator[str]:
    """Name the resources that no node offers, and the cards that exist."""
    if names := not_offered(world, answer):
        listed = world.listed_devices()
        devices = [device for _, dialect, device in listed if device.vendor in dialect.inventory.cards]
        cards = f"the cards that there are: {_models(devices)}" if devices else "there are no cards"
        yield f"No node offers any {' or '.join(names)}; {cards}."


def _of_pod(written: Object) -> Iterator[str]:
    spec = written.get("spec") or {}
    if selector := spec.get("nodeSelector"):
        yield f"It asks for nodes with {_labels(selector)} (spec.nodeSelector)."
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()
    words = [
        ", ".join(
            describe_expression(each) for kind in ("matchExpressions", "matchFields") for each in term.get(kind) or ()
        )
        for term in terms
    ]
    if words:
        yield f"It asks for nodes with {' or '.join(words)} (spec.affinity.nodeAffinity)."


def _selectors_of_policies(world: World, answer: PodResult) -> Iterator[str]:
    for title, policy in world.policies_in_force(answer.pod, "nodeSelector"):
        if selector := policy["spec"].get("nodeSelector"):
            yield f"{title} asks for nodes with {describe_selector(selector)} (spec.nodeSelector)."


def _denials(world: World, answer: PodResult) -> Iterator[str]:
    """Say which cards each policy rule denies: rules about single cards, then the memory limit and ``exclusive``."""
    denied = list(_denied(world, answer))
    left = list(denied)
    for title, policy in world.policies_in_force(answer.pod, "devices"):
        for field, listed, denies in rules_of_cards(policy["spec"].get("devices") or {}):
            cards = [device for device in denied if denies(device)]
            if cards:
                yield f"spec.devices.{field} of {title} ({', '.join(listed)}) denies {_models(cards)}."
                left = [device for device in left if not denies(device)]
    ours = created(world, answer.pod, answer.pod.uid)
    claimed = world.engine.algorithm.classes.claimed(ours)
    if not left or claimed is None or not claimed.dialect:
        return
    limit, inventory = claimed.policy.limits.memory, world.engine.dialects[claimed.dialect].inventory
    most = check_limits(claimed.claims, claimed.policy.limits, world.engine.dialects[claimed.dialect])
    large = [] if most is None else [device for device in left if device.total[inventory.memory] > most]
    if large and limit is not None and most is not None:
        spec = (world.policies.get(limit.source) or {}).get("spec") or {}
        written = f" ({spec['limits']['memoryPerPod']})" if "memoryPerPod" in (spec.get("limits") or {}) else ""
        yield (
            f"spec.limits.memoryPerPod of {limit.source}{written} denies {_models(large)}: how much memory the pod"
            f" gets depends on the card, which may have {in_binary_units(most * inventory.memory_unit)} at most."
        )
    if len(large) < len(left) and claimed.choice.limits.exclusive:
        in_force = world.policies_in_force(answer.pod, "devices")
        titles = [title for title, policy in in_force if (policy["spec"].get("devices") or {}).get("exclusive")]
        yield f"spec.devices.exclusive of {shown_titles(titles) or 'a policy'} allows whole cards only."


def _idle_cards(world: World, answer: PodResult) -> Iterator[str]:
    """Name the policy, or the setting, that gives a pod idle cards only, although the pod does not ask for these."""
    claimed = world.engine.algorithm.classes.claimed(created(world, answer.pod, answer.pod.uid))
    if claimed is None or not claimed.dialect or not claimed.choice.takes_idle_cards:
        return
    in_force = world.policies_in_force(answer.pod, "devices")
    exclusive = [title for title, policy in in_force if (policy["spec"].get("devices") or {}).get("exclusive")]
    order, (by, *_) = claimed.choice.policy, (*claimed.policy.titles("devices"), SETTINGS)
    if exclusive:
        said = f"spec.devices.exclusive of {shown_titles(exclusive)}"
    elif MUTEX not in policy_words(order) or by == POD:
        return
    else:
        said = f"The setting device_policy ({order})" if by == SETTINGS else f"spec.devices.policy of {by} ({order})"
    yield f"{said} gives it cards that no other pod uses, and no others."


def _models(devices: Sequence[Device]) -> str:
    counts = Counter(device.type or device.vendor for device in devices)
    return ", ".join(f"{model} ({count})" for model, count in sorted(counts.items()))


def leaves_memory_to_cards(world: World, pod: Pod) -> bool:
    """Tell whether a pod's card memory depends on the card: only then can a memory limit deny single cards.

    It does if a container asks for a percentage, or for no memory, and no policy sets a default amount.
    """
    claimed = world.engine.algorithm.classes.claimed(pod)
    if claimed is None or not claimed.dialect:
        return False
    return any(sums.percent for sums in pod_sums(claimed.claims, world.engine.dialects[claimed.dialect]))


def _denied(world: World, answer: PodResult) -> Iterator[Device]:
    reason, ours = CardReason.CardDeniedByPolicy, created(world, answer.pod, answer.pod.uid)
    nodes = [node for node, verdict in answer.decision.verdicts.items() if reason in verdict.reasons]
    for node in nodes[:_MOST_NODES]:
        verdicts = [each for each in card_verdicts(world.engine.algorithm, ours, node) if each.reason is reason]
        yield from {verdict.device.uuid: verdict.device for verdict in verdicts}.values()


def rules_of_cards(devices: Object) -> Iterator[tuple[str, Sequence[str], Callable[[Device], bool]]]:
    """Yield the policy rules about single cards: the field, its values, and a function that tells what it denies."""
    types = devices.get("types") or {}
    allow, deny, modes = (list(each or ()) for each in (types.get("allow"), types.get("deny"), devices.get("modes")))
    if allow:
        yield "types.allow", allow, lambda device: not _names(allow, device)
    if deny:
        yield "types.deny", deny, lambda device: _names(deny, device)
    if modes:
        yield "modes", modes, lambda device: bool(device.mode) and device.mode not in modes


def _names(parts: Sequence[str], device: Device) -> bool:
    return any(names_model(part, device.type) for part in parts)


def describe_selector(selector: Object) -> str:
    """Format a label selector as kubectl does."""
    parts = [_labels(selector.get("matchLabels") or {})]
    parts += [describe_expression(each) for each in selector.get("matchExpressions") or ()]
    return ", ".join(filter(None, parts))


def _labels(selector: Object) -> str:
    return ", ".join(f"{key}={value}" for key, value in selector.items())
