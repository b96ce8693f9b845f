"""Comparison of two policies: what would become of the pending pods with each of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import yaml

from vgpu_scheduler.kube import LAST_APPLIED, Object
from vgpu_scheduler.model import did_you_mean, quoted
from vgpu_scheduler.policy import GROUP, POLICY_KINDS, VERSION, decode_policy, title
from vgpu_scheduler.reading import (
    ClusterView,
    SimulatedPods,
    answers_to,
    keep_room,
    make_world,
    objects_of_text,
    policies_among,
)
from vgpu_scheduler.ui.errors import BadQueryError, NotFoundError
from vgpu_scheduler.ui.pages.policies import PolicyRow, policy_rows
from vgpu_scheduler.ui.pages.what_if_page import bad_query_errors
from vgpu_scheduler.ui.query import Query
from vgpu_scheduler.ui.what_if_thread import until_too_long
from vgpu_scheduler.whatif import FileObject, PodResult, World, namespace_of

TEXTS: Final = ("edited",)
PARAMETERS: Final = ("compare", "with", *TEXTS)
_EDITED: Final = "the edited policy"
_LONG: Final = "use vgpu-scheduler simulate --pending -A --policy"
_MADE_BY_SERVER: Final = frozenset({"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"})


@dataclass(frozen=True, slots=True)
class ComparisonQuery:
    """The policies to compare, each as ``kind/namespace/name``; empty for none.

    Attributes
    ----------
    one
        An existing policy.
    other
        Another existing policy.
    edited
        Its replacement, in YAML: an edited copy of the first policy, or any other.
    """

    one: str = ""
    other: str = ""
    edited: str = ""

    @classmethod
    def of(cls, query: Query) -> ComparisonQuery:
        """Read the question from an address or a form.

        Raises
        ------
        BadQueryError
            If the parameters do not name two policies.
        """
        found = cls(query.get("compare"), query.get("with"), query.get("edited"))
        for name, value in (("with", found.other), ("edited", found.edited)):
            if value and not found.one:
                raise BadQueryError(f"{name}: there is no other policy to compare it with")
        if found.other and found.edited:
            raise BadQueryError("with: a policy is compared either with another policy or with an edited one")
        if found.one and found.one == found.other:
            raise BadQueryError("with: name another policy")
        return found

    @property
    def something(self) -> bool:
        """Whether two policies are compared."""
        return bool(self.other or self.edited)


@dataclass(frozen=True, slots=True)
class ComparedResult:
    """What would become of a pod with each policy; None if the pod would not be pending with that policy."""

    pod: str
    one: PodResult | None
    other: PodResult | None

    @property
    def differs(self) -> bool:
        """Whether the two answers differ."""
        return _visible_answer(self.one) != _visible_answer(self.other)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two policies, and the answers for the pending pods.

    Attributes
    ----------
    of
        The names of the two policies.
    answers
        The answers with each of them.
    said
        Notes to show beside the answers.
    """

    of: tuple[str, str]
    answers: tuple[Sequence[PodResult], Sequence[PodResult]]
    said: Sequence[str]

    @property
    def outcomes(self) -> list[ComparedResult]:
        """The answers for each pod, with pods whose answers differ first."""
        one, other = ({answer.pod.key: answer for answer in answers} for answers in self.answers)
        found = [ComparedResult(key, one.get(key), other.get(key)) for key in {**one, **other}]
        return sorted(found, key=lambda outcome: not outcome.differs)

    @property
    def placed(self) -> list[int]:
        """How many pods would be placed with each policy."""
        return [sum(bool(answer.node) for answer in answers) for answers in self.answers]

    def as_json(self) -> dict[str, Any]:
        """Return the comparison as plain values, with answers as in ``simulate -o json``."""
        return {
            "of": list(self.of),
            "answers": [[answer.as_json() for answer in answers] for answers in self.answers],
            "differ": [outcome.pod for outcome in self.outcomes if outcome.differs],
        }


