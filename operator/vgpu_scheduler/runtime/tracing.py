"""Traces of pods for an OpenTelemetry collector: the time of each step between a pod's arrival and its Binding."""

from __future__ import annotations

import asyncio
import platform
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from vgpu_scheduler import __version__
from vgpu_scheduler.apiclient import Clock, guarded_async, unix_ahead
from vgpu_scheduler.binding import BindingAnswer, BindTask
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.settings import SettingsError, TracingSettings

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

_PATH: Final = "/v1/traces"
"""The path of collectors (OTLP/HTTP) if the endpoint has no path."""
_TIMEOUT: Final = 2.0
"""Seconds that the collector may take for a batch; shutdown waits for the last batch."""
_NANO: Final = 1_000_000_000


class PodTraces:
    """Makes one trace for each attempt that sent a Binding, with a span for each step.

    Parameters
    ----------
    provider
        Where spans are sent.
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

    def record(self, task: BindTask, pod: Pod, answer: BindingAnswer) -> None:
        """Make the trace of an attempt; attribute names follow OpenTelemetry's semantic conventions for Kubernetes."""
        epoch = unix_ahead(self._clock)

        def at(moment: float) -> int:
            return int((epoch + moment) * _NANO)

        whole = self._tracer.start_span(
            "Schedule pod",
            start_time=at(task.queued_at),
            attributes={
                "k8s.namespace.name": pod.namespace,
                "k8s.pod.name": pod.name,
                "k8s.pod.uid": pod.uid,
                "k8s.node.name": task.chosen_node,
                "vgpu_scheduler.profile": pod.scheduler_name,
                "vgpu_scheduler.attempts": task.attempts,
                "vgpu_scheduler.answer": answer.value,
            },
        )
        if whole.is_recording():
            inside = self._inside(whole)
            for name, began, ended in (
                ("Wait in scheduling queue", task.queued_at, task.decided_at),
                ("Wait for turn at node", task.decided_at, task.lane_head_at),
                ("Take node lock", task.lane_head_at, task.sent_at),
                ("Send Binding", task.sent_at, task.ended_at),
            ):
                self._tracer.start_span(name, inside, start_time=at(began)).end(at(ended))
            if answer is not BindingAnswer.BOUND:
                whole.set_status(self._error, answer.value)
        whole.end(at(task.ended_at))

    @guarded_async
    async def close(self) -> None:
        """Send the remaining spans."""
        await asyncio.to_thread(self._provider.shutdown)


def pod_traces(settings: TracingSettings, clock: Clock) -> PodTraces | None:
    """Return the maker of traces; None if no endpoint is configured.

    Raises
    ------
    SettingsError
        If an endpoint is configured but the packages of the extra ``tracing`` are not installed.
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
