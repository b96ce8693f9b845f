"""What frees attach limits is told exactly: whenever some set of volumes fits a node that did not, and only then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import combinations
from typing import Final

import hypothesis.strategies as st
from hypothesis import given, settings

from vgpu_scheduler.kube import AttachedVolume, CSINode
from vgpu_scheduler.state.attached import AttachedVolumes

NODES: Final = ("a", "b")
VOLUMES: Final[tuple[AttachedVolume, ...]] = (("d", "1"), ("d", "2"), ("e", "1"))
FRESH: Final = 4
"""Limits are below this."""

Need = tuple[str, frozenset[AttachedVolume], int]
"""A driver, volumes of its, and how many others that nobody knows yet."""
NEEDS: Final[tuple[Need, ...]] = tuple(
    (driver, frozenset(volumes), fresh)
    for driver in ("d", "e")
    for number in range(3)
    for volumes in combinations([volume for volume in VOLUMES if volume[0] == driver], number)
    for fresh in range(FRESH + 1)
)

numbers = st.integers(0, 1 << 16)
events = st.tuples(st.sampled_from(["pod", "pod", "attachment", "limit", "node"]), numbers, numbers, numbers)


class World:
    """What pods use, what is attached, and the limits, counted anew for each question."""

    def __init__(self) -> None:
        self.known = AttachedVolumes()
        self.nodes: set[str] = set()
        self.used: Counter[tuple[str, AttachedVolume]] = Counter()
        self.attached: Counter[tuple[str, AttachedVolume]] = Counter()
        self.limits: dict[str, dict[str, int]] = {}

    def happens(self, what: str, one: int, two: int, three: int) -> bool:
        """Have something happen; return whether the nodes are the same as before."""
        node, volume = NODES[one % 2], VOLUMES[two % 3]
        if what == "node":
            if node in self.nodes:
                self.known.node_went(node)
            else:
                self.known.node_came(node, one % 2)
            self.nodes ^= {node}
            return False
        if what == "limit":
            self.limits[node] = {name: limit for name, limit in (("d", two % 5), ("e", three % 5)) if limit < FRESH}
            self.known.observe_node(node, _csi_node(node, self.limits[node]))
            return True
        counts, count = (self.used, self.known.use) if what == "pod" else (self.attached, self.known.attach)
        change = -1 if counts[node, volume] and three % 2 else 1
        counts[node, volume] += change
        count(node, volume, change)
        return True

    def fitting(self) -> set[tuple[str, Need]]:
        """Return which volumes could be used on which node."""
        return {(node, need) for node in self.nodes for need in NEEDS if self._fits(node, *need)}

    def _fits(self, node: str, driver: str, needed: frozenset[AttachedVolume], fresh: int) -> bool:
        limit = self.limits.get(node, {}).get(driver)
        missing = sum(not self.used[node, volume] for volume in needed) + fresh
        there = sum(bool(self.used[node, each] or self.attached[node, each]) for each in VOLUMES if each[0] == driver)
        return limit is None or not missing or there + missing <= limit


def _csi_node(name: str, limits: Mapping[str, int]) -> CSINode:
    return CSINode(uid="u", name=name, resource_version=1, limits=limits, migrated_plugins=frozenset())


@settings(max_examples=300, deadline=None)
@given(st.lists(events, max_size=40))
def test_a_limit_is_freed_whenever_something_fits_that_did_not(happenings: list[tuple[str, int, int, int]]) -> None:
    world = World()
    for node in NODES:
        world.happens("node", NODES.index(node), 0, 0)
    for event in happenings:
        before = world.fitting()
        same = world.happens(*event)
        freed, more = world.known.take_freed(), world.fitting() - before
        if same:
            assert freed == bool(more), more


def test_a_volume_that_takes_the_place_of_another_frees_nothing() -> None:
    known = AttachedVolumes()
    known.node_came("a", 0)
    known.observe_node("a", _csi_node("a", {"d": 2}))
    known.use("a", ("d", "1"), 1)
    assert not known.take_freed()
    known.use("a", ("d", "1"), -1)
    known.use("a", ("d", "2"), 1)
    assert not known.take_freed()
    known.use("a", ("d", "2"), -1)
    known.use("a", ("e", "2"), 1)
    assert known.take_freed()
    assert not known.take_freed()
