"""Answers ``vgpu-scheduler explain``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from vgpu_scheduler.cli.cluster.messages import fail, print_pod_warnings
from vgpu_scheduler.cli.cluster.namespaces import own_namespace
from vgpu_scheduler.cli.cluster.options import FOR_PEOPLE, WIDE, ClusterOptions
from vgpu_scheduler.cli.cluster.output import dump
from vgpu_scheduler.cli.cluster.schedulers import is_ours, left_to_whom
from vgpu_scheduler.cli.cluster.view import ClusterView, get_object
from vgpu_scheduler.cli.cluster.world import MissingRightsError, exit_on_error, open_world
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import DECISION
from vgpu_scheduler.predicates import gated
from vgpu_scheduler.whatif import World, explain_bound, explain_pod

_WORDS: Final = frozenset({"pod", "pods", "po"})
_FITS_NOWHERE: Final = 1


def run(*, words: Sequence[str], namespace: str | None, node: str, cluster: ClusterOptions, output: str) -> None:
    """Explain one pod."""
    with exit_on_error():
        key = pod_key(words, namespace or own_namespace(cluster))
        try:
            world, view = open_world(cluster)
        except MissingRightsError as error:
            _explain_from_pod_alone(cluster, key, error, output)
            return
    if node and not world.has_node(node):
        fail(f"there is no node {node}")
    waiting = next((pod for pod in world.pending.values() if pod.key == key), None)
    if waiting is not None:
        _explain_waiting(world, view, waiting, node, output)
        return
    bound = next((pod for pod in world.bound.values() if pod.key == key), None)
    if bound is None:
        fail(f"there is no pod {key} that waits or runs")
    _explain_bound(world, bound, node, output)


def pod_key(words: Sequence[str], namespace: str) -> str:
    """Return the namespace and name of the pod that somebody names.

    Raises
    ------
    click.UsageError
        If the words do not name one pod.
    """
    named = [word for number, word in enumerate(words) if number or word not in _WORDS or len(words) == 1]
    if len(named) != 1:
        raise click.UsageError("name one pod: [pod] [NAMESPACE/]NAME")
    before, slash, name = named[0].partition("/")
    name = name if slash and before in _WORDS else named[0]
    return name if "/" in name else f"{namespace}/{name}"


def _explain_waiting(world: World, view: ClusterView, pod: Pod, node: str, output: str) -> None:
    found, settings = explain_pod(world, pod, node, all_cards=output == WIDE), view.scheduler.settings
    ours = is_ours(pod.scheduler_name, settings)
    print_pod_warnings(world, [pod])
    if output not in FOR_PEOPLE:
        scheduler = {"named": pod.scheduler_name, "ours": ours}
        dump({**found.as_json(), "scheduler": scheduler, "settings": view.scheduler.source}, output)
    else:
        if not ours:
            click.echo(f"{left_to_whom(pod.scheduler_name, settings)}\n\nIf it named {world.scheduler_name}:\n")
        click.echo(found.text(wide=output == WIDE))
        for line in _notes(world, pod, fits=ours and bool(found.answer.node)):
            click.echo(line)
    raise SystemExit(0 if ours and found.answer.node else _FITS_NOWHERE)


def _notes(world: World, pod: Pod, *, fits: bool) -> list[str]:
    """Return what else there is to know about a pod that waits."""
    lines = []
    if behind := gated(pod):
        lines.append(f"It is not tried yet: {behind}")
    elif fits:
        others = sum(other.priority > pod.priority for other in world.pending.values())
        before = f" {others} pods of higher priority wait, too." if others else ""
        lines.append(f"It fits now: its turn comes, or its node is being waited for.{before}")
    condition = pod.scheduled_condition
    if condition is not None and condition.message:
        lines.append(f"Its condition says: {condition.message}")
    return ["", *lines] if lines else []


def _explain_bound(world: World, pod: Pod, node: str, output: str) -> None:
    record = _record(pod.annotations)
    found = explain_bound(world, pod, node, all_cards=output == WIDE)
    if output not in FOR_PEOPLE:
        dump({"pod": pod.key, "node": pod.node_name, "decided": record, "today": found.as_json()}, output)
        return
    click.echo(f"{pod.key} is bound to {pod.node_name}.")
    for line in found.held:
        click.echo(f"  {line}")
    for line in _recorded(record):
        click.echo(f"  {line}")
    here = "to the same node" if found.answer.node == pod.node_name else f"to {found.answer.node or 'no node'}"
    click.echo(f"\nIf it were created now, without itself, it would go {here}:\n")
    click.echo(found.text(wide=output == WIDE))


def _record(annotations: Mapping[str, str]) -> dict[str, Any]:
    try:
        found = json.loads(annotations.get(DECISION, "{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _recorded(record: Mapping[str, Any]) -> list[str]:
    """Word what was written down when a pod was decided."""
    if not record:
        return ["vgpu-scheduler wrote down no decision: somebody else bound it"]
    lines = [f"decided among {record.get('nodes', '?')} nodes, score {record.get('score', '?')}"]
    policy = record.get("policy")
    for section, source in sorted(policy.items()) if isinstance(policy, Mapping) else ():
        lines.append(f"{section} by {source}")
    return lines


def _explain_from_pod_alone(cluster: ClusterOptions, key: str, error: MissingRightsError, output: str) -> None:
    """Say what a pod says itself, for those who may see no more."""
    namespace, _, name = key.partition("/")
    found = asyncio.run(get_object(cluster, f"/api/v1/namespaces/{namespace}/pods/{name}"))
    if isinstance(found, str):
        fail(f"{error}, and the pod itself cannot be seen: {found}")
    conditions = found.get("status", {}).get("conditions") or ()
    scheduled: Mapping[str, Any] = next((each for each in conditions if each.get("type") == "PodScheduled"), {})
    node = found.get("spec", {}).get("nodeName", "")
    record = _record(found["metadata"].get("annotations") or {})
    if output not in FOR_PEOPLE:
        dump({"pod": key, "node": node, "condition": scheduled, "decided": record, "missing": str(error)}, output)
    else:
        click.echo(f"{key} is bound to {node}." if node else f"{key} waits.")
        if scheduled.get("message"):
            click.echo(f"  {scheduled.get('reason', '')}: {scheduled['message']}")
        for line in _recorded(record) if node else ():
            click.echo(f"  {line}")
        click.echo(f"\nMore cannot be said: {error}.")
    raise SystemExit(0 if node else _FITS_NOWHERE)
