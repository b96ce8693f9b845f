"""The admission webhook, through a kopf operator of its own.

kopf serves it: it looks the resource up, calls the handler, and makes a JSON patch of what that changed. It answers as
soon as it has discovered pods, on every replica. Certificates come from files, which are read again when
they change: kopf then opens its port anew, so that for a moment nobody answers, which the webhook's configuration
(``failurePolicy: Ignore``) turns into pods that are let in as they are.

Whatever goes wrong in here lets the pod in: nothing depends on the webhook.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kopf

from vgpu_scheduler.admission import AdmissionRules, Verdict, review
from vgpu_scheduler.apiclient import Credentials
from vgpu_scheduler.intake.supervised import SupervisedKopf
from vgpu_scheduler.model import PodClaims

log = logging.getLogger(__name__)

PATH = "webhook"
"""Where the API server asks, as HAMi's webhook is asked."""


@dataclass(frozen=True, slots=True)
class AdmissionEndpoint:
    """Where the webhook listens.

    Attributes
    ----------
    port
        The port, on all interfaces.
    cert_file, key_file
        Its certificate and key.
    ca_file
        Who asks must have a certificate of this authority; None lets anybody ask.
    reload_interval
        Seconds between two looks at the files.
    """

    port: int
    cert_file: Path
    key_file: Path
    ca_file: Path | None = None
    reload_interval: float = 10.0


@dataclass(slots=True)
class AdmissionStats:
    """How often what came out."""

    results: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("unchanged", "changed", "denied", "failed"), 0)
    )


def _is_no_refusal(record: logging.LogRecord) -> bool:
    """Tell whether a record is another than kopf's error for a pod that is not let in, which is an answer."""
    return not record.getMessage().startswith(f"Webhook {PATH!r} failed permanently")


class AdmissionServer(SupervisedKopf):
    """Serves the webhook.

    Parameters
    ----------
    credentials
        How the API server is reached, to discover what pods are.
    endpoint
        Where it listens.
    rules
        What is done to pods.
    over_quota
        Tells whether claims go beyond what is left to a namespace.
    after_spawn, restarted
        See :class:`SupervisedKopf`.
    """

    def __init__(
        self,
        credentials: Credentials,
        endpoint: AdmissionEndpoint,
        rules: AdmissionRules,
        over_quota: Callable[[str, PodClaims], bool],
        *,
        after_spawn: Callable[[], None],
        restarted: Callable[[], None],
    ) -> None:
        super().__init__(
            credentials, "admission", lost_track=lambda: None, after_spawn=after_spawn, restarted=restarted
        )
        self._endpoint = endpoint
        self._rules = rules
        self._over_quota = over_quota
        self.stats = AdmissionStats()
        logging.getLogger("kopf.objects").addFilter(_is_no_refusal)

    def _configure(self, settings: kopf.OperatorSettings) -> None:
        settings.scanning.disabled = True  # pods are always there: nothing that comes and goes has to be watched
        endpoint = self._endpoint
        verify: dict[str, Any] = {}
        if endpoint.ca_file is not None:
            verify = {"verify_mode": ssl.CERT_REQUIRED, "verify_cafile": str(endpoint.ca_file)}
        settings.admission.server = kopf.WebhookServer(
            port=endpoint.port,
            certfile=str(endpoint.cert_file),
            pkeyfile=str(endpoint.key_file),
            cafile=str(endpoint.ca_file) if endpoint.ca_file else None,  # only to notice that it changed
            file_check_interval=endpoint.reload_interval,
            **verify,
        )

    def _register(self, registry: kopf.OperatorRegistry) -> None:
        @kopf.on.mutate("", "v1", "pods", operations={"CREATE"}, id=PATH, registry=registry)
        async def pod_created(
            body: kopf.Body, namespace: str | None, patch: kopf.Patch, warnings: list[str], **_: Any
        ) -> None:
            verdict = self._review(dict(body), namespace or "")
            warnings += verdict.warnings
            if verdict.pod is None:
                raise kopf.AdmissionError(verdict.message, code=verdict.code)
            if verdict.changed:
                completed: Any = verdict.pod
                patch.fns.append(lambda stored: stored.update(completed))

    def _review(self, pod: dict[str, Any], namespace: str) -> Verdict:
        try:
            verdict = review(pod, namespace, self._rules, self._over_quota)
        except Exception:  # a mistake in here must keep nobody from creating pods
            log.exception("a pod in namespace %s could not be reviewed", namespace)
            self.stats.results["failed"] += 1
            return Verdict(pod)
        if verdict.pod is None:
            log.info("a pod in namespace %s is not let in: %s", namespace, verdict.message)
        result = "denied" if verdict.pod is None else "changed" if verdict.changed else "unchanged"
        self.stats.results[result] += 1
        return verdict
