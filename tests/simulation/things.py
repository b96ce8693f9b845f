"""Objects that pods depend on beside nodes: namespaces, claims, volumes, and what is said of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.kube.objects import Obj

from vgpu_scheduler.intake import NAMESPACES, STORAGE, Kind

KINDS: Mapping[str, Kind[Any]] = {kind.name: kind for kind in (*STORAGE, NAMESPACES)}
CLASSES, CSI_NODES, ATTACHMENTS = KINDS["StorageClass"], KINDS["CSINode"], KINDS["VolumeAttachment"]
CSI_DRIVERS, CAPACITIES = KINDS["CSIDriver"], KINDS["CSIStorageCapacity"]


def key_of(obj: Obj) -> str:
    """``namespace/name``, or the name of what has no namespace."""
    meta = obj["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


@dataclass(frozen=True, slots=True)
class SimThing:
    """An object; ``content`` is never changed in place."""

    kind: Kind[Any]
    uid: str
    version: int
    content: Obj

    @property
    def key(self) -> str:
        """``namespace/name``, or the name."""
        return key_of(self.content)

    @property
    def spec(self) -> Obj:
        """Its spec."""
        found: Obj = self.content["spec"]
        return found

    @property
    def notes(self) -> Mapping[str, str]:
        """Its annotations."""
        found: Mapping[str, str] = self.content["metadata"].get("annotations") or {}
        return found

    def as_object(self) -> Obj:
        """Return it as the API server has it."""
        meta = {**self.content["metadata"], "uid": self.uid, "resourceVersion": str(self.version)}
        return {**self.content, "metadata": meta}

    def shown(self) -> Any:
        """Return it as the program sees it."""
        return self.kind.decode(self.as_object())
