"""Tracks the nominations of preempting pods, and removes those for which no room is kept any more."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable

from vgpu_scheduler.apiclient import MERGE_PATCH, ApiUnreachableError, pod_path
from vgpu_scheduler.binding.context import BindContext
from vgpu_scheduler.binding.status_patches import StatusPatcher
from vgpu_scheduler.kube import MANAGER, Pod, nominators_of

log = logging.getLogger(__name__)


class NominationWriter:
    """Knows which nominations this scheduler wrote, and removes those without a hold.

    Parameters
    ----------
    context
        The shared context of binding.
    timeout
        Seconds that the API server may take for a write.
    """

    def __init__(self, context: BindContext, timeout: float) -> None:
        self._context = context
        self._preemptions = context.engine.preemptions
        self._state = context.engine.state
        self._timeout = timeout
        self._patcher = StatusPatcher(context.writer, timeout)
        self._nodes: defaultdict[str, set[str]] = defaultdict(set)
        """The nodes that this scheduler nominated pods to, by UID, until the pod is bound or the nomination removed.

        There are several if a replacement was not observed yet.
        """
        self._looked_at: set[tuple[str, str]] = set()
        """The nominations (pod and node) whose writer is known."""

    def add(self, uid: str, node: str) -> None:
        """Note that a pod is about to be nominated to a node."""
        self._nodes[uid].add(node)

    def adopt_under_way(self) -> None:
        """Adopt the nominations of pods for which room is kept; an earlier leader wrote them."""
        for uid, found in self._preemptions.under_way():
            self._nodes[uid].add(found.node)

    async def adopt(self, nominations: Iterable[tuple[str, str]]) -> bool:
        """Adopt the nominations that an earlier leader wrote; those of other components stay unchanged.

        Parameters
        ----------
        nominations
            The UIDs of pods, and the nodes that they are nominated to.

        Returns
        -------
        bool
            False if the writer of some nomination is still unknown.
        """
        is_complete = True
        for uid, node in nominations:
            pod = self._state.pod(uid)
            if pod is None or (uid, node) in self._looked_at or self.is_own(uid, node):
                continue
            read = await self._context.read_pod(pod.namespace, pod.name, self._timeout)
            if read.why and not read.is_refused:
                log.warning("pod %s: %s", pod.key, read.why)
                return False  # requests for the others would fail, too
            if read.shown is None:
                is_complete &= read.is_gone
                continue
            self._looked_at.add((uid, node))
            if MANAGER in nominators_of(read.shown):
                self._nodes[uid].add(node)
        return is_complete

    def is_own(self, uid: str, node: str) -> bool:
        """Tell whether this scheduler is known to have nominated a pod to a node."""
        return node in self._nodes.get(uid, ())

    def is_nominated(self, uid: str, node: str) -> bool:
        """Tell whether a pod was observed as nominated to a node."""
        pod = self._state.pod(uid)
        return pod is not None and pod.nominated_node_name == node

    async def renew(self, uid: str, node: str) -> bool:
        """Nominate a preempting pod to its node if it is not nominated now; return whether it is nominated."""
        pod = self._state.pod(uid)
        if pod is None or self.is_nominated(uid, node):
            return pod is not None
        self.add(uid, node)
        return await self._patch(pod, node)

    async def take_back(self) -> None:
        """Remove the nominations of waiting pods for which no room is kept any more."""
        for uid, nodes in list(self._nodes.items()):
            if self._state.holds.get(uid) is not None:  # room is still kept, also after a failed bind
                continue
            pod = self._state.pod(uid)
            if pod is None or pod.node_name or pod.terminal:
                del self._nodes[uid]
                continue
            node = pod.nominated_node_name
            if node not in nodes or self._state.reservation(uid) is not None:
                continue  # the nomination was not observed yet, or the pod is about to be bound
            nodes.discard(node)  # before the request, as the pod may be nominated to the node again meanwhile
            # The version makes the patch fail if the pod was nominated anew meanwhile.
            if not await self._patch(pod, None, pod.resource_version):
                nodes.add(node)

    async def _patch(self, pod: Pod, node: str | None, version: int | None = None) -> bool:
        """Write the nominated node of a pod, and observe the answer; return whether it was written.

        Parameters
        ----------
        version
            The resource version of the pod, in which alone it is written; None for any.
        """
        path, status = pod_path(pod.namespace, pod.name), {"nominatedNodeName": node}
        try:
            answer = await self._patcher.patch(path, pod.uid, status, MERGE_PATCH, version=version)
        except ApiUnreachableError as error:
            log.warning("pod %s: %s", pod.key, error)
            return False
        if answer is None or not answer.ok:
            return False
        self._context.observe("Pod", answer.body)
        return True
