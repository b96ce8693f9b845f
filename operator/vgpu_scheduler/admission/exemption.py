"""Which pods the API server does not send to the webhook, according to the webhook's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_LABEL: Final = "hami.io/webhook"
_IGNORED: Final = "ignore"
_SYSTEM: Final = "kube-system"


def is_exempt(
    pod_labels: Mapping[str, object], namespace_labels: Mapping[str, object], namespace: str, home: str
) -> bool:
    """Tell whether the webhook is not called for a pod.

    Its configuration (``manifests/admission-webhook/webhook.yaml``) excludes pods and namespaces with HAMi's label for
    that purpose, ``kube-system``, and the operator's own namespace.

    Parameters
    ----------
    namespace
        The namespace of the pod.
    home
        The operator's own namespace.
    """
    return namespace in {_SYSTEM, home} or _IGNORED in (pod_labels.get(_LABEL), namespace_labels.get(_LABEL))
