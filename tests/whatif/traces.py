"""Small traces at random, and one that can be calculated by hand."""

from __future__ import annotations

import numpy as np

from vgpu_scheduler.whatif.traces import TraceNode, TracePod

NODES = """\
sn,cpu_milli,memory_mib,gpu,model
a,8000,16384,2,T4
b,8000,16384,0,
"""
PODS = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos
p-0,1000,1024,1,1000,,LS
p-1,1000,1024,1,600,T4|A10,LS
p-2,2000,1024,0,0,,BE
"""


def random_nodes(rng: np.random.Generator, count: int) -> list[TraceNode]:
    models = ("A10", "A100", "T4")
    return [
        TraceNode(
            f"n-{number}",
            int(rng.integers(2, 17)) * 1000,
            int(rng.integers(2, 17)) * 1024,
            (str(rng.choice(models)),) * int(rng.integers(0 if number else 1, 5)),
        )
        for number in range(count)
    ]


def random_pods(rng: np.random.Generator, count: int) -> list[TracePod]:
    found = []
    for _ in range(count):
        cpu, memory = int(rng.integers(0, 5)) * 1000, int(rng.integers(0, 5)) * 1024
        cards = int(rng.choice([0, 1, 1, 1, 1, 2, 4]))
        share = 0 if not cards else 100 if cards > 1 else int(rng.choice([3, 5, 30, 47, 81, 100]))
        models = (("A10",), ("A10", "T4"), (), (), ())[int(rng.integers(5))] if cards else ()
        found.append(TracePod(cpu, memory, cards, share, models))
    return found
