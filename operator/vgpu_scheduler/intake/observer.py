"""The observer: every observation passes through it, whether it comes from a watch, a stream or a list."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from vgpu_scheduler.engine import Engine, ObservationSignals, Problem, Relist
from vgpu_scheduler.intake.kinds import NODES, Kind
from vgpu_scheduler.intake.listing import Listing, decode_as
from vgpu_scheduler.kube import (
    DecodeError,
    Encoded,
    Node,
    ObjectIdentity,
    PersistentVolumeClaim,
    Pod,
    Versioned,
    Volume,
)
from vgpu_scheduler.model import EventReason, internal_error

log = logging.getLogger(__name__)

_Value = TypeVar("_Value", bound=Versioned)


@dataclass(slots=True)
class IntakeStats:
    """Counts of what was observed, for metrics."""

    observed: Counter[str] = field(default_factory=Counter)
    """Observations by kind."""
    undecodable: int = 0
    problems: Counter[tuple[str, EventReason]] = field(default_factory=Counter)
    """Problems by the object's kind and the event's reason."""
    restarts: int = 0
    relists: int = 0
    missed_deletions: int = 0
    drift: int = 0
    """Nodes whose ledger differed from its rebuild at the last audit and could not be repaired."""
    repaired: int = 0
    """Mistakes in the ledger that were repaired."""

    def restarted(self) -> None:
        """Count a restart of kopf."""
        self.restarts += 1


class Listener(Protocol):
    """Is told of all observations."""

    def seen(self, kind: str, value: Versioned) -> None:
        """Note that an object was observed."""

    def object_gone(self, kind: str, value: Versioned) -> None:
        """Note that an object is gone."""

    def pod_gone(self, uid: str) -> None:
        """Note that a pod is gone."""


@dataclass(slots=True)
class Observer:
    """Hands observations to the engine, and wakes tasks that wait for them.

    An object that the engine cannot process is reported and skipped.

    Parameters
    ----------
    engine
        The engine: cluster state and scheduling decisions.
    monotonic
        Returns seconds of a monotonic clock.
    signals
        The signals that wake waiting tasks.
    report
        Called with each problem found in an object.
    at_once
        The most objects of a list to process before yielding to other tasks.
    listener
        Told of all observations; None for no listener.
    """

    engine: Engine
    monotonic: Callable[[], float]
    signals: ObservationSignals
    report: Callable[[Problem], None]
    at_once: int = 200
    listener: Listener | None = None
    stats: IntakeStats = field(default_factory=IntakeStats)

    def observe(self, kind: Kind[_Value], found: _Value) -> None:
        """Observe an object."""
        self._take(kind, found, self.engine.kinds[kind.name].observe)
        if self.listener is not None:
            self.listener.seen(kind.name, found)
        self.signals.decide_again()

    def seen_unchanged(self, kind: Kind[Any], identity: ObjectIdentity) -> bool:
        """Record that an object exists in a version; return False if that version is new and has to be decoded."""
        return self._confirm(kind, self.engine.kinds[kind.name].identify(identity), identity.resource_version)

    def _confirm(self, kind: Kind[Any], key: Hashable, version: int) -> bool:
        observed = self.engine.kinds[kind.name]
        if observed.version is None or not 0 < version <= observed.version(key):
            return False
        observed.seen_unchanged(key, self.monotonic())
        return True

    def observe_answer(self, kind: Kind[_Value], answer: Encoded) -> None:
        """Observe an object that the API server returned in an answer; skip it if it cannot be decoded.

        A version that is known already wakes no waiting task: a task that re-reads an object while it waits would
        otherwise wake itself with each read.
        """
        try:
            found = decode_as(kind, answer)
        except DecodeError as error:
            self.undecodable(error)
            return
        if not self._confirm(kind, self.engine.kinds[kind.name].key(found), found.resource_version):
            self.observe(kind, found)

    def undecodable(self, error: DecodeError) -> None:
        """Count an object that cannot be decoded, and log why."""
        self.stats.undecodable += 1
        log.warning("%s", error)

    def take_event(
        self, kind: Kind[_Value], how: str | None, found: _Value, left: Callable[[_Value], None] | None = None
    ) -> None:
        """Observe the object of a watch event.

        Parameters
        ----------
        how
            The type of the event; None if the event belongs to an initial listing.
        left
            Called with objects that left the watched selection; without it, such objects count as deleted.
        """
        if how != "DELETED":
            self.observe(kind, found)
        elif left is None:
            self.deleted_by_watch(kind, found)
        else:
            left(found)

    def deleted_by_watch(self, kind: Kind[_Value], found: _Value) -> None:
        """Observe that an object was deleted; ``found`` is its last state."""

        def remove(found: _Value, now: float) -> tuple[Problem, ...]:
            self.engine.kinds[kind.name].remove(found, found.resource_version, now)
            return ()

        self._take(kind, found, remove)
        if self.listener is not None:
            self.listener.object_gone(kind.name, found)
        self.signals.decide_again()

    def left_selection(self, pod: Versioned) -> None:
        """Observe that a pod left its selection of unbound pods, as of its resource version.

        The pod was bound or deleted, or no longer qualifies; the stream of bound pods tells which. The object that
        the watch shows is from before the change.
        """
        self.engine.unbound_pods.leave_selection(pod.uid, pod.resource_version, self.monotonic())
        self.signals.selection_left(pod.uid)
        self.signals.decide_again()  # the next pod of its unschedulable class may be tried now

    def bound_pods_synced_to(self, version: int, unreadable: Collection[str] = ()) -> None:
        """Observe that the stream of bound pods is complete up to a version; see the engine's method."""
        gone = self.engine.bound_pods_synced_to(version, self.monotonic(), unreadable)
        if self.listener is not None:
            for uid in gone:
                self.listener.pod_gone(uid)
        self.signals.decide_again()

    def absent_in_read(self, pod: Pod) -> None:
        """Observe that a read found a pod gone."""
        self.engine.remove_pod(pod.uid, self.monotonic())
        if self.listener is not None:
            self.listener.pod_gone(pod.uid)
        self.signals.decide_again()

    async def observe_all(self, kind: Kind[_Value], listing: Listing[_Value]) -> None:
        """Observe the objects of a list; objects that it lacks are not removed."""
        for number, found in enumerate(listing.objects, 1):
            self.observe(kind, found)
            if number % self.at_once == 0:
                await asyncio.sleep(0)
        self.stats.undecodable += len(listing.unreadable)

    async def relist(self, kind: Kind[_Value], listing: Listing[_Value]) -> None:
        """Relist a kind with a consistent list of all its objects, unless a newer list was processed before."""
        relist: Relist[_Value] | None = self.engine.lists.relist(kind.name, listing.version, listing.since)
        if relist is None:
            return
        for number, identity in enumerate(listing.unchanged, 1):
            relist.seen_unchanged(identity, self.monotonic())
            if kind.name == NODES.name:
                self.signals.node_changed(
                    identity.name
                )  # a closed node is checked periodically even if nothing about it changes
            if number % self.at_once == 0:
                await asyncio.sleep(0)
        for identity in listing.present:
            relist.note(identity)
        for number, found in enumerate(listing.objects, 1):
            self._take(kind, found, relist.take)
            if self.listener is not None:
                self.listener.seen(kind.name, found)
            if number % self.at_once == 0:
                await asyncio.sleep(0)
        for found in relist.missing(listing.unreadable):
            self._take(kind, found, relist.remove)
            if self.listener is not None:
                self.listener.object_gone(kind.name, found)
            self.stats.missed_deletions += 1
        self.stats.undecodable += len(listing.unreadable)
        self.signals.decide_again()

    def _take(self, kind: Kind[_Value], found: _Value, take: Callable[[_Value, float], Iterable[Problem]]) -> None:
        self.stats.observed[kind.name] += 1
        try:
            problems = take(found, self.monotonic())
        except Exception as error:  # one object must not end a watch or a relist
            title = self.engine.kinds[kind.name].title(found)
            log.exception("%s %s could not be processed", kind.name, title)
            namespace, _, name = title.rpartition("/")
            text = internal_error(error)
            problems = (Problem(kind.name, namespace, name, found.uid, EventReason.NOT_TAKEN_IN, text),)
        for problem in problems:
            self.stats.problems[problem.kind, problem.reason] += 1
            self.report(problem)
        self._tell(found)

    def _tell(self, found: object) -> None:
        """Wake the tasks that wait for this node, volume or claim."""
        if isinstance(found, Node):
            self.signals.node_changed(found.name)
        elif isinstance(found, Pod) and found.node_name:
            self.signals.node_changed(found.node_name)
        elif isinstance(found, Pod) and (found.spec.volume_claims or found.spec.disks):
            self.signals.storage_needed()
        elif isinstance(found, PersistentVolumeClaim):
            self.signals.volume_claim_changed(found.key)
        elif isinstance(found, Volume) and found.claim is not None:
            self.signals.volume_claim_changed(f"{found.claim.namespace}/{found.claim.name}")
