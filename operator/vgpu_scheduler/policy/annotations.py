"""A pod's own annotations that override policies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from vgpu_scheduler.model import DEVICE_POLICIES, QUOTED, SPREAD, InputError, cut, policy_words, quoted
from vgpu_scheduler.scorers import NodePolicy

NODE_POLICY = "hami.io/node-scheduler-policy"
DEVICE_POLICY = "hami.io/gpu-scheduler-policy"
DEVICE_WEIGHTS = "hami.io/device-scoring-weights"

OVERRIDES = {"nodePolicy": NODE_POLICY, "devicePolicy": DEVICE_POLICY, "deviceWeights": DEVICE_WEIGHTS}
"""The word of ``podOverrides`` for each annotation; dialects add words for their own annotations."""

_NODE_POLICIES = {policy.value: policy for policy in NodePolicy}
_LONGEST_ORDER = 1024
"""The most characters of a card order; all known words together have fewer than a hundred."""
_WEIGHT_ORDER = ("slot", "memory", "core")
_WEIGHT = re.compile(r"\s*([a-z]+)\s*=\s*(\+?0*[0-9]{1,18})\s*")

DeviceWeights = tuple[float, float, float]
"""The weights of slots, memory and cores, in the order of the device's dimensions."""


class PolicyError(InputError):
    """A policy annotation is refused; the message names it."""


@dataclass(frozen=True, slots=True)
class PodAnnotationPolicy:
    """The policy in a pod's annotations; None where they say nothing."""

    node_policy: NodePolicy | None = None
    device_policy: str | None = None
    device_weights: DeviceWeights | None = None
    warnings: tuple[str, ...] = ()


def pod_annotation_policy(annotations: Mapping[str, str], *, strict: bool = False) -> PodAnnotationPolicy:
    """Parse the annotations; unknown words fall back as documented, with a warning.

    Parameters
    ----------
    strict
        Refuse unknown words instead.

    Raises
    ------
    PolicyError
        If the weights cannot be parsed, or a word is unknown under ``strict``.
    """
    warnings: list[str] = []
    node_word, device_policy = annotations.get(NODE_POLICY), annotations.get(DEVICE_POLICY)
    node_policy = None
    if node_word is not None:
        node_policy = _NODE_POLICIES.get(node_word, NodePolicy.BINPACK)
        if node_word not in _NODE_POLICIES:
            instead = _instead(NodePolicy.BINPACK.value, _NODE_POLICIES, strict=strict)
            warnings.append(f"annotation {NODE_POLICY}: {quoted(node_word)} is unknown{instead}")
    if device_policy is not None:
        device_policy, warning = _device_policy(device_policy, strict=strict)
        warnings += [warning] if warning else []
    weights = None
    if DEVICE_WEIGHTS in annotations:
        try:
            weights = parse_weights(annotations[DEVICE_WEIGHTS])
        except ValueError as error:
            raise PolicyError(f"annotation {DEVICE_WEIGHTS}: {error}") from None
    if warnings and strict:
        raise PolicyError(refused_as_strict(warnings))
    return PodAnnotationPolicy(node_policy, device_policy, weights, tuple(warnings))


def refused_as_strict(problems: Iterable[str]) -> str:
    """Return the refusal of a pod for what would only cause a warning without ``strict_annotations``."""
    return f"{'; '.join(problems)} (the pod is refused, because strict_annotations is on)"


def _instead(used: str, known: Iterable[str], *, strict: bool) -> str:
    """Say which word replaces an unknown one, or, if strict, which words are known."""
    return f": write {' or '.join(known)}" if strict else f", {used} is used"


def _device_policy(text: str, *, strict: bool) -> tuple[str, str]:
    """Return the card order to use, and a warning if it is not the requested one."""
    if len(text) > _LONGEST_ORDER:
        instead = _instead(SPREAD, DEVICE_POLICIES, strict=strict)
        return SPREAD, f"annotation {DEVICE_POLICY}: {quoted(text)} is too long{instead}"
    # A single word is compared unstripped: one with blanks around it orders like spread, and causes a warning.
    words = policy_words(text) if "," in text else (text,)
    unknown = [word for word in words if word not in DEVICE_POLICIES]
    if not unknown:
        return text, ""
    told = cut(", ".join(map(repr, unknown)), QUOTED)
    warning = f"annotation {DEVICE_POLICY}: {quoted(text)} has unknown words {told}"
    if strict:
        warning += _instead(SPREAD, DEVICE_POLICIES, strict=strict)
    # Words that are reserved for policy resources must not take effect here.
    return SPREAD if len(words) == 1 else text, warning


def parse_weights(text: str) -> DeviceWeights:
    """Parse ``slot=1,core=1,memory=3``: all three names once, whole numbers of 0 or more, one at least above 0.

    Returns
    -------
    tuple
        The weights of slots, memory and cores, in the order of the device's dimensions.

    Raises
    ------
    ValueError
        If the text is anything else.
    """
    found: dict[str, int] = {}
    for item in text.split(",", len(_WEIGHT_ORDER)):
        match = _WEIGHT.fullmatch(item)
        if not match or match[1] not in _WEIGHT_ORDER or match[1] in found:
            raise ValueError(f"{quoted(text)} is not of the form slot=1,core=1,memory=1")
        found[match[1]] = int(match[2])
    if len(found) != len(_WEIGHT_ORDER) or not any(found.values()):
        raise ValueError(f"{quoted(text)} must name slot, core and memory once each, one of them above 0")
    slot, memory, core = (float(found[name]) for name in _WEIGHT_ORDER)
    return (slot, memory, core)
