"""Unit tests for policies: each has a small cluster, a pod and the expected decision.

Nodes and pods may be written in short forms, or as Kubernetes objects (recognised by ``metadata``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final

from pydantic import Field, ValidationError

from vgpu_scheduler.admission import DEFAULT_SCHEDULER
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model.policy_settings import PolicySettings
from vgpu_scheduler.whatif.explanation.preempting import take_up_preemptions
from vgpu_scheduler.whatif.objects.objects import InvalidObjectsError, namespace_of
from vgpu_scheduler.whatif.objects.schedulers import meant_scheduler
from vgpu_scheduler.whatif.policy_checks.expectation import Expectation, Texts
from vgpu_scheduler.whatif.policy_checks.forms import (
    RunningPod,
    ShortNode,
    ShortPod,
    StrictForm,
    in_full,
    one_in_full,
    problems,
)
from vgpu_scheduler.whatif.world.options import plain_options
from vgpu_scheduler.whatif.world.simulation import PodResult, simulate, with_preempted
from vgpu_scheduler.whatif.world.tables import explain
from vgpu_scheduler.whatif.world.world import World

_LISTS: Final = ("nodes", "objects", "running", "policies")
"""Fields in which the entries of a case are added to those shared by its file."""
_MAPS: Final = ("namespaces", "settings")
"""Fields in which single entries of a case replace those shared by its file."""
_AFTER_ALL: Final = datetime(2100, 1, 1, tzinfo=UTC)
"""The time at which cases are run, later than any timestamp in them."""


class CaseError(ValueError):
    """A case that cannot be read or run; the message names the field.

    Parameters
    ----------
    case
        Name of the case; empty if the error concerns the whole file.
    """

    def __init__(self, case: str, message: str) -> None:
        super().__init__(message)
        self.case = case


class CaseSettings(PolicySettings, StrictForm):
    """The scheduler settings that affect policies, in camelCase or by the names of the settings file."""

    scheduler_names: Annotated[Sequence[str], Field(min_length=1)] = ("vgpu-scheduler",)


class CaseStep(StrictForm):
    """A pod and the expected decision about it."""

    pod: Mapping[str, Any]
    expect: Expectation


class Case(StrictForm):
    """One case.

    Attributes
    ----------
    namespaces
        Labels of namespaces.
    objects
        Kubernetes objects, for example those of a snapshot.
    running
        Pods that run before the first step.
    without
        Names of policies shared by the file that this case excludes.
    steps
        Pods in order of arrival; the placements of earlier steps are in effect.
    """

    shorthands: ClassVar[frozenset[str]] = frozenset({"pod", "expect"})

    name: str
    dialect: str = "hami"
    settings: CaseSettings = CaseSettings()
    namespaces: Mapping[str, Mapping[str, str]] = {}
    nodes: Sequence[Mapping[str, Any]] = ()
    objects: Sequence[Mapping[str, Any]] = ()
    running: Sequence[Mapping[str, Any]] = ()
    policies: Sequence[Mapping[str, Any]] = ()
    without: Texts = ()
    steps: Annotated[Sequence[CaseStep], Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The result of a case.

    Attributes
    ----------
    failures
        One text per difference; empty if the case passes.
    explanation
        The engine's verdicts about all nodes, for the failed steps.
    """

    name: str
    failures: tuple[str, ...] = ()
    explanation: str = ""


# ---------------------------------------------------------------------------------------------------------- reading


def read_cases(document: object) -> list[Case | CaseError]:
    """Read the cases of one file.

    Parameters
    ----------
    document
        Either one case, or a list of cases in ``cases`` beside fields that all cases share. ``pod`` and ``expect``
        stand for a single step.

    Returns
    -------
    list
        For each entry the case, or the error why it cannot be read.

    Raises
    ------
    CaseError
        If the whole file cannot be read.
    """
    if not isinstance(document, Mapping):
        raise CaseError("", "a file of cases is a mapping, with pod and expect, steps, or cases")
    if "cases" not in document:
        return [_read_case(document, {}, "case")]
    shared = {key: value for key, value in document.items() if key != "cases"}
    if "without" in shared:
        raise CaseError("", "without: set it in a case, not in the shared part")
    listed = document["cases"]
    if not isinstance(listed, list) or not listed:
        raise CaseError("", "cases: must be a list with at least one case")
    return [_read_case(case, shared, f"cases[{number}]") for number, case in enumerate(listed)]


