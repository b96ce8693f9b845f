"""The device resources that unknown resource names stand for: misspelt ones, and those that the settings renamed."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from vgpu_scheduler.dialects import Dialect, Dialects
from vgpu_scheduler.kube import NATIVE_RESOURCES
from vgpu_scheduler.model import BoundedCache, DeviceResource, bytes_of, closest_names

_ALIKE: Final = 0.8
"""How similar two names must be (0 to 1) for one to be suggested for the other: about one wrong letter in six."""
_ALIKE_DOMAINS: Final = 0.7
"""How similar two domains must be if the names in them are equal."""
_MOST_MEANT: Final = 3
"""Maximum number of suggested names that are equally similar."""
_MOST_BYTES: Final = 2**20
"""Memory for remembered suggestions: about 2,000 names."""
_SHARED: Final = ".shared"
"""NVIDIA's own device plugin adds this to the names of cards that it hands out several times."""
OF_OTHER_PLUGINS: Final = frozenset(
    (
        "cambricon.com/mlu",
        "huawei.com/Ascend310",
        "huawei.com/Ascend310B",
        "huawei.com/Ascend910",
        "hygon.com/dcu",
        "mthreads.com/gpu",
        "nvidia.com/gpu.shared",
        "nvidia.com/pgpu",
        "volcano.sh/gpu-memory",
        "volcano.sh/gpu-number",
    )
)
"""What device plugins of vendors count, which resembles known names: right where no node offers it yet, too."""
MIG_INSTANCE: Final = re.compile(r"nvidia\.com/mig-(\d+g\.(\d+)gb.*)")
"""What NVIDIA's own device plugin calls a kind of MIG instance: by its profile, which includes its nominal memory."""


