"""Answers ``vgpu-scheduler backtest``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from vgpu_scheduler.cli.backtest.report import BacktestDocument, PolicyResult
from vgpu_scheduler.cli.backtest.show import markdown, show
from vgpu_scheduler.cli.backtest.sources import Source, find
from vgpu_scheduler.cli.backtest.working import ReplayTask, carried_out
from vgpu_scheduler.cli.cluster.messages import progress, warn
from vgpu_scheduler.cli.cluster.options import FOR_PEOPLE, WIDE
from vgpu_scheduler.cli.cluster.output import dump
from vgpu_scheduler.cli.cluster.progress_bar import progress_bar
from vgpu_scheduler.cli.cluster.world import announce_compiling, exit_on_error
from vgpu_scheduler.engine import EngineOptions
from vgpu_scheduler.history import Arrived, Changed, History, ReplayResult
from vgpu_scheduler.history.checking import Agreement
from vgpu_scheduler.history.comparing import compared
from vgpu_scheduler.kube import Namespace
from vgpu_scheduler.policy import PolicyResource, decode_policy, title
from vgpu_scheduler.reading import FileError, read_policies

MARKDOWN: Final = "markdown"


def run(  # noqa: PLR0913 - one for each option of the command
    *,
    logs: tuple[Path, ...],
    snapshot: Path | None,
    policies: Sequence[Path],
    config: Path | None,
    resamples: int,
    seed: int,
    processes: int | None,
    output: str,
) -> None:
    """Replay a history under each policy, and print the results."""
    source = Source(logs, snapshot, config)
    with exit_on_error():
        contenders = {name: _read(path) for name, path in _named(policies).items()}
        progress("reading the log")
        found = find(source)
        without_effect = [
            text
            for theirs in contenders.values()
            for text in (*_about_nobody(theirs, found.history), *_without_preemption(theirs, found.options))
        ]
        found = replace(found, problems=[*found.problems, *without_effect])
        progress("")
        for problem in found.problems:
            warn(problem)
        announce_compiling()
        seeds = (None, *range(seed, seed + resamples))
        tasks = [ReplayTask(checks=True)] if found.decided else []
        tasks += [ReplayTask(theirs, each) for theirs in ((), *contenders.values()) for each in seeds]
        with progress_bar(f"{len(tasks)} replays", len(tasks)) as bar:
            results = carried_out(source, found, tasks, processes, bar.advance)
    agreement = next((each for each in results if isinstance(each, Agreement)), None)
    replays = [each for each in results if isinstance(each, ReplayResult)]
    groups = [replays[begin : begin + len(seeds)] for begin in range(0, len(replays), len(seeds))]
    under = [
        PolicyResult(name, [title(policy) for policy in theirs], group[0], compared(groups[0], group, seed))
        for (name, theirs), group in zip(contenders.items(), groups[1:], strict=True)
    ]
    report = BacktestDocument(found, agreement, groups[0][0], under, resamples)
    if output == MARKDOWN:
        click.echo(markdown(report), nl=False)
    elif output in FOR_PEOPLE:
        show(report, wide=output == WIDE)
    else:
        dump(report.as_json(), output)


def _named(paths: Sequence[Path]) -> dict[str, Path]:
    """Return the policy files by their names in tables."""
    found: dict[str, Path] = {}
    for path in paths:
        if path.stem in found:
            raise FileError(f"--policy: two files are called {path.stem}: rename one")
        found[path.stem] = path
    return found


def _read(path: Path) -> tuple[PolicyResource, ...]:
    """Return the policies of a file or folder.

    Raises
    ------
    FileError
        If there is no policy, another kind of object, or a policy that cannot be understood.
    """
    found = []
    for obj in read_policies(path):
        policy = decode_policy(obj)
        if policy.error:
            raise FileError(f"{obj.origin}: {title(policy)}: {policy.error}")
        found.append(policy)
    return tuple(found)


def _without_preemption(policies: Sequence[PolicyResource], options: EngineOptions) -> Iterator[str]:
    """Yield a sentence for each policy with preemption, if the settings turn preemption off."""
    for policy in policies:
        if not options.preemption and policy.spec is not None and policy.spec.preemption is not None:
            yield (
                f"{title(policy)}: spec.preemption evicts no pods here, because the setting preemption is off: "
                "set preemption: true in the file of --config to try it"
            )


def _about_nobody(policies: Sequence[PolicyResource], history: History) -> Iterator[str]:
    """Yield a sentence for each policy that selects none of the pods that arrived."""
    events = (*history.first, *history.events)
    values = [event.value for event in events if isinstance(event, Changed)]
    versions = [value for value in values if isinstance(value, Namespace)]
    came = [event.pod for event in events if isinstance(event, Arrived)]
    labels: dict[str, list[Mapping[str, str]]] = {pod.namespace: [{}] for pod in came}
    for value in versions:
        labels.setdefault(value.name, []).append(value.labels)
    pods = {(pod.namespace, *pod.labels.items()): pod for pod in came}.values()
    for policy in policies:
        if not any(
            policy.selects_pod(pod.labels)
            and any(policy.selects_namespace(pod.namespace, each) for each in labels[pod.namespace])
            for pod in pods
        ):
            yield f"{title(policy)} applies to no pod of the log"
