"""Asks Prometheus once a minute at most what namespaces have held, while somebody looks at the answer."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from vgpu_scheduler.ui.polling import Poller
from vgpu_scheduler.whatif import HeldHours, InvalidObjectsError

log = logging.getLogger(__name__)

DAY: Final = 24 * 3600
"""The period of the usage query (seconds)."""
Ask = Callable[[int], Awaitable[Sequence[HeldHours]]]


@dataclass(frozen=True, slots=True)
class PrometheusReading:
    """An answer of Prometheus.

    Attributes
    ----------
    hours
        The usage by namespace and model.
    trouble
        Why there is no usage: an error, or no answer yet; empty if there is.
    pending
        Whether Prometheus is being queried for the first time.
    """

    hours: Sequence[HeldHours] = ()
    trouble: str = ""
    pending: bool = False


BEING_ASKED: Final = PrometheusReading(trouble="Prometheus is being queried", pending=True)


class PrometheusPoller(Poller[PrometheusReading]):
    """Holds the last answer of Prometheus.

    Parameters
    ----------
    ask
        Returns the usage of the given last seconds.
    tell
        Awaited when there is a new answer.
    """

    def __init__(self, ask: Ask, tell: Callable[[], Awaitable[None]]) -> None:
        super().__init__(self._asked, tell)
        self._ask = ask

    async def _asked(self) -> PrometheusReading:
        try:
            return PrometheusReading(await self._ask(DAY))
        except InvalidObjectsError as error:
            return PrometheusReading(trouble=str(error))
        except Exception:  # whatever fails, the page has more to show than this
            log.exception("Prometheus could not be queried")
            return PrometheusReading(trouble="Prometheus could not be queried; the log says why")
