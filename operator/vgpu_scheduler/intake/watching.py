"""kopf's event handlers, which only decode and observe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from vgpu_scheduler.intake.kinds import Kind
from vgpu_scheduler.intake.listing import decode_as
from vgpu_scheduler.intake.observer import Observer
from vgpu_scheduler.kube import DecodeError, ObjectIdentity, Versioned, decode_identity

_Value = TypeVar("_Value", bound=Versioned)


class EventHandler(Generic[_Value]):
    """Handles the kopf events of one kind; it raises nothing, because kopf would retry the event.

    Parameters
    ----------
    kind
        The kind.
    observer
        Where observations go.
    lost_track
        Called when deletions may have been missed.
    left
        Called with objects that left the watched selection; without it, such objects count as deleted.
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
        """Note that kopf starts: its initial listing does not tell what was deleted before it."""
        self._was_away = bool(self._known)
        self._known.clear()

    def is_new_version(self, event: Any) -> bool:
        """Tell whether an event is news; if not, record that the object still exists.

        kopf asks this before it processes an event, and processing costs more than this check.
        """
        if event["type"] == "DELETED":
            return True
        try:
            identity = decode_identity(event["object"])
        except DecodeError:  # decoding the whole object reports the error
            return True
        return not self.seen_unchanged(identity, event["type"])

    def seen_unchanged(self, identity: ObjectIdentity, how: str | None = "MODIFIED") -> bool:
        """Record that an object exists in a version; return False if that version is new and has to be decoded."""
        try:
            known = self._observer.seen_unchanged(self._kind, identity)
        except Exception:  # noqa: BLE001 - decoding the whole object reports the error
            return False
        if known:
            self._note(how, identity.uid)
        return known

    def __call__(self, event: Any) -> None:
        """Process one event of kopf."""
        how, obj = event["type"], event["object"]
        try:
            found = decode_as(self._kind, obj)
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
        """Note that an object exists; if it is part of a repeated initial listing, report possibly missed deletions."""
        if how is None and (self._was_away or uid in self._known):
            self._was_away = False
            self._lost_track()  # deletions before the listing were never reported
        self._known.add(uid)
