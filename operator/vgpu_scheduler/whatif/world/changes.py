"""Apply single changes of cluster objects to a world, so that it need not be rebuilt each time.

A world depends only on its objects, not on the order of their changes. Most changes of pods and nodes can be applied
in place; where that is not certain, the caller is told to rebuild the world.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from msgspec.structs import replace

from vgpu_scheduler.kube import Object, Pod
from vgpu_scheduler.whatif.objects.objects import InvalidObjectsError, metadata_of, namespace_of, read_node
from vgpu_scheduler.whatif.world.world import World

POD: Final = "Pod"
NODE: Final = "Node"


class ChangeResult(Enum):
    """The result of applying a change.

    Attributes
    ----------
    SAME
        The change alters nothing that the world knows.
    CHANGED
        The change was applied.
    NOT
        The change cannot be applied: the caller has to rebuild the world.
    """

    SAME = "same"
    CHANGED = "changed"
    NOT = "not"


def apply_change(world: World, obj: Object, *, gone: bool) -> ChangeResult:
    """Apply that an object now exists as written or, with ``gone``, that it was deleted."""
    try:
        if obj["kind"] == POD:
            return _pod_is_gone(world, obj) if gone else _pod_is(world, obj)
        return _node_is(world, obj) if obj["kind"] == NODE and not gone else ChangeResult.NOT
    except InvalidObjectsError:
        return ChangeResult.NOT


def key_of(obj: Object) -> str:
    """Return the key of the pod that an object describes: its namespace and name."""
    metadata = metadata_of(obj)
    return f"{namespace_of(metadata)}/{metadata.get('name', '')}"


def _pod_is_gone(world: World, obj: Object) -> ChangeResult:
    key = key_of(obj)
    known = world.pods.get(key)
    if known is None or known.uid != metadata_of(obj).get("uid"):
        return ChangeResult.SAME
    if _is_problem(world, POD, key) or _is_about_preemption(world, known):
        return ChangeResult.NOT
    world.forget_pod(key)
    return ChangeResult.CHANGED


def _pod_is(world: World, obj: Object) -> ChangeResult:
    key, uid = key_of(obj), metadata_of(obj).get("uid")
    known = world.pods.get(key)
    if _is_problem(world, POD, key):
        return ChangeResult.NOT
    if known is not None and known.uid != uid:
        world.forget_pod(key)
        known = None
    if known is None:
        world.add([obj])
        return ChangeResult.NOT if _is_about_preemption(world, world.pods.get(key)) else ChangeResult.CHANGED
    pod = world.pod(obj, again=True)
    if replace(pod, resource_version=known.resource_version) == known:
        return ChangeResult.SAME
    if not _follows(world, known, pod) or _is_about_preemption(world, known) or _is_about_preemption(world, pod):
        return ChangeResult.NOT
    world.replace_pod(pod, obj)
    return ChangeResult.CHANGED


def _follows(world: World, before: Pod, after: Pod) -> bool:
    """Tell whether a pod would hold the same devices if only its later version were known."""
    home = world.home_of(before)
    if not home:
        return True
    if before.terminal or world.home_of(after) != home:  # another scheduler may have withdrawn its announcement
        return False
    held, holds = (world.engine.dialects.uses(replace(each, node_name=home)) for each in (before, after))
    return after.terminal or held == holds


def _is_about_preemption(world: World, pod: Pod | None) -> bool:
    """Tell whether preemption may keep room because of a pod; such room is computed for all pods together."""
    return pod is not None and world.engine.preemption and bool(pod.nominated_node_name or pod.deleting)


def _node_is(world: World, obj: Object) -> ChangeResult:
    node = read_node(obj)
    known = world.engine.state.node(node.name)
    if _is_problem(world, NODE, node.name):
        return ChangeResult.NOT
    if known is None:
        world.add([obj])
        missed = any(problem.missing_node == node.name for problem in world.problems)
        return ChangeResult.NOT if missed else ChangeResult.CHANGED
    if known.uid != node.uid:
        return ChangeResult.NOT
    if replace(node, resource_version=known.resource_version) == known:
        world.nodes[node.name] = obj
        return ChangeResult.SAME
    state, before = world.engine.state, world.engine.state.devices_by_dialect(node.name)
    unreadable = world.replace_node(obj)
    stays = not unreadable and state.devices_by_dialect(node.name) == before
    return ChangeResult.CHANGED if stays else ChangeResult.NOT


def _is_problem(world: World, kind: str, name: str) -> bool:
    """Tell whether the world has recorded a problem with an object, which the change may have resolved."""
    return any((problem.kind, problem.name) == (kind, name) for problem in world.problems)
