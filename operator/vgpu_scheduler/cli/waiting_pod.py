"""What users who may see a waiting pod but no nodes are told about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from vgpu_scheduler.engine import used_by
from vgpu_scheduler.kube import Object, Pod
from vgpu_scheduler.predicates import gated
from vgpu_scheduler.reading import left_to_whom
from vgpu_scheduler.settings import Settings
from vgpu_scheduler.whatif import ConditionRemedies

WAITS: Final = 1
"""The exit status for a pod that is known to wait."""
_UNKNOWN: Final = 2
_RUNBOOK: Final = "the runbook of vgpu-scheduler (set runbook_url to print its address here)"


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """What is known of a waiting pod.

    Attributes
    ----------
    condition
        The condition that says why it waits.
    concerned
        For which other pods the remedies hold, too.
    is_ours
        Whether this scheduler may place it.
    """

    pod: Pod
    condition: Object
    advised: ConditionRemedies
    concerned: str
    is_ours: bool

    @property
    def exit_status(self) -> int:
        """The exit status: whether the pod fits is known only once its scheduler has tried it."""
        was_tried = bool(self.condition.get("message")) and not gated(self.pod)
        return WAITS if was_tried or self.advised.quotas or not self.is_ours else _UNKNOWN

    def lines(self, settings: Settings) -> Iterator[str]:
        """Yield the lines about the pod."""
        pod, condition, advised = self.pod, self.condition, self.advised
        yield f"{pod.key} waits."
        if not self.is_ours:
            yield f"  {left_to_whom(pod.scheduler_name, settings)}."
        if condition.get("message"):
            yield f"  {condition.get('reason', '')}: {condition['message']}"
        else:
            yield f"  No scheduler has reported anything about it yet. It names the scheduler {pod.scheduler_name}."
        if pod.nominated_node_name:
            node = pod.nominated_node_name
            yield f"  Room is made for it on node {node}: pods of lower priority are evicted from it."
        if advised.near_miss is not None:
            yield f"  {advised.near_miss}"
        if advised.quotas:
            keeps = "keeps" if self.is_ours else "would keep"
            with_it = f"; {advised.other_members}" if str(advised.other_members or "") else ""
            yield f"  Its quota {keeps} it waiting: {used_by(pod.namespace, advised.quotas)}{with_it}."
        elif advised.quota_unseen:
            unseen = "the amounts are in its ResourceQuotas and events, which you may not read"
            yield f"  Its quota keeps it waiting: {unseen}."
        if advised.remedies:
            yield from ("", "What may help, according to its condition and event:")
            yield from (f"  {remedy}" for remedy in advised.remedies)
            yield from [self.concerned] if self.concerned else []
        yield from ("", f"Its reasons are explained in {settings.runbook_url or _RUNBOOK}.")
