"""Answers ``vgpu-scheduler simulate``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click
import yaml

from vgpu_scheduler.cli.cluster.messages import (
    print_pod_warnings,
    print_view_warnings,
    progress,
    warn,
)
from vgpu_scheduler.cli.cluster.namespaces import did_you_mean_namespace, label_selector, own_namespace
from vgpu_scheduler.cli.cluster.options import FOR_PEOPLE, WIDE, NamespaceOptions
from vgpu_scheduler.cli.cluster.output import dump
from vgpu_scheduler.cli.cluster.world import exit_on_error, make_world
from vgpu_scheduler.cli.explain_from_pod import did_you_mean_node_or_pod
from vgpu_scheduler.cli.forecasting import forecaster_of, forecasts_of
from vgpu_scheduler.cli.from_page import NO_LOG, page_for, simulate_from_page
from vgpu_scheduler.cli.scenario import Scenario
from vgpu_scheduler.cli.simulate_in_namespace import answer_without_nodes, warn_of_creation, warn_of_groups
from vgpu_scheduler.cli.simulated import show_answers, show_capacities
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.reading import (
    ClusterOptions,
    ClusterView,
    FileError,
    MissingRightsError,
    add_copies,
    answers_to,
    change_nodes,
    is_ours,
    keep_room_for_others,
    namespaces_to_delete_pods_in,
    new_pods,
    nothing_to_place,
    number_of_copies,
    read_cluster,
    read_files,
    read_policies,
    waits_of_answers,
    with_forecast,
)
from vgpu_scheduler.whatif import (
    MOST_COPIES,
    Capacity,
    FileObject,
    InvalidObjectsError,
    PodResult,
    World,
    capacity_of,
    make_dialect,
    matches_nothing,
    nameless,
)

_NO_PLACE: Final = 1
_AS_MANY_AS_FIT: Final = "max"
_TAKEN_BY_PAGE: Final = (
    "the page takes only -f, --pending, -n, -A, --count, --policy, --add-node, --without and --forecast"
)


def run(
    *,
    cluster: ClusterOptions,
    namespaces: NamespaceOptions,
    output: str,
    explained: bool,
    count: str | None,
    dialect: str | None,
    selector: str,
    **options: Any,
) -> None:
    """Place pods, and print where they went."""
    overrides = {name: value for name in ("node_policy", "device_policy") if (value := options.pop(name)) is not None}
    if dialect is not None:
        with exit_on_error():
            overrides["dialects"] = [make_dialect(dialect).name]
    if namespaces.every and not options["pending"]:
        raise click.UsageError("-A is for --pending: the pods of files name their namespaces, or are in one (-n)")
    if options["forecast"] and not options["pending"]:
        raise click.UsageError("--forecast and --log are for --pending: they are about pods that wait")
    if selector and not options["pending"]:
        raise click.UsageError("-l is for --pending: all pods of files are placed")
    with exit_on_error():
        home = namespaces.name or own_namespace(cluster)
    labels = label_selector(selector)
    scenario = Scenario(count=_count(count), home=home, namespaces=namespaces, selector=labels, **options)
    if not scenario.pods and not scenario.pending:
        raise click.UsageError("name the pods to place: -f FILE, or --pending")
    if scenario.count:
        _check_count(scenario, explained=explained)
    is_more = bool(overrides or explained or selector or scenario.preempt)
    knows_logs = scenario.forecast is not None and bool(scenario.forecast.logs)
    if page := page_for(cluster, _TAKEN_BY_PAGE if is_more else NO_LOG if knows_logs else ""):
        with exit_on_error():
            simulate_from_page(page, cluster, scenario.pods, _form(scenario), output)
    with exit_on_error():
        cluster = replace(cluster, overrides=overrides)
        try:
            world, view, policies = _changed_world(cluster, scenario)
        except MissingRightsError as error:
            answer_without_nodes(cluster, scenario, error, output, explained=explained)
    if scenario.count:
        _answer_how_many(world, view, policies, scenario, output)
    else:
        _answer_where(world, view, policies, scenario, output, explained=explained, cluster=cluster)


def _check_count(scenario: Scenario, *, explained: bool) -> None:
    if explained:
        raise click.UsageError("--explain is for single pods, and --count for numbers of copies")
    if scenario.preempt:
        raise click.UsageError("--count is for how many copies fit, and --preempt for which pods would be evicted")
    if scenario.pending:
        raise click.UsageError("--count is for the pods of files, and --pending for those that wait")


def _form(scenario: Scenario) -> dict[str, str]:
    """Return the fields of the page's form, except the pods."""
    policies = [dict(policy) for path in scenario.policies for policy in read_policies(path, scenario.home)]
    waiting = ("all" if scenario.namespaces.every else "namespace") if scenario.pending else ""
    count = _AS_MANY_AS_FIT if scenario.count == MOST_COPIES else str(scenario.count or "")
    asked = {
        "namespace": scenario.home,
        "waiting": waiting,
        "count": count,
        "policy": yaml.safe_dump_all(policies) if policies else "",
        "add": " ".join(scenario.added),
        "without": " ".join(scenario.without),
        "forecast": "yes" if scenario.forecast is not None else "",
    }
    return {name: value for name, value in asked.items() if value}


