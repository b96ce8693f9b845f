"""Scorers: pure functions that rank nodes."""

from vgpu_scheduler.scorers.allocation import BIN_PACKING, AllocationRule, AllocationScorer
from vgpu_scheduler.scorers.base import CompiledScorer, NodeRanking, NodeScorer, ScoredPod, WeightedScorer
from vgpu_scheduler.scorers.binpack import (
    DEFAULT_WEIGHTS,
    BinpackArguments,
    BinpackScorer,
    ReadBinpackArguments,
)
from vgpu_scheduler.scorers.deviceshare import (
    DOCUMENTED_SHARE_WEIGHTS,
    KOORDINATOR_SHARE_WEIGHTS,
    DeviceShareScorer,
)
from vgpu_scheduler.scorers.fragmentation import FragmentationScorer
from vgpu_scheduler.scorers.hami import HamiScorer, NodePolicy
from vgpu_scheduler.scorers.images import ImageLocalityScorer
from vgpu_scheduler.scorers.plain import PlainScorer
from vgpu_scheduler.scorers.prices import LEAST_SEEN, RequestClass, learn_prices, same_prices

__all__ = [
    "BIN_PACKING",
    "DEFAULT_WEIGHTS",
    "DOCUMENTED_SHARE_WEIGHTS",
    "KOORDINATOR_SHARE_WEIGHTS",
    "LEAST_SEEN",
    "AllocationRule",
    "AllocationScorer",
    "BinpackArguments",
    "BinpackScorer",
    "CompiledScorer",
    "DeviceShareScorer",
    "FragmentationScorer",
    "HamiScorer",
    "ImageLocalityScorer",
    "NodePolicy",
    "NodeRanking",
    "NodeScorer",
    "PlainScorer",
    "ReadBinpackArguments",
    "RequestClass",
    "ScoredPod",
    "WeightedScorer",
    "learn_prices",
    "same_prices",
]
