"""Traces of pods for an OpenTelemetry collector: where the time of each went, from its coming to its Binding."""

from __future__ import annotations

import asyncio
import platform
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from vgpu_scheduler import __version__
from vgpu_scheduler.apiclient import Clock
from vgpu_scheduler.binding import BindAttempt, BindingAnswer
from vgpu_scheduler.settings import SettingsError, TracingSettings
from vgpu_scheduler.telemetry import guarded_async

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

_PATH: Final = "/v1/traces"
"""Where collectors take traces, unless another path is written (OTLP/HTTP)."""
_TIMEOUT: Final = 2.0
"""Seconds that the collector may take for a batch: the end of the process waits for the last one."""
_NANO: Final = 1_000_000_000


class PodTraces:
    """Makes a trace of each attempt that went as far as a Binding, one span for each of its parts.

    Parameters
    ----------
    provider
        Where spans go.
    clock
        The clock of the attempts.
    """

    def __init__(self, provider: TracerProvider, clock: Clock) -> None:
        from opentelemetry.trace import StatusCode, set_span_in_context  # noqa: PLC0415 - an extra

        self._provider = provider
        self._tracer = provider.get_tracer("vgpu_scheduler", __version__)
        self._clock = clock
        self._inside = set_span_in_context
        self._error = StatusCode.ERROR

    def record(self, attempt: BindAttempt) -> None:
        """Make the trace of an attempt; names of attributes are OpenTelemetry's semantic conventions for Kubernetes."""
        epoch = self._clock.now().timestamp() - self._clock.monotonic()

        def at(moment: float) -> int:
            return int((epoch + moment) * _NANO)

        pod = attempt.pod
        whole = self._tracer.start_span(
            "Schedule pod",
            start_time=at(attempt.came),
            attributes={
                "k8s.namespace.name": pod.namespace,
                "k8s.pod.name": pod.name,
                "k8s.pod.uid": pod.uid,
                "k8s.node.name": attempt.node,
                "vgpu_scheduler.profile": pod.scheduler_name,
                "vgpu_scheduler.attempts": attempt.attempts,
                "vgpu_scheduler.answer": attempt.answer.value,
            },
        )
        if whole.is_recording():
            inside = self._inside(whole)
            for name, began, ended in (
                ("Wait in scheduling queue", attempt.came, attempt.decided),
                ("Wait for turn at node", attempt.decided, attempt.turn_at),
                ("Take node lock", attempt.turn_at, attempt.sent),
                ("Send Binding", attempt.sent, attempt.ended),
            ):
                self._tracer.start_span(name, inside, start_time=at(began)).end(at(ended))
            if attempt.answer is not BindingAnswer.BOUND:
                whole.set_status(self._error, attempt.answer.value)
        whole.end(at(attempt.ended))

    @guarded_async
    async def close(self) -> None:
        """Send what was not sent yet."""
        await asyncio.to_thread(self._provider.shutdown)


def pod_traces(settings: TracingSettings, clock: Clock) -> PodTraces | None:
    """Return what makes traces; None where none are wanted.

    Raises
    ------
    SettingsError
        If they are wanted, and the packages of the extra ``tracing`` are not there.
    """
    if not settings.endpoint:
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
        from opentelemetry.sdk.trace.sampling import TraceIdRatioBased  # noqa: PLC0415
    except ImportError as error:
        raise SettingsError(
            f"tracing.endpoint: traces need the extra vgpu-scheduler[tracing], which is not installed ({error})"
        ) from None
    endpoint = (
        settings.endpoint if urlsplit(settings.endpoint).path.strip("/") else settings.endpoint.rstrip("/") + _PATH
    )
    provider = TracerProvider(
        sampler=TraceIdRatioBased(settings.sampling_rate_per_million / 1_000_000),
        resource=Resource.create(
            {"service.name": "vgpu-scheduler", "service.version": __version__, "service.instance.id": platform.node()}
        ),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint, timeout=_TIMEOUT)))
    return PodTraces(provider, clock)
