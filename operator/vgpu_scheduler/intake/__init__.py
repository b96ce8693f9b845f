"""Where observations come from: kopf handlers for our pods and the nodes, light streams for everything else."""

from vgpu_scheduler.intake.kopf_source import KopfSource
from vgpu_scheduler.intake.reflector import PodReflector, list_all_nodes, list_all_pods
from vgpu_scheduler.intake.sink import Sink

__all__ = ["KopfSource", "PodReflector", "Sink", "list_all_nodes", "list_all_pods"]
