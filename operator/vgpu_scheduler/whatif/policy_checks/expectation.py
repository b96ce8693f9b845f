"""What a case expects of a pod, and how an answer differs from it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from vgpu_scheduler.model import Outcome, did_you_mean, quoted
from vgpu_scheduler.policy import SECTIONS, shown_sources
from vgpu_scheduler.whatif.policy_checks.forms import StrictForm
from vgpu_scheduler.whatif.world.simulation import PodResult

_PLACED: Final = Outcome.PLACED.value
_POD: Final = re.compile(r"([a-z0-9]([-a-z0-9]*[a-z0-9])?/)?[a-z0-9]([-.a-z0-9]*[a-z0-9])?")


def _texts(value: object) -> object:
    """Accept a single text in place of a list."""
    if not isinstance(value, str | list | tuple | None):
        raise ValueError(f"{quoted(value)} is neither a string nor a list of strings")  # noqa: TRY004 - pydantic expects ValueError
    return (value,) if isinstance(value, str) else value


def _pod(value: str) -> str:
    """Refuse a malformed pod name."""
    if not _POD.fullmatch(value):
        raise ValueError(f"{quoted(value)} does not name a pod: write NAME, or NAMESPACE/NAME")
    return value


def _each_once(value: tuple[str, ...]) -> tuple[str, ...]:
    twice = next((name for number, name in enumerate(value) if name in value[:number]), None)
    if twice is not None:
        raise ValueError(f"{twice} is listed twice")
    return value


Texts = Annotated[tuple[str, ...], BeforeValidator(_texts)]
PodName = Annotated[str, AfterValidator(_pod)]
PodNames = Annotated[tuple[PodName, ...], BeforeValidator(_texts), AfterValidator(_each_once)]


class Expectation(StrictForm):
    """What is expected of a pod; fields that are left out may have any value.

    Attributes
    ----------
    outcome
        ``placed``, ``unschedulable`` or ``refused``; ``placed`` by default, unless ``reason`` is given.
    node
        The node, or several acceptable ones.
    cards
        The cards, in any order.
    reason
        Texts that the message of a waiting pod contains.
    policy
        The source of each section of the effective policy; if it has several sources, any of them matches.
    annotations
        Annotations that are written on the pod for the node side.
    warning
        Texts that some warning about the pod contains.
    preempts
        The pod's victims, in any order, by name if they are in its namespace; no victims if empty.
    preempted_by
        The pod of a later step that preempts this one.
    """

    outcome: Literal["placed", "unschedulable", "refused"] | None = None
    node: Annotated[Texts, Field(min_length=1)] | None = None
    cards: Texts | None = None
    reason: Annotated[Texts, Field(min_length=1)] | None = None
    policy: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    warning: Texts = ()
    preempts: PodNames | None = None
    preempted_by: PodName | None = None

    @model_validator(mode="after")
    def _validate(self) -> Expectation:
        if not self.model_fields_set:
            names = [field.alias or name for name, field in type(self).model_fields.items()]
            raise ValueError(f"say at least one of {', '.join(names)}")
        for name in sorted(self.model_fields_set):
            if getattr(self, name) is None:
                raise ValueError(f"{name} is empty: leave it out, or set what is expected")
        for section in self.policy:
            if section not in SECTIONS:
                raise ValueError(f"policy: there is no section {section!r}{did_you_mean(section, SECTIONS)}")
        if self._waits and (self.node is not None or self.cards is not None):
            raise ValueError("a pod that waits has neither node nor cards")
        if self._waits and self.annotations:
            raise ValueError("nothing is written on a pod that waits")
        if self._waits and self.preempts:
            raise ValueError("preempts: no pod is evicted for a pod that waits")
        if self._waits and self.preempted_by is not None:
            raise ValueError("preemptedBy: a pod that waits cannot be evicted")
        if self.outcome == _PLACED and self.reason is not None:
            raise ValueError("a pod that is placed has no reason to wait")
        return self

    @property
    def _waits(self) -> bool:
        return self.reason is not None or self.outcome not in (None, _PLACED)

    def unknown_pods(self, namespace: str, running: Collection[str], later: Collection[str]) -> list[str]:
        """Return a message for each expected pod that does not exist, with the field.

        Parameters
        ----------
        namespace
            The namespace of the step's pod.
        running, later
            The existing pods, and those of later steps, as ``namespace/name``.
        """
        missing = [key for name in self.preempts or () if (key := _key(name, namespace)) not in running]
        found = [f"preempts: there is no pod {key}" for key in missing]
        if self.preempted_by is not None and (key := _key(self.preempted_by, namespace)) not in later:
            found.append(f"preemptedBy: no later step has a pod {key}")
        return found

    def differences(self, answer: PodResult) -> list[str]:
        """Return one text for each difference between an answer and the expectation."""
        placed = answer.decision.placement is not None
        found: list[str] = []
        if self._waits:
            found += self._not_waiting(answer) if placed else self._waiting(answer)
        elif not placed:
            found.append(f"the pod waits: {answer.decision.message}")
        else:
            found += self._placed(answer)
        for section, source in self.policy.items():
            given = shown_sources(answer.sources).get(section, "nothing")
            if source != given and not set(source.split(", ")) <= set(answer.sources.get(section, [given])):
                found.append(f"policy.{section}: expected {source}, found {given}")
        for name, value in self.annotations.items() if placed else ():
            if answer.annotations.get(name) != value:
                found.append(f"annotations.{name}: expected {value!r}, found {answer.annotations.get(name)!r}")
        found += self._preemption(answer)
        said = "; ".join(answer.decision.warnings) or "none"
        found += [f"warning: expected {text!r}, found {said}" for text in self.warning if text not in said]
        return found

    def _preemption(self, answer: PodResult) -> Iterator[str]:
        namespace = answer.pod.namespace
        if self.preempts is not None and answer.node:
            wanted = sorted(_key(name, namespace) for name in self.preempts)
            gone = sorted(victim.pod for victim in answer.preemption.victims) if answer.preemption else []
            if wanted != gone:
                yield f"preempts: expected {', '.join(wanted) or 'none'}, found {', '.join(gone) or 'none'}"
        if self.preempted_by is not None:
            by = _key(self.preempted_by, namespace)
            if by != answer.preempted_by:
                yield f"preemptedBy: expected {by}, found {answer.preempted_by or 'none'}"

    def _not_waiting(self, answer: PodResult) -> Iterator[str]:
        expected = " and ".join(map(repr, self.reason)) if self.reason else f"outcome {self.outcome}"
        gone = ", ".join(victim.pod for victim in answer.preemption.victims) if answer.preemption else ""
        once = f" once {gone} went" if gone else ""
        yield f"reason: expected {expected}, but the pod goes to {answer.node}{once}"

    def _waiting(self, answer: PodResult) -> Iterator[str]:
        outcome, message = answer.decision.outcome.value, answer.decision.message
        if self.outcome not in (None, outcome):
            yield f"outcome: expected {self.outcome}, found {outcome}"
        for text in self.reason or ():
            if text not in message:
                yield f"reason: expected {text!r}, found {message!r}"

    def _placed(self, answer: PodResult) -> Iterator[str]:
        if self.node is not None and answer.node not in self.node:
            yield f"node: expected {' or '.join(self.node)}, found {answer.node}"
        if self.cards is not None and sorted(self.cards) != sorted(answer.cards):
            yield f"cards: expected {', '.join(self.cards) or 'none'}, found {', '.join(answer.cards) or 'none'}"


def _key(name: str, namespace: str) -> str:
    """Return the namespaced name of a pod; the namespace may be omitted in its own."""
    return name if "/" in name else f"{namespace}/{name}"
