"""Resources that a pod may leave out altogether, where to ask for less of them does not help; it keeps some cards."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from typing import Final, TypeAlias

from vgpu_scheduler.kernels import SLOTS
from vgpu_scheduler.kube import Object
from vgpu_scheduler.model import PodClaims, by_name
from vgpu_scheduler.whatif.advice.limits import gets_around_limits
from vgpu_scheduler.whatif.advice.remedy import HypotheticalPod, Remedy, RemedyKind, do
from vgpu_scheduler.whatif.objects.card_names import card_names
from vgpu_scheduler.whatif.objects.containers import containers_of, without_resources

__all__ = ["leave_out", "leave_out_in_one_container", "vendors_of"]


_PLACES: Final = ("limits", "requests")
_INIT: Final = "initContainers"
_Tried: TypeAlias = tuple[tuple[str, ...], tuple[str, ...] | None]
"""Resources that are left out, and in which containers; in all where these are None."""


def leave_out(waiting: HypotheticalPod, but: Set[str]) -> Iterator[Remedy]:
    """Leave out one resource that the pod asks for, in all of its containers, or all those of one vendor of cards.

    Of a pod that is refused, in one container where that is enough: the others may do without the change.

    Parameters
    ----------
    but
        The resources of which to ask for less helps.
    """
    groups = [*_groups(waiting), *_at_odds(waiting)]
    refused = waiting.is_refused
    for group in dict.fromkeys(groups):
        found = list(_without(waiting, but, [(group, None)]))
        asking = _asking(waiting, group) if found and refused else []
        alone: list[_Tried] = [(group, (name,)) for name in asking] if len(asking) > 1 else []
        yield from list(_without(waiting, but, alone)) or found


def leave_out_in_one_container(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Leave out all resources of one vendor's cards in one container, where others ask for cards, too.

    Of a pod that is refused, in all of its init containers as well.
    """
    vendors = _vendors(waiting)
    asking = [(field, each) for field, _, each in containers_of(waiting.written) if _asked(each) & vendors.keys()]
    starting = [each for field, each in asking if field == _INIT]
    tried: list[_Tried] = []
    for containers in [[each] for _, each in asking] if len(asking) > 1 else ():
        tried += _by_vendor(containers, vendors)
    if 1 < len(starting) < len(asking) and waiting.is_refused:
        tried += _by_vendor(starting, vendors)
    yield from _without(waiting, frozenset(), tried)


def _by_vendor(containers: Sequence[Object], vendors: dict[str, str]) -> Iterator[_Tried]:
    """Yield what some containers ask of each vendor's cards."""
    names = {name for each in containers for name in _asked(each) & vendors.keys()}
    where = tuple(str(each.get("name", "")) for each in containers)
    for vendor in sorted({vendors[name] for name in names}):
        yield tuple(sorted(name for name in names if vendors[name] == vendor)), where


def _without(waiting: HypotheticalPod, but: Set[str], tried: Iterable[_Tried]) -> Iterator[Remedy]:
    """Yield which of some resources help when they are left out, in all containers or in named ones."""
    for group, containers in tried:
        written = without_resources(waiting.written, group, containers)
        if not but.isdisjoint(group) or gets_around_limits(waiting, written):
            continue
        if node := waiting.node(written):
            asking = [name for name in _asking(waiting, group) if containers is None or name in containers]
            what = do(f"leave out {' and '.join(group)} in {by_name('container', asking)}")
            yield Remedy(RemedyKind.ASK_LESS, what, node, written)


def _asking(waiting: HypotheticalPod, names: Collection[str]) -> list[str]:
    """Return the containers that ask for any of some resources."""
    containers = (each for _, _, each in containers_of(waiting.written))
    return [str(each.get("name", "")) for each in containers if not _asked(each).isdisjoint(names)]


def vendors_of(claims: PodClaims) -> set[str]:
    """Return whose devices a pod claims."""
    return {claim.vendor for container in claims for claim in container.claims}


def _at_odds(waiting: HypotheticalPod) -> Iterator[tuple[str, ...]]:
    """Yield each of the resources of cards of a pod that is refused: they may not go together."""
    if waiting.is_refused:
        vendors = _vendors(waiting)
        yield from ((name,) for name in _names(waiting) if name in vendors)


def _names(waiting: HypotheticalPod) -> dict[str, None]:
    """Return all resources that the pod asks for, by container and then by name."""
    return dict.fromkeys(name for _, _, each in containers_of(waiting.written) for name in sorted(_asked(each)))


def _vendors(waiting: HypotheticalPod) -> dict[str, str]:
    """Return the vendor of whose cards a resource is, by the names of resources; of other names of them the dialect."""
    found: dict[str, str] = {}
    for each in waiting.world.engine.dialects:
        found |= dict.fromkeys(each.claims.resources, each.name)
        found |= {name: about.vendor for name, about in each.inventory.device_resources.items()}
    return found


def _groups(waiting: HypotheticalPod) -> Iterator[tuple[str, ...]]:
    """Yield the resources that can be left out together: those of a vendor with its cards, or one without the others.

    Memory is kept: a container without its share of it gets whole cards. Of the names of several dialects, all those of
    one can be, and so can those of one that is not in the settings.
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
    )  # that of cards which no such resource names, too
    owners = _by_owner(waiting, asked)
    if len(owners) > 1:  # nobody places a pod that asks in the names of several
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
    """Return resources by the dialect that owns them, which is the first one that has them as names of its own."""
    found: dict[str, list[str]] = {}
    for name in asked:
        owner = next((each.name for each in waiting.world.engine.dialects if name in each.claims.resources), "")
        if owner:
            found.setdefault(owner, []).append(name)
    return [tuple(names) for names in found.values()]


def _asked(container: Object) -> set[str]:
    resources = container.get("resources") or {}
    return {name for place in _PLACES for name in resources.get(place) or {}}
