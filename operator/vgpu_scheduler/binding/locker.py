"""Takes and releases node locks."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from http import HTTPStatus

from vgpu_scheduler.apiclient import JSON_PATCH, ApiUnreachableError, node_path
from vgpu_scheduler.binding.context import BindContext
from vgpu_scheduler.binding.fencing import AllocationFence
from vgpu_scheduler.binding.plugin_needs import PluginNeeds, PluginNeedsReader
from vgpu_scheduler.binding.writes import LockChange, TokenPatch, release_operations
from vgpu_scheduler.dialects import NodeLock, NodeSide
from vgpu_scheduler.engine import FoundLock, LockStatus, TakenLock, find_lock, taker_of
from vgpu_scheduler.kube import DecodeError, Node, Pod, decode_pod
from vgpu_scheduler.model import LAST_ALLOCATED, worded_pod

log = logging.getLogger(__name__)

_RETRY = 0.2
"""Seconds between two tries if the API server gives no delay."""
_RELEASE_TRIES = 5


class LockOwnerError(Exception):
    """The pod that holds a lock cannot be read."""


@dataclass(slots=True)
class LockStats:
    """What happened to locks, for metrics."""

    taken: int = 0
    refused: int = 0
    orphans: int = 0


@dataclass(frozen=True, slots=True)
class TakenTurn:
    """The claim of a node's cards for a pod: its token, and its lock if the node side uses one for this pod."""

    lock: TakenLock | None


