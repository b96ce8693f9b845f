"""Answers ``vgpu-scheduler simulate``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path
from typing import Any, Final

import click

from vgpu_scheduler.cli.cluster.look import Look, look, read_files
from vgpu_scheduler.cli.cluster.options import TABLE, ClusterOptions
from vgpu_scheduler.cli.cluster.output import dump, table
from vgpu_scheduler.cli.cluster.world import guarded, make_world, progress, tell, tell_about, warn
from vgpu_scheduler.cli.files import FileError
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.whatif import (
    MOST,
    WORKLOADS,
    Answer,
    Capacity,
    World,
    WorldError,
    aligned,
    claims_of,
    copy_of,
    explain,
    how_many,
    make_dialect,
    number,
    pods_of,
    simulate,
    unknown_fields,
)

_HEAD: Final = ("POD", "OUTCOME", "NODE", "CARDS", "SCORE", "POLICY")
_NO_PLACE: Final = 1
_MOST_NODES: Final = 1000
_AS_MANY_AS_FIT: Final = "max"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """What is asked.

    Attributes
    ----------
    pods
        Files with pods.
    count
        Copies of each; 0 for the pods themselves.
    """

    pods: Sequence[Path]
    pending: bool
    count: int
    policies: Sequence[Path]
    added: Sequence[str]
    without: Sequence[str]


def run(
    *, cluster: ClusterOptions, output: str, explained: bool, count: str | None, dialect: str | None, **options: Any
) -> None:
    """Place pods, and say where they went."""
    given = {name: value for name in ("node_policy", "device_policy") if (value := options.pop(name)) is not None}
    if dialect is not None:
        given["dialects"] = [guarded(lambda: make_dialect(dialect)).name]
    question = _Question(count=_count(count), **options)
    if not question.pods and not question.pending:
        raise click.UsageError("say which pods are to be placed: -f FILE, or --pending")
    if question.count and explained:
        raise click.UsageError("--explain is about single pods, and --count about how many")
    if question.count and question.pending:
        raise click.UsageError("--count is about the pods of files, --pending about those that wait")
    world, seen = guarded(lambda: _world(replace(cluster, given=given), question))
    if question.count:
        pods = guarded(lambda: _new_pods(world, question.pods, once=True))
        capacities = guarded(lambda: _capacities(world, pods, question.count))
        tell(world, seen)
        tell_about(world, pods)
        _show_capacities(capacities, question.count, output)
        return
    answers = guarded(lambda: _answers(world, question, explained=explained or output != TABLE))
    progress("")
    tell(world, seen)
    tell_about(world, (answer.pod for answer in answers))
    if output == TABLE and not answers:
        click.echo("no pod waits")
    elif output == TABLE:
        _show(answers, explained=explained)
    else:
        dump([answer.as_json() for answer in answers], output)
    raise SystemExit(0 if all(answer.node for answer in answers) else _NO_PLACE)


def _count(text: str | None) -> int:
    if text is None:
        return 0
    if text == _AS_MANY_AS_FIT:
        return MOST
    if not text.isdecimal() or not 1 <= int(text) <= MOST:
        raise click.UsageError(f"--count: {text!r} is neither a number from 1 to {MOST} nor max")
    return int(text)


# The cluster ---------------------------------------------------------------------------------------------------------


def _world(cluster: ClusterOptions, question: _Question) -> tuple[World, Look]:
    """Return the cluster with what is changed of it."""
    seen = look(cluster, progress)
    world = make_world(seen)
    world.add(read_files(question.policies))
    for text in question.added:
        _add_nodes(world, text)
    for text in question.without:
        _leave_out(world, text)
    return world, seen


def _add_nodes(world: World, text: str) -> None:
    """Add the nodes of a file, or copies of one that is there."""
    name, _, number_of = text.partition("=")
    if name in world.nodes:
        if number_of and not (number_of.isdecimal() and 1 <= int(number_of) <= _MOST_NODES):
            raise WorldError(f"--add-node {text}: {number_of!r} is no number from 1 to {_MOST_NODES}")
        free = (copy for n in count(2) if not world.has_node(copy := f"{name}-{n}"))
        for copy in islice(free, int(number_of or 1)):
            world.add(copy_of(world, name, copy))
        return
    if not Path(text).exists():
        raise WorldError(f"--add-node {text}: there is neither such a node nor such a file")
    objects = read_files([Path(text)])
    if not any(obj.get("kind") == "Node" for obj in objects):
        raise FileError(f"{text}: there is no node in it")
    world.add(objects)


def _leave_out(world: World, text: str) -> None:
    kind, _, name = text.partition("/")
    if kind == "node" and world.has_node(name):
        world.remove_node(name)
        return
    if kind == "pod":
        pods = [pod for pod in (*world.bound.values(), *world.pending.values()) if pod.key == name]
        for pod in pods:
            world.remove_pod(pod.uid)
        if pods:
            return
    raise WorldError(f"--without {text}: there is no such pod or node; write node/NAME or pod/NAMESPACE/NAME")


# The pods ------------------------------------------------------------------------------------------------------------


def _answers(world: World, question: _Question, *, explained: bool) -> list[Answer]:
    done = 0

    def told(answer: Answer) -> None:
        nonlocal done
        done += 1
        if done % 100 == 0:
            progress(f"{done} pods decided, {answer.pod.key} last")

    waiting = list(world.pending.values()) if question.pending else []
    answers = simulate(world, waiting, as_they_are=True, explained=explained, told=told)
    answers += simulate(world, _new_pods(world, question.pods), explained=explained, told=told)
    if not answers and question.pods:
        raise WorldError("there is no pod to place")
    return answers


def _capacities(world: World, pods: Sequence[Pod], count: int) -> list[Capacity]:
    if not pods:
        raise WorldError("there is no pod to place")
    return [how_many(world, pod, count, lambda count: progress(f"{count} fit so far")) for pod in pods]


def _new_pods(world: World, files: Sequence[Path], *, once: bool = False) -> list[Pod]:
    """Return the pods that files ask about, or one of each workload, after what comes with them was made."""
    objects = read_files(files)
    others = [obj for obj in objects if obj.get("kind") not in WORKLOADS]
    world.add(obj for obj in others if obj.get("kind") != "Node")
    workloads = [obj for obj in objects if obj.get("kind") in WORKLOADS]
    world.make_claims(claim for obj in workloads for claim in claims_of(obj))
    first = slice(1) if once else slice(None)
    pods = [_pod(world, obj, pod) for obj in workloads for pod in _checked(obj)[first]]
    for key, times in Counter(pod.key for pod in pods).items():
        if times > 1:
            warn(f"Pod {key} is there {times} times: each is placed")
    return pods


def _checked(workload: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the pods of a workload, after what has no effect in them was told, once for all of them."""
    pods = [dict(pod) for pod in pods_of(workload)]
    name = (workload.get("metadata") or {}).get("name", "")
    for text in unknown_fields(pods[0]) if pods else ():
        warn(f"{workload.get('kind')} {name}: {text}")
    return list(pods)


