"""Scorers: pure functions that rank nodes."""

from vgpu_scheduler.scorers.base import CompiledScorer, NodeScorer, Workload
from vgpu_scheduler.scorers.binpack import DEFAULT_WEIGHTS, BinpackScorer
from vgpu_scheduler.scorers.deviceshare import (
    DOCUMENTED_SHARE_WEIGHTS,
    KOORDINATOR_SHARE_WEIGHTS,
    DeviceShareScorer,
)
from vgpu_scheduler.scorers.deviceshare_arguments import (
    DeviceShareArgumentError,
    ShareDefaults,
    deviceshare_arguments,
)
from vgpu_scheduler.scorers.fragmentation import FragmentationScorer
from vgpu_scheduler.scorers.hami import HamiScorer, NodePolicy
from vgpu_scheduler.scorers.plain import PlainScorer
from vgpu_scheduler.scorers.ranking import NodeRanking, WeightedScorer
from vgpu_scheduler.scorers.volcano_arguments import BinpackArguments, parse_binpack_arguments

__all__ = [
    "DEFAULT_WEIGHTS",
    "DOCUMENTED_SHARE_WEIGHTS",
    "KOORDINATOR_SHARE_WEIGHTS",
    "BinpackArguments",
    "BinpackScorer",
    "CompiledScorer",
    "DeviceShareArgumentError",
    "DeviceShareScorer",
    "FragmentationScorer",
    "HamiScorer",
    "NodePolicy",
    "NodeRanking",
    "NodeScorer",
    "PlainScorer",
    "ShareDefaults",
    "WeightedScorer",
    "Workload",
    "deviceshare_arguments",
    "parse_binpack_arguments",
]
