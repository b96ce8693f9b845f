"""Which cluster is read; imports nothing that takes time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

STDIN: Final = Path("-")


@dataclass(frozen=True, slots=True)
class PageOptions:
    """Which page in a cluster is asked.

    Attributes
    ----------
    address
        Where it is.
    authority
        A file with the certificate of its authority; None for those that this machine knows.
    by_default
        Whether it is asked wherever it has an answer; else a question that it cannot answer is a mistake.
    """

    address: str
    authority: Path | None = None
    by_default: bool = False


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
    page
        The page in the cluster that is asked instead; None for none.
    """

    kubeconfig: str | None
    context: str | None
    scheduler_namespace: str
    config: Path | None
    files: tuple[Path, ...] = ()
    overrides: Mapping[str, Any] = field(default_factory=dict)
    page: PageOptions | None = None
