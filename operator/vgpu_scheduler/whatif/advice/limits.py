"""Remedies for a pod that exceeds policy limits: ask for less, or raise the limits.

A remedy must not evade a limit: a pod that may have no exclusive card is not told to leave one percent of it to others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from vgpu_scheduler.engine import ExceededLimit, PodSums, breaches, pod_sums
from vgpu_scheduler.kube import Object, Pod
from vgpu_scheduler.model import WHOLE
from vgpu_scheduler.policy import LimitField
from vgpu_scheduler.whatif.advice.policy_remedies import without_limits
from vgpu_scheduler.whatif.advice.remedy import Action, HypotheticalPod, Remedy, RemedyType, ask_for, do
from vgpu_scheduler.whatif.advice.searching import largest_that_fits
from vgpu_scheduler.whatif.world.replacing import objects_replaced
from vgpu_scheduler.whatif.world.world import World

_MOST_ROUNDS: Final = 8
"""The most limits that are raised, or kept, one after the other, since a limit may hide another."""


def breaches_of(world: World, pod: Pod) -> tuple[ExceededLimit, ...]:
    """Return the limits that a pod exceeds; none if its claims cannot be understood."""
    claimed = world.engine.algorithm.classes.claimed(pod)
    if claimed is None or not claimed.dialect:
        return ()
    dialect, limits = world.engine.dialects[claimed.dialect], claimed.policy.limits
    return breaches(claimed.claims, limits, dialect, idle=claimed.choice.takes_idle_cards)


def gets_around_limits(waiting: HypotheticalPod, written: Object) -> bool:
    """Tell whether another version of a pod has as many cards as before, but fewer that count as exclusive.

    It evades nothing if the pod could not have these cards exclusively even without limits.
    """
    if all(breach.field != LimitField.EXCLUSIVE_CARDS for breach in breaches_of(waiting.world, waiting.ours)):
        return False
    before, after = (_sums(waiting.world, pod) for pod in (waiting.ours, waiting.read(written)))
    return only_shares_more(before, after) and _fits_without_limits(waiting)


def only_shares_more(before: PodSums, after: PodSums) -> bool:
    """Tell whether a change reduces the exclusive cards of a pod by more than its number of cards."""
    return before.own - after.own > before.devices - after.devices


def _fits_without_limits(waiting: HypotheticalPod) -> bool:
    """Tell whether the pod would fit without any policy limits."""
    world = waiting.world
    limiting = [each for each in world.policies.values() if (each.get("spec") or {}).get("limits")]
    with objects_replaced(world, [*map(without_limits, limiting)]):
        return bool(waiting.node_now())


def _sums(world: World, pod: Pod | None) -> PodSums:
    claimed = world.engine.algorithm.classes.claimed(pod) if pod is not None else None
    if claimed is None or not claimed.dialect:
        return PodSums()
    return most_at_once(
        pod_sums(claimed.claims, world.engine.dialects[claimed.dialect], idle=claimed.choice.takes_idle_cards)
    )


def most_at_once(moments: Iterable[PodSums]) -> PodSums:
    """Return the largest value of each amount that a pod asks for at any moment."""
    return PodSums(*(max(values) for values in zip(*moments, strict=True)))


def ask_within_limits(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Reduce several amounts together to keep several limits, each to the largest value that its limit allows."""
    if len(breaches_of(waiting.world, waiting.ours)) < 2:
        return
    written, actions = waiting.written, list[Action]()
    for _ in range(_MOST_ROUNDS):
        beyond = _beyond(waiting, written)
        if not beyond:
            break
        found = _within(waiting, written, next(iter(beyond)))
        if found is None:
            return
        action, written = found
        actions.append(action)
    node = waiting.node(written)
    if node and len(actions) > 1:
        yield Remedy(RemedyType.ASK_LESS, tuple(actions), node, written)


def _beyond(waiting: HypotheticalPod, written: Object) -> dict[str, int]:
    """Return by how much another version of the pod exceeds each limit."""
    beyond: dict[str, int] = {}
    for form in waiting.forms(written):
        for breach in breaches_of(waiting.world, form):
            beyond[breach.field] = max(beyond.get(breach.field, 0), breach.asked - breach.bound.most)
    return beyond


