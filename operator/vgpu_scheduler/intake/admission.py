"""The admission webhook, through a kopf operator of its own.

kopf serves it: kopf looks up the resource, calls the handler, and makes a JSON patch of the changes. Every replica
answers as soon as it has discovered the resource of pods. Certificates come from files. When the files change, kopf
reopens its port; the webhook is unavailable for a moment, and because of ``failurePolicy: Ignore`` pods are then
admitted unchanged. Any error in here admits the pod: scheduling does not depend on the webhook.
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
"""The path of the webhook, the same as that of HAMi's."""


@dataclass(frozen=True, slots=True)
class AdmissionEndpoint:
    """The port and certificates of the webhook.

    Attributes
    ----------
    port
        The port, on all interfaces.
    cert_file, key_file
        Its certificate and key.
    ca_file
        The authority that must have signed the callers' certificates; None accepts any caller.
    reload_interval
        Seconds between two checks whether the files changed.
    """

    port: int
    cert_file: Path
    key_file: Path
    ca_file: Path | None = None
    reload_interval: float = 10.0


@dataclass(slots=True)
class AdmissionStats:
    """Reviews by their result."""

    results: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("unchanged", "changed", "denied", "failed"), 0)
    )


def _is_no_refusal(record: logging.LogRecord) -> bool:
    """Filter out kopf's error record for a denied pod: a denial is a normal answer."""
    return not record.getMessage().startswith(f"Webhook {PATH!r} failed permanently")


class AdmissionServer(SupervisedKopf):
    """Serves the webhook.

    Parameters
    ----------
    credentials
        How to reach the API server, to discover the resource of pods.
    endpoint
        Where to listen.
    rules
        The rules of the review.
    over_quota
        Returns which quotas of a namespace claims exceed; see :data:`vgpu_scheduler.admission.review.OverQuota`.
    after_spawn, restarted
        See :class:`SupervisedKopf`.
    """

    def __init__(
        self,
        credentials: Credentials,
        endpoint: AdmissionEndpoint,
        rules: AdmissionRules,
        over_quota: Callable[[str, PodClaims], str | None],
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
        settings.scanning.disabled = True  # the resource of pods always exists: no need to watch for definitions
        endpoint = self._endpoint
        verify: dict[str, Any] = {}
        if endpoint.ca_file is not None:
            verify = {"verify_mode": ssl.CERT_REQUIRED, "verify_cafile": str(endpoint.ca_file)}
        settings.admission.server = kopf.WebhookServer(
            port=endpoint.port,
            certfile=str(endpoint.cert_file),
            pkeyfile=str(endpoint.key_file),
            cafile=str(endpoint.ca_file) if endpoint.ca_file else None,  # only so that its changes are noticed
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
        except Exception:  # an error in here must not keep anybody from creating pods
            log.exception("a pod in namespace %s could not be reviewed", namespace)
            self.stats.results["failed"] += 1
            return Verdict(pod)
        if verdict.pod is None:
            log.info("a pod in namespace %s is refused: %s", namespace, verdict.message)
        result = "denied" if verdict.pod is None else "changed" if verdict.changed else "unchanged"
        self.stats.results[result] += 1
        return verdict
