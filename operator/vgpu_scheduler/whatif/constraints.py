"""What a pod says that keeps it from nodes and cards, and may leave out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from vgpu_scheduler.policy import OVERRIDES
from vgpu_scheduler.whatif.nodes import with_annotation
from vgpu_scheduler.whatif.world import World

__all__ = ["Constraint", "annotations_that_count", "constraints_of"]

Object = Mapping[str, Any]

_SCHEDULING: Final = (
    ("nodeSelector", "nodeSelector"),
    ("affinity.nodeAffinity", "node affinity"),
    ("affinity.podAffinity", "pod affinity"),
    ("affinity.podAntiAffinity", "pod anti-affinity"),
    ("topologySpreadConstraints", "topology spread constraints"),
)


@dataclass(frozen=True, slots=True)
class Constraint:
    """Something that a pod may leave out.

    Attributes
    ----------
    name
        The field below ``spec``, or the annotation.
    text
        What is to be done, in words.
    without
        The pod without it.
    """

    name: str
    text: str
    without: Object


def annotations_that_count(world: World) -> tuple[str, ...]:
    """Return the names of the annotations that may keep a pod from cards: what it asks for, and how they are chosen."""
    return (*world.engine.dialects.pod_annotations, OVERRIDES["devicePolicy"])


def constraints_of(written: Object, annotations: Iterable[str]) -> Iterator[Constraint]:
    """Yield the constraints of a pod, as it is written, one by one.

    Parameters
    ----------
    annotations
        The names of those that count.
    """
    spec = written.get("spec") or {}
    for path, words in _SCHEDULING:
        outer, _, inner = path.partition(".")
        if not (spec.get(outer) or {}) or (inner and not spec[outer].get(inner)):
            continue
        kept = {key: value for key, value in spec[outer].items() if key != inner} if inner else None
        without: Object = {**written, "spec": {**spec, outer: kept}}
        yield Constraint(path, f"leave out its {words} (spec.{path})", without)
    given = (written.get("metadata") or {}).get("annotations") or {}
    for name in annotations:
        if name in given:
            yield Constraint(
                name, f"leave out its annotation {name} ({given[name]})", with_annotation(written, name, "")
            )
