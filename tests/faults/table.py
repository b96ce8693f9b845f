"""All faults, in the order in which they are played."""

from __future__ import annotations

from tests.faults import (
    stories_install,
    stories_leaders,
    stories_nodes,
    stories_operator,
    stories_plugins,
    stories_pods,
    stories_preemption,
    stories_preemption_groups,
    stories_preemption_killed,
    stories_volumes,
    stories_watches,
    stories_writes,
)
from tests.faults.catalogue import Fault

FAULTS: tuple[Fault, ...] = (
    *stories_writes.FAULTS,
    *stories_pods.FAULTS,
    *stories_nodes.FAULTS,
    *stories_install.FAULTS,
    *stories_volumes.FAULTS,
    *stories_watches.FAULTS,
    *stories_plugins.FAULTS,
    *stories_operator.FAULTS,
    *stories_leaders.FAULTS,
    *stories_preemption.FAULTS,
    *stories_preemption_killed.FAULTS,
    *stories_preemption_groups.FAULTS,
)