def _answer_how_many(
    world: World, view: ClusterView, policies: Sequence[FileObject], scenario: Scenario, output: str
) -> None:
    with exit_on_error():
        pods = new_pods(world, view, scenario.written(), warn, once=True)
        if not pods:
            raise nothing_to_place(world, scenario.where)
        keep_room_for_others(world, pods, warn)
        capacities = _capacities(world, pods, scenario.count)
    progress("")
    print_view_warnings(world, view)
    _warn_of_policies(world, policies, pods)
    print_pod_warnings(world, pods)
    warn_of_creation(world, pods, scenario.count)
    warn_of_groups(pods)
    show_capacities(capacities, output)
    least = 1 if scenario.count == MOST_COPIES else scenario.count
    raise SystemExit(0 if all(capacity.count >= least for capacity in capacities) else _NO_PLACE)


def _answer_where(
    world: World,
    view: ClusterView,
    policies: Sequence[FileObject],
    scenario: Scenario,
    output: str,
    *,
    explained: bool,
    cluster: ClusterOptions,
) -> None:
    asked, logs = scenario.asked(()), scenario.forecast.logs if scenario.forecast else ()
    uids = {pod.uid for pod in asked.waiting(world) if is_ours(pod.scheduler_name, view.scheduler.settings)}
    with exit_on_error():
        waits_of = (
            waits_of_answers(world, view, asked, lambda: forecaster_of(world, view, logs), forecasts_of)
            if scenario.forecast
            else None
        )
        answers = _answers(world, view, scenario, explained=explained or output not in FOR_PEOPLE)
    progress("")
    forecasts = waits_of(answers) if waits_of is not None else {}
    print_view_warnings(world, view)
    _warn_of_policies(world, policies, [answer.pod for answer in answers])
    told = () if explained else (answer.decision for answer in answers)  # an explanation contains these warnings
    print_pod_warnings(world, (answer.pod for answer in answers), told)
    warn_of_creation(world, [answer.pod for answer in answers if answer.pod.uid not in uids])
    if view.live:
        answers = _without_others(answers, cluster)
    if output not in FOR_PEOPLE:
        dump([with_forecast(answer.as_json(), forecasts.get(answer.pod.uid)) for answer in answers], output)
    elif answers:
        show_answers(answers, forecasts, explained=explained, wide=output == WIDE)
    else:
        click.echo(scenario.nobody_waits(world, cluster))
    raise SystemExit(0 if all(answer.node and not answer.preempted_by for answer in answers) else _NO_PLACE)


def _without_others(answers: Sequence[PodResult], cluster: ClusterOptions) -> list[PodResult]:
    """Hide the names of victims that the user may not delete."""
    found = [answer.preemption for answer in answers if answer.preemption is not None]
    namespaces = {victim.pod.partition("/")[0] for each in found for victim in each.victims}
    mine = namespaces_to_delete_pods_in(cluster, namespaces) if namespaces else frozenset()
    return [
        answer if answer.preemption is None else replace(answer, preemption=nameless(answer.preemption, mine))
        for answer in answers
    ]


def _warn_of_policies(world: World, policies: Sequence[FileObject], pods: Sequence[Pod]) -> None:
    """Warn about parts of the --policy policies that match nothing in the cluster."""
    for policy in policies:
        for text in matches_nothing(world, policy, pods):
            warn(text)


def _count(text: str | None) -> int:
    try:
        return 0 if text is None else number_of_copies(text)
    except InvalidObjectsError as error:
        raise click.UsageError(f"--count: {error}") from None


# The cluster ---------------------------------------------------------------------------------------------------------


def _changed_world(cluster: ClusterOptions, scenario: Scenario) -> tuple[World, ClusterView, list[FileObject]]:
    """Return the cluster with the requested changes, and the policies that were added."""
    view = read_cluster(cluster, progress)
    world = make_world(view, preemption=scenario.preempt or view.scheduler.options.preemption)
    if scenario.preempt and not view.scheduler.options.preemption:
        warn("the setting preemption is off: no pod is evicted until manifests/preemption is installed")
    policies = [policy for path in scenario.policies for policy in read_policies(path, scenario.home)]
    world.add(policies)
    named, options = (scenario.added, scenario.without), ("--add-node", "--without")
    for text in change_nodes(world, view, *named, options=options, add=_add_nodes, meant=did_you_mean_node_or_pod):
        warn(text)
    if scenario.pods and (alike := did_you_mean_namespace(scenario.home, cluster, world)):
        warn(f"there is no namespace {scenario.home}{alike}")
    return world, view, policies


def _add_nodes(world: World, text: str) -> None:
    """Add the nodes of a file, or copies of an existing node."""
    if text.partition("=")[0] in world.nodes:
        add_copies(world, text)
        return
    if not Path(text).exists():
        raise InvalidObjectsError("there is neither such a node nor such a file")
    objects = read_files([Path(text)])
    if not any(obj.get("kind") == "Node" for obj in objects):
        raise FileError(f"{text}: there is no node in it")
    world.add(objects)


# The pods ------------------------------------------------------------------------------------------------------------


def _answers(world: World, view: ClusterView, scenario: Scenario, *, explained: bool) -> list[PodResult]:
    done = 0

    def on_answer(answer: PodResult) -> None:
        nonlocal done
        done += 1
        if done % 100 == 0:
            progress(f"{done} pods decided, {answer.pod.key} last")

    asked = scenario.asked()
    return answers_to(world, view, asked, warn, explained=explained, preempt=scenario.preempt, on_answer=on_answer)


def _capacities(world: World, pods: Sequence[Pod], count: int) -> list[Capacity]:
    return [capacity_of(world, pod, count, lambda count: progress(f"{count} fit so far")) for pod in pods]
