"""Access and identity reviews: every request is allowed, as the kubeconfig's developer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .resources import Resource
from .store import encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from .objects import Target

Object = dict[str, Any]

USER = "developer"
_AUTHORIZATION, _AUTHENTICATION = "authorization.k8s.io", "authentication.k8s.io"
_ALL = ["*"]


def _allowed() -> Object:
    return {"allowed": True}


def _rules() -> Object:
    resources = [{"verbs": _ALL, "apiGroups": _ALL, "resources": _ALL}]
    return {
        "resourceRules": resources,
        "nonResourceRules": [{"verbs": _ALL, "nonResourceURLs": _ALL}],
        "incomplete": False,
    }


def _user() -> Object:
    return {"userInfo": {"username": USER, "groups": ["system:masters", "system:authenticated"]}}


_STATUS: dict[str, Callable[[], Object]] = {
    "SelfSubjectAccessReview": _allowed,
    "SubjectAccessReview": _allowed,
    "SelfSubjectRulesReview": _rules,
    "SelfSubjectReview": _user,
}
REVIEWS = tuple(
    Resource(
        group=_AUTHENTICATION if kind == "SelfSubjectReview" else _AUTHORIZATION,
        plural=f"{kind.lower()}s",
        kind=kind,
        namespaced=False,
        verbs=("create",),
    )
    for kind in _STATUS
)


def answer(target: Target, review: Object) -> tuple[int, bytes]:
    """Return a review with its answer; nothing is stored."""
    resource = target.resource
    head = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": {}}
    return 201, encode({**head, "spec": review.get("spec") or {}, "status": _STATUS[resource.kind]()})
