"""Binds the volumes of a pod before the pod itself.

What was decided is written: a volume is kept for a claim, or a claim names the node that its volume is to be made for.
Kubernetes' volume controllers and the provisioners do the rest. Nothing that was written is undone: it pins the next
decision, whichever leader makes it, until the provisioner takes it back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, NamedTuple

from vgpu_scheduler.apiclient import MERGE_PATCH, ApiUnreachableError, object_path, wait_for_event
from vgpu_scheduler.binding.context import BindContext, BinderOptions
from vgpu_scheduler.binding.rights import VolumeRights
from vgpu_scheduler.engine import VOLUME_CLAIMS, VOLUMES
from vgpu_scheduler.kube import BOUND_BY_CONTROLLER, SELECTED_NODE, PersistentVolumeClaim, Volume
from vgpu_scheduler.model import Placement

log = logging.getLogger(__name__)

_BUSY = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
_RETRY = 1.0
"""Seconds between two tries where a busy API server does not say how long it will be."""


class VolumeError(Exception):
    """The volumes of a pod cannot be bound as decided; it is decided anew."""


class VolumeConflictError(VolumeError):
    """Somebody else was first, which is nothing to warn of."""


class _Write(NamedTuple):
    """A patch of one object."""

    kind: str
    resource: str
    path: str
    body: Mapping[str, Any]
    namespace: str = ""


class VolumeBinder:
    """Binds volumes.

    Parameters
    ----------
    context
        What all parts of binding work with.
    options
        Times and limits.
    """

    def __init__(self, context: BindContext, options: BinderOptions) -> None:
        self._context = context
        self._engine = context.engine
        self._timeout = options.timeout
        self._volume_wait = options.volume_wait
        self._poll_interval = options.poll_interval
        self._changed: dict[str, dict[asyncio.Event, None]] = {}
        self._rights = VolumeRights(context, options.timeout, options.ask_again)
        self._stopping = asyncio.Event()

    def volume_claim_changed(self, claim: str) -> None:
        """Note that a claim, by its ``namespace/name``, or its volume was observed anew: who waits looks again."""
        for event in self._changed.get(claim, ()):
            event.set()

    async def stop(self) -> None:
        """Have all pods that wait for volumes given back."""
        self._stopping.set()
        for events in self._changed.values():
            for event in events:
                event.set()
        await self._rights.stop()

    async def bind(self, uid: str, placement: Placement) -> None:
        """Write what was decided about a pod's volumes, and wait until they are bound.

        Raises
        ------
        VolumeError
            If that does not come about.
        """
        plan = placement.volumes
        deadline = self._context.clock.monotonic() + self._volume_wait
        for key, name in plan.matched.items():
            await self._carry_out(uid, placement, deadline, partial(self._keeping, key, name, placement.node))
        for key in plan.provisioned:
            await self._carry_out(uid, placement, deadline, partial(self._selecting, key, placement.node))
        await self._wait(uid, placement, deadline)

    # Writes ----------------------------------------------------------------------------------------------------------

    def _keeping(self, key: str, name: str, node: str) -> _Write | None:
        """Return the write that keeps a volume for a claim, judged by both as they are now; None if it is kept.

        Raises
        ------
        VolumeError
            If one of them went elsewhere meanwhile.
        """
        claim, volume = self._claim(key), self._engine.state.volumes.objects.volumes.get(name)
        if volume is None:
            raise VolumeError(f"persistentvolume {name!r} is gone")
        if claim.volume_name not in {"", name}:
            raise VolumeConflictError(
                f"persistentvolumeclaim {key!r} got persistentvolume {claim.volume_name!r} meanwhile"
            )
        _check_node(claim, node)
        if volume.claim is not None and not volume.claim.is_about(claim):
            raise VolumeConflictError(f"persistentvolume {name!r} is not free any more")
        if claim.bound or (volume.claim is not None and volume.claim.uid == claim.uid):
            return None
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": claim.namespace,
            "name": claim.name,
            "uid": claim.uid,
        }
        # A volume that a user has kept for the claim by name stays the user's.
        by_controller = {"annotations": {BOUND_BY_CONTROLLER: "yes"}} if volume.claim is None else {}
        body = {"metadata": _exactly(volume) | by_controller, "spec": {"claimRef": reference}}
        return _Write("PersistentVolume", VOLUMES, object_path(f"/api/v1/{VOLUMES}", "", name), body)

    def _selecting(self, key: str, node: str) -> _Write | None:
        """Return the write that names the node in a claim, judged by it as it is now; None if there is no need.

        Raises
        ------
        VolumeError
            If it went elsewhere meanwhile.
        """
        claim = self._claim(key)
        if claim.bound:
            return None
        if claim.volume_name:
            raise VolumeConflictError(
                f"persistentvolumeclaim {key!r} got persistentvolume {claim.volume_name!r} meanwhile"
            )
        _check_node(claim, node)
        if claim.selected_node == node:
            return None
        body = {"metadata": _exactly(claim) | {"annotations": {SELECTED_NODE: node}}}
        path = object_path(f"/api/v1/{VOLUME_CLAIMS}", claim.namespace, claim.name)
        return _Write("PersistentVolumeClaim", VOLUME_CLAIMS, path, body, claim.namespace)

    def _claim(self, key: str) -> PersistentVolumeClaim:
        claim = self._engine.state.volumes.objects.claims.get(key)
        if claim is None or claim.deleting:
            raise VolumeError(f"persistentvolumeclaim {key!r} is gone or being deleted")
        return claim

    async def _carry_out(
        self, uid: str, placement: Placement, deadline: float, needed: Callable[[], _Write | None]
    ) -> None:
        """Send a write as long as it is needed and the placement holds; nothing is written on what was true once."""
        while (write := needed()) is not None:
            self._check_holds(uid, placement)
            delay = await self._send(write)
            if delay is None:
                return
            await self._pause(uid, placement, deadline, delay)

    async def _pause(self, uid: str, placement: Placement, deadline: float, seconds: float) -> None:
        """Keep a placement for some seconds."""
        until = self._context.clock.monotonic() + seconds
        if until > deadline:
            raise VolumeError(f"the API server took no write within {self._volume_wait:g} s")
        while (left := until - self._context.clock.monotonic()) > 0:
            await wait_for_event(self._stopping, min(left, self._poll_interval))
            self._check_holds(uid, placement)

    def _check_holds(self, uid: str, placement: Placement) -> None:
        holds = not self._stopping.is_set() and self._engine.state.reservation(uid) is not None
        # Without a volume that is there, but was not seen yet, the placement cannot be judged.
        if not holds or (not self._is_ahead(placement) and self._engine.assumed.recheck(uid) is None):
            raise VolumeError("the placement does not hold any more")

    def _is_ahead(self, placement: Placement) -> bool:
        """Tell whether some claim of a plan was seen bound before its volume was: they come by different watches."""
        plan, objects = placement.volumes, self._engine.state.volumes.objects
        claims = (objects.claims.get(key) for key in (*plan.matched, *plan.provisioned))
        return any(claim is not None and claim.bound and claim.volume_name not in objects.volumes for claim in claims)

    async def _send(self, write: _Write) -> float | None:
        """Send a patch that fails if the object is not as it was just judged; return when to try again, if at all."""
        try:
            response = await self._context.fenced_request("PATCH", write.path, write.body, self._timeout, MERGE_PATCH)
        except ApiUnreachableError as error:
            # Whether it was carried out shows in the object, which is looked at again before the next decision.
            raise VolumeError(str(error)) from error
        if response is None:
            raise VolumeError("the lease is about to be lost")
        if response.ok:
            self._context.observe(write.kind, response.body)
            return None
        if response.status in _BUSY:
            return response.retry_after or _RETRY
        if response.status == HTTPStatus.CONFLICT:
            raise VolumeConflictError(response.message)
        if response.status == HTTPStatus.FORBIDDEN:
            await self._rights.refused(write.resource, response.message, write.namespace)
        raise VolumeError(response.message)

    async def _wait(self, uid: str, placement: Placement, deadline: float) -> None:
        """Wait until all claims of the plan are bound."""
        plan = placement.volumes
        keys = (*plan.matched, *plan.provisioned)
        changed = asyncio.Event()
        for key in keys:
            self._changed.setdefault(key, {})[changed] = None
        try:
            while not self._bound(placement):
                self._check_holds(uid, placement)
                if self._context.clock.monotonic() > deadline:
                    raise VolumeError(f"volumes were not bound within {self._volume_wait:g} s")
                changed.clear()
                await wait_for_event(changed, self._poll_interval)
        finally:
            for key in keys:
                events = self._changed[key]
                del events[changed]
                if not events:
                    del self._changed[key]

    def _bound(self, placement: Placement) -> bool:
        """Tell whether all claims of a plan are bound, to volumes that are known.

        Raises
        ------
        VolumeError
            If one will not be bound as decided.
        """
        plan = placement.volumes
        bound = not self._is_ahead(placement)
        for key in (*plan.matched, *plan.provisioned):
            claim = self._claim(key)
            if claim.bound:
                continue
            bound = False
            if key in plan.matched:
                self._check_kept(plan.matched[key], claim)
            elif claim.selected_node != placement.node:
                raise VolumeError(f"no volume could be made for persistentvolumeclaim {key!r} on {placement.node}")
        return bound

    def _check_kept(self, name: str, claim: PersistentVolumeClaim) -> None:
        volume = self._engine.state.volumes.objects.volumes.get(name)
        if volume is None or volume.claim is None or not volume.claim.is_about(claim):
            raise VolumeError(f"persistentvolume {name!r} is not kept for persistentvolumeclaim {claim.key!r} any more")


def _check_node(claim: PersistentVolumeClaim, node: str) -> None:
    if claim.selected_node not in {None, node}:
        raise VolumeConflictError(f"persistentvolumeclaim {claim.key!r} gets a volume on node {claim.selected_node}")


def _exactly(obj: PersistentVolumeClaim | Volume) -> dict[str, Any]:
    """Return the metadata that makes a patch fail if the object is not this one any more, as it is here."""
    return {"uid": obj.uid, "resourceVersion": str(obj.resource_version)}
