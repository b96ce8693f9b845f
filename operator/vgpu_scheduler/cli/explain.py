"""Answers ``vgpu-scheduler explain``."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, NamedTuple, NoReturn

import click

from vgpu_scheduler.cli.cluster.messages import (
    fail,
    on_terminal,
    print_pod_warnings,
    warn,
    wrapped,
)
from vgpu_scheduler.cli.cluster.namespaces import did_you_mean_namespace, label_selector, own_namespace
from vgpu_scheduler.cli.cluster.options import FOR_PEOPLE, NAME, WIDE, ForecastOptions
from vgpu_scheduler.cli.cluster.output import dump
from vgpu_scheduler.cli.cluster.world import EXPECTED_ERRORS, exit_on_error, open_world
from vgpu_scheduler.cli.explain_from_pod import (
    PodExplanation,
    did_you_mean_pod,
    explain_from_conditions,
    pod_alone,
    pods_alone,
)
from vgpu_scheduler.cli.forecasting import UNSEEN, forecaster_of, forecasts_of
from vgpu_scheduler.cli.from_page import NO_LOG, explain_from_page, page_for
from vgpu_scheduler.cli.pod_events import followed_by, why_gone, why_not_created
from vgpu_scheduler.forecast import Forecast, NoForecast
from vgpu_scheduler.kube import LabelSelector, Pod
from vgpu_scheduler.model import counted, did_you_mean
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
    why_no_more_in,
    with_forecast,
)
from vgpu_scheduler.whatif import World, make_dialect

_WORDS: Final = frozenset({"pod", "pods", "po"})
_NO_PODS: Final = re.compile(
    "(deployments?|deploy|statefulsets?|sts|daemonsets?|ds|replicasets?|rs|jobs?|cronjobs?|cj|replicationcontrollers?|rc"
    r"|services?|svc|nodes?|no)(\..*)?",
    re.IGNORECASE,
)
"""kubectl's names of kinds other than pods."""
_FITS_NOWHERE: Final = 1


def run(*, dialect: str | None, cluster: ClusterOptions, **options: Any) -> None:
    """Explain one pod, or all pods of a namespace with some labels, under the settings or another dialect."""
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
    if selector and all(word in _WORDS for word in words):
        words = ()  # as in kubectl get pods -l
    if words and selector:
        raise click.UsageError(f"-l selects pods by their labels: leave {' '.join(words)} out, or -l")
    if not words and not selector:
        raise click.UsageError("name one pod ([pod] [NAMESPACE/]NAME), or say with -l which labels the pods have")
    labels = label_selector(selector)
    with exit_on_error():
        key = pod_key(words, namespace, cluster) if words else ""
        if page := page_for(cluster, _why_not_from_page(key, forecast, cluster)):
            query = ({"node": node} if node else {}) | ({"forecast": "yes"} if forecast else {})
            explain_from_page(page, cluster, key, query, output)
        selected = _SelectedPods(key, "" if words else namespace or own_namespace(cluster), labels)
        try:
            world, view = open_world(cluster, keeping=True)
        except MissingRightsError as error:
            if node:
                warn(f"--node {node}: not taken into account, since the nodes cannot be read")
            _explain_alone(cluster, selected, error, output, asked_forecast=forecast is not None)
            return
    _explain_with_world(world, view, selected, node, forecast, cluster, output)


def _why_not_from_page(key: str, forecast: ForecastOptions | None, cluster: ClusterOptions) -> str:
    """Return why a page cannot answer; empty if it can."""
    if cluster.overrides:
        return "it uses the settings of its scheduler, and takes no --dialect"
    if forecast and forecast.logs:
        return NO_LOG
    return "" if key else "the page explains one pod at a time: name it"


class _SelectedPods(NamedTuple):
    """The pods to explain: one by its name, or those of a namespace by their labels.

    Attributes
    ----------
    key
        ``namespace/name`` of the pod; empty for pods by their labels.
    namespace, labels
        The namespace and the labels of the pods; empty and None for one pod by its name.
    """

    key: str
    namespace: str
    labels: LabelSelector | None

    def includes(self, pod: Pod) -> bool:
        """Tell whether a pod is to be explained."""
        if self.labels is None:
            return pod.key == self.key
        return pod.namespace == self.namespace and self.labels.matches(pod.labels)

    @property
    def searched_namespace(self) -> str:
        """The namespace of the pods."""
        return self.namespace or self.key.partition("/")[0]


