"""What a pod or a quota says that is hardly meant: names one letter off, amounts that count otherwise, gangs.

None of it keeps a pod from being placed: what a claim cannot mean is refused where claims are read. Names are compared
with those that are known under the same domain, so that what belongs to others is let be.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final

from vgpu_scheduler.dialects import Dialects, LimitedResource, UsageWarning
from vgpu_scheduler.dialects.values import INT32
from vgpu_scheduler.engine.unlisted_dialects import UnlistedDialects
from vgpu_scheduler.kernels import MEMORY
from vgpu_scheduler.kube import Pod, QuantityError, ResourceQuota, has_unit, to_exact_int
from vgpu_scheduler.model import DECISION, MIB, BoundedCache, bytes_of, closest, closest_names
from vgpu_scheduler.policy import OVERRIDES

_ALIKE: Final = 0.8
"""How alike two names must be, of 1, for one to be taken for the other: one letter of six, about."""
_MOST_MEANT: Final = 3
"""Names that are told of those that are equally like one."""
_MOST_BYTES: Final = 2**20
"""What the names may take that are remembered with what they are probably meant for: of each kind about 2,000."""
_LIMITS: Final = "limits."
_REQUESTS: Final = "requests."
_QUOTA_PREFIXES: Final = (_LIMITS, _REQUESTS)


class UsageWarnings:
    """Looks at what others wrote.

    Parameters
    ----------
    dialects
        Whose names are known.
    about_group
        Says what is suspicious about the group that a pod belongs to; empty if nothing is.
    vendors
        Returns the vendors whose cards the nodes have now, by dialect and name.
    unlisted
        The dialects that are known and not in use.
    """

    def __init__(
        self,
        dialects: Dialects,
        about_group: Callable[[Pod], str] = lambda _: "",
        vendors: Callable[[], Collection[tuple[str, str]]] = tuple,
        unlisted: UnlistedDialects | None = None,
    ) -> None:
        self._dialects = dialects
        self._about_group = about_group
        self._vendors = vendors
        self._unlisted = unlisted or UnlistedDialects(dialects, ())
        self._resources = frozenset(name for dialect in dialects for name in dialect.claims.resources)
        written = (name for dialect in dialects for name in dialect.allocation.written)
        self._annotations = frozenset((*dialects.pod_annotations, *OVERRIDES.values(), DECISION, *written))
        self._quotas = dialects.quota_resources
        self._domains = frozenset(map(_domain, (*self._resources, *self._annotations)))
        self._about: BoundedCache[str, str] = BoundedCache(_MOST_BYTES)
        self._named: BoundedCache[str, str] = BoundedCache(_MOST_BYTES)

    def of_pod(self, pod: Pod) -> Iterator[str]:
        """Yield what is suspicious about a pod, as sentences for its events."""
        return map(str, self.found_in(pod))

    def found_in(self, pod: Pod) -> Iterator[UsageWarning]:
        """Yield what is suspicious about a pod, with what is to be written instead where that is known."""
        for name in pod.annotations:
            if text := _remembered(name, self._about, self._annotation):
                yield UsageWarning(text)
        if text := self._about_group(pod):
            yield UsageWarning(text)
        owners = self._dialects.owners(pod)
        for container in pod.spec.containers:
            names = dict.fromkeys((*container.limits, *container.requests))
            for name in names:
                if text := self._resource(name):
                    yield UsageWarning(text).in_container(container.name)
            for dialect_name, asked in self._unlisted.of_requests(names).items():
                yield UsageWarning(_not_served(asked, dialect_name)).in_container(container.name)
            for dialect in owners:
                for warning in dialect.claims.usage_warnings(container, pod.annotations):
                    yield warning.in_container(container.name)

    def of_quota(self, quota: ResourceQuota) -> Iterator[str]:
        """Yield what is suspicious about a quota, as sentences for its events."""
        for key, text in quota.hard.items():
            prefix = next((prefix for prefix in _QUOTA_PREFIXES if key.startswith(prefix)), "")
            name = key.removeprefix(prefix)
            says = ""
            if name in self._quotas and prefix != _REQUESTS:
                says = _odd_limit(text, self._quotas[name]) if prefix else f"limits nothing: write {_LIMITS}{name}"
            elif name in self._resources and prefix != _REQUESTS:
                says = f"limits nothing: write {_REQUESTS}{name}"
            elif prefix and name not in self._resources and _domain(name) in self._domains:
                meant = _closest(name, self._quotas)
                says = f"no limit of devices is called so, did you mean {_LIMITS}{meant}?" if meant else ""
            if says:
                yield f"spec.hard[{key}]: {says}"

    def _annotation(self, name: str) -> str:
        if name in self._annotations or _domain(name) not in self._domains:
            return ""
        if name in self._resources:
            return f"annotation {name} has no effect: it is a resource, and belongs into the limits of a container"
        meant = _closest(name, self._annotations)
        return f"annotation {name} has no effect, did you mean {meant}?" if meant else ""

    def meant_by(self, name: str) -> tuple[str, ...]:
        """Return the device resources that may be meant by a name that is none; none where it is one, or like none.

        The likest of those whose cards nodes have, of which several may be equally like it; where nodes have cards of
        none of them, the likest of all.
        """
        near = [(float(ratio), other) for ratio, other in self._near(name)]
        if len(near) > 1:
            there = self._counting(frozenset(self._vendors()))
            near = [each for each in near if each[1] in there] or near
        return tuple(other for ratio, other in near if ratio == near[0][0])[:_MOST_MEANT]

    def _near(self, name: str) -> list[list[str]]:
        """Return how like a name that is none of a device resource those are that are like it, and these."""
        if name in self._resources or _domain(name) not in self._domains:
            return []
        found = _remembered(name, self._named, self._near_as_text)
        return [line.split(" ", 1) for line in found.splitlines()]

    def _near_as_text(self, name: str) -> str:
        words = {other.rpartition("/")[2]: other for other in self._resources if _domain(other) == _domain(name)}
        found = closest_names(name.rpartition("/")[2], words, _ALIKE)
        return "\n".join(f"{ratio!r} {words[word]}" for ratio, word in found)

    def _counting(self, vendors: frozenset[tuple[str, str]]) -> set[str]:
        """Return the resources that are about cards of some vendors."""
        return {
            name
            for dialect in self._dialects
            for name, resource in dialect.inventory.device_resources.items()
            if (dialect.name, resource.vendor) in vendors
        }

    def _resource(self, name: str) -> str:
        meant = " or ".join(self.meant_by(name))
        return f"no device resource is called {name}, did you mean {meant}?" if meant else ""


def _not_served(names: Sequence[str], dialect: str) -> str:
    """Say that nobody chooses cards for what is asked in the names of a dialect that is not in use."""
    name = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    belong = "belongs" if len(names) == 1 else "belong"
    return (
        f"{name} {belong} to dialect {dialect}, which the setting dialects does not list: the pod is given no"
        f" card, whatever its node offers; add {dialect} to dialects"
    )


def _odd_limit(text: str, limited: LimitedResource) -> str:
    """Say what a limit counts as that is written in bytes, or is more than there is; empty for any other.

    API servers hand out 2000 as 2k, so that units of thousands say nothing.
    """
    resource, _, unit = limited
    try:
        limit = to_exact_int(text)
    except QuantityError:
        return ""  # told elsewhere
    if not limit or limit < 0:
        return ""
    if resource.bytes and has_unit(text):
        return "" if limit >= resource.bytes else f"{text} is less than 1 {unit}, and counts as 0"
    if not text.strip().endswith("i") and limit * resource.unit <= INT32:
        return ""
    meant = limit
    if resource.dimension == MEMORY and limit >= MIB:  # in bytes, as elsewhere in Kubernetes
        meant = max(limit // (MIB * resource.unit), 1)
    return f"{text} counts as {limit * resource.unit} {unit}, as HAMi reads it: write {meant}"


def _remembered(name: str, known: BoundedCache[str, str], look: Callable[[str], str]) -> str:
    text = known.get(name)
    if text is None:
        text = look(name)
        known.put(name, text, bytes_of(name) + bytes_of(text))
    return text


def _domain(name: str) -> str:
    return name.rpartition("/")[0]


def _closest(name: str, known: Iterable[str]) -> str:
    same = sorted(other for other in known if _domain(other) == _domain(name))
    words = {other.rpartition("/")[2]: other for other in same}
    return words.get(closest(name.rpartition("/")[2], words, _ALIKE), "")
