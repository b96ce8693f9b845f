"""What a pod asks of HAMi 2.6, and the allocation that it gets written; plain where the quirks are off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.naive.hami26.quirks import Quirk26
from tests.naive.hami_quirks import Quirk, Switches
from tests.naive.hami_values import UNSET, Ask, Card, Container, Pick, Rules
from tests.naive.hami_wire import INT32, Bad, Entry, Names, Obj, asks, encode_pod, look_up, raw_containers, wrap

from vgpu_scheduler.kube import QuantityError, to_exact_int


@dataclass(frozen=True)
class AskAsGiven(Ask):
    """One whose amounts nobody looked at: negative memory is no memory, and no percentage replaces it."""

    def memory_on(self, card: Card) -> int:
        if self.memory:
            return max(self.memory, 0)
        return 0 if self.percent == UNSET else int(card.memory * self.percent / 100)


def containers_of(pod: Obj, names: Names, switch: Switches) -> tuple[list[Container], set[Bad]]:
    """What each container asks for, and what is refused."""
    containers, refused = [], set()
    for name, kind, resources in raw_containers(pod):
        if kind != "app" and switch(Quirk26.INIT_CONTAINERS_IGNORED):
            continue
        ask = _as_given(resources, names, switch)
        if ask:
            containers.append(Container(name, kind, (ask,) if ask.nums > 0 else ()))
            continue
        if _odd(resources, names):  # that one is not about these amounts
            alone, bad = _plain(name, resources, names, Switches(switch.on - {Quirk.BAD_QUANTITY_DROPPED}))
        else:
            alone, bad = _plain(name, resources, names, switch)
        containers.append(Container(name, kind, alone.asks))
        refused |= bad
    return containers, refused


def _plain(name: str, resources: Obj, names: Names, switch: Switches) -> tuple[Container, set[Bad]]:
    found, refused = asks({"spec": {"containers": [{"name": name, "resources": resources}]}}, names, switch)
    return found[0], refused


def _odd(resources: Obj, names: Names) -> bool:
    """Whether an amount beside a good count is none that this scheduler takes as it is given."""
    count = _exact(look_up(resources, names.count))
    if count is None or count <= 0:
        return False
    highest = {names.memory: INT32, names.percent: 100, names.cores: INT32}
    lowest = {names.percent: 1}
    for name, most in highest.items():
        text = look_up(resources, name)
        value = _exact(text)
        if text is not None and (value is None or not lowest.get(name, 0) <= value <= most):
            return True
    return False


def _as_given(resources: Obj, names: Names, switch: Switches) -> Ask | None:
    """The ask with odd amounts as HAMi 2.6 takes them: unreadable ones for missing, others as they are in 32 bits."""
    if not _odd(resources, names) or not switch(Quirk26.AMOUNTS_AS_GIVEN):
        return None
    count, memory, percent, cores = (
        _exact(look_up(resources, name)) for name in (names.count, names.memory, names.percent, names.cores)
    )
    assert count is not None
    memory = memory or 0
    percent = UNSET if percent is None else wrap(percent)
    if percent == UNSET and memory == 0:
        memory = names.default_memory
        percent = UNSET if memory else 100
    cores = names.default_cores if cores is None else cores
    return AskAsGiven("NVIDIA", wrap(count), wrap(memory), percent, wrap(cores))


def _exact(text: str | None) -> int | None:
    try:
        return None if text is None else to_exact_int(text)
    except QuantityError:
        return None


def rules_of(annotations: Mapping[str, str], switch: Switches) -> Rules:
    """Which cards a pod wants; the lists hold what HAMi 2.6 compares with."""
    plain = Rules.of(dict(annotations))
    no_use_uuids = _listed(annotations, "nvidia.com/nouse-gpuuuid", switch)
    if no_use_uuids and "nvidia.com/use-gpuuuid" in annotations and switch(Quirk26.USE_HIDES_NO_USE):
        no_use_uuids = ()
    return Rules(
        _listed(annotations, "nvidia.com/use-gputype", switch),
        _listed(annotations, "nvidia.com/nouse-gputype", switch),
        _listed(annotations, "nvidia.com/use-gpuuuid", switch),
        no_use_uuids,
        plain.mode,
        plain.numa_bind,
    )


def _listed(annotations: Mapping[str, str], key: str, switch: Switches) -> tuple[str, ...]:
    if key not in annotations:
        return ()
    items = []
    for item in annotations[key].split(","):
        if item != item.strip() and not switch(Quirk26.LISTS_NOT_TRIMMED):
            item = item.strip()  # noqa: PLW2901
        if item or switch(Quirk26.EMPTY_ITEM_MATCHES):
            items.append(item)
    return tuple(items)


def allocation(picks: Sequence[Sequence[Pick]], switch: Switches) -> str:
    """An entry per container; HAMi 2.6 notices that the first ones are missing when it comes to another without."""
    entries = [[Entry(pick.uuid, pick.vendor, pick.memory, pick.cores) for pick in container] for container in picks]
    first = next(number for number, container in enumerate(entries) if container)
    if first and all(entries[first:]) and switch(Quirk26.LEADING_GAPS_LEFT_OUT):
        entries = entries[first:]
    return encode_pod(entries)
