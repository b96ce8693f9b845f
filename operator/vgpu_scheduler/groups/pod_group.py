"""The kinds of objects that describe groups of pods: every ecosystem calls them PodGroup, and defines its own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from vgpu_scheduler.kube import Decode, PodGroup, decode_pod_group

__all__ = ["PodGroupKind", "pod_group_kind"]


@dataclass(frozen=True, slots=True)
class PodGroupKind:
    """A kind of such objects; somebody else's CustomResourceDefinition makes it known, or a version of Kubernetes.

    Attributes
    ----------
    name
        ``PodGroup`` with its API group, and its version where there are several of it.
    path
        Where all objects of the kind are listed and watched.
    decode
        Reads one; raises :class:`DecodeError`.
    condition
        The type of the condition that tells whether a group is scheduled; empty where none is written.
    """

    name: str
    path: str
    decode: Decode[PodGroup]
    condition: str = ""

    @property
    def api_version(self) -> str:
        """API group and version, as objects write them."""
        return self.path.removeprefix("/apis/").rpartition("/")[0]


def pod_group_kind(api_group: str, version: str) -> PodGroupKind:
    """Return the kind ``PodGroup`` of an API group, whose ``spec.minMember`` says how many pods it needs."""
    name = f"PodGroup.{api_group}"
    return PodGroupKind(name, f"/apis/{api_group}/{version}/podgroups", partial(decode_pod_group, name))
