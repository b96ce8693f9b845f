"""What happens in a cluster, taken into a world one by one, so that it need not be made anew each time.

A world is a function of objects, and must be the same however it came about. Most changes of pods and nodes can be
taken in; where it takes more than that to be sure, the answer is that the world has to be made anew.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from msgspec.structs import replace

from vgpu_scheduler.kube import Object, Pod
from vgpu_scheduler.whatif.objects.objects import WorldError, metadata_of, read_node
from vgpu_scheduler.whatif.world.world import World

POD: Final = "Pod"
NODE: Final = "Node"


class ChangeResult(Enum):
    """What became of a change.

    Attributes
    ----------
    SAME
        It changes nothing that is known of the cluster.
    CHANGED
        It was taken in.
    NOT
        It cannot be taken in: the world is to be made anew.
    """

    SAME = "same"
    CHANGED = "changed"
    NOT = "not"


def apply_change(world: World, obj: Object, *, gone: bool) -> ChangeResult:
    """Take in that an object is there as it is written, or that it is gone."""
    try:
        if obj["kind"] == POD:
            return _pod_is_gone(world, obj) if gone else _pod_is(world, obj)
        return _node_is(world, obj) if obj["kind"] == NODE and not gone else ChangeResult.NOT
    except WorldError:
        return ChangeResult.NOT


def key_of(obj: Object) -> str:
    """Return what the world calls the pod of an object: its namespace and name."""
    metadata = metadata_of(obj)
    return f"{metadata.get('namespace', 'default')}/{metadata.get('name', '')}"


def _pod_is_gone(world: World, obj: Object) -> ChangeResult:
    key = key_of(obj)
    known = world.pods.get(key)
    if known is None or world.first_uid(known) != metadata_of(obj).get("uid"):
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
    if known is not None and world.first_uid(known) != uid:
        world.forget_pod(key)
        known = None
    if known is None:
        world.add([obj])
        return ChangeResult.NOT if _is_about_preemption(world, world.pods.get(key)) else ChangeResult.CHANGED
    pod = replace(world.pod(obj, again=True), uid=known.uid)
    if replace(pod, resource_version=known.resource_version) == known:
        return ChangeResult.SAME
    if not _follows(world, known, pod) or _is_about_preemption(world, known) or _is_about_preemption(world, pod):
        return ChangeResult.NOT
    world.replace_pod(pod, obj)
    return ChangeResult.CHANGED


def _follows(world: World, before: Pod, after: Pod) -> bool:
    """Tell whether what a pod holds is what it would be if only its later version were known."""
    home = world.home_of(before)
    if not home:
        return True
    if before.terminal or world.home_of(after) != home:  # what another scheduler announces may be taken back
        return False
    held, holds = (world.engine.dialects.uses(replace(each, node_name=home)) for each in (before, after))
    return after.terminal or held == holds


def _is_about_preemption(world: World, pod: Pod | None) -> bool:
    """Tell whether room may be kept because of a pod, which is done for all of them together."""
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
    """Tell whether there is something wrong with an object, which may be over."""
    return any((problem.kind, problem.name) == (kind, name) for problem in world.problems)
