"""The nominations of pods for which others have to leave: they are taken back when no room is kept any more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from http import HTTPStatus

from vgpu_scheduler.apiclient import MERGE_PATCH, ApiResponse, pod_path
from vgpu_scheduler.binding.context import BindContext
from vgpu_scheduler.kube import MANAGER, Pod, nominators_of

__all__ = ["NominationWriter"]


class NominationWriter:
    """Knows which nominations are of this scheduler, and takes back those for which no room is kept any more.

    Parameters
    ----------
    context
        What it works with.
    timeout
        Seconds that the API server may take for a write.
    """

    def __init__(self, context: BindContext, timeout: float) -> None:
        self._context = context
        self._preemptions = context.engine.preemptions
        self._state = context.engine.state
        self._timeout = timeout
        self._nodes: defaultdict[str, set[str]] = defaultdict(set)
        """Where pods were nominated to, by UID, until they are bound or that is taken back.

        Several, where one nomination is not shown yet that has replaced another one.
        """
        self._looked_at: set[tuple[str, str]] = set()
        """The pods and nodes of nominations of which is known whose they are."""

    def add(self, uid: str, node: str) -> None:
        """Note that a pod is about to be nominated to a node."""
        self._nodes[uid].add(node)

    def adopt_under_way(self) -> None:
        """Take over the nominations of pods for which room is kept: an earlier leader has written them."""
        for uid, found in self._preemptions.under_way():
            self._nodes[uid].add(found.node)

    async def adopt(self, nominations: Iterable[tuple[str, str]]) -> bool:
        """Take over those of some nominations that an earlier leader wrote; those of anybody else stay as they are.

        Parameters
        ----------
        nominations
            The UIDs of pods, and the nodes that they are nominated to.

        Returns
        -------
        bool
            False if it is not known of all whose they are.
        """
        is_complete = True
        for uid, node in nominations:
            pod = self._state.pod(uid)
            if pod is None or (uid, node) in self._looked_at or self.is_own(uid, node):
                continue
            answer = await self._context.request("GET", pod_path(pod.namespace, pod.name), None, self._timeout)
            if answer is None:
                return False  # nor would it answer about the others
            if not answer.ok:
                is_complete &= answer.status == HTTPStatus.NOT_FOUND
                continue
            self._looked_at.add((uid, node))
            if MANAGER in nominators_of(answer.body):
                self._nodes[uid].add(node)
        return is_complete

    def is_own(self, uid: str, node: str) -> bool:
        """Tell whether this scheduler has nominated a pod to a node, as far as is known."""
        return node in self._nodes.get(uid, ())

    def is_nominated(self, uid: str, node: str) -> bool:
        """Tell whether a pod is shown as nominated to a node."""
        pod = self._state.pod(uid)
        return pod is not None and pod.nominated_node_name == node

    async def renew(self, uid: str, node: str) -> bool:
        """Have a pod that others leave a node for be nominated to it, if it is not; tell whether it is."""
        pod = self._state.pod(uid)
        if pod is None or self.is_nominated(uid, node):
            return pod is not None
        if not self._context.may_write(self._timeout):
            return False
        self.add(uid, node)
        answer = await self._patch(pod, {"uid": uid}, node)
        if answer is None or not answer.ok:
            return False
        self._context.observe("Pod", answer.body)
        return True

    async def take_back(self) -> None:
        """Take back the nominations of pods for which no room is kept any more, and which still wait."""
        for uid, nodes in list(self._nodes.items()):
            if self._state.holds.get(uid) is not None:  # for those that left, or for a bind that has failed
                continue
            pod = self._state.pod(uid)
            if pod is None or pod.node_name or pod.terminal:
                del self._nodes[uid]
                continue
            node = pod.nominated_node_name
            if node not in nodes or self._state.reservation(uid) is not None:
                continue  # whether it is nominated has to be shown yet, or it is about to be bound
            if not self._context.may_write(self._timeout):
                return
            nodes.discard(node)  # it may be nominated there anew before the answer comes
            # The version makes it fail where the pod was nominated anew meanwhile.
            metadata = {"uid": pod.uid, "resourceVersion": str(pod.resource_version)}
            answer = await self._patch(pod, metadata, None)
            if answer is not None and answer.ok:
                self._context.observe("Pod", answer.body)
            else:
                nodes.add(node)

    async def _patch(self, pod: Pod, metadata: Mapping[str, str], node: str | None) -> ApiResponse | None:
        """Write where a pod is nominated to, as long as its metadata is as given; return the answer if one came."""
        body = {"metadata": metadata, "status": {"nominatedNodeName": node}}
        path = pod_path(pod.namespace, pod.name, "status")
        return await self._context.request("PATCH", path, body, self._timeout, MERGE_PATCH)
