"""What two leaders do to each other: the node's token, and what a frozen one had yet to write when it was replaced."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from tests.simulation.cluster import SimApi
from tests.simulation.world import REACHED, World

from vgpu_scheduler.apiclient import ApiResponse
from vgpu_scheduler.binding import BindContext
from vgpu_scheduler.binding.fencing import AllocationFence
from vgpu_scheduler.intake import NODES, PODS
from vgpu_scheduler.model import LAST_ALLOCATED, Placement

_TIMEOUT: Final = 1.0


@dataclass(frozen=True, slots=True)
class SimClient:
    """What the fence asks the simulated API."""

    api: SimApi

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, str] | None = None,
        content_type: str = "",
        timeout: float = 0.0,  # noqa: ASYNC109
    ) -> ApiResponse:
        """Answer a request."""
        del content_type, timeout
        if params is not None and "fieldSelector" in params:
            node = params["fieldSelector"].removeprefix("spec.nodeName=")
            found = [pod.as_object() for pod in self.api.pods.values() if pod.node == node]
            return _answer(200, {"metadata": {"resourceVersion": str(self.api.version)}, "items": found})
        name = path.removesuffix("/status").rsplit("/", 1)[-1]
        pod = next((pod for pod in self.api.pods.values() if pod.name == name), None)
        if pod is None:
            return _answer(404, {})
        if method == "PATCH":
            wanted = body["metadata"]
            if (wanted["uid"], wanted["resourceVersion"]) != (pod.uid, str(pod.version)):
                return _answer(409, {})
            pod = self.api.put_pod(pod)
        return _answer(200, pod.as_object())


@dataclass(frozen=True, slots=True)
class SimClock:
    """The time in a world."""

    world: World

    def monotonic(self) -> float:
        """Return seconds."""
        return self.world.now

    def now(self) -> datetime:
        """Return the time of day."""
        return datetime.fromtimestamp(self.world.now, UTC)


@dataclass(frozen=True, slots=True)
class HeldBack:
    """What a frozen leader writes when it goes on.

    Attributes
    ----------
    expected, token
        The token that it is about to replace on the node, and by which; None where it has done that.
    version
        That of the pod as it saw it.
    """

    uid: str
    version: int
    placement: Placement
    annotations: Mapping[str, str]
    expected: str | None = None
    token: str = ""

    def send(self, api: SimApi) -> str:
        """Write it, as far as the API lets it be written; return what became of it."""
        node = self.placement.node
        if self.expected is not None:
            code = api.claim(node, self.expected, self.token)
            if code != 200:
                return f"token: {code}"
        return f"binding: {api.bind(self.uid, self.version, self.placement, self.annotations)}"


class LeadersWorld(World):
    """Plays the part of the binder that sees to it that no two leaders give out the same card."""

    def __init__(self) -> None:
        self.held_back: list[HeldBack] = []
        super().__init__()

    def _start_engine(self) -> None:
        super()._start_engine()
        context = BindContext(
            SimClient(self.api),  # type: ignore[arg-type]
            self.engine,
            None,  # type: ignore[arg-type]
            SimClock(self),
            lambda _: True,
            lambda _, answer: self.observer.observe_answer(PODS, answer),
        )
        self.fence = AllocationFence(context, _TIMEOUT)

    def _secure(self, node: str) -> bool:
        """Make sure of the last allocation on a node; False if the node is gone."""
        known = self.engine.state.node(node)
        return known is not None and bool(self._run(self.fence.secure(known)))

    def _claim(self, uid: str, node: str) -> bool:
        """Claim the cards of a node for a pod, by its token; False if somebody else has done that since."""
        known = self.engine.state.node(node)
        if known is None or not self._secure(node):
            return False
        token = self.fence.token(uid)
        code = self.api.claim(node, known.annotations.get(LAST_ALLOCATED, ""), token)
        if code == 200:
            self.fence.took(node, token)
        else:
            REACHED["token: refused"] += 1
        current = self.api.nodes.get(node)
        if current is not None:
            self.observer.observe(NODES, current.shown())
        return code == 200

    def _hold_back(self, uid: str, placement: Placement, *, claimed: bool) -> None:
        """Freeze right before a node's cards are claimed for a pod, or right before its Binding, once they are."""
        pod, node = self.engine.state.pod(uid), self.engine.state.node(placement.node)
        assert pod is not None
        assert node is not None
        expected: str | None = None
        if placement.dialect and not claimed:
            expected = node.annotations.get(LAST_ALLOCATED, "")
        annotations = self.engine.dialects.annotations(placement, 0, pod)
        token = self.fence.token(uid)
        self.held_back.append(HeldBack(uid, pod.resource_version, placement, annotations, expected, token))

    def _more_urgent_pods_come(self) -> None:
        """Have pods come that ask for what those ask for whose Bindings are held back, and go before them."""
        for held in self.held_back:
            self.api.put_pod(replace(self.api.ever[held.uid].anew(self.api.serial()), priority=100))

    def _forget_held_back(self, node: str) -> None:
        """Drop what is held back for a node that is deleted: its token, too, is gone."""
        self.held_back = [held for held in self.held_back if held.placement.node != node]


def _answer(status: int, body: Any) -> ApiResponse:
    return ApiResponse(status, json.dumps(body).encode())
