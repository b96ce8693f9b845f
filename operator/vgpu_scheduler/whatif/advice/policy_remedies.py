"""Remedies for a pod that a policy keeps from nodes or cards: change one field of one policy."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from typing import Any, Final

from vgpu_scheduler.engine.equivalence import RefusedClass
from vgpu_scheduler.kube import Object
from vgpu_scheduler.model import MUTEX, names_model, policy_words
from vgpu_scheduler.model.untyped import mapping_of
from vgpu_scheduler.policy import SECTIONS, PolicyNotReadyType, decode_policy
from vgpu_scheduler.whatif.advice.remedy import MOST_OF_A_KIND, Action, HypotheticalPod, Remedy, RemedyType, do
from vgpu_scheduler.whatif.advice.uncordoning import helping
from vgpu_scheduler.whatif.reasons.causes import describe_selector
from vgpu_scheduler.whatif.world.world import World

_TOGETHER: Final = ("nodes", "together")
_ORDER: Final = ("devices", "policy")
"""The order of cards, which restricts pods to idle cards if one of its words is ``mutex``."""
_RESTRICTIONS: Final = (
    ("devices", "types", "deny"),
    ("devices", "types", "allow"),
    ("devices", "exclusive"),
    _ORDER,
    ("devices", "apartFrom"),
    ("devices", "numa"),
    ("devices", "topology"),
    ("devices", "modes"),
    ("nodeSelector",),
    _TOGETHER,
)
"""The policy fields that keep pods from nodes or cards, apart from limits, which are raised instead."""
_RESTRICTING: Final = ("devices", "nodeSelector", "limits")
_MOST_ENTRIES: Final = 16
"""The most models, or modes, that are tried as a further entry of a list."""


def correct_policies(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Correct the invalid policies for which the pod, or one placed at once with it, waits.

    Simulated by removing the invalid fields.
    """
    world, changed = waiting.world, dict[str, Object]()
    actions: list[Action] = []
    before = dict(world.policies)
    try:
        while found := _not_ready(waiting):
            name, error = found
            understood = None if name in changed else _understood(before[name])
            if understood is None:
                return
            changed[name] = understood
            what = f"have {writer_of(understood)} correct {name}, or remove what is wrong: {error}"
            actions.append(Action(what, is_long=len(decode_policy(before[name]).wrong) > 1))
            world.replace_policy(understood)
        if changed:
            objects = tuple(changed.values())
            yield Remedy(RemedyType.CHANGE_POLICY, tuple(actions), waiting.node(), objects=objects)
    finally:
        for name in changed:
            world.replace_policy(before[name])


def _not_ready(waiting: HypotheticalPod) -> tuple[str, str] | None:
    """Return the invalid policy for which the pods that are placed at once wait, with its error; None without one."""
    for pod in waiting.at_once:
        refused = waiting.algorithm.classes.of(pod)
        if not isinstance(refused, RefusedClass):
            continue
        refusal = refused.policy.refusal
        if refusal is None or refused.reason != str(refusal):
            continue  # the refusal may come from the pod's own unsupported field
        if refusal.type is PolicyNotReadyType.NOT_UNDERSTOOD:
            return refusal.policy, refusal.why
    return None


def _understood(policy: Object) -> Object | None:
    """Return a policy without its invalid fields; None if it is still invalid."""
    for _ in range(_MOST_ENTRIES):
        wrong = decode_policy(policy).wrong
        if not wrong:
            return policy
        path = list(map(str, takewhile(lambda part: isinstance(part, str), wrong[0][1:])))
        while path and _at(policy, path) is None:
            path.pop()  # the error is a missing field
        policy = _without(policy, tuple(path)) if path else {**policy, "spec": {}}
        if not policy["spec"]:
            return policy
    return None


