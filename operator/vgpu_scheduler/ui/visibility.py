"""How much of a cluster somebody sees: all of it, or the pods of some namespaces and of all others only amounts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final

from vgpu_scheduler.model import quoted
from vgpu_scheduler.reading.page import OTHERS
from vgpu_scheduler.ui.errors import RefusedError
from vgpu_scheduler.whatif.world import usage

__all__ = ["EVERYTHING", "Visibility"]


@dataclass(frozen=True, slots=True)
class Visibility:
    """What somebody sees.

    Attributes
    ----------
    namespaces
        Those whose objects are seen by name; None for all, and what belongs to none.
    """

    namespaces: frozenset[str] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether all is seen."""
        return self.namespaces is None

    def sees(self, namespace: str) -> bool:
        """Tell whether the objects of a namespace are seen."""
        return self.namespaces is None or namespace in self.namespaces

    def sees_pod(self, key: str) -> bool:
        """Tell whether a pod is seen, by its namespace and name."""
        return self.sees(key.partition("/")[0])

    def named(self, key: str) -> str:
        """Return what a pod is called."""
        return key if self.sees_pod(key) else OTHERS

    def cards(self, cards: Iterable[usage.CardUsage]) -> list[usage.CardUsage]:
        """Return cards with the names of the pods that are seen, and after these one word for each of the others."""
        return list(cards) if self.is_whole else [replace(card, pods=self._pods(card.pods)) for card in cards]

    def _pods(self, pods: Sequence[str]) -> tuple[str, ...]:
        seen = [key for key in pods if self.sees_pod(key)]
        return (*seen, *[OTHERS] * (len(pods) - len(seen)))

    def check(self, namespace: str) -> None:
        """Refuse to say anything of a namespace, whether it is there or not.

        Raises
        ------
        RefusedError
            If its objects are not seen.
        """
        if not self.sees(namespace):
            raise RefusedError(HTTPStatus.FORBIDDEN, f"you may see no pods of a namespace {quoted(namespace)}")


EVERYTHING: Final = Visibility()