def _explain_with_world(
    world: World,
    view: ClusterView,
    selected: _SelectedPods,
    node: str,
    forecast: ForecastOptions | None,
    cluster: ClusterOptions,
    output: str,
) -> None:
    """Explain pods to a user who may see the whole cluster."""
    if node and not world.has_node(node):
        fail(f"there is no node {node}{did_you_mean(node, world.nodes)}")
    pods = _pods_to_explain(world, view, selected, cluster)
    waiting = [pod for pod in pods if pod.uid in world.pending and is_ours(pod.scheduler_name, view.scheduler.settings)]
    with exit_on_error():
        forecaster = forecaster_of(world, view, forecast.logs) if waiting and forecast else None
    explained = _explained(world, view, pods, node, cluster, output)
    forecasts: dict[str, Forecast | NoForecast] = {}
    if forecaster is not None:
        unplaced = [pod for pod in waiting if not explained[pod.uid].found.answer.node]
        forecasts |= forecasts_of(forecaster, unplaced) if unplaced else {}
        forecasts |= waits_for_volumes({pod.uid: explained[pod.uid].awaited for pod in waiting})
    explanations = [_explanation(world, explained[pod.uid], forecasts.get(pod.uid), output) for pod in pods]
    _show(explanations, selected.key, output, [pod.key for pod in pods])


def _pods_to_explain(world: World, view: ClusterView, selected: _SelectedPods, cluster: ClusterOptions) -> list[Pod]:
    """Return the selected pods that wait or run, by namespace and name; end the command if there are none."""
    known = sorted(world.present_pods, key=lambda pod: pod.key)
    pods = [pod for pod in known if selected.includes(pod)]
    if not pods:
        meant = did_you_mean_pod(selected.key, [each.key for each in known]) if selected.key else ""
        meant = meant or did_you_mean_namespace(selected.searched_namespace, cluster, world)
        why = why_no_more_in(world, selected.key, view.scheduler.settings)
        if view.live and selected.key and selected.key not in world.pods:
            why = why_gone(cluster, selected.key)
        if view.live and not why:
            name = selected.key.partition("/")[2]
            meant = followed_by(meant, why_not_created(cluster, selected.searched_namespace, name))
        _fail_without_pods(selected, why, meant)
    return pods


def _explain_alone(
    cluster: ClusterOptions, selected: _SelectedPods, error: MissingRightsError, output: str, *, asked_forecast: bool
) -> None:
    """Explain pods to a user with rights in their namespace only."""
    key, home, labels = selected
    listed = [pod_alone(cluster, key, error)] if labels is None else pods_alone(cluster, home, labels, error)
    if not listed:
        meant = did_you_mean_namespace(home, cluster)
        _fail_without_pods(selected, meant=followed_by(meant, why_not_created(cluster, home)))
    names = [f"{selected.searched_namespace}/{pod['metadata']['name']}" for pod in listed]
    explanations = explain_from_conditions(cluster, selected.searched_namespace, listed, error)
    _show([_without_forecast(each) for each in explanations] if asked_forecast else explanations, key, output, names)


def _without_forecast(explanation: PodExplanation) -> PodExplanation:
    """Add to a waiting pod's explanation that nothing can be forecast."""
    if explanation.plain.get("node"):
        return explanation
    plain = with_forecast(dict(explanation.plain), UNSEEN)
    return explanation._replace(plain=plain, lines=[*explanation.lines, UNSEEN.text()])


def _fail_without_pods(selected: _SelectedPods, why: str = "", meant: str = "") -> NoReturn:
    """End the command because there are no pods to explain.

    Parameters
    ----------
    why
        A clause why the pod of that name neither waits nor runs; empty if there is none.
    meant
        A suggestion, as the end of a sentence.
    """
    if why:
        fail(f"pod {selected.key} {why}")
    by_labels = f"pod in namespace {selected.namespace} with the labels of -l"
    fail(f"there is no {f'pod {selected.key}' if selected.key else by_labels} that waits or runs{meant}")


def _show(explanations: Sequence[PodExplanation], key: str, output: str, names: Sequence[str]) -> NoReturn:
    """Print the explanations; with ``-o name`` only the names of the pods."""
    if output == NAME:
        click.echo("\n".join(f"pod/{name}" for name in names))
    elif output not in FOR_PEOPLE:
        dump(explanations[0].plain if key else [each.plain for each in explanations], output)
    else:
        text = "\n\n".join("\n".join(each.lines) for each in explanations)
        click.echo(wrapped(text, shutil.get_terminal_size().columns) if on_terminal() and output != WIDE else text)
    raise SystemExit(max(each.status for each in explanations))


