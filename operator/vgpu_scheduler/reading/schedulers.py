"""Pods that do not name this scheduler: who places them, and how they come to name it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vgpu_scheduler.admission import DEFAULT_SCHEDULER, AdmissionRules, review
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.reading.admitted_form import is_left_out
from vgpu_scheduler.settings import Settings
from vgpu_scheduler.whatif import World
from vgpu_scheduler.whatif.objects.schedulers import meant_scheduler


def is_ours(named: str, settings: Settings) -> bool:
    """Tell whether pods that name a scheduler are placed by this one."""
    return named in settings.scheduler_names


def left_to_whom(named: str, settings: Settings) -> str:
    """Say that this scheduler does not place a pod that waits, in a sentence without its full stop."""
    ours = ", ".join(settings.scheduler_names)
    if named == DEFAULT_SCHEDULER or named in settings.coexist_with:
        return f"It is left to the scheduler {named}, which it names: vgpu-scheduler places pods of {ours} only"
    said = f"it names the scheduler {named}{_meant(named, settings)}"
    return f"Nobody places it here: {said}, and vgpu-scheduler places pods of {ours} only"


def announced_for(pod: Pod, node: str) -> str:
    """Say that the scheduler of a pod has announced it for a node, and has not bound it, in a sentence."""
    counted = "what it announced counts as used meanwhile"
    return f"{pod.key} is announced for {node} by {pod.scheduler_name}, which has not bound it yet: {counted}."


def assumed_scheduler_note(world: World, settings: Settings, pod: Mapping[str, Any], namespace: str) -> str:
    """Say that a pod which is to be created is placed as if it named this scheduler; empty for one that does.

    Parameters
    ----------
    pod
        As it is written.
    """
    spec = pod.get("spec")
    named = str(spec.get("schedulerName") or "") if isinstance(spec, Mapping) else ""
    if is_ours(named, settings):
        return ""
    said = f"is {named}{_meant(named, settings)}" if named else "is not set"
    if _webhook_names(world, settings, pod, namespace):
        how = "the admission webhook writes that name"
    elif settings.admission.enabled:
        how = "write that name, for the admission webhook leaves it alone"
    elif is_left_out(world, settings, pod, namespace):
        how = "write that name"
    else:
        how = "write that name, or have the admission webhook do so (admission.enabled)"
    return f"spec.schedulerName {said}: placed as if it were {settings.scheduler_names[0]}; {how}"


def named_anew(named: str, settings: Settings) -> str:
    """Return what to do about a pod that waits for a scheduler which is nobody's; empty where it is somebody's."""
    if named in {DEFAULT_SCHEDULER, *settings.coexist_with, *settings.scheduler_names}:
        return ""
    meant = meant_scheduler(named, settings.scheduler_names, settings.coexist_with)
    text = f"create it anew with spec.schedulerName: {meant or settings.scheduler_names[0]} instead of {named}"
    return text if meant else f"{text}, unless a scheduler of that name runs in the cluster"


def _meant(named: str, settings: Settings) -> str:
    """Ask in brackets whether one of our names is meant."""
    meant = meant_scheduler(named, settings.scheduler_names, settings.coexist_with)
    return f" (is {meant} meant?)" if meant else ""


def _webhook_names(world: World, settings: Settings, pod: Mapping[str, Any], namespace: str) -> bool:
    """Tell whether the admission webhook is on, and writes this scheduler's name into a pod."""
    if not settings.admission.enabled or is_left_out(world, settings, pod, namespace):
        return False
    engine, chosen = world.engine, settings.admission
    rules = AdmissionRules(
        engine.dialects, settings.scheduler_names, chosen.overwrite_default_scheduler, engine.policies.claim_defaults
    )
    reviewed = review(pod, namespace, rules).pod
    return reviewed is not None and reviewed["spec"].get("schedulerName") in settings.scheduler_names
