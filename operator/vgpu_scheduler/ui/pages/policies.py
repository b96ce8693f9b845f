"""The policies in force: which pods each selects, since when, what it decides, and its problems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from vgpu_scheduler.engine.policy_report import PolicyReason, PolicyReport
from vgpu_scheduler.kube import Object, Pod, parse_time
from vgpu_scheduler.model import counted, namespaced_name
from vgpu_scheduler.policy import EffectivePolicy, PolicyKey, PolicyResource, key_of, key_title, title
from vgpu_scheduler.whatif import World, fields_matching_nothing
from vgpu_scheduler.whatif.reasons.causes import describe_selector

_FINE: Final = frozenset({PolicyReason.ACCEPTED, PolicyReason.NO_CONFLICT, PolicyReason.NO_WARNINGS})
_TOLD_BY_REACH: Final = PolicyReason.UNKNOWN_CARD_TYPE
"""The check of policies against the existing cards reports this in more detail."""
_MOST_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """A row of the policies page.

    Attributes
    ----------
    whom
        The pods that the policy selects, in words.
    selected, waiting
        How many pods the policy selects, and how many of them are pending.
    pods
        For how many pods at least one section of the policy is in force.
    created
        The creation time as Kubernetes writes it; empty if not known.
    changed
        The last transition time in its status; empty if there is none.
    sections
        For how many pods each section of the policy is in force.
    changes
        The content of each section, in words.
    problems
        What is wrong with the policy.
    """

    kind: str
    namespace: str
    name: str
    whom: str
    selected: int
    waiting: int
    pods: int
    created: str
    changed: str
    sections: Mapping[str, int]
    changes: Mapping[str, str]
    problems: Sequence[str]

    @property
    def title(self) -> str:
        """The policy's name in messages."""
        return key_title((self.kind, self.namespace, self.name))

    @property
    def path(self) -> str:
        """Its namespace, if it has one, and its name."""
        return namespaced_name(self.namespace, self.name)

    @property
    def ref(self) -> str:
        """The policy's name in addresses."""
        return f"{self.kind}/{self.path}"

    def as_json(self) -> dict[str, Any]:
        """Return the row as plain values."""
        return {
            "policy": self.title,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "for": self.whom,
            "selected": self.selected,
            "waiting": self.waiting,
            "pods": self.pods,
            "created": self.created,
            "changed": self.changed,
            "sections": dict(self.sections),
            "changes": dict(self.changes),
            "problems": list(self.problems),
        }


def policy_rows(world: World, ours: Iterable[str]) -> list[PolicyRow]:
    """Return the rows of the policies page.

    Parameters
    ----------
    ours
        The scheduler names whose pods count.
    """
    names = frozenset(ours)
    reports = world.engine.policy_tracker.report(names)
    if not reports:
        return []
    reach = _reach(world, names)
    return [_row(world, report, reach.get(key_of(report.policy), _Reach())) for report in reports]


@dataclass(slots=True)
class _Reach:
    """The pods that a policy selects.

    Attributes
    ----------
    won
        For how many pods each section is in force.
    lost
        For how many pods another source decides a section: counts by section and source.
    """

    selected: int = 0
    waiting: int = 0
    won: Counter[str] = field(default_factory=Counter)
    lost: dict[str, Counter[str]] = field(default_factory=dict)


def _reach(world: World, ours: frozenset[str]) -> dict[PolicyKey, _Reach]:
    """Return the pods that each policy selects; pods with the same labels and effective policy are counted together."""
    policies = world.engine.policies
    alike: dict[tuple[Any, ...], tuple[EffectivePolicy, Pod, Counter[bool]]] = {}
    for pods, waits in ((world.bound, False), (world.pending, True)):
        for pod in pods.values():
            if pod.scheduler_name not in ours:
                continue
            resolved = policies.resolve(pod)
            asked = policies.catalogue.candidates(pod.namespace).label_keys
            key = (resolved.number, pod.namespace, *map(pod.labels.get, asked))
            alike.setdefault(key, (resolved, pod, Counter()))[2][waits] += 1
    found: dict[PolicyKey, _Reach] = {}
    for resolved, pod, number_of in alike.values():
        for policy in policies.catalogue.candidates(pod.namespace).matching(pod.labels):
            reach = found.setdefault(key_of(policy), _Reach())
            reach.selected += number_of.total()
            reach.waiting += number_of[True]
            _count(policy, resolved, number_of.total(), reach)
    return found


