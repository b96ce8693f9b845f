"""What pods that are served before another one take of quotas that are raised for it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from tests.seeds import seeds

from vgpu_scheduler.whatif.tenant_advice.earlier_pods import EarlierPods

Amounts = Mapping[str, int]


def served(pods: Sequence[Amounts], left: Amounts) -> tuple[int, Counter[str]]:
    """Let in one after the other what fits."""
    taken: Counter[str] = Counter()
    number = 0
    for asked in pods:
        if all(taken[name] + amount <= left[name] for name, amount in asked.items()):
            taken.update(asked)
            number += 1
    return number, taken


def raised_step_by_step(pods: Sequence[Amounts], beside: Amounts, left: Amounts) -> tuple[int, dict[str, int]]:
    """Raise quotas again and again by what those take that they then let in."""
    taken = dict.fromkeys(beside, 0)
    while True:
        number, then = served(pods, {name: max(beside[name] + taken[name], left[name]) for name in beside})
        if all(then[name] <= taken[name] for name in beside):
            return number, taken
        taken = {name: max(then[name], taken[name]) for name in beside}


@pytest.mark.parametrize("seed", seeds(3, 30))
def test_as_many_are_let_in_as_when_quotas_are_raised_step_by_step(seed: int) -> None:
    """Of one resource it is the least that does; of several it is enough."""
    rng = np.random.default_rng(seed)
    for _ in range(100):
        names = ["a", "b", "c"][: int(rng.integers(1, 4))]
        beside = {name: int(rng.integers(0, 7)) for name in names}
        left = {name: int(rng.integers(-2, 13)) for name in names}
        pods = [
            {name: int(rng.integers(1, 10)) for name in names if rng.random() < 0.8}
            for _ in range(int(rng.integers(0, 9)))
        ]
        found, taken = EarlierPods(pods, left, frozenset()).let_in(beside, left)
        raised = {name: max(beside[name] + taken[name], left[name]) for name in names}
        number, then = served(pods, raised)
        assert number == len(found)
        assert all(then[name] <= taken[name] for name in names)
        if len(names) == 1:
            assert (len(found), taken) == raised_step_by_step(pods, beside, left)


@pytest.mark.parametrize("sizes", [[1000] * 2000, [1000, 2000, 8000] * 700, list(range(2000, 0, -1))])
def test_it_takes_no_time_with_many_pods(sizes: list[int]) -> None:
    pods = [{"a": size} for size in sizes]
    begun = time.process_time()
    found, taken = EarlierPods(pods, {"a": 0}, frozenset()).let_in({"a": min(sizes)}, {"a": 0})
    assert time.process_time() - begun < 1.0
    assert (len(found), taken) == (len(sizes), {"a": sum(sizes)})