@dataclass(slots=True)
class NodeLocker:
    """Takes node locks for pods.

    Parameters
    ----------
    context
        The shared context of binding.
    timeout
        Seconds that a request may take.
    """

    context: BindContext
    timeout: float
    stats: LockStats = field(default_factory=LockStats)
    _fence: AllocationFence = field(init=False)
    _needs: PluginNeedsReader = field(init=False)
    _seen: dict[str, dict[str, tuple[str, float]]] = field(default_factory=dict)
    """The last lock seen, by node and annotation, and when it was first seen (seconds, monotonic)."""

    def __post_init__(self) -> None:
        self._fence = AllocationFence(self.context, self.timeout)
        self._needs = PluginNeedsReader(self.context.engine)

    @property
    def fenced_pods(self) -> int:
        """How many pods were given a new version, so that Bindings of an earlier leader fail."""
        return self._fence.fenced_pods

    def kind(self, pod: Pod) -> NodeLock | None:
        """Return the lock through which the node side will look for a pod."""
        return self._needs.of(pod).lock

    def needs(self, pod: Pod) -> PluginNeeds:
        """Return what a pod needs of the device plugins of its node."""
        return self._needs.of(pod)

    def is_closed(self, node: str, pod: Pod) -> bool:
        """Tell whether a node is closed to a pod, given the pod's needs of device plugins."""
        needs = self._needs.of(pod)
        return self.context.engine.closed_nodes.is_closed(
            node, needs.lock, needs.plugin_key, serialized=needs.serialized
        )

    def blocking_pod(self, node: str) -> str:
        """Return the name of an unreadable pod that may use any card of a node; empty if there is none."""
        return self._fence.blocking_pod(node)

    async def secure_last_allocation(self, node: str) -> bool:
        """Secure the last allocation on a node (see :meth:`AllocationFence.secure`); True if the node is gone."""
        known = self.context.engine.state.node(node)
        return known is None or await self._fence.secure(known)

    def pod_awaiting_plugin(self, node: str, pod: Pod) -> Pod | None:
        """Return a pod of a node that a plugin may confuse with this one; None if there is none.

        If there is no lock, or the first of several vendors' plugins to answer ends it, a plugin may take any pod of
        its node that has not started. Such a pod therefore has the node to itself until it has started.
        """
        uid = self._needs.pod_confused_with(node, pod)
        return None if uid is None else self.context.engine.state.pod(uid)

    async def try_take(self, node: Node, pod: Pod) -> tuple[TakenTurn | None, bool]:
        """Try once to claim the cards of a node for a pod: write its token, and take its lock if it needs one.

        A lock that names this pod already is replaced by one with the current time: an earlier leader may have taken
        it, and may still release it by its value.

        Returns
        -------
        tuple
            What was taken (None if nothing), and whether another pod holds the lock, so that a retry before the node
            changes is useless.
        """
        kind = self.kind(pod)
        if kind is None:
            taken = await self._secure(node, None) and await self._write(node, pod, None)
            return TakenTurn(None) if taken else None, False
        found = find_lock(node, kind, self._node_side)
        try:
            owner = await self._owner(found, pod)
        except LockOwnerError as error:
            log.warning("node %s: %s", node.name, error)
            return None, True
        status = self._judge(found, owner, pod)
        if found and status in {LockStatus.HELD, LockStatus.MALFORMED}:
            return None, True
        if not await self._secure(node, owner):
            return None, False
        value = self._node_side.format_lock(kind, self.context.clock.now(), pod)
        taken = await self._write(node, pod, LockChange(kind.annotation, value, found.value if found else None))
        self.stats.taken += taken
        if taken and found and status is LockStatus.ORPHANED:
            self._note_orphan(found)
        return TakenTurn(TakenLock(kind, value)) if taken else None, False

    async def _secure(self, node: Node, owner: Pod | None) -> bool:
        """Fence the pod whose lock is to be replaced, and secure the last allocation on the node."""
        if (owner is None or await self._fence.fence(owner)) and await self._fence.secure(node):
            return True
        await asyncio.sleep(_RETRY)
        return False

    async def clear(self, node: str, kind: NodeLock, pod: Pod) -> None:
        """Release a lock of a node if it is orphaned, or names this pod."""
        found = self.find(node, kind)
        if found is None or not self.context.may_write(self.timeout):
            return
        with suppress(LockOwnerError):
            status = await self.status(found, pod)
            is_released = status in {LockStatus.ORPHANED, LockStatus.OWN} and await self.release(node, found.taken)
            if is_released and status is LockStatus.ORPHANED:
                self._note_orphan(found)

    def _note_orphan(self, lock: FoundLock) -> None:
        """Count an orphaned lock that was replaced or released, and log it."""
        self.stats.orphans += 1
        log.warning("node %s: lock %r was orphaned, and is replaced", lock.node, lock.value)

    async def status(self, lock: FoundLock | None, pod: Pod | None = None) -> LockStatus:
        """Return the status of a lock for a pod, after reading the lock's owner.

        Raises
        ------
        LockOwnerError
            If the owner cannot be read.
        """
        return self._judge(lock, await self._owner(lock, pod), pod)

    async def _owner(self, lock: FoundLock | None, pod: Pod | None) -> Pod | None:
        """Read the pod that holds a lock; None for ``pod`` itself, or if the owner is gone."""
        if lock is None or lock.parsed is None:
            return None
        taker = taker_of(self.context.engine, lock)
        namespace, name = (
            (taker.namespace, taker.name) if taker is not None else (lock.parsed.namespace, lock.parsed.name)
        )
        if not name or (pod and pod.key == f"{namespace}/{name}"):
            return None
        owner = await self._read_pod(namespace, name)
        return owner if taker is None or (owner and owner.uid == taker.uid) else None

    def _judge(self, lock: FoundLock | None, owner: Pod | None, pod: Pod | None) -> LockStatus:
        judge = self.context.engine.closed_nodes.judge
        return judge.status(lock, owner, self.context.clock.now(), pod, self._stood(lock))

    def _stood(self, lock: FoundLock | None) -> timedelta:
        """Return how long a lock has been seen, by our monotonic clock: clocks jump, and differ between machines."""
        now = self.context.clock.monotonic()
        if lock is None:
            return timedelta(0)
        seen = self._seen.setdefault(lock.node, {})
        value, since = seen.get(lock.kind.annotation, ("", now))
        if value != lock.value:
            since = now
        seen[lock.kind.annotation] = (lock.value, since)
        return timedelta(seconds=now - since)

    def has_answered(self, pod: Pod) -> bool:
        """Tell whether the node side has recorded on a pod that its allocation succeeded or failed."""
        return self._node_side.has_answered(pod.annotations)

    def was_served(self, pod: Pod) -> bool:
        """Tell whether the node side has served a pod: the pod started, or the allocation was answered."""
        return pod.started or self.has_answered(pod)

    def find(self, node: str, kind: NodeLock) -> FoundLock | None:
        """Return a lock of a node from the state; None if it is free or the node is gone."""
        known = self.context.engine.state.node(node)
        return None if known is None else find_lock(known, kind, self._node_side)

    @property
    def _node_side(self) -> NodeSide:
        return self.context.engine.dialects.node_side

    def who_holds(self, node: str, kind: NodeLock | None, reader: str) -> str:
        """Describe the holder of a lock of a node, for messages in a namespace."""
        found = None if kind is None else self.find(node, kind)
        if found is None or found.parsed is None:
            return "its device lock cannot be taken"
        owner = found.parsed
        pod = self.context.engine.state.find(owner.namespace, owner.name)
        return f"its device lock is held by {worded_pod(reader, owner.owner, pod.uid if pod else '')}"

    async def refresh(self, node: str) -> None:
        """Read a node from the API server, so that the state has its current lock."""
        with suppress(ApiUnreachableError):
            response = await self.context.api.request("GET", node_path(node), timeout=self.timeout)
            if response.ok:
                self.context.observe("Node", response.body)

    def forget(self, node: str) -> None:
        """Forget a node that is gone."""
        self._fence.forget(node)
        self._needs.forget(node)
        self._seen.pop(node, None)

    def is_locked(self, node: str, lock: TakenLock) -> bool:
        """Tell whether a lock that was taken is still on its node, according to the state."""
        known = self.context.engine.state.node(node)
        return known is not None and lock.is_on(known)

    async def release(self, node: str, lock: TakenLock) -> bool:
        """Release a lock, and return whether it is gone; if not, the next pod that needs it replaces it as orphaned."""
        operations = release_operations(lock.kind.annotation, lock.value)
        for _ in range(_RELEASE_TRIES):
            with suppress(ApiUnreachableError):
                response = await self.context.api.request(
                    "PATCH",
                    node_path(node),
                    operations,
                    content_type=JSON_PATCH,
                    timeout=self.timeout,
                )
                if response.ok:
                    self.context.observe("Node", response.body)
                if response.ok or response.status in {HTTPStatus.NOT_FOUND, HTTPStatus.UNPROCESSABLE_ENTITY}:
                    return True
            await asyncio.sleep(_RETRY)
        log.warning("node %s: lock %r could not be released", node, lock.value)
        return False

    async def _write(self, node: Node, pod: Pod, lock: LockChange | None) -> bool:
        """Write the token of a node, and its lock if any; return False on errors, or if they differ from the state."""
        token = self._fence.token(pod.uid)
        patch = TokenPatch(node.annotations.get(LAST_ALLOCATED), token, lock, bool(node.annotations))
        try:
            path, operations = node_path(node.name), patch.operations()
            response = await self.context.writer.request_within_lease(
                "PATCH", path, operations, self.timeout, JSON_PATCH
            )
            if response is None:
                return False
            if response.ok:
                self._fence.took(node.name, token)
                self.context.observe("Node", response.body)
                return True
            self.stats.refused += 1
            if response.status != HTTPStatus.UNPROCESSABLE_ENTITY:
                log.warning("node %s: lock was refused: %s", node.name, response.message)
            await asyncio.sleep(response.retry_after or _RETRY)
            # A held lock, another token and a missing annotations map give the same refusal; only the node shows which.
            await self.refresh(node.name)
        except ApiUnreachableError as error:
            log.warning("node %s: %s", node.name, error)
            await asyncio.sleep(_RETRY)
        return False

    async def _read_pod(self, namespace: str, name: str) -> Pod | None:
        read = await self.context.read_pod(namespace, name, self.timeout)
        if read.why:
            raise LockOwnerError(read.why)
        if read.shown is None:
            return None
        try:
            found = decode_pod(read.shown)
        except DecodeError as error:
            raise LockOwnerError(str(error)) from error
        self.context.observe("Pod", read.shown)
        return found
