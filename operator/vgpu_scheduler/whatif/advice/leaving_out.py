"""Resources that a pod may stop requesting if asking for less does not help, as long as it still asks for cards."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from typing import Final, TypeAlias

from vgpu_scheduler.kernels import SLOTS
from vgpu_scheduler.kube import Object
from vgpu_scheduler.model import vendors_of
from vgpu_scheduler.predicates.reasons import insufficient
from vgpu_scheduler.whatif.advice.limits import gets_around_limits
from vgpu_scheduler.whatif.advice.remedy import HypotheticalPod, Remedy, RemedyType, leave_out_resources
from vgpu_scheduler.whatif.objects.card_names import card_names
from vgpu_scheduler.whatif.objects.containers import amounts_asked, containers_of, without_resources

_INIT: Final = "initContainers"
_Tried: TypeAlias = tuple[tuple[str, ...], tuple[str, ...] | None]
"""Resources to leave out, and the containers in which to do so; None for all containers."""


def leave_out(waiting: HypotheticalPod, but: Set[str]) -> Iterator[Remedy]:
    """Leave out one resource, or all of one vendor's cards, in all containers of the pod.

    For a refused pod, try a single container first, since the others may not need the change.

    Parameters
    ----------
    but
        The resources of which asking for less helps.
    """
    groups = [*_groups(waiting), *_at_odds(waiting)]
    refused = waiting.is_refused
    for group in dict.fromkeys(groups):
        found = list(_without(waiting, but, [(group, None)]))
        asking = _asking(waiting, group) if found and refused else []
        alone: list[_Tried] = [(group, (name,)) for name in asking] if len(asking) > 1 else []
        yield from list(_without(waiting, but, alone)) or found


def leave_out_not_offered(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Yield the pod without each resource that no node offers, without checking that this helps."""
    reasons, offered = waiting.algorithm.decide(waiting.ours).reasons, waiting.world.engine.state.nodes.offered()
    for name in _names(waiting):
        if name not in offered and insufficient(name) in reasons:
            what = (leave_out_resources([name], _asking(waiting, [name])),)
            written = without_resources(waiting.written, [name])
            if waiting.is_let_in(written):
                yield Remedy(RemedyType.ASK_LESS, what, "", written)


def leave_out_in_one_container(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Leave out one vendor's cards in one container, if other containers ask for cards, too.

    For a refused pod, also try all init containers together.
    """
    vendors = _vendors(waiting)
    asking = [
        (field, each)
        for field, _, each in containers_of(waiting.written)
        if amounts_asked(each).keys() & vendors.keys()
    ]
    starting = [each for field, each in asking if field == _INIT]
    tried: list[_Tried] = []
    for containers in [[each] for _, each in asking] if len(asking) > 1 else ():
        tried += _by_vendor(containers, vendors)
    if 1 < len(starting) < len(asking) and waiting.is_refused:
        tried += _by_vendor(starting, vendors)
    yield from _without(waiting, frozenset(), tried)


def _by_vendor(containers: Sequence[Object], vendors: dict[str, str]) -> Iterator[_Tried]:
    """Yield the resources that some containers ask for, by vendor."""
    names = {name for each in containers for name in amounts_asked(each).keys() & vendors.keys()}
    where = tuple(str(each.get("name", "")) for each in containers)
    for vendor in sorted({vendors[name] for name in names}):
        yield tuple(sorted(name for name in names if vendors[name] == vendor)), where


def _without(waiting: HypotheticalPod, but: Set[str], tried: Iterable[_Tried]) -> Iterator[Remedy]:
    """Yield the sets of resources without which the pod fits."""
    for group, containers in tried:
        written = without_resources(waiting.written, group, containers)
        if not but.isdisjoint(group) or gets_around_limits(waiting, written):
            continue
        if node := waiting.node(written):
            asking = [name for name in _asking(waiting, group) if containers is None or name in containers]
            what = (leave_out_resources(group, asking),)
            yield Remedy(RemedyType.ASK_LESS, what, node, written)


def _asking(waiting: HypotheticalPod, names: Collection[str]) -> list[str]:
    """Return the containers that ask for any of these resources."""
    containers = (each for _, _, each in containers_of(waiting.written))
    return [str(each.get("name", "")) for each in containers if not amounts_asked(each).keys().isdisjoint(names)]


def _at_odds(waiting: HypotheticalPod) -> Iterator[tuple[str, ...]]:
    """Yield each card resource of a refused pod, since they may conflict with each other."""
    if waiting.is_refused:
        vendors = _vendors(waiting)
        yield from ((name,) for name in _names(waiting) if name in vendors)


def _names(waiting: HypotheticalPod) -> dict[str, None]:
    """Return all requested resources, by container and then by name."""
    return dict.fromkeys(name for _, _, each in containers_of(waiting.written) for name in sorted(amounts_asked(each)))


def _vendors(waiting: HypotheticalPod) -> dict[str, str]:
    """Return the vendor of each card resource; for other names of a dialect, the dialect."""
    found: dict[str, str] = {}
    for each in waiting.world.engine.dialects:
        found |= dict.fromkeys(each.claims.resources, each.name)
        found |= {name: about.vendor for name, about in each.inventory.device_resources.items()}
    return found


def _groups(waiting: HypotheticalPod) -> Iterator[tuple[str, ...]]:
    """Yield the sets of resources that can be left out together: a vendor's cards with their amounts, or one resource.

    Memory amounts are kept, since a container without one gets whole cards. If the names belong to several dialects,
    all names of one dialect form a set; so do the names of a dialect that is not in the settings.
    """
    asked = _names(waiting)
    known = {
        name: about for each in waiting.world.engine.dialects for name, about in each.inventory.device_resources.items()
    }
    owned, elsewhere = card_names(waiting.world.engine.dialects), dict[str, list[str]]()
    of_cards = {name for name in asked if name in known}
    memories = {each.inventory.memory for each in waiting.world.engine.dialects}
    claimed = vendors_of(
        waiting.algorithm.classes.claims(waiting.ours)
    )  # also the vendors of claims that no such resource names
    owners = _by_owner(waiting, asked)
    if len(owners) > 1:  # a pod with names of several dialects is refused
        yield from owners
        return
    for name in asked:
        about = known.get(name)
        if about is None:
            if name not in owned:
                yield (name,)
            else:
                elsewhere.setdefault(owned[name], []).append(name)
        elif about.dimension == SLOTS:
            own = {other for other in of_cards if known[other].vendor == about.vendor}
            if own != of_cards or claimed - {about.vendor}:
                yield (name, *sorted(own - {name}))
        elif about.dimension not in memories:
            yield (name,)
    served = {each.name for each in waiting.world.engine.dialects}
    yield from (tuple(names) for dialect, names in elsewhere.items() if dialect not in served)


def _by_owner(waiting: HypotheticalPod, asked: Iterable[str]) -> list[tuple[str, ...]]:
    """Group resources by the dialect that owns them, the first one that knows their names."""
    found: dict[str, list[str]] = {}
    for name in asked:
        owner = next((each.name for each in waiting.world.engine.dialects if name in each.claims.resources), "")
        if owner:
            found.setdefault(owner, []).append(name)
    return [tuple(names) for names in found.values()]
