"""Groups of pods for the tests of what is said of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.engine.builders import in_group
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node
from tests.whatif.test_whatif_turns import waits

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.whatif import World, simulate

Object = dict[str, Any]


def member(name: str, second: int, minimum: int, memory: int = 1000, group: str = "team", **spec: Any) -> Object:
    made = waits(name, {GPU: 1, MEMORY: memory}, second, **spec)
    made["metadata"]["annotations"] = {**made["metadata"].get("annotations", {}), **in_group(group, minimum)}
    return made


def named(world: World, name: str) -> Pod:
    (found,) = [each for each in world.pending.values() if each.name == name]
    return found


def simulated(world: World) -> dict[str, str]:
    answers = simulate(world, sorted(world.pending.values(), key=turn), as_they_are=True, explained=False)
    return {answer.pod.name: answer.node for answer in answers if answer.node}


def turn(pod: Pod) -> tuple[int, str, str]:
    return -pod.priority, pod.creation_timestamp, pod.name


def drawn(seed: int) -> list[Object]:
    """Return a cluster in which two groups and some pods wait."""
    rng = np.random.default_rng(seed)
    objects: list[Object] = [node(f"n{n}", int(rng.integers(1, 4))) for n in range(int(rng.integers(1, 4)))]
    seconds = iter(rng.permutation(50).tolist())
    for group in ("one", "two"):
        size, minimum = int(rng.integers(2, 5)), int(rng.integers(2, 5))
        for number in range(size):
            memory = int(rng.choice([2000, 5000, 9000, 16000]))
            objects.append(member(f"{group}-{number}", next(seconds), minimum, memory, group))
    for number in range(int(rng.integers(0, 4))):
        limits = {GPU: 1, MEMORY: int(rng.choice([2000, 9000]))}
        objects.append(waits(f"w{number}", limits, next(seconds), priority=int(rng.integers(0, 2))))
    return objects
