"""Makes the admission webhook from settings."""

from __future__ import annotations

from collections.abc import Callable

from vgpu_scheduler.admission import AdmissionRules
from vgpu_scheduler.apiclient import Credentials
from vgpu_scheduler.engine import Engine
from vgpu_scheduler.intake.admission import AdmissionEndpoint, AdmissionServer
from vgpu_scheduler.settings import Settings
from vgpu_scheduler.telemetry import Metrics, catalogue


def admission_server(
    settings: Settings,
    credentials: Credentials,
    engine: Engine,
    metrics: Metrics,
    after_spawn: Callable[[], None],
    restarted: Callable[[], None],
) -> AdmissionServer | None:
    """Return the server of the admission webhook, and register its metric; None if the webhook is off."""
    chosen = settings.admission
    if not chosen.enabled:
        return None
    assert chosen.cert_file is not None
    assert chosen.key_file is not None
    server = AdmissionServer(
        credentials,
        AdmissionEndpoint(chosen.port, chosen.cert_file, chosen.key_file, chosen.ca_file, chosen.reload_interval),
        AdmissionRules(
            engine.dialects,
            settings.scheduler_names,
            chosen.overwrite_default_scheduler,
            engine.policies.claim_defaults,
            engine.request_warnings_of,
            engine.request_warnings.of_misspelt_resources,
        ),
        lambda namespace, claims: engine.quota_limits.exceeded_by(namespace, claims, engine.state),
        after_spawn=after_spawn,
        restarted=restarted,
    )
    metrics.add(
        catalogue.ADMISSION_REVIEWS,
        lambda: [({"result": result}, float(count)) for result, count in server.stats.results.items()],
    )
    return server
