"""Of what is known in its present version, events of kopf are not read again."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.builders import cards, make_engine, node_object, pod_object

from vgpu_scheduler.engine import ObservationSignals
from vgpu_scheduler.intake import NODES, PODS, Observer, watching
from vgpu_scheduler.intake.listing import Listing
from vgpu_scheduler.intake.watching import EventHandler
from vgpu_scheduler.kube import Node, ObjectIdentity, Pod, decode_node, decode_pod


class Handlers:
    """The handlers of pods and nodes over an engine, and what they read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.engine = make_engine()
        self.read: list[str] = []
        self.lost = 0
        self.observer = Observer(self.engine, lambda: 0.0, ObservationSignals(), lambda _: None)
        self.pods = EventHandler(PODS, self.observer, self.lose, self.observer.left_selection)
        self.nodes = EventHandler(NODES, self.observer, self.lose)
        decode = watching.decode_as
        monkeypatch.setattr(
            watching, "decode_as", lambda kind, obj: self.read.append(obj["metadata"]["name"]) or decode(kind, obj)
        )

    def lose(self) -> None:
        self.lost += 1

    def hand_out(self, handler: EventHandler[Any], event: dict[str, Any]) -> None:
        """Do what kopf does with an event."""
        if handler.is_new_version(event):
            handler(event)


@pytest.fixture
def handlers(monkeypatch: pytest.MonkeyPatch) -> Handlers:
    return Handlers(monkeypatch)


def event(how: str | None, obj: dict[str, Any]) -> dict[str, Any]:
    return {"type": how, "object": obj}


def test_only_what_is_new_is_read(handlers: Handlers) -> None:
    known = pod_object("p", version=5)
    handlers.observer.observe(PODS, decode_pod(known))
    for version in (4, 5):
        handlers.hand_out(handlers.pods, event("MODIFIED", pod_object("p", version=version)))
    assert handlers.read == []
    handlers.hand_out(handlers.pods, event("MODIFIED", pod_object("p", version=6, labels={"a": "b"})))
    assert handlers.read == ["p"]
    found = handlers.engine.state.pod("uid-p")
    assert found is not None
    assert found.labels == {"a": "b"}


def test_nodes_are_known_by_their_names(handlers: Handlers) -> None:
    handlers.observer.observe(NODES, decode_node(node_object("a", cards("a", 1), version=5)))
    handlers.hand_out(handlers.nodes, event("MODIFIED", node_object("a", cards("a", 1), version=5)))
    assert handlers.read == []
    handlers.hand_out(handlers.nodes, event("MODIFIED", node_object("a", cards("a", 2), version=6)))
    assert handlers.read == ["a"]


def test_what_is_deleted_is_read(handlers: Handlers) -> None:
    handlers.observer.observe(NODES, decode_node(node_object("a", version=5)))
    handlers.hand_out(handlers.nodes, event("DELETED", node_object("a", version=5)))
    assert handlers.read == ["a"]
    assert handlers.engine.state.node("a") is None


def test_what_is_known_counts_as_seen(handlers: Handlers) -> None:
    handlers.observer.observe(PODS, decode_pod(pod_object("p", version=5)))
    handlers.hand_out(handlers.pods, event(None, pod_object("p", version=5)))
    assert handlers.lost == 0
    handlers.hand_out(handlers.pods, event(None, pod_object("p", version=5)))  # a second initial listing
    assert handlers.lost == 1


def test_what_cannot_be_read_is_told_by_its_kind(handlers: Handlers, caplog: pytest.LogCaptureFixture) -> None:
    broken = pod_object("p", version=5)
    broken["metadata"]["labels"] = 3
    handlers.hand_out(handlers.pods, event("ADDED", broken))
    assert handlers.observer.stats.undecodable == 1
    assert "Pod default/p" in caplog.text


def test_after_the_store_was_restored_every_version_is_read(handlers: Handlers) -> None:
    handlers.observer.observe(PODS, decode_pod(pod_object("p", version=50)))
    handlers.engine.kinds["Pod"].forget_versions()
    handlers.hand_out(handlers.pods, event("MODIFIED", pod_object("p", version=20)))
    assert handlers.read == ["p"]


def test_a_pod_that_waits_nowhere_is_queued_whenever_it_is_confirmed(handlers: Handlers) -> None:
    engine = handlers.engine
    handlers.observer.observe(PODS, decode_pod(pod_object("p", version=5)))
    engine.queue.remove("uid-p")  # as a mistake while it was taken in would leave it
    handlers.hand_out(handlers.pods, event("MODIFIED", pod_object("p", version=5)))
    assert (handlers.read, "uid-p" in engine.queue) == ([], True)


async def test_a_relist_confirms_pods_and_tells_of_nodes_that_did_not_change(handlers: Handlers) -> None:
    engine, told = handlers.engine, list[str]()
    handlers.observer.signals.node_changed.listen(told.append)
    handlers.observer.observe(PODS, decode_pod(pod_object("p", version=5)))
    handlers.observer.observe(NODES, decode_node(node_object("a", version=6)))
    engine.queue.remove("uid-p")
    told.clear()
    pods = Listing[Pod](version=9, unchanged=[ObjectIdentity("default", "p", "uid-p", 5)])
    nodes = Listing[Node](version=9, unchanged=[ObjectIdentity("", "a", "uid-a", 6)])
    await handlers.observer.relist(PODS, pods)
    await handlers.observer.relist(NODES, nodes)
    assert "uid-p" in engine.queue
    assert told == ["a"]
    assert engine.state.node("a") is not None


def test_metadata_that_cannot_be_read_is_told_by_the_kind_of_its_object(
    handlers: Handlers, caplog: pytest.LogCaptureFixture
) -> None:
    broken = pod_object("p", version=5)
    broken["metadata"]["resourceVersion"] = "many"
    handlers.hand_out(handlers.pods, event("ADDED", broken))
    assert handlers.observer.stats.undecodable == 1
    assert "Pod default/p" in caplog.text
