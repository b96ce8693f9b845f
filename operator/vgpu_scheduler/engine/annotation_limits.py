"""Limits that a Binding does not check: it bypasses validation and can poison a pod for every later patch."""

from __future__ import annotations

from collections.abc import Mapping

from vgpu_scheduler.kube import Pod

ANNOTATIONS_LIMIT = 256 * 1024
"""Bytes of all annotation keys and values of an object together (apimachinery's ``TotalAnnotationSizeLimitB``)."""
DECISION_ROOM = 8 * 1024
"""Bytes kept free for the decision record, which names up to five policies for each section, and the time stamps."""


def metadata_problem(pod: Pod, annotations: Mapping[str, str]) -> str:
    """Return why the annotations must not be written onto the pod, or an empty text."""
    merged = {**pod.annotations, **annotations}
    size = sum(map(len, map(str.encode, (*merged, *merged.values()))))
    if size + DECISION_ROOM > ANNOTATIONS_LIMIT:
        return (
            f"metadata.annotations would be {size} bytes with the allocation, more than the {ANNOTATIONS_LIMIT} that "
            "the API server accepts"
        )
    return ""
