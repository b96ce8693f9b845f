"""Pods that are to be created, as the admission webhook completes what they ask of cards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from vgpu_scheduler.admission import AdmissionRules, is_exempt, review
from vgpu_scheduler.settings import Settings
from vgpu_scheduler.whatif import World, WorldError
from vgpu_scheduler.whatif.objects.containers import containers_of

__all__ = ["as_admitted", "is_left_out"]

_ON: Final = "placed as the admission webhook completes it, which asks {}"
_OFF: Final = "placed as it is written; an admission webhook (HAMi's, or admission.enabled) would have it ask {}"
_REFUSED: Final = "placed as it is written, though the admission webhook refuses it: {}"


def as_admitted(
    world: World, settings: Settings, pods: Sequence[Mapping[str, Any]], namespace: str
) -> tuple[Sequence[Mapping[str, Any]], str]:
    """Return pods as they are stored, and a part of a sentence where that asks something else of cards than is written.

    Parameters
    ----------
    pods
        Those of one template, as they are written; at least one. They ask the same, so what is done is decided once.
    """
    pod, engine, chosen = pods[0], world.engine, settings.admission
    if is_left_out(world, settings, pod, namespace):
        return pods, ""
    rules = AdmissionRules(
        engine.dialects,
        settings.scheduler_names,
        chosen.overwrite_default_scheduler or not chosen.enabled,
        engine.policies.claim_defaults,
    )
    verdict = review(pod, namespace, rules)
    if verdict.pod is None:
        return pods, _REFUSED.format(verdict.message) if chosen.enabled else ""
    if not verdict.changed or _claims(world, pod) == _claims(world, verdict.pod):
        return pods, ""
    told = " and ".join(_differences(pod, verdict.pod))
    if not chosen.enabled:
        return pods, _OFF.format(told)
    others = (review(other, namespace, rules).pod or other for other in pods[1:])
    return [verdict.pod, *others], _ON.format(told)


def is_left_out(world: World, settings: Settings, pod: Mapping[str, Any], namespace: str) -> bool:
    """Tell whether the webhook is not asked about a pod of a namespace, whose labels are none where it is not known."""
    labels = (pod.get("metadata") or {}).get("labels") or {}
    return is_exempt(labels, world.namespaces.get(namespace, {}), namespace, settings.lease.namespace)


def _claims(world: World, pod: Mapping[str, Any]) -> object:
    """Return what a pod claims; nothing where it is refused, or cannot be read."""
    try:
        read = world.pod(pod, again=True)
    except WorldError:
        return None
    return world.engine.algorithm.classes.claims(read), world.engine.usage_warnings_of(read)


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Yield in which amounts containers differ."""
    for (_, _, one), (_, _, other) in zip(containers_of(before), containers_of(after), strict=True):
        asked, then = ((each.get("resources") or {}).get("limits") or {} for each in (one, other))
        for name, amount in then.items():
            if str(asked.get(name)) != str(amount):
                instead = f" instead of {asked[name]}" if name in asked else ""
                yield f"{amount} of {name}{instead} in container {one.get('name', '')}"
