"""The question of the what-if page, as read from an address or a form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from vgpu_scheduler.reading import number_of_copies
from vgpu_scheduler.ui.errors import BadQueryError
from vgpu_scheduler.ui.pages.heat import MEASURES
from vgpu_scheduler.ui.query import Query
from vgpu_scheduler.whatif import InvalidObjectsError

TEXTS: Final = ("manifest", "policy")
PARAMETERS: Final = (*TEXTS, "pod", "count", "waiting", "forecast", "warnings", "namespace", "add", "without", "by")
_WAITING: Final = ("", "namespace", "all")
_YES: Final = ("", "yes")
_MOST_WORDS: Final = 50


@dataclass(frozen=True, slots=True)
class WhatIfQuery:
    """The parameters of a what-if question; empty texts ask for nothing.

    Attributes
    ----------
    manifest
        Manifests of pods or their owners, in YAML.
    pod
        An existing pod (``namespace/name``); the question is about one more like it.
    count
        How many copies of the pods to place; ``max`` for as many as fit, empty for the pods themselves.
    waiting
        Which pending pods to place as well: ``namespace`` for those of the namespace, or ``all``.
    forecast
        Whether to forecast how long pending pods that fit nowhere will wait.
    warnings
        Whether the JSON has the warnings beside the answers.
    namespace
        The namespace of objects that name none.
    policy
        Policies, in YAML.
    add
        Existing nodes to duplicate: one more node like each, or as many as the number after ``=``.
    without
        What to remove: ``node/NAME`` or ``pod/NAMESPACE/NAME``.
    by
        The measure that colours the tiles.
    """

    manifest: str = ""
    pod: str = ""
    count: str = ""
    waiting: str = ""
    forecast: bool = False
    warnings: bool = False
    namespace: str = "default"
    policy: str = ""
    add: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    by: str = "memory"

    @classmethod
    def of(cls, query: Query) -> WhatIfQuery:
        """Read the question from an address or a form.

        Raises
        ------
        BadQueryError
            If a value is not allowed.
        """
        found = cls(
            **{name: query.get(name) for name in ("manifest", "pod", "count", "policy")},
            waiting=query.choice("waiting", _WAITING),
            forecast=query.choice("forecast", _YES) == "yes",
            warnings=query.choice("warnings", _YES) == "yes",
            namespace=query.get("namespace") or "default",
            add=_words(query, "add"),
            without=_words(query, "without"),
            by=query.choice("by", MEASURES),
        )
        if found.count and found.waiting:
            raise BadQueryError("count: it is for copies of a manifest, not for pods that wait")
        if found.forecast and not found.waiting:
            raise BadQueryError("forecast: it is for pods that wait: choose them (waiting)")
        if found.manifest and found.pod:
            raise BadQueryError("pod: give either a manifest or an existing pod")
        if found.count and not (found.manifest or found.pod):
            raise BadQueryError("count: there is no pod to copy")
        return found

    @property
    def something(self) -> bool:
        """Whether the question asks for anything."""
        return any((self.manifest, self.pod, self.waiting, self.policy, self.add, self.without))

    @property
    def copies(self) -> int:
        """The number of copies; 0 for the pods themselves.

        Raises
        ------
        BadQueryError
            If it is not a number.
        """
        try:
            return number_of_copies(self.count) if self.count else 0
        except InvalidObjectsError as error:
            raise BadQueryError(f"count: {error}") from None


def _words(query: Query, name: str) -> tuple[str, ...]:
    words = tuple(query.get(name).replace(",", " ").split())
    if len(words) > _MOST_WORDS:
        raise BadQueryError(f"{name}: there are more than {_MOST_WORDS}")
    return words
