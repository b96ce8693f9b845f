"""Binds the volumes of a pod before the pod itself.

It writes the decision: the ``claimRef`` of a volume, or the selected node of a claim whose volume is to be provisioned.
Kubernetes' volume controllers and the provisioners do the rest. These writes are never undone: they pin the next
decision of any leader, until the provisioner removes the selected node.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, NamedTuple

from vgpu_scheduler.apiclient import MERGE_PATCH, ApiUnreachableError, object_path, wait_for_event
from vgpu_scheduler.binding.bind_tasks import BindTask
from vgpu_scheduler.binding.change_events import ChangeEvents
from vgpu_scheduler.binding.context import BindContext, BinderOptions
from vgpu_scheduler.binding.rights import VolumeRights
from vgpu_scheduler.kube import (
    API_RESOURCES,
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    ApiResource,
    PersistentVolumeClaim,
    Volume,
)
from vgpu_scheduler.model import Placement

log = logging.getLogger(__name__)

_BUSY = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
_RETRY = 1.0
"""Seconds between two tries if a busy API server gives no delay."""


class VolumeError(Exception):
    """The volumes of a pod cannot be bound as decided; it is decided anew."""


class VolumeConflictError(VolumeError):
    """Another writer was first; this needs no event."""


class _Write(NamedTuple):
    """A patch of one object."""

    resource: ApiResource
    namespace: str
    name: str
    body: Mapping[str, Any]


class VolumeBinder:
    """Binds volumes.

    Parameters
    ----------
    context
        The shared context of binding.
    options
        Times and limits.
    """

    def __init__(self, context: BindContext, options: BinderOptions) -> None:
        self._context = context
        self._engine = context.engine
        self._timeout = options.timeout
        self._volume_wait = options.volume_wait
        self._poll_interval = options.poll_interval
        self._changes = ChangeEvents()
        self._rights = VolumeRights(context, options.timeout)
        self._stopping = asyncio.Event()

    def volume_claim_changed(self, claim: str) -> None:
        """Note that a claim (``namespace/name``) or its volume changed, and wake the binds that wait for it."""
        self._changes.changed(claim)

    async def stop(self) -> None:
        """End all waits for volumes with a :class:`VolumeError`."""
        self._stopping.set()
        self._changes.wake_all()
        await self._rights.stop()

    async def bind(self, item: BindTask, placement: Placement) -> None:
        """Write the decision about a pod's volumes, and wait until they are bound.

        Parameters
        ----------
        item
            The bind of the pod; once it is over, nothing more is written or waited for.
        placement
            The placement that was decided.

        Raises
        ------
        VolumeError
            If they cannot be bound as decided.
        """
        plan = placement.volumes
        deadline = self._context.clock.monotonic() + self._volume_wait
        for key, name in plan.matched.items():
            await self._carry_out(item, placement, deadline, partial(self._keeping, key, name, placement.node))
        for key in plan.provisioned:
            await self._carry_out(item, placement, deadline, partial(self._selecting, key, placement.node))
        await self._wait(item, placement, deadline)

    # Writes ----------------------------------------------------------------------------------------------------------

    def _keeping(self, key: str, name: str, node: str) -> _Write | None:
        """Return the write that sets the ``claimRef`` of a volume, from the current objects; None if it is set.

        Raises
        ------
        VolumeError
            If the claim or the volume was bound otherwise or is gone meanwhile.
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
        # A volume that a user has reserved for the claim by name is not marked as bound by a controller.
        by_controller = {"annotations": {BOUND_BY_CONTROLLER: "yes"}} if volume.claim is None else {}
        body = {"metadata": _exactly(volume) | by_controller, "spec": {"claimRef": reference}}
        return _Write(API_RESOURCES["PersistentVolume"], "", name, body)

    def _selecting(self, key: str, node: str) -> _Write | None:
        """Return the write that sets the selected node of a claim, from the current claim; None if none is needed.

        Raises
        ------
        VolumeError
            If the claim was bound otherwise or is gone meanwhile.
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
        return _Write(API_RESOURCES["PersistentVolumeClaim"], claim.namespace, claim.name, body)

    def _claim(self, key: str) -> PersistentVolumeClaim:
        claim = self._engine.state.volumes.objects.claims.get(key)
        if claim is None or claim.deleting:
            raise VolumeError(f"persistentvolumeclaim {key!r} is gone or being deleted")
        return claim

    async def _carry_out(
        self, item: BindTask, placement: Placement, deadline: float, needed: Callable[[], _Write | None]
    ) -> None:
        """Send a write until it succeeds or is not needed; recheck the objects and the placement before each try."""
        while (write := needed()) is not None:
            self._check_holds(item, placement)
            delay = await self._send(write)
            if delay is None:
                return
            await self._pause(item, placement, deadline, delay)

    async def _pause(self, item: BindTask, placement: Placement, deadline: float, seconds: float) -> None:
        """Wait for some seconds, as long as the placement holds."""
        until = self._context.clock.monotonic() + seconds
        if until > deadline:
            raise VolumeError(f"the API server took no write within {self._volume_wait:g} s")
        while (left := until - self._context.clock.monotonic()) > 0:
            await wait_for_event(self._stopping, min(left, self._poll_interval))
            self._check_holds(item, placement)

    def _check_holds(self, item: BindTask, placement: Placement) -> None:
        held = self._engine.state.reservation(item.uid)  # the pod may have been decided anew, even for the same node
        holds = not self._stopping.is_set() and not item.is_over and held is not None and held.node == placement.node
        # While the volume of a bound claim was not observed yet, the placement cannot be rechecked.
        if not holds or (not self._is_ahead(placement) and self._engine.assumed.recheck(item.uid) is None):
            raise VolumeError("the placement does not hold any more")

    def _is_ahead(self, placement: Placement) -> bool:
        """Tell whether a bound claim of a plan was observed before its volume: they come from different watches."""
        plan, objects = placement.volumes, self._engine.state.volumes.objects
        claims = (objects.claims.get(key) for key in (*plan.matched, *plan.provisioned))
        return any(claim is not None and claim.bound and claim.volume_name not in objects.volumes for claim in claims)

    async def _send(self, write: _Write) -> float | None:
        """Send a patch that fails if the object has changed; return the seconds until a retry, None on success."""
        path = object_path(write.resource.path, write.namespace, write.name)
        try:
            response = await self._context.writer.request_within_lease(
                "PATCH", path, write.body, self._timeout, MERGE_PATCH
            )
        except ApiUnreachableError as error:
            # If the patch was carried out, the next decision sees it in the object.
            raise VolumeError(str(error)) from error
        if response is None:
            raise VolumeError("the lease is about to be lost")
        if response.ok:
            self._context.observe(write.resource.kind, response.body)
            return None
        if response.status in _BUSY:
            return response.retry_after or _RETRY
        if response.status == HTTPStatus.CONFLICT:
            raise VolumeConflictError(response.message)
        if response.status == HTTPStatus.FORBIDDEN:
            await self._rights.refused(write.resource.plural, response.message, write.namespace)
        raise VolumeError(response.message)

    async def _wait(self, item: BindTask, placement: Placement, deadline: float) -> None:
        """Wait until all claims of the plan are bound."""
        plan = placement.volumes
        with self._changes.listening(*plan.matched, *plan.provisioned) as changed:
            while not self._bound(placement):
                self._check_holds(item, placement)
                if self._context.clock.monotonic() > deadline:
                    raise VolumeError(f"volumes were not bound within {self._volume_wait:g} s")
                changed.clear()
                await wait_for_event(changed, self._poll_interval)

    def _bound(self, placement: Placement) -> bool:
        """Tell whether all claims of a plan are bound to known volumes.

        Raises
        ------
        VolumeError
            If a claim cannot be bound as decided any more.
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
                raise VolumeError(
                    f"no volume could be provisioned for persistentvolumeclaim {key!r} on {placement.node}"
                )
        return bound

    def _check_kept(self, name: str, claim: PersistentVolumeClaim) -> None:
        volume = self._engine.state.volumes.objects.volumes.get(name)
        if volume is None or volume.claim is None or not volume.claim.is_about(claim):
            raise VolumeError(f"persistentvolume {name!r} is not kept for persistentvolumeclaim {claim.key!r} any more")


def _check_node(claim: PersistentVolumeClaim, node: str) -> None:
    if claim.selected_node not in {None, node}:
        raise VolumeConflictError(f"persistentvolumeclaim {claim.key!r} gets a volume on node {claim.selected_node}")


def _exactly(obj: PersistentVolumeClaim | Volume) -> dict[str, Any]:
    """Return the metadata that makes a patch fail if the object was replaced or changed."""
    return {"uid": obj.uid, "resourceVersion": str(obj.resource_version)}
