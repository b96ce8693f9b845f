"""Pods that do not name this scheduler: which scheduler places them, and how they come to name this one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vgpu_scheduler.admission import DEFAULT_SCHEDULER, AdmissionRules, review
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.predicates.reasons import insufficient, rejections_in
from vgpu_scheduler.reading.admitted_form import is_left_out
from vgpu_scheduler.settings import Settings
from vgpu_scheduler.whatif import World
from vgpu_scheduler.whatif.objects.schedulers import meant_scheduler


def is_ours(named: str, settings: Settings) -> bool:
    """Tell whether this scheduler has a name."""
    return named in settings.scheduler_names


def left_to_whom(named: str, settings: Settings) -> str:
    """Return a sentence, without its full stop, that this scheduler does not place a pending pod."""
    ours = ", ".join(settings.scheduler_names)
    if named == DEFAULT_SCHEDULER or named in settings.coexist_with:
        return f"It names the scheduler {named}: vgpu-scheduler places pods of {ours} only"
    meant = _meant(named, settings)
    other = "" if meant else "; if a scheduler of that name runs in the cluster, list it in coexist_with"
    said = f"it names the scheduler {named}{meant}"
    return f"No scheduler known here places it: {said}, and vgpu-scheduler places pods of {ours} only{other}"


def announced_for(pod: Pod, node: str) -> str:
    """Return a sentence that a pod's scheduler has announced it for a node without having bound it."""
    counted = "the announced resources count as used meanwhile"
    return f"{pod.key} is announced for {node} by {pod.scheduler_name}, which has not bound it yet: {counted}."


def assumed_scheduler_note(world: World, settings: Settings, pod: Mapping[str, Any], namespace: str) -> str:
    """Say that a new pod is placed as if it named this scheduler; empty if it does name it.

    Parameters
    ----------
    pod
        The pod as written.
    """
    spec = pod.get("spec")
    named = str(spec.get("schedulerName") or "") if isinstance(spec, Mapping) else ""
    if is_ours(named, settings):
        return ""
    said = f"is {named}{_meant(named, settings)}" if named else "is not set"
    if _webhook_names(world, settings, pod, namespace):
        how = "the admission webhook writes that name"
    elif settings.admission.enabled:
        how = "write that name, because the admission webhook does not set it"
    elif is_left_out(world, settings, pod, namespace):
        how = "write that name"
    else:
        how = "write that name, or have the admission webhook do so (admission.enabled)"
    return f"spec.schedulerName {said}: placed as if it were {settings.scheduler_names[0]}; {how}"


def named_anew(named: str, settings: Settings) -> str:
    """Return what to do about a pod whose scheduler is unknown; empty if it is known."""
    if named == DEFAULT_SCHEDULER or is_served(named, settings):
        return ""
    meant = meant_scheduler(named, settings.scheduler_names, settings.coexist_with)
    text = _create_anew(named, meant or settings.scheduler_names[0])
    return text if meant else f"{text}, unless a scheduler of that name runs in the cluster"


def named_anew_for_cards(world: World, pod: Pod, settings: Settings) -> str:
    """Return what to do about a pod whose scheduler is unknown, or does not place its cards; empty if it may do so.

    The default scheduler can place whole cards of another device plugin under the names of ours, but nothing that no
    kubelet offers.
    """
    named = pod.scheduler_name
    if named != DEFAULT_SCHEDULER or is_served(named, settings):
        return named_anew(named, settings)
    text = _create_anew(named, settings.scheduler_names[0])
    if asks_beyond_kubelets(world, pod):
        return text
    return f"if shares of cards are meant, {text}" if asks_for_ours(world, pod) else ""


def asks_beyond_kubelets(world: World, pod: Pod) -> bool:
    """Tell whether a pod asks for device resources that no kubelet offers: no other scheduler finds a node for it."""
    return not world.engine.dialects.unknown_to_kubelet.isdisjoint(pod.spec.resource_names)


def lacks_beyond_kubelets(world: World, pod: Pod, message: str) -> bool:
    """Tell whether a pod's condition says that nodes lack such resources, which this scheduler never says."""
    _, lacking = rejections_in(message)
    unknown = world.engine.dialects.unknown_to_kubelet.intersection(pod.spec.resource_names)
    return any(insufficient(name).text in lacking for name in unknown)


def asks_for_ours(world: World, pod: Pod) -> bool:
    """Tell whether a pod asks for device resources of the settings."""
    return not pod.spec.resource_names.keys().isdisjoint(world.engine.dialects.resources)


def is_served(named: str, settings: Settings) -> bool:
    """Tell whether device plugins serve the pods of a scheduler: of this one, and of those that it coexists with."""
    return named in {*settings.coexist_with, *settings.scheduler_names}


def _create_anew(named: str, ours: str) -> str:
    return f"create it anew with spec.schedulerName: {ours} instead of {named}"


def _meant(named: str, settings: Settings) -> str:
    """Return a question, in parentheses, whether one of our names is meant; empty if none is similar."""
    meant = meant_scheduler(named, settings.scheduler_names, settings.coexist_with)
    return f" (is {meant} meant?)" if meant else ""


def _webhook_names(world: World, settings: Settings, pod: Mapping[str, Any], namespace: str) -> bool:
    """Tell whether the admission webhook is on and sets this scheduler's name in a pod."""
    if not settings.admission.enabled or is_left_out(world, settings, pod, namespace):
        return False
    engine, chosen = world.engine, settings.admission
    rules = AdmissionRules(
        engine.dialects, settings.scheduler_names, chosen.overwrite_default_scheduler, engine.policies.claim_defaults
    )
    reviewed = review(pod, namespace, rules).pod
    return reviewed is not None and reviewed["spec"].get("schedulerName") in settings.scheduler_names
