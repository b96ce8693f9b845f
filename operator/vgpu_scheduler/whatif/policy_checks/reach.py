"""Find policy fields that match nothing in a cluster, such as a selector without pods or a model without cards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from vgpu_scheduler.kube import Object, Pod, compile_label_selector
from vgpu_scheduler.model import did_you_mean, names_model
from vgpu_scheduler.policy import NAMESPACED_KIND, PolicyResource, decode_policy, title
from vgpu_scheduler.whatif.reasons.causes import describe_selector
from vgpu_scheduler.whatif.world.nodes import nodes_with
from vgpu_scheduler.whatif.world.world import World

_MOST_NAMED: Final = 6


def matches_nothing(world: World, written: Object, pods: Iterable[Pod]) -> Iterator[str]:
    """Yield a sentence for each field of a policy that matches nothing; none for an invalid policy.

    Parameters
    ----------
    written
        The policy.
    pods
        Pods to consider in addition to those of the world.
    """
    name = title(decode_policy(written))
    yield from (f"{name}: {text}" for text in fields_matching_nothing(world, written, pods))


def fields_matching_nothing(world: World, written: Object, pods: Iterable[Pod] | None) -> Iterator[str]:
    """Yield a sentence for each field of a policy that matches nothing; fields about pods only if ``pods`` is given.

    The parameters are those of :func:`matches_nothing`.
    """
    policy = decode_policy(written)
    if not policy.error:
        yield from _of_pods(world, written, policy, pods) if pods is not None else ()
        yield from _of_nodes(world, written)


def _of_pods(world: World, written: Object, policy: PolicyResource, pods: Iterable[Pod]) -> Iterator[str]:
    spec = written.get("spec") or {}
    everybody = [*world.present_pods, *pods]
    homes = _namespaces(world, policy, everybody)
    if not homes:
        if written.get("kind") == NAMESPACED_KIND:
            yield f"metadata.namespace: there are neither pods nor a namespace {policy.namespace}"
        else:
            selector = describe_selector(spec["namespaceSelector"])
            yield f"spec.namespaceSelector ({selector}) matches no namespace"
    elif policy.selector is not None and not any(
        policy.selects_pod(pod.labels) for pod in everybody if pod.namespace in homes
    ):
        within = "" if homes >= set(world.namespaces) else " of the namespaces that the policy selects"
        yield f"spec.selector ({describe_selector(spec['selector'])}) matches no pod{within}"


def _of_nodes(world: World, written: Object) -> Iterator[str]:
    spec = written.get("spec") or {}
    if (nodes := compile_label_selector(spec.get("nodeSelector"))) is not None and not nodes_with(world, nodes):
        yield f"spec.nodeSelector ({describe_selector(spec['nodeSelector'])}) matches no node"
    yield from _of_cards(world, spec.get("devices") or {})


def _namespaces(world: World, policy: PolicyResource, pods: Iterable[Pod]) -> set[str]:
    """Return the existing namespaces that a policy selects."""
    known = world.namespaces
    names = {pod.namespace for pod in pods} | known.keys()
    return {name for name in names if policy.selects_namespace(name, known.get(name, {}))}


def _of_cards(world: World, devices: Object) -> Iterator[str]:
    if not (devices.get("types") or devices.get("modes")):
        return
    listed = [device for _, _, device in world.listed_devices()]
    models, modes = sorted({device.type for device in listed}), {device.mode for device in listed}
    types = devices.get("types") or {}
    for field in ("allow", "deny"):
        for part in types.get(field) or ():
            if not any(names_model(part, model) for model in models):
                near = did_you_mean(part, models)
                there = ", ".join(models[:_MOST_NAMED]) + (", …" if len(models) > _MOST_NAMED else "")
                yield f"spec.devices.types.{field}: no card is a {part}{near}; there are {there or 'no cards'}"
    for mode in devices.get("modes") or ():
        if mode not in modes:
            yield f"spec.devices.modes: no card is in mode {mode}"
