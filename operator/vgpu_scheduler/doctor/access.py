"""Who may do what: questions to the authorizer, and the answers that RBAC would give."""

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
        """What the API server calls it."""
        return f"{_ACCOUNT}:{self.namespace}:{self.name}"

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that it is in."""
        return (f"{_ACCOUNT}s", f"{_ACCOUNT}s:{self.namespace}", "system:authenticated")


@dataclass(frozen=True, slots=True)
class Question:
    """Whether an account may do something.

    Attributes
    ----------
    group, resource, subresource
        To what; the group of the core API is empty.
    namespace
        Where; empty for everywhere.
    name
        The one object that it is about; empty for all.
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
        """What is asked, as the ``resourceAttributes`` of a SubjectAccessReview."""
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
        """The right in the words of kubectl."""
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        whole = f"{resource}/{self.subresource}" if self.subresource else resource
        named = f" {self.name}" if self.name else ""
        return f"{self.verb} {whole}{named}" + (f" in namespace {self.namespace}" if self.namespace else "")


class Rights(Protocol):
    """Answers such questions."""

    def allows(self, question: Question) -> bool:
        """Tell whether the account has a right."""


@dataclass(frozen=True, slots=True)
class AccessReviews:
    """What the API server's authorizer answered; what it was not asked is not allowed."""

    answers: Mapping[Question, bool]

    def allows(self, question: Question) -> bool:
        """Tell whether the account has a right."""
        return self.answers.get(question, False)


@dataclass(frozen=True, slots=True)
class Rbac:
    """What roles and their bindings allow; other authorizers of the API server may allow more."""

    cluster_roles: tuple[Role, ...] = ()
    cluster_bindings: tuple[RoleBinding, ...] = ()
    roles: tuple[Role, ...] = ()
    bindings: tuple[RoleBinding, ...] = ()

    def allows(self, question: Question) -> bool:
        """Tell whether the account has a right."""
        return any(_covers(rule, question) for rule in self._rules(question))

    def _rules(self, question: Question) -> Iterator[Rule]:
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


def _covers(rule: Rule, asked: Question) -> bool:
    resource = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    resources = {"*", resource} | ({f"*/{asked.subresource}"} if asked.subresource else set())
    return (
        not {"*", asked.verb}.isdisjoint(rule.verbs)
        and not {"*", asked.group}.isdisjoint(rule.api_groups)
        and not resources.isdisjoint(rule.resources)
        and (not rule.resource_names or asked.name in rule.resource_names)
    )
