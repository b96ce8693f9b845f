"""Fences off earlier leaders: the last allocation on a node is in the ledger, or can no longer be carried out.

A leader that was frozen between its last check of the Lease and a Binding sends that Binding when it resumes, however
long another one has led by then. Before a leader allocates cards of a node, it writes a token with the pod's UID on the
node, in a patch that tests the previous token. So the token names the only pod of the node whose Binding may still be
in flight. Before this token is replaced, that pod is given a new version, so that a Binding with the old version fails.
The token also names the leader, so no later leader writes a token that a frozen one expects.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from secrets import token_hex
from typing import Any

from vgpu_scheduler.apiclient import ApiUnreachableError, pod_path
from vgpu_scheduler.binding.context import GONE, BindContext
from vgpu_scheduler.binding.status_patches import StatusPatcher
from vgpu_scheduler.kube import API_RESOURCES, DecodeError, Encoded, Node, Pod, decode_page, decode_whereabouts, rfc3339
from vgpu_scheduler.model import LAST_ALLOCATED, allocated_pod, allocation_token

log = logging.getLogger(__name__)


def _new_status(now: datetime) -> dict[str, Any]:
    """Return the patch of the status that gives an unbound pod a new version without changing its meaning.

    A patch without changes gives no new version, so it changes ``lastProbeTime`` of the ``PodScheduled`` condition.
    """
    return {"conditions": [{"type": "PodScheduled", "status": "False", "lastProbeTime": rfc3339(now)}]}


@dataclass(slots=True)
class AllocationFence:
    """Secures a node's last allocation before the next one.

    Parameters
    ----------
    context
        The shared context of binding.
    timeout
        Seconds that a request may take.
    """

    context: BindContext
    timeout: float
    fenced_pods: int = 0
    """How many pods were given a new version, so that earlier Bindings of them fail."""
    leader: str = field(default_factory=lambda: token_hex(4))
    """Identifies this process in tokens."""
    _in_the_way: dict[str, str] = field(default_factory=dict)
    _verified: dict[str, str] = field(default_factory=dict)
    """By node, the token that is ours or was secured; nodes that are gone are removed."""
    _patcher: StatusPatcher = field(init=False)

    def __post_init__(self) -> None:
        self._patcher = StatusPatcher(self.context.writer, self.timeout)

    async def secure(self, node: Node) -> bool:
        """Ensure that the allocation named by a node's token is in the ledger, or can never be carried out.

        Returns
        -------
        bool
            False if a request failed, or if the pod may be bound and cannot be read (:meth:`blocking_pod`); the node's
            token must not be replaced then.
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
            # An earlier leader may have bound the pod, or may still bind it at any time.
            if not await self._read_pods(node.name, uid):
                return False
            known = state.pod(uid)
            if known is not None and not await self.fence(known):
                return False
        if state.node(node.name) is not None:  # the node may be gone meanwhile
            self._verified[node.name] = token
        return True

    def blocking_pod(self, node: str) -> str:
        """Return the name of an unreadable pod that a node's token may name; empty if there is none.

        The pod may use any card of the node.
        """
        return self._in_the_way.get(node, "")

    async def fence(self, pod: Pod) -> bool:
        """Ensure that earlier Bindings of a pod of ours fail, by giving it a new version; False if in doubt."""
        engine = self.context.engine
        if pod.node_name or pod.terminal or pod.scheduler_name not in engine.scheduler_names:
            return True
        path, status = pod_path(pod.namespace, pod.name), _new_status(self.context.clock.now())
        try:  # the version makes the patch fail if the pod was changed meanwhile, for instance bound
            answer = await self._patcher.patch(path, pod.uid, status, version=pod.resource_version)
            if answer is None:
                return False
            if answer.ok:
                self.fenced_pods += 1
                log.info("pod %s has a new version: an earlier leader can no longer bind it", pod.key)
                self.context.observe("Pod", answer.body)
                return True
            gone = answer.status == HTTPStatus.NOT_FOUND
            read = GONE if gone else await self.context.read_pod(pod.namespace, pod.name, self.timeout)
            if read.shown is None:
                if read.why:
                    log.warning("pod %s: %s", pod.key, read.why)
                return read.is_gone
            self.context.observe("Pod", read.shown)
            current = decode_whereabouts(read.shown)
        except (ApiUnreachableError, DecodeError) as error:
            log.warning("pod %s: %s", pod.key, error)
            return False
        return current.uid != pod.uid or bool(current.node)

    def token(self, uid: str) -> str:
        """Return the token for a pod."""
        return allocation_token(uid, self.leader)

    def took(self, node: str, token: str) -> None:
        """Record that the token of a node was replaced by ours."""
        self._verified[node] = token

    def forget(self, node: str) -> None:
        """Forget a node that is gone."""
        self._verified.pop(node, None)
        self._in_the_way.pop(node, None)

    async def _read_pods(self, node: str, uid: str) -> bool:
        """Observe the pods of a node; False if they cannot be listed, or the pod of the token cannot be read."""
        try:
            response = await self.context.api.request(
                "GET",
                API_RESOURCES["Pod"].path,
                params={"fieldSelector": f"spec.nodeName={node}"},
                timeout=self.timeout,
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
        """Return the name of a pod that may be the token's pod but could not be observed as bound; else empty."""
        try:
            found = decode_whereabouts(pod)
        except DecodeError as error:
            return error.key or "(unnamed)"
        known = self.context.engine.state.pod(found.uid)
        is_known = known is not None and bool(known.node_name)
        return "" if found.uid != uid or is_known else found.key
