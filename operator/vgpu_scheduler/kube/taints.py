"""Taints and tolerations."""

from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import Final

import msgspec

NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
_REPELLING: Final = frozenset({NO_SCHEDULE, NO_EXECUTE})


class Taint(msgspec.Struct, frozen=True):
    """A taint of a node. Equal taints are one object when made by :func:`taint`."""

    key: str
    value: str
    effect: str

    @property
    def repels(self) -> bool:
        """Whether it repels pods that do not tolerate it; PreferNoSchedule does not."""
        return self.effect in _REPELLING


class Toleration(msgspec.Struct, frozen=True, omit_defaults=True):
    """A toleration of a pod, without ``tolerationSeconds``, which does not matter to a scheduler."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Whether this toleration covers the taint (``Toleration.ToleratesTaint`` of Kubernetes).

        An empty key matches every key, an empty effect every effect, an empty operator means Equal. An unknown operator
        tolerates nothing.
        """
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator in ("", "Equal"):
            return self.value == taint.value
        return self.operator == "Exists"


@lru_cache(maxsize=4096)
def taint(key: str, value: str, effect: str) -> Taint:
    """Taint with these parts; the same object for the same parts."""
    return Taint(key, value, effect)


def untolerated(taints: Iterable[Taint], tolerations: Collection[Toleration]) -> tuple[Taint, ...]:
    """Return the taints that repel pods with these tolerations."""
    return tuple(each for each in taints if each.repels and not any(one.tolerates(each) for one in tolerations))


UNSCHEDULABLE_TAINT: Final = taint("node.kubernetes.io/unschedulable", "", NO_SCHEDULE)
"""The taint that pods must tolerate to be placed despite ``spec.unschedulable``."""
