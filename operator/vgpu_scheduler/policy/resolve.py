"""The policy of a pod: its own annotations first, then the settings.

``Policies.resolve`` is the seam through which policy resources come in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from vgpu_scheduler.allocators import DEVICE_POLICIES, TOPOLOGY, OrderKind, policy_words
from vgpu_scheduler.kube import Pod
from vgpu_scheduler.scorers import NodePolicy

NODE_POLICY_ANNOTATION = "hami.io/node-scheduler-policy"
DEVICE_POLICY_ANNOTATION = "hami.io/gpu-scheduler-policy"
WEIGHTS_ANNOTATION = "hami.io/device-scoring-weights"

_NODE_POLICIES = {policy.value: policy for policy in NodePolicy}
_WEIGHT_ORDER = ("slot", "memory", "core")
_WEIGHT = re.compile(r"\s*([a-z]+)\s*=\s*(\+?0*[0-9]{1,18})\s*")

Weights = tuple[float, float, float]


class PolicyError(ValueError):
    """A policy annotation that is refused; the message names it."""


@dataclass(frozen=True, slots=True)
class PolicyDefaults:
    """What holds where nothing else is said (C-01, C-04).

    Attributes
    ----------
    strict_annotations
        Refuse unknown policy words in annotations instead of falling back with a warning (C-21).
    """

    node_policy: str = NodePolicy.BINPACK.value
    device_policy: str = "spread"
    order: OrderKind = OrderKind.NUMA_FIRST
    strict_annotations: bool = False


@dataclass(frozen=True, slots=True)
class ResolvedPolicy:
    """What is in force for one pod."""

    node_policy: NodePolicy
    device_policy: str
    order: OrderKind
    weights: Weights = (1.0, 1.0, 1.0)
    sources: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


class Policies:
    """Resolves the policy of a pod.

    Parameters
    ----------
    defaults
        The settings' part.
    """

    pod_annotations = (NODE_POLICY_ANNOTATION, DEVICE_POLICY_ANNOTATION, WEIGHTS_ANNOTATION)
    """The annotations of a pod that its policy depends on."""

    def __init__(self, defaults: PolicyDefaults) -> None:
        self._defaults = defaults

    def resolve(self, pod: Pod) -> ResolvedPolicy:
        """Return what is in force for the pod.

        Raises
        ------
        PolicyError
            If an annotation of the pod cannot be followed.
        """
        sources = {"nodes": "settings", "devices": "settings"}
        warnings: list[str] = []
        node_word = self._defaults.node_policy
        device_policy = self._defaults.device_policy
        if NODE_POLICY_ANNOTATION in pod.annotations:
            node_word = pod.annotations[NODE_POLICY_ANNOTATION]
            sources["nodes"] = "pod"
            if node_word not in _NODE_POLICIES:
                warnings.append(f"annotation {NODE_POLICY_ANNOTATION}: {node_word!r} is unknown, binpack is used")
        if DEVICE_POLICY_ANNOTATION in pod.annotations:
            device_policy = pod.annotations[DEVICE_POLICY_ANNOTATION]
            sources["devices"] = "pod"
            # A single word is compared as it stands: one with blanks around it orders like spread, so it is said.
            words = policy_words(device_policy) if "," in device_policy else (device_policy,)
            unknown = [word for word in words if word not in DEVICE_POLICIES]
            if unknown:
                warnings.append(f"annotation {DEVICE_POLICY_ANNOTATION}: {device_policy!r} has unknown words {unknown}")
        if TOPOLOGY in policy_words(device_policy):
            warnings.append(f"device policy {device_policy!r}: topology-aware is not supported, spread is used")
        if warnings and self._defaults.strict_annotations:
            raise PolicyError("; ".join(warnings))
        return ResolvedPolicy(
            node_policy=_NODE_POLICIES.get(node_word, NodePolicy.BINPACK),
            device_policy=device_policy,
            order=self._defaults.order,
            weights=_weights_of(pod),
            sources=sources,
            warnings=tuple(warnings),
        )


def _weights_of(pod: Pod) -> Weights:
    text = pod.annotations.get(WEIGHTS_ANNOTATION)
    if text is None:
        return (1.0, 1.0, 1.0)
    try:
        return parse_weights(text)
    except ValueError as error:
        raise PolicyError(f"annotation {WEIGHTS_ANNOTATION}: {error}") from None


def parse_weights(text: str) -> Weights:
    """Parse ``slot=1,core=1,memory=3``: all three names once, whole numbers of 0 or more, one at least above 0.

    Returns
    -------
    tuple
        The weights of slots, memory and cores, in the order of the device's dimensions.

    Raises
    ------
    ValueError
        If it is anything else.
    """
    found: dict[str, int] = {}
    for item in text.split(","):
        match = _WEIGHT.fullmatch(item)
        if not match or match[1] not in _WEIGHT_ORDER or match[1] in found:
            raise ValueError(f"{text!r} is not of the form slot=1,core=1,memory=1")
        found[match[1]] = int(match[2])
    if len(found) != len(_WEIGHT_ORDER) or not any(found.values()):
        raise ValueError(f"{text!r} must name slot, core and memory once each, one of them above 0")
    slot, memory, core = (float(found[name]) for name in _WEIGHT_ORDER)
    return (slot, memory, core)
