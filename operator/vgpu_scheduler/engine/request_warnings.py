"""Finds probable mistakes in pods and quotas: misspelt names, amounts that count differently than written, gangs.

None of them keeps a pod from being placed: claims that cannot be followed are refused where they are read. Names are
compared only with known names of the same or a similar domain, so that names of other systems are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from vgpu_scheduler.dialects import Dialects, LimitedResource, RequestWarning
from vgpu_scheduler.dialects.values import INT32
from vgpu_scheduler.engine.device_names import OF_OTHER_PLUGINS, DeviceNames
from vgpu_scheduler.engine.metadata_warnings import MetadataWarnings
from vgpu_scheduler.engine.unlisted_dialects import UnlistedDialects
from vgpu_scheduler.kernels import MEMORY
from vgpu_scheduler.kube import QUOTA_LIMITS, QUOTA_REQUESTS, Pod, QuantityError, ResourceQuota, has_unit, to_exact_int
from vgpu_scheduler.model import MIB, closest

_ALIKE: Final = 0.8
"""How similar a prefix of a quota's key must be to a known one (0 to 1) for the known one to be meant."""
_MODE: Final = "/vgpu-mode"
_QUOTA_PREFIXES: Final = (QUOTA_LIMITS, QUOTA_REQUESTS)


class RequestWarnings:
    """Checks what users wrote.

    Parameters
    ----------
    dialects
        The dialects in use.
    about_group
        Says what is suspicious about a pod's group; empty if nothing is.
    unlisted
        The dialects that are known but not in use.
    names
        The names of device resources; by default those of the dialects.
    """

    def __init__(
        self,
        dialects: Dialects,
        about_group: Callable[[Pod], str] = lambda _: "",
        unlisted: UnlistedDialects | None = None,
        names: DeviceNames | None = None,
    ) -> None:
        self._dialects = dialects
        self._about_group = about_group
        self._unlisted = unlisted or UnlistedDialects(dialects, ())
        self._resources = frozenset(name for dialect in dialects for name in dialect.claims.resources)
        self._metadata = MetadataWarnings(dialects)
        self._quotas = dialects.quota_resources
        self.names = names or DeviceNames(dialects)

    def of_pod(self, pod: Pod) -> Iterator[str]:
        """Yield what is suspicious about a pod, as sentences for its events."""
        return map(str, self.found_in(pod))

    def of_misspelt_resources(self, pod: Pod) -> Iterator[str]:
        """Yield sentences about resources that are misspelt names of devices, in a pod that may be of any scheduler.

        What other device plugins count is left out, such as cards by a name that the settings have replaced.
        """
        for container in pod.spec.containers:
            for name in dict.fromkeys((*container.limits, *container.requests)):
                in_use = self.names.in_use(name)
                is_of_others = name in OF_OTHER_PLUGINS or (in_use and in_use not in self._quotas)
                if not is_of_others and (text := self._resource(name)):
                    yield str(RequestWarning(text).in_container(container.name))

    def found_in(self, pod: Pod) -> Iterator[RequestWarning]:
        """Yield what is suspicious about a pod, with a correction where one is known."""
        yield from map(RequestWarning, self._metadata.of_pod(pod))
        if text := self._about_group(pod):
            yield RequestWarning(text)
        owners = self._dialects.owners(pod)
        for container in pod.spec.containers:
            names = dict.fromkeys((*container.limits, *container.requests))
            for name in names:
                if text := self._resource(name) or self._mig_instance(name):
                    yield RequestWarning(text).in_container(container.name)
            for dialect_name, asked in self._unlisted.of_requests(names).items():
                yield RequestWarning(_not_served(asked, dialect_name)).in_container(container.name)
            for dialect in owners:
                for warning in dialect.claims.request_warnings(container, pod.annotations):
                    yield warning.in_container(container.name)

    def of_quota(self, quota: ResourceQuota) -> Iterator[str]:
        """Yield what is suspicious about a quota, as sentences for its events."""
        for key, text in quota.hard.items():
            if says := self._limit(key, text):
                yield f"spec.hard[{key}]: {says}"

    def _limit(self, key: str, text: str) -> str:
        """Say what is suspicious about an entry of a quota; empty if nothing is."""
        prefix = next((prefix for prefix in _QUOTA_PREFIXES if key.startswith(prefix)), "")
        name = key.removeprefix(prefix)
        if name in self._quotas and prefix != QUOTA_REQUESTS:
            limited = self._quotas[name]
            return _suspicious_limit(text, limited) if prefix else f"limits nothing: write {QUOTA_LIMITS}{name}"
        if name in self._resources and prefix != QUOTA_REQUESTS:
            return f"limits nothing: write {QUOTA_REQUESTS}{name}"
        if (in_use := self.names.in_use(name)) in self._quotas:
            return f"limits no device: the settings call {name} {in_use}: write {self._written(in_use)}"
        name = name if prefix else _without_misspelt_prefix(name)
        if name in self._resources:
            meant: tuple[str, ...] = () if prefix else (name,)
        else:
            is_of_others = "/" not in name or name in OF_OTHER_PLUGINS or bool(in_use)
            meant = () if is_of_others else self.names.meant_by(name)
        written = " or ".join(map(self._written, meant))
        return f"there is no such limit on devices, did you mean {written}?" if meant else ""

    def _written(self, resource: str) -> str:
        """Return the key of a quota that limits a device resource."""
        return f"{QUOTA_LIMITS if resource in self._quotas else QUOTA_REQUESTS}{resource}"

    def _resource(self, name: str) -> str:
        if in_use := self.names.in_use(name):
            return f"there is no device resource {name}: the settings call it {in_use}"
        meant = " or ".join(self.names.meant_by(name))
        return f"there is no device resource {name}, did you mean {meant}?" if meant else ""

    def _mig_instance(self, name: str) -> str:
        """Say how MIG instances are requested that no node offers by themselves; empty for other resources."""
        mode = next((each for each in sorted(self._dialects.pod_annotations) if each.endswith(_MODE)), "")
        if not mode or not self.names.is_mig_instance_nowhere(name):
            return ""
        return f"no node offers {name}: cards are cut into such instances for pods with annotation {mode}: mig"


def _not_served(names: Sequence[str], dialect: str) -> str:
    """Warn that no cards are chosen for resources of a dialect that is not in use."""
    name = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    belong = "belongs" if len(names) == 1 else "belong"
    return (
        f"{name} {belong} to dialect {dialect}, which the setting dialects does not list: the pod is given no"
        f" card, whatever its node offers; add {dialect} to dialects"
    )


def _without_misspelt_prefix(key: str) -> str:
    """Return the name that a quota's key limits, if the key begins with what should be a prefix; else the key."""
    label, _, name = key.partition(".")
    meant = closest(label, (prefix.rstrip(".") for prefix in _QUOTA_PREFIXES), _ALIKE)
    return name if meant else key


def _suspicious_limit(text: str, limited: LimitedResource) -> str:
    """Say how a limit counts that is written in bytes, or is larger than any amount; empty for any other limit.

    API servers return 2000 as 2k, so that units of thousands have no significance.
    """
    resource, _, unit = limited
    try:
        limit = to_exact_int(text)
    except QuantityError:
        return ""  # reported where limits are read
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
