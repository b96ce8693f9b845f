"""Policies, namespaces and quotas, through a kopf operator of their own.

It is separate from the operators for pods and nodes because it has to watch CustomResourceDefinitions: with kopf's
scanning disabled, deleting a definition ends the operator, and kopf never sees one that is created later. Without the
definitions there are no policies, and scheduling goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import kopf

from vgpu_scheduler.apiclient import Credentials
from vgpu_scheduler.intake.kinds import CLUSTER_POLICIES, NAMESPACES, POLICIES, QUOTAS
from vgpu_scheduler.intake.observer import Observer
from vgpu_scheduler.intake.supervised import SupervisedKopf
from vgpu_scheduler.intake.watching import EventHandler
from vgpu_scheduler.policy import GROUP, POLICY_KINDS, VERSION

_DEFINITIONS = frozenset(map(str, POLICY_KINDS.values()))
_SERVED_WITHIN = 3.0
"""Seconds until the API server has adapted to a created or deleted definition."""


class PolicySource(SupervisedKopf):
    """Watches policies, namespaces and quotas.

    Parameters
    ----------
    credentials
        How the API server is reached.
    observer
        Where observations go.
    lost_track, after_spawn
        See :class:`SupervisedKopf`.
    """

    def __init__(
        self,
        credentials: Credentials,
        observer: Observer,
        *,
        lost_track: Callable[[], None],
        after_spawn: Callable[[], None],
    ) -> None:
        super().__init__(
            credentials, "policies", lost_track=lost_track, after_spawn=after_spawn, restarted=observer.stats.restarted
        )
        self._timer: asyncio.TimerHandle | None = None
        kinds = (CLUSTER_POLICIES, POLICIES)
        self._policies = {kind.name: EventHandler(kind, observer, lost_track) for kind in kinds}
        self._namespaces = EventHandler(NAMESPACES, observer, lost_track)
        self._quotas = EventHandler(QUOTAS, observer, lost_track)

    def _register(self, registry: kopf.OperatorRegistry) -> None:
        for kind, handler in self._policies.items():
            self._watch(registry, handler, GROUP, VERSION, POLICY_KINDS[kind].plural)
        self._watch(registry, self._namespaces, "namespaces")
        self._watch(registry, self._quotas, "v1", "resourcequotas")

        @kopf.on.event("apiextensions.k8s.io", "v1", "customresourcedefinitions", registry=registry)
        async def definition_event(event: Any, **_: Any) -> None:
            if event["type"] is None or event["object"]["metadata"]["name"] not in _DEFINITIONS:
                return
            if event["type"] == "DELETED":
                self._lost_track()  # kopf stops watching an undefined kind, maybe before it saw its objects deleted
            if self._timer is not None:
                self._timer.cancel()
            # kopf discovers resources when the definition's event arrives; the API server may not serve them yet.
            self._timer = asyncio.get_running_loop().call_later(_SERVED_WITHIN, self.begin_anew)
