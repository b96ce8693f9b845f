"""The one place that all observations pass through, whatever watch, stream or list they come from."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from vgpu_scheduler.engine import Engine, ObservationSignals, Problem, Sweep
from vgpu_scheduler.intake.kinds import NODES, Kind
from vgpu_scheduler.intake.lister import Listing, read
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
    """What came in, for metrics."""

    observed: Counter[str] = field(default_factory=Counter)
    """Observations by kind."""
    undecodable: int = 0
    problems: Counter[tuple[str, EventReason]] = field(default_factory=Counter)
    """Problems by the kind of the object and the reason of their event."""
    restarts: int = 0
    relists: int = 0
    swept: int = 0
    drift: int = 0
    """Nodes whose ledger differed from its rebuild at the last sweep, and could not be repaired."""
    repaired: int = 0
    """Mistakes in the ledger that were repaired."""

    def restarted(self) -> None:
        """Count that kopf had to be started again."""
        self.restarts += 1


class Listener(Protocol):
    """Is told of what was taken in, and looks at nothing itself."""

    def seen(self, kind: str, value: Versioned) -> None:
        """Take in an object that was observed."""

    def object_gone(self, kind: str, value: Versioned) -> None:
        """Take in that an object is gone."""

    def pod_gone(self, uid: str) -> None:
        """Take in that a pod is gone."""


@dataclass(slots=True)
class Observer:
    """Hands observations to the engine and tells those who wait for them.

    An object that the engine cannot take in is reported and left out; all others go on.

    Parameters
    ----------
    engine
        What is known and what is decided from it.
    monotonic
        Seconds since some point in the past.
    signals
        Where those who wait for observations listen.
    report
        Told of objects that could not be understood.
    at_once
        Objects of a list between two looks at everything else: a large cluster must not stop the loop.
    listener
        Told of all observations; None for nobody.
    """

    engine: Engine
    monotonic: Callable[[], float]
    signals: ObservationSignals
    report: Callable[[Problem], None]
    at_once: int = 200
    listener: Listener | None = None
    stats: IntakeStats = field(default_factory=IntakeStats)

    def observe(self, kind: Kind[_Value], found: _Value) -> None:
        """Take in an object."""
        self._take(kind, found, self.engine.kinds[kind.name].observe)
        if self.listener is not None:
            self.listener.seen(kind.name, found)
        self.signals.decide_again()

    def seen_unchanged(self, kind: Kind[Any], identity: ObjectIdentity) -> bool:
        """Take in that an object is there in a version; False if it has to be read: a newer one is not known."""
        return self._confirm(kind, self.engine.kinds[kind.name].identify(identity), identity.resource_version)

    def _confirm(self, kind: Kind[Any], key: Hashable, version: int) -> bool:
        observed = self.engine.kinds[kind.name]
        if observed.version is None or not 0 < version <= observed.version(key):
            return False
        observed.seen_unchanged(key, self.monotonic())
        return True

    def observe_answer(self, kind: Kind[_Value], answer: Encoded) -> None:
        """Take in an object that the answer to a request shows; one that cannot be read is left out.

        One that is known in that version wakes nobody: who waits and reads it meanwhile would wake itself each time.
        """
        try:
            found = read(kind, answer)
        except DecodeError as error:
            self.undecodable(error)
            return
        if not self._confirm(kind, self.engine.kinds[kind.name].key(found), found.resource_version):
            self.observe(kind, found)

    def undecodable(self, error: DecodeError) -> None:
        """Count an object that cannot be read, and log why; it is left out."""
        self.stats.undecodable += 1
        log.warning("%s", error)

    def take_event(
        self, kind: Kind[_Value], how: str | None, found: _Value, left: Callable[[_Value], None] | None = None
    ) -> None:
        """Take in what an event of a watch shows.

        Parameters
        ----------
        how
            The type of the event; None if it is of an initial listing.
        left
            Told of what left the watched selection; without it, such an object is deleted.
        """
        if how != "DELETED":
            self.observe(kind, found)
        elif left is None:
            self.deleted_by_watch(kind, found)
        else:
            left(found)

    def deleted_by_watch(self, kind: Kind[_Value], found: _Value) -> None:
        """Take in that an object is deleted; ``found`` is its last state."""

        def remove(found: _Value, now: float) -> tuple[Problem, ...]:
            self.engine.kinds[kind.name].remove(found, found.resource_version, now)
            return ()

        self._take(kind, found, remove)
        if self.listener is not None:
            self.listener.object_gone(kind.name, found)
        self.signals.decide_again()

    def left_selection(self, pod: Versioned) -> None:
        """Take in that a pod left the selection of unbound pods that it was in, as of its resource version.

        It was bound, is gone or counts no more, which the stream of bound pods tells; the object is from before that.
        """
        self.engine.leave_selection(pod.uid, pod.resource_version, self.monotonic())
        self.signals.decide_again()  # the turn of another one of its class may have come

    def bound_shown_up_to(self, version: int, unreadable: Collection[str] = ()) -> None:
        """Take in that the stream of bound pods has shown all that were bound; see the engine's method."""
        gone = self.engine.bound_shown_up_to(version, self.monotonic(), unreadable)
        if self.listener is not None:
            for uid in gone:
                self.listener.pod_gone(uid)
        self.signals.decide_again()

    def absent_in_read(self, pod: Pod) -> None:
        """Take in that a pod is not there any more, as a read says."""
        self.engine.remove_pod(pod.uid, self.monotonic())
        if self.listener is not None:
            self.listener.pod_gone(pod.uid)
        self.signals.decide_again()

    async def observe_all(self, kind: Kind[_Value], listing: Listing[_Value]) -> None:
        """Take in the objects of a list that says nothing of those that it does not have."""
        for number, found in enumerate(listing.objects, 1):
            self.observe(kind, found)
            if number % self.at_once == 0:
                await asyncio.sleep(0)
        self.stats.undecodable += len(listing.unreadable)

    async def sweep(self, kind: Kind[_Value], listing: Listing[_Value]) -> None:
        """Bring the objects of a kind in line with a consistent list of all of them, unless a newer one came before."""
        sweep: Sweep[_Value] | None = self.engine.lists.sweep(kind.name, listing.version, listing.since)
        if sweep is None:
            return
        for number, identity in enumerate(listing.unchanged, 1):
            sweep.seen_unchanged(identity, self.monotonic())
            if kind.name == NODES.name:
                self.signals.node_changed(
                    identity.name
                )  # one that is closed is looked at now and then, whatever happens
            if number % self.at_once == 0:
                await asyncio.sleep(0)
        for identity in listing.present:
            sweep.note(identity)
        for number, found in enumerate(listing.objects, 1):
            self._take(kind, found, sweep.take)
            if self.listener is not None:
                self.listener.seen(kind.name, found)
            if number % self.at_once == 0:
                await asyncio.sleep(0)
        for found in sweep.missing(listing.unreadable):
            self._take(kind, found, sweep.remove)
            if self.listener is not None:
                self.listener.object_gone(kind.name, found)
            self.stats.swept += 1
        self.stats.undecodable += len(listing.unreadable)
        self.signals.decide_again()

    def _take(self, kind: Kind[_Value], found: _Value, take: Callable[[_Value, float], Iterable[Problem]]) -> None:
        self.stats.observed[kind.name] += 1
        try:
            problems = take(found, self.monotonic())
        except Exception as error:  # one object must not end a watch or a sweep
            title = self.engine.kinds[kind.name].title(found)
            log.exception("%s %s could not be taken in", kind.name, title)
            namespace, _, name = title.rpartition("/")
            text = internal_error(error)
            problems = (Problem(kind.name, namespace, name, found.uid, EventReason.NOT_TAKEN_IN, text),)
        for problem in problems:
            self.stats.problems[problem.kind, problem.reason] += 1
            self.report(problem)
        self._tell(found)

    def _tell(self, found: object) -> None:
        """Tell those who wait at a node."""
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
