"""Trim objects to what decisions read.

Values have few fields anyway: no environment, commands or managed fields. Annotations may contain anything, so only
those of known ecosystems are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from vgpu_scheduler.dialects import Dialects, is_sign_of_life
from vgpu_scheduler.kube import Node, NodeInventory, Pod, Versioned

_DOMAINS: Final = frozenset({
    "hami.io", "koordinator.sh", "scheduling.k8s.io", "vgpu-scheduler.io", "volcano.sh", "x-k8s.io",
})  # fmt: skip
"""The domains of annotations about placement and groups, in any dialect."""
_SINGLE: Final = frozenset({"kubernetes.io/config.mirror"})
_RECORDS: Final = frozenset({"vgpu-scheduler.io/decision"})
"""Annotations that only inform: no decision reads them, and they name policies."""
_MOST_NAMES: Final = 4096
"""The most annotation names that are cached, since users may invent any number."""


class Trimmer:
    """Trims objects.

    Parameters
    ----------
    dialects
        The dialects whose annotations are kept.
    """

    def __init__(self, dialects: Dialects) -> None:
        own = {name for dialect in dialects for name in (*dialect.claims.pod_annotations, *dialect.allocation.written)}
        resources = {name for dialect in dialects for name in dialect.claims.resources}
        self._domains = _DOMAINS | {domain for name in (*own, *resources) if (domain := name.rpartition("/")[0])}
        self._kept = own | _SINGLE
        self._read: dict[str, bool] = {}

    def trimmed(self, value: Versioned) -> Versioned:
        """Return an object without the fields that no decision reads."""
        if isinstance(value, Pod):
            annotations = self._annotations(value.annotations)
            return msgspec.structs.replace(value, annotations=annotations, scheduled_condition=None)
        if isinstance(value, Node):
            kept = {
                name: text for name, text in self._annotations(value.annotations).items() if not is_sign_of_life(name)
            }
            return msgspec.structs.replace(value, annotations=kept)
        if isinstance(value, NodeInventory):
            return NodeInventory(value.name, self._content(value.content), value.uid, value.resource_version)
        return value

    def _annotations(self, annotations: Mapping[str, str]) -> dict[str, str]:
        return {name: text for name, text in annotations.items() if self._is_read(name)}

    def _is_read(self, name: str) -> bool:
        found = self._read.get(name)
        if found is None:
            if len(self._read) >= _MOST_NAMES:
                self._read.clear()
            found = self._read[name] = self._is_of_ecosystems(name)
        return found

    def _is_of_ecosystems(self, name: str) -> bool:
        if name in self._kept:
            return True
        domain = name.rpartition("/")[0]
        return name not in _RECORDS and any(domain == known or domain.endswith(f".{known}") for known in self._domains)

    def _content(self, content: Mapping[str, Any]) -> dict[str, Any]:
        metadata = content.get("metadata")
        if not isinstance(metadata, Mapping):
            return {**content}
        kept = {name: value for name, value in metadata.items() if name not in {"managedFields", "annotations"}}
        annotations = metadata.get("annotations")
        if isinstance(annotations, Mapping):
            kept["annotations"] = {name: value for name, value in annotations.items() if self._is_read(str(name))}
        return {**content, "metadata": kept}