def _count(policy: PolicyResource, resolved: EffectivePolicy, pods: int, reach: _Reach) -> None:
    """Count the sections of a policy that are in force for pods that it selects."""
    for section in policy.sections if policy.spec is not None and not resolved.refusal else ():
        by = resolved.titles(section)
        if title(policy) in by:
            reach.won[section] += pods
        else:
            reach.lost.setdefault(section, Counter())[by[0] if by else ""] += pods


def _row(world: World, report: PolicyReport, reach: _Reach) -> PolicyRow:
    policy = report.policy
    written = world.policies.get(title(policy), {})
    metadata, status = written.get("metadata") or {}, written.get("status")
    return PolicyRow(
        kind=policy.kind,
        namespace=policy.namespace,
        name=policy.name,
        whom=_whom(policy, written),
        selected=reach.selected,
        waiting=reach.waiting,
        pods=report.pods,
        created=str(metadata.get("creationTimestamp") or ""),
        changed=_last_change(status),
        sections={section: reach.won[section] for section in sorted(policy.sections)},
        changes=dict(_changes(report, written)) if policy.spec is not None else {},
        problems=list(dict.fromkeys(_problems(world, report, written, reach))),
    )


def _whom(policy: PolicyResource, written: Object) -> str:
    """Describe the pods that a policy selects; without valid selectors it selects all."""
    spec = written.get("spec") or {}
    pods = describe_selector(spec["selector"]) if policy.selector is not None else ""
    homes = describe_selector(spec["namespaceSelector"]) if policy.namespace_selector is not None else ""
    of = f"namespace {policy.namespace}" if policy.namespace else f"namespaces with {homes}" if homes else ""
    return f"{f'pods with {pods}' if pods else 'all pods'} of {of or 'all namespaces'}"


def _last_change(status: object) -> str:
    """Return the last transition time of a policy's conditions; the status may have any content."""
    conditions = status.get("conditions") if isinstance(status, Mapping) else None
    listed = conditions if isinstance(conditions, list) else []
    times = [str(each.get("lastTransitionTime") or "") for each in listed if isinstance(each, Mapping)]
    return max((time for time in times if parse_time(time) is not None), default="")


def _changes(report: PolicyReport, written: Object) -> Iterator[tuple[str, str]]:
    """Yield the content of each section, as summarised for the status or else as written."""
    summaries = {"nodes": report.nodes, "preemption": report.preemption}
    spec = written.get("spec") or {}
    for section in sorted(report.policy.sections):
        yield section, summaries.get(section) or _format_section(section, spec[section])


def _format_section(section: str, value: Any) -> str:
    return describe_selector(value) if section == "nodeSelector" else ", ".join(_fields("", value))


def _fields(path: str, value: Any) -> Iterator[str]:
    """Yield the fields of a value as texts, with nested fields by their paths."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _fields(f"{path}.{name}" if path else str(name), inner)
    else:
        text = " or ".join(map(str, value)) or "nothing" if isinstance(value, list) else str(value)
        yield f"{path} {text.lower() if isinstance(value, bool) else text}"


def _problems(world: World, report: PolicyReport, written: Object, reach: _Reach) -> Iterator[str]:
    """Yield the problems of a policy, the worst first."""
    for condition in report.conditions:
        if condition.reason not in _FINE and condition.reason is not _TOLD_BY_REACH:
            yield condition.message
    yield from fields_matching_nothing(world, written, None if reach.selected else ())
    for section, others in sorted(reach.lost.items()):
        if not reach.won[section]:
            yield f"{section}: {_deciders(others)} for all {counted(reach.selected, 'pod')} that it selects"


def _deciders(others: Counter[str]) -> str:
    words = {"pod": "annotations of pods", "settings": "the settings", "": "another policy"}
    names = [words.get(name, name) for name, _ in others.most_common(_MOST_NAMED)]
    return f"{' or '.join(names)} {'decide' if len(names) > 1 or names == [words['pod']] else 'decides'} it"
