"""The pods about which the API server does not ask the webhook, as its configuration says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["is_exempt"]

_LABEL: Final = "hami.io/webhook"
_IGNORED: Final = "ignore"
_SYSTEM: Final = "kube-system"


def is_exempt(
    pod_labels: Mapping[str, object], namespace_labels: Mapping[str, object], namespace: str, home: str
) -> bool:
    """Tell whether the webhook is not asked about a pod.

    Its configuration (``manifests/admission-webhook/webhook.yaml``) leaves out pods and namespaces with the label that
    HAMi has for that, ``kube-system``, and the operator's own namespace.

    Parameters
    ----------
    namespace
        Where the pod is created.
    home
        The operator's own namespace.
    """
    return namespace in {_SYSTEM, home} or _IGNORED in (pod_labels.get(_LABEL), namespace_labels.get(_LABEL))
