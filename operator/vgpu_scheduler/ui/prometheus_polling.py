"""Has Prometheus say now and then what namespaces have held, while somebody looks at it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from vgpu_scheduler.ui.polling import Poller
from vgpu_scheduler.whatif import HeldHours, WorldError

log = logging.getLogger(__name__)

__all__ = ["BEING_ASKED", "DAY", "Ask", "PrometheusPoller", "PrometheusReading"]

DAY: Final = 24 * 3600
"""Seconds that are looked back."""
Ask = Callable[[int], Awaitable[Sequence[HeldHours]]]


@dataclass(frozen=True, slots=True)
class PrometheusReading:
    """What Prometheus has said.

    Attributes
    ----------
    hours
        By namespace and model.
    trouble
        Why it could not be asked, or that it has not been yet; empty where it has answered.
    pending
        Whether it is being asked for the first time.
    """

    hours: Sequence[HeldHours] = ()
    trouble: str = ""
    pending: bool = False


BEING_ASKED: Final = PrometheusReading(trouble="Prometheus is being asked", pending=True)


class PrometheusPoller(Poller[PrometheusReading]):
    """What Prometheus has said last.

    Parameters
    ----------
    ask
        Returns what was held in the last seconds.
    tell
        Is awaited when it has said something.
    """

    def __init__(self, ask: Ask, tell: Callable[[], Awaitable[None]]) -> None:
        super().__init__(self._asked, tell)
        self._ask = ask

    async def _asked(self) -> PrometheusReading:
        try:
            return PrometheusReading(await self._ask(DAY))
        except WorldError as error:
            return PrometheusReading(trouble=str(error))
        except Exception:  # whatever it is, the page has more to show than this
            log.exception("Prometheus could not be asked")
            return PrometheusReading(trouble="Prometheus could not be asked; the log says why")
