"""Merge actions of one piece of advice that change the same amount."""

from __future__ import annotations

from vgpu_scheduler.whatif.advice.remedy import Action, Advice


def each_amount_once(advice: Advice) -> Advice:
    """Return advice that changes each amount once: where several actions do, the one that asks for least."""
    numbered = list(enumerate(advice))
    return tuple(
        each
        for at, each in numbered
        if not any(_replaces(other, each, is_earlier=place < at) for place, other in numbered if place != at)
    )


def _replaces(action: Action, other: Action, *, is_earlier: bool) -> bool:
    """Tell whether an action asks for less of another one's amount, or says how much and the other one does not."""
    mine, its = action.amount, other.amount
    if mine is None or its is None or not (mine.covers(its) and its.covers(mine)):
        return False
    if action.steps is None or other.steps is None:
        more, less = int(action.steps is not None), int(other.steps is not None)
    else:
        more, less = its.parts[0].each * other.steps, mine.parts[0].each * action.steps
    return more > less or (more == less and is_earlier)
