"""What a bind goes through: the table that every step of it follows."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

__all__ = ["TRANSITIONS", "BindState", "BindStateError", "checked"]


class BindState(Enum):
    """How far the bind of one pod has come."""

    DECIDED = "decided"
    """It has a placement, and no place in a lane yet: its volumes are bound first."""
    QUEUED = "queued"
    """It keeps its place in the lane of its node, if it needs one, and takes nothing."""
    COMMITTED = "committed"
    """Its turn has come, or comes after those decided with it: nobody else goes between them any more."""
    CHECKED = "checked"
    """Its placement holds at the head of the lane; it waits for the lock of its node, if it needs one."""
    LOCKED = "locked"
    """The cards of the node are claimed for it, by a token and its lock."""
    SENT = "sent"
    """Its Binding is on its way, maybe again after the API server was busy."""
    IN_DOUBT = "in doubt"
    """Nobody can tell whether its Binding was carried out; its turn is over, its reservation is not."""
    FAILED = "failed"
    """Its Binding was not carried out, and what it took is being given back."""
    BOUND = "bound"
    """It is bound as decided."""
    UNRESERVED = "given back"
    """It is decided anew: whoever works on it stops."""
    MOVED = "moved"
    """It was decided for another node while this one was slow: whoever works on it here stops."""


TRANSITIONS: Final[Mapping[tuple[BindState, BindState], str]] = {
    (BindState.DECIDED, BindState.QUEUED): "it has no volumes to be bound, or they are",
    (BindState.DECIDED, BindState.UNRESERVED): "its volumes cannot be bound as decided",
    (BindState.QUEUED, BindState.COMMITTED): "all decided with it are first in their lanes, and hold",
    (BindState.QUEUED, BindState.UNRESERVED): "it has waited too long, or does not hold any more",
    (BindState.QUEUED, BindState.MOVED): "its node is slow, and it fits elsewhere",
    (BindState.COMMITTED, BindState.CHECKED): "its placement holds, maybe with other cards",
    (BindState.COMMITTED, BindState.UNRESERVED): "it does not hold, or its node was closed",
    (BindState.COMMITTED, BindState.MOVED): "its node is slow before it could be checked, and it fits elsewhere",
    (BindState.CHECKED, BindState.LOCKED): "the lock was taken, or the token where there is none",
    (BindState.CHECKED, BindState.SENT): "it needs no lock and no token",
    (BindState.CHECKED, BindState.UNRESERVED): "the lock cannot be taken",
    (BindState.CHECKED, BindState.MOVED): "somebody holds the lock for long, and it fits elsewhere",
    (BindState.LOCKED, BindState.SENT): "its placement still holds",
    (BindState.LOCKED, BindState.UNRESERVED): "it does not hold any more, or one decided with it does not",
    (BindState.SENT, BindState.BOUND): "the API server says so",
    (BindState.SENT, BindState.FAILED): "the API server says so",
    (BindState.SENT, BindState.IN_DOUBT): "the API server does not say",
    (BindState.IN_DOUBT, BindState.BOUND): "it was seen on its node",
    (BindState.IN_DOUBT, BindState.FAILED): "it was seen unbound, elsewhere, or gone",
    (BindState.FAILED, BindState.UNRESERVED): "what it took is given back",
}
"""All that may follow each other, each with what it means."""


class BindStateError(RuntimeError):
    """A bind was about to take a step that is not in the table."""


def checked(now: BindState, then: BindState) -> BindState:
    """Return what follows.

    Raises
    ------
    BindStateError
        If it must not.
    """
    if (now, then) not in TRANSITIONS:
        raise BindStateError(f"a bind that is {now.value} cannot become {then.value}")
    return then
