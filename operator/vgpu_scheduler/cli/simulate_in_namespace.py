"""What ``vgpu-scheduler simulate`` tells users with rights in one namespace only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

import click

from vgpu_scheduler.cli.cluster.messages import ROLE_WITH_RIGHTS, fail, print_pod_warnings, print_view_warnings, warn
from vgpu_scheduler.cli.cluster.namespaces import did_you_mean_namespace
from vgpu_scheduler.cli.cluster.options import FOR_PEOPLE
from vgpu_scheduler.cli.cluster.world import open_namespace, world_of_namespace
from vgpu_scheduler.cli.forecasting import UNSEEN
from vgpu_scheduler.cli.pod_assessment import known_of_all, show_known
from vgpu_scheduler.cli.scenario import Scenario
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.reading import (
    ClusterOptions,
    ClusterView,
    MissingRightsError,
    creation_warnings,
    namespaces_of,
    new_pods,
    nothing_to_place,
    read_policies,
    within,
)
from vgpu_scheduler.whatif import World
from vgpu_scheduler.whatif.reasons.groups import group_named_by


def answer_without_nodes(
    cluster: ClusterOptions, scenario: Scenario, error: MissingRightsError, output: str, *, explained: bool
) -> NoReturn:
    """Print what is known about pods to a user with rights in one namespace only, and which rights are missing."""
    if cluster.files or scenario.namespaces.every:
        raise error
    _warn_of_unused_options(scenario, explained=explained)
    written, found, unread = scenario.written(), [], ""
    homes = {*namespaces_of(written), *([scenario.home] if scenario.pending else [])}
    for home in sorted(homes or {scenario.home}):
        world, view = _namespace_without_unknown_usage(cluster, home)
        if home == scenario.home and not view.has_read("Pod"):
            unread = f"the pods of namespace {home} cannot be listed: whether some wait is not known"
        for path in scenario.policies:
            world.add(read_policies(path, scenario.home))
        waiting = scenario.asked(written).waiting(world) if home == scenario.home else []
        here = within(written, home)
        new = new_pods(world, view, here, warn, once=bool(scenario.count))
        if not homes and scenario.pods:
            raise nothing_to_place(world, scenario.where)
        print_view_warnings(world, view)
        print_pod_warnings(world, [*waiting, *new], undecided=True)
        warn_of_creation(world, new, scenario.count or 1)
        if scenario.count:
            warn_of_groups(new)
        found += known_of_all(world, view, waiting, new, here, scenario.count)
    if not found and scenario.pods and not scenario.pending:
        raise nothing_to_place(world, scenario.where)
    show_known(found, output)
    if unread and scenario.pending:
        warn(unread)
    if scenario.forecast:
        warn(f"--forecast: {UNSEEN.text()}")
    if not found and not unread and output in FOR_PEOPLE:
        click.echo(scenario.nobody_waits(world, cluster))
    meant = did_you_mean_namespace(scenario.namespaces.name, cluster)
    fail(f"{error}: placements cannot be computed{meant or '.'}{f' {ROLE_WITH_RIGHTS}' if error.is_forbidden else ''}")


def _warn_of_unused_options(scenario: Scenario, *, explained: bool) -> None:
    """Warn about options that change nothing without nodes."""
    given = {
        "--add-node": scenario.added,
        "--without": scenario.without,
        "--preempt": scenario.preempt,
        "--explain": explained,
    }
    if unused := [name for name, value in given.items() if value]:
        warn(f"{', '.join(unused)}: not taken into account, since the nodes cannot be read")


def _namespace_without_unknown_usage(cluster: ClusterOptions, namespace: str) -> tuple[World, ClusterView]:
    """Open a namespace, without its quotas if its pods may not be listed: nobody knows then what they use."""
    world, view = open_namespace(cluster, namespace, ())
    quotas = [obj for obj in view.objects if obj.get("kind") == "ResourceQuota"]
    if view.has_read("Pod") or not quotas:
        return world, view
    warn(f"the quotas of namespace {namespace} are left out: what its pods use takes the right to list pods")
    without = replace(view, objects=[obj for obj in view.objects if obj.get("kind") != "ResourceQuota"])
    return world_of_namespace(without, ()), without


def warn_of_creation(world: World, pods: Sequence[Pod], copies: int = 1) -> None:
    """Warn about quotas that may prevent new pods from being created."""
    for text in creation_warnings(world, pods, copies):
        warn(text)


def warn_of_groups(pods: Sequence[Pod]) -> None:
    """Warn that --count ignores the groups of pods."""
    for pod in pods:
        if named := group_named_by(pod):
            warn(f"Pod {pod.key}: {named}, which --count ignores: it counts copies one by one")
