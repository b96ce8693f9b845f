"""Makes the golden cases of groups: ``python -m tests.golden.group_recorder [--seed N] [--cases N] [FILE]``.

Each world of :mod:`tests.golden.group_worlds` is set up on a real API server on which PodGroups are switched on, and
kube-scheduler decides about its group with its own plugins: ``GangScheduling``, ``TopologyPlacementGenerator`` and
``PodGroupPodsCount``. What it did is written down with the world. Both are of Kubernetes 1.36.3, as is
``tests/vectors/kubernetes/groups.jsonl.gz``, which was made with the defaults.

Which of several nodes of the same score a pod goes to is left to chance by kube-scheduler, and so the nodes, and for
groups of unlike pods the outcome too, may come out otherwise another time.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.apiserver.control_plane import ControlPlane, poll
from tests.apiserver.pod_groups import API_FLAGS, FEATURES, VERSION
from tests.golden.group_worlds import Obj, worlds
from tests.golden.kubernetes import VECTORS

SEED, CASES = 1, 252
FLAGS = (*API_FLAGS, "--disable-admission-plugins=TaintNodesByCondition")

_NODES = "/api/v1/nodes"
_PODS = "/api/v1/namespaces/default/pods"
_GROUPS = f"/apis/{VERSION}/namespaces/default/podgroups"
_TOO_MUCH = "1000000"
"""CPUs that no node has."""


class Recorder:
    """A kube-scheduler that decides about one world after the other.

    Parameters
    ----------
    plane
        Its API server, with :data:`FLAGS`.
    """

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    @classmethod
    @contextmanager
    def running(cls, plane: ControlPlane) -> Iterator[Recorder]:
        """Run a kube-scheduler for the time of the block."""
        with plane.scheduler(FEATURES):
            yield cls(plane)

    def record(self, world: Obj) -> Obj:
        """Return a world with what became of its group.

        All pods are there before the group: the first attempt is one of all members, and nothing later is asked for,
        though kube-scheduler tries groups that it cannot place again and again. The next PodGroup is known after that
        of the world: who waits then for other members goes on to wait.
        """
        name, members = world["id"], world["members"]
        for node in world["nodes"]:
            self._post(_NODES, node)
        for pod in (*world["pods"], *members):
            self._post(_PODS, pod)
        self._until(lambda: self._knows_all(world), f"{name}: kube-scheduler to know the nodes and the pods")
        self._post(_GROUPS, world["group"])
        later = f"{name}-later"
        self._post(_GROUPS, {"metadata": {"name": later}, "spec": {"schedulingPolicy": {"basic": {}}}})
        self._post(_PODS, _endless(later, schedulingGroup={"podGroupName": later}))
        self._until(lambda: self._condition(later) == "False", f"{name}: the PodGroup that came later")
        if world["kind"] != "incomplete":
            self._until(lambda: self._is_decided(name, members), f"{name}: a decision")
        found = {**world, "expect": {"bound": self._bound(members)}}
        self._clear()
        return found

    def _knows_all(self, world: Obj) -> bool:
        """Tell whether a pod that was made after all others was held against exactly the nodes of the world."""
        name, number = f"{world['id']}-last", len(world["nodes"])
        selected = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _among(world["nodes"])}}
        self._post(_PODS, _endless(name, affinity=selected))
        self._until(lambda: self._reason(name) != "", f"{name} to be decided")
        told = self._told(name)
        self._delete(f"{_PODS}/{name}")
        return told.startswith(f"0/{number} nodes are available: ") and f"{number} Insufficient cpu" in told

    def _is_decided(self, group: str, members: Sequence[Obj]) -> bool:
        """Tell whether the group was decided, and each member is bound or was told why not."""
        told = (self._node(name) or self._reason(name) for name in map(_name, members))
        return self._condition(group) != "" and all(told)

    def _bound(self, members: Sequence[Obj]) -> dict[str, str]:
        """Return the nodes of the members that were bound by the scheduler."""
        asked = [_name(pod) for pod in members if "nodeName" not in pod["spec"]]
        return {name: node for name in asked if (node := self._node(name))}

    def _node(self, pod: str) -> str:
        return str(self._get(f"{_PODS}/{pod}")["spec"].get("nodeName", ""))

    def _reason(self, pod: str) -> str:
        return self._scheduled(pod).get("reason", "")

    def _told(self, pod: str) -> str:
        return self._scheduled(pod).get("message", "")

    def _scheduled(self, pod: str) -> dict[str, str]:
        conditions = self._get(f"{_PODS}/{pod}")["status"].get("conditions", [])
        return next((each for each in conditions if each["type"] == "PodScheduled"), {})

    def _condition(self, group: str) -> str:
        """Return the status of the condition of a PodGroup, empty without one."""
        conditions = self._get(f"{_GROUPS}/{group}").get("status", {}).get("conditions", [])
        return next((str(each["status"]) for each in conditions if each["type"] == "PodGroupScheduled"), "")

    def _post(self, path: str, body: Obj) -> None:
        status, answer = self._plane.request("POST", path, body)
        if status != 201:
            raise RuntimeError(f"POST {path} {_name(body)}: {status} {answer}")

    def _get(self, path: str) -> Obj:
        status, answer = self._plane.request("GET", path)
        if status != 200:
            raise RuntimeError(f"GET {path}: {status} {answer}")
        return dict(answer)

    def _delete(self, path: str) -> None:
        self._plane.request("DELETE", path, {"gracePeriodSeconds": 0})

    def _clear(self) -> None:
        self._plane.clear()
        self._delete(_GROUPS)

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        if not poll(condition, 30.0, 0.02):
            raise TimeoutError(f"waited in vain for {what}")


def _name(made: Obj) -> str:
    return str(made["metadata"]["name"])


def _among(nodes: Sequence[Obj]) -> Obj:
    values = [_name(node) for node in nodes]
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": values}
    return {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}


def _endless(name: str, **spec: object) -> Obj:
    """Return a pod that minds no taint and fits nowhere."""
    container = {"name": "main", "image": "example", "resources": {"requests": {"cpu": _TOO_MUCH}}}
    return {
        "metadata": {"name": name},
        "spec": {"containers": [container], "tolerations": [{"operator": "Exists"}], **spec},
    }


def write(path: Path, cases: Iterable[Obj]) -> None:
    """Write cases, one per line; the same cases are the same bytes."""
    lines = [json.dumps(case, separators=(",", ":"), sort_keys=True) + "\n" for case in cases]
    path.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.golden.group_recorder", description="Make golden cases.")
    parser.add_argument("file", nargs="?", type=Path, default=VECTORS / "groups.jsonl.gz", help="where they go")
    parser.add_argument("--seed", type=int, default=SEED, help="of the worlds")
    parser.add_argument("--cases", type=int, default=CASES, metavar="N", help="how many")
    options = parser.parse_args(arguments)
    made = []
    with ControlPlane(api_flags=FLAGS) as plane, Recorder.running(plane) as recorder:
        for world in worlds(options.seed, options.cases):
            made.append(recorder.record(world))
            print(made[-1]["id"], made[-1]["kind"], len(made[-1]["expect"]["bound"]), flush=True)
    write(options.file, made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
