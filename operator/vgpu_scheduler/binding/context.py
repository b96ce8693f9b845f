"""The context that all parts of binding share, and the options of binds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, NamedTuple

from vgpu_scheduler.apiclient import ApiClient, ApiUnreachableError, Clock, pod_path
from vgpu_scheduler.binding.leased_writes import LeasedWriter
from vgpu_scheduler.binding.reporter import Reporter
from vgpu_scheduler.engine import Engine, ObservationSignals
from vgpu_scheduler.kube import Encoded


@dataclass(slots=True)
class BindStats:
    """What the binder has done, for metrics."""

    bound: int = 0
    failed: int = 0
    refitted: int = 0
    moved: int = 0
    expired: int = 0


@dataclass(frozen=True, slots=True)
class BinderOptions:
    """How binds are carried out.

    Attributes
    ----------
    timeout
        Seconds that the API server may take for a Binding; shorter than the lease, so that no write is late.
    node_side_timeout
        Seconds that a pod waits at its node: in its lane, for its lock, and for its device plugin's answer.
    poll_interval
        Seconds between two checks of a node without observations.
    volume_wait
        Seconds that a pod's volumes may take to be bound; its cards stay reserved meanwhile.
    max_unlocked_binds
        The number of concurrent binds that need no lock.
    label_first
        Write the label before the Binding: API servers before 1.35 ignore labels on Bindings.
    """

    timeout: float
    node_side_timeout: float
    poll_interval: float
    volume_wait: float
    max_unlocked_binds: int
    label_first: bool = False


class PodRead(NamedTuple):
    """The result of reading a pod: the pod, the fact that it is gone, or an error.

    Attributes
    ----------
    shown
        The current pod; None if it is gone or cannot be read.
    is_gone
        Whether there is no pod of that name.
    why
        Why the pod cannot be read; empty if there is no error.
    is_refused
        Whether the API server answered with an error; a list, which needs another right, may succeed.
    """

    shown: Encoded | None = None
    is_gone: bool = False
    why: str = ""
    is_refused: bool = False


GONE: Final = PodRead(is_gone=True)


@dataclass(frozen=True, slots=True)
class BindContext:
    """The context that all parts of binding share.

    Attributes
    ----------
    api, engine, reporter, clock
        The API client, the engine with its state, the writer of conditions and events, and the clock.
    may_write
        Tells whether the lease will still be held in so many seconds; called right before every write.
    observe
        Updates the state with an encoded object of a kind from an answer of the API server; never raises.
    signals
        Signals observed changes, and that pods are to be decided again.
    withdrawn
        Called with the UID of each pod whose decision is not carried out; never raises.
    """

    api: ApiClient
    engine: Engine
    reporter: Reporter
    clock: Clock
    may_write: Callable[[float], bool]
    observe: Callable[[str, Encoded], None]
    signals: ObservationSignals = field(default_factory=ObservationSignals)
    withdrawn: Callable[[str], None] = lambda _: None

    @property
    def writer(self) -> LeasedWriter:
        """What sends the writes of a leader."""
        return LeasedWriter(self.api, self.may_write)

    async def read_pod(self, namespace: str, name: str, seconds: float) -> PodRead:
        """Read a pod; the caller updates the state with the result.

        Parameters
        ----------
        seconds
            How long the API server may take.
        """
        try:
            response = await self.api.request("GET", pod_path(namespace, name), timeout=seconds)
        except ApiUnreachableError as error:
            return PodRead(why=str(error))
        if response.ok:
            return PodRead(response.body)
        if response.status == HTTPStatus.NOT_FOUND:
            return GONE
        return PodRead(why=f"pod {namespace}/{name}: {response.message}", is_refused=True)
