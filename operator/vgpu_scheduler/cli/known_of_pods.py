"""What can be said of pods without the nodes: whether they are refused as they are, and how their quota stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import click

from vgpu_scheduler.cli.cluster.options import FOR_PEOPLE
from vgpu_scheduler.cli.cluster.output import dump
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Outcome
from vgpu_scheduler.whatif import World, ask

__all__ = ["Known", "known_of", "show_known"]


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a pod.

    Attributes
    ----------
    refused
        Why no node whatsoever would do; empty if one may.
    quota
        How its namespace stands; empty without limits.
    exceeded
        Whether the namespace would hold more than it may.
    """

    pod: str
    refused: str
    quota: str
    exceeded: bool

    def __str__(self) -> str:
        """Word it."""
        if self.refused:
            return f"{self.pod}: {self.refused}"
        said = "its quota keeps it waiting" if self.exceeded else "nothing that is known keeps it from being placed"
        return f"{self.pod}: {said}{f' ({self.quota})' if self.quota else ''}"


def known_of(world: World, pod: Pod) -> Known:
    """Return what is known of a pod in a world without nodes."""
    engine = world.engine
    decision = ask(world, pod).decision
    refused = "; ".join(decision.reasons) if decision.outcome is Outcome.REFUSED else ""
    exceeded = not refused and engine.quotas.refuses(pod.namespace, engine.cycle.classes.claims(pod), engine.state)
    return Known(pod.key, refused, engine.quotas.describe(pod.namespace, engine.state), exceeded)


def show_known(found: Sequence[Known], output: str) -> None:
    """Print it."""
    if output not in FOR_PEOPLE:
        dump([asdict(each) for each in found], output)
    for each in found if output in FOR_PEOPLE else ():
        click.echo(str(each))
