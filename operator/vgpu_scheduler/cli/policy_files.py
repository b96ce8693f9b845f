"""Policies of files, beside those of the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vgpu_scheduler.policy import NAMESPACED_KIND, PLURALS
from vgpu_scheduler.reading import FileError, read_files
from vgpu_scheduler.whatif import Written

__all__ = ["read_policies", "title"]


def read_policies(path: Path, home: str = "") -> list[Written]:
    """Return the policies of a file or folder that has nothing else.

    Parameters
    ----------
    home
        The namespace of namespaced policies that name none, as kubectl would create them; without it, they select the
        pods of every namespace.

    Raises
    ------
    FileError
        If it cannot be read, has something else, or no policy.
    """
    found = read_files([path])
    for obj in found:
        if obj.get("kind") not in PLURALS:
            kinds = " and ".join(PLURALS)
            raise FileError(
                f"{obj.origin}: {title(obj)} is no policy: --policy takes {kinds}, -f and --cluster the rest"
            )
        metadata = obj.get("metadata")
        if home and obj["kind"] == NAMESPACED_KIND and isinstance(metadata, Mapping) and not metadata.get("namespace"):
            obj["metadata"] = {**metadata, "namespace": home}
    if not found:
        raise FileError(f"{path}: there is no policy in it")
    return found


def title(obj: Mapping[str, Any]) -> str:
    """Return kind and name of an object, whatever it holds."""
    metadata = obj.get("metadata")
    name = metadata.get("name", "") if isinstance(metadata, Mapping) else ""
    return f"{obj.get('kind') or 'an object without a kind'} {name}".rstrip()
