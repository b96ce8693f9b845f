"""Binds the volumes of a pod before the pod itself.

What was decided is written: a volume is kept for a claim, or a claim names the node that its volume is to be made for.
Kubernetes' volume controllers and the provisioners do the rest. Nothing that was written is undone: it pins the next
decision, whoever makes it, until the provisioner takes it back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from vgpu_scheduler.apiclient import MERGE_PATCH, ApiUnreachableError
from vgpu_scheduler.binding.context import BindContext
from vgpu_scheduler.kube import BOUND_BY_CONTROLLER, SELECTED_NODE, Claim
from vgpu_scheduler.model import Placement

log = logging.getLogger(__name__)

_FORBIDDEN = 403
_CLAIMS, _VOLUMES = "persistentvolumeclaims", "persistentvolumes"
_ASK_AGAIN = 30.0
"""Seconds between two questions whether a right that was missing is there now."""


class VolumeError(Exception):
    """The volumes of a pod cannot be bound as decided; it is decided anew."""


class VolumeBinder:
    """Binds volumes.

    Parameters
    ----------
    context
        What all parts of binding work with.
    timeout
        Seconds that the API server may take for a write.
    longest_wait
        Seconds that volumes may take to be bound.
    patience
        Seconds between looks at claims that do not move.
    """

    def __init__(self, context: BindContext, timeout: float, longest_wait: float, patience: float) -> None:
        self._context = context
        self._engine = context.engine
        self._timeout = timeout
        self._longest_wait = longest_wait
        self._patience = patience
        self._moved: dict[str, dict[asyncio.Event, None]] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._stopping = False

    def claim_moved(self, claim: str) -> None:
        """Note that a claim, by its ``namespace/name``, was observed anew: who waits for it looks again."""
        for event in self._moved.get(claim, ()):
            event.set()

    async def stop(self) -> None:
        """Have all pods that wait for volumes given back."""
        self._stopping = True
        for events in self._moved.values():
            for event in events:
                event.set()
        for task in self._asking.values():
            task.cancel()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)

    async def bind(self, uid: str, placement: Placement) -> None:
        """Write what was decided about a pod's volumes, and wait until they are bound.

        Raises
        ------
        VolumeError
            If that does not come about.
        """
        plan, volumes = placement.volumes, self._engine.state.volumes.objects
        for key, name in plan.matched.items():
            claim, volume = volumes.claims.get(key), volumes.volumes.get(name)
            if claim is None or volume is None:
                raise VolumeError(f"persistentvolumeclaim {key!r} or persistentvolume {name!r} is gone")
            if volume.claim is not None and not volume.claim.is_about(claim):
                raise VolumeError(f"persistentvolume {name!r} was taken for another claim than {key!r}")
            if not claim.bound and (volume.claim is None or volume.claim.uid != claim.uid):
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
                await self._write("PersistentVolume", _VOLUMES, f"/api/v1/{_VOLUMES}/{name}", body)
        for key in plan.provisioned:
            claim = volumes.claims.get(key)
            if claim is None:
                raise VolumeError(f"persistentvolumeclaim {key!r} is gone")
            if claim.selected_node not in (None, placement.node):
                raise VolumeError(f"the volume of persistentvolumeclaim {key!r} is made for {claim.selected_node}")
            if not claim.bound and claim.selected_node is None:
                body = {"metadata": _exactly(claim) | {"annotations": {SELECTED_NODE: placement.node}}}
                path = f"/api/v1/namespaces/{claim.namespace}/{_CLAIMS}/{claim.name}"
                await self._write("PersistentVolumeClaim", _CLAIMS, path, body)
        await self._wait(uid, placement)

    async def _write(self, kind: str, resource: str, path: str, body: Mapping[str, Any]) -> None:
        """Send a patch that fails if the object is not what was decided on."""
        if not self._context.may_write(self._timeout):
            raise VolumeError("the lease is about to be lost")
        try:
            response = await self._context.api.request(
                "PATCH",
                path,
                body,
                content_type=MERGE_PATCH,
                params={"timeout": f"{self._timeout:g}s"},
                timeout=self._timeout + 1,
            )
        except ApiUnreachableError as error:
            # Whether it was carried out shows in the object, which is looked at again before the next decision.
            raise VolumeError(str(error)) from error
        if response.ok:
            self._context.observe(kind, response.body)
            return
        if response.status == _FORBIDDEN:
            self._denied(resource, response.message)
        raise VolumeError(response.message)

    async def _wait(self, uid: str, placement: Placement) -> None:
        """Wait until all claims of the plan are bound."""
        plan = placement.volumes
        keys = (*plan.matched, *plan.provisioned)
        deadline = self._context.clock.monotonic() + self._longest_wait
        moved = asyncio.Event()
        for key in keys:
            self._moved.setdefault(key, {})[moved] = None
        try:
            while not self._bound(placement):
                if self._stopping or self._engine.recheck(uid) is None:
                    raise VolumeError("the placement does not hold any more")
                if self._context.clock.monotonic() > deadline:
                    raise VolumeError(f"volumes were not bound within {self._longest_wait:g} s")
                moved.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._patience):
                        await moved.wait()
        finally:
            for key in keys:
                events = self._moved[key]
                del events[moved]
                if not events:
                    del self._moved[key]

    def _bound(self, placement: Placement) -> bool:
        """Tell whether all claims of a plan are bound.

        Raises
        ------
        VolumeError
            If one will not be bound as decided.
        """
        plan, volumes = placement.volumes, self._engine.state.volumes.objects
        bound = True
        for key in (*plan.matched, *plan.provisioned):
            claim = volumes.claims.get(key)
            if claim is None or claim.deleting:
                raise VolumeError(f"persistentvolumeclaim {key!r} is gone or being deleted")
            if claim.bound:
                continue
            bound = False
            if key in plan.matched:
                self._check_kept(plan.matched[key], claim)
            elif claim.selected_node != placement.node:
                raise VolumeError(f"no volume could be made for persistentvolumeclaim {key!r} on {placement.node}")
        return bound

    def _check_kept(self, name: str, claim: Claim) -> None:
        volume = self._engine.state.volumes.objects.volumes.get(name)
        if volume is None or volume.claim is None or not volume.claim.is_about(claim):
            raise VolumeError(f"persistentvolume {name!r} is not kept for persistentvolumeclaim {claim.key!r} any more")

    # Rights ----------------------------------------------------------------------------------------------------------

    def _denied(self, resource: str, message: str) -> None:
        """Have pods that need a write which is denied wait, and ask now and then whether it is allowed."""
        self._engine.storage.deny(resource, f"binding volumes: {message}")
        if resource not in self._asking:
            task = asyncio.create_task(self._ask(resource), name=f"right-{resource}")
            self._asking[resource] = task
            task.add_done_callback(lambda _: self._asking.pop(resource, None))

    async def _ask(self, resource: str) -> None:
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"verb": "patch", "resource": resource}},
        }
        while True:
            await asyncio.sleep(_ASK_AGAIN)
            with suppress(ApiUnreachableError):
                response = await self._context.api.request(
                    "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body
                )
                if response.ok and response.json().get("status", {}).get("allowed"):
                    self._engine.storage.allow(resource)
                    return


def _exactly(obj: Any) -> dict[str, Any]:
    """Return the metadata that makes a patch fail if the object changed since it was decided on."""
    return {"uid": obj.uid, "resourceVersion": str(obj.resource_version)}
