"""What can be read of a namespace, and of the cluster beside it, by those who may see no more."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from vgpu_scheduler.kube import (
    DecodeError,
    Object,
    PersistentVolumeClaim,
    StorageClass,
    decode_storage_class,
    decode_volume_claim,
)
from vgpu_scheduler.policy import CLUSTER_KIND
from vgpu_scheduler.whatif.reasons.claim_problems import claim_problems
from vgpu_scheduler.whatif.world.world import World

__all__ = ["NamespaceObjects"]

_CLAIM: Final = "PersistentVolumeClaim"
_CLASS: Final = "StorageClass"


@dataclass(frozen=True, slots=True)
class NamespaceObjects:
    """What could be read of a namespace, and of the cluster beside it.

    Attributes
    ----------
    claims, classes
        The claims of the namespace and the storage classes by name; None where these may not be read.
    volumes
        The names of the volumes of the cluster; None where these may not be read.
    cluster_policies
        Whether the policies of the cluster were read.
    """

    claims: Mapping[str, PersistentVolumeClaim] | None = None
    classes: Mapping[str, StorageClass] | None = None
    volumes: Container[str] | None = None
    cluster_policies: bool = False

    @classmethod
    def among(cls, objects: Iterable[Object], missing: Iterable[str]) -> NamespaceObjects:
        """Find them among what was read.

        Parameters
        ----------
        missing
            The kinds that could not be.
        """
        claims: dict[str, PersistentVolumeClaim] = {}
        classes: dict[str, StorageClass] = {}
        unread = set(missing)
        for obj in objects:
            kind = obj.get("kind")
            try:
                if kind == _CLAIM:
                    claim = decode_volume_claim(obj)
                    claims[claim.name] = claim
                elif kind == _CLASS:
                    found = decode_storage_class(obj)
                    classes[found.name] = found
            except DecodeError:
                unread.add(str(kind))  # then nobody can tell which are missing
        return cls(
            None if _CLAIM in unread else claims,
            None if _CLASS in unread else classes,
            cluster_policies=CLUSTER_KIND not in unread,
        )

    @classmethod
    def in_world(cls, world: World, namespace: str) -> NamespaceObjects:
        """Find the claims and storage classes among what a world has taken in."""
        known = world.engine.state.volumes.objects
        claims = {claim.name: claim for claim in known.claims if claim.namespace == namespace}
        volumes = None if "PersistentVolume" in world.unread else {volume.name for volume in known.volumes}
        return cls(claims, {each.name: each for each in known.classes}, volumes, cluster_policies=True)

    def claim_problems(self, written: Object, uids: Collection[str] = ()) -> Iterator[str]:
        """Yield what has to be done about the claims of a pod; see :func:`claim_problems`."""
        yield from claim_problems(written, self.claims, self.classes, self.volumes, uids=uids)
