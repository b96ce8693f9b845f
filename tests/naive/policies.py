"""Which policies hold for a pod, in plain Python over the specs as they are written: each question is asked anew."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

Spec = dict[str, Any]

OVERRULED = {
    "nodes": {"nodePolicy"},
    "devices": {"devicePolicy", "deviceWeights", "deviceUUIDs", "numa"},
    "defaults": set[str](),
}
"""The words of a pod that an enforced section overrules."""


@dataclass(frozen=True)
class Written:
    """A policy as it is written; one of a namespace names it."""

    name: str
    spec: Spec
    namespace: str = ""

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"VGPUPolicy {self.namespace}/{self.name}" if self.namespace else f"ClusterVGPUPolicy {self.name}"

    def selects(self, namespace: str, labels: dict[str, str], of_namespace: dict[str, str]) -> bool:
        """Whether it is for a pod; selectors are of single labels."""
        if self.namespace and self.namespace != namespace:
            return False
        wanted = self.spec.get("selector", {}).get("matchLabels", {})
        around = self.spec.get("namespaceSelector", {}).get("matchLabels", {})
        return wanted.items() <= labels.items() and around.items() <= of_namespace.items()


@dataclass
class Holding:
    """What holds: the winner of each section, who else restricts cards, and which words of the pod are followed."""

    winners: dict[str, Written] = field(default_factory=dict)
    restricting: list[Spec] = field(default_factory=list)
    denied: set[str] = field(default_factory=set)
    limits: dict[str, int] = field(default_factory=dict)


WORDS = ("nodePolicy", "devicePolicy", "deviceWeights", "deviceTypes", "deviceUUIDs", "mode", "numa")


def ranked(policies: Iterable[Written]) -> list[Written]:
    """Namespaced before cluster, high before low priority, by name."""
    return sorted(policies, key=lambda p: (p.namespace == "", -p.spec.get("priority", 0), p.name))


def holding(policies: Sequence[Written]) -> Holding:
    """Return what holds of the policies that are for a pod."""
    found = Holding()
    order = ranked(policies)
    for section in ("nodes", "devices", "defaults"):
        setting = [p for p in order if section in p.spec]
        enforcing = [p for p in setting if section in p.spec.get("enforce", [])]
        if setting:
            found.winners[section] = (enforcing or setting)[0]
        if enforcing:
            found.denied |= OVERRULED[section]
    devices = [p for p in order if "devices" in p.spec]
    heard = [p for n, p in enumerate(devices) if n == 0 or not p.namespace]
    found.restricting = [p.spec["devices"] for p in heard]
    for number, policy in enumerate(p for p in order if "limits" in p.spec):
        if number == 0 or not policy.namespace:
            for name, most in policy.spec["limits"].items():
                found.limits[name] = min(most, found.limits.get(name, most))
    said = [p for p in order if "podOverrides" in p.spec]
    for number, policy in enumerate(said):
        if number == 0 or not policy.namespace:
            found.denied |= set(WORDS) - set(policy.spec["podOverrides"]["allow"])
    return found
