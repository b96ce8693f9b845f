"""The review of a new pod, in the order of HAMi's webhook."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from vgpu_scheduler.admission.completion import completed_containers
from vgpu_scheduler.dialects import AdmissionDenied, ClaimError, Dialects
from vgpu_scheduler.kube import CONTAINER_FIELDS, DecodeError, Pod, decode_pod
from vgpu_scheduler.model import NO_DEFAULTS, ClaimDefaults, PodClaims

DEFAULT_SCHEDULER = "default-scheduler"

_UNTOUCHED = "pod already has different scheduler assigned"
_OVER_QUOTA = "exceeding resource quota"

OverQuota = Callable[[str, PodClaims], str | None]
"""Returns which quotas of a namespace claims exceed, empty if that is not known; None if they exceed none."""
DefaultsOf = Callable[[Pod], ClaimDefaults | None]
"""Returns what policies add to a pod's claims; None if it is not known yet."""

RequestWarningsOf = Callable[[Pod], Iterable[str]]
"""Returns warnings about parts of a pod that will be refused later or do not mean what they seem to."""


def no_quota(namespace: str, claims: PodClaims) -> None:
    """Refuse nothing; for callers that know no quotas."""
    del namespace, claims


def no_defaults(pod: Pod) -> ClaimDefaults:
    """Return no defaults; for callers that know no policies."""
    del pod
    return NO_DEFAULTS


def no_request_warnings(pod: Pod) -> tuple[str, ...]:
    """Return no warnings; for callers that do not check."""
    del pod
    return ()


@dataclass(frozen=True, slots=True)
class AdmissionRules:
    """The rules of the review.

    Attributes
    ----------
    dialects
        The dialects of the claims in pods.
    scheduler_names
        The schedulers whose pods are completed; the first is written into pods that ask for cards. If empty, no name
        is written, and only pods without a name, or with that of the default scheduler, are completed.
    overwrite_default
        Whether pods that name the default scheduler are ours. The API server writes that name into every pod without
        one, so without this nearly all pods belong to another scheduler.
    defaults
        What policies add to claims; the review writes nothing into a pod that would override it.
    request_warnings_of
        Warnings for the creator of a pod that asks for devices.
    misspelt_of
        Warnings for the creator of another pod, which may ask for devices by a wrong name.
    """

    dialects: Dialects
    scheduler_names: tuple[str, ...]
    overwrite_default: bool = True
    defaults: DefaultsOf = no_defaults
    request_warnings_of: RequestWarningsOf = no_request_warnings
    misspelt_of: RequestWarningsOf = no_request_warnings

    def ours(self, name: str) -> bool:
        """Tell whether pods with this scheduler name are ours, or become ours at admission."""
        return not name or name in self.scheduler_names or (name == DEFAULT_SCHEDULER and self.overwrite_default)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a review.

    Attributes
    ----------
    pod
        The pod to store; None if the pod is denied.
    changed
        Whether the pod differs from the one reviewed.
    message
        Why the pod is denied or left unchanged.
    code
        The HTTP status of a denial.
    warnings
        Warnings for the pod's creator.
    """

    pod: Mapping[str, Any] | None
    changed: bool = False
    message: str = ""
    code: int = 200
    warnings: tuple[str, ...] = ()

    @property
    def allowed(self) -> bool:
        """Whether the pod is admitted."""
        return self.pod is not None


def review(pod: Mapping[str, Any], namespace: str, rules: AdmissionRules, over_quota: OverQuota = no_quota) -> Verdict:
    """Review a pod that is being created.

    * It must have containers.
    * A pod that names another scheduler is admitted unchanged.
    * The pod's dialect completes or refuses each container; if no container asks for devices, all dialects do.
    * A pod that asks for cards must have no privileged container and no node yet, and gets the scheduler's name.
    * Its claims must be within the namespace's quotas; claims in percent count as nothing here.

    A pod that cannot be decoded is admitted unchanged: the API server or the scheduler will report the error.

    Parameters
    ----------
    pod
        The pod as the API server sends it; it is not modified.
    namespace
        The namespace of the request; the pod itself may lack it.
    rules
        The rules to apply.
    over_quota
        Returns which quotas of a namespace claims exceed.
    """
    spec = pod.get("spec")
    if isinstance(spec, Mapping) and not spec.get("containers"):
        return Verdict(None, message="pod has no containers", code=HTTPStatus.FORBIDDEN)
    try:
        return _review(pod, namespace, _decoded(pod, namespace), rules, over_quota)
    except DecodeError as error:
        return Verdict(pod, warnings=(f"not looked at by vgpu-scheduler: {error}",))
    except AdmissionDenied as refusal:
        return Verdict(None, message=refusal.message, code=refusal.code)


def _review(
    pod: Mapping[str, Any], namespace: str, decoded: Pod, rules: AdmissionRules, over_quota: OverQuota
) -> Verdict:
    spec = pod["spec"]
    name = spec.get("schedulerName") or ""
    if not rules.ours(name):
        return Verdict(pod, message=_UNTOUCHED)
    defaults = rules.defaults(decoded)
    completed, asks = completed_containers(pod, decoded, rules.dialects, defaults)
    if asks:
        _check_asking(completed)
        if rules.scheduler_names:
            if name not in rules.scheduler_names:
                completed["spec"]["schedulerName"] = rules.scheduler_names[0]
            if spec.get("nodeName"):
                raise AdmissionDenied("pod has node assigned", HTTPStatus.FORBIDDEN)
    warnings: tuple[str, ...] = ()
    asked = decoded
    try:
        asked = _decoded(completed, namespace)
        over = over_quota(namespace, rules.dialects.of_waiting(asked).claims.read(asked, defaults or NO_DEFAULTS))
    except (ClaimError, DecodeError) as error:
        warnings = (str(error),)  # the scheduler will refuse the pod with the same words
    else:
        if over is not None:
            raise AdmissionDenied(": ".join(filter(None, (_OVER_QUOTA, over))), HTTPStatus.FORBIDDEN)
    found = rules.request_warnings_of(asked) if asks else rules.misspelt_of(asked)
    warnings = tuple(dict.fromkeys((*warnings, *found)))
    return Verdict(completed, changed=completed != pod, warnings=warnings)


def _check_asking(pod: Mapping[str, Any]) -> None:
    """Refuse cards to pods with a privileged container, which could use any card of the node anyway."""
    for container in (each for field in CONTAINER_FIELDS for each in pod["spec"].get(field) or ()):
        context = container.get("securityContext")
        if isinstance(context, Mapping) and context.get("privileged"):
            raise AdmissionDenied(f"container {container.get('name')} is privileged", HTTPStatus.FORBIDDEN)


def _decoded(pod: Mapping[str, Any], namespace: str) -> Pod:
    """Decode a pod that may have neither a name nor a namespace yet."""
    metadata = pod.get("metadata")
    if isinstance(metadata, Mapping):
        named = metadata.get("name") or metadata.get("generateName") or ""
        pod = {**pod, "metadata": {**metadata, "name": named, "namespace": namespace}}
    return decode_pod(pod)