class DeviceNames:
    """Knows the device resources in use, and finds the one that another name stands for.

    Parameters
    ----------
    dialects
        The dialects in use.
    renamed
        Resource names that the settings replaced, with those in use; see :func:`renamed_resources`.
    vendors
        Returns the vendors whose cards nodes have now, as (dialect, vendor).
    offered
        Returns the resources that nodes offer now: a request for one of these is not misspelt.

    Attributes
    ----------
    known
        The resource names in use, with those that only the device plugins read.
    """

    def __init__(
        self,
        dialects: Dialects,
        renamed: Mapping[str, str] = MappingProxyType({}),
        vendors: Callable[[], Collection[tuple[str, str]]] = tuple,
        offered: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self._dialects = dialects
        self._renamed = renamed
        self._vendors = vendors
        self._offered = offered
        self.known = frozenset((*dialects.resources, *dialects.unknown_to_kubelet))
        self._meant = {name: name for name in self.known} | dict(renamed)
        self._found: BoundedCache[str, str] = BoundedCache(_MOST_BYTES)

    def in_use(self, name: str) -> str:
        """Return the name that the settings give to what is called so by default; empty if it is not renamed."""
        meant = self._renamed.get(name, "")
        return meant if meant and name not in self._offered() else ""

    def is_mig_instance_nowhere(self, name: str) -> bool:
        """Tell whether a name stands for MIG instances that no node offers; not while no nodes are known."""
        offered = self._offered() if MIG_INSTANCE.fullmatch(name) else ()
        return bool(offered) and name not in offered

    def meant_by(self, name: str) -> tuple[str, ...]:
        """Return the device resources that an unknown name may stand for; empty if it is known, or like none.

        These are the most similar ones of those whose cards nodes have, or, if there are none, the most similar of all;
        several may be equally similar.
        """
        found = "" if name in self.known else remembered(name, self._found, self._near_as_text)
        if not found or name in self._offered():
            return ()
        near = [(float(ratio), other) for ratio, other in (line.split(" ", 1) for line in found.splitlines())]
        if len(near) > 1:
            there = self._counting(frozenset(self._vendors()))
            near = [each for each in near if each[1] in there] or near
        return tuple(other for ratio, other in near if ratio == near[0][0])[:_MOST_MEANT]

    def _near_as_text(self, name: str) -> str:
        found = self._near(name) or self._near(name.removesuffix(_SHARED))
        return "\n".join(f"{ratio!r} {meant}" for ratio, meant in found)

    def _near(self, name: str) -> list[tuple[float, str]]:
        """Return similar names, the most similar first; for a name without a domain, its equals in any domain."""
        if name in self._meant:
            return [(1.0, self._meant[name])]
        if "/" not in name:
            equal = () if name in NATIVE_RESOURCES else (known for known in self._meant if _word(known) == name.lower())
            return [(1.0, other) for other in sorted({self._meant[known] for known in equal})]
        best: dict[str, float] = {}
        for ratio, known in near_names(name, self._meant):
            best.setdefault(self._meant[known], ratio)
        return [(ratio, meant) for meant, ratio in best.items()]

    def _counting(self, vendors: frozenset[tuple[str, str]]) -> set[str]:
        """Return the resources that stand for cards of the given vendors."""
        return {
            name
            for dialect in self._dialects
            for name, resource in dialect.inventory.device_resources.items()
            if (dialect.name, resource.vendor) in vendors
        }


def renamed_resources(in_use: Iterable[Dialect], by_default: Iterable[Dialect]) -> dict[str, str]:
    """Return the resource names that dialects have by default and no dialect in use has, with the names in use.

    A name is the same thing as another one if it stands for the same vendor and dimension of the same dialect.
    """
    used = tuple(in_use)
    known = {name for dialect in used for name in dialect.claims.resources}
    defaults = {dialect.name: _by_meaning(dialect) for dialect in by_default}
    found: dict[str, str] = {}
    for dialect in used:
        for meaning, names in _by_meaning(dialect).items():
            before = defaults.get(dialect.name, {}).get(meaning, ())
            if len(before) == len(names):
                found |= {old: new for old, new in zip(before, names, strict=True) if old not in known}
    return found


def _by_meaning(dialect: Dialect) -> dict[DeviceResource, list[str]]:
    found: dict[DeviceResource, list[str]] = {}
    for name, resource in dialect.inventory.device_resources.items():
        if name in dialect.claims.resources:
            found.setdefault(resource, []).append(name)
    return found


def near_names(name: str, known: Iterable[str]) -> list[tuple[float, str]]:
    """Return the known names that a name with a domain is similar to, with their similarity, the most similar first.

    A known domain is taken for right, whatever its case. Names of a similar domain must be equal, or both similar.
    """
    by_domain: dict[str, dict[str, str]] = {}
    for other in sorted(known):
        by_domain.setdefault(domain_of(other), {})[_word(other)] = other
    domain, word = domain_of(name).lower(), _word(name)
    if not domain:
        return []
    if domain in by_domain:
        return [(ratio, by_domain[domain][other]) for ratio, other in _near_words(word, by_domain[domain])]
    by_stem = {_stem(other): other for other in by_domain if other}
    found = []
    for ratio, stem in _near_words(_stem(domain), by_stem, _ALIKE_DOMAINS):
        words = by_domain[by_stem[stem]]
        near = [(1.0, word)] if word in words else _near_words(word, words) if ratio >= _ALIKE else []
        found += [(ratio * of_word, words[other]) for of_word, other in near]
    return sorted(found, key=lambda each: (-each[0], each[1]))


def _near_words(word: str, known: Iterable[str], least: float = _ALIKE) -> list[tuple[float, str]]:
    """Return similar words with their similarity; one missing, added or swapped letter is always similar."""
    return [
        (ratio, other)
        for ratio, other in closest_names(word, known, 0.0)
        if ratio >= least or _is_a_letter_off(word, other)
    ]


def _is_a_letter_off(word: str, other: str) -> bool:
    shorter, longer = sorted((word, other), key=len)
    if len(shorter) < len(longer):
        return any(longer[:at] + longer[at + 1 :] == shorter for at in range(len(longer)))
    swapped = (word[:at] + word[at + 1] + word[at] + word[at + 2 :] for at in range(len(word) - 1))
    return len(shorter) == len(longer) and other in swapped


def domain_of(name: str) -> str:
    """Return the domain of a qualified name; empty if it has none."""
    return name.rpartition("/")[0]


def _word(name: str) -> str:
    return name.rpartition("/")[2].lower()


def _stem(domain: str) -> str:
    """Return a domain without its last label, which most domains share."""
    return domain.rpartition(".")[0] or domain


def remembered(name: str, known: BoundedCache[str, str], look: Callable[[str], str]) -> str:
    """Return what is found for a name, which is looked for only once."""
    text = known.get(name)
    if text is None:
        text = look(name)
        known.put(name, text, bytes_of(name) + bytes_of(text))
    return text
