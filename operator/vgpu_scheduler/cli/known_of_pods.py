"""What can be said of pods without the nodes: whether they are refused as they are, and how their quota stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import click

from vgpu_scheduler.cli.cluster.options import FOR_PEOPLE
from vgpu_scheduler.cli.cluster.output import dump
from vgpu_scheduler.cli.cluster.schedulers import is_ours, left_to_whom
from vgpu_scheduler.cli.cluster.view import ClusterView
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Outcome
from vgpu_scheduler.settings import Settings
from vgpu_scheduler.whatif import WORKLOADS, NamespaceObjects, World, ask, claims_of, known_problems, quotas_in_the_way

__all__ = ["Known", "known_of", "known_of_all", "show_known"]

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a pod.

    Attributes
    ----------
    refused
        Why no node whatsoever would do; empty if one may.
    reasons
        What else keeps it, and what has to be done about it.
    quota
        How its namespace stands; empty without limits.
    exceeded
        Whether the namespace would hold more than it may.
    """

    pod: str
    refused: str
    quota: str
    exceeded: bool
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Word it."""
        said = [self.refused] if self.refused else []
        said += [f"its quota keeps it waiting ({self.quota})"] if self.exceeded else []
        said += self.reasons
        if said:
            return f"{self.pod}: {'; '.join(said)}"
        nothing = "nothing that is known keeps it from being placed"
        return f"{self.pod}: {nothing}{f' ({self.quota})' if self.quota else ''}"


def known_of(world: World, pod: Pod, seen: NamespaceObjects, settings: Settings, *, waits: bool) -> Known:
    """Return what is known of a pod in a world without nodes.

    Parameters
    ----------
    seen
        The objects of its namespace.
    waits
        Whether it is there, names its scheduler itself, and may have a condition.
    """
    engine = world.engine
    decision = ask(world, pod).decision
    refused = "; ".join(decision.reasons) if decision.outcome is Outcome.REFUSED else ""
    others = waits and not is_ours(pod.scheduler_name, settings)  # our quotas do not hold their pods
    exceeded = not refused and not others and bool(quotas_in_the_way(world, pod))
    reasons = list(known_problems(world, pod, seen))
    if waits:
        if others:
            reasons.insert(0, left_to_whom(pod.scheduler_name, settings).rstrip("."))
        condition = pod.scheduled_condition
        if condition is not None and condition.message and condition.message.strip(". ") not in refused:
            reasons.append(f"its condition says: {condition.message}")
    return Known(pod.key, refused, engine.quotas.describe(pod.namespace, engine.state), exceeded, tuple(reasons))


def known_of_all(
    world: World, view: ClusterView, waiting: Sequence[Pod], new: Sequence[Pod], written: Sequence[Object]
) -> list[Known]:
    """Return what is known of pods that wait, and of those that files ask about.

    Parameters
    ----------
    written
        What the files hold.
    """
    made = [claim for obj in written if obj.get("kind") in WORKLOADS for claim in claims_of(obj)]
    made = [{"kind": "PersistentVolumeClaim", **claim} for claim in made]
    seen = NamespaceObjects.among([*view.objects, *written, *made], view.missing)
    settings = view.scheduler.settings
    return [
        *(known_of(world, pod, seen, settings, waits=True) for pod in waiting),
        *(known_of(world, pod, seen, settings, waits=False) for pod in new),
    ]


def show_known(found: Sequence[Known], output: str) -> None:
    """Print it."""
    if output not in FOR_PEOPLE:
        dump([asdict(each) for each in found], output)
    for each in found if output in FOR_PEOPLE else ():
        click.echo(str(each))
