"""Where observations come from: kopf handlers for our pods, nodes and policies, light streams for the rest."""

from vgpu_scheduler.intake.admission import AdmissionEndpoint, AdmissionServer
from vgpu_scheduler.intake.kopf_source import KopfSource
from vgpu_scheduler.intake.policies import (
    PolicySource,
    list_all_namespaces,
    list_all_policies,
    list_all_quotas,
    policies_path,
)
from vgpu_scheduler.intake.reflector import PodReflector, list_all_nodes, list_all_pods
from vgpu_scheduler.intake.sink import Sink

__all__ = [
    "AdmissionEndpoint",
    "AdmissionServer",
    "KopfSource",
    "PodReflector",
    "PolicySource",
    "Sink",
    "list_all_namespaces",
    "list_all_nodes",
    "list_all_pods",
    "list_all_policies",
    "list_all_quotas",
    "policies_path",
]
