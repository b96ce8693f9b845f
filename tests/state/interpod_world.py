"""A small cluster whose pods, nodes and namespaces change, in a state and as plain API objects beside it."""

from __future__ import annotations

from typing import Any

from tests.kube.objects import Obj, node, pod
from tests.naive.predicates import PREFERRED, REQUIRED

from vgpu_scheduler.kube import Pod, decode_node, decode_pod
from vgpu_scheduler.model import Placement
from vgpu_scheduler.state import State

Move = tuple[int, int, int, int]
"""What happens, and three numbers that choose how."""

MOVES = 13

APPS: list[dict[str, str]] = [
    {"app": "web"},
    {"app": "web", "rev": "1"},
    {"app": "db", "rev": "2"},
    {"app": "db"},
    {"rev": "1"},
    {},
]
WEB, DB = {"matchLabels": {"app": "web"}}, {"matchLabels": {"app": "db"}}
EITHER = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}
OLD = {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "rev", "operator": "NotIn", "values": ["1"]}]}
SOME_REV = {"matchExpressions": [{"key": "rev", "operator": "Exists"}]}
TEAM = {"matchLabels": {"team": "x"}}
NO_TEAM = {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}


def term(selector: Obj | None, key: str = "zone", **more: Any) -> Obj:
    return {"topologyKey": key, **({} if selector is None else {"labelSelector": selector}), **more}


TERMS: list[tuple[list[Obj], list[Obj]]] = [
    ([], []),
    ([], []),
    ([term(WEB)], []),
    ([], [term(WEB)]),
    ([term(WEB), term(SOME_REV, "host")], []),
    ([term(DB, namespaces=["n1", "n2"])], [term(WEB, "host")]),
    ([], [term(EITHER, "host", namespaceSelector={}), term(OLD)]),
    ([term(EITHER, namespaceSelector=TEAM)], []),
    ([], [term(SOME_REV, namespaceSelector=NO_TEAM, namespaces=["n1"])]),
    ([], [term(WEB, matchLabelKeys=["rev"])]),
    ([term({}, mismatchLabelKeys=["rev", "app"])], []),
    ([], [term(None), term({}, "rack")]),
    ([], [term(OLD, matchLabelKeys=["rev"])]),
    ([term(SOME_REV, "rack")], []),
]
"""Affinity and anti-affinity."""

LIKED: list[tuple[list[Obj], list[Obj]]] = [
    ([], []),
    ([], []),
    ([term(WEB)], []),
    ([], [term(WEB)]),
    ([term(DB, "rack"), term(DB, "rack")], [term(EITHER, "host")]),
    ([term(EITHER, namespaceSelector={})], [term(EITHER, namespaceSelector={})]),
    ([], [term(SOME_REV, namespaceSelector=TEAM), term(None)]),
    ([term(WEB, matchLabelKeys=["rev"])], [term({}, "host", mismatchLabelKeys=["app"])]),
    ([term(OLD, "none")], []),
]
"""Preferred affinity and anti-affinity."""

NODES, ZONES, NAMESPACES = 20, ["a", "b", "c", None], ["n0", "n1", "n2"]
NAMESPACE_LABELS: list[dict[str, str] | None] = [{}, {"team": "x"}, {"team": "y"}, None]


