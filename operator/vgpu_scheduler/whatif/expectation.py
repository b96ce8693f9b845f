"""What a case expects of a pod, and where an answer differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field, model_validator

from vgpu_scheduler.model import Outcome, quoted
from vgpu_scheduler.whatif.forms import Short
from vgpu_scheduler.whatif.simulation import Answer

_PLACED: Final = Outcome.PLACED.value


def _texts(value: object) -> object:
    """Let one text stand for a list of it."""
    if not isinstance(value, str | list | tuple | None):
        raise ValueError(f"{quoted(value)} is neither a text nor a list of texts")  # noqa: TRY004 - pydantic words it
    return (value,) if isinstance(value, str) else value


Texts = Annotated[tuple[str, ...], BeforeValidator(_texts)]


class Expectation(Short):
    """What is expected; what is left out may be anything.

    Attributes
    ----------
    outcome
        ``placed``, ``unschedulable`` or ``refused``; placed unless a reason to wait is expected.
    node
        The node, or several of which any will do.
    cards
        The cards, in any order.
    reason
        Texts that the message of a waiting pod contains.
    policy
        Where sections of the policy in force come from; of several sources, any may be named.
    annotations
        What is written on the pod for the node side.
    warning
        Texts that some warning about the pod contains.
    """

    outcome: Literal["placed", "unschedulable", "refused"] | None = None
    node: Annotated[Texts, Field(min_length=1)] | None = None
    cards: Texts | None = None
    reason: Annotated[Texts, Field(min_length=1)] | None = None
    policy: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    warning: Texts = ()

    @model_validator(mode="after")
    def _says_something(self) -> Expectation:
        if not self.model_fields_set:
            raise ValueError(f"say at least one of {', '.join(type(self).model_fields)}")
        for name in sorted(self.model_fields_set):
            if getattr(self, name) is None:
                raise ValueError(f"{name} is empty: leave it out, or say what is expected")
        if self._waits and (self.node is not None or self.cards is not None):
            raise ValueError("a pod that waits has neither node nor cards")
        if self._waits and self.annotations:
            raise ValueError("nothing is written on a pod that waits")
        if self.outcome == _PLACED and self.reason is not None:
            raise ValueError("a pod that is placed has no reason to wait")
        return self

    @property
    def _waits(self) -> bool:
        return self.reason is not None or self.outcome not in (None, _PLACED)

    def differences(self, answer: Answer) -> list[str]:
        """Say where an answer is not what was expected; one text per difference."""
        placed = answer.decision.placement is not None
        found: list[str] = []
        if self._waits:
            found += self._not_waiting(answer) if placed else self._waiting(answer)
        elif not placed:
            found.append(f"the pod waits: {answer.decision.message}")
        else:
            found += self._placed(answer)
        for section, source in self.policy.items():
            given = answer.sources.get(section, "nothing")
            if not set(source.split(", ")) <= set(given.split(", ")):
                found.append(f"policy.{section}: expected {source}, found {given}")
        for name, value in self.annotations.items() if placed else ():
            if answer.annotations.get(name) != value:
                found.append(f"annotations.{name}: expected {value!r}, found {answer.annotations.get(name)!r}")
        said = "; ".join(answer.decision.warnings) or "none"
        found += [f"warning: expected {text!r}, found {said}" for text in self.warning if text not in said]
        return found

    def _not_waiting(self, answer: Answer) -> Iterator[str]:
        expected = " and ".join(map(repr, self.reason)) if self.reason else f"outcome {self.outcome}"
        yield f"reason: expected {expected}, but the pod goes to {answer.node}"

    def _waiting(self, answer: Answer) -> Iterator[str]:
        outcome, message = answer.decision.outcome.value, answer.decision.message
        if self.outcome not in (None, outcome):
            yield f"outcome: expected {self.outcome}, found {outcome}"
        for text in self.reason or ():
            if text not in message:
                yield f"reason: expected {text!r}, found {message!r}"

    def _placed(self, answer: Answer) -> Iterator[str]:
        if self.node is not None and answer.node not in self.node:
            yield f"node: expected {' or '.join(self.node)}, found {answer.node}"
        if self.cards is not None and sorted(self.cards) != sorted(answer.cards):
            yield f"cards: expected {', '.join(self.cards) or 'none'}, found {', '.join(answer.cards) or 'none'}"
