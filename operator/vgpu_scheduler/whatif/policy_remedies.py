"""What would help a pod that a policy keeps from nodes or cards: one field of one policy that says something else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from vgpu_scheduler.policy import SECTIONS, decode_policy, title
from vgpu_scheduler.whatif.causes import worded_selector
from vgpu_scheduler.whatif.remedy import Remedy, RemedyKind, WaitingPod
from vgpu_scheduler.whatif.world import World

__all__ = ["lift_restrictions", "restrictions", "without_restrictions"]

Object = Mapping[str, Any]

_RESTRICTIONS: Final = (
    ("devices", "types", "deny"),
    ("devices", "types", "allow"),
    ("devices", "exclusive"),
    ("devices", "numa"),
    ("devices", "topology"),
    ("devices", "modes"),
    ("nodeSelector",),
)
"""The fields of a policy that keep pods from nodes or cards; limits are raised, not lifted."""
_RESTRICTING: Final = ("devices", "nodeSelector", "limits")
_MOST: Final = 3
_MOST_ENTRIES: Final = 16
"""Models, or modes, that are tried as one more entry of a list."""


def lift_restrictions(waiting: WaitingPod) -> Iterator[Remedy]:
    """Change one field of one policy: one entry of a list where that is enough, else the field is removed."""
    found = 0
    for ways in restrictions(waiting.world):
        for way in ways:
            (changed,) = way.objects
            before = waiting.world.policies[title(decode_policy(changed))]
            node = waiting.node_with(waiting.world.replace_policy, before, changed)
            if node:
                yield replace(way, node=node)
                found += 1
                break
        if found == _MOST:
            return


def restrictions(world: World) -> Iterator[list[Remedy]]:
    """Yield, for each field of a policy that keeps pods away, how it could be otherwise: in the end it is removed."""
    for name, policy in sorted(world.policies.items()):
        for path in _RESTRICTIONS:
            ways = [
                Remedy(RemedyKind.CHANGE_POLICY, f"have {_writer(policy)} {done}", "", objects=(changed,))
                for done, changed in _changes(world, name, path)
            ]
            if ways:
                yield ways


def without_restrictions(policy: Object) -> Object:
    """Return a policy that keeps pods from no node and no card, and limits none."""
    spec = {name: value for name, value in (policy.get("spec") or {}).items() if name not in _RESTRICTING}
    return {**policy, "spec": spec or {"preemption": {"mayPreempt": False}}}


def _writer(policy: Object) -> str:
    """Say who may write a policy."""
    namespace = policy["metadata"].get("namespace")
    return (
        f"somebody who may write policies of namespace {namespace}" if namespace else "an administrator of the cluster"
    )


def _changes(world: World, title: str, path: tuple[str, ...]) -> Iterator[tuple[str, Object]]:
    """Yield a policy with another value of a field, and without the field, each with what is done."""
    policy = world.policies[title]
    value: Any = policy.get("spec")
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    if not value:
        return
    field = f"spec.{'.'.join(path)}"
    for other in _other_lists(world, path[-1], value) if isinstance(value, list) else ():
        done = f"set {field} of {title} to {_worded(other)} (it is {_worded(value)})"
        yield done, _replaced(policy, ("spec", *path), other)
    yield _removal(title, policy, path, _worded(value))


def _removal(title: str, policy: Object, path: tuple[str, ...], value: str) -> tuple[str, Object]:
    """Return how a field is removed, with what says nothing without it, and the policy as it is then.

    One that says nothing else is to be deleted, for the API server takes no such policy.
    """
    changed = _replaced(policy, ("spec", *path), None)
    spec = dict(changed["spec"])
    if path[0] not in spec and spec.get("enforce"):
        others = [section for section in spec.pop("enforce") if section != path[0]]
        spec |= {"enforce": others} if others else {}
    if SECTIONS.keys().isdisjoint(spec):
        done = f"delete {title}, which says nothing but spec.{'.'.join(path)} ({value})"
        return done, {**changed, "spec": {}}
    depth = 1
    inner: Any = spec
    while depth < len(path) and path[depth - 1] in inner:
        inner, depth = inner[path[depth - 1]], depth + 1
    within = f"{'.'.join(path[depth:])}: " if path[depth:] else ""
    return f"remove spec.{'.'.join(path[:depth])} ({within}{value}) from {title}", {**changed, "spec": spec}


def _other_lists(world: World, name: str, listed: list[Any]) -> Iterator[list[Any]]:
    """Yield a list without one entry where it denies, and with one more where it allows."""
    if name == "deny":
        yield from ([each for each in listed if each != entry] for entry in (listed if len(listed) > 1 else ()))
        return
    devices = [
        device
        for dialect in world.engine.dialects
        for node in world.nodes
        for device in world.devices(node, dialect.name)
    ]
    there = sorted({device.mode if name == "modes" else device.type for device in devices} - {"", *map(str, listed)})
    yield from ([*listed, entry] for entry in there[:_MOST_ENTRIES])


def _worded(value: Any) -> str:
    if isinstance(value, Mapping):
        return worded_selector(value)
    if isinstance(value, list):
        return f"[{', '.join(map(str, value))}]"
    return "true" if value is True else str(value)


def _replaced(obj: Object, path: tuple[str, ...], value: Any) -> Object:
    """Return an object with another value at a path; None leaves the field out, and what is empty without it."""
    name, *rest = path
    inner = _replaced(obj[name], tuple(rest), value) if rest else value
    without = {key: each for key, each in obj.items() if key != name}
    return {**without, name: inner} if inner or path[0] == "spec" else without
