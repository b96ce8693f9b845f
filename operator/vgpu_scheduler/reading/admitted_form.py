"""New pods as the admission webhook completes their card requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from vgpu_scheduler.admission import AdmissionRules, is_exempt, review
from vgpu_scheduler.settings import Settings
from vgpu_scheduler.whatif import InvalidObjectsError, World
from vgpu_scheduler.whatif.objects.containers import containers_of

_ON: Final = "placed as the admission webhook changes it: it asks for {}"
_OFF: Final = "placed as it is written; an admission webhook (HAMi's, or admission.enabled) would make it ask for {}"
_REFUSED: Final = "placed as it is written, though the admission webhook refuses it: {}"


def as_admitted(
    world: World, settings: Settings, pods: Sequence[Mapping[str, Any]], namespace: str
) -> tuple[Sequence[Mapping[str, Any]], str]:
    """Return pods as they are stored, and a note if the webhook changes their card requests, or refuses them.

    Parameters
    ----------
    pods
        The pods of one template, as written; at least one. Their requests are equal, so one review serves all.
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
    """Tell whether the webhook skips pods of a namespace; an unknown namespace counts as one without labels."""
    labels = (pod.get("metadata") or {}).get("labels") or {}
    return is_exempt(labels, world.namespaces.get(namespace, {}), namespace, settings.lease.namespace)


def _claims(world: World, pod: Mapping[str, Any]) -> object:
    """Return the claims of a pod with warnings about its requests; None if the pod is refused, or cannot be read."""
    try:
        read = world.pod(pod, again=True)
    except InvalidObjectsError:
        return None
    return world.engine.algorithm.classes.claims(read), world.engine.request_warnings_of(read)


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Yield the differences between the limits of two versions of a pod."""
    for (_, _, one), (_, _, other) in zip(containers_of(before), containers_of(after), strict=True):
        asked, then = ((each.get("resources") or {}).get("limits") or {} for each in (one, other))
        for name, amount in then.items():
            if str(asked.get(name)) != str(amount):
                instead = f" instead of {asked[name]}" if name in asked else ""
                yield f"{amount} of {name}{instead} in container {one.get('name', '')}"
