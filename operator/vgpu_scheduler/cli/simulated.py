"""Output of ``vgpu-scheduler simulate``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Final

import click

from vgpu_scheduler.cli.cluster.options import FOR_PEOPLE, WIDE
from vgpu_scheduler.cli.cluster.output import dump, table
from vgpu_scheduler.forecast import Forecast, NoForecast
from vgpu_scheduler.model import counted
from vgpu_scheduler.whatif import MOST_COPIES, Capacity, PodResult, explain, number, victim_row

_HEAD: Final = ("pod", "outcome", "node", "cards", "score", "policies")
_VICTIMS_HEAD: Final = ("pod", "priority", "cards", "against the budget", "node", "for")


def show_answers(
    answers: Sequence[PodResult], forecasts: Mapping[str, Forecast | NoForecast], *, explained: bool, wide: bool
) -> None:
    """Print where pods go, their victims, and forecasts of waiting times."""
    click.echo(table([_row(answer) for answer in answers], _HEAD, wide=wide))
    if victims := [row for answer in answers for row in _victims(answer)]:
        click.echo(f"\nPods that would be evicted ({counted(len(victims), 'pod')}):")
        click.echo(table(victims, _VICTIMS_HEAD, wide=wide) + "\n")
    for answer in answers:
        if explained:
            click.echo("\n" + explain(answer, wide=wide))
        elif answer.decision.message or answer.after:
            click.echo(f"{answer.pod.key}: {_message(answer)}")
        if waits := forecasts.get(answer.pod.uid):
            click.echo(f"{answer.pod.key}: {waits.text()}")


def _message(answer: PodResult) -> str:
    """Say why a pod is not placed, with the state of its quotas, or why it is bound later."""
    return _with_quotas(answer.decision.message or answer.after, answer.quotas)


def _with_quotas(told: str, quotas: str) -> str:
    return f"{told} ({quotas})" if quotas else told


def _victims(answer: PodResult) -> list[tuple[str, ...]]:
    """Return a row for each victim of a pod."""
    found = answer.preemption
    return (
        []
        if found is None
        else [(*victim_row(each), each.node or found.node, answer.pod.key) for each in found.victims]
    )


def _row(answer: PodResult) -> tuple[str, ...]:
    """Return a row of the table; its policies are those of the pod's sections, or the settings if there are none."""
    sources = list(dict.fromkeys(chain.from_iterable(answer.sources.values())))
    return (
        answer.pod.key,
        answer.outcome,
        answer.node or "-",
        ",".join(answer.cards) or "-",
        number(answer.decision.score) if answer.node else "-",
        ", ".join([each for each in sources if " " in each] or sources) or "-",
    )


def show_capacities(capacities: Sequence[Capacity], output: str) -> None:
    """Print how many copies of pods fit."""
    if output not in FOR_PEOPLE:
        dump([capacity.as_json() for capacity in capacities], output)
        return
    for capacity in capacities:
        show_capacity(capacity.as_json(), wide=output == WIDE)


def show_capacity(capacity: Mapping[str, Any], *, wide: bool) -> None:
    """Print how many copies of a pod fit, given as plain values."""
    at_least = "at least " if capacity["count"] == MOST_COPIES else ""
    click.echo(f"{at_least}{capacity['count']} of {capacity['pod']} fit.")
    if capacity.get("nodes"):
        click.echo(table(list(capacity["nodes"].items()), ("node", "pods"), wide=wide))
    if message := capacity.get("message"):
        click.echo(f"The next one: {_with_quotas(message, capacity.get('quotas', ''))}")
