"""Remedies for a pod that is kept out by room that a policy keeps for pods that have waited for long."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Final

from vgpu_scheduler.engine import WaitingHold
from vgpu_scheduler.engine.waiting_holds import by_group
from vgpu_scheduler.model import first_of
from vgpu_scheduler.model.untyped import mapping_of
from vgpu_scheduler.whatif.advice.policy_remedies import removal, writer_of
from vgpu_scheduler.whatif.advice.remedy import MOST_OF_A_KIND, Action, HypotheticalPod, Remedy, RemedyType, do
from vgpu_scheduler.whatif.world.replacing import objects_replaced

_NOW: Final = 0.0
_HOLD_AFTER: Final = ("groups", "holdAfter")
_HIGHEST_OF_USERS: Final = 1_000_000_000
"""The highest priority of a PriorityClass that is not one of the system's."""


def give_up_holds(waiting: HypotheticalPod) -> Iterator[Remedy]:
    """Wait until room is no longer kept for a pod or group, take it by a higher priority, or keep none by the policy.

    Each hold is tried alone; others may follow it, as the policies say.
    """
    own = {pod.uid for pod in waiting.at_once}
    current = waiting.world.engine.attempts.waiting_holds.current()
    others = by_group(each for each in current if own.isdisjoint(each.together))
    yield from islice((remedy for holds in others for remedy in _without(waiting, holds)), 2 * MOST_OF_A_KIND)


def _without(waiting: HypotheticalPod, holds: Sequence[WaitingHold]) -> Iterator[Remedy]:
    keys = sorted(each.hold.reservation.pod for each in holds)
    for_whom = first_of(keys, 1)
    until = "goes elsewhere, is gone, or has had it kept for an hour"
    wait = Action(
        f"wait until pod {for_whom}, for which room is kept, {until}",
        nameless=f"wait until another pod, for which room is kept, {until}",
    )
    if node := _node_once_ended(waiting, holds):
        yield Remedy(RemedyType.WAIT, (wait,), node, named=tuple(keys))
    yield from _by_priority(waiting, holds, keys)
    yield from _by_policy(waiting, holds)


def _node_once_ended(waiting: HypotheticalPod, holds: Collection[WaitingHold]) -> str:
    """Return the node to which the pod goes once holds have ended; empty if it fits nowhere even then."""
    attempts = waiting.world.engine.attempts
    with attempts.rolled_back():
        attempts.waiting_holds.end([each.hold.uid for each in holds], _NOW)
        return waiting.node()


def _by_priority(waiting: HypotheticalPod, holds: Sequence[WaitingHold], keys: Sequence[str]) -> Iterator[Remedy]:
    """Take the room by a priority above that of the pods for which it is kept; those of groups are not changed."""
    kept_at = max(each.hold.priority for each in holds)
    if waiting.together or kept_at >= _HIGHEST_OF_USERS:
        return
    spec = {name: value for name, value in waiting.written["spec"].items() if name != "priorityClassName"}
    changed = {**waiting.written, "spec": {**spec, "priority": kept_at + 1}}
    if node := waiting.node(changed):
        text = f"give it a priority above {kept_at} (it has {waiting.ours.priority}): it may then use the room kept for"
        action = Action(f"{text} pod {first_of(keys, 1)}", nameless=f"{text} another pod")
        yield Remedy(RemedyType.RAISE_PRIORITY, (action,), node, changed, named=tuple(keys))


def _by_policy(waiting: HypotheticalPod, holds: Sequence[WaitingHold]) -> Iterator[Remedy]:
    """Have the policy that says after how long room is kept say nothing."""
    world = waiting.world
    pod = world.engine.state.pod(holds[0].hold.uid)
    titles = () if pod is None else dict(world.engine.policies.resolve(pod).sources).get("groups", ())
    for title in titles:
        policy = world.policies.get(title)
        after = None if policy is None else mapping_of(mapping_of(policy.get("spec")).get("groups")).get("holdAfter")
        if policy is None or not after:
            continue
        done, changed = removal(title, policy, _HOLD_AFTER, str(after))
        attempts = world.engine.attempts
        with objects_replaced(world, (changed,)), attempts.rolled_back():
            attempts.waiting_holds.give_up([pod for each in holds if (pod := world.engine.state.pod(each.hold.uid))])
            node = waiting.node()  # unless another policy has the room kept again
        if node:
            advice = do(f"have {writer_of(policy)} {done}")
            yield Remedy(RemedyType.CHANGE_POLICY, advice, node, objects=(changed,))
