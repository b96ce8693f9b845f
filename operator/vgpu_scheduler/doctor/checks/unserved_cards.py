"""Checks for cards that nobody allocates here, and pods that ask for them, although everything looks fine."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_scheduler.doctor.check import Check
from vgpu_scheduler.doctor.doctor_input import DoctorInput
from vgpu_scheduler.doctor.findings import Diagnosis, Finding, ObjectRef, Severity
from vgpu_scheduler.engine import nodes_of_unlisted_dialects, offered_in_vain

NOT_LISTED = Diagnosis(
    "dialect-not-listed",
    Severity.WARNING,
    "Nodes carry the registration of another ecosystem's device plugin (Volcano's, Koordinator's or HAMi's), or pods of"
    " this scheduler ask for cards in its names, and the setting `dialects` does not list it. The scheduler "
    "then knows no cards on these nodes. To it, such pods ask for a plain extended resource and may be "
    "bound, but no card is chosen and their containers do not start.",
    "Add the dialect to the setting `dialects`, with the component of `manifests/` that has its name, or keep these"
    " nodes out of `managed_nodes`.",
)
NOT_REGISTERED = Diagnosis(
    "cards-not-registered",
    Severity.WARNING,
    "The node's kubelet offers a resource that stands for cards, but no device plugin has registered the "
    "cards, from which the scheduler chooses. This is so where a vendor's own plugin runs, such as "
    "NVIDIA's. Pods that ask for cards are not placed there: the node counts as unregistered. This is "
    "reported if no node has registered cards, and if a pod of this scheduler waits for such a resource; "
    "otherwise these nodes are assumed to belong to another scheduler.",
    "Run HAMi's device plugin on that node instead of the vendor's (or Volcano's, by the setting `dialects`), or keep"
    " the node out of `managed_nodes`.",
)


def unlisted(doctor_input: DoctorInput) -> Iterator[Finding]:
    """Find nodes and pods of dialects that are not listed in the settings."""
    engine = doctor_input.cluster_engine.engine
    for dialect, nodes in nodes_of_unlisted_dialects(engine).items():
        for name in nodes:
            message = f"it carries the registration of dialect {dialect}, which the settings do not list"
            yield NOT_LISTED.of(ObjectRef("Node", name), message, dialect)
    for pod in doctor_input.pods:
        if not pod.terminal and pod.scheduler_name in engine.scheduler_names:
            for dialect, names in engine.unlisted_dialects.of_requests(pod.spec.resource_names).items():
                asked = f"it asks for {', '.join(names)} of dialect {dialect}, which the settings do not list"
                yield NOT_LISTED.of(ObjectRef.of_pod(pod), asked, dialect)


def unregistered(doctor_input: DoctorInput) -> Iterator[Finding]:
    """Find nodes that offer card resources but list no cards, if no node lists any or a pod waits for them."""
    for name, offered in offered_in_vain(doctor_input.cluster_engine.engine, doctor_input.pods).items():
        message = f"its kubelet offers {', '.join(offered)}, but no device plugin has registered its cards"
        yield NOT_REGISTERED.of(ObjectRef("Node", name), message)


CHECKS = (
    Check("dialects", ("Node", "Pod"), (NOT_LISTED,), unlisted),
    Check("unregistered-cards", ("Node", "Pod"), (NOT_REGISTERED,), unregistered),
)
