"""Whatever two things keep a pod from a node, there is an answer, and whoever does what it says sees the pod placed."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from itertools import combinations
from typing import Any

import pytest
from tests.policy.resources import policy_object
from tests.whatif.test_whatif_remedies import GPU, MEMORY, node, pod, running, world_of

from vgpu_scheduler.kube import Pod
from vgpu_scheduler.whatif import Remedy, RemedyType, World, ask, explain_pod, remedies

Object = dict[str, Any]


class Cluster:
    """Nodes, a pod that waits, and what else there is."""

    def __init__(self, nodes: int) -> None:
        self.nodes = [node(f"n{n}", 1, labels={"pool": "a", "host": f"n{n}"}) for n in range(nodes)]
        self.asked = pod("asked", {GPU: 1, MEMORY: 1000})
        self.others: list[Object] = []
        self.held = 0
        self.port = 0
        self.keeps_away: Object = {}

    def limits(self, **more: Any) -> None:
        self.asked["spec"]["containers"][0]["resources"]["limits"] |= {key: str(value) for key, value in more.items()}

    def annotate(self, name: str, value: str) -> None:
        self.asked["metadata"].setdefault("annotations", {})[name] = value

    def policy(self, name: str, spec: Object) -> None:
        self.others.append(policy_object(name, spec))

    def hold(self, memory: int) -> None:
        self.held = max(self.held, memory)

    @property
    def objects(self) -> list[Object]:
        there = [running(f"t{n}", f"n{n}", f"GPU-n{n}-0", self.held) for n in range(len(self.nodes)) if self.held]
        for each in there:
            each["metadata"]["labels"] = {"app": "t"}
            if self.port:
                each["spec"]["containers"][0]["ports"] = [{"containerPort": self.port, "hostPort": self.port}]
            if self.keeps_away:
                each["spec"]["affinity"] = self.keeps_away
        return [*self.nodes, *there, *self.others, self.asked]


def of_nodes(**spec: Any) -> Callable[[Cluster], None]:
    def keep(cluster: Cluster) -> None:
        for each in cluster.nodes:
            each["spec"] |= deepcopy(spec)

    return keep


def cordoned_cards(cluster: Cluster) -> None:
    for each in cluster.nodes:
        each["metadata"]["annotations"]["hami.io/device-cordon"] = f"GPU-{each['metadata']['name']}-0"


def sick_cards(cluster: Cluster) -> None:
    for each in cluster.nodes:
        key = "hami.io/node-nvidia-register"
        annotations = each["metadata"]["annotations"]
        annotations[key] = annotations[key].replace("true", "false")


def too_much_memory(cluster: Cluster) -> None:
    cluster.limits(**{MEMORY: 10000})
    cluster.hold(10000)


def mutex(cluster: Cluster) -> None:
    cluster.annotate("hami.io/gpu-scheduler-policy", "mutex")
    cluster.hold(1)


def host_port(cluster: Cluster) -> None:
    cluster.hold(1)
    cluster.port = 8080
    cluster.asked["spec"]["containers"][0]["ports"] = [{"containerPort": 8080, "hostPort": 8080}]


def too_many_pods(cluster: Cluster) -> None:
    cluster.hold(1)
    for each in cluster.nodes:
        for field in ("allocatable", "capacity"):
            each["status"][field]["pods"] = "1"


def kept_away_by_pods(cluster: Cluster) -> None:
    """What runs on the nodes wants nobody like the pod beside it."""
    cluster.hold(1)
    cluster.asked["metadata"]["labels"] = {"app": "asked"}
    term = {"labelSelector": {"matchLabels": {"app": "asked"}}, "topologyKey": "host"}
    cluster.keeps_away = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def exclusive(cluster: Cluster) -> None:
    cluster.policy("exclusive", {"devices": {"exclusive": True}})
    cluster.hold(1)


def repelled_by_pods(cluster: Cluster) -> None:
    term = {"labelSelector": {"matchLabels": {"app": "t"}}, "topologyKey": "host"}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    cluster.asked["spec"]["affinity"] = {"podAntiAffinity": required}
    cluster.hold(2)


def quota(cluster: Cluster) -> None:
    hard = {"hard": {f"limits.{MEMORY}": "500"}}
    metadata = {"name": "q", "namespace": "default"}
    cluster.others.append({"kind": "ResourceQuota", "metadata": metadata, "spec": hard})


OBSTACLES: dict[str, Callable[[Cluster], None]] = {
    "cordoned nodes": of_nodes(unschedulable=True),
    "taints": of_nodes(taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}]),
    "cordoned cards": cordoned_cards,
    "sick cards": sick_cards,
    "selector": lambda cluster: cluster.asked["spec"].update(nodeSelector={"pool": "b"}),
    "model": lambda cluster: cluster.annotate("nvidia.com/use-gputype", "H200"),
    "card": lambda cluster: cluster.annotate("nvidia.com/use-gpuuuid", "GPU-zz"),
    "mutex": mutex,
    "memory": too_much_memory,
    "cpu": lambda cluster: cluster.limits(cpu=70),
    "cards": lambda cluster: cluster.limits(**{GPU: 2}),
    "offered nowhere": lambda cluster: cluster.limits(**{"example.com/fpga": 1}),
    "quota": quota,
    "denied": lambda cluster: cluster.policy("denied", {"devices": {"types": {"deny": ["A100"]}}}),
    "policy's nodes": lambda cluster: cluster.policy("pool", {"nodeSelector": {"matchLabels": {"pool": "q"}}}),
    "limit": lambda cluster: cluster.policy("limit", {"limits": {"memoryPerPod": "512Mi"}}),
    "exclusive": exclusive,
    "pods": repelled_by_pods,
    "port": host_port,
    "number of pods": too_many_pods,
    "kept away by pods": kept_away_by_pods,
}


def kept_by(kinds: tuple[str, ...], nodes: int = 1) -> list[Object]:
    cluster = Cluster(nodes)
    for kind in kinds:
        OBSTACLES[kind](cluster)
    return cluster.objects


def done(objects: list[Object], remedy: Remedy, ended: set[str]) -> list[Object]:
    """Return a cluster after what a remedy says was done."""
    given = {(each["kind"], each["metadata"]["name"]): dict(each) for each in remedy.objects}
    after = [given.pop((each["kind"], each["metadata"]["name"]), each) for each in objects]
    if remedy.pod is not None:
        after[-1] = dict(remedy.pod)
    after = [each for each in after if each["metadata"]["name"] not in ended]
    return [*given.values(), *after]


def check(kinds: tuple[str, ...], nodes: int) -> None:
    check_objects(kept_by(kinds, nodes), kinds)


def check_objects(objects: list[Object], kinds: tuple[str, ...]) -> None:
    made, waiting = world_of(*deepcopy(objects))
    before = made.engine.state.ledger()
    found = explain_pod(made, waiting)
    assert made.engine.state.ledger() == before, "a question changes nothing"
    assert not ask(made, waiting).node, "a question changes nothing"
    helping = [remedy for remedy in found.remedies if remedy.node and remedy.type is not RemedyType.ADD_NODE]
    assert helping, (kinds, found.text())
    texts = [remedy.text for remedy in helping]
    assert len(texts) == len(set(texts)), texts
    for remedy in helping:
        ended = {made.bound[uid].name for uid in remedy.ended}
        again, asked = world_of(*deepcopy(done(objects, remedy, ended)))
        assert ask(again, asked).node == remedy.node, (kinds, remedy.text)


@pytest.mark.parametrize("kinds", [(kind,) for kind in OBSTACLES])
def test_one_thing_has_an_answer(kinds: tuple[str]) -> None:
    check(kinds, 2)


def test_what_a_pod_says_about_how_cards_are_chosen_may_be_left_out() -> None:
    made, waiting = world_of(*kept_by(("mutex",)))
    texts = [remedy.text for remedy in explain_pod(made, waiting).remedies]
    assert "leave out its annotation hami.io/gpu-scheduler-policy (mutex)" in texts


@pytest.mark.parametrize("kinds", [*combinations(OBSTACLES, 2)], ids=" and ".join)
def test_two_things_have_an_answer(kinds: tuple[str, str]) -> None:
    check(kinds, 1)


@pytest.mark.parametrize("kind", [*OBSTACLES, "limit of the same policy"])
def test_a_model_that_is_allowed_beside_another_change_says_where_the_pod_goes(kind: str) -> None:
    """The model that is allowed is not that of the node that comes first."""
    cluster = Cluster(3)
    for each in cluster.nodes[:1]:
        annotations = each["metadata"]["annotations"]
        annotations["hami.io/node-nvidia-register"] = annotations["hami.io/node-nvidia-register"].replace("A100", "T4")
    spec: Object = {"devices": {"types": {"allow": ["H200"]}}}
    if kind in OBSTACLES:
        OBSTACLES[kind](cluster)
    else:
        spec["limits"] = {"memoryPerPod": "900Mi"}
    cluster.policy("allowed", spec)
    check_objects(cluster.objects, (kind,))


@pytest.mark.long
@pytest.mark.parametrize("kinds", [*combinations(OBSTACLES, 2)], ids=" and ".join)
@pytest.mark.parametrize("nodes", [3])
def test_two_things_have_an_answer_on_more_nodes(kinds: tuple[str, str], nodes: int) -> None:
    check(kinds, nodes)


NAMED = {
    "cordoned nodes": "is cordoned",
    "taints": "has the taint k=v:NoSchedule",
    "selector": "does not match its node selector or affinity",
    "cordoned cards": "CardCordoned",
    "sick cards": "CardNotHealth",
    "model": "CardTypeMismatch",
    "quota": "ResourceQuotaNotFit",
    "denied": "CardDeniedByPolicy",
    "cpu": "Insufficient cpu",
    "port": "didn't have free ports",
    "number of pods": "Too many pods",
    "kept away by pods": "didn't satisfy existing pods anti-affinity",
}


ENDED_TOGETHER = {"port", "number of pods", "kept away by pods"}
"""What the end of one pod mends, be it two of them."""
ALIKE = ({"cordoned cards", "sick cards"}, ENDED_TOGETHER)


@pytest.mark.parametrize("kinds", [each for each in combinations(NAMED, 2) if not any(map(set(each).issubset, ALIKE))])
def test_what_a_node_would_say_next_is_named(kinds: tuple[str, str]) -> None:
    made, waiting = world_of(*kept_by(kinds))
    (cause,) = [each for each in explain_pod(made, waiting).causes if each.startswith("Several things keep it from ")]
    assert {kind for kind, said in NAMED.items() if said in cause} == set(kinds), cause


@pytest.mark.parametrize("registered", ["garbage", "GPU-1", "GPU-1,x,y", "[1]", '[{"id": 5}]', "{"])
def test_a_node_whose_list_of_cards_cannot_be_read_is_told_with_what_to_do(registered: str) -> None:
    unreadable = node("a")
    unreadable["metadata"]["annotations"]["hami.io/node-nvidia-register"] = registered
    made, waiting = world_of(unreadable, node("b", cards=0), pod("asked", {GPU: 1, MEMORY: 1000}))
    text = explain_pod(made, waiting).text()
    assert "restart the device plugin on node a: the cards that the node lists cannot be read (" in text
    assert "device plugin on node b" not in text


@pytest.mark.long
@pytest.mark.parametrize("mistaken", ["", "9223372036854775808"])
def test_many_containers_that_ask_the_same_are_answered_soon(mistaken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = pod("asked", {GPU: 1})
    limits = [{GPU: "1", MEMORY: "99999"} for _ in range(8)]
    limits[3][MEMORY] = mistaken or limits[3][MEMORY]
    asked["spec"]["containers"] = [{"name": f"c{n}", "resources": {"limits": each}} for n, each in enumerate(limits)]
    made, waiting = world_of(node("a"), asked)
    read: list[Object] = []

    def counted(world: World, obj: Object, *, again: bool = False) -> Pod:
        read.append(obj)
        return as_it_is(world, obj, again=again)

    as_it_is = World.pod
    monkeypatch.setattr(World, "pod", counted)
    remedies(made, waiting)
    assert len(read) < 8_000, len(read)
