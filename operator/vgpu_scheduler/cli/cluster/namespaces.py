"""Which namespaces and labels are meant, by kubectl's rules, for all commands."""

from __future__ import annotations

from contextlib import suppress

import click

from vgpu_scheduler.apiclient import ConfigException, context_namespace
from vgpu_scheduler.cli.cluster.options import NamespaceOptions
from vgpu_scheduler.kube import LabelSelector, parse_label_selector
from vgpu_scheduler.model import did_you_mean
from vgpu_scheduler.reading import ClusterOptions
from vgpu_scheduler.whatif import World


def chosen_namespace(options: NamespaceOptions, cluster: ClusterOptions) -> str | None:
    """Return the namespace of the objects; None for all namespaces.

    Raises
    ------
    ConfigException
        If the kubeconfig, which may define it, cannot be read.
    """
    return None if options.every else options.name or own_namespace(cluster)


def own_namespace(cluster: ClusterOptions) -> str:
    """Return the default namespace: that of the context, or ``default`` for files.

    Raises
    ------
    ConfigException
        If the kubeconfig cannot be read.
    """
    return "default" if cluster.files else str(context_namespace(cluster.kubeconfig, cluster.context))


def did_you_mean_namespace(named: str | None, cluster: ClusterOptions, world: World | None = None) -> str:
    """Return a suggestion of a namespace, as the end of a sentence; empty if it exists or none is similar.

    Parameters
    ----------
    named
        The namespace that may not exist; None for all, which needs no suggestion.
    world
        Knows the existing namespaces; None if the user may list none and knows only that of the context.
    """
    there = set[str]() if world is None else {*world.namespaces, *(pod.namespace for pod in world.pods.values())}
    with suppress(ConfigException):
        there |= set() if cluster.files else {own_namespace(cluster)}
    return "" if named is None or named in there else did_you_mean(named, there)


def label_selector(text: str) -> LabelSelector | None:
    """Parse the label selector of ``-l``; None for all labels.

    Raises
    ------
    click.UsageError
        If the text is not a label selector.
    """
    try:
        return parse_label_selector(text)
    except ValueError as error:
        raise click.UsageError(f"-l: {error}") from None
