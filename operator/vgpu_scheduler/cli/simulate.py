"""``vgpu-scheduler simulate``: where would these pods go."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from vgpu_scheduler.cli.files import TOO_DEEP, FileError, documents, yaml_files
from vgpu_scheduler.dialects import Dialect
from vgpu_scheduler.dialects.hami import hami_dialect
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.runtime.assembly import policy_defaults
from vgpu_scheduler.runtime.device_config import device_config
from vgpu_scheduler.settings import Settings, SettingsError, load
from vgpu_scheduler.whatif import (
    STORAGE_DECODERS,
    Answer,
    World,
    WorldError,
    aligned,
    claims_of,
    explain,
    flatten,
    make_dialect,
    number,
    pods_of,
    simulate,
)

_HEAD = ("POD", "OUTCOME", "NODE", "CARDS", "SCORE", "POLICY")
_HAMI = "hami"
_MOST_PROBLEMS = 10
_FILE = click.Path(exists=True, path_type=Path)


@click.command("simulate")
@click.option(
    "-f",
    "--file",
    "pods",
    multiple=True,
    type=_FILE,
    help="Pods, or workloads, to place; their claims may be there, too.",
)
@click.option("--pending", is_flag=True, help="Place the pods of the cluster that wait, whatever scheduler they name.")
@click.option(
    "--cluster",
    "clusters",
    multiple=True,
    required=True,
    type=_FILE,
    help="Objects of the cluster: nodes, pods, namespaces, policies, storage (kubectl get ... -A -o yaml).",
)
@click.option("--config", type=_FILE, help="Settings file of the operator (YAML).")
@click.option("--dialect", default=_HAMI, show_default=True, help="hami, volcano or koordinator.")
@click.option("--node-policy", type=click.Choice(["binpack", "spread"]), help="Instead of the setting.")
@click.option("--device-policy", help="Instead of the setting.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("--explain", "explained", is_flag=True, help="Say what every node scored, and why others do not fit.")
def simulate_command(
    pods: Sequence[Path],
    clusters: Sequence[Path],
    config: Path | None,
    dialect: str,
    output: str,
    **flags: Any,
) -> None:
    """Place pods on a copy of a cluster, without one.

    The real engine decides, with the policies among the cluster's objects in force. Pods are tried by priority, then in
    the order of the files; each finds what those before it took. Deployments, ReplicaSets, StatefulSets and Jobs stand
    for their pods. Ends with 1 when a pod finds no place, and with 2 when something cannot be read.
    """
    pending, explained = flags.pop("pending"), flags.pop("explained")
    if not pods and not pending:
        raise click.UsageError("say which pods are to be placed: -f FILE, or --pending")
    try:
        settings = load(config, {name: value for name, value in flags.items() if value is not None})
        world = World([_dialect(dialect, settings)], policy_defaults(settings))
        world.add(_objects(clusters))
        answers = simulate(world, list(world.pending.values()), as_they_are=True) if pending else []
        answers += simulate(world, _new_pods(world, pods))
    except (FileError, SettingsError, WorldError) as error:
        _give_up(str(error))
    except RecursionError:
        _give_up(TOO_DEEP)
    if not answers:
        _give_up("there is no pod to place")
    _tell(world)
    if output == "json":
        click.echo(json.dumps([answer.as_json() for answer in answers], indent=2, sort_keys=True))
    else:
        _show(answers, explained=explained)
    raise SystemExit(0 if all(answer.node for answer in answers) else 1)


def _new_pods(world: World, files: Sequence[Path]) -> list[Pod]:
    """Return the pods that files ask about, after what comes with them was made."""
    objects = list(flatten(_objects(files)))
    world.add(obj for obj in objects if obj.get("kind") in STORAGE_DECODERS)
    workloads = [obj for obj in objects if obj.get("kind") not in STORAGE_DECODERS]
    world.make_claims(claim for obj in workloads for claim in claims_of(obj))
    return [world.pod(pod) for obj in workloads for pod in pods_of(obj)]


def _give_up(message: str) -> NoReturn:
    click.echo(f"Error: {message}", err=True)
    raise SystemExit(2)


def _dialect(name: str, settings: Settings) -> Dialect:
    return hami_dialect(device_config(settings)) if name == _HAMI else make_dialect(name)


def _objects(paths: Iterable[Path]) -> Iterator[Any]:
    """Yield the objects of files and folders; what is wrong with one is said with its file."""
    for path in paths:
        for file in yaml_files(path):
            try:
                yield from flatten(documents(file))
            except WorldError as error:
                raise FileError(f"{file}: {error}") from None


def _tell(world: World) -> None:
    """Say on stderr what of the cluster is not followed."""
    for problem in world.problems[:_MOST_PROBLEMS]:
        click.echo(f"warning: {problem}", err=True)
    more = len(world.problems) - _MOST_PROBLEMS
    if more > 0:
        click.echo(f"warning: and {more} more", err=True)
    for kind, times in sorted(world.ignored.items()):
        objects = "object" if times == 1 else "objects"
        click.echo(f"ignored: {times} {objects} of kind {kind or '(none)'}", err=True)


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