def _read_case(case: object, shared: Mapping[str, Any], place: str) -> Case | CaseError:
    if not isinstance(case, Mapping):
        return CaseError(place, "must be a mapping")
    name = str(case.get("name") or place)
    try:
        return Case.model_validate({**_merged(case, shared, name), "name": name})
    except CaseError as error:
        return error
    except ValidationError as error:
        text = problems(error)
        return CaseError(name, text if "steps" in {**shared, **case} else text.replace("steps[0].", ""))


def _merged(case: Mapping[str, Any], shared: Mapping[str, Any], name: str) -> dict[str, Any]:
    whole = {**shared, **case}
    for key in _LISTS:
        own, common = (_listed(part.get(key), key, name) for part in (case, shared))
        whole[key] = [*(_left(common, case, name) if key == "policies" else common), *own]
    for key in _MAPS:
        parts = [part[key] for part in (shared, case) if part.get(key) is not None]
        if not all(isinstance(part, Mapping) for part in parts):
            raise CaseError(name, f"{key}: must be a mapping")
        whole[key] = {entry: value for part in parts for entry, value in part.items()}
    if "steps" in case:
        shorthand = sorted({"pod", "expect"} & set(case))
        if shorthand:
            raise CaseError(name, f"{shorthand[0]}: set steps, or pod and expect, not both")
    elif "pod" in whole or "expect" in whole:
        if "pod" not in whole:
            raise CaseError(name, "pod: is missing beside expect")
        whole["steps"] = [{key: whole[key] for key in ("pod", "expect") if key in whole}]
    for key in ("pod", "expect"):
        whole.pop(key, None)
    if "steps" not in whole:
        raise CaseError(name, "a case needs pod and expect, or steps")
    return whole


def _listed(value: object, key: str, name: str) -> list[Any]:
    """Return a list; a single entry may be given without one."""
    if isinstance(value, Mapping):
        return [value]
    if value is None or isinstance(value, list):
        return value or []
    raise CaseError(name, f"{key}: must be a list")


def _left(policies: list[Any], case: Mapping[str, Any], name: str) -> list[Any]:
    """Return the shared policies without those that a case excludes."""
    without = case.get("without") or []
    unwanted = [without] if isinstance(without, str) else without
    if not isinstance(unwanted, list):
        raise CaseError(name, "without: must be a list of names")
    names = [_name_of(policy) for policy in policies]
    for wanted in unwanted:
        if wanted not in names:
            known = ", ".join(filter(None, names)) or "none"
            raise CaseError(name, f"without: no policy that all cases share is called {wanted!r}: there is {known}")
    return [policy for policy, called in zip(policies, names, strict=True) if called not in unwanted]


def _name_of(policy: object) -> str:
    metadata = policy.get("metadata") if isinstance(policy, Mapping) else None
    return str(metadata.get("name", "")) if isinstance(metadata, Mapping) else ""


# ---------------------------------------------------------------------------------------------------------- running


def check_case(case: Case) -> CaseResult:
    """Run a case with an engine of its own.

    Raises
    ------
    CaseError
        If its cluster or one of its pods cannot be understood; the message names the object and the field.
    """
    try:
        world = world_of(case)
        keys = [_key_of_pod(step.pod) for step in case.steps]
        answers: list[PodResult] = []
        for number, step in enumerate(case.steps):
            there = {*world.pods, *(answer.pod.key for answer in answers)}
            _check_names(case, number, keys[number:], there)
            answers.append(place(world, step.pod, f"{_where(case, number)}pod"))
        failures: list[str] = []
        explanations: list[str] = []
        for number, answer in enumerate(with_preempted(answers)):
            found = case.steps[number].expect.differences(answer)
            failures += [_where(case, number) + text for text in found]
            explanations += [explain(answer)] if found else []
    except InvalidObjectsError as error:
        raise CaseError(case.name, str(error)) from None
    return CaseResult(case.name, tuple(failures), "\n".join(explanations))


