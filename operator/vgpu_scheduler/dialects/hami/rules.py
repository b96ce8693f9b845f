"""What a pod's annotations allow: card models, sharing modes, UUIDs, NUMA binding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vgpu_scheduler.dialects.hami.codec import go_bool
from vgpu_scheduler.dialects.hami.vendors import nvidia


@dataclass(frozen=True, slots=True)
class DeviceRules:
    """Rules over cards, from the pod's annotations.

    Attributes
    ----------
    use_types, no_use_types
        Lower-case parts of model names; an empty tuple sets no rule.
    use_uuids, no_use_uuids
        Exact UUIDs; an empty set sets no rule.
    mode
        Sharing modes that are allowed, or None for any: a card's mode must occur in this text.
    numa_bind
        All cards of a container on one NUMA node.
    """

    use_types: tuple[str, ...] = ()
    no_use_types: tuple[str, ...] = ()
    use_uuids: frozenset[str] = frozenset()
    no_use_uuids: frozenset[str] = frozenset()
    mode: str | None = None
    numa_bind: bool = False

    def allows_model(self, vendor: str, model: str, mode: str) -> bool:
        """Tell whether a card of this model and mode may be used (checks 2 of D2-10, and ``vgpu-mode``)."""
        if vendor != nvidia.VENDOR:
            return True
        lower = model.lower()
        if self.use_types and not any(part in lower for part in self.use_types):
            return False
        if any(part in lower for part in self.no_use_types):
            return False
        return self.mode is None or mode in self.mode

    @property
    def allows_pieces(self) -> bool:
        """Whether MIG cards may be used, as far as the sharing mode says."""
        return self.mode is None or nvidia.MODE_MIG in self.mode

    @property
    def names_devices(self) -> bool:
        """Whether any rule is about single cards."""
        return bool(self.use_uuids or self.no_use_uuids)

    def allows_device(self, uuid: str) -> bool:
        """Tell whether the UUID lists admit a card."""
        if self.use_uuids and uuid not in self.use_uuids:
            return False
        return uuid not in self.no_use_uuids


def parse_rules(annotations: Mapping[str, str]) -> DeviceRules:
    """Read the rules from a pod's annotations; blank items and blank lists set no rule."""

    def items(key: str) -> list[str]:
        return [item for item in (part.strip() for part in annotations.get(key, "").split(",")) if item]

    return DeviceRules(
        use_types=tuple(item.lower() for item in items(nvidia.USE_TYPE)),
        no_use_types=tuple(item.lower() for item in items(nvidia.NO_USE_TYPE)),
        use_uuids=frozenset(items(nvidia.USE_UUID)),
        no_use_uuids=frozenset(items(nvidia.NO_USE_UUID)),
        mode=annotations.get(nvidia.MODE),
        numa_bind=bool(go_bool(annotations.get(nvidia.NUMA_BIND, ""))),
    )
