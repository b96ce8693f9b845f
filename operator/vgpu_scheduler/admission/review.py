"""The review of one pod, in the order of HAMi's webhook."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from vgpu_scheduler.admission.completion import CONTAINER_FIELDS, completed_containers
from vgpu_scheduler.dialects import ClaimError, Dialects, Refusal
from vgpu_scheduler.kube import DecodeError, Pod, decode_pod
from vgpu_scheduler.model import NO_DEFAULTS, ClaimDefaults, PodClaims

DEFAULT_SCHEDULER = "default-scheduler"

_UNTOUCHED = "pod already has different scheduler assigned"

OverQuota = Callable[[str, PodClaims], bool]
"""Tells whether claims go beyond what is left to a namespace."""
DefaultsOf = Callable[[Pod], ClaimDefaults | None]
"""What policies add to the claims of a pod; None where it is not known yet."""

UsageWarningsOf = Callable[[Pod], Iterable[str]]
"""Says what of a pod is refused later, or followed otherwise than it looks."""


def no_quota(namespace: str, claims: PodClaims) -> bool:
    """Return no refusal: used where no quotas are known."""
    del namespace, claims
    return False


def no_defaults(pod: Pod) -> ClaimDefaults:
    """Return that no policy says anything."""
    del pod
    return NO_DEFAULTS


def no_usage_warnings(pod: Pod) -> tuple[str, ...]:
    """Return nothing: nobody looks."""
    del pod
    return ()


@dataclass(frozen=True, slots=True)
class AdmissionRules:
    """What is done to pods.

    Attributes
    ----------
    dialects
        What pods may ask for.
    scheduler_names
        The schedulers whose pods are completed; the first is written into pods that ask for cards. With none of them
        no name is written, and only pods without a name, or with that of the default scheduler, are completed.
    overwrite_default
        Whether pods that name the default scheduler are ours. The API server writes that name into all that name none,
        so without this nearly all pods are somebody else's.
    defaults
        What policies add to claims: nothing is written into a pod that would overrule it.
    usage_warnings_of
        What the creator of a pod that asks for devices should know.
    """

    dialects: Dialects
    scheduler_names: tuple[str, ...]
    overwrite_default: bool = True
    defaults: DefaultsOf = no_defaults
    usage_warnings_of: UsageWarningsOf = no_usage_warnings

    def ours(self, name: str) -> bool:
        """Tell whether pods with this scheduler name are ours, or become ours at admission."""
        return not name or name in self.scheduler_names or (name == DEFAULT_SCHEDULER and self.overwrite_default)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a pod.

    Attributes
    ----------
    pod
        The pod as it should be stored; None if it is not let in.
    changed
        Whether that is another than it was.
    message
        Why it is not let in, or was not touched.
    code
        The HTTP status that goes with a refusal.
    warnings
        What its creator should know.
    """

    pod: Mapping[str, Any] | None
    changed: bool = False
    message: str = ""
    code: int = 200
    warnings: tuple[str, ...] = ()

    @property
    def allowed(self) -> bool:
        """Whether the pod is let in."""
        return self.pod is not None


def review(pod: Mapping[str, Any], namespace: str, rules: AdmissionRules, over_quota: OverQuota = no_quota) -> Verdict:
    """Review a pod that is being created.

    * It must have containers.
    * One that names another scheduler is let in as it is.
    * The rules of its dialect complete each container, or refuse it; those of all dialects one that asks for nothing.
    * One that asks for cards must have no privileged container and no node yet, and gets the scheduler's name.
    * What it asks for must be within the namespace's quotas; what is asked in percent counts as nothing here.

    A pod that cannot be read is let in as it is: the API server or the scheduler will say what is wrong with it.

    Parameters
    ----------
    pod
        As the API server sends it; it is not changed.
    namespace
        Where it is created; the pod itself may not say.
    rules
        What is done.
    over_quota
        Tells whether claims go beyond what is left to a namespace.
    """
    spec = pod.get("spec")
    if isinstance(spec, Mapping) and not spec.get("containers"):
        return Verdict(None, message="pod has no containers", code=HTTPStatus.FORBIDDEN)
    try:
        return _review(pod, namespace, _decoded(pod, namespace), rules, over_quota)
    except DecodeError as error:
        return Verdict(pod, warnings=(f"not looked at by vgpu-scheduler: {error}",))
    except Refusal as refusal:
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
                raise Refusal("pod has node assigned", HTTPStatus.FORBIDDEN)
    warnings: tuple[str, ...] = ()
    asked = decoded
    try:
        asked = _decoded(completed, namespace)
        over = over_quota(namespace, rules.dialects.of_waiting(asked).claims.read(asked, defaults or NO_DEFAULTS))
    except (ClaimError, DecodeError) as error:
        warnings = (str(error),)  # the scheduler refuses it with the same words
    else:
        if over:
            raise Refusal("exceeding resource quota", HTTPStatus.FORBIDDEN)
    if asks:
        warnings = tuple(dict.fromkeys((*warnings, *rules.usage_warnings_of(asked))))
    return Verdict(completed, changed=completed != pod, warnings=warnings)


def _check_asking(pod: Mapping[str, Any]) -> None:
    """Refuse cards to pods whose containers could take any card of the node anyway."""
    for container in (each for field in CONTAINER_FIELDS for each in pod["spec"].get(field) or ()):
        context = container.get("securityContext")
        if isinstance(context, Mapping) and context.get("privileged"):
            raise Refusal(f"container {container.get('name')} is privileged", HTTPStatus.FORBIDDEN)


def _decoded(pod: Mapping[str, Any], namespace: str) -> Pod:
    """Read a pod that may have neither a name nor a namespace yet."""
    metadata = pod.get("metadata")
    if isinstance(metadata, Mapping):
        named = metadata.get("name") or metadata.get("generateName") or ""
        pod = {**pod, "metadata": {**metadata, "name": named, "namespace": namespace}}
    return decode_pod(pod)
