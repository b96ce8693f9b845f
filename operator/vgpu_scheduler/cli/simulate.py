"""Answers ``vgpu-scheduler simulate``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NoReturn

import click
import yaml

from vgpu_scheduler.cli.cluster.messages import (
    ROLE_WITH_RIGHTS,
    fail,
    print_pod_warnings,
    print_view_warnings,
    progress,
    warn,
)
from vgpu_scheduler.cli.cluster.namespaces import did_you_mean_namespace, label_selector, own_namespace
from vgpu_scheduler.cli.cluster.options import FOR_PEOPLE, WIDE, ForecastOptions, NamespaceOptions
from vgpu_scheduler.cli.cluster.output import dump
from vgpu_scheduler.cli.cluster.world import exit_on_error, make_world, open_namespace, world_of_namespace
from vgpu_scheduler.cli.explain_from_pod import did_you_mean_object
from vgpu_scheduler.cli.forecasting import UNSEEN, forecaster_of, forecasts_of
from vgpu_scheduler.cli.from_page import NO_LOG, page_for, simulate_from_page
from vgpu_scheduler.cli.pod_assessment import known_of_all, show_known
from vgpu_scheduler.cli.simulated import show_answers, show_capacities
from vgpu_scheduler.kube import LabelSelector, Pod
from vgpu_scheduler.reading import (
    ClusterOptions,
    ClusterView,
    FileError,
    MissingRightsError,
    SimulatedPods,
    add_copies,
    answers_to,
    at_home,
    change_nodes,
    creation_warnings,
    is_ours,
    keep_room_for_others,
    namespaces_of,
    namespaces_to_delete_pods_in,
    new_pods,
    nothing_to_place,
    number_of_copies,
    read_cluster,
    read_files,
    read_policies,
    waits_of_answers,
    with_forecast,
    within,
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
from vgpu_scheduler.whatif.reasons.groups import group_named_by

_NO_PLACE: Final = 1
_AS_MANY_AS_FIT: Final = "max"
_TAKEN_BY_PAGE: Final = (
    "the page takes only -f, --pending, -n, -A, --count, --policy, --add-node, --without and --forecast"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scenario:
    """The pods to place, and the changes to make to the cluster before.

    Attributes
    ----------
    pods
        Files with pods.
    home
        The namespace of pods that name none; with ``pending``, also that of the pending pods, unless all are placed.
    namespaces
        The namespace options as given.
    selector
        The labels of the pending pods to place; None for all.
    count
        Copies of each pod; 0 for the pods themselves.
    preempt
        Evict pods of lower priority, as the scheduler would.
    forecast
        The options of the forecast of waiting times; None for no forecast.
    """

    pods: Sequence[Path]
    pending: bool
    home: str
    namespaces: NamespaceOptions
    selector: LabelSelector | None
    count: int
    policies: Sequence[Path]
    added: Sequence[str]
    without: Sequence[str]
    preempt: bool = False
    forecast: ForecastOptions | None = None


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
    scenario = _Scenario(count=_count(count), home=home, namespaces=namespaces, selector=labels, **options)
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
            _answer_without_nodes(cluster, scenario, error, output, explained=explained)
    if scenario.count:
        _answer_how_many(world, view, policies, scenario, output)
    else:
        _answer_where(world, view, policies, scenario, output, explained=explained, cluster=cluster)


def _check_count(scenario: _Scenario, *, explained: bool) -> None:
    if explained:
        raise click.UsageError("--explain is for single pods, and --count for numbers of copies")
    if scenario.preempt:
        raise click.UsageError("--count is for how many copies fit, and --preempt for which pods would be evicted")
    if scenario.pending:
        raise click.UsageError("--count is for the pods of files, and --pending for those that wait")


def _form(scenario: _Scenario) -> dict[str, str]:
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
    world: World, view: ClusterView, policies: Sequence[FileObject], scenario: _Scenario, output: str
) -> None:
    with exit_on_error():
        pods = new_pods(world, view, _written(scenario), warn, once=True)
        if not pods:
            raise nothing_to_place(world, _where(scenario))
        keep_room_for_others(world, pods, warn)
        capacities = _capacities(world, pods, scenario.count)
    progress("")
    print_view_warnings(world, view)
    _warn_of_policies(world, policies, pods)
    print_pod_warnings(world, pods)
    _warn_of_creation(world, pods, scenario.count)
    _warn_of_groups(pods)
    show_capacities(capacities, output)
    least = 1 if scenario.count == MOST_COPIES else scenario.count
    raise SystemExit(0 if all(capacity.count >= least for capacity in capacities) else _NO_PLACE)


def _answer_where(
    world: World,
    view: ClusterView,
    policies: Sequence[FileObject],
    scenario: _Scenario,
    output: str,
    *,
    explained: bool,
    cluster: ClusterOptions,
) -> None:
    asked, logs = _asked(scenario, ()), scenario.forecast.logs if scenario.forecast else ()
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
    _warn_of_creation(world, [answer.pod for answer in answers if answer.pod.uid not in uids])
    if view.live:
        answers = _without_others(answers, cluster)
    if output not in FOR_PEOPLE:
        dump([with_forecast(answer.as_json(), forecasts.get(answer.pod.uid)) for answer in answers], output)
    elif answers:
        show_answers(answers, forecasts, explained=explained, wide=output == WIDE)
    else:
        click.echo(_nobody_waits(world, scenario, cluster))
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


def _warn_of_creation(world: World, pods: Sequence[Pod], copies: int = 1) -> None:
    """Warn about quotas that may prevent new pods from being created."""
    for text in creation_warnings(world, pods, copies):
        warn(text)


def _warn_of_groups(pods: Sequence[Pod]) -> None:
    """Warn that --count ignores the groups of pods."""
    for pod in pods:
        if named := group_named_by(pod):
            warn(f"Pod {pod.key}: {named}, which --count ignores: it counts copies one by one")


def _answer_without_nodes(
    cluster: ClusterOptions, scenario: _Scenario, error: MissingRightsError, output: str, *, explained: bool
) -> NoReturn:
    """Print what is known about pods to a user with rights in one namespace only, and which rights are missing."""
    if cluster.files or scenario.namespaces.every:
        raise error
    _warn_of_unused_options(scenario, explained=explained)
    written, found, unread = _written(scenario), [], ""
    homes = {*namespaces_of(written), *([scenario.home] if scenario.pending else [])}
    for home in sorted(homes or {scenario.home}):
        world, view = _namespace_without_unknown_usage(cluster, home)
        if home == scenario.home and not view.has_read("Pod"):
            unread = f"the pods of namespace {home} cannot be listed: whether some wait is not known"
        for path in scenario.policies:
            world.add(read_policies(path, scenario.home))
        waiting = _asked(scenario, written).waiting(world) if home == scenario.home else []
        here = within(written, home)
        new = new_pods(world, view, here, warn, once=bool(scenario.count))
        if not homes and scenario.pods:
            raise nothing_to_place(world, _where(scenario))
        print_view_warnings(world, view)
        print_pod_warnings(world, [*waiting, *new], undecided=True)
        _warn_of_creation(world, new, scenario.count or 1)
        if scenario.count:
            _warn_of_groups(new)
        found += known_of_all(world, view, waiting, new, here, scenario.count)
    if not found and scenario.pods and not scenario.pending:
        raise nothing_to_place(world, _where(scenario))
    show_known(found, output)
    if unread and scenario.pending:
        warn(unread)
    if scenario.forecast:
        warn(f"--forecast: {UNSEEN.text()}")
    if not found and not unread and output in FOR_PEOPLE:
        click.echo(_nobody_waits(world, scenario, cluster))
    meant = did_you_mean_namespace(scenario.namespaces.name, cluster)
    fail(f"{error}: placements cannot be computed{meant or '.'} {ROLE_WITH_RIGHTS}")


def _warn_of_unused_options(scenario: _Scenario, *, explained: bool) -> None:
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


def _count(text: str | None) -> int:
    try:
        return 0 if text is None else number_of_copies(text)
    except InvalidObjectsError as error:
        raise click.UsageError(f"--count: {error}") from None


# The cluster ---------------------------------------------------------------------------------------------------------


def _changed_world(cluster: ClusterOptions, scenario: _Scenario) -> tuple[World, ClusterView, list[FileObject]]:
    """Return the cluster with the requested changes, and the policies that were added."""
    view = read_cluster(cluster, progress)
    world = make_world(view, preemption=scenario.preempt or view.scheduler.options.preemption)
    if scenario.preempt and not view.scheduler.options.preemption:
        warn("the setting preemption is off: no pod is evicted until manifests/preemption is installed")
    policies = [policy for path in scenario.policies for policy in read_policies(path, scenario.home)]
    world.add(policies)
    named, options = (scenario.added, scenario.without), ("--add-node", "--without")
    for text in change_nodes(world, view, *named, options=options, add=_add_nodes, meant=did_you_mean_object):
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


def _answers(world: World, view: ClusterView, scenario: _Scenario, *, explained: bool) -> list[PodResult]:
    done = 0

    def on_answer(answer: PodResult) -> None:
        nonlocal done
        done += 1
        if done % 100 == 0:
            progress(f"{done} pods decided, {answer.pod.key} last")

    asked = _asked(scenario)
    return answers_to(world, view, asked, warn, explained=explained, preempt=scenario.preempt, on_answer=on_answer)


def _asked(scenario: _Scenario, written: Sequence[FileObject] | None = None) -> SimulatedPods:
    """Return the pods to place.

    Parameters
    ----------
    written
        The objects of the files; None to read them.
    """
    return SimulatedPods(
        written=_written(scenario) if written is None else written,
        where=_where(scenario),
        pending=scenario.pending,
        home=scenario.home,
        every=scenario.namespaces.every,
        selector=scenario.selector,
    )


def _where(scenario: _Scenario) -> str:
    """Return the names of the files with pods."""
    return ", ".join(map(str, scenario.pods))


def _written(scenario: _Scenario) -> list[FileObject]:
    """Return the objects in the files with pods."""
    return at_home(read_files(scenario.pods), scenario.home, scenario.namespaces.name)


def _capacities(world: World, pods: Sequence[Pod], count: int) -> list[Capacity]:
    return [capacity_of(world, pod, count, lambda count: progress(f"{count} fit so far")) for pod in pods]


def _nobody_waits(world: World, scenario: _Scenario, cluster: ClusterOptions) -> str:
    if scenario.selector is not None:
        return "no pod with the labels of -l waits"
    if scenario.namespaces.every:
        return "no pod waits"
    elsewhere = f"; {len(world.pending)} in other namespaces do: -A places them, too" if world.pending else ""
    return (
        f"no pod waits in namespace {scenario.home}{elsewhere}{did_you_mean_namespace(scenario.home, cluster, world)}"
    )
