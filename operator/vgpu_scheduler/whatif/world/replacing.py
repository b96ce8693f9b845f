"""Replace objects of a world for the time of a question."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

import msgspec

from vgpu_scheduler.kube import Object, Pod
from vgpu_scheduler.policy import decode_policy, title
from vgpu_scheduler.whatif.objects.objects import namespace_of
from vgpu_scheduler.whatif.world.changes import key_of
from vgpu_scheduler.whatif.world.world import World


@contextmanager
def objects_replaced(world: World, objects: Sequence[Object]) -> Iterator[None]:
    """Replace objects of the world, and restore the earlier versions on exit."""
    with ExitStack() as stack:
        for each in objects:
            metadata = each.get("metadata") or {}
            name = metadata.get("name", "")
            put: Callable[[Object], object]
            match each["kind"]:
                case "Pod":
                    known = world.pods[key_of(each)]
                    put, before = partial(_put_pod, world, known), world.written(known)
                case "PodGroup":
                    put = world.replace_pod_group
                    before = next(one for one in world.pod_groups.values() if _names(one) == _names(each))
                case "Node":
                    put, before = world.replace_node, world.nodes[name]
                case "ResourceQuota":
                    quotas = world.quotas_of(namespace_of(metadata))
                    before = next(one for one in quotas if one["metadata"].get("name", "") == name)
                    put = world.replace_quota
                case _:
                    put, before = world.replace_policy, world.policies[title(decode_policy(each))]
            stack.callback(put, before)  # before the change, which may raise
            put(each)
        yield


def _put_pod(world: World, known: Pod, obj: Object) -> None:
    """Replace the labels and annotations of a pod; nothing else of an existing pod can be changed."""
    read = world.pod(obj, again=True)
    world.replace_pod(msgspec.structs.replace(known, labels=read.labels, annotations=read.annotations), obj)


def _names(obj: Object) -> tuple[str, str, str]:
    """Return what identifies an object among those of its kind."""
    metadata = obj.get("metadata") or {}
    return str(obj.get("apiVersion")), namespace_of(metadata), str(metadata.get("name"))
