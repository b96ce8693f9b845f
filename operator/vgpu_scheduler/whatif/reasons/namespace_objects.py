"""The objects of a namespace, and of the cluster, that a reader with few rights could read."""

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
from vgpu_scheduler.policy import CLUSTER_KIND, NAMESPACED_KIND
from vgpu_scheduler.predicates import is_about_volume_claims
from vgpu_scheduler.whatif.reasons.volume_claim_problems import volume_claim_problems
from vgpu_scheduler.whatif.world.world import World

_CLAIM: Final = "PersistentVolumeClaim"
_CLASS: Final = "StorageClass"
_OF: Final = {NAMESPACED_KIND: "the namespace", CLUSTER_KIND: "the cluster"}
_POLICIES: Final = frozenset(_OF)


def hidden_policy(unread: Container[str]) -> str:
    """Describe the policy that may be the cause of something, but was not read; empty if all were read.

    Parameters
    ----------
    unread
        The kinds that were not read.
    """
    of = [name for kind, name in _OF.items() if kind in unread]
    return f"a policy of {' or of '.join(of)}, which you may not read" if of else ""


@dataclass(frozen=True, slots=True)
class NamespaceObjects:
    """The objects of a namespace, and of the cluster, that could be read.

    Attributes
    ----------
    claims, classes
        The claims of the namespace and the storage classes, by name; None if the reader may not list them.
    volumes
        The names of the cluster's volumes; None if the reader may not list them.
    unread_policies
        The kinds of policies that were not read.
    """

    claims: Mapping[str, PersistentVolumeClaim] | None = None
    classes: Mapping[str, StorageClass] | None = None
    volumes: Container[str] | None = None
    unread_policies: frozenset[str] = _POLICIES

    @property
    def hidden_policy(self) -> str:
        """The policy that may be the cause of something, but was not read; empty if all were read."""
        return hidden_policy(self.unread_policies)

    @classmethod
    def among(cls, objects: Iterable[Object], missing: Iterable[str]) -> NamespaceObjects:
        """Collect the claims and storage classes among the objects that were read.

        Parameters
        ----------
        missing
            The kinds that could not be read.
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
                unread.add(str(kind))  # a malformed object may be the missing one
        return cls(
            None if _CLAIM in unread else claims,
            None if _CLASS in unread else classes,
            unread_policies=_POLICIES & unread,
        )

    @classmethod
    def in_world(cls, world: World, namespace: str) -> NamespaceObjects:
        """Collect the claims and storage classes of a world."""
        known = world.engine.state.volumes.objects
        claims = {claim.name: claim for claim in known.claims if claim.namespace == namespace}
        volumes = None if "PersistentVolume" in world.unread else {volume.name for volume in known.volumes}
        return cls(claims, {each.name: each for each in known.classes}, volumes, frozenset())

    def volume_claim_problems(self, written: Object, uids: Collection[str] = (), message: str = "") -> Iterator[str]:
        """Yield what to do about a pod's claims; see :func:`volume_claim_problems`.

        Parameters
        ----------
        message
            What the scheduler says about the pod; empty if it has not tried it.
        """
        unobjected = bool(message) and not is_about_volume_claims(message)
        yield from volume_claim_problems(
            written, self.claims, self.classes, self.volumes, uids=uids, unobjected=unobjected
        )
