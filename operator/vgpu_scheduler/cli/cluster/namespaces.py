"""Which namespaces and labels are meant: one rule for all commands, kubectl's."""

from __future__ import annotations

import click

from vgpu_scheduler.apiclient import context_namespace
from vgpu_scheduler.cli.cluster.options import NamespaceOptions
from vgpu_scheduler.kube import LabelSelector, parse_label_selector
from vgpu_scheduler.reading import ClusterOptions

__all__ = ["chosen_namespace", "label_selector", "own_namespace"]


def chosen_namespace(options: NamespaceOptions, cluster: ClusterOptions) -> str | None:
    """Return the namespace whose objects are meant; None for all.

    Raises
    ------
    ConfigException
        If the kubeconfig, which says it, cannot be read.
    """
    return None if options.every else options.name or own_namespace(cluster)


def own_namespace(cluster: ClusterOptions) -> str:
    """Return the namespace that is meant where none is named: that of the context, of files ``default``.

    Raises
    ------
    ConfigException
        If the kubeconfig cannot be read.
    """
    return "default" if cluster.files else str(context_namespace(cluster.kubeconfig, cluster.context))


def label_selector(text: str) -> LabelSelector | None:
    """Read what ``-l`` says; None for all labels.

    Raises
    ------
    click.UsageError
        If it is no label selector.
    """
    try:
        return parse_label_selector(text)
    except ValueError as error:
        raise click.UsageError(f"-l: {error}") from None