@dataclass(frozen=True, slots=True)
class PoliciesPage:
    """The content of the policies page.

    Attributes
    ----------
    now
        The time of the cluster's state; None if it is not known.
    compared
        The policies to compare.
    text
        The first policy in YAML, to edit; empty if none is named.
    comparison
        The result of the comparison; None if nothing is compared.
    """

    rows: Sequence[PolicyRow]
    now: datetime | None
    compared: ComparisonQuery
    text: str = ""
    comparison: Comparison | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the page as plain values."""
        found: dict[str, Any] = {"policies": [row.as_json() for row in self.rows]}
        return found if self.comparison is None else {**found, "compared": self.comparison.as_json()}


def policies_page(world: World, view: ClusterView, compared: ComparisonQuery) -> PoliciesPage:
    """Return the policies, and the comparison if one is requested.

    Raises
    ------
    BadQueryError
        If the edited policy cannot be understood.
    NotFoundError
        If a policy does not exist.
    HttpStatusError
        If the comparison takes too long.
    """
    rows = policy_rows(world, view.scheduler.options.scheduler_names)
    page = PoliciesPage(rows, view.read_at, compared)
    if not compared.one:
        return page
    one = _find(world, rows, "compare", compared.one)
    page = replace(page, text=compared.edited or _text(world.policies[one]))
    if not compared.something:
        return page
    said: dict[str, None] = {}
    with bad_query_errors():
        if compared.other:
            other, more = _find(world, rows, "with", compared.other), list[FileObject]()
        else:
            other, more = _edited(compared.edited, world.policies[one])
        check = until_too_long(_LONG)

        def answers(gone: Collection[str], more: Sequence[FileObject]) -> list[PodResult]:
            tried = replace(view, objects=[*(obj for obj in view.objects if _title(obj) not in gone), *more])
            found = make_world(tried)
            keep_room(found, tried)
            asked = SimulatedPods(pending=True, every=True)
            return answers_to(found, tried, asked, lambda text: said.update({text: None}), on_answer=check)

        with_one = answers([other] if compared.other else [], [])
        with_other = answers([one] if compared.other else [one, other], more)
    called = f"{other}, as edited" if other == one else other
    return replace(page, comparison=Comparison((one, called), (with_one, with_other), list(said)))


def _find(world: World, rows: Sequence[PolicyRow], parameter: str, ref: str) -> str:
    """Return the title of the policy that an address names."""
    found = next((row.title for row in rows if row.ref == ref), "")
    if found not in world.policies:
        hint = did_you_mean(ref, [row.ref for row in rows])
        raise NotFoundError(f"{parameter}: there is no policy {quoted(ref)}{hint}")
    return found


def _edited(text: str, first: Object) -> tuple[str, list[FileObject]]:
    """Parse an edited policy; return it and its title. Its namespace defaults to that of the first policy."""
    home = namespace_of(first.get("metadata") or {})
    found = policies_among(objects_of_text(text, _EDITED), _EDITED, home)
    if len(found) > 1:
        raise BadQueryError(f"{_EDITED}: it contains {len(found)} policies; give one")
    policy = decode_policy(found[0])
    if policy.error:
        raise BadQueryError(f"{_EDITED}: {title(policy)}: {policy.error}")
    return title(policy), found


def _title(obj: Object) -> str:
    return title(decode_policy(obj)) if obj.get("kind") in POLICY_KINDS else ""


def _text(written: Object) -> str:
    """Return a policy in YAML without the fields that the API server sets."""
    metadata = {name: value for name, value in (written.get("metadata") or {}).items() if name not in _MADE_BY_SERVER}
    annotations = {
        name: text for name, text in (metadata.pop("annotations", None) or {}).items() if name != LAST_APPLIED
    }
    metadata |= {"annotations": annotations} if annotations else {}
    api_version = f"{GROUP}/{VERSION}"
    policy = {"apiVersion": api_version, "kind": written["kind"], "metadata": metadata, "spec": written.get("spec")}
    return yaml.safe_dump(policy, sort_keys=False)


def _visible_answer(answer: PodResult | None) -> tuple[Any, ...]:
    """Return the visible parts of an answer."""
    return () if answer is None else (answer.outcome, answer.node, answer.cards, answer.decision.message)