def asking(name: str, labels: int, terms: int, namespace: int, version: int = 1) -> Obj:
    """Return a pod that is not bound."""
    kinds = ("podAffinity", "podAntiAffinity")
    liked = LIKED[(terms // len(TERMS) + labels) % len(LIKED)]
    affinity = {
        kind: {REQUIRED: required, PREFERRED: [
            {"weight": 10 + 5 * number, "podAffinityTerm": preferred} for number, preferred in enumerate(some)]}
        for kind, required, some in zip(kinds, TERMS[terms % len(TERMS)], liked, strict=True)
    }  # fmt: skip
    result = pod(name=name, namespace=NAMESPACES[namespace % len(NAMESPACES)], affinity=affinity)
    result["metadata"] |= {"labels": APPS[labels % len(APPS)], "resourceVersion": str(version)}
    return result


class World:
    """The state, and what is in it; ``zone`` is the label that nodes have for their zone."""

    def __init__(self, zone: str = "zone") -> None:
        self.state = State({"hami": 3})
        self.zone = zone
        self.nodes: dict[str, Obj] = {}
        self.pods: dict[str, Obj] = {}
        self.namespaces: dict[str, Obj] = {}
        self._version = 1

    def move(self, move: Move) -> None:
        """Let one thing happen."""
        what, one, two, three = move
        self._version += 1
        name = f"node-{one % NODES}"
        match what % MOVES:
            case 0 | 1:
                self._observe_node(name, two, three)
            case 2:
                self.nodes.pop(name, None)
                self.state.remove_node(name)
            case 3:
                self._observe_namespace(NAMESPACES[one % len(NAMESPACES)], NAMESPACE_LABELS[two % 4])
            case 4 | 5 | 6:
                self._bind(asking(f"p{one}-{self._version}", one, two, three, self._version), f"node-{three % NODES}")
            case 7:
                self._assume(asking(f"p{one}-{self._version}", one, two, three, self._version), name)
            case _:
                self._change(what % MOVES, one, two)

    def _observe_node(self, name: str, zone: int, rack: int) -> None:
        labels = {
            "host": name,
            "kubernetes.io/hostname": name if rack % 7 else None,
            self.zone: ZONES[zone % 4],
            "rack": f"r{rack}" if rack % 3 else None,
        }
        obj = node(name, labels={key: value for key, value in labels.items() if value is not None})
        obj["metadata"] |= {"uid": f"{name}-{self._version}", "resourceVersion": str(self._version)}
        effects = [effect for effect, every in (("NoSchedule", 4), ("PreferNoSchedule", 5)) if rack % every == 0]
        obj["spec"]["taints"] = [{"key": "dedicated", "value": "x", "effect": effect} for effect in effects]
        if rack % 10 == 0:
            obj["spec"]["taints"].append({"key": "old", "value": "", "effect": "PreferNoSchedule"})
        self.nodes[name] = obj
        self.state.observe_node(decode_node(obj), {})

    def _observe_namespace(self, name: str, labels: dict[str, str] | None) -> None:
        self.state.observe_namespace(name, labels)
        self.namespaces.pop(name, None)
        if labels is not None:
            self.namespaces[name] = labels

    def _observe(self, obj: Obj) -> Pod:
        known = decode_pod(obj)
        self.state.observe_pod(known, {})
        return known

    def _bind(self, obj: Obj, name: str) -> None:
        obj["spec"]["nodeName"] = name
        self.pods[obj["metadata"]["uid"]] = obj
        self._observe(obj)

    def _assume(self, obj: Obj, name: str) -> None:
        waiting = self._observe(obj)
        self.state.assume(waiting.uid, Placement(name, ()), ())
        self.pods[waiting.uid] = {**obj, "spec": {**obj["spec"], "nodeName": name}}

    def _change(self, what: int, which: int, labels: int) -> None:
        """Change one of the pods: its labels, its phase, whether it is being deleted, or whether it is there."""
        if not self.pods:
            return
        uid = sorted(self.pods)[which % len(self.pods)]
        obj = self.pods[uid]
        held = self.state.reservation(uid)
        if what == 8:
            obj["metadata"] = {**obj["metadata"], "labels": APPS[labels % len(APPS)]}
            obj["metadata"]["resourceVersion"] = str(self._version)
            assumed = held is not None and held.placement is not None
            self._observe(_unbound(obj) if assumed and labels % 2 else obj)
        elif what == 9:
            phase = ["Succeeded", "Failed", "Running"][labels % 3]
            obj["status"] = {"phase": phase}
            obj["metadata"] = {**obj["metadata"], "resourceVersion": str(self._version)}
            self._observe(obj)
        elif what == 12:
            obj["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": str(self._version)}
            self._observe(obj)
        elif what == 10 and held is not None and held.placement is not None:
            del self.pods[uid]
            self.state.unreserve(uid)
        else:
            del self.pods[uid]
            self.state.remove_pod(uid)


def _unbound(obj: Obj) -> Obj:
    return {**obj, "spec": {key: value for key, value in obj["spec"].items() if key != "nodeName"}}
