"""Which namespace is meant: one rule for all commands, kubectl's."""

from __future__ import annotations

from vgpu_scheduler.apiclient import context_namespace
from vgpu_scheduler.cli.cluster.options import ClusterOptions, NamespaceOptions

__all__ = ["chosen_namespace", "own_namespace"]


def chosen_namespace(options: NamespaceOptions, cluster: ClusterOptions) -> str | None:
    """Return the namespace whose objects are meant; None for all.

    Raises
    ------
    kubernetes_asyncio.config.ConfigException
        If the kubeconfig, which says it, cannot be read.
    """
    return None if options.every else options.name or own_namespace(cluster)


def own_namespace(cluster: ClusterOptions) -> str:
    """Return the namespace that is meant where none is named: that of the context, of files ``default``.

    Raises
    ------
    kubernetes_asyncio.config.ConfigException
        If the kubeconfig cannot be read.
    """
    return "default" if cluster.files else str(context_namespace(cluster.kubeconfig, cluster.context))
