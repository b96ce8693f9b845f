"""The cards that a pod's annotations allow: models, UUIDs, and the sharing mode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from vgpu_scheduler.allocators import NamedCards
from vgpu_scheduler.dialects.hami.templates import MigGeometry, geometry_of
from vgpu_scheduler.dialects.volcano import names
from vgpu_scheduler.model import names_model


@dataclass(frozen=True, slots=True)
class VolcanoRules:
    """Rules over cards, from the pod's annotations.

    Attributes
    ----------
    use_types, no_use_types
        Lower-case substrings of model names as written, blanks included; None for no rule. ``no_use_types`` is ignored
        if there are ``use_types``.
    use_uuids, no_use_uuids
        Exact UUIDs; empty for no rule.
    mode
        The sharing mode that the node must have, or None for any.
    geometries
        The geometries of the models that are given out in instances; other cards in MIG mode are not given out.
    """

    use_types: tuple[str, ...] | None = None
    no_use_types: tuple[str, ...] | None = None
    use_uuids: frozenset[str] = frozenset()
    no_use_uuids: frozenset[str] = frozenset()
    mode: str | None = None
    geometries: tuple[MigGeometry, ...] = ()

    numa_bind: ClassVar[bool] = False
    allows_pieces: ClassVar[bool] = True

    def allows_model(self, vendor: str, model: str, mode: str) -> bool:
        """Tell whether a card of this model and mode may be used."""
        if vendor != names.VENDOR or names.VENDOR not in model:  # the plugin writes the vendor into the type
            return False
        if mode == names.MODE_MIG and geometry_of(self.geometries, model) is None:
            return False
        if self.mode is not None and mode != self.mode:
            return False
        if self.use_types is not None:
            return any(names_model(part, model) for part in self.use_types)
        return self.no_use_types is None or not any(names_model(part, model) for part in self.no_use_types)

    @property
    def named(self) -> Mapping[str, NamedCards]:
        """The rules about single cards; this dialect has a single vendor."""
        if not self.use_uuids and not self.no_use_uuids:
            return {}
        return {names.VENDOR: NamedCards(self.use_uuids or None, self.no_use_uuids)}


def parse_rules(annotations: Mapping[str, str], geometries: tuple[MigGeometry, ...] = ()) -> VolcanoRules:
    """Parse the rules from a pod's annotations."""

    def types(key: str) -> tuple[str, ...] | None:
        return tuple(annotations[key].lower().split(",")) if key in annotations else None

    def uuids(key: str) -> frozenset[str]:
        return frozenset(item for item in (part.strip() for part in annotations.get(key, "").split(",")) if item)

    return VolcanoRules(
        types(names.USE_TYPE),
        types(names.NO_USE_TYPE),
        uuids(names.USE_UUID),
        uuids(names.NO_USE_UUID),
        annotations.get(names.MODE),
        geometries,
    )
