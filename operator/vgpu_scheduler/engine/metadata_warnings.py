"""Finds labels and annotations of pods that are misspelt, or that are read from the other of the two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from vgpu_scheduler.dialects import Dialects
from vgpu_scheduler.engine.device_names import OF_OTHER_PLUGINS, near_names, remembered
from vgpu_scheduler.groups import POD_ANNOTATIONS, POD_LABELS, PREFERRED_TOPOLOGY, REQUIRED_TOPOLOGY, membership
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import DECISION, BoundedCache, closest
from vgpu_scheduler.policy import OVERRIDES

_ALIKE: Final = 0.9
"""How similar names without a slash must be, of which the domain is the most part."""
_OF_OTHERS: Final = frozenset(
    f"kueue.x-k8s.io/podset-{name}"
    for name in (
        "group-name",
        "slice-preferred-topology",
        "slice-required-topology",
        "slice-size",
        "unconstrained-topology",
    )
)
"""Annotations that controllers read, and that resemble known ones."""
_MOST_BYTES: Final = 2**20
"""Memory for remembered suggestions: about 2,000 names of each kind."""


class MetadataWarnings:
    """Checks the labels and annotations of pods.

    Parameters
    ----------
    dialects
        The dialects in use.
    """

    def __init__(self, dialects: Dialects) -> None:
        written = (name for dialect in dialects for name in dialect.allocation.written)
        of_groups = (*POD_ANNOTATIONS, REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY)
        own = (*dialects.pod_annotations, *OVERRIDES.values(), DECISION, *written)
        self._annotations = frozenset((*own, *of_groups))
        self._labels = frozenset((*dialects.pod_labels, *POD_LABELS))
        self._resources = dialects.resources
        self._near_annotations: BoundedCache[str, str] = BoundedCache(_MOST_BYTES)
        self._near_labels: BoundedCache[str, str] = BoundedCache(_MOST_BYTES)

    def of_pod(self, pod: Pod) -> Iterator[str]:
        """Yield sentences about names that have no effect, and about the ones that are probably meant."""
        for name in pod.annotations:
            if name in self._resources and name not in self._annotations:
                yield f"annotation {name} has no effect: it is a resource, and belongs in the limits of a container"
            elif meant := remembered(name, self._near_annotations, self._annotation):
                yield f"annotation {name} has no effect, did you mean {meant}?"
        for name in pod.labels:
            meant = remembered(name, self._near_labels, self._label)
            if meant and meant not in pod.labels:
                yield f"label {name} has no effect, did you mean {meant}?"
        if membership(pod) is None:
            for name in POD_LABELS:
                if name in pod.annotations and name not in pod.labels:
                    yield f"annotation {name} has no effect: it is read from the labels of pods"
            for name in POD_ANNOTATIONS:
                if name in pod.labels and name not in pod.annotations:
                    yield f"label {name} has no effect: it is read from the annotations of pods"

    def _annotation(self, name: str) -> str:
        is_right = name in self._annotations or name in self._labels or name in _OF_OTHERS or name in OF_OTHER_PLUGINS
        return "" if is_right else _near(name, self._annotations)

    def _label(self, name: str) -> str:
        return "" if name in self._labels or name in self._annotations else _near(name, self._labels)


def _near(name: str, known: Iterable[str]) -> str:
    if "/" in name:
        return next((other for _, other in near_names(name, known)), "")
    return closest(name, (other for other in known if "/" not in other), _ALIKE)
