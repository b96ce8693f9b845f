"""How much of a cluster a visitor sees: everything, or pods of some namespaces and only amounts of the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final

from vgpu_scheduler.model import quoted
from vgpu_scheduler.reading.page import OTHERS
from vgpu_scheduler.ui.errors import HttpStatusError
from vgpu_scheduler.whatif.world.usage_rows import CardUsage


@dataclass(frozen=True, slots=True)
class Visibility:
    """What a visitor sees.

    Attributes
    ----------
    namespaces
        The namespaces whose objects are shown by name; None for all namespaces and cluster-scoped objects.
    """

    namespaces: frozenset[str] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the visitor sees everything."""
        return self.namespaces is None

    def sees(self, namespace: str) -> bool:
        """Tell whether the visitor sees the objects of a namespace."""
        return self.namespaces is None or namespace in self.namespaces

    def sees_pod(self, key: str) -> bool:
        """Tell whether the visitor sees a pod (``namespace/name``)."""
        return self.sees(key.partition("/")[0])

    def named(self, key: str) -> str:
        """Return the name to show for a pod."""
        return key if self.sees_pod(key) else OTHERS

    def cards(self, cards: Iterable[CardUsage]) -> list[CardUsage]:
        """Return cards with the names of visible pods, followed by one placeholder for each hidden pod."""
        return list(cards) if self.is_whole else [replace(card, pods=self._pods(card.pods)) for card in cards]

    def _pods(self, pods: Sequence[str]) -> tuple[str, ...]:
        seen = [key for key in pods if self.sees_pod(key)]
        return (*seen, *[OTHERS] * (len(pods) - len(seen)))

    def check(self, namespace: str) -> None:
        """Refuse a request about a namespace, whether it exists or not.

        Raises
        ------
        HttpStatusError
            If the visitor does not see its objects.
        """
        if not self.sees(namespace):
            raise HttpStatusError(HTTPStatus.FORBIDDEN, f"you may not see pods of namespace {quoted(namespace)}")


EVERYTHING: Final = Visibility()
