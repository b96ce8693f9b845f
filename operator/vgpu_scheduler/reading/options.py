"""Which cluster is read; imports nothing that takes time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

STDIN: Final = Path("-")


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Which cluster.

    Attributes
    ----------
    kubeconfig, context
        How the live cluster is reached; None for kubectl's defaults.
    scheduler_namespace
        Where its scheduler is installed.
    config
        A settings file that stands for the settings of the cluster.
    files
        Files with the objects of a cluster, which stand for a live one.
    overrides
        Settings by name that rank above those.
    """

    kubeconfig: str | None
    context: str | None
    scheduler_namespace: str
    config: Path | None
    files: tuple[Path, ...] = ()
    overrides: Mapping[str, Any] = field(default_factory=dict)
