"""What kube-scheduler does differently from this scheduler, where golden cases show it."""

from __future__ import annotations

from enum import Enum


class KubernetesQuirk(Enum):
    """A difference; the value is its name in ``tests/vectors/deviations.toml``, which gives the reason."""

    PORT_FREED_BY_ANY_HOLDER = "kubernetes-port-freed-by-any-holder"
    ENDING_VICTIM_UNCOUNTED_TWICE = "kubernetes-ending-victim-uncounted-twice"
    REPRIEVES_AMONG_ALL_PRIORITIES = "kubernetes-reprieves-among-all-priorities"
