"""The pods of a namespace that are ending already, if the quota that they hold suffices for a waiting pod."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import by_name
from vgpu_scheduler.whatif.advice.remedy import Advice, do
from vgpu_scheduler.whatif.world.world import World


def wait_for_ending_pods(
    world: World, namespace: str, resources: Collection[str], suffices: Callable[[Mapping[str, int]], bool]
) -> Iterator[Advice]:
    """Yield the advice to wait for pods that are ending, if the quota that they hold suffices.

    Parameters
    ----------
    resources
        The resources of the quotas.
    suffices
        Tells whether the pod keeps the quotas once these use less by some amounts.
    """
    pods = [pod for pod in world.bound.values() if pod.namespace == namespace and pod.deleting]
    held = {pod.key: _held(world, (pod,), resources) for pod in pods}
    ending = sorted((pod for pod in pods if any(held[pod.key].values())), key=lambda pod: pod.key)
    if not ending or not suffices(_held(world, ending, resources)):
        return
    for pod in sorted(ending, key=lambda pod: sum(held[pod.key].values())):  # without those that are not needed
        others = [other for other in ending if other is not pod]
        if others and suffices(_held(world, others, resources)):
            ending = others
    state = "has ended, which is" if len(ending) == 1 else "have ended, which are"
    yield do(f"wait until {by_name('pod', [pod.key for pod in ending])} {state} ending already")


def _held(world: World, pods: Sequence[Pod], resources: Collection[str]) -> Mapping[str, int]:
    """Return what some pods of one namespace hold together of resources with a quota."""
    quotas, state, namespace = world.engine.quota_limits, world.engine.state, pods[0].namespace
    now = {each: quotas.used(state, namespace, each) for each in resources}
    with state.without(pod.uid for pod in pods):
        return {each: used - quotas.used(state, namespace, each) for each, used in now.items()}
