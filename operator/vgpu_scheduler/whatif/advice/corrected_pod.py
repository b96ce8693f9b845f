"""A pod with its mistakes corrected, and which corrections further advice undoes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from vgpu_scheduler.kube import Object
from vgpu_scheduler.whatif.advice.remedy import Action, Advice, leave_out_resources
from vgpu_scheduler.whatif.objects.amounts import AmountChange


@dataclass(frozen=True, slots=True)
class Correction:
    """A correction that changes more than an amount.

    Attributes
    ----------
    container
        The container that it changes; empty if it changes none.
    writes
        The resource that the pod asks for by the correction, or the annotation that it has by it, as in ``leaves_out``
        of :class:`Action`; empty if there is none.
    was
        What the pod has instead without the correction; empty if it has nothing.
    """

    action: Action
    container: str = ""
    writes: str = ""
    was: str = ""

    def __str__(self) -> str:
        return str(self.action)


Change = AmountChange | Correction


@dataclass(frozen=True, slots=True)
class CorrectedPod:
    """A pod with its mistakes corrected.

    Attributes
    ----------
    changes
        The corrections; empty if there are none.
    """

    written: Object
    changes: tuple[Change, ...] = ()

    @property
    def amounts(self) -> tuple[AmountChange, ...]:
        """The changes of amounts."""
        return tuple(each for each in self.changes if isinstance(each, AmountChange))

    def and_then(self, advice: Iterable[Action] = ()) -> Advice:
        """Return the corrections followed by further advice.

        The correction of an amount is left out if the advice changes that amount. If the advice leaves out what a
        correction writes, it leaves out what the pod has without the correction instead.
        """
        changes, then = without_undone(self.changes, advice)
        asked = [each.amount for each in then]
        kept = (each for each in changes if isinstance(each, Correction) or not any(map(each.is_of, asked)))
        return (*(each.action if isinstance(each, Correction) else Action(str(each)) for each in kept), *then)

    def corrected_further(self, more: CorrectedPod) -> CorrectedPod:
        """Return the pod with corrections that were made after these; those of the same amount become one."""
        kept, after = list(self.changes), list[Change]()
        for change in more.changes:
            if isinstance(change, Correction):
                kept, then = without_undone(kept, [change.action])
                after += [replace(change, action=each) for each in then]
                continue
            made = change
            for earlier in self.changes:
                if isinstance(earlier, AmountChange) and (both := change.after(earlier)) is not None:
                    kept.remove(earlier)
                    made = both
            after.append(made)
        return CorrectedPod(more.written, (*kept, *after))


def without_undone(changes: Sequence[Change], advice: Iterable[Action]) -> tuple[list[Change], Advice]:
    """Return the corrections that further advice does not undo, and the advice for the pod with these only."""
    kept, then, left = list(changes), list[Action](), list(advice)
    while left:
        action = left.pop(0)
        undone = [each for each in kept if _is_undone(each, action)]
        if not undone:
            then.append(action)
            continue
        kept = [each for each in kept if each not in undone]
        left[:0] = _as_written(action, [each for each in undone if isinstance(each, Correction)])
    return kept, tuple(then)


def _is_undone(change: Change, action: Action) -> bool:
    writes = change.resource if isinstance(change, AmountChange) else change.writes
    return writes in action.leaves_out and (not change.container or change.container in action.containers)


def _as_written(action: Action, undone: Sequence[Correction]) -> Iterator[Action]:
    """Yield what to leave out of a pod without the corrections that an action undoes."""
    if not undone:
        yield action
    elif not action.containers:
        (correction,) = undone
        what = action.what.replace(correction.writes, correction.was)
        yield replace(action, what=what, leaves_out=(correction.was,))
    by_names: dict[tuple[str, ...], list[str]] = {}
    for container in action.containers if undone else ():
        was = {each.writes: each.was for each in undone if each.container == container}
        names = tuple(dict.fromkeys(filter(None, (was.get(name, name) for name in action.leaves_out))))
        by_names.setdefault(names, []).append(container)
    for names, containers in by_names.items():
        if names:
            yield leave_out_resources(names, containers)