def _within(waiting: HypotheticalPod, written: Object, field: str) -> tuple[Action, Object] | None:
    """Return the change of one amount with which a pod keeps a limit, and the changed pod; None if there is none."""
    for amount in waiting.amounts(written):

        def keeps(steps: int) -> str:
            changed = amount.applied(written, steps)  # noqa: B023 - called within the loop only
            pod = waiting.read(changed)
            if (
                pod is None
                or not waiting.is_let_in(changed)
                or not waiting.world.engine.algorithm.classes.claims(pod)
                or gets_around_limits(waiting, changed)
            ):
                return ""
            return "" if field in _beyond(waiting, changed) else "kept"

        found = largest_that_fits(keeps, range(1, amount.steps))
        if found:
            return ask_for(amount, found[0]), amount.applied(written, found[0])
    return None


def raise_limits(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Raise all limits that the pod exceeds to what it asks for."""
    policies = waiting.world.policies
    before: dict[str, Object] = {}
    texts: dict[str, str] = {}
    written_before: dict[str, str] = {}
    try:
        for _ in range(_MOST_ROUNDS):
            beyond = _furthest_beyond(waiting) or _on_listed_cards(waiting)
            if not beyond:
                break
            for breach in beyond:
                title = breach.bound.source
                if title not in policies:
                    return
                before.setdefault(title, policies[title])
                name = f"limits.{breach.field} of {title}"
                allowed = written_before.setdefault(name, breach.allowed)
                texts[name] = f"raised to {breach.wanted} (it is {allowed})"
                waiting.world.replace_policy(_with_limit(policies[title], breach))
        node = waiting.node() if before else ""
        if node:
            changed = tuple(policies[title] for title in before)
            text = ", and ".join(f"{name} {to}" for name, to in texts.items())
            yield Remedy(RemedyType.RAISE_LIMIT, do(f"have {text}"), node, objects=changed)
    finally:
        for written in before.values():
            waiting.world.replace_policy(written)


def _furthest_beyond(waiting: HypotheticalPod) -> Sequence[ExceededLimit]:
    """Return the limits exceeded by pods that are placed at once, each with the pod that asks the most."""
    found: dict[tuple[str, str], ExceededLimit] = {}
    for pod in waiting.at_once:
        for breach in breaches_of(waiting.world, pod):
            key = breach.field, breach.bound.source
            if key not in found or breach.asked > found[key].asked:
                found[key] = breach
    return tuple(found.values())


def _on_listed_cards(waiting: HypotheticalPod) -> tuple[ExceededLimit, ...]:
    """Return the memory limit that a pod placed at once exceeds on every possible card, with the least excess.

    The memory of a percentage, and of an unspecified amount, depends on the card.
    """
    if waiting.node():
        return ()
    for pod in waiting.at_once:
        found = _on_listed_cards_of(waiting, pod)
        if found is not None:
            return (found,)
    return ()


def _on_listed_cards_of(waiting: HypotheticalPod, pod: Pod) -> ExceededLimit | None:
    claimed = waiting.world.engine.algorithm.classes.claimed(pod)
    bound = None if claimed is None else claimed.policy.limits.memory
    if claimed is None or bound is None or not claimed.dialect:
        return None
    dialect = waiting.world.engine.dialects[claimed.dialect]
    inventory, moments = dialect.inventory, list(pod_sums(claimed.claims, dialect))
    listed = waiting.world.listed_devices(dialects=(dialect,))
    totals = {device.total[inventory.memory] for _, _, device in listed if device.vendor in inventory.cards}
    wanted = sorted(
        inventory.memory_unit * max(sums.memory - -sums.percent * total // WHOLE for sums in moments)
        for total in totals
    )
    policy = waiting.world.policies.get(bound.source)
    for amount in (each for each in wanted if each > bound.most and policy is not None):
        breach = ExceededLimit(LimitField.MEMORY, amount, bound, "")
        assert policy is not None
        with objects_replaced(waiting.world, (_with_limit(policy, breach),)):
            helps = waiting.node() or _tightened(waiting, pod, bound.source)
        if helps:
            return breach
    return None


def _tightened(waiting: HypotheticalPod, pod: Pod, source: str) -> bool:
    """Tell whether another policy than the named one limits a pod's memory."""
    claimed = waiting.world.engine.algorithm.classes.claimed(pod)
    bound = None if claimed is None else claimed.policy.limits.memory
    return bound is not None and bound.source != source


def _with_limit(policy: Object, breach: ExceededLimit) -> Object:
    limit, spec = breach.wanted if breach.field == LimitField.MEMORY else breach.asked, policy.get("spec") or {}
    return {**policy, "spec": {**spec, "limits": {**(spec.get("limits") or {}), breach.field: limit}}}
