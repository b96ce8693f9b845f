"""The models of the policy resources ``VGPUPolicy`` and ``ClusterVGPUPolicy``, and their decoder.

The CRD schemas (``policy.schema``) and the reference in ``docs`` are generated from the models. Field names are in
camelCase in resources. Models are immutable and hashable: maps are stored as pairs, selectors are compiled, and
quantities are bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, Literal, get_args

from pydantic import Field, TypeAdapter, ValidationError

from vgpu_scheduler.kube import NAMESPACE_NAME, ApiResource, LabelSelector
from vgpu_scheduler.model import cut
from vgpu_scheduler.model.untyped import mapping_of
from vgpu_scheduler.policy.evictions import MOST_EVICTIONS, EvictionEntry, RecordedEviction, read_evictions
from vgpu_scheduler.policy.groups import HOLDING_RULE, GroupsSection
from vgpu_scheduler.policy.nodes_section import NodesSection, ScoringStrategy
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

GROUP: Final = "vgpu-scheduler.io"
VERSION: Final = "v1alpha1"
NAMESPACED_KIND: Final = "VGPUPolicy"
CLUSTER_KIND: Final = "ClusterVGPUPolicy"
POLICY_KINDS: Final[Mapping[str, ApiResource]] = {
    NAMESPACED_KIND: ApiResource(NAMESPACED_KIND, GROUP, VERSION, "vgpupolicies", namespaced=True),
    CLUSTER_KIND: ApiResource(CLUSTER_KIND, GROUP, VERSION, "clustervgpupolicies"),
}
LONGEST_NAME: Final = 63
"""The longest name of a policy: it is written into annotations of pods."""
LONGEST_ERROR: Final = 8 * 1024
"""The most bytes of a policy's errors, which waiting pods show, too."""

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
"""The sections of a policy: names in resources and in models."""


Enforceable = Literal["nodes", "devices", "defaults"]
ENFORCEABLE: Final = frozenset(get_args(Enforceable))
"""The sections that a single policy wins, so that cluster policies may enforce them."""

_BESIDE_SCORERS: Final = "!has(self.nodes) || !has(self.nodes.scorers) || !has(self.devices)"
_NO_DEVICESHARE: Final = "it.name != 'deviceshare' || (has(it.weight) && it.weight == 0)"


class VGPUPolicySpec(Section):
    """The rules for the selected pods.

    Each section comes from the highest-ranked matching policy that sets it: policies of the pod's namespace before
    cluster policies, then by priority, then by name.
    """

    priority: Annotated[int, Field(strict=True, ge=-MOST, le=MOST)] = 0
    """Rank among the policies of the same kind; the higher one wins. Among policies of equal priority the name decides,
    and both are marked as in conflict."""
    selector: Selector | None = None
    """The pods that this policy applies to, by their labels. All pods if absent or empty."""
    nodes: NodesSection | None = None
    """How the node is chosen; set exactly one of policy and scorers."""
    devices: DevicesSection | None = None
    """How the cards of the node are chosen, and which cards may be used."""
    node_selector: Selector | None = None
    """The nodes that may be used, by their labels."""
    defaults: DefaultsSection | None = None
    """Amounts for containers that ask for cards without naming an amount."""
    limits: LimitsSection | None = None
    """Upper limits for a pod, over all its cards."""
    pod_overrides: PodOverrides | None = None
    """The annotations by which pods may override this policy. If absent: all documented ones."""
    preemption: PreemptionSection | None = None
    """Whether pods of higher priority may evict others to get room. The section comes from the highest-ranked cluster
    policy that sets it; policies of namespaces can only tighten it."""
    groups: GroupsSection | None = None
    """How groups of pods that are placed together are treated: how many pods a group needs, what happens when it has
    lost some, and whether cards are kept for a group that waits."""

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
    """The rules for the selected pods in the selected namespaces.

    Each section comes from the highest-ranked matching policy that sets it: cluster policies that enforce it before
    policies of the pod's namespace, these before other cluster policies, then by priority, then by name. But limits,
    devices.types, devices.exclusive, devices.apartFrom, nodeSelector and podOverrides of cluster policies always apply
    as well: a policy of a namespace can tighten them, never lift them. The same holds for preemption, which comes from
    cluster policies only.
    """

    namespace_selector: Selector | None = None
    """The namespaces that this policy applies to, by their labels. All namespaces if absent or empty. Every namespace
    carries its name as the label kubernetes.io/metadata.name."""
    enforce: Annotated[tuple[Enforceable, ...], Field(min_length=1, max_length=3), Unique()] | None = None
    """Sections of this policy that take precedence over those of all policies that do not enforce them, also of
    namespaces, and over annotations of pods: nodes, devices, defaults. Of several policies that enforce a section the
    highest-ranked wins. Types, exclusive, apartFrom and limits of others still apply; pods keep amounts they name."""

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
    """Return the strategy of the scorer deviceshare, if it is on and the policy has a devices section, too."""
    if spec.nodes is None or spec.devices is None:
        return None
    entry = next(
        (entry for entry in spec.nodes.scorers or () if entry.name == "deviceshare" and entry.weight != 0), None
    )
    return None if entry is None else (entry.scoring_strategy or ScoringStrategy()).type