def _explained(
    world: World, view: ClusterView, pods: Sequence[Pod], node: str, cluster: ClusterOptions, output: str
) -> dict[str, ExplainedPod]:
    """Return the explanations of pods by UID, without the names of pods that the user may not delete."""
    explained = {pod.uid: explain_one(world, view.scheduler, pod, node, all_cards=output == WIDE) for pod in pods}
    if not view.live:
        return explained
    named = frozenset().union(*(each.namespaces for each in explained.values()))
    mine = namespaces_to_delete_pods_in(cluster, named) if named else ()
    return {uid: each.without_others(mine) for uid, each in explained.items()}


def _explanation(world: World, found: ExplainedPod, waits: Forecast | NoForecast | None, output: str) -> PodExplanation:
    print_pod_warnings(world, [found.pod], undecided=found.is_bound)  # else the explanation has those of the claims
    if found.is_bound:
        return PodExplanation(found.as_json(), found.lines(wide=output == WIDE), _FITS_NOWHERE * found.is_announced)
    return _waiting(world, found, waits, output)


def pod_key(words: Sequence[str], namespace: str | None, cluster: ClusterOptions) -> str:
    """Return ``namespace/name`` of the pod that the user named.

    Parameters
    ----------
    namespace
        The value of ``-n``, if given.

    Raises
    ------
    click.UsageError
        If the words do not name exactly one pod, or a pod outside the namespace of ``-n``.
    """
    named = [word for number, word in enumerate(words) if number or word not in _WORDS or len(words) == 1]
    if len(named) != 1:
        raise click.UsageError("name one pod: [pod] [NAMESPACE/]NAME")
    before, slash, name = named[0].partition("/")
    if slash and _NO_PODS.fullmatch(before):
        raise click.UsageError(
            f"explain is about pods, and {named[0]} is not a pod: name one of its pods (or write -n {before} "
            f"{name} for a"
            f" pod of the namespace {before})"
            f"{_why_it_has_none(cluster, namespace, name)}"
        )
    name = name if slash and before in _WORDS else named[0]
    if "/" not in name:
        return f"{namespace or own_namespace(cluster)}/{name}"
    if namespace is not None and name.partition("/")[0] != namespace:
        raise click.UsageError(f"{name} names another namespace than -n {namespace}")
    return name


def _why_it_has_none(cluster: ClusterOptions, namespace: str | None, name: str) -> str:
    """Return why a controller cannot create its pods, as far as a live cluster tells."""
    if cluster.files:
        return ""
    with suppress(*EXPECTED_ERRORS):
        return followed_by("", why_not_created(cluster, namespace or own_namespace(cluster), name))
    return ""


def _waiting(world: World, explained: ExplainedPod, waits: Forecast | NoForecast | None, output: str) -> PodExplanation:
    ours, found = explained.ours, explained.found
    lines = explained.lines(wide=output == WIDE)
    lines += _notes(world, explained, waits, fits=ours and bool(found.answer.node))
    return PodExplanation(
        with_forecast(explained.as_json(), waits), lines, 0 if ours and found.answer.node else _FITS_NOWHERE
    )


def _notes(world: World, explained: ExplainedPod, waits: Forecast | NoForecast | None, *, fits: bool) -> list[str]:
    """Return further notes about a waiting pod."""
    pod = explained.pod
    lines = [] if waits is None else [waits.text()]
    if fits and not gated(pod):
        priority = world.engine.groups.priority
        others = sum(priority(other) > priority(pod) for other in world.pending.values())
        before = (
            f" {counted(others, 'pod')} of higher priority {'waits' if others == 1 else 'wait'}, too." if others else ""
        )
        lines += explained.waits_for or [
            f"It fits now: it is placed when its turn comes, or waits for its turn at its node.{before}"
        ]
        lines += (
            f"It gets no card there: an administrator of the scheduler must add {dialect} to the setting dialects."
            for dialect in world.engine.unlisted_dialects.of_requests(pod.spec.requests)
        )
    condition = pod.scheduled_condition
    if condition is not None and condition.message:
        lines.append(f"Its condition says: {condition.message}")
    return ["", *lines] if lines else []
