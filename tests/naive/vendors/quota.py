"""What the quotas of a namespace leave of one vendor's memory and cores.

HAMi checks them when it fits a pod only for NVIDIA and Cambricon.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.naive.vendors.model import Obj, Taken
from tests.naive.vendors.requests import exact


@dataclass(frozen=True)
class Quota:
    """Limits in MiB and percent, if there are any; and what other pods of the namespace use."""

    limits: tuple[int | None, int | None] = (None, None)
    used: tuple[int, int] = (0, 0)

    def allows(self, taken: Iterable[Sequence[Taken]], memory: int, cores: int) -> bool:
        """Tell whether a device may be added to what the pod takes."""
        devices = [device for container in taken for device in container]
        more = sum(d.memory for d in devices) + memory, sum(d.cores for d in devices) + cores
        return all(
            limit is None or used + wanted <= limit
            for limit, used, wanted in zip(self.limits, self.used, more, strict=True)
        )


def limits_of(
    quotas: Sequence[Obj], namespace: str, memory: str, cores: str, factor: int
) -> tuple[int | None, int | None]:
    """The limits that a namespace sets; of several the last one counts."""
    found: dict[str, int] = {}
    for quota in quotas:
        if quota["metadata"]["namespace"] == namespace:
            hard = quota["spec"].get("hard") or {}
            found |= {name: amount for name, text in hard.items() if (amount := exact(str(text))) is not None}
    units = found.get(f"limits.{memory}")
    return None if units is None else units * factor, found.get(f"limits.{cores}")
