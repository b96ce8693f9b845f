"""Which cluster is read; this module imports nothing slow."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

STDIN: Final = Path("-")


@dataclass(frozen=True, slots=True)
class PageOptions:
    """The web page in a cluster to which questions are sent.

    Attributes
    ----------
    address
        The page's address.
    authority
        A file with its CA certificate; None for the CAs of this machine.
    by_default
        Whether to use the page for every question that it can answer; otherwise it is an error if it cannot answer.
    """

    address: str
    authority: Path | None = None
    by_default: bool = False


@dataclass(frozen=True, slots=True)
class PrometheusServer:
    """A server with Prometheus' API.

    Attributes
    ----------
    address
        Its address, such as ``http://127.0.0.1:9090``; a path in front of ``/api`` is kept.
    labels
        The labels that the series of the cluster have there, if it stores series of several clusters.
    """

    address: str
    labels: tuple[tuple[str, str], ...] = ()

    def select(self, metric: str, *matchers: str) -> str:
        """Return the PromQL selector of a metric's series of the cluster."""
        chosen = ",".join(
            (*matchers, *(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in self.labels))
        )
        return f"{metric}{{{chosen}}}" if chosen else metric


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The cluster to read.

    Attributes
    ----------
    kubeconfig, context
        How to reach a live cluster; None for kubectl's defaults.
    scheduler_namespace
        The namespace of its scheduler.
    config
        A settings file to use instead of the cluster's settings.
    files
        Files with objects to use instead of a live cluster.
    overrides
        Settings by name that override all others.
    page
        The web page to ask instead; None for none.
    """

    kubeconfig: str | None
    context: str | None
    scheduler_namespace: str
    config: Path | None
    files: tuple[Path, ...] = ()
    overrides: Mapping[str, Any] = field(default_factory=dict)
    page: PageOptions | None = None
