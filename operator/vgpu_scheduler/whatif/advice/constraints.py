"""The constraints of a pod on nodes and cards that it may drop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from vgpu_scheduler.kube import Object
from vgpu_scheduler.model import by_name
from vgpu_scheduler.policy import OVERRIDES
from vgpu_scheduler.whatif.objects.containers import containers_of, with_containers
from vgpu_scheduler.whatif.objects.objects import annotations_in
from vgpu_scheduler.whatif.world.nodes import with_annotation
from vgpu_scheduler.whatif.world.world import World

_SCHEDULING: Final = (
    ("nodeSelector", "nodeSelector"),
    ("affinity.nodeAffinity", "node affinity"),
    ("affinity.podAffinity", "pod affinity"),
    ("affinity.podAntiAffinity", "pod anti-affinity"),
    ("topologySpreadConstraints", "topology spread constraints"),
)


_TCP: Final = "TCP"
HOST_PORT: Final = "hostPort"
"""The name of constraints that are host ports."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint that a pod may drop.

    Attributes
    ----------
    name
        The field below ``spec``, or the annotation's name.
    text
        The proposal.
    without
        The pod without the constraint.
    annotation
        The words of the proposal for the annotation; empty if the constraint is none.
    """

    name: str
    text: str
    without: Object
    annotation: str = ""


def annotations_that_count(world: World) -> tuple[str, ...]:
    """Return the names of annotations that may keep a pod from cards: requests, and overrides of policies."""
    return (*world.engine.dialects.pod_annotations, *OVERRIDES.values())


def constraints_of(written: Object, annotations: Iterable[str]) -> Iterator[Constraint]:
    """Yield the constraints of a pod as written, one by one.

    Parameters
    ----------
    annotations
        The names of annotations that are constraints.
    """
    spec = written.get("spec") or {}
    for path, words in _SCHEDULING:
        outer, _, inner = path.partition(".")
        if not (spec.get(outer) or {}) or (inner and not spec[outer].get(inner)):
            continue
        kept = {key: value for key, value in spec[outer].items() if key != inner} if inner else None
        without: Object = {**written, "spec": {**spec, outer: kept}}
        yield Constraint(path, f"leave out its {words} (spec.{path})", without)
    yield from _host_ports(written)
    given = annotations_in(written)
    for name in annotations:
        if name in given:
            words = annotation_words(name, given[name])
            yield Constraint(name, f"leave out {words}", with_annotation(written, name, ""), words)


def annotation_words(name: str, value: object) -> str:
    """Return how proposals call an annotation of a pod."""
    return f"its annotation {name} ({value})"


def _host_ports(written: Object) -> Iterator[Constraint]:
    """Yield the host ports of a pod, each with the pod without it, which stands for the use of another port."""
    asking: dict[tuple[int, str], list[str]] = {}
    for _, _, container in containers_of(written):
        for port in container.get("ports") or ():
            if port.get(HOST_PORT):
                asking.setdefault(_port_of(port), []).append(str(container.get("name", "")))
    is_of_node = (written.get("spec") or {}).get("hostNetwork")
    for (number, protocol), names in asking.items():
        port = f"{number}" if protocol == _TCP else f"{number}/{protocol}"
        which = by_name("container", names)
        text = f"use another host port than {port} in {which}{'' if is_of_node else ', or none and a Service'}"
        yield Constraint(HOST_PORT, text, _without_port(written, (number, protocol)))


def _port_of(port: Object) -> tuple[int, str]:
    return int(port[HOST_PORT]), str(port.get("protocol") or _TCP)


def _without_port(written: Object, taken: tuple[int, str]) -> Object:
    def change(container: Object) -> Object:
        ports = [
            {key: value for key, value in port.items() if key != HOST_PORT}
            if port.get(HOST_PORT) and _port_of(port) == taken
            else port
            for port in container.get("ports") or ()
        ]
        return {**container, "ports": ports} if ports else container

    return {**written, "spec": with_containers(written["spec"], change)}
