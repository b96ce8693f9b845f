"""What all nodes would have end for a pod: the search of the product looks at the cheapest alone."""

from __future__ import annotations

from collections.abc import Sequence

from vgpu_scheduler.engine.preemption import Candidates, Preemptor, VictimSearch
from vgpu_scheduler.engine.preemption.victims import Victims
from vgpu_scheduler.engine.preferences import Filtered
from vgpu_scheduler.kube import DisruptionBudget
from vgpu_scheduler.predicates import Rejection
from vgpu_scheduler.state import State


def all_candidates(
    search: VictimSearch, state: State, preemptor: Preemptor, found: Filtered, budgets: Sequence[DisruptionBudget]
) -> Candidates:
    """Search each node on which the end of pods might help."""
    victims: dict[str, Victims] = {}
    rejections: dict[str, Rejection] = {}
    for node in sorted(
        state.nodes.name(row) for rows in search.helpful_rows(preemptor, found) for row in rows.tolist()
    ):
        on_node = search.on_node(preemptor, node, budgets)
        if isinstance(on_node, Victims):
            victims[node] = on_node
        elif on_node is not None:
            rejections[node] = on_node
    return Candidates(victims, rejections)