def _at(policy: Object, path: Sequence[str]) -> Any:
    value: Any = policy.get("spec")
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def lift_restrictions(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Change one field of one policy: one entry of a list if that is enough, otherwise remove the field."""
    found = (way for ways in restrictions(waiting.world) for way in islice(helping(waiting, ways), 1))
    yield from islice(found, MOST_OF_A_KIND)


def restrictions(world: World) -> Iterator[list[Remedy]]:
    """Yield, for each restricting policy field, its possible changes; the last one removes it."""
    for name, policy in sorted(world.policies.items()):
        for path in _RESTRICTIONS:
            ways = [
                Remedy(RemedyType.CHANGE_POLICY, do(f"have {writer_of(policy)} {done}"), "", objects=(changed,))
                for done, changed in _changes(world, name, path)
            ]
            if ways:
                yield ways


def without_restrictions(policy: Object) -> Object:
    """Return a policy without restrictions on nodes and cards, and without limits."""
    return _without_sections(policy, _RESTRICTING)


def without_limits(policy: Object) -> Object:
    """Return a policy without limits."""
    return _without_sections(policy, ("limits",))


def _without_sections(policy: Object, sections: Sequence[str]) -> Object:
    spec = policy.get("spec") or {}
    whom = {name: value for name, value in spec.items() if name != "enforce" and name not in SECTIONS}
    changed = policy
    for section in sections:
        changed = _without(changed, (section,)) if section in (changed.get("spec") or {}) else changed
    return {**policy, "spec": changed.get("spec") or {**whom, "preemption": {"mayPreempt": False}}}


def writer_of(policy: Object) -> str:
    """Say who may write a policy."""
    namespace = policy["metadata"].get("namespace")
    return f"a user who may write policies in namespace {namespace}" if namespace else "an administrator of the cluster"


def _changes(world: World, title: str, path: tuple[str, ...]) -> Iterator[tuple[str, Object]]:
    """Yield changes of a policy field and finally its removal, each with a description."""
    policy = world.policies[title]
    value = _at(policy, path)
    if not value:
        return
    field = f"spec.{'.'.join(path)}"
    if path == _TOGETHER:
        if mapping_of(value).get("mode") == "Required":
            done = f"set {field}.mode of {title} to Preferred (it is Required)"
            yield done, _replaced(policy, ("spec", *path, "mode"), "Preferred")
        return
    if path == _ORDER:
        words = policy_words(str(value))
        if MUTEX not in words:
            return
        if others := ",".join(word for word in words if word != MUTEX):
            done = f"set {field} of {title} to {others} (it is {value})"
            yield done, _replaced(policy, ("spec", *path), others)
            return
    for other in _other_lists(world, path[-1], value) if isinstance(value, list) else ():
        done = f"set {field} of {title} to {_format_value(other)} (it is {_format_value(value)})"
        yield done, _replaced(policy, ("spec", *path), other)
    inside = mapping_of(value).get("matchLabelKeys") if path[-1] == "apartFrom" else None
    yield removal(title, policy, path, _format_value(inside or value))


def removal(title: str, policy: Object, path: tuple[str, ...], value: str) -> tuple[str, Object]:
    """Return the description of a field's removal, including sections that become empty, and the resulting policy.

    A policy without any other section is to be deleted, since the API server would refuse it.
    """
    changed = _without(policy, path)
    spec = changed["spec"]
    if not spec:
        return f"delete {title}, which sets only spec.{'.'.join(path)} ({value})", changed
    depth = 1
    inner: Any = spec
    while depth < len(path) and path[depth - 1] in inner:
        inner, depth = inner[path[depth - 1]], depth + 1
    within = f"{'.'.join(path[depth:])}: " if path[depth:] else ""
    beside = _no_longer_enforced(policy, changed)
    return f"remove spec.{'.'.join(path[:depth])} ({within}{value}){beside} from {title}", changed


def _no_longer_enforced(before: Object, after: Object) -> str:
    """Name the sections that leave ``enforce`` with a removal; it may only list sections that the policy sets."""
    was, left = ((each.get("spec") or {}).get("enforce") or [] for each in (before, after))
    if was == left or not isinstance(was, list):
        return ""
    gone = " and ".join(section for section in was if section not in left)
    return f" and {gone} of spec.enforce" if left else f" and spec.enforce ({_format_value(was)})"


def _without(policy: Object, path: tuple[str, ...]) -> Object:
    """Return a policy without a field and without mappings that become empty; the whole spec may become empty."""
    changed = _replaced(policy, ("spec", *path), None)
    spec = dict(changed["spec"])
    if path[0] not in spec and isinstance(enforced := spec.get("enforce"), list):
        spec["enforce"] = [section for section in enforced if section != path[0]]
        spec = spec if spec["enforce"] else {name: value for name, value in spec.items() if name != "enforce"}
    return {**changed, "spec": {} if SECTIONS.keys().isdisjoint(spec) else spec}


def _other_lists(world: World, name: str, listed: list[Any]) -> Iterator[list[Any]]:
    """Yield the lists with one entry fewer, if they deny, or with one more, if they allow.

    Models whose names are part of no other one's come first: an entry for another one admits more models than it names,
    so that the pod might get a card that the advice does not name.
    """
    if name == "deny":
        yield from ([each for each in listed if each != entry] for entry in (listed if len(listed) > 1 else ()))
        return
    known = {device.mode if name == "modes" else device.type for _, _, device in world.listed_devices()}
    there = sorted(known - {"", *map(str, listed)}, key=lambda each: (_admitted_by(each, known, name), each))
    yield from ([*listed, entry] for entry in there[:_MOST_ENTRIES])


def _admitted_by(entry: str, known: Collection[str], name: str) -> int:
    """Return how many of the known models, or modes, an entry of a list admits."""
    return 1 if name == "modes" else sum(names_model(entry, model) for model in known)


def _format_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return describe_selector(value)
    if isinstance(value, list):
        return f"[{', '.join(map(str, value))}]"
    return "true" if value is True else str(value)


def _replaced(obj: Object, path: tuple[str, ...], value: Any) -> Object:
    """Return an object with a value replaced at a path; None removes the field, and mappings that become empty."""
    name, *rest = path
    inner = _replaced(obj[name], tuple(rest), value) if rest else value
    without = {key: each for key, each in obj.items() if key != name}
    return {**without, name: inner} if inner or path[0] == "spec" else without
