"""What would help a pod that a policy keeps from nodes or cards: to have one restriction of one policy lifted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from vgpu_scheduler.whatif.remedy import Remedy, RemedyKind, WaitingPod

__all__ = ["lift_restrictions"]

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
_MOST: Final = 3


def lift_restrictions(waiting: WaitingPod) -> Iterator[Remedy]:
    """Leave one restriction out of one policy; of a list that denies, one entry where that is enough."""
    found = 0
    for title in sorted(waiting.world.policies):
        policy = waiting.world.policies[title]
        for path in _RESTRICTIONS:
            for done, changed in _without(policy, path):
                node = waiting.node_with(waiting.world.replace_policy, policy, changed)
                if node:
                    text = f"have {done} spec.{'.'.join(path)} of {title}"
                    yield Remedy(RemedyKind.CHANGE_POLICY, text, node, objects=(changed,))
                    found += 1
                    break
            if found == _MOST:
                return


def _without(policy: Object, path: tuple[str, ...]) -> Iterator[tuple[str, Object]]:
    """Yield a policy without a field, or without one entry of it, each with what is done."""
    value: Any = policy.get("spec")
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    if not value:
        return
    if path[-1] == "deny" and isinstance(value, list) and len(value) > 1:
        for entry in value:
            yield f"{entry} taken out of", _replaced(policy, ("spec", *path), [each for each in value if each != entry])
    shown = ", ".join(map(str, value)) if isinstance(value, list) else ""
    yield f"{shown} taken out of" if shown else "lifted:", _replaced(policy, ("spec", *path), None)


def _replaced(obj: Object, path: tuple[str, ...], value: Any) -> Object:
    """Return an object with another value at a path; None leaves the field out, and what is empty without it."""
    name, *rest = path
    inner = _replaced(obj[name], tuple(rest), value) if rest else value
    without = {key: each for key, each in obj.items() if key != name}
    return {**without, name: inner} if inner or path[0] == "spec" else without