def _pod(world: World, workload: Mapping[str, Any], pod: Mapping[str, Any]) -> Pod:
    """Read a pod as the API server would take it."""
    title = f"{workload.get('kind')} {(workload.get('metadata') or {}).get('name', '')}"
    try:
        read = world.pod(pod)
    except WorldError as error:
        raise WorldError(f"{getattr(workload, 'origin', 'the file')}: {error}") from None
    if not read.spec.containers:
        raise WorldError(f"{title}: spec.containers is empty: the API server takes no such pod")
    return read


# The answer ----------------------------------------------------------------------------------------------------------


def _show(answers: Sequence[Answer], *, explained: bool) -> None:
    for line in aligned([_HEAD, *map(_row, answers)]):
        click.echo(line)
    for answer in answers:
        if explained:
            click.echo("\n" + explain(answer))
        elif answer.decision.message:
            click.echo(f"{answer.pod.key}: {answer.decision.message}")


def _row(answer: Answer) -> tuple[str, ...]:
    return (
        answer.pod.key,
        answer.decision.outcome.value,
        answer.node or "-",
        ",".join(answer.cards) or "-",
        number(answer.decision.score) if answer.node else "-",
        answer.sources.get("nodes", "-"),
    )


def _show_capacities(found: Sequence[Capacity], asked: int, output: str) -> None:
    progress("")
    if output != TABLE:
        dump([capacity.as_json() for capacity in found], output)
    else:
        for capacity in found:
            at_least = "at least " if capacity.count == MOST else ""
            click.echo(f"{at_least}{capacity.count} of {capacity.pod} fit.")
            if capacity.nodes:
                click.echo(table(list(capacity.nodes.items()), ("node", "pods")))
            if capacity.next is not None:
                click.echo(f"The next one: {capacity.next.decision.message}")
    enough = asked == MOST or all(capacity.next is None for capacity in found)
    raise SystemExit(0 if enough else _NO_PLACE)
