"""kopf's event handlers: they translate and observe, nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from vgpu_scheduler.intake.kinds import Kind
from vgpu_scheduler.intake.lister import read
from vgpu_scheduler.intake.observer import Observer
from vgpu_scheduler.kube import DecodeError, ObjectIdentity, Versioned, decode_identity

_Value = TypeVar("_Value", bound=Versioned)


class EventHandler(Generic[_Value]):
    """What a kopf handler does with the events of one kind; no exception reaches kopf, which would try it again.

    Parameters
    ----------
    kind
        The kind.
    observer
        Where observations go.
    lost_track
        Called when deletions may have been missed.
    left
        Told of what left the watched selection; without it, such an object is deleted.
    """

    def __init__(
        self,
        kind: Kind[_Value],
        observer: Observer,
        lost_track: Callable[[], None],
        left: Callable[[_Value], None] | None = None,
    ) -> None:
        self._kind = kind
        self._observer = observer
        self._lost_track = lost_track
        self._left = left
        self._known: set[str] = set()
        self._was_away = False

    @property
    def kind(self) -> str:
        """The kind of its objects."""
        return self._kind.name

    def begin(self) -> None:
        """Note that kopf starts, with an initial listing that says nothing of what vanished before it."""
        self._was_away = bool(self._known)
        self._known.clear()

    def is_news(self, event: Any) -> bool:
        """Tell whether an event shows what is not known; that an object is there as it is known is taken in.

        kopf asks this before it makes anything of an event, which costs it more than all that is done here.
        """
        if event["type"] == "DELETED":
            return True
        try:
            identity = decode_identity(event["object"])
        except DecodeError:  # what is wrong with it is said when it is read
            return True
        return not self.seen_unchanged(identity, event["type"])

    def seen_unchanged(self, identity: ObjectIdentity, how: str | None = "MODIFIED") -> bool:
        """Take in that an object is there in a version; False if it has to be read: a newer one is not known."""
        try:
            known = self._observer.seen_unchanged(self._kind, identity)
        except Exception:  # noqa: BLE001 - what is wrong with it is said when it is read
            return False
        if known:
            self._note(how, identity.uid)
        return known

    def __call__(self, event: Any) -> None:
        """Take in one event as kopf hands it out."""
        how, obj = event["type"], event["object"]
        try:
            found = read(self._kind, obj)
        except DecodeError as error:
            self._observer.undecodable(error)
            if how == "DELETED":
                self._lost_track()
            return
        if how == "DELETED":
            self._known.discard(found.uid)
        else:
            self._note(how, found.uid)
        self._observer.take_event(self._kind, how, found, self._left)

    def _note(self, how: str | None, uid: str) -> None:
        """Note that an object is there, and whether that is told by a second initial listing."""
        if how is None and (self._was_away or uid in self._known):
            self._was_away = False
            self._lost_track()  # whatever vanished before it was never reported
        self._known.add(uid)
