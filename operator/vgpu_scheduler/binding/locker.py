"""Takes and releases node locks."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from http import HTTPStatus

from vgpu_scheduler.apiclient import JSON_PATCH, ApiUnreachableError, node_path, pod_path
from vgpu_scheduler.binding.context import BindContext
from vgpu_scheduler.binding.fencing import AllocationFence
from vgpu_scheduler.binding.plugin_needs import PluginNeeds, PluginNeedsReader
from vgpu_scheduler.binding.writes import LockChange, TokenPatch, release_operations
from vgpu_scheduler.dialects import NodeLock, NodeSide
from vgpu_scheduler.engine import FoundLock, LockStatus, find_lock, taker_of
from vgpu_scheduler.kube import DecodeError, Node, Pod, decode_pod
from vgpu_scheduler.model import LAST_ALLOCATED

log = logging.getLogger(__name__)

_RETRY = 0.2
"""Seconds between two tries that the server did not answer with a reason."""
_RELEASE_TRIES = 5


@dataclass(slots=True)
class LockStats:
    """What happened to locks, for metrics."""

    taken: int = 0
    refused: int = 0
    orphans: int = 0


@dataclass(slots=True)
class NodeLocker:
    """Takes node locks for pods.

    Parameters
    ----------
    context
        What it works with.
    timeout
        Seconds that a request may take.
    """

    context: BindContext
    timeout: float
    stats: LockStats = field(default_factory=LockStats)
    _fence: AllocationFence = field(init=False)
    _needs: PluginNeedsReader = field(init=False)
    _seen: dict[str, dict[str, tuple[str, float]]] = field(default_factory=dict)
    """By node and annotation, the lock that was judged last, and when it first was (seconds, monotonic)."""

    def __post_init__(self) -> None:
        self._fence = AllocationFence(self.context, self.timeout)
        self._needs = PluginNeedsReader(self.context.engine)

    @property
    def fenced_pods(self) -> int:
        """How many pods were given a new version, so that no Binding of an earlier leader is carried out."""
        return self._fence.fenced_pods

    def kind(self, pod: Pod) -> NodeLock | None:
        """Return the lock through which the node side will look for a pod."""
        return self._needs.of(pod).lock

    def needs(self, pod: Pod) -> PluginNeeds:
        """Return what a pod needs of the device plugins of its node."""
        return self._needs.of(pod)

    def is_closed(self, node: str, pod: Pod) -> bool:
        """Tell whether a node is closed to a pod, for what that needs of its device plugins."""
        needs = self._needs.of(pod)
        return self.context.engine.closed_nodes.is_closed(
            node, needs.lock, needs.plugin_key, serialized=needs.serialized
        )

    def blocking_pod(self, node: str) -> str:
        """Return the name of a pod that may have any cards of a node, for it cannot be read; empty if there is none."""
        return self._fence.blocking_pod(node)

    async def make_sure(self, node: str) -> bool:
        """Make sure of the last allocation on a node, if the node is there; False if the API server did not tell."""
        known = self.context.engine.state.node(node)
        return known is None or await self._fence.secure(known)

    def pod_awaiting_plugin(self, node: str, pod: Pod) -> Pod | None:
        """Return a pod of a node that a plugin may take for this one, or this one for it; None if there is none.

        Where there is no lock, or where of several vendors' plugins the first one to answer ends it, a plugin looks for
        any pod of its node that has not started. So such a pod has the node to itself until then.
        """
        uid = self._needs.pod_confused_with(node, pod)
        return None if uid is None else self.context.engine.state.pod(uid)

    async def try_take(self, node: Node, pod: Pod) -> tuple[str | None, bool]:
        """Try once to claim the cards of a node for a pod: its token, and its lock if the node side has one.

        A lock that names this very pod is replaced, too, by one with the time of now: a leader before this one may have
        taken it, and may yet release it by its value.

        Returns
        -------
        tuple
            The lock's value, empty where there is none, None if it was not taken; and whether somebody holds it, so
            that the node has to move first.
        """
        kind = self.kind(pod)
        if kind is None:
            return "" if await self._secure(node, None) and await self._write(node, pod, None) else None, False
        found = find_lock(node, kind, self._node_side)
        try:
            owner = await self._owner(found, pod)
        except ApiUnreachableError as error:
            log.warning("node %s: %s", node.name, error)
            return None, True
        status = self._judge(found, owner, pod)
        if found and status in {LockStatus.HELD, LockStatus.MALFORMED}:
            return None, True
        if found and status is LockStatus.ORPHANED:
            self.stats.orphans += 1
            log.warning("node %s: lock %r is orphaned and will be replaced", node.name, found.value)
        if not await self._secure(node, owner):
            return None, False
        value = self._node_side.format_lock(kind, self.context.clock.now(), pod)
        taken = await self._write(node, pod, LockChange(kind.annotation, value, found.value if found else None))
        self.stats.taken += taken
        return value if taken else None, False

    async def _secure(self, node: Node, owner: Pod | None) -> bool:
        """Make sure of the last allocation on a node, and of the pod whose lock is to be replaced."""
        if (owner is None or await self._fence.fence(owner)) and await self._fence.secure(node):
            return True
        await asyncio.sleep(_RETRY)
        return False

    async def clear(self, node: str, kind: NodeLock, pod: Pod) -> None:
        """Release a lock of a node that nobody uses any more."""
        found = self.find(node, kind.annotation)
        if found is None or not self.context.may_write(self.timeout):
            return
        with suppress(ApiUnreachableError):
            if await self.status(found, pod) in {LockStatus.ORPHANED, LockStatus.OWN}:
                self.stats.orphans += 1
                await self.release(node, found.value)

    async def status(self, lock: FoundLock | None, pod: Pod | None = None) -> LockStatus:
        """Return what a lock is to a pod; its owner is read.

        Raises
        ------
        ApiUnreachableError
            If the owner cannot be read.
        """
        return self._judge(lock, await self._owner(lock, pod), pod)

    async def _owner(self, lock: FoundLock | None, pod: Pod | None) -> Pod | None:
        """Read the pod that holds a lock, unless it is the one that wants it."""
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
        """Return for how long a lock has been there, as seen from here: clocks jump, and differ between machines."""
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
        """Tell whether the node side has said on a pod that it allocated, or that it failed."""
        return self._node_side.has_answered(pod.annotations)

    def is_served(self, pod: Pod) -> bool:
        """Tell whether the node side has done with a pod what it does at its start."""
        return pod.started or self.has_answered(pod)

    def find(self, node: str, annotation: str) -> FoundLock | None:
        """Return a lock of a node as it is known, or None if it is free or the node is gone."""
        known = self.context.engine.state.node(node)
        kind = next((kind for kind in self._node_side.locks if kind.annotation == annotation), None)
        return None if known is None or kind is None else find_lock(known, kind, self._node_side)

    @property
    def _node_side(self) -> NodeSide:
        return self.context.engine.dialects.node_side

    def who_holds(self, node: str, kind: NodeLock | None) -> str:
        """Say who holds a lock of a node, as far as the lock names anybody."""
        found = None if kind is None else self.find(node, kind.annotation)
        if found is None or found.parsed is None:
            return "its device lock cannot be taken"
        owner = found.parsed
        return f"its device lock is held by {f'pod {owner.namespace}/{owner.name}' if owner.name else 'another pod'}"

    async def refresh(self, node: str) -> None:
        """Read a node, so that its lock is known as it is now."""
        with suppress(ApiUnreachableError):
            response = await self.context.api.request("GET", node_path(node), timeout=self.timeout)
            if response.ok:
                self.context.observe("Node", response.body)

    def forget(self, node: str) -> None:
        """Forget a node that is gone."""
        self._fence.forget(node)
        self._needs.forget(node)
        self._seen.pop(node, None)

    def holding(self, node: str, lock: str) -> str | None:
        """Return the annotation of a node that has a lock's value, or None if none has.

        What it was taken as counts, whatever the pod would get now.
        """
        known = self.context.engine.state.node(node)
        if known is not None:
            for kind in self._node_side.locks:
                if known.annotations.get(kind.annotation) == lock:
                    return kind.annotation
        return None

    async def release(self, node: str, lock: str) -> None:
        """Take back a lock of ours; one that cannot be is orphaned, and replaced when somebody wants it."""
        # The patch tests the value, so to try the wrong annotation does no harm.
        held = self.holding(node, lock)
        for annotation in (held,) if held else [kind.annotation for kind in self._node_side.locks]:
            await self._release(node, annotation, lock)

    async def _release(self, node: str, annotation: str, lock: str) -> None:
        operations = release_operations(annotation, lock)
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
                    return
            await asyncio.sleep(_RETRY)
        log.warning("node %s: lock %r could not be released", node, lock)

    async def _write(self, node: Node, pod: Pod, lock: LockChange | None) -> bool:
        """Write the token of a node, and the lock with it if there is one; True if both were as they are known."""
        token = self._fence.token(pod.uid)
        patch = TokenPatch(node.annotations.get(LAST_ALLOCATED), token, lock, bool(node.annotations))
        try:
            path, operations = node_path(node.name), patch.operations()
            response = await self.context.fenced_request("PATCH", path, operations, self.timeout, JSON_PATCH)
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
            # Held, another token, no annotations map: the refusals look alike, only the node tells them apart.
            await self.refresh(node.name)
        except ApiUnreachableError as error:
            log.warning("node %s: %s", node.name, error)
            await asyncio.sleep(_RETRY)
        return False

    async def _read_pod(self, namespace: str, name: str) -> Pod | None:
        response = await self.context.api.request("GET", pod_path(namespace, name), timeout=self.timeout)
        if response.ok:
            try:
                found = decode_pod(response.body)
            except DecodeError as error:
                raise ApiUnreachableError(str(error)) from error
            self.context.observe("Pod", response.body)
            return found
        if response.status == HTTPStatus.NOT_FOUND:
            return None
        raise ApiUnreachableError(f"pod {namespace}/{name}: {response.message}")
