"""Describe the other pending pods whose places an answer leaves to them."""

from __future__ import annotations

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.model import counted
from vgpu_scheduler.whatif.world.queue_order import PodsBeforeAndAfter, placing, pods_as_old
from vgpu_scheduler.whatif.world.world import World


def describe_other_waiting_pods(
    world: World, pod: Pod, turns: PodsBeforeAndAfter, going: int, *, changes: bool, searched: bool = False
) -> tuple[str, ...]:
    """Say how many pending pods are ahead of a pod, or are behind it and fit; empty if that makes no difference.

    Parameters
    ----------
    going
        The number of pods ahead of it that fit now, and are placed for the time of the question.
    changes
        Remedies were found; pods ahead of it that do not fit would take part of the room that these free.
    searched
        Remedies were searched, even if none was found.
    """
    at_once = bool(pods_as_old(world, pod, turns.before))
    sentences = [_before(going, len(turns.before) - going if changes else 0, at_once=at_once)]
    if changes or searched:
        group = world.engine.attempts.gang_status(pod)
        other_members = {each.uid for each in (() if group is None else group.waiting)} - {pod.uid}
        with placing(world, [pod, *turns.after]) as there:  # room may be reserved for it, too
            others = {each.uid for each in there} - {pod.uid}
        sentences.append(_of_group(len(others & other_members)))
        sentences.append(_after(len(others - other_members), found=changes))
    return tuple(filter(None, sentences))


def _before(going: int, waits: int, *, at_once: bool) -> str:
    """Say how many pods ahead of a pod fit now, and how many would take room that a change frees.

    Parameters
    ----------
    at_once
        Some of them were created in the same second as the pod.
    """
    parts = [f"{counted(going, 'pod')} that {_does(going, 'fit')} now"] if going else []
    parts += [f"{counted(waits, 'pod')} that {_does(waits, 'wait')}, too,"] if waits else []
    if not parts:
        return ""
    served = f"{' and '.join(parts)} {'is' if going + waits == 1 else 'are'} served before it"
    age = "created earlier or in the same second" if at_once else "created earlier"
    return f"{served} (higher priority, or the same and {age}); the answer leaves {_their(going + waits)}."


def _of_group(count: int) -> str:
    """Say how many other members of its group are placed at once, if the pod is one more than fit."""
    if not count:
        return ""
    fit = f"{counted(count, 'other pod')} of its group {_does(count, 'fit')} now"
    return f"{fit} and {'is' if count == 1 else 'are'} placed before it; the answer leaves {_their(count)}."


def _after(count: int, *, found: bool) -> str:
    """Say how many pods behind it fit now; changes that would take their places are not searched."""
    if not count:
        return ""
    return (
        f"{counted(count, 'pod')} that {_does(count, 'fit')} now {'is' if count == 1 else 'are'} served after it;"
        f" {'the changes below' if found else 'the changes that are searched'} leave {_their(count)}."
    )


def _their(count: int) -> str:
    return "it its place" if count == 1 else "them their places"


def _does(count: int, verb: str) -> str:
    return f"{verb}s" if count == 1 else verb
