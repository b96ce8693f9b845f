"""The victims of a preemption as table rows and plain values, with names hidden where the reader may not see them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, Final

import msgspec

from vgpu_scheduler.kube import violated_budgets
from vgpu_scheduler.model import Preemption, Victim
from vgpu_scheduler.whatif.objects.cards import card_name
from vgpu_scheduler.whatif.world.world import World

ANOTHERS: Final = "(a pod that you may not delete)"
_ANOTHERS_BUDGET: Final = "(a budget of its namespace)"


def as_counted(world: World, preemption: Preemption) -> Preemption:
    """Return a preemption with the disruption budgets that evicting each victim now would violate.

    A terminating pod violates none: the API server has already counted it.
    """
    known = (world.engine.state.pod(victim.uid) for victim in preemption.victims)
    to_be_evicted = [pod for pod in known if pod is not None and not pod.deleting]
    violated = violated_budgets(to_be_evicted, world.engine.budgets.all())
    victims = tuple(replace(victim, budgets=violated.get(victim.uid, ())) for victim in preemption.victims)
    return replace(preemption, victims=victims)


def protected_victims(world: World, search: Callable[[], Preemption | None]) -> Preemption | None:
    """Return the preemption that budgets prevent, with the budgets that protect each victim; None if they do not.

    These are the budgets that allow too few evictions. If several budgets cover a pod, all of them count: the API
    server refuses to evict such a pod.

    Parameters
    ----------
    search
        Returns the preemption that is possible now; None without one.
    """
    engine = world.engine
    budgets = list(engine.budgets.all())
    try:
        for budget in budgets:
            engine.budgets.observe(msgspec.structs.replace(budget, selector=None))
        found = search()
    finally:
        for budget in budgets:
            engine.budgets.observe(budget)
    if found is None:
        return None
    counted = as_counted(world, found)
    victims = tuple(replace(each, budgets=_protecting(world, each)) for each in counted.victims)
    return replace(counted, victims=victims) if any(each.budgets for each in victims) else None


def _protecting(world: World, victim: Victim) -> tuple[str, ...]:
    pod = world.engine.state.pod(victim.uid)
    covering = [] if pod is None or pod.deleting else [each for each in world.engine.budgets.all() if each.covers(pod)]
    return tuple(budget.key for budget in covering) if len(covering) > 1 else victim.budgets


def nameless(preemption: Preemption, namespaces: Collection[str]) -> Preemption:
    """Return a preemption without names of victims and their budgets, except in the given namespaces."""
    victims = tuple(
        each
        if each.pod.partition("/")[0] in namespaces
        else replace(each, pod="", group="", budgets=(_ANOTHERS_BUDGET,) if each.budgets else ())
        for each in preemption.victims
    )
    return replace(preemption, victims=victims)


def victim_row(victim: Victim) -> tuple[str, str, str, str]:
    """Return a table row of a victim: the pod, its priority, its cards and the budgets that its eviction violates."""
    cards = ", ".join(victim.devices) or "-"
    pod = f"{victim.pod or ANOTHERS}{' (ends already)' if victim.terminating else ''}"
    return pod, str(victim.priority), cards, ", ".join(victim.budgets) or "-"


def victims_as_json(preemption: Preemption) -> list[dict[str, Any]]:
    """Return the victims of a preemption as plain values; a victim without a name belongs to another team."""
    return [
        {
            "pod": victim.pod,
            "priority": victim.priority,
            "cards": list(victim.devices),
            "budgets": list(victim.budgets),
            **({"group": victim.group, "node": victim.node} if victim.group else {}),
            **({"terminating": True} if victim.terminating else {}),
        }
        for victim in preemption.victims
    ]


def with_card_names(world: World, preemption: Preemption) -> Preemption:
    """Return a preemption whose victims list their cards by display name."""
    nodes = dict.fromkeys((preemption.node, *(each.node for each in preemption.victims if each.node)))
    names = {device.uuid: card_name(device.vendor, device.uuid) for _, _, device in world.listed_devices(nodes=nodes)}
    victims = tuple(
        replace(each, devices=tuple(names.get(uuid, uuid) for uuid in each.devices)) for each in preemption.victims
    )
    return replace(preemption, victims=victims)
