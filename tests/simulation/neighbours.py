"""The state machine of pods that depend on each other and on objects of their own, and on labels of all kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import hypothesis.strategies as st
from hypothesis.stateful import initialize, precondition, rule
from tests.simulation.asking import (
    CLAIM_NAMES,
    CLAIMING,
    HOST,
    NEIGHBOURS,
    VOLUME_NAMES,
    ZONE,
    ZONES,
    Asking,
)
from tests.simulation.cluster import OTHERS, SimCard, SimNode, SimPod
from tests.simulation.machine import picks
from tests.simulation.restored import RestoringMachine
from tests.simulation.sight import Sight
from tests.simulation.things import NAMESPACES, STORAGE
from tests.simulation.volumes import Storage
from tests.simulation.world import REACHED

NODES = ("node-a", "node-b", "node-c", "node-d")
askings = st.one_of(st.sampled_from(NEIGHBOURS), st.sampled_from(CLAIMING))
sizes = st.integers(1, 3)


class NeighboursMachine(RestoringMachine):
    """What others can do to pods, claims, volumes, nodes and namespaces."""

    names = NODES

    def __init__(self) -> None:
        super().__init__()
        self.storage = Storage(self.api)
        self.sight = Sight(self.api)
        self.unknown = False

    @initialize(
        zones=st.lists(st.sampled_from(ZONES), min_size=4, max_size=4),
        asked=st.lists(askings, min_size=3, max_size=12),
        volumes=st.integers(0, 4),
        claims=st.sampled_from([3, 5, 7, 7]),
        limit=st.sampled_from([0, 0, 1, 2, 3]),
    )
    def begin(self, zones: Sequence[str], asked: Sequence[Asking], volumes: int, claims: int, limit: int) -> None:
        """Begin with nodes in zones, pods that wait, and some claims and volumes for them."""
        self.storage.begin()
        self.api.put(NAMESPACES, {"metadata": {"name": "other", "labels": {"team": "x"}}})
        self.api.put(NAMESPACES, {"metadata": {"name": "default"}})
        for number, (name, zone) in enumerate(zip(NODES[:3], zones, strict=False)):
            self._put_node(SimNode(name, f"{name}-{self.api.serial()}", 0, _cards(name), others=frozenset()), zone)
            self.storage.say("limit", name, limit)
            for volume in VOLUME_NAMES[number : max(volumes, number) : 3]:
                self.storage.make_volume(volume, 1 + number, {HOST: [name]})
        for name in CLAIM_NAMES[:claims]:
            self.storage.make_claim(name, 1)
        for asking in asked:
            self._put_pod(asking)
        self._deliver_all()

    # Nodes and namespaces --------------------------------------------------------------------------------------------

    def _add_node(self, name: str, number: int) -> None:
        node = SimNode(name, f"{name}-{self.api.serial()}", 0, _cards(name), others=frozenset())
        self._put_node(node, ZONES[number % 3])

    def _put_node(self, node: SimNode, zone: str) -> None:
        labels = {HOST: node.name, **({ZONE: zone} if zone else {})}
        self.api.put_node(replace(node, labels=labels))

    @rule(pick=picks, change=st.sampled_from(["zone", "zone", "hostname", "cordon"]), zone=st.sampled_from(ZONES))
    def node_changes(self, pick: int, change: str, zone: str) -> None:
        node = self._a_node(pick)
        if node is None:
            return
        if change == "zone":
            self._put_node(node, zone)
        elif change == "hostname":
            self.api.put_node(replace(node, labels={k: v for k, v in node.labels.items() if k != HOST}))
        else:
            self.api.put_node(replace(node, unschedulable=not node.unschedulable))

    @rule(name=st.sampled_from(["default", "other"]), team=st.sampled_from(["x", "y", ""]), gone=st.integers(0, 4))
    def namespace_changes(self, name: str, team: str, gone: int) -> None:
        known = self.api.get(NAMESPACES, name)
        if known is not None and not gone:
            self.api.delete(known)
        else:
            self.api.put(NAMESPACES, {"metadata": {"name": name, "labels": {"team": team} if team else {}}})

    # Pods ------------------------------------------------------------------------------------------------------------

    def _put_pod(self, asking: Asking, **more: object) -> SimPod:
        number = self.api.serial()
        pod = SimPod(
            f"pod-{number:04}",
            f"uid-{number}",
            0,
            asking.gpu,
            3000 if asking.gpu else 0,
            0,
            asking.cpu,
            labels={**({"app": asking.app} if asking.app else {}), **asking.labels},
            namespace=asking.namespace,
            asked=asking.spec(),
            ports=asking.ports,
        )
        return self.api.put_pod(replace(pod, **more))

    @rule(
        asking=askings,
        number=st.integers(1, 4),
        priority=st.sampled_from([0, 0, 10]),
        seen=st.sampled_from([True, True, False]),
    )
    def pods_come(self, asking: Asking, number: int, priority: int, *, seen: bool) -> None:
        for _ in range(number):
            self._put_pod(asking, priority=priority)
        if seen:
            self._deliver_all()

    @rule(asked=st.lists(askings, min_size=2, max_size=4))
    def different_pods_come(self, asked: Sequence[Asking]) -> None:
        for asking in asked:
            self._put_pod(asking)

    @rule(asking=askings, name=st.sampled_from(NODES), started=st.booleans())
    def others_bind(self, asking: Asking, name: str, *, started: bool) -> None:
        phase = "Running" if started else "Pending"
        self._put_pod(asking, scheduler=OTHERS, node=name, started=started, phase=phase, gpu=0)
        REACHED["bound by others"] += 1

    @rule(pick=picks, name=st.sampled_from(NODES))
    def others_bind_one_of_ours(self, pick: int, name: str) -> None:
        pod = self._a_pod(pick, bound=False, terminal=False, ours=True)
        if pod is not None and not pod.deleting:
            self.api.put_pod(replace(pod, node=name))

    @rule(pick=picks, app=st.sampled_from(["web", "db", ""]), rev=st.sampled_from(["1", "2", ""]))
    def pod_is_labelled(self, pick: int, app: str, rev: str) -> None:
        if pod := self._a_pod(pick):
            labels = {key: value for key, value in (("app", app), ("rev", rev)) if value}
            self.api.put_pod(replace(pod, labels=labels))

    @rule(pick=picks)
    def pod_is_being_deleted(self, pick: int) -> None:
        if pod := self._a_pod(pick):
            self.api.put_pod(replace(pod, deleting=True))

    # Claims and volumes ----------------------------------------------------------------------------------------------

    @rule(names=st.lists(st.sampled_from(CLAIM_NAMES), min_size=1, max_size=3), size=sizes, bound=st.integers(0, 8))
    def claims_come(self, names: Sequence[str], size: int, bound: int) -> None:
        places = {0: {ZONE: ["a"]}, 1: {HOST: [NODES[size]]}}
        for name in names:
            self.storage.make_claim(name, size, places.get(bound))

    @rule(pick=picks)
    def claim_of_a_pod_comes(self, pick: int) -> None:
        owners = [pod for pod in self.api.pods.values() if any("ephemeral" in v for v in pod.asked.get("volumes", ()))]
        if owners:
            pod = owners[pick % len(owners)]
            self.storage.make_own_claim(pod.name, pod.uid)

    @rule(
        name=st.sampled_from(VOLUME_NAMES),
        size=sizes,
        where=st.sampled_from([*NODES, "zone", "anywhere"]),
        kept_for=st.sampled_from(["", "", "", *CLAIM_NAMES[:2]]),
    )
    def volume_comes(self, name: str, size: int, where: str, kept_for: str) -> None:
        places = {"zone": {ZONE: ["a", "b"]}, "anywhere": None}
        self.storage.make_volume(name, size, places.get(where, {HOST: [where]}), kept_for)

    def do_what_is_due(self) -> None:
        for _ in range(6):
            self.storage.work(0)

    @precondition(lambda self: self.storage.due())
    @rule(works=st.lists(picks, min_size=1, max_size=4), seen=st.booleans())
    def controllers_work(self, works: Sequence[int], *, seen: bool) -> None:
        for pick in works:
            REACHED[f"controller: {self.storage.work(pick)}"] += 1
        if seen:
            self._deliver_all()

    @rule(
        what=st.sampled_from(["class", "limit", "limit", "driver", "room", "attachment"]),
        node=st.sampled_from(NODES),
        number=st.integers(0, 3),
    )
    def storage_says(self, what: str, node: str, number: int) -> None:
        self.storage.say(what, node, number)

    @rule(pick=picks)
    def storage_object_is_deleted(self, pick: int) -> None:
        self.storage.delete(pick)

    @rule(name=st.sampled_from(VOLUME_NAMES))
    def others_take_a_volume(self, name: str) -> None:
        self.storage.take_volume(name)

    @precondition(lambda self: not self.unknown)
    @rule()
    def storage_is_watched_no_more(self) -> None:
        """Nobody has needed storage objects for long: what is known of them grows old."""
        self.unknown = True
        self.engine.storage.mark_unsynced()

    @precondition(lambda self: self.unknown)
    @rule()
    def storage_is_watched_again(self) -> None:
        listed = self.api.snapshot()
        for kind in STORAGE:
            self._run(self.observer.relist(kind, listed.listing(kind, self.engine.lists.listed(kind.name))))
        self.unknown = False
        self.engine.storage.mark_synced()
        REACHED["storage known again"] += 1

    # What must hold --------------------------------------------------------------------------------------------------

    def _start_engine(self) -> None:
        super()._start_engine()
        self.unknown = False

    def _check(self, uid: str) -> None:
        super()._check(uid)
        self.sight.check_decided(self.engine, uid, self.in_flight[uid])

    def _note_disorder(self) -> None:
        super()._note_disorder()
        self.sight.forget()

    def check_cluster(self) -> None:
        super().check_cluster()
        self.sight.check_bound()


def _cards(name: str) -> tuple[SimCard, ...]:
    return tuple(SimCard(f"{name}-{index}") for index in range(2))