def _check_names(case: Case, number: int, keys: Sequence[str], there: Collection[str]) -> None:
    """Refuse a step whose expectation names pods that do not exist.

    Parameters
    ----------
    keys
        The pods of this and all later steps.
    there
        The pods that exist.
    """
    namespace = keys[0].partition("/")[0]
    unknown = case.steps[number].expect.unknown_pods(namespace, there, keys[1:])
    if unknown:
        raise InvalidObjectsError(f"{_where(case, number)}expect.{unknown[0]}")


def _where(case: Case, number: int) -> str:
    return f"steps[{number}]." if len(case.steps) > 1 else ""


def _key_of_pod(pod: Mapping[str, Any]) -> str:
    """Return the namespace and name of a step's pod, in short form or as an object."""
    about = pod.get("metadata") if isinstance(pod.get("metadata"), Mapping) else pod
    assert isinstance(about, Mapping)
    return f"{namespace_of(about)}/{about.get('name') or 'pod'}"


def world_of(case: Case) -> World:
    """Return the cluster of a case before its first step.

    Raises
    ------
    InvalidObjectsError
        If an object in it cannot be understood.
    """
    options = replace(
        plain_options(case.dialect, case.settings),
        preemption=True,
        scheduler_names=tuple(case.settings.scheduler_names),
    )
    world = World(options, strict=True)
    world.add({"kind": "Namespace", "metadata": {"name": n, "labels": d}} for n, d in case.namespaces.items())
    world.add(case.policies)
    world.add(in_full(case.nodes, ShortNode, world, "nodes"))
    world.add(case.objects)
    world.add(in_full(case.running, RunningPod, world, "running"))
    if world.ignored:
        kinds = ", ".join(kind or "an object without a kind" for kind in sorted(world.ignored))
        raise InvalidObjectsError(f"policies, nodes, objects and running: {kinds} cannot be used here")
    for node, devices in world.engine.state.over_capacity().items():
        raise InvalidObjectsError(f"running: the pods of node {node} hold more of {', '.join(devices)} than there is")
    take_up_preemptions(world, _AFTER_ALL)
    return world


def place(world: World, pod: Mapping[str, Any], where: str = "pod") -> PodResult:
    """Decide a pod in the present cluster; its placement and the evictions for it stay in effect.

    Parameters
    ----------
    pod
        The pod in short form, or as a Kubernetes object.
    where
        The pod's field in the file, for messages.

    Raises
    ------
    InvalidObjectsError
        If the pod cannot be understood.
    """
    (obj,) = one_in_full(pod, ShortPod, world, where)
    if obj.get("kind") != "Pod":
        raise InvalidObjectsError(f"{where}: {obj.get('kind')} is not a Pod")
    waiting = world.pod(obj)
    problem = _not_placed(waiting, world.engine.options.scheduler_names)
    if problem:
        raise InvalidObjectsError(f"{where}: {problem}")
    (answer,) = simulate(world, [waiting], preempt=True, each_alone=True)
    return answer


def _not_placed(pod: Pod, ours: Sequence[str]) -> str:
    """Say why the scheduler does not look at a pod of a step; empty if it does."""
    if pod.node_name:
        return f"spec.nodeName: it is on node {pod.node_name} already: write it under running"
    if pod.terminal or pod.deleting:
        return "it has ended, or is being deleted, and is not placed"
    if pod.scheduler_name in {"", DEFAULT_SCHEDULER, *ours}:
        return ""
    meant = meant_scheduler(pod.scheduler_name, ours, ())
    asked = f" (is {meant} meant?)" if meant else ""
    return (
        f"spec.schedulerName: {pod.scheduler_name}{asked} is not this scheduler, which is {', '.join(ours)}: leave the "
        "name out, or list it in settings.schedulerNames"
    )