class PolicyConditionType(StrEnum):
    """The aspects of a policy's state that have a condition."""

    READY = "Ready"
    CONFLICTED = "Conflicted"
    WARNINGS = "Warnings"


class PolicyCondition(Section):
    """One aspect of a policy's state."""

    type: Annotated[str, Field(max_length=316, pattern=QUALIFIED_NAME)]
    """The aspect. Ready: the policy is understood. Conflicted: another policy has the same rank. Warnings: a part of
    the policy has no effect."""
    status: Literal["True", "False", "Unknown"]
    """Whether the aspect applies."""
    reason: Annotated[str, Field(min_length=1, max_length=1024, pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    """The reason for the status, as one word for programs."""
    message: Annotated[str, Field(max_length=32768)]
    """The reason for the status, as text for people."""
    last_transition_time: Annotated[str, Keyword({"format": "date-time"})]
    """When the status last changed."""
    observed_generation: Annotated[int, Field(strict=True, ge=0), Keyword({"format": "int64"})] | None = None
    """The generation of the policy that this is about."""


class PolicyStatus(Section):
    """The state of the policy, as the scheduler sees it."""

    observed_generation: Annotated[int, Field(strict=True, ge=0), Keyword({"format": "int64"})] | None = None
    """The generation of the policy that this is about."""
    conditions: Annotated[tuple[PolicyCondition, ...], Field(max_length=16), Unique("type")] = ()
    """Ready, and further conditions."""
    pods: Annotated[int, Field(strict=True, ge=0)] | None = None
    """Number of pods for which a section of this policy is in force."""
    nodes: Annotated[str, Field(max_length=256)] | None = None
    """How nodes are chosen, in a few words."""
    devices: Annotated[str, Field(max_length=256)] | None = None
    """How devices are chosen, in a few words."""
    preemption: Annotated[str, Field(max_length=256)] | None = None
    """The rules of preemption, in a few words."""
    evictions: Annotated[tuple[EvictionEntry, ...], Field(max_length=MOST_EVICTIONS)] = ()
    """The evictions of the last hour that count towards preemption.perHour of this policy."""


# ---------------------------------------------------------------------------------------------------------- decoding


@dataclass(frozen=True, slots=True)
class PolicyResource:
    """A decoded policy.

    Attributes
    ----------
    kind
        ``VGPUPolicy`` or ``ClusterVGPUPolicy``.
    namespace
        Empty for cluster policies.
    priority
        The priority in the spec, clipped to its bounds; the highest if it is not a number.
    spec
        The spec; None if a part of it cannot be understood.
    error
        What cannot be understood, with the paths of the fields; empty if everything can.
    wrong
        The paths of these fields, as names and indexes.
    sections
        The sections that the policy sets, by their names in resources; all of them if that cannot be told.
    enforced
        The sections that the policy enforces.
    selector, namespace_selector
        The pods and namespaces that the policy selects; None for all, also if the selector cannot be understood. So
        pods that a broken policy may select wait until it is corrected.
    evictions
        The evictions recorded in its status.
    written
        The spec as written, whether it can be understood or not.
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
        """Tell whether the policy selects a namespace; every namespace counts as labelled with its name."""
        selector = self.namespace_selector
        is_its = self.namespace in {"", name}
        return is_its and (selector is None or selector.matches({**labels, NAMESPACE_NAME: name}))

    def selects_pod(self, labels: Mapping[str, str]) -> bool:
        """Tell whether the policy selects a pod with some labels, in a namespace that it selects."""
        return self.selector is None or self.selector.matches(labels)


def decode_policy(obj: Mapping[str, Any]) -> PolicyResource:
    """Decode a policy from the API server; errors in its spec are reported in ``error``.

    Parameters
    ----------
    obj
        The whole object. Without ``kind``, which items of lists lack, it is a cluster policy if it has no namespace.

    Raises
    ------
    ValueError
        If the object is of another kind.
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
        present = frozenset(SECTIONS)  # an unknown field may be a section of a later version with any restriction
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
"""The rule about the name of a policy."""


_NO_SECTIONS: Final = {
    NAMESPACED_KIND: frozenset({"priority", "selector", "namespaceSelector"}),
    CLUSTER_KIND: frozenset({"priority", "selector", "namespaceSelector", "enforce"}),
}


def _number(value: object) -> int:
    """Return a generation or a resource version as a number; 0 if it is not one."""
    return int(value) if isinstance(value, int) or (isinstance(value, str) and value.isdecimal()) else 0


def _priority(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return max(-MOST, min(value, MOST))
    return MOST


def _enforced(value: object) -> frozenset[str]:
    """Return the enforced sections; all enforceable sections if that cannot be told."""
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
