"""Answers ``vgpu-scheduler explain``."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NoReturn

import click

from vgpu_scheduler.cli.cluster.messages import fail, on_terminal, print_pod_warnings, wrapped
from vgpu_scheduler.cli.cluster.namespaces import label_selector, own_namespace
from vgpu_scheduler.cli.cluster.options import FOR_PEOPLE, NAME, WIDE, ForecastOptions
from vgpu_scheduler.cli.cluster.output import dump
from vgpu_scheduler.cli.cluster.world import exit_on_error, open_world
from vgpu_scheduler.cli.explain_from_pod import (
    PodExplanation,
    did_you_mean_pod,
    explain_from_condition,
    pod_alone,
    pods_alone,
)
from vgpu_scheduler.cli.forecasting import UNSEEN, forecaster_of, forecasts_of
from vgpu_scheduler.cli.from_page import NO_LOG, explain_from_page, page_for
from vgpu_scheduler.forecast import Forecast, NoForecast
from vgpu_scheduler.kube import LabelSelector, Pod
from vgpu_scheduler.model import counted
from vgpu_scheduler.predicates import gated
from vgpu_scheduler.reading import (
    ClusterOptions,
    ClusterView,
    ExplainedPod,
    MissingRightsError,
    explain_one,
    is_ours,
    namespaces_to_delete_pods_in,
    waits_for_volumes,
    why_no_more,
    with_forecast,
)
from vgpu_scheduler.whatif import World, make_dialect

_WORDS: Final = frozenset({"pod", "pods", "po"})
_NO_PODS: Final = re.compile(
    "(deployments?|deploy|statefulsets?|sts|daemonsets?|ds|replicasets?|rs|jobs?|cronjobs?|cj|replicationcontrollers?|rc"
    r"|services?|svc|nodes?|no)(\..*)?",
    re.IGNORECASE,
)
"""How kubectl calls what is no pod."""
_FITS_NOWHERE: Final = 1


def run(*, dialect: str | None, cluster: ClusterOptions, **options: Any) -> None:
    """Explain one pod, or all pods of a namespace that have some labels, under the settings or another dialect."""
    if dialect is not None:
        with exit_on_error():
            cluster = replace(cluster, overrides={**cluster.overrides, "dialects": [make_dialect(dialect).name]})
    _explain(cluster=cluster, **options)


def _explain(
    *,
    words: Sequence[str],
    selector: str,
    namespace: str | None,
    node: str,
    forecast: ForecastOptions | None,
    cluster: ClusterOptions,
    output: str,
) -> None:
    if bool(words) == bool(selector):
        raise click.UsageError("name one pod ([pod] [NAMESPACE/]NAME), or say with -l which labels the pods have")
    labels = label_selector(selector)
    with exit_on_error():
        key = pod_key(words, namespace, cluster) if words else ""
        cannot = "the page explains one pod at a time: name it" if not key else ""
        cannot = NO_LOG if forecast and forecast.logs else cannot
        cannot = "it goes by the settings of its scheduler, and takes no --dialect" if cluster.overrides else cannot
        if page := page_for(cluster, cannot):
            asked = {"node": node} if node else {}
            explain_from_page(page, cluster, key, asked | ({"forecast": "yes"} if forecast else {}), output)
        home = "" if words else namespace or own_namespace(cluster)
        try:
            world, view = open_world(cluster, keeping=True)
        except MissingRightsError as error:
            if key and output == NAME:
                raise
            _explain_alone(cluster, key, home, labels, error, output, asked_forecast=forecast is not None)
            return
    if node and not world.has_node(node):
        fail(f"there is no node {node}")
    everybody = sorted((*world.pending.values(), *world.bound.values()), key=lambda pod: pod.key)
    if labels is None:
        pods = [pod for pod in everybody if pod.key == key]
    else:
        pods = [pod for pod in everybody if pod.namespace == home and labels.matches(pod.labels)]
    if not pods:
        _fail_without_pods(key, home, world.pods.get(key), [each.key for each in everybody])
    # Those that wait go first: a bound one is another pod for the world once it was asked about.
    waiting_first = sorted(pods, key=lambda pod: pod.uid not in world.pending)
    waiting = [pod for pod in pods if pod.uid in world.pending and is_ours(pod.scheduler_name, view.scheduler.settings)]
    with exit_on_error():
        forecaster = forecaster_of(world, view, forecast.logs) if waiting and forecast else None
    explained = {pod.uid: _explained(world, view, pod, node, cluster, output) for pod in waiting_first}
    unplaced = [pod for pod in waiting if not explained[pod.uid].found.answer.node]
    forecasts = forecasts_of(forecaster, unplaced) if forecaster is not None and unplaced else {}
    if forecaster is not None:
        forecasts |= waits_for_volumes({pod.uid: explained[pod.uid].awaited for pod in waiting})
    explanations = {uid: _explanation(world, each, forecasts.get(uid), output) for uid, each in explained.items()}
    _show([explanations[pod.uid] for pod in pods], key, output, [pod.key for pod in pods])


def _explain_alone(
    cluster: ClusterOptions,
    key: str,
    home: str,
    labels: LabelSelector | None,
    error: MissingRightsError,
    output: str,
    *,
    asked_forecast: bool,
) -> None:
    """Explain pods to somebody with rights in their namespace alone."""
    listed = [pod_alone(cluster, key, error)] if labels is None else pods_alone(cluster, home, labels, error)
    if not listed:
        _fail_without_pods(key, home)
    names = [f"{home}/{pod['metadata']['name']}" for pod in listed]
    explanations = [explain_from_condition(cluster, pod, error) for pod in listed]
    _show([_without_forecast(each) for each in explanations] if asked_forecast else explanations, key, output, names)


def _without_forecast(explanation: PodExplanation) -> PodExplanation:
    """Say of a pod that waits that nothing can be forecast."""
    if explanation.plain.get("node"):
        return explanation
    plain = with_forecast(dict(explanation.plain), UNSEEN)
    return explanation._replace(plain=plain, lines=[*explanation.lines, UNSEEN.text()])


def _fail_without_pods(key: str, home: str, known: Pod | None = None, others: Sequence[str] = ()) -> NoReturn:
    """End the command for want of pods to explain.

    Parameters
    ----------
    known
        The pod of that name, whatever has become of it.
    others
        The pods that there are, of which one may be meant.
    """
    if why := why_no_more(known):
        fail(f"pod {key} {why}")
    those = f"pod {key}" if key else f"pod in namespace {home} with the labels of -l"
    fail(f"there is no {those} that waits or runs{did_you_mean_pod(key, others) if key else ''}")


def _show(explanations: Sequence[PodExplanation], key: str, output: str, names: Sequence[str]) -> NoReturn:
    """Show what is said of one pod, or of all that have some labels; with ``-o name`` their names."""
    if output == NAME:
        click.echo("\n".join(f"pod/{name}" for name in names))
    elif output not in FOR_PEOPLE:
        dump(explanations[0].plain if key else [each.plain for each in explanations], output)
    else:
        text = "\n\n".join("\n".join(each.lines) for each in explanations)
        click.echo(wrapped(text, shutil.get_terminal_size().columns) if on_terminal() and output != WIDE else text)
    raise SystemExit(max(each.status for each in explanations))


def _explained(
    world: World, view: ClusterView, pod: Pod, node: str, cluster: ClusterOptions, output: str
) -> ExplainedPod:
    explained = explain_one(world, view.scheduler, pod, node, all_cards=output == WIDE)
    if view.live:
        named = explained.namespaces
        explained = explained.without_others(namespaces_to_delete_pods_in(cluster, named) if named else ())
    return explained


def _explanation(world: World, found: ExplainedPod, waits: Forecast | NoForecast | None, output: str) -> PodExplanation:
    print_pod_warnings(world, [found.pod])
    if found.is_bound:
        return PodExplanation(found.as_json(), found.lines(wide=output == WIDE), _FITS_NOWHERE * found.is_announced)
    return _waiting(world, found, waits, output)


def pod_key(words: Sequence[str], namespace: str | None, cluster: ClusterOptions) -> str:
    """Return the namespace and name of the pod that somebody names.

    Parameters
    ----------
    namespace
        The one that ``-n`` names, if it does.

    Raises
    ------
    click.UsageError
        If the words do not name one pod, or one of another namespace.
    """
    named = [word for number, word in enumerate(words) if number or word not in _WORDS or len(words) == 1]
    if len(named) != 1:
        raise click.UsageError("name one pod: [pod] [NAMESPACE/]NAME")
    before, slash, name = named[0].partition("/")
    if slash and _NO_PODS.fullmatch(before):
        raise click.UsageError(
            f"explain is about pods, and {named[0]} is none: name one of its pods (or write -n {before} {name} for a"
            f" pod of the namespace {before})"
        )
    name = name if slash and before in _WORDS else named[0]
    if "/" not in name:
        return f"{namespace or own_namespace(cluster)}/{name}"
    if namespace is not None and name.partition("/")[0] != namespace:
        raise click.UsageError(f"{name} names another namespace than -n {namespace}")
    return name


def _waiting(world: World, explained: ExplainedPod, waits: Forecast | NoForecast | None, output: str) -> PodExplanation:
    ours, found = explained.ours, explained.found
    lines = explained.lines(wide=output == WIDE)
    lines += _notes(world, explained, waits, fits=ours and bool(found.answer.node))
    return PodExplanation(
        with_forecast(explained.as_json(), waits), lines, 0 if ours and found.answer.node else _FITS_NOWHERE
    )


def _notes(world: World, explained: ExplainedPod, waits: Forecast | NoForecast | None, *, fits: bool) -> list[str]:
    """Return what else there is to know about a pod that waits."""
    pod = explained.pod
    lines = [] if waits is None else [waits.text()]
    if fits and not gated(pod):
        priority = world.engine.groups.priority
        others = sum(priority(other) > priority(pod) for other in world.pending.values())
        before = (
            f" {counted(others, 'pod')} of higher priority {'waits' if others == 1 else 'wait'}, too." if others else ""
        )
        lines += explained.waits_for or [f"It fits now: its turn comes, or its node is being waited for.{before}"]
        lines += (
            f"It gets no card there: whoever runs the scheduler has to add {dialect} to the setting dialects."
            for dialect in world.engine.unlisted_dialects.of_requests(pod.spec.requests)
        )
    condition = pod.scheduled_condition
    if condition is not None and condition.message:
        lines.append(f"Its condition says: {condition.message}")
    return ["", *lines] if lines else []
