"""Nodes whose cards nobody gives out here, and pods that ask for such cards, though they look as if all was well."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_scheduler.doctor.check import Check
from vgpu_scheduler.doctor.cluster_snapshot import ClusterSnapshot
from vgpu_scheduler.doctor.findings import Diagnosis, Finding, ObjectRef, Severity
from vgpu_scheduler.engine import nodes_of_unlisted_dialects, offered_without_cards
from vgpu_scheduler.predicates import needs_scheduling

NOT_LISTED = Diagnosis(
    "dialect-not-listed",
    Severity.WARNING,
    "Nodes carry the registration of another ecosystem's device plugin (Volcano's, Koordinator's or HAMi's), or pods of"
    " this scheduler ask for cards in its names, and the setting `dialects` does not list it. The nodes have no cards"
    " here then. What such pods ask for is a plain resource, by which they may well be bound: no card is chosen, and"
    " their containers do not start.",
    "Add the dialect to the setting `dialects`, with the component of `manifests/` that has its name, or keep these"
    " nodes out of `managed_nodes`.",
)
NOT_REGISTERED = Diagnosis(
    "cards-not-registered",
    Severity.WARNING,
    "The node's kubelet offers a resource that stands for cards, and no device plugin has registered the cards by which"
    " a scheduler chooses them. So it is where a vendor's own plugin runs, such as NVIDIA's. Pods that ask for cards do"
    " not go there: to them the node is unregistered. This is said where no node has registered cards, and where a pod"
    " of this scheduler waits for such a resource: else these nodes are taken for another scheduler's.",
    "Run HAMi's device plugin on that node instead of the vendor's (or Volcano's, by the setting `dialects`), or keep"
    " the node out of `managed_nodes`.",
)


def unlisted(seen: ClusterSnapshot) -> Iterator[Finding]:
    """Find nodes and pods of dialects that are not in use."""
    engine = seen.cluster_engine.engine
    for dialect, nodes in nodes_of_unlisted_dialects(engine).items():
        for name in nodes:
            message = f"it carries the registration of dialect {dialect}, which the settings do not list"
            yield NOT_LISTED.of(ObjectRef("Node", name), message, dialect)
    for pod in seen.pods:
        if not pod.terminal and pod.scheduler_name in engine.scheduler_names:
            for dialect, names in engine.unlisted_dialects.of_requests(pod.spec.resource_names).items():
                asked = f"it asks for {', '.join(names)} of dialect {dialect}, which the settings do not list"
                yield NOT_LISTED.of(ObjectRef.of_pod(pod), asked, dialect)


def unregistered(seen: ClusterSnapshot) -> Iterator[Finding]:
    """Find nodes that offer cards and list none, if no node lists any or a pod waits for such cards here.

    Beside nodes that do, they may well be left to the vendor's plugin and to another scheduler.
    """
    names = seen.cluster_engine.engine.scheduler_names
    waiting = (pod for pod in seen.pods if needs_scheduling(pod) and pod.scheduler_name in names)
    asked = {name for pod in waiting for name in pod.spec.resource_names}
    for name, every in sorted(offered_without_cards(seen.cluster_engine.engine).items()):
        offered = [each for each in every if each in asked or not seen.nodes_with_devices]
        if not offered:
            continue
        message = f"its kubelet offers {', '.join(offered)}, and no device plugin has registered cards of it"
        yield NOT_REGISTERED.of(ObjectRef("Node", name), message)


CHECKS = (
    Check("dialects", ("Node", "Pod"), (NOT_LISTED,), unlisted),
    Check("unregistered-cards", ("Node", "Pod"), (NOT_REGISTERED,), unregistered),
)
