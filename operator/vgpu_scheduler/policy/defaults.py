"""What holds for pods unless a policy or an annotation says otherwise."""

from __future__ import annotations

from dataclasses import dataclass

from vgpu_scheduler.kube import LabelSelector, Node
from vgpu_scheduler.model import OrderKind
from vgpu_scheduler.model.policy_settings import PolicySettings
from vgpu_scheduler.policy.resolved import DEVICE_WEIGHT
from vgpu_scheduler.policy.translate import unread
from vgpu_scheduler.scorers import NodePolicy, ReadBinpackArguments


@dataclass(frozen=True, slots=True)
class PolicyDefaults:
    """What holds unless a policy or an annotation says otherwise.

    Attributes
    ----------
    strict_annotations
        Refuse unknown annotation values and suspicious amounts, instead of a fallback with a warning.
    managed
        The nodes that pods may be placed on, whatever policies say; None for all.
    device_weight
        The weight of the scorers beside preferred affinities, preferred taints and the like; 0 or more.
    read_arguments
        Parses the arguments of Volcano's binpack plugin in a policy.
    """

    node_policy: str = NodePolicy.BINPACK.value
    device_policy: str = "spread"
    order: OrderKind = OrderKind.NUMA_FIRST
    strict_annotations: bool = False
    managed: LabelSelector | None = None
    device_weight: int = DEVICE_WEIGHT
    read_arguments: ReadBinpackArguments = unread

    @classmethod
    def of(cls, settings: PolicySettings) -> PolicyDefaults:
        """Return the defaults that settings name; the fields that these do not cover have their own defaults."""
        return cls(settings.node_policy, settings.device_policy, settings.order, settings.strict_annotations)

    def manages(self, node: Node) -> bool:
        """Tell whether pods may be placed on a node, whatever policies say."""
        return self.managed is None or self.managed.matches(node.labels)
