"""Access questions, and their answers from the API server's authorizer or from RBAC objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from vgpu_scheduler.doctor.objects import Role, RoleBinding, Rule, Subject

_ACCOUNT = "system:serviceaccount"


@dataclass(frozen=True, slots=True)
class Account:
    """A service account."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def user(self) -> str:
        """Its user name on the API server."""
        return f"{_ACCOUNT}:{self.namespace}:{self.name}"

    @property
    def groups(self) -> tuple[str, ...]:
        """Its groups."""
        return (f"{_ACCOUNT}s", f"{_ACCOUNT}s:{self.namespace}", "system:authenticated")


@dataclass(frozen=True, slots=True)
class AccessQuestion:
    """The question whether an account may do something.

    Attributes
    ----------
    group, resource, subresource
        The resource in question; the core group is empty.
    namespace
        The namespace; empty for all namespaces.
    name
        The name of a single object; empty for all objects.
    """

    account: Account
    verb: str
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def attributes(self) -> dict[str, str]:
        """The question as ``resourceAttributes`` of a SubjectAccessReview."""
        return {
            "verb": self.verb,
            "group": self.group,
            "resource": self.resource,
            "subresource": self.subresource,
            "namespace": self.namespace,
            "name": self.name,
        }

    @property
    def right(self) -> str:
        """The right in kubectl's words."""
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        whole = f"{resource}/{self.subresource}" if self.subresource else resource
        named = f" {self.name}" if self.name else ""
        return f"{self.verb} {whole}{named}" + (f" in namespace {self.namespace}" if self.namespace else "")


class Rights(Protocol):
    """Answers access questions."""

    def allows(self, question: AccessQuestion) -> bool:
        """Tell whether the account has a right."""


@dataclass(frozen=True, slots=True)
class AccessReviews:
    """Answers of the API server's authorizer; questions without an answer are denied."""

    answers: Mapping[AccessQuestion, bool]

    def allows(self, question: AccessQuestion) -> bool:
        """Tell whether the account has a right."""
        return self.answers.get(question, False)


@dataclass(frozen=True, slots=True)
class Rbac:
    """Answers from roles and bindings; other authorizers of the API server may allow more."""

    cluster_roles: tuple[Role, ...] = ()
    cluster_bindings: tuple[RoleBinding, ...] = ()
    roles: tuple[Role, ...] = ()
    bindings: tuple[RoleBinding, ...] = ()

    def allows(self, question: AccessQuestion) -> bool:
        """Tell whether the account has a right."""
        return any(_covers(rule, question) for rule in self._rules(question))

    def _rules(self, question: AccessQuestion) -> Iterator[Rule]:
        by_name = {role.metadata.name: role.rules for role in self.cluster_roles}
        for binding in _about(self.cluster_bindings, question.account):
            yield from by_name.get(binding.role_ref.name, ())
        here = {r.metadata.name: r.rules for r in self.roles if r.metadata.namespace == question.namespace}
        for binding in _about(self.bindings, question.account):
            if question.namespace and binding.metadata.namespace == question.namespace:
                named = by_name if binding.role_ref.kind == "ClusterRole" else here
                yield from named.get(binding.role_ref.name, ())


def _about(bindings: Iterable[RoleBinding], account: Account) -> Iterator[RoleBinding]:
    return (b for b in bindings if any(_is(subject, account, b.metadata.namespace) for subject in b.subjects))


def _is(subject: Subject, account: Account, namespace: str) -> bool:
    if subject.kind == "ServiceAccount":
        return (subject.namespace or namespace, subject.name) == (account.namespace, account.name)
    if subject.kind == "Group":
        return subject.name in account.groups
    return subject.kind == "User" and subject.name == account.user


def _covers(rule: Rule, asked: AccessQuestion) -> bool:
    resource = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    resources = {"*", resource} | ({f"*/{asked.subresource}"} if asked.subresource else set())
    return (
        not {"*", asked.verb}.isdisjoint(rule.verbs)
        and not {"*", asked.group}.isdisjoint(rule.api_groups)
        and not resources.isdisjoint(rule.resources)
        and (not rule.resource_names or asked.name in rule.resource_names)
    )
