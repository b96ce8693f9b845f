"""The policy resources, ``VGPUPolicy`` and ``ClusterVGPUPolicy``, as models, and the one decoder.

The models are the one source: the schemas of the CRDs (``policy.schema``) and the reference in ``docs`` are made from
them. On the wire the names are in camelCase. Models are immutable and hashable; maps are kept as pairs, selectors are
compiled, and quantities are bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final, Literal, get_args

from pydantic import Field, TypeAdapter, ValidationError

from vgpu_scheduler.kube import NAMESPACE_NAME, LabelSelector
from vgpu_scheduler.model import cut
from vgpu_scheduler.model.untyped import mapping_of
from vgpu_scheduler.policy.evictions import MOST_EVICTIONS, EvictionEntry, RecordedEviction, read_evictions
from vgpu_scheduler.policy.groups import HOLDING_RULE, GroupsSection
from vgpu_scheduler.policy.nodes_section import NodesSection, ScorerEntry, ScoringStrategy
from vgpu_scheduler.policy.preemption_section import TIGHTENING_RULES, PreemptionSection
from vgpu_scheduler.policy.rules import (
    MOST,
    QUALIFIED_NAME,
    Keyword,
    Rule,
    Section,
    Selector,
    Unique,
    explain,
    wrong_fields,
)
from vgpu_scheduler.policy.spec import (
    DefaultsSection,
    DevicesSection,
    LimitsSection,
    PodOverrides,
)

__all__ = [
    "CLUSTER_KIND",
    "GROUP",
    "NAMESPACED_KIND",
    "NAME_RULE",
    "SECTIONS",
    "VERSION",
    "ClusterVGPUPolicySpec",
    "DefaultsSection",
    "DevicesSection",
    "NodesSection",
    "PodOverrides",
    "PolicyCondition",
    "PolicyResource",
    "PolicyStatus",
    "ScorerEntry",
    "VGPUPolicySpec",
    "decode_policy",
]

GROUP: Final = "vgpu-scheduler.io"
VERSION: Final = "v1alpha1"
NAMESPACED_KIND: Final = "VGPUPolicy"
CLUSTER_KIND: Final = "ClusterVGPUPolicy"
PLURALS: Final = {NAMESPACED_KIND: "vgpupolicies", CLUSTER_KIND: "clustervgpupolicies"}
LONGEST_NAME: Final = 63
"""Longest name of a policy; the name is written into annotations of pods."""
LONGEST_ERROR: Final = 8 * 1024
"""Bytes of what is said about a policy that is not understood: pods that wait for it say so, too."""

SECTIONS: Final[Mapping[str, str]] = {
    "nodes": "nodes",
    "devices": "devices",
    "nodeSelector": "node_selector",
    "defaults": "defaults",
    "limits": "limits",
    "podOverrides": "pod_overrides",
    "preemption": "preemption",
    "groups": "groups",
}
"""The sections of a policy: their names on the wire and in the models."""


Enforceable = Literal["nodes", "devices", "defaults"]
ENFORCEABLE: Final = frozenset(get_args(Enforceable))
"""Sections of which one wins, and which cluster policies may therefore enforce."""

_BESIDE_SCORERS: Final = "!has(self.nodes) || !has(self.nodes.scorers) || !has(self.devices)"
_NO_DEVICESHARE: Final = "it.name != 'deviceshare' || (has(it.weight) && it.weight == 0)"


class VGPUPolicySpec(Section):
    """What holds for the pods that are selected.

    Each section comes from the highest-ranked matching policy that sets it: policies of the pod's namespace before
    cluster policies, then by priority, then by name.
    """

    priority: Annotated[int, Field(strict=True, ge=-MOST, le=MOST)] = 0
    """Rank among the policies of the same kind; the higher one wins. Between equals the name decides, and both are
    marked as in conflict."""
    selector: Selector | None = None
    """The pods that this policy is for, by their labels. All pods if it is absent or empty."""
    nodes: NodesSection | None = None
    """How the node is chosen; set exactly one of policy and scorers."""
    devices: DevicesSection | None = None
    """How the cards of the node are chosen, and which may be used."""
    node_selector: Selector | None = None
    """The nodes that may be used, by their labels."""
    defaults: DefaultsSection | None = None
    """What containers get that ask for cards without saying how much of them."""
    limits: LimitsSection | None = None
    """What a pod may have at most, all its cards together."""
    pod_overrides: PodOverrides | None = None
    """What pods may decide themselves by their annotations. Without it: all that is documented."""
    preemption: PreemptionSection | None = None
    """Whether pods of higher priority may evict others to get room. It comes from the highest-ranked cluster policy
    that sets it; policies of namespaces only tighten what that one says."""
    groups: GroupsSection | None = None
    """How pods that are placed together are treated: how many are needed, what becomes of a group that has lost some,
    and whether cards are kept for one that waits."""

    shared_rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="[has(self.nodes), has(self.devices), has(self.nodeSelector), has(self.defaults), has(self.limits),"
            " has(self.podOverrides), has(self.preemption), has(self.groups)].exists(set, set)",
            message="set at least one of nodes, devices, nodeSelector, defaults, limits, podOverrides, preemption and"
            " groups",
            holds=lambda it: any(getattr(it, name) is not None for name in SECTIONS.values()),
        ),
        Rule(
            cel=f"{_BESIDE_SCORERS} || !has(self.devices.policy) || self.nodes.scorers.all(it, {_NO_DEVICESHARE}"
            " || self.devices.policy.trim() =="
            " (has(it.scoringStrategy) ? it.scoringStrategy.type : 'LeastAllocated'))",
            message="the scorer deviceshare has one strategy for nodes and devices; remove devices.policy, or set it to"
            " the scorer's scoringStrategy.type (LeastAllocated if that is absent)",
            holds=lambda it: _deviceshare(it) is None or it.devices.policy in (None, _deviceshare(it)),
            field="devices.policy",
        ),
        Rule(
            cel=f"{_BESIDE_SCORERS} || !has(self.devices.weights) || self.nodes.scorers.all(it, {_NO_DEVICESHARE})",
            message="the scorer deviceshare orders the devices, too, and does not use HAMi's score; remove"
            " devices.weights, and weigh resources in scoringStrategy.resources",
            holds=lambda it: _deviceshare(it) is None or it.devices.weights is None,
            field="devices.weights",
        ),
    )
    """The rules of both kinds."""
    rules: ClassVar[tuple[Rule, ...]] = (*shared_rules, *TIGHTENING_RULES, HOLDING_RULE)


class ClusterVGPUPolicySpec(VGPUPolicySpec):
    """What holds for the pods that are selected, in the namespaces that are selected.

    Each section comes from the highest-ranked matching policy that sets it: cluster policies that enforce it before
    policies of the pod's namespace, these before other cluster policies, then by priority, then by name. But limits,
    devices.types, devices.exclusive, devices.apartFrom, nodeSelector and podOverrides of cluster policies always hold
    as well: a policy of a namespace can tighten them, never lift them. Nor does it lift preemption, which comes from
    cluster policies alone.
    """

    namespace_selector: Selector | None = None
    """The namespaces that this policy is for, by their labels. All namespaces if it is absent or empty. Every namespace
    carries its name as the label kubernetes.io/metadata.name."""
    enforce: Annotated[tuple[Enforceable, ...], Field(min_length=1, max_length=3), Unique()] | None = None
    """Sections of this policy that go before those of all policies that do not enforce them, of namespaces as well, and
    before the annotations of pods: nodes, devices, defaults. Of several that enforce a section the highest-ranked one
    wins. Types, exclusive, apartFrom and limits of others still tighten, and amounts that a pod names stay."""

    rules = (
        *VGPUPolicySpec.shared_rules,
        Rule(
            cel="!has(self.enforce) || self.enforce.all(name, name == 'nodes' ? has(self.nodes)"
            " : name == 'devices' ? has(self.devices) : has(self.defaults))",
            message="enforce names a section that this policy does not set; set it, or remove it from enforce",
            holds=lambda it: all(getattr(it, name) is not None for name in it.enforce or ()),
            field="enforce",
        ),
    )


def _deviceshare(spec: VGPUPolicySpec) -> str | None:
    """Return the strategy of the scorer deviceshare, if it is on and there is a section for devices beside it."""
    if spec.nodes is None or spec.devices is None:
        return None
    entry = next(
        (entry for entry in spec.nodes.scorers or () if entry.name == "deviceshare" and entry.weight != 0), None
    )
    return None if entry is None else (entry.scoring_strategy or ScoringStrategy()).type


class PolicyCondition(Section):
    """One aspect of a policy's state."""

    type: Annotated[str, Field(max_length=316, pattern=QUALIFIED_NAME)]
    """The aspect. Ready: the policy is understood. Conflicted: another one ties with it in rank. Warnings: something in
    it has no effect."""
    status: Literal["True", "False", "Unknown"]
    """Whether it is so."""
    reason: Annotated[str, Field(min_length=1, max_length=1024, pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    """Why, in one word for programs."""
    message: Annotated[str, Field(max_length=32768)]
    """Why, in words for people."""
    last_transition_time: Annotated[str, Keyword({"format": "date-time"})]
    """When the status last changed."""
    observed_generation: Annotated[int, Field(strict=True, ge=0), Keyword({"format": "int64"})] | None = None
    """The generation of the policy that this is about."""


class PolicyStatus(Section):
    """What the scheduler made of the policy."""

    observed_generation: Annotated[int, Field(strict=True, ge=0), Keyword({"format": "int64"})] | None = None
    """The generation of the policy that this is about."""
    conditions: Annotated[tuple[PolicyCondition, ...], Field(max_length=16), Unique("type")] = ()
    """Ready, and what else there is to say."""
    pods: Annotated[int, Field(strict=True, ge=0)] | None = None
    """Number of pods for which a section of this policy is in force."""
    nodes: Annotated[str, Field(max_length=256)] | None = None
    """How nodes are chosen, in a few words."""
    devices: Annotated[str, Field(max_length=256)] | None = None
    """How devices are chosen, in a few words."""
    preemption: Annotated[str, Field(max_length=256)] | None = None
    """What it says of preemption, in a few words."""
    evictions: Annotated[tuple[EvictionEntry, ...], Field(max_length=MOST_EVICTIONS)] = ()
    """The evictions of the last hour that count towards preemption.perHour of this policy."""


# ---------------------------------------------------------------------------------------------------------- decoding


@dataclass(frozen=True, slots=True)
class PolicyResource:
    """A policy as it was read.

    Attributes
    ----------
    kind
        ``VGPUPolicy`` or ``ClusterVGPUPolicy``.
    namespace
        Empty for cluster policies.
    priority
        From the spec; of one that is not understood it is kept within the bounds, and the highest if it is no number.
    spec
        What it says, or None if a part of it is not understood.
    error
        What is not understood, with the paths of the fields; empty if everything is.
    wrong
        The fields that this is about, each with the names and indexes on the way to it.
    sections
        The sections that it sets, by their names on the wire; all of them if there is no telling.
    enforced
        Those of them that it enforces.
    selector, namespace_selector
        Which pods and which namespaces it is for; None for all of them, also where that is not understood. So pods
        that a broken policy may be for wait for it to be mended.
    evictions
        Those that its status records.
    written
        Its spec as it was written, understood or not.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    generation: int
    resource_version: int
    priority: int
    spec: VGPUPolicySpec | None
    error: str = ""
    wrong: tuple[tuple[str | int, ...], ...] = ()
    sections: frozenset[str] = frozenset()
    enforced: frozenset[str] = frozenset()
    selector: LabelSelector | None = None
    namespace_selector: LabelSelector | None = None
    evictions: tuple[RecordedEviction, ...] = ()
    written: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def selects_namespace(self, name: str, labels: Mapping[str, str]) -> bool:
        """Tell whether it is for pods of a namespace; every one has its name as a label, whatever else it has."""
        selector = self.namespace_selector
        is_its = self.namespace in {"", name}
        return is_its and (selector is None or selector.matches({**labels, NAMESPACE_NAME: name}))

    def selects_pod(self, labels: Mapping[str, str]) -> bool:
        """Tell whether it is for a pod with some labels, of a namespace that it selects."""
        return self.selector is None or self.selector.matches(labels)


def decode_policy(obj: Mapping[str, Any]) -> PolicyResource:
    """Read a policy as the API server hands it out; a spec that is not understood is told in ``error``.

    Parameters
    ----------
    obj
        The whole object. Without a ``kind`` (items of lists may lack it) it is a cluster policy if it has no namespace.

    Raises
    ------
    ValueError
        If it is of another kind.
    """
    meta = mapping_of(obj.get("metadata"))
    namespace, name = str(meta.get("namespace") or ""), str(meta.get("name") or "")
    kind = obj.get("kind") or (NAMESPACED_KIND if namespace else CLUSTER_KIND)
    if kind not in (NAMESPACED_KIND, CLUSTER_KIND):
        raise ValueError(f"{kind!r} is no policy")
    raw = obj.get("spec")
    errors = []
    wrong: list[tuple[str | int, ...]] = []
    if len(name) > LONGEST_NAME:
        errors.append(f"metadata.name: {NAME_RULE.message}")
        wrong.append(("metadata", "name"))
    spec: VGPUPolicySpec | None = None
    try:
        model = VGPUPolicySpec if kind == NAMESPACED_KIND else ClusterVGPUPolicySpec
        spec = model.model_validate(raw, by_alias=True, by_name=False)
    except ValidationError as error:
        errors.append(explain(error, "spec"))
        wrong += wrong_fields(error, "spec")
    fields = mapping_of(raw)
    present = frozenset(key for key in SECTIONS if fields.get(key) is not None)
    if fields.keys() - SECTIONS.keys() - _NO_SECTIONS[kind]:
        present = frozenset(SECTIONS)  # who knows what a section of another version restricts
    sections = present if isinstance(raw, Mapping) else frozenset(SECTIONS)
    return PolicyResource(
        kind=kind,
        namespace=namespace,
        name=name,
        uid=str(meta.get("uid") or ""),
        generation=_number(meta.get("generation")),
        resource_version=_number(meta.get("resourceVersion")),
        priority=_priority(fields.get("priority", 0)),
        spec=None if errors else spec,
        error=cut("; ".join(errors), LONGEST_ERROR),
        wrong=tuple(wrong),
        sections=sections,
        enforced=sections & _enforced(fields.get("enforce")) if kind == CLUSTER_KIND else frozenset(),
        selector=_selector(fields.get("selector")),
        namespace_selector=_selector(fields.get("namespaceSelector")) if kind == CLUSTER_KIND else None,
        evictions=read_evictions(obj.get("status"))[0],
        written=fields,
    )


NAME_RULE: Final = Rule(
    cel=f"self.metadata.name.size() <= {LONGEST_NAME}",
    message=f"must have at most {LONGEST_NAME} characters, because it is written into annotations of pods; shorten it",
    holds=lambda name: len(name) <= LONGEST_NAME,
    field="metadata.name",
)
"""The rule for the whole resource."""


_NO_SECTIONS: Final = {
    NAMESPACED_KIND: frozenset({"priority", "selector", "namespaceSelector"}),
    CLUSTER_KIND: frozenset({"priority", "selector", "namespaceSelector", "enforce"}),
}


def _number(value: object) -> int:
    """Read a generation or a resource version; 0 if it is no number."""
    return int(value) if isinstance(value, int) or (isinstance(value, str) and value.isdecimal()) else 0


def _priority(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return max(-MOST, min(value, MOST))
    return MOST


def _enforced(value: object) -> frozenset[str]:
    """Return the sections that are enforced: all that may be if there is no telling."""
    if value is None:
        return frozenset()
    names = frozenset(map(str, value)) if isinstance(value, list) else frozenset()
    return names if names and names <= ENFORCEABLE else ENFORCEABLE


def _selector(value: object) -> LabelSelector | None:
    if value is None:
        return None
    try:
        return _SELECTOR.validate_python(value, by_alias=True, by_name=False)
    except ValidationError:
        return None


_SELECTOR: Final[TypeAdapter[LabelSelector]] = TypeAdapter(Selector)
