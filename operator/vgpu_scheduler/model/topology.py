"""What pods of a group want of where they are placed: near each other."""

from __future__ import annotations

from typing import NamedTuple


class TopologyConstraint(NamedTuple):
    """The pods of a group are placed on nodes that have the same value of a label.

    Attributes
    ----------
    key
        The label of nodes.
    required
        Whether they are placed nowhere else; else they are where that cannot be.
    said_by
        The field, annotation or policy that says so, as messages name it.
    """

    key: str
    required: bool
    said_by: str
