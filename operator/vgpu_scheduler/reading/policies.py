"""Policies from files or a text, in addition to those of the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vgpu_scheduler.policy import NAMESPACED_KIND, POLICY_KINDS
from vgpu_scheduler.reading.files import FileError
from vgpu_scheduler.reading.view import read_files
from vgpu_scheduler.whatif import FileObject


def read_policies(path: Path, home: str = "") -> list[FileObject]:
    """Return the policies of a file or folder that contains nothing else; see :func:`policies_among`.

    Raises
    ------
    FileError
        If it cannot be read, contains other objects, or no policy.
    """
    return policies_among(read_files([path]), str(path), home)


def policies_among(found: Sequence[FileObject], where: str, home: str = "") -> list[FileObject]:
    """Return objects that all have to be policies.

    Parameters
    ----------
    where
        The source of the objects, for messages.
    home
        The namespace for namespaced policies without one, as kubectl would create them; without it, they select pods
        of every namespace.

    Raises
    ------
    FileError
        If there are other objects, or no policy.
    """
    for obj in found:
        if obj.get("kind") not in POLICY_KINDS:
            kinds = " and ".join(POLICY_KINDS)
            raise FileError(f"{obj.origin}: {title(obj)} is not a policy: only {kinds} are taken here")
        metadata = obj.get("metadata")
        if home and obj["kind"] == NAMESPACED_KIND and isinstance(metadata, Mapping) and not metadata.get("namespace"):
            obj["metadata"] = {**metadata, "namespace": home}
    if not found:
        raise FileError(f"{where}: it contains no policy")
    return list(found)


def title(obj: Mapping[str, Any]) -> str:
    """Return kind and name of an object, even if it is malformed."""
    metadata = obj.get("metadata")
    name = metadata.get("name", "") if isinstance(metadata, Mapping) else ""
    return f"{obj.get('kind') or 'an object without a kind'} {name}".rstrip()
