"""The cards that a pod's annotations allow: models, sharing modes, UUIDs, NUMA binding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from vgpu_scheduler.allocators import NamedCards
from vgpu_scheduler.dialects.hami.vendors import RuleKeys, Vendor
from vgpu_scheduler.dialects.hami.vendors.nvidia_names import MODE_MIG, NUMA_BIND
from vgpu_scheduler.kube import go_bool
from vgpu_scheduler.model import names_model

_NOBODY = frozenset({""})
"""A set that matches no card, because an empty set would mean no rule."""


@dataclass(frozen=True, slots=True)
class VendorRules:
    """Rules over the cards of one vendor.

    Attributes
    ----------
    use_types, no_use_types
        Lower-case substrings of model names; empty for no rule.
    use_uuids, no_use_uuids
        Exact UUIDs; empty for no rule.
    mode
        The allowed sharing modes, or None for any: a card's mode must occur in this text.
    """

    use_types: tuple[str, ...] = ()
    no_use_types: tuple[str, ...] = ()
    use_uuids: frozenset[str] = frozenset()
    no_use_uuids: frozenset[str] = frozenset()
    mode: str | None = None

    def allows_model(self, model: str, mode: str) -> bool:
        """Tell whether a card of this model and sharing mode may be used."""
        if self.use_types and not any(names_model(part, model) for part in self.use_types):
            return False
        if any(names_model(part, model) for part in self.no_use_types):
            return False
        return self.mode is None or mode in self.mode


@dataclass(frozen=True, slots=True)
class DeviceRules:
    """Rules over cards, from the pod's annotations.

    Attributes
    ----------
    of
        The rules by vendor; vendors without rules are left out.
    numa_bind
        Whether all cards of a container must be on one NUMA node.
    """

    of: Mapping[str, VendorRules] = field(default_factory=dict)
    numa_bind: bool = False

    def allows_model(self, vendor: str, model: str, mode: str) -> bool:
        """Tell whether a card of this model and mode may be used."""
        rules = self.of.get(vendor)
        return rules is None or rules.allows_model(model, mode)

    @property
    def allows_pieces(self) -> bool:
        """Whether the sharing mode allows MIG cards."""
        return all(rules.mode is None or MODE_MIG in rules.mode for rules in self.of.values())

    @property
    def named(self) -> Mapping[str, NamedCards]:
        """The rules about single cards, by vendor."""
        return {
            vendor: NamedCards(rules.use_uuids or None, rules.no_use_uuids)
            for vendor, rules in self.of.items()
            if rules.use_uuids or rules.no_use_uuids
        }


def parse_rules(annotations: Mapping[str, str], vendors: Iterable[Vendor]) -> DeviceRules:
    """Parse the rules from a pod's annotations; blank items and blank lists set no rule.

    Parameters
    ----------
    annotations
        The pod's annotations.
    vendors
        The vendors whose rules are read.
    """
    found = {vendor.key: _card_rules(annotations, vendor.rules) for vendor in vendors}
    return DeviceRules(
        {vendor: rules for vendor, rules in found.items() if rules != _NO_RULES},
        numa_bind=bool(go_bool(annotations.get(NUMA_BIND, ""))),
    )


_NO_RULES = VendorRules()


def _card_rules(annotations: Mapping[str, str], keys: RuleKeys) -> VendorRules:
    def items(key: str) -> list[str]:
        return [item for item in (part.strip() for part in annotations.get(key, "").split(",")) if item]

    return VendorRules(
        use_types=tuple(item.lower() for item in items(keys.use_types)),
        no_use_types=tuple(item.lower() for item in items(keys.no_use_types)),
        use_uuids=_in_all([frozenset(items(use)) for use, _ in keys.uuids]),
        no_use_uuids=frozenset(item for _, no_use in keys.uuids for item in items(no_use)),
        mode=annotations.get(keys.mode) if keys.mode else None,
    )


def _in_all(lists: Iterable[frozenset[str]]) -> frozenset[str]:
    """Return the intersection of the non-empty lists; an empty set if all are empty."""
    given = [uuids for uuids in lists if uuids]
    return frozenset.intersection(*given) or _NOBODY if given else frozenset()
