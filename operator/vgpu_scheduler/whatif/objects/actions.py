"""What somebody is to do so that a pod fits: values, of which words are made where somebody is told of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from vgpu_scheduler.whatif.objects.amounts import Amount

__all__ = ["Action", "Advice", "ask_for", "do", "say"]

_NOTHING: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that somebody does.

    Attributes
    ----------
    what
        What it is, in words.
    whoever
        Who can say more of it, or does it; empty where nobody is named.
    most
        By what it is known to be the most that may be asked.
    why
        What else is said of an amount.
    nameless
        The words for somebody who must not end the pods that these name: how many there are is enough.
    is_long
        Whether it takes more than one sentence, which would be taken to be about what is said before it.
    amount
        What a container asks otherwise then; None where it asks no other amount.
    """

    what: str
    whoever: str = ""
    most: tuple[str, ...] = ()
    why: str = ""
    nameless: str = ""
    is_long: bool = False
    amount: Amount | None = None

    def __str__(self) -> str:
        said = "; ".join(filter(None, (*self.most, self.why)))
        return f"{self.what} ({said})" if said else self.what

    def without_names(self) -> Action:
        """Return it for somebody who must not end the pods that it names."""
        return replace(self, what=self.nameless or self.what)


Advice = tuple[Action, ...]
"""What is to be done together."""


def do(what: str, whoever: str = "") -> Advice:
    """Return one thing that somebody does."""
    return (Action(what, whoever),)


def ask_for(amount: Amount, steps: int, but: Mapping[str, str] = _NOTHING) -> Action:
    """Return that a container asks so many steps of an amount; parameters as for :meth:`Amount.worded`."""
    return Action(amount.worded(steps, but), amount=amount)


def say(advice: Sequence[Action]) -> str:
    """Word what is to be done together: who can say more of it is said last, or in parentheses."""
    texts = [f"{each} ({each.whoever})" if each.whoever else str(each) for each in advice[:-1]]
    texts += [f"{each}: {each.whoever}" if each.whoever else str(each) for each in advice[-1:]]
    return " and ".join(texts)
