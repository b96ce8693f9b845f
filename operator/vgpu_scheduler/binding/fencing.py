"""What another leader allocated last on a node, or may be about to: it is known, or can no longer be carried out.

A leader that was frozen between its last look at the Lease and a Binding sends that Binding when it goes on, however
long another one leads by then. Before it gives out cards of a node a leader writes a token on it, which names the pod,
and tests the one that is there: so the token names the only pod of the node whose Binding may be held back. Before its
token is replaced such a pod is given a new version, which the Binding does not name. The token names the leader, too:
what one expects that was frozen, nobody writes again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from secrets import token_hex
from typing import Any

from vgpu_scheduler.apiclient import STRATEGIC_PATCH, ApiResponse, ApiUnreachableError, pod_path
from vgpu_scheduler.binding.context import BindContext
from vgpu_scheduler.kube import DecodeError, Encoded, Node, Pod, decode_page, decode_whereabouts, rfc3339
from vgpu_scheduler.model import LAST_ALLOCATED, allocated_pod, allocation_token

__all__ = ["AllocationFence"]

log = logging.getLogger(__name__)


def new_version(pod: Pod, now: datetime) -> dict[str, Any]:
    """Return the strategic merge patch that gives an unbound pod a new version, and says nothing new of it.

    A patch that changes nothing raises no version: the time of the last look at the ``PodScheduled`` condition does.
    It fails if the pod has another version by now, as it has when it was bound.
    """
    condition = {"type": "PodScheduled", "status": "False", "lastProbeTime": rfc3339(now)}
    return {
        "metadata": {"uid": pod.uid, "resourceVersion": str(pod.resource_version)},
        "status": {"conditions": [condition]},
    }


@dataclass(slots=True)
class AllocationFence:
    """Makes sure of a node's last allocation before the next one.

    Parameters
    ----------
    context
        What it works with.
    timeout
        Seconds that a request may take.
    """

    context: BindContext
    timeout: float
    fenced_pods: int = 0
    """How many pods were given a new version, so that no earlier Binding of theirs is carried out."""
    leader: str = field(default_factory=lambda: token_hex(4))
    """What the tokens of this process are told by."""
    _in_the_way: dict[str, str] = field(default_factory=dict)
    _verified: dict[str, str] = field(default_factory=dict)
    """Tokens that are ours, or that were made sure of since; a node that is gone has none."""

    async def secure(self, node: Node) -> bool:
        """Make sure that the allocation that a node's token names is in the ledger, or can never be carried out.

        Returns
        -------
        bool
            False if the API server did not tell, or if the pod was bound and cannot be read (:meth:`blocking_pod`); the
            node's token must not be replaced then.
        """
        token, state = node.annotations.get(LAST_ALLOCATED), self.context.engine.state
        self._in_the_way.pop(node.name, None)
        if token is None or self._verified.get(node.name) == token:
            return True
        uid = allocated_pod(token)
        if state.was_removed(uid):
            return True
        known = state.pod(uid)
        if known is None or not known.node_name:
            # One that is not known as bound may have been bound, by a leader before us, or may be bound any time.
            if not await self._read_pods(node.name, uid):
                return False
            known = state.pod(uid)
            if known is not None and not await self.fence(known):
                return False
        if state.node(node.name) is not None:  # it may have gone meanwhile
            self._verified[node.name] = token
        return True

    def blocking_pod(self, node: str) -> str:
        """Return the name of a pod of a node that its token may name, and that cannot be read; empty if there is none.

        It may be on any card of the node.
        """
        return self._in_the_way.get(node, "")

    async def fence(self, pod: Pod) -> bool:
        """Make sure that no Binding of a pod of ours is carried out that was decided on before; False if in doubt."""
        engine = self.context.engine
        if pod.node_name or pod.terminal or pod.scheduler_name not in engine.scheduler_names:
            return True
        if not self.context.may_write(self.timeout):
            return False
        path = pod_path(pod.namespace, pod.name)
        try:
            answer = await self._request("PATCH", f"{path}/status", new_version(pod, self.context.clock.now()))
            if answer.ok:
                self.fenced_pods += 1
                log.info("pod %s has a new version: an earlier leader can no longer bind it", pod.key)
                self.context.observe("Pod", answer.body)
                return True
            if answer.status != HTTPStatus.NOT_FOUND:
                answer = await self._request("GET", path)
            if not answer.ok:
                return answer.status == HTTPStatus.NOT_FOUND
            self.context.observe("Pod", answer.body)
            current = decode_whereabouts(answer.body)
        except (ApiUnreachableError, DecodeError) as error:
            log.warning("pod %s: %s", pod.key, error)
            return False
        return current.uid != pod.uid or bool(current.node)

    async def _request(self, method: str, path: str, body: object = None) -> ApiResponse:
        return await self.context.api.request(method, path, body, content_type=STRATEGIC_PATCH, timeout=self.timeout)

    def token(self, uid: str) -> str:
        """Return the token that is written for a pod."""
        return allocation_token(uid, self.leader)

    def took(self, node: str, token: str) -> None:
        """Note that the token of a node was replaced by ours."""
        self._verified[node] = token

    def forget(self, node: str) -> None:
        """Forget a node that is gone."""
        self._verified.pop(node, None)
        self._in_the_way.pop(node, None)

    async def _read_pods(self, node: str, uid: str) -> bool:
        """Take in the pods of a node; False if they cannot be listed, or the one of its token cannot be read."""
        try:
            response = await self.context.api.request(
                "GET", "/api/v1/pods", params={"fieldSelector": f"spec.nodeName={node}"}, timeout=self.timeout
            )
            if not response.ok:
                return False
            pods = decode_page(response.body).items
        except (ApiUnreachableError, DecodeError) as error:
            log.warning("pods of node %s: %s", node, error)
            return False
        for pod in pods:
            self.context.observe("Pod", pod)
        hidden = [name for pod in pods if (name := self._hidden(pod, uid))]
        if hidden:
            self._in_the_way[node] = hidden[0]
        return not hidden

    def _hidden(self, pod: Encoded, uid: str) -> str:
        """Return the name of a bound pod that may be that of a token, and was not taken in; empty if it is another."""
        try:
            found = decode_whereabouts(pod)
        except DecodeError as error:
            return error.key or "(unnamed)"
        known = self.context.engine.state.pod(found.uid)
        is_known = known is not None and bool(known.node_name)
        return "" if found.uid != uid or is_known else found.key
