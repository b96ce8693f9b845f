"""Whether a group can be placed at all, by trying every node for every member, in plain Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.naive.predicates import inter_pod, verdict

Obj = dict[str, Any]


class GroupTwin:
    """A small world with a group: nodes, pods that are bound, a PodGroup and its members, bound ones among them.

    Parameters
    ----------
    nodes, pods, group, members
        As the API shows them.
    """

    def __init__(self, nodes: Sequence[Obj], pods: Sequence[Obj], group: Obj, members: Sequence[Obj]) -> None:
        self._nodes = {node["metadata"]["name"]: node for node in nodes}
        self._bound = [pod for pod in (*pods, *members) if pod["spec"].get("nodeName")]
        self._mine = [pod for pod in members if pod["spec"].get("nodeName")]
        self._waiting = [pod for pod in members if not pod["spec"].get("nodeName")]
        self._policy, self._total = group["spec"]["schedulingPolicy"], len(members)
        topology = group["spec"].get("schedulingConstraints", {}).get("topology", [])
        self._key = topology[0]["key"] if topology else ""

    @property
    def needed(self) -> int:
        """How many members have to be placed at least, beside those that are bound."""
        if "gang" not in self._policy:
            return 1
        return max(1, int(self._policy["gang"]["minCount"]) - len(self._mine))

    def has_quorum(self) -> bool:
        """Tell whether there are as many members as the group needs."""
        return self.needed <= len(self._waiting)

    def can_be_placed(self) -> bool:
        """Tell whether enough members fit somehow, each on a node of one domain."""
        return self.has_quorum() and self._place(0, {}, len(self._waiting) - self.needed)

    def wrong(self, placed: Mapping[str, str]) -> str:
        """Say what is wrong with a placement of members, names to nodes, whoever made it; empty if nothing is."""
        waiting = {pod["metadata"]["name"]: pod for pod in self._waiting}
        if unknown := placed.keys() - waiting.keys():
            return f"{sorted(unknown)} do not wait"
        if 0 < len(placed) < self.needed:
            return f"{len(placed)} are placed, {self.needed} are needed"
        for name, node in placed.items():
            others = {other: there for other, there in placed.items() if other != name}
            if node not in self._nodes:
                return f"{name} is on {node}, which is no node"
            if not self._fits(waiting[name], node, others):
                return f"{name} does not fit on {node}"
        return ""

    def _place(self, at: int, placed: dict[str, str], spare: int) -> bool:
        """Place the members from some position on, of which so many may be left out."""
        if at == len(self._waiting):
            return True
        pod = self._waiting[at]
        for node in self._nodes:
            if self._fits(pod, node, placed) and self._place(at + 1, {**placed, pod["metadata"]["name"]: node}, spare):
                return True
        return spare > 0 and self._place(at + 1, placed, spare - 1)

    def _fits(self, pod: Obj, node: str, placed: Mapping[str, str]) -> bool:
        """Tell whether a member fits on a node when others are placed."""
        new = [_on(other, placed[other["metadata"]["name"]]) for other in self._waiting if _among(other, placed)]
        there = [*self._bound, *new]
        found = self._nodes[node]
        if verdict(pod, found, [other for other in there if other["spec"]["nodeName"] == node]):
            return False
        if inter_pod(pod, found, list(self._nodes.values()), there, {}):
            return False
        taken = {other["spec"]["nodeName"] for other in (*self._mine, *new)}
        return not self._key or self._is_one_domain({node, *taken})

    def _is_one_domain(self, nodes: set[str]) -> bool:
        values = {self._nodes[node]["metadata"]["labels"].get(self._key) for node in nodes}
        return len(values) == 1 and None not in values


def _among(pod: Obj, placed: Mapping[str, str]) -> bool:
    return pod["metadata"]["name"] in placed


def _on(pod: Obj, node: str) -> Obj:
    return {**pod, "spec": {**pod["spec"], "nodeName": node}}
