"""New pods under the LimitRanges of their namespace: with their defaults, and why the API server refuses them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from vgpu_scheduler.kube import (
    DefaultAmount,
    LimitRange,
    Object,
    QuantityError,
    default_refusals,
    pod_refusals,
    with_range_defaults,
)
from vgpu_scheduler.whatif.objects.admission import with_defaults


class LimitedPod(NamedTuple):
    """A pod with the defaults of LimitRanges.

    Attributes
    ----------
    taken
        The defaults that it took, each with its LimitRange.
    """

    pod: Object
    taken: Sequence[tuple[LimitRange, DefaultAmount]]

    @property
    def notes(self) -> Iterator[str]:
        """What it took, in words: a sentence for each LimitRange."""
        by_range: dict[str, dict[str, list[str]]] = {}
        for limit_range, each in self.taken:
            of_container = by_range.setdefault(limit_range.title, {}).setdefault(each.container, [])
            of_container.append(f"{each.place.removesuffix('s')} {each.amount} of {each.resource}")
        for title, containers in by_range.items():
            told = "; ".join(f"container {name}: {', '.join(amounts)}" for name, amounts in containers.items())
            yield f"it gets the defaults of {title} ({told})"


def as_limited(pod: Object, ranges: Sequence[LimitRange]) -> LimitedPod:
    """Return a new pod with the defaults of the LimitRanges of its namespace, in their order.

    Parameters
    ----------
    pod
        A well-formed pod as it is written; it is returned as it is where it takes no default.
    """
    found, taken = with_defaults(pod, {}), list[tuple[LimitRange, DefaultAmount]]()
    for each in ranges:
        found, more = with_range_defaults(found, each)
        taken += ((each, default) for default in more)
    return LimitedPod(found if taken else pod, taken)


def limit_refusals(limited: LimitedPod, ranges: Sequence[LimitRange]) -> Iterator[str]:
    """Yield why the API server refuses a pod for the LimitRanges of its namespace, in its words.

    Parameters
    ----------
    limited
        A pod that has taken the defaults of these LimitRanges, and what a webhook has added to it since.
    """
    pod = with_defaults(limited.pod, {})
    try:
        for each in ranges:
            yield from (f"{each.title}: {refusal}" for refusal in pod_refusals(pod, each))
        if limited.taken:
            titles = " and ".join(dict.fromkeys(each.title for each, _ in limited.taken))
            of_defaults = default_refusals(pod, (default for _, default in limited.taken))
            yield from (f"with the defaults of {titles}: {refusal}" for refusal in of_defaults)
    except QuantityError as error:  # an amount of the pod itself, which decisions do not read
        yield f"spec.resources: {error}"
