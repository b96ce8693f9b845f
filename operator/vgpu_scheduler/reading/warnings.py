"""Warnings about parts of a cluster that could not be read, and about likely mistakes in pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from vgpu_scheduler.engine import nodes_of_unlisted_dialects, offered_in_vain
from vgpu_scheduler.engine.equivalence import RefusedClass
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import Decision, counted, first_of
from vgpu_scheduler.policy import NAMESPACED_KIND
from vgpu_scheduler.reading.settings import DEFAULTS, SchedulerSettings
from vgpu_scheduler.reading.view import ClusterView
from vgpu_scheduler.settings import known_variables, unknown_variables
from vgpu_scheduler.whatif import World, admission_errors
from vgpu_scheduler.whatif.reasons.count_quotas import count_quotas, pods_by_namespace, unsaid_amounts, usage_in_quotas

IGNORED: Final = "ignored: "
"""The beginning of lines about objects that are left out, which are not warnings."""
_MOST_PROBLEMS: Final = 10
_MOST_NODES: Final = 5
_OF_NAMESPACES: Final = {"Pod", "ResourceQuota", "PersistentVolumeClaim", NAMESPACED_KIND}
"""The kinds that a user with rights in a namespace usually may read."""


def view_warnings(world: World, view: ClusterView) -> Iterator[str]:
    """Yield a line about each part of a cluster that could not be read or is left out, and about assumed settings."""
    for problem in world.problems[:_MOST_PROBLEMS]:
        yield f"warning: {problem}"
    if len(world.problems) > _MOST_PROBLEMS:
        yield f"warning: and {len(world.problems) - _MOST_PROBLEMS} more"
    yield from ignored_kinds(world.ignored)
    unseen = sorted(view.missing.items())
    if view.namespace:
        refused = [missing.resource for _, missing in unseen if missing.is_forbidden]
        unseen = [(kind, missing) for kind, missing in unseen if not missing.is_forbidden]
        if refused:
            first = sorted(refused, key=lambda name: (name != "nodes", name))
            seen = "nothing of namespace {}" if view.missing.keys() >= _OF_NAMESPACES else "namespace {} only"
            yield f"warning: you may read {seen.format(view.namespace)}: {', '.join(first)} are left out"
    for kind, missing in unseen:
        yield f"warning: objects of kind {kind} could not be read ({missing}): the answer assumes that there are none"
    if world.nodes and not view.live and not view.has_read("Pod"):
        yield f"warning: {view.origin}: there is no Pod among the objects: the answer assumes that no pod uses cards"
    yield from _unlisted_dialects(world)
    yield from _unregistered_cards(world)
    yield from settings_notes(view.scheduler)


def ignored_kinds(numbers: Mapping[str, int]) -> Iterator[str]:
    """Yield a line about each kind of objects that are left out, given their numbers."""
    for kind, number in sorted(numbers.items()):
        yield f"{IGNORED}{counted(number, 'object')} of kind {kind or '(none)'}"


def settings_notes(scheduler: SchedulerSettings) -> Iterator[str]:
    """Yield a line about settings that could not be read or are assumed, and about what the environment sets."""
    if scheduler.problem:
        yield f"warning: the settings of the cluster cannot be read: {scheduler.problem}"
    yield from (f"warning: {text}" for text in unknown_variables(scheduler.environment))
    variables = known_variables(scheduler.environment)
    also = f", with {', '.join(variables)} of the environment" if variables else ""
    if scheduler.is_assumed:
        defaults = scheduler.source.replace(DEFAULTS, "the defaults")
        yield f"settings: assumed ({defaults}{also}; use --config for others)"
    elif also:
        yield f"settings: {scheduler.source}{also}"


def _unlisted_dialects(world: World) -> Iterator[str]:
    """Warn about nodes whose cards are not known because the settings do not list their dialect."""
    for dialect, names in nodes_of_unlisted_dialects(world.engine).items():
        nodes, carry = ("node", "carries") if len(names) == 1 else ("nodes", "carry")
        yield (
            f"warning: {nodes} {first_of(names, _MOST_NODES)} {carry} the registration of dialect {dialect}, which the"
            f" setting dialects does not list: the answer does not include these cards"
        )


def _unregistered_cards(world: World) -> Iterator[str]:
    """Warn, as the doctor does, about nodes that offer cards that no device plugin registers."""
    nodes_offering: dict[tuple[str, ...], list[str]] = {}
    for name, offered in offered_in_vain(world.engine, world.pending.values()).items():
        nodes_offering.setdefault(tuple(offered), []).append(name)
    for resources, names in nodes_offering.items():
        nodes, offer = ("node", "offers") if len(names) == 1 else ("nodes", "offer")
        yield (
            f"warning: {nodes} {first_of(names, _MOST_NODES)} {offer} {', '.join(resources)}, but no device "
            "plugin has registered its cards, as with a vendor's own plugin: the answer does not include these "
            "cards"
            " (cards-not-registered in docs/doctor.md)"
        )


def creation_warnings(world: World, pods: Sequence[Pod], copies: int = 1) -> Iterator[str]:
    """Warn about quotas that are not simulated: the API server may refuse to create pods for them.

    Parameters
    ----------
    copies
        How many copies of each pod are created.
    """
    pods = [pod for pod in pods if pod.uid not in world.creation.refused]
    there, uids = pods_by_namespace(world), {pod.uid for pod in pods}
    for namespace in sorted({pod.namespace for pod in pods}):
        new = [pod for pod in pods if pod.namespace == namespace]
        others = [pod for pod in there.get(namespace, ()) if pod.uid not in uids]
        usages = [usage_in_quotas(world, pod) for pod in new]
        for quota in count_quotas(world, namespace, others):
            asked = copies * sum(map(quota.counted, usages))
            if asked and not quota.allows(asked):
                source = "according to its status" if quota.by_status else "by the pods that were read"
                yield (
                    f"{quota.title} allows {quota.limit} of {quota.name}, of which {quota.used} are used {source}"
                    ": the API server refuses pods beyond that when they are created, which is not "
                    "simulated"
                )
    lacking: dict[tuple[str, str], list[str]] = {}
    for pod in pods:
        for title, missing in unsaid_amounts(world, pod):
            lacking.setdefault((title, missing), []).append(pod.key)
    for (title, missing), keys in sorted(lacking.items()):
        yield (
            f"Pod {first_of(keys, 1)}: {missing}: {title} limits that, and the API server refuses pods that do not say"
            " it when they are created, which is not simulated"
        )


def claim_warnings(world: World, pod: Pod) -> tuple[str, ...]:
    """Return the warnings about a pod's annotations that have no effect as they are written."""
    read = world.engine.algorithm.classes.read(pod)
    return () if isinstance(read, RefusedClass) else read.warnings


def pod_warnings(
    world: World, pods: Iterable[Pod], decisions: Iterable[Decision] = (), *, undecided: bool = False
) -> Iterator[str]:
    """Yield likely mistakes in pods; equal ones of several pods come once.

    Parameters
    ----------
    decisions
        Decisions whose warnings are included.
    undecided
        Whether nothing is decided for lack of nodes: the warnings of decisions are derived from the pods then.
    """
    pods_by_text: dict[str, list[str]] = {}
    for pod in pods:
        of_claims = claim_warnings(world, pod) if undecided else ()
        for text in (*world.engine.request_warnings.of_pod(pod), *admission_errors(pod), *of_claims):
            pods_by_text.setdefault(text, []).append(pod.key)
    for decision in decisions:
        for text in decision.warnings:
            pods_by_text.setdefault(text, []).append(decision.pod)
    for text, keys in pods_by_text.items():
        yield f"Pod {first_of(keys, 1)}: {text}"
